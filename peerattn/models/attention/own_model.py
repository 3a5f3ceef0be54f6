"""The firm's own model: what its own characteristics and codes say of the outcome, before any peer is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from peerattn.exceptions import InputError
from peerattn.models.attention.bounds import Bounds
from peerattn.models.attention.convex import minimised
from peerattn.models.attention.curves import Curves
from peerattn.models.attention.losses import (
    Loss,
    squared_error,
)
from peerattn.models.attention.own_effects import OwnEffects
from peerattn.models.pools import Rows, Section
from peerattn.processes import all_sum, mean_of

NAMES = ("additive", "linear", "none")  # own models that have a name


@dataclass(frozen=True)
class Shrinkage:
    """How far coefficients depart from those at a first penalty: ``(1 − f) b_first + f b_λ``.

    Attributes
    ----------
    first : float
        Penalty from which they depart: 0 is least squares; of curves ∞, a straight line in each characteristic.
    further : float
        λ, of the ridge regression towards which they depart.
    factor : float
        f, between 0 and 1.
    """

    first: float
    further: float = np.inf
    factor: float = 0.0

    @property
    def penalty(self) -> float:
        """The penalty that was found best: λ, or the first."""
        return self.further if self.factor else self.first

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the penalties whose coefficients are mixed, and the share of each."""
        share = np.array([1 - self.factor, self.factor])
        return np.array([self.first, self.further])[share > 0], share[share > 0]


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
    lines : Shrinkage
        Of b.
    curves : Curves or None
    bend : ndarray (q, K)
        c, by ridge regression beside b.
    bends : Shrinkage
        Of c.
    effects : OwnEffects or None
        Fixed effects; b and c are then the within estimator.
    """

    bounds: Bounds
    center: np.ndarray
    spread: np.ndarray
    slope: np.ndarray
    intercept: np.ndarray
    lines: Shrinkage
    curves: Curves | None
    bend: np.ndarray
    bends: Shrinkage
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
    rows: Rows,
    settings: OwnSettings,
    shrinkage: tuple[Shrinkage, Shrinkage],
    period: np.ndarray | None = None,
) -> Own:
    """Fit the own model on rows of known outcome, with this shrinkage of lines and curves where it is linear in them.

    ``period`` (n,) tells the rows' periods apart, where there are effects.
    """
    if isinstance(settings.own, str):
        return _fit_linear(rows, settings, *shrinkage, period)
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
    rows: Rows, settings: OwnSettings, lines: Shrinkage, bends: Shrinkage, period: np.ndarray | None
) -> LinearOwn:
    center, spread, z = standardised(rows)
    weight, width = row_weight(rows), z.shape[1]
    assert rows.y is not None
    penalties, share = bends.shares()
    curves = Curves.of(rows.x, weight) if np.isfinite(penalties).any() else None
    columns = np.zeros((len(rows), 0)) if curves is None else curves.columns(rows.x)
    seen, bent, y = absorbed(z, columns, rows, settings, period)
    found = sum(
        part * np.einsum("clk,l->ck", solutions(seen, at, bent, y, weight, settings, penalties), share)
        for at, part in zip(*lines.shares(), strict=True)
    )
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
        lines,
        curves,
        found[width:],
        bends,
    )
    return LinearOwn(*fit, effects)


def absorbed(
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


def standardised(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def solutions(
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


def of_period(own: Own, section: Section, pool: np.ndarray) -> np.ndarray:
    """Return what the effects of the period add to the own terms, (n_focal, K); ``pool`` are the own terms of the peers."""
    if not has_period_effects(own):
        return np.zeros((len(section.focal), 1))
    assert isinstance(own, LinearOwn) and own.effects is not None
    return own.effects.of_period(section, pool)[:, None]


def has_period_effects(own: Own) -> bool:
    """Tell whether the own term has effects that peers' outcomes of the period show."""
    return isinstance(own, LinearOwn) and own.effects is not None and bool(own.effects.of_periods)
