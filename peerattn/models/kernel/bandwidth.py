"""Bandwidths: the normal-reference rule, and choice by a criterion with gradients."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.stats import qmc
from torch import Tensor

from peerattn.exceptions import InputError, check_names, check_one_of, reworded
from peerattn.models.kernel.local_regression import Bandwidths, CodeKernel, LocalRegression, Points
from peerattn.panel.panel import LARGEST
from peerattn.scaling import ROUNDING

NORMAL_REFERENCE = "normal_reference"
CRITERIA = ("cv_ls", "aic")
POINTS_TRIED = 8  # quasi-random points among which further starts are sought
FIRST_STEPS = 12
MOST_STEPS = 200  # of every start, before the best is followed to its end
STREAMED = 20_000_000
DENSE = 2_000_000  # cells of a chunk, where the fit streams and where it holds arrays
BARRIER = 1e10  # in place of a criterion that is not finite
FLAT_ENOUGH = 1e-7  # share of the criterion that a limit may cost: what rounding leaves uncertain


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


def choose_bandwidths(
    regression: LocalRegression, problems: Sequence[Problem], start: Bandwidths, *, criterion: str = "cv_ls", n_starts: int = 2
) -> tuple[Bandwidths, float]:
    """Minimise a criterion by L-BFGS in log-bandwidths (and the logit of λ over its range), limits included.

    ``"cv_ls"``: the mean squared error of rows predicted from rows of other identities. ``"aic"``: ``log(σ²) + (1 + t) / (1 − t −
    2/n)``, with ``σ²`` the mean squared residual, own row in the pool, and ``t`` the mean weight a row puts on itself.

    Starts are the given bandwidths and the best of eight quasi-random points around them; the best of the first steps is
    followed to its end. Then every parameter is tried at its limits (an infinite h, the smallest and the largest λ), the others
    following, and stays there where the criterion is no worse: a flat criterion has its minimum at the limit, not where the
    rounding errors of a processor happen to end the search.

    Returns
    -------
    bandwidths : Bandwidths
        At its limits (``inf``, a code's smallest or largest λ) wherever the criterion is no worse there.
    criterion : float

    References
    ----------
    Hurvich, C. M., Simonoff, J. S. and Tsai, C.-L. (1998), Smoothing parameter selection in nonparametric regression using an
    improved Akaike information criterion, Journal of the Royal Statistical Society B 60(2).
    """
    search = _Search(start, regression, problems, criterion)
    theta = np.r_[np.where(torch.isfinite(start.h), 0.0, np.inf), np.zeros(len(start.mixing))]
    starts = [theta]
    free = np.isfinite(theta)
    if n_starts > 1 and free.any():
        points = qmc.scale(qmc.Sobol(int(free.sum()), scramble=False).random(POINTS_TRIED), -1.5, 2.5)
        starts += sorted((_changed(theta, free, point) for point in points), key=search.value)[: n_starts - 1]
    best = min((search.descend(each, FIRST_STEPS) for each in starts), key=lambda found: found[0])
    moved = None
    while moved is not best:
        best = search.descend((moved or best)[1], MOST_STEPS)
        moved = search.at_limits(best)
    return search.bandwidths(torch.from_numpy(best[1])), best[0]


def _changed(theta: np.ndarray, at: np.ndarray | int, values: np.ndarray | float) -> np.ndarray:
    """Return theta with these values at these places."""
    full = theta.copy()
    full[at] = values
    return full


class _Search:
    """A criterion as a function of points theta: log-ratios to the start's h, and logits of λ over its range, minus the start's.

    Infinite entries are the limits: a flat h, the smallest and the largest λ. Rows are predicted a chunk at a time.
    """

    def __init__(self, start: Bandwidths, regression: LocalRegression, problems: Sequence[Problem], criterion: str):
        self.regression = regression
        self.problems = problems
        self.criterion = criterion
        self.h = start.h
        self.most = start.mixing.new_tensor([kernel.most for kernel in regression.code_kernels])
        self.shift = torch.logit(start.mixing / self.most, eps=1e-3)

    def bandwidths(self, theta: Tensor) -> Bandwidths:
        p = len(self.h)
        return Bandwidths(self.h * theta[:p].exp(), self.most * torch.sigmoid(self.shift + theta[p:]))

    # ------------------------------------------------------------------ steps

    def descend(self, theta: np.ndarray, steps: int) -> tuple[float, np.ndarray]:
        """Return the least criterion found from a point, and where."""
        free = np.isfinite(theta)
        least = self.value(theta)
        if not free.any():
            return least, theta
        # L-BFGS stops by absolute falls: in units of the criterion, whatever the outcome's own
        unit = (abs(least) or 1.0) if np.isfinite(least) else BARRIER

        def objective(part: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.value_and_gradient(_changed(theta, free, part))
            if not np.isfinite(value):
                return BARRIER, np.zeros(len(part))
            return value / unit, gradient / unit

        bounds = np.array([(-5.0, 8.0)] * len(self.h) + [(-12.0, 12.0)] * len(self.most))[free]
        options = {"maxiter": steps, "ftol": 1e-10, "gtol": 1e-8}
        found = minimize(objective, theta[free], jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return float(found.fun) * unit, _changed(theta, free, found.x)

    def at_limits(self, best: tuple[float, np.ndarray]) -> tuple[float, np.ndarray]:
        """Move parameters to limits, the least costly first, where the criterion is no worse; return ``best`` if none is."""
        theta = best[1]
        flat = [(k, np.inf) for k in range(len(theta))]
        smallest = [(k, -np.inf) for k in range(len(self.h), len(theta))]  # of λ; an h of 0 has no peers
        limits = [(k, limit) for k, limit in flat + smallest if np.isfinite(theta[k])]
        for at, limit in sorted(limits, key=lambda one: self.value(_changed(theta, *one))):
            if not np.isfinite(best[1][at]):
                continue  # its other limit was taken
            no_worse = best[0] + FLAT_ENOUGH * abs(best[0])
            there = _changed(best[1], at, limit)
            found = (self.value(there), there)
            if found[0] > no_worse:
                found = self.descend(there, FIRST_STEPS)
            if found[0] <= no_worse:
                best = found
        return best

    # ------------------------------------------------------------------ the criterion

    def value(self, theta: np.ndarray) -> float:
        return float(self._combined(self._total(self.bandwidths(torch.from_numpy(theta)))))

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return criterion and gradient in the finite entries of theta: memory of one chunk."""
        full = torch.from_numpy(theta)
        leaf = full[full.isfinite()].requires_grad_()
        at = torch.ones(1)  # cv_ls is linear in its sum
        if self.criterion != "cv_ls":
            at = self._total(self.bandwidths(full))
        at = at.detach().double().requires_grad_()
        (outer,) = torch.autograd.grad(self._combined(at), at)
        total = torch.zeros_like(at)
        gradient = torch.zeros_like(leaf)
        for chunk in self._chunks():
            sums = self._sums(*chunk, self.bandwidths(full.masked_scatter(full.isfinite(), leaf)))
            (slope,) = torch.autograd.grad(sums @ outer, leaf, allow_unused=True, materialize_grads=True)
            total = total + sums.detach()
            gradient = gradient + slope
        return float(self._combined(total.detach())), gradient.numpy()

    def _total(self, bandwidths: Bandwidths) -> Tensor:
        with torch.no_grad():
            return torch.stack([self._sums(*chunk, bandwidths) for chunk in self._chunks()]).sum(dim=0)

    def _chunks(self) -> Iterator[tuple[Problem, Tensor]]:
        cells = STREAMED if self.regression.streams and self.criterion == "cv_ls" else DENSE
        for problem in self.problems:
            for at in problem.at.split(max(1, cells // max(1, len(problem.points)))):
                yield problem, at

    def _sums(self, problem: Problem, at: Tensor, bandwidths: Bandwidths) -> Tensor:
        """Return the sum of squared errors (and, for AIC, of the weights rows put on themselves)."""
        pool = problem.points
        y = problem.y
        focal = problem.points.take(at)
        if self.criterion == "cv_ls":
            mask = problem.identity[at][:, None] != problem.identity
            fitted, _ = self.regression.fit(focal, pool, bandwidths, y[:, None], mask)
            return ((y[at] - fitted[:, 0]) ** 2).sum()[None]
        W = self.regression.weights(focal, pool, bandwidths)
        return torch.stack([((y[at] - W @ y) ** 2).sum(), W[torch.arange(len(at)), at].sum()])

    def _combined(self, sums: Tensor) -> Tensor:
        n = sum(len(problem.at) for problem in self.problems)
        if self.criterion == "cv_ls":
            return sums[0] / n
        error, trace = sums / n
        freedom = 1 - trace - 2 / n
        return torch.where(freedom > 0, error.log() + (1 + trace) / freedom, torch.inf)


# ---------------------------------------------------------------------- the rule of thumb


def normal_reference_bandwidth(x: np.ndarray, n: float | None = None, weight: np.ndarray | None = None) -> np.ndarray:
    """Return ``1.06 min(sd, IQR / 1.349) n^(−1/(4+p))`` for each of the p columns that vary; ``inf`` for a constant column.

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
    counts = np.ones(len(x)) if weight is None else weight
    if np.any(counts != np.round(counts)):
        counts = (counts > 0).astype(float)
    total = counts.sum()
    mean = np.average(x, axis=0, weights=counts)
    sd = np.sqrt(counts @ (x - mean) ** 2 / max(total - 1, 1))
    sd = np.where(sd <= ROUNDING * np.abs(mean), 0.0, sd)
    iqr = np.array([np.subtract(*_quantiles(column, counts)) for column in x.T]).reshape(-1) / 1.349
    spread = np.where(iqr > 0, np.minimum(sd, iqr), sd)
    h = 1.06 * spread * (n or total) ** (-1 / (4 + np.count_nonzero(spread)))
    return np.where(h > 0, h, np.inf)


def reference_bandwidths(code_kernels: Sequence[CodeKernel], x: np.ndarray, n: float, weight: np.ndarray | None) -> Bandwidths:
    """Return the rule of thumb for a pool of n rows: for codes ``λ = n^(−2/(4+p))``, at most half of its range.

    The rate is the one of the optimal λ (Li and Racine 2007, section 4.3); the constant is one.
    """
    h = normal_reference_bandwidth(x, n, weight)
    p = np.count_nonzero(np.isfinite(h))  # constants are no dimensions
    mixing = np.array([min(n ** (-2 / (4 + p)), kernel.most / 2) for kernel in code_kernels])
    return Bandwidths(torch.tensor(h), torch.tensor(mixing, dtype=torch.float64))


def given_bandwidths(given: Any, names: Sequence[str], reference: Bandwidths) -> Bandwidths:
    """Return the bandwidths a user gave, and the reference's for the columns without one.

    ``given`` is ``"normal_reference"``, one number for all characteristics, an array (of characteristics, or of characteristics
    and codes) or a dict by column; ``names`` are the columns, characteristics first.
    """
    n_h = len(reference.h)
    both = torch.cat([reference.h, reference.mixing]).numpy()
    if isinstance(given, str):
        check_one_of(bandwidth=(given, [NORMAL_REFERENCE, *CRITERIA]))
    elif isinstance(given, Mapping):
        values = _numbers(given, list(given.values()))
        named = [str(name) for name in given]
        check_names("bandwidth", "column of the regression", named, names)
        both[[list(names).index(name) for name in named]] = values
    else:
        values = _numbers(given, given)
        if not values.ndim:  # one number for all characteristics
            values = np.full(n_h, values)
        if values.shape not in ((n_h,), (len(both),)):
            found = f"bandwidth has shape {values.shape}, but there are {n_h} characteristics and {len(both) - n_h} codes"
            raise InputError(f"{found}: give one number, one for each characteristic, or one for each and then for each code.")
        both[: values.size] = values
    h = both[:n_h]
    mixing = both[n_h:]
    if not (h > 0).all():
        raise InputError(f"bandwidth must be positive, got {h.min():g}.")
    if not (h >= 1 / LARGEST).all():
        raise InputError(f"bandwidth must be at least {1 / LARGEST:g}, got {h.min():g}: distances would overflow.")
    if not ((mixing >= 0) & (mixing <= 1)).all():
        raise InputError(f"bandwidth of a code (λ) must be from 0 to 1, got {mixing.tolist()}.")
    return Bandwidths(torch.tensor(h), torch.tensor(mixing))


def _numbers(given: Any, values: Any) -> np.ndarray:
    """Return the values of a bandwidth that was given as numbers."""
    with reworded(f"bandwidth must be a number, an array or a dict of numbers, got {given!r}", kinds=(TypeError, ValueError)):
        return np.asarray(values, dtype=float)


def _quantiles(x: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the upper and the lower quartile of values with these counts, between neighbours as numpy does."""
    order = np.argsort(x)
    up_to = np.cumsum(counts[order])
    at = np.array([0.75, 0.25]) * (up_to[-1] - 1)
    low, high = (x[order][np.searchsorted(up_to, rank, side="right")] for rank in (np.floor(at), np.ceil(at)))
    return np.asarray(low + (high - low) * (at - np.floor(at)))
