"""Own characteristics (linear): least squares on the firm's own characteristics, from which every other candidate departs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.optimize import minimize

from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.losses import Loss, gradient, loss_of, squared_error
from peerattn.scaling import ROUNDING

CLIP = 4.0  # standard deviations that a characteristic or a past outcome counts for at most


@dataclass(frozen=True)
class Bounds:
    """The training range of each characteristic, extended by its own length on both sides.

    A value beyond them counts as the bound: lines are extrapolated to where a trend may lead, not to where only a ratio with a
    denominator near zero does. Training rows are never changed.

    Attributes
    ----------
    low, high : ndarray (p,)

    Examples
    --------
    >>> Bounds.of([np.array([[0.0], [2.0]])]).clip(np.array([[3.0], [900.0], [-5.0]])).tolist()
    [[3.0], [4.0], [-2.0]]
    """

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, blocks: Iterable[np.ndarray]) -> Self:
        """Return the bounds that these blocks of training rows, (n, p) each, set."""
        rows = np.concatenate(list(blocks))
        low = rows.min(axis=0, initial=np.inf)
        high = rows.max(axis=0, initial=-np.inf)
        return cls(low - (high - low), high + (high - low))

    def clip(self, x: np.ndarray) -> np.ndarray:
        """Return the rows, (n, p), no value beyond its bound."""
        return x.clip(self.low, self.high)


def stacked_rows(sections: Sequence[CrossSection]) -> Rows:
    """Return the focal rows of the sections, one after another."""
    return Rows.stacked([section.focal for section in sections])


def by_section(values: np.ndarray, sections: Sequence[CrossSection]) -> list[np.ndarray]:
    """Return the values (n, ...) of the focal rows of the sections, split by section."""
    return np.split(values, np.cumsum([len(section.focal) for section in sections])[:-1])


@dataclass(frozen=True)
class Lines:
    """``ols_i = a + z_i b`` with standardised characteristics z, extrapolated within bounds.

    Attributes
    ----------
    bounds : Bounds
    center, spread : ndarray (p,)
        Mean and standard deviation of the training rows; ∞ for a constant column.
    slope : ndarray (p, K)
    intercept : ndarray (K,)
    """

    bounds: Bounds
    center: np.ndarray
    spread: np.ndarray
    slope: np.ndarray
    intercept: np.ndarray

    def predict(self, rows: Rows) -> np.ndarray:
        """Return the own term of every row, (n, K)."""
        fitted: np.ndarray = ((self.bounds.clip(rows.x) - self.center) / self.spread) @ self.slope
        return fitted + self.intercept


def fit_lines(sections: Sequence[CrossSection], loss: Loss, n_outputs: int, *, none: bool = False) -> Lines:
    """Fit the linear own part to the focal rows: least squares, or the least convex loss; ``none``: zero."""
    rows = stacked_rows(sections)
    weight = rows.loss_weights
    p = rows.x.shape[1]
    center = np.average(rows.x, axis=0, weights=weight)
    spread = np.sqrt(np.average((rows.x - center) ** 2, axis=0, weights=weight))
    spread = np.where(spread > ROUNDING * np.abs(center), spread, np.inf)  # a constant column predicts nothing
    bounds = Bounds.of([rows.x])
    if none:
        return Lines(bounds, center, spread, np.zeros((p, n_outputs)), np.zeros(n_outputs))
    z = np.column_stack([np.ones(len(rows)), (rows.x - center) / spread])
    if loss is squared_error:
        found = least_squares(z, rows.outcomes, weight)[:, None]
    else:
        found = _convex(z, rows.outcomes, weight, loss, n_outputs)
    return Lines(bounds, center, spread, found[1:], found[0])


def least_squares(z: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return coefficients of least weighted squares (p,), the shortest where columns are collinear."""
    inverse = np.linalg.pinv((z.T * weight) @ z, rcond=1e-10, hermitian=True)
    return np.asarray(inverse @ ((z.T * weight) @ y))


def fit_best_line(sections: Sequence[CrossSection]) -> Lines | None:
    """Return the line on the one characteristic that predicts the focal rows' outcome best; None without characteristics."""
    rows = stacked_rows(sections)
    none = fit_lines(sections, squared_error, 1, none=True)
    if not rows.x.shape[1]:
        return None
    weight = rows.loss_weights / rows.loss_weights.sum()
    level = float(weight @ rows.outcomes)
    z = (rows.x - none.center) / none.spread  # of unit variance, so that the steepest line predicts most
    slope = z.T @ (weight * (rows.outcomes - level))
    slope[np.arange(len(slope)) != np.abs(slope).argmax()] = 0
    return replace(none, slope=slope[:, None], intercept=np.array([level]))


def _convex(z: np.ndarray, y: np.ndarray, weight: np.ndarray, loss: Loss, n_outputs: int) -> np.ndarray:
    """Return the coefficients of least loss, (p, K), with a ridge of 1e-6 a row; y is in standard deviations, or classes."""
    shape = (z.shape[1], n_outputs)
    total = float(weight.sum())
    # light enough to move nothing, and a least loss exists where classes are separable; the constant goes without
    light = np.full(shape, 1e-6)
    light[0] = 0

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        b = flat.reshape(shape)
        at = z @ b
        slope = z.T @ (gradient(loss, at, y) * weight[:, None]) / total + 2 * light * b
        return float((loss_of(loss, at, y) * weight).sum() / total + (light * b**2).sum()), slope.ravel()

    found = minimize(value, np.zeros(light.size), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(found.x).reshape(shape)
