"""Bandwidths: the normal-reference rule, and choice by a criterion with gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.stats import qmc
from torch import Tensor

from peerattn.exceptions import InputError, did_you_mean
from peerattn.models.kernel.local_regression import Bandwidths, CodeKernel, LocalRegression, Points

NORMAL_REFERENCE = "normal_reference"
CRITERIA = ("cv_ls", "aic")
POINTS_TRIED = 8  # quasi-random points among which further starts are sought
FIRST_STEPS = 12  # of every start, before the best is followed
STREAMED, DENSE = 20_000_000, 2_000_000  # cells of a chunk, where the fit streams and where it holds arrays
FLAT_ENOUGH = 1e-6  # a flat bandwidth may cost this share of the criterion


@dataclass(frozen=True)
class Problem:
    """Rows to be predicted, and their pool.

    Attributes
    ----------
    points, y, identity
        The pool: (n,) rows; rows of one identity are never peers of each other.
    at : Tensor (m,) of int
        Positions of the rows to be predicted.
    """

    points: Points
    y: Tensor
    identity: Tensor
    at: Tensor


@dataclass(frozen=True)
class _Chunk:
    """Some rows of a problem, ready to be predicted; ``mask`` (m, n) says which peers are of another identity."""

    problem: Problem
    at: Tensor
    focal: Points
    y: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Choice:
    """Chosen bandwidths.

    Attributes
    ----------
    bandwidths : Bandwidths
        ``inf`` (and an unordered code's largest λ) where being flat costs the criterion nothing.
    criterion : float
    evaluations : int
    """

    bandwidths: Bandwidths
    criterion: float
    evaluations: int


def criterion_value(
    regression: LocalRegression, problems: Sequence[Problem], bandwidths: Bandwidths, criterion: str = "cv_ls"
) -> float:
    """Return the criterion of bandwidth selection.

    ``"cv_ls"``: the mean squared error of rows predicted from rows of other identities. ``"aic"``: ``log(σ²) + (1 + t) / (1 − t −
    2/n)``, with ``σ²`` the mean squared residual, own row in the pool, and ``t`` the mean weight a row puts on itself.

    References
    ----------
    Hurvich, C. M., Simonoff, J. S. and Tsai, C.-L. (1998), Smoothing parameter selection in nonparametric regression using an
    improved Akaike information criterion, Journal of the Royal Statistical Society B 60(2).
    """
    return _Sample(regression, problems, criterion).value(bandwidths)


def choose_bandwidths(
    regression: LocalRegression,
    problems: Sequence[Problem],
    start: Bandwidths,
    ranges: np.ndarray,
    *,
    criterion: str = "cv_ls",
    n_starts: int = 2,
) -> Choice:
    """Minimise a criterion by L-BFGS in log-bandwidths (and the logit of λ over its range).

    Starts are the given bandwidths and the best of eight quasi-random points around them; the best of the first steps is
    followed to its end. A bandwidth beyond the characteristic's range is set to infinity where that costs nothing.
    """
    map_, sample = _Parameters(regression, start), _Sample(regression, problems, criterion)
    evaluations = 0

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal evaluations
        evaluations += 1
        return sample.value_and_gradient(map_, theta)

    def value(bandwidths: Bandwidths) -> float:
        nonlocal evaluations
        evaluations += 1
        return sample.value(bandwidths)

    def descend(theta: np.ndarray, steps: int) -> tuple[float, np.ndarray]:
        options = {"maxiter": steps, "ftol": 1e-9, "gtol": 1e-7}
        found = minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=map_.bounds, options=options)
        return float(found.fun), found.x

    if not map_.size:
        return Choice(start, value(start), evaluations)
    starts = [np.zeros(map_.size)]
    if n_starts > 1:
        tried = qmc.scale(qmc.Sobol(map_.size, scramble=False).random(POINTS_TRIED), -1.5, 2.5)
        values = [value(map_.bandwidths(torch.from_numpy(theta))) for theta in tried]
        starts += [tried[k] for k in np.argsort(values, kind="stable")[: n_starts - 1]]
    first = [descend(theta, FIRST_STEPS if len(starts) > 1 else 200) for theta in starts]
    best = min(first, key=lambda found: found[0])
    if len(starts) > 1:
        best = min(best, descend(best[1], 200), key=lambda found: found[0])
    chosen = map_.bandwidths(torch.from_numpy(best[1]))
    chosen, least = _flattened(regression, chosen, ranges, best[0], value)
    return Choice(chosen, least, evaluations)


class _Parameters:
    """Free parameters: log-ratios to the start's h, and shifted logits of λ over its range; a flat start stays flat."""

    def __init__(self, regression: LocalRegression, start: Bandwidths) -> None:
        self.start = start
        self.free = torch.isfinite(start.h)
        self.most = start.mixing.new_tensor([kernel.most for kernel in regression.code_kernels])
        self.shift = torch.logit(start.mixing / self.most, eps=1e-3)
        self.n_h = int(self.free.sum())
        self.size = self.n_h + len(self.most)
        self.bounds = [(-5.0, 8.0)] * self.n_h + [(-12.0, 12.0)] * len(self.most)

    def bandwidths(self, theta: Tensor) -> Bandwidths:
        theta = theta.to(self.start.h.dtype)
        scaled = self.start.h[self.free] * theta[: self.n_h].exp()
        h = scaled if self.n_h == len(self.start.h) else self.start.h.masked_scatter(self.free, scaled)
        if not len(self.most):
            return Bandwidths(h, self.start.mixing)
        return Bandwidths(h, self.most * torch.sigmoid(self.shift + theta[self.n_h :]))


def _flattened(
    regression: LocalRegression, chosen: Bandwidths, ranges: np.ndarray, least: float, value: object
) -> tuple[Bandwidths, float]:
    """Set bandwidths to flat one by one, the widest first, where the criterion does not mind."""
    assert callable(value)
    slack = FLAT_ENOUGH * abs(least)
    ratio = (chosen.h / torch.as_tensor(ranges, dtype=chosen.h.dtype)).nan_to_num(nan=0.0, posinf=0.0)
    for column in ratio.argsort(descending=True).tolist():
        if ratio[column] > 1:
            h = chosen.h.clone()
            h[column] = torch.inf
            chosen, least = _if_no_worse(Bandwidths(h, chosen.mixing), chosen, least, slack, value)
    for column, kernel in enumerate(regression.code_kernels):
        if kernel.places is None and chosen.mixing[column] > 0.9 * kernel.most:
            mixing = chosen.mixing.clone()
            mixing[column] = kernel.most
            chosen, least = _if_no_worse(Bandwidths(chosen.h, mixing), chosen, least, slack, value)
    return chosen, least


def _if_no_worse(
    tried: Bandwidths, chosen: Bandwidths, least: float, slack: float, value: object
) -> tuple[Bandwidths, float]:
    assert callable(value)
    now = value(tried)
    return (tried, now) if now <= least + slack else (chosen, least)


# ---------------------------------------------------------------------- criteria


class _Sample:
    """The rows whose prediction the criterion judges, a chunk at a time; a small sample is kept ready."""

    def __init__(self, regression: LocalRegression, problems: Sequence[Problem], criterion: str) -> None:
        self.regression, self.problems, self.criterion = regression, problems, criterion
        self.n = sum(len(problem.at) for problem in problems)
        cells = sum(len(problem.at) * len(problem.points) for problem in problems)
        self.kept = list(self._chunks()) if cells <= DENSE else None

    def value(self, bandwidths: Bandwidths) -> float:
        with torch.no_grad():
            sums = sum(self._sums(chunk, bandwidths) for chunk in self.kept or self._chunks())
        assert isinstance(sums, Tensor)
        return float(_combined(sums, self.n, self.criterion))

    def value_and_gradient(self, map_: _Parameters, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return criterion and gradient: memory of one chunk."""
        leaf = torch.tensor(theta, requires_grad=True)
        total, slopes = None, None
        for chunk in self.kept or self._chunks():
            sums = self._sums(chunk, map_.bandwidths(leaf))
            parts = [
                torch.autograd.grad(part, leaf, retain_graph=True, allow_unused=True)[0] for part in sums
            ]
            gradient = torch.stack([torch.zeros_like(leaf) if part is None else part for part in parts])
            total = sums.detach() if total is None else total + sums.detach()
            slopes = gradient if slopes is None else slopes + gradient
        assert total is not None and slopes is not None
        if self.criterion == "cv_ls":
            return float(total[0]) / self.n, (slopes[0] / self.n).numpy()
        outer = total.clone().requires_grad_(True)
        value = _combined(outer, self.n, self.criterion)
        if not torch.isfinite(value):
            return 1e10, np.zeros(len(theta))
        (by_sums,) = torch.autograd.grad(value, outer)
        return float(value.detach()), (by_sums.to(slopes.dtype) @ slopes).numpy()

    def _chunks(self) -> Iterator[_Chunk]:
        cells = STREAMED if self.regression.streams and self.criterion == "cv_ls" else DENSE
        for problem in self.problems:
            step = max(1, cells // max(1, len(problem.points)))
            for at in problem.at.split(step):
                mask = problem.identity[at][:, None] != problem.identity
                yield _Chunk(problem, at, problem.points.take(at), problem.y[at], mask)

    def _sums(self, chunk: _Chunk, bandwidths: Bandwidths) -> Tensor:
        """Return the sum of squared errors (and, for AIC, of the weights rows put on themselves)."""
        pool, y = chunk.problem.points, chunk.problem.y
        if self.criterion == "cv_ls":
            fitted, _ = self.regression.fit(chunk.focal, pool, bandwidths, y[:, None], chunk.mask)
            return ((chunk.y - fitted[:, 0]) ** 2).sum()[None]
        W = self.regression.weights(chunk.focal, pool, bandwidths)
        return torch.stack([((chunk.y - W @ y) ** 2).sum(), W[torch.arange(len(chunk.at)), chunk.at].sum()])


def _combined(sums: Tensor, n: int, criterion: str) -> Tensor:
    if criterion == "cv_ls":
        return sums[0] / n
    error, trace = sums / n
    freedom = 1 - trace - 2 / n
    return torch.where(freedom > 0, error.log() + (1 + trace) / freedom, torch.inf)


# ---------------------------------------------------------------------- the rule of thumb


def normal_reference_bandwidth(
    x: np.ndarray, n: float | None = None, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return ``1.06 min(sd, IQR / 1.349) n^(−1/(4+p))`` for each column; ``inf`` for a constant column.

    Parameters
    ----------
    x : ndarray (n_rows, p)
    n : float, optional
        Size of the pool; by default the number of rows.
    weight : ndarray (n_rows,), optional
        Frequency weights.

    References
    ----------
    Silverman, B. W. (1986), Density Estimation for Statistics and Data Analysis, section 3.4.
    """
    if weight is not None:
        x = (
            np.repeat(x, weight.astype(int), axis=0)
            if np.all(weight == weight.astype(int))
            else x[weight > 0]
        )
    n = len(x) if n is None else n
    sd = x.std(axis=0, ddof=1) if len(x) > 1 else np.zeros(x.shape[1])
    iqr = np.subtract(*np.percentile(x, [75, 25], axis=0)) / 1.349
    spread = np.where(iqr > 0, np.minimum(sd, iqr), sd)
    h = 1.06 * spread * n ** (-1 / (4 + x.shape[1]))
    return np.where(h > 0, h, np.inf)


def reference_bandwidths(
    code_kernels: Sequence[CodeKernel], x: np.ndarray, n: float, weight: np.ndarray | None = None
) -> Bandwidths:
    """Return the rule of thumb for a pool of n rows: for codes ``λ = n^(−2/(4+p))``, at most half of its range.

    The rate is the one of the optimal λ (Li and Racine 2007, section 4.3); the constant is one.
    """
    p = x.shape[1]
    h = normal_reference_bandwidth(x, n, weight) if p else np.zeros(0)
    mixing = np.array([min(n ** (-2 / (4 + p)), kernel.most / 2) for kernel in code_kernels])
    return Bandwidths(torch.tensor(h), torch.tensor(mixing, dtype=torch.float64))


def given_bandwidths(given: Any, names: Sequence[str], reference: Bandwidths) -> Bandwidths:
    """Return the bandwidths a user asked for, and the reference's for the columns without one.

    ``given`` is ``"normal_reference"``, one number for all characteristics, an array (of characteristics, or of characteristics
    and codes) or a dict by column; ``names`` are the columns, characteristics first.
    """
    n_h, both = len(reference.h), torch.cat([reference.h, reference.mixing]).numpy()
    if isinstance(given, str):
        if given != NORMAL_REFERENCE:
            options = [NORMAL_REFERENCE, *CRITERIA]
            near = did_you_mean(given, options)
            raise InputError(
                f"bandwidth must be one of {options}, a number, an array or a dict, got {given!r}.{near}"
            )
    elif isinstance(given, Mapping):
        for name, value in given.items():
            if str(name) not in names:
                raise InputError(
                    f"bandwidth names {name!r}, which is no column used.{did_you_mean(str(name), names)}"
                )
            both[list(names).index(str(name))] = value
    else:
        values = np.asarray(given, dtype=float)
        if values.ndim > 1 or (values.ndim == 1 and values.size not in (n_h, len(both))):
            raise InputError(
                f"bandwidth has shape {values.shape}, but there are {n_h} characteristics and {len(both) - n_h} codes: give "
                "one number, one for each characteristic, or one for each and then for each code."
            )
        both[: values.size if values.ndim else n_h] = values
    h, mixing = both[:n_h], both[n_h:]
    if not (h > 0).all():
        raise InputError(f"bandwidth must be positive, got {h[~(h > 0)][0]:g}.")
    outside = ~((mixing >= 0) & (mixing <= 1))
    if outside.any():
        raise InputError(f"bandwidth of a code (λ) must be from 0 to 1, got {mixing[outside][0]:g}.")
    return Bandwidths(torch.tensor(h), torch.tensor(mixing))
