"""Own lines: least squares on the firm's own characteristics, from which every other candidate departs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from peerattn.models.attention.bounds import Bounds
from peerattn.models.attention.losses import Loss, gradient, shown, squared_error, working_residual
from peerattn.models.attention.origins import row_weight
from peerattn.models.attention.stack import loss_of
from peerattn.models.pools import Rows, Section, of_each
from peerattn.processes import all_sum, mean_of

LIGHT = 1e-6  # ridge on standardised lines of losses that have no closed form, a row


def stacked_rows(sections: Sequence[Section]) -> Rows:
    """Return the focal rows of the sections that this process holds, one after another."""
    rows = [section.focal for section in sections if section.here]
    together = rows[0]
    columns: dict[str, Any] = {
        name: None if getattr(together, name) is None else np.concatenate([getattr(r, name) for r in rows])
        for name in ("x", "codes", "y", "weight", "identity", "loss_weight")
    }
    label, owner = (
        getattr(together, name).append([getattr(r, name) for r in rows[1:]]) for name in ("label", "owner")
    )
    return replace(together, label=label, owner=owner, **columns)


def by_section(values: np.ndarray, sections: Sequence[Section]) -> list[np.ndarray]:
    """Return the values (n, ...) of the focal rows of the sections, split by section."""
    return np.split(values, np.cumsum([len(section.focal) for section in sections])[:-1])


@dataclass(frozen=True)
class Lines:
    """``ols_i = a + z_i'b`` with standardised characteristics z, extrapolated within bounds.

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

    def of(self, sections: Sequence[Section]) -> list[np.ndarray]:
        """Return the own term of the focal rows of each cross-section, (n_focal, K), whichever process holds them."""
        return of_each(sections, lambda section: self.predict(section.focal))


def fit_lines(sections: Sequence[Section], loss: Loss, n_outputs: int, *, none: bool = False) -> Lines:
    """Fit own lines to the focal rows: least squares, or the least convex loss; ``none``: zero."""
    rows = stacked_rows(sections)
    weight, p = row_weight(rows), rows.x.shape[1]
    center = mean_of(rows.x, weight)
    spread = np.sqrt(mean_of((rows.x - center) ** 2, weight))
    spread = np.where(spread <= 1e-12 * np.abs(center), np.inf, spread)  # a constant column says nothing
    spread = np.where(spread > 0, spread, np.inf)
    bounds = Bounds.of([rows.x])
    if none:
        return Lines(bounds, center, spread, np.zeros((p, n_outputs)), np.zeros(n_outputs))
    z = np.column_stack([np.ones(len(rows)), (rows.x - center) / spread])
    assert rows.y is not None
    if loss is squared_error:
        gram, moment = all_sum((z.T * weight) @ z), all_sum((z.T * weight) @ rows.y)
        found = (np.linalg.pinv(gram, rcond=1e-10, hermitian=True) @ moment)[:, None]
    else:
        found = _convex(z, rows.y, weight, loss, n_outputs)
    return Lines(bounds, center, spread, found[1:], found[0])


def _convex(z: np.ndarray, y: np.ndarray, weight: np.ndarray, loss: Loss, n_outputs: int) -> np.ndarray:
    """Return the coefficients of least loss, (p, K)."""
    shape, total = (z.shape[1], n_outputs), float(all_sum(weight.sum()))
    light = np.full(shape, LIGHT)
    light[0] = 0

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        b = flat.reshape(shape)
        at = z @ b
        slope = z.T @ (gradient(loss, at, y) * weight[:, None])
        size = (loss_of(loss, at, y) * weight).sum()
        return float(all_sum(size)) / total + (light * b**2).sum(), (
            all_sum(slope) / total + 2 * light * b
        ).ravel()

    found = minimize(
        value, np.zeros(z.shape[1] * n_outputs), jac=True, method="L-BFGS-B", options={"maxiter": 500}
    )
    return np.asarray(found.x).reshape(shape)


def as_seen(section: Section, lines: Lines, loss: Loss, outcomes: bool, limit: float) -> Section:
    """Return a cross-section as peers are learned from: what own lines leave of outcomes, the shown ones bounded.

    ``limit`` bounds what one shown outcome may say: the largest absolute residual of the training rows.
    """
    ((own, pool),) = of_each([section], lambda s: (lines.predict(s.focal), lines.predict(s.peers)))
    focal, peers = section.focal, replace(section.peers, y=None)
    if focal.y is not None:
        focal = replace(focal, y=working_residual(loss, own, focal.y))
    if outcomes and section.peers.y is not None:
        left = shown(loss, pool, section.peers.y)
        peers = replace(peers, y=np.clip(left, -limit, limit) if left.ndim == 1 else left)
    return replace(section, focal=focal, peers=peers, own=(own[:, 0], pool[:, 0]))


def largest_residual(sections: Sequence[Section], lines: Lines, loss: Loss) -> float:
    """Return the largest absolute residual of known outcomes in training."""

    def largest(section: Section) -> float:
        assert section.focal.y is not None
        left = shown(loss, lines.predict(section.focal), section.focal.y)
        return float(np.nanmax(np.abs(left), initial=0.0))

    return max(of_each(list(sections), largest), default=0.0)
