"""How well instruments identify the effect of peers: effective F, Anderson–Rubin, Hansen's J."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from peerattn.exceptions import extra

GRID = np.concatenate([np.linspace(-1.0, 1.0, 401), np.tan(np.linspace(np.pi / 4, np.pi / 2, 60)[1:-1])])
LEVEL = 0.95


@dataclass(frozen=True)
class Identification:
    """What is known of one instrumented coefficient.

    Attributes
    ----------
    effective_f : float
        Of the excluded instruments (Montiel Olea and Pflueger 2013), ``π'π / tr(V)``; below 10 they are weak.
    ar_p : float
        Anderson and Rubin's test that the coefficient is zero, valid with weak instruments: F(q, G − 1) for q instruments and G
        clusters.
    ar_set : tuple of (float, float)
        95 % confidence set from that test, as intervals; infinite ends where weak instruments do not bound it, none where every
        value is rejected (the instruments contradict each other).
    j : float or None
        Hansen's J of the overidentifying restrictions, by two-step GMM; None with as many instruments as endogenous columns, or
        with no more clusters than moments, or two kinds of them.
    j_p : float or None
        Its p value, χ²(q − 1); a small one suggests that the instruments contradict each other.
    """

    effective_f: float
    ar_p: float
    ar_set: tuple[tuple[float, float], ...]
    j: float | None
    j_p: float | None

    def figures(self) -> dict[str, object]:
        """Return the figures below the coefficients in a paper's table."""
        found: dict[str, object] = {"Effective F": self.effective_f, "Anderson–Rubin p": self.ar_p}
        if self.j_p is not None:
            found["Hansen J p"] = self.j_p
        return found

    def wording(self) -> str:
        """Return the tests in words.

        >>> Identification(4.0, 0.03, ((-np.inf, 0.1), (0.5, np.inf)), None, None).wording()
        'effective first-stage F 4.0 (weak: below 10), Anderson–Rubin p 0.030, 95 % set (−∞, 0.1] ∪ [0.5, ∞).'
        """
        words = f"effective first-stage F {self.effective_f:.1f}"
        if self.effective_f < 10:
            words += " (weak: below 10)"
        words += f", Anderson–Rubin p {self.ar_p:.3f}, 95 % set "
        words += " ∪ ".join(map(_interval, self.ar_set)) or "empty"
        if self.j is not None:
            words += f"; Hansen J {self.j:.2f}, p {self.j_p:.3f}"
        return f"{words}."


def _interval(ends: tuple[float, float]) -> str:
    low, high = ends
    closed = f"[{low:.3g}, {high:.3g}]".replace("-", "−")
    return closed.replace("[−inf", "(−∞").replace("inf]", "∞)")


def identification(
    y: np.ndarray, endogenous: np.ndarray, X: np.ndarray, Z: np.ndarray, weight: np.ndarray,
    config: dict[str, Any], scale: float = 1.0,
) -> Identification:  # fmt: skip
    """Return the tests of one endogenous column with excluded instruments Z (n, q), all net of absorbed effects.

    ``config`` is what linearmodels' ``fit`` takes for the covariance; ``scale`` brings the coefficient to its units.

    References
    ----------
    Anderson, T. W. and Rubin, H. (1949), Estimation of the parameters of a single equation in a complete system of stochastic
    equations, Annals of Mathematical Statistics 20(1). Hansen, L. P. (1982), Large sample properties of generalized method of
    moments estimators, Econometrica 50(4). Montiel Olea, J. L. and Pflueger, C. (2013), A robust test for weak instruments,
    Journal of Business & Economic Statistics 31(3).
    """
    root = np.sqrt(weight / weight.mean())[:, None]
    k = X.shape[1]
    outside = np.linalg.qr(X * root)[0]
    # instruments net of the exogenous columns, twice: the first time leaves rounding errors
    net = Z * root - outside @ (outside.T @ (Z * root))
    Q = np.linalg.qr(net - outside @ (outside.T @ net))[0] / root
    iv = extra("linearmodels.iv", "regressions", "A test of identification")

    def reduced(target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients on Q of a regression on X and Q, and their covariance."""
        fit = iv.IV2SLS(target, np.column_stack([X, Q]), None, None, weights=weight).fit(**config)
        return np.asarray(fit.params)[k:], np.asarray(fit.cov)[k:, k:]

    first, V = reduced(endogenous)
    f = float(first @ first / np.trace(V)) if np.trace(V) > 0 else np.inf
    second, A = reduced(y)
    (_, plus), (_, minus) = (reduced(y - b * endogenous) for b in (1, -1))
    clustered = "clusters" in config
    # without clusters each row is one of its own
    groups = np.asarray(config.get("clusters", np.arange(len(y)))).reshape(len(y), -1)
    n_groups = min(len(np.unique(column)) for column in groups.T)
    freedom = max(n_groups - 1 if clustered else len(y) - k - len(first), 1)

    def p(b: Any) -> np.ndarray:
        """Of coefficients b: their covariances are quadratic in b, known from three values."""
        at = np.asarray(b)[..., None]
        slopes = second - at * first
        cov = A + at[..., None] * (plus - minus) / 2 + at[..., None] ** 2 * ((plus + minus) / 2 - A)
        sound = np.linalg.eigvalsh(cov)[..., 0] > 0
        cov[~sound] = np.eye(len(first))
        squares = (slopes * np.linalg.solve(cov, slopes[..., None])[..., 0]).sum(-1)
        return np.where(sound, stats.f.sf(squares / len(first), len(first), freedom), np.nan)

    j = j_p = None
    if len(first) > 1 and groups.shape[1] == 1 and n_groups - clustered > k + len(first):
        moments: dict[str, Any] = {"weight_type": "robust"}
        if clustered:
            moments = {"weight_type": "clustered", "clusters": groups[:, 0]}
        with suppress(ValueError):  # moments of few effective clusters have no weight matrix
            test = iv.IVGMM(y, X, endogenous, Q, weights=weight, **moments).fit().j_stat
            j = float(test.stat)
            j_p = float(test.pval)
    return Identification(f, float(p(0.0)), _confidence_set(p, scale), j, j_p)


def _confidence_set(p: Any, scale: float) -> tuple[tuple[float, float], ...]:
    """Return the intervals of a grid (finer where peer effects lie) that the test does not reject."""
    grid = np.unique(np.concatenate([GRID, -GRID]))
    kept = p(grid / scale) >= 1 - LEVEL
    edges = np.flatnonzero(np.diff(np.r_[False, kept, False].astype(int)))
    grid[[0, -1]] = (-np.inf, np.inf)
    return tuple((float(grid[start]), float(grid[stop - 1])) for start, stop in edges.reshape(-1, 2))
