"""The firm's own model: what its own characteristics and codes say of the outcome, before any peer is looked at."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from peerattn.exceptions import InputError
from peerattn.models.attention.bounds import Bounds
from peerattn.models.attention.convex import minimised
from peerattn.models.attention.curves import Curves
from peerattn.models.attention.losses import (
    Loss,
    shown,
    squared_error,
    working_residual,
)
from peerattn.models.attention.own_effects import OwnEffects
from peerattn.models.pools import Rows, Section, of_each
from peerattn.processes import all_sum, completed, gathered, joined, mean_of

BLOCKS = 5  # of periods (of rows, on arrays), over which the own model is cross-fitted
PENALTIES = np.r_[0.0, np.logspace(0, 6, 13), np.inf]  # of the ridge, in numbers of rows; ∞ is the mean
ERRORS = 2.0  # standard errors by which a ridge or curves must beat least squares over held-out folds
NAMES = ("additive", "linear", "none")  # own models that have a name


@dataclass(frozen=True)
class LinearOwn:
    """``own_i = a + z_i'b + s(x_i)'c`` with standardised characteristics z and, where they help, their curves s.

    Attributes
    ----------
    bounds : Bounds
        How far lines are extrapolated.
    center, spread : ndarray (p,)
        Mean and standard deviation of the training rows.
    slope : ndarray (p, K)
    intercept : ndarray (K,)
    penalty : float
        λ of the ridge on b; 0 is least squares, ∞ the mean.
    curves : Curves or None
    bend : ndarray (q, K)
        c, by ridge regression beside b.
    bend_penalty : float
        λ of the ridge on c; ∞ is a straight line in each characteristic.
    effects : OwnEffects or None
        Fixed effects; b and c are then the within estimator.
    """

    bounds: Bounds
    center: np.ndarray
    spread: np.ndarray
    slope: np.ndarray
    intercept: np.ndarray
    penalty: float
    curves: Curves | None
    bend: np.ndarray
    bend_penalty: float
    effects: OwnEffects | None = None

    def predict(self, rows: Rows) -> np.ndarray:
        """Return the own term of every row, (n, K); of effects, those that last."""
        z = (self.bounds.clip(rows.x) - self.center) / self.spread
        fitted: np.ndarray = z @ self.slope + self.intercept
        if self.effects is not None:
            fitted = fitted + self.effects.known(rows)[:, None]
        return fitted if self.curves is None else fitted + self.curves.columns(rows.x) @ self.bend


@dataclass(frozen=True)
class EstimatorOwn:
    """A scikit-learn estimator on characteristics, missing-indicators and one column a level of each code."""

    estimator: Any
    code_levels: tuple[int, ...]
    n_outputs: int

    def predict(self, rows: Rows) -> np.ndarray:
        """Return the own term of every row, (n, K): predictions, or log odds of a classifier."""
        inputs = with_levels(rows, self.code_levels)
        if not len(inputs):
            return np.zeros((0, self.n_outputs))
        if not is_classifier(self.estimator):
            return np.asarray(self.estimator.predict(inputs), dtype=float).reshape(len(inputs), -1)
        probability = np.zeros((len(inputs), max(self.n_outputs, 2)))  # a fold may lack a class
        probability[:, self.estimator.classes_.astype(int)] = self.estimator.predict_proba(inputs)
        log = np.log(np.clip(probability, 1e-6, None))
        return log[:, 1:] - log[:, :1] if self.n_outputs == 1 else log


Own = LinearOwn | EstimatorOwn


@dataclass(frozen=True)
class OwnSettings:
    """The option ``own``, the loss and its number of outputs, how many levels each code has, whether rows are dated, effects."""

    own: Any
    loss: Loss
    n_outputs: int
    code_levels: tuple[int, ...]
    dated: bool
    effects: OwnEffects | None = None


def with_levels(rows: Rows, code_levels: Sequence[int]) -> np.ndarray:
    """Return characteristics followed by one column a level of each code (all zero where it is unknown), (n, p)."""
    levels = [np.eye(n + 1)[rows.codes[:, c]][:, 1:] for c, n in enumerate(code_levels)]
    return np.concatenate([rows.x, *levels], axis=1)


def fit_own(
    rows: Rows, settings: OwnSettings, penalties: tuple[float, float], period: np.ndarray | None = None
) -> Own:
    """Fit the own model on rows of known outcome, with these penalties on lines and curves where it is linear in them.

    ``period`` (n,) tells the rows' periods apart, where there are effects.
    """
    if isinstance(settings.own, str):
        return _fit_linear(rows, settings, *penalties, period)
    estimator = clone(settings.own)
    weighs = rows.loss_weight is not None
    if weighs and not has_fit_parameter(estimator, "sample_weight"):
        raise InputError(
            f"own: {type(estimator).__name__} takes no sample_weight, but weights were given: use one that does."
        )
    inputs = with_levels(rows, settings.code_levels)
    estimator.fit(inputs, rows.y, **({"sample_weight": rows.loss_weight} if weighs else {}))
    return EstimatorOwn(estimator, settings.code_levels, settings.n_outputs)


def _fit_linear(
    rows: Rows, settings: OwnSettings, penalty: float, bend_penalty: float, period: np.ndarray | None
) -> LinearOwn:
    center, spread, z = _standardised(rows)
    weight, width = row_weight(rows), z.shape[1]
    assert rows.y is not None
    bent = np.isfinite(bend_penalty)
    curves = Curves.of(rows.x, weight) if bent else None
    columns = np.zeros((len(rows), 0)) if curves is None else curves.columns(rows.x)
    seen, bends, y = _absorbed(z, columns, rows, settings, period)
    found = _solutions(seen, penalty, bends, y, weight, settings, np.array([bend_penalty]))[:, 0]
    intercept, effects = found[0], settings.effects
    if effects is not None:
        assert period is not None
        left = rows.y - z[:, 1:] @ found[1:width, 0] - columns @ found[width:, 0]
        mean, effects = effects.estimated(left, rows, period)
        intercept = np.array([mean])
    fit = (
        Bounds.of([rows.x]),
        center,
        spread,
        found[1:width],
        intercept,
        float(penalty),
        curves,
        found[width:],
        float(bend_penalty),
    )
    return LinearOwn(*fit, effects)


def _absorbed(
    fixed: np.ndarray, free: np.ndarray, rows: Rows, settings: OwnSettings, period: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return fixed columns, of which the first is the constant, free columns, and outcomes, net of effects."""
    assert rows.y is not None
    if settings.effects is None:
        return fixed, free, rows.y
    assert period is not None
    table = settings.effects.absorbed(np.column_stack([fixed[:, 1:], free, rows.y]), rows, period)
    width = fixed.shape[1] - 1
    return np.column_stack([fixed[:, :1], table[:, :width]]), table[:, width:-1], table[:, -1]


def _standardised(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean and standard deviation of the characteristics, and [1, z], (n, p + 1)."""
    weight = row_weight(rows)
    center = mean_of(rows.x, weight)
    spread = np.sqrt(mean_of((rows.x - center) ** 2, weight))
    spread = np.where(
        spread <= 1e-12 * (1 + np.abs(center)), np.inf, spread
    )  # a constant column says nothing
    return center, spread, np.column_stack([np.ones(len(rows)), (rows.x - center) / spread])


def row_weight(rows: Rows) -> np.ndarray:
    """Return the weight of every row in the loss."""
    return np.ones(len(rows)) if rows.loss_weight is None else rows.loss_weight


def best_penalties(
    rows: Rows, fold: np.ndarray, settings: OwnSettings, period: np.ndarray | None = None
) -> tuple[float, float]:
    """Return the penalties on lines and, given that, on curves of least loss over held-out folds.

    Ridge regression replaces least squares, and curves lines, where they lower the loss by two standard errors, clustered by
    firm (on arrays by row): as the rule of Breiman et al. (1984), with two errors for one. Effects are absorbed first,
    over all rows.
    """
    if not (isinstance(settings.own, str) and settings.own != "none" and rows.x.shape[1]):
        return np.inf, np.inf
    # separable classes have no estimate without a penalty, and cost more to fit
    every = slice(None) if settings.loss is squared_error else slice(1, -1, 2)
    path = PENALTIES[every]
    finite = path[(path > 0) & np.isfinite(path)]
    if len(_distinct(fold)) < 2:
        return float(path[0]), np.inf
    z = _standardised(rows)[2]
    bends = settings.own == "additive"
    curves = Curves.of(rows.x, row_weight(rows)).columns(rows.x) if bends else np.zeros((len(rows), 0))
    z, curves, y = _absorbed(z, curves, rows, settings, period)
    rows = replace(rows, y=y)
    penalty = _best(z[:, :1], 0.0, z[:, 1:], rows, fold, settings, path)
    if not bends:
        return penalty, np.inf
    return penalty, _best(z, penalty, curves, rows, fold, settings, np.r_[np.inf, finite[::-1]])


def _best(
    fixed: np.ndarray,
    fixed_penalty: float,
    free: np.ndarray,
    rows: Rows,
    fold: np.ndarray,
    settings: OwnSettings,
    penalties: np.ndarray,
) -> float:
    """Return the penalty on the free columns of least held-out loss, where it beats the first one by two standard errors."""
    weight, columns = row_weight(rows), np.concatenate([fixed, free], axis=1)
    assert rows.y is not None
    losses = np.empty((len(rows), len(penalties)))
    for f in _distinct(fold):
        rest, at = fold != f, fold == f
        found = _solutions(
            fixed[rest], fixed_penalty, free[rest], rows.y[rest], weight[rest], settings, penalties
        )
        for k in range(len(penalties)):
            y = torch.as_tensor(rows.y[at])
            losses[at, k] = settings.loss(torch.as_tensor(columns[at] @ found[:, k]), y).numpy()
    excess = losses - losses[:, [int(np.argmin(all_sum(weight @ losses)))]]
    by_firm = _sums_by(firm_keys(rows, settings.dated), weight[:, None] * excess)
    error = by_firm.std(axis=0) * np.sqrt(len(by_firm))
    return float(penalties[np.argmax(by_firm.sum(axis=0) <= ERRORS * error)])


def _distinct(fold: np.ndarray) -> np.ndarray:
    """Return the folds that the rows of all processes fall into."""
    return np.unique(np.concatenate(gathered(np.unique(fold))))


def _sums_by(keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the sum of the rows (n, k) of each key, over the rows of all processes."""
    at, names = pd.factorize(keys)
    sums = np.stack([np.bincount(at, column, len(names)) for column in rows.T], axis=1)
    if not joined():
        return sums
    every, parts = zip(*gathered((names, sums)), strict=True)
    at = pd.factorize(np.concatenate(every))[0]
    return np.stack([np.bincount(at, column) for column in np.concatenate(parts).T], axis=1)


def _solutions(
    fixed: np.ndarray,
    fixed_penalty: float,
    free: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    settings: OwnSettings,
    penalties: np.ndarray,
) -> np.ndarray:
    """Return the coefficients of fixed and free columns at every penalty on the latter, (a + q, penalties, K).

    The first fixed column is the constant, which is not penalised. For squared errors the fixed columns are partialled out
    (Frisch and Waugh 1933); for other losses their coefficients are found first and then kept.
    """
    a, q = fixed.shape[1], free.shape[1]
    if settings.loss is not squared_error:
        base = minimised(fixed, y, weight, settings.loss, settings.n_outputs, fixed_penalty)
        found = np.zeros((a + q, len(penalties), settings.n_outputs))
        columns, offset = np.concatenate([fixed[:, :1], free], axis=1), fixed @ base
        more = None
        for k in np.argsort(penalties)[::-1] if q else ():  # from the largest on, each from the one before
            penalty = float(penalties[k])
            more = minimised(columns, y, weight, settings.loss, settings.n_outputs, penalty, offset, more)
            found[0, k], found[a:, k] = more[0], more[1:]
        found[:a] += base[:, None]
        return found
    kept = slice(0, 1 if np.isinf(fixed_penalty) else a)
    W = fixed[:, kept]
    light = np.r_[0.0, np.full(W.shape[1] - 1, fixed_penalty)]
    inverse = np.linalg.pinv(all_sum((W.T * weight) @ W) + np.diag(light), rcond=1e-10, hermitian=True)
    onto = inverse @ (W.T * weight)  # (a, n)
    of_free, of_y = all_sum(onto @ free), all_sum(onto @ y)
    values, vectors = np.linalg.eigh(all_sum((free.T * weight) @ (free - W @ of_free)))
    moment = vectors.T @ all_sum((free.T * weight) @ (y - W @ of_y))
    usable = values > 1e-10 * max(values.max(initial=0.0), 1e-300)  # collinear columns share their slope
    slopes = vectors @ ((usable * moment)[:, None] / (np.where(usable, values, 1.0)[:, None] + penalties))
    lines = np.zeros((a, len(penalties)))
    lines[kept] = of_y[:, None] - of_free @ slopes
    return np.concatenate([lines, slopes])[..., None]


# ---------------------------------------------------------------- cross-fitting


def folds_of(sections: Sequence[Section], n_folds: int = BLOCKS) -> list[np.ndarray]:
    """Return the fold of every focal row of every cross-section: blocks of periods; of one cross-section, rows by content.

    Copies of a row fall into one fold, in whatever order rows come, so that a frequency weight equals repeated rows.
    """
    if len(sections) == 1:
        return [row_keys(sections[0].focal) % n_folds]
    blocks = np.array_split(np.arange(len(sections)), min(n_folds, len(sections)))
    block = np.repeat(np.arange(len(blocks)), [len(b) for b in blocks])
    return [np.full(len(section.focal), f) for section, f in zip(sections, block, strict=True)]


def row_keys(rows: Rows) -> np.ndarray:
    """Return a checksum of each row's numbers (rounded: copies may differ in the last bit), (n,)."""
    numbers = np.ascontiguousarray(np.round(rows.x, 6) + 0.0)
    return np.array([zlib.crc32(row.tobytes()) for row in numbers])


def firm_keys(rows: Rows, dated: bool) -> np.ndarray:
    """Return what standard errors are clustered by: the firm (or its group); on arrays the row, copies together."""
    return rows.owner.to_numpy(dtype=object) if dated else row_keys(rows)


def count_rows(sections: Sequence[Section]) -> float:
    """Return the number of focal rows; a frequency weight on arrays counts as so many."""
    copies = sections[0].period is None
    return float(sum(row_weight(s.focal).sum() if copies else len(s.focal) for s in sections))


def stacked_rows(sections: Sequence[Section]) -> Rows:
    """Return the focal rows of all cross-sections, one after another."""
    rows = [section.focal for section in sections]
    both: Any = lambda name: (  # noqa: E731
        None if getattr(rows[0], name) is None else np.concatenate([getattr(r, name) for r in rows])
    )
    label = rows[0].label.append([r.label for r in rows[1:]])
    owner = rows[0].owner.append([r.owner for r in rows[1:]])
    return Rows(
        both("x"),
        both("codes"),
        both("y"),
        both("weight"),
        both("identity"),
        label,
        owner,
        both("loss_weight"),
    )


@dataclass(frozen=True)
class Block:
    """Cross-sections, and what is predicted of them so far.

    Attributes
    ----------
    sections : list of Section
        Outcomes in units of training.
    offset : list of ndarray (n_focal, K)
        Prediction of every focal row so far: the own term, then what parts add.
    own : list of ndarray (n_focal, K)
        Own term of every focal row.
    pool : list of ndarray (n_peers, K)
        Own term of every peer.
    """

    sections: list[Section]
    offset: list[np.ndarray]
    own: list[np.ndarray]
    pool: list[np.ndarray]

    @classmethod
    def of(cls, own: Own, sections: Sequence[Section]) -> Block:
        """Return what a fitted own model says of cross-sections."""
        terms = of_each(sections, lambda section: (own.predict(section.focal), own.predict(section.peers)))
        focal, pool = [list(part) for part in zip(*terms, strict=True)] if terms else ([], [])
        return cls(list(sections), focal, focal, pool).from_effects(own)

    def from_effects(self, own: Own) -> Block:
        """Return the block with predictions of the own terms and the effects of their periods."""
        if not has_period_effects(own):
            return self
        each = zip(self.own, self.sections, self.pool, strict=True)
        return replace(self, offset=[term + of_period(own, section, pool) for term, section, pool in each])

    def residuals(self, loss: Loss, *, outcomes: bool) -> list[Section]:
        """Return cross-sections whose targets are what is left to explain, and whose peers show what their own models leave."""
        found = []
        for section, offset, own, pool in zip(self.sections, self.offset, self.own, self.pool, strict=True):
            assert section.focal.y is not None
            focal = replace(section.focal, y=working_residual(loss, offset, section.focal.y))
            peers = peers_shown(section.peers, pool, loss, outcomes)
            found.append(replace(section, focal=focal, peers=peers, own=(own[:, 0], pool[:, 0])))
        return found

    def at_own(self) -> Block:
        """Return the block before any part was added."""
        return replace(self, offset=self.own)

    def plus(self, additions: Sequence[np.ndarray], factor: float) -> Block:
        """Return the block with a part's additions in its predictions."""
        moved = [o + factor * a for o, a in zip(self.offset, additions, strict=True)]
        return replace(self, offset=moved)


def of_period(own: Own, section: Section, pool: np.ndarray) -> np.ndarray:
    """Return what the effects of the period add to the own terms, (n_focal, K); ``pool`` are the own terms of the peers."""
    if not has_period_effects(own):
        return np.zeros((len(section.focal), 1))
    assert isinstance(own, LinearOwn) and own.effects is not None
    return own.effects.of_period(section, pool)[:, None]


def has_period_effects(own: Own) -> bool:
    """Tell whether the own term has effects that peers' outcomes of the period show."""
    return isinstance(own, LinearOwn) and own.effects is not None and bool(own.effects.of_periods)


def peers_shown(peers: Rows, pool: np.ndarray, loss: Loss, outcomes: bool) -> Rows:
    """Return peers as parts see them: their outcomes, where they are read, beyond their own models."""
    y = shown(loss, pool, peers.y) if outcomes and peers.y is not None else None
    return replace(peers, y=y)


def cross_fit(sections: Sequence[Section], settings: OwnSettings) -> tuple[Own, Block]:
    """Fit the own model; return it with the out-of-fold terms of all rows (Chernozhukov et al. 2018).

    In sample a flexible own model leaves too little, and what is left out of sample would be mistaken for peers.
    """
    here, folds = [section.here for section in sections], folds_of(sections)
    rows = stacked_rows([section for section in sections if section.here])
    fold = np.concatenate([f for f, mine in zip(folds, here, strict=True) if mine])
    period = np.repeat(np.flatnonzero(here), [len(f) for f, mine in zip(folds, here, strict=True) if mine])
    penalties = best_penalties(rows, fold, settings, period)
    own = fit_own(rows, settings, penalties, period)
    block = Block.of(own, sections)
    distinct = _distinct(fold)
    if len(distinct) == 1 or _is_constant(settings.own):
        return own, block
    for f in distinct:
        rest = fold != f
        without = fit_own(rows.take(rest), settings, penalties, period[rest])
        for k, section in enumerate(sections):
            if not section.here:
                continue
            at, mine = folds[k] == f, _peers_in_fold(section, folds[k], f)
            if at.any():
                block.own[k][at] = without.predict(section.focal.take(at))
            if mine.any():
                block.pool[k][mine] = without.predict(section.peers.take(mine))
    term, pool = (
        completed([each if mine else None for each, mine in zip(part, here, strict=True)])
        for part in (block.own, block.pool)
    )
    return own, Block(block.sections, term, term, pool).from_effects(own)


def _is_constant(own: Any) -> bool:
    return isinstance(own, str) and own == "none"


def _peers_in_fold(section: Section, fold: np.ndarray, f: int) -> np.ndarray:
    """Return which peers are held out with this fold: those of the period; on arrays those of the same row."""
    if (fold == fold[0]).all():
        return np.full(len(section.peers), fold[0] == f)
    return fold == f if same_rows(section) else np.zeros(len(section.peers), dtype=bool)


def same_rows(section: Section) -> bool:
    """Tell whether focal rows and peers are the same rows in the same order, as on arrays."""
    return len(section.peers) == len(section.focal) and np.shares_memory(section.peers.x, section.focal.x)
