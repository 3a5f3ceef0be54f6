"""How well instruments identify a coefficient: their strength, Anderson and Rubin's test with its set, Hansen's J."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, stats

from peerattn.exceptions import extra

LEVEL = 0.95
FAR = 1e8  # standard errors away: a value that stands for infinity
SINGULAR = 1e-12  # least eigenvalue of a covariance over its largest
DOUBLE = 1e-6  # relative distance of roots that are one, up to rounding


@dataclass(frozen=True)
class Identification:
    """What is known of one instrumented coefficient.

    Attributes
    ----------
    effective_f : float
        Of the excluded instruments (Montiel Olea and Pflueger 2013), ``π'π / tr(V)``; below 10 they are weak.
    ar_p : float
        Anderson and Rubin's test that the coefficient is zero, valid with weak instruments: for q instruments and G clusters (of
        the smaller number) Hotelling's, ``Wald · (G − q) / (q (G − 1)) ~ F(q, G − q)``. NaN with q ≥ G: there is no test.
    ar_set : tuple of (float, float) or None
        95 % confidence set from that test, as intervals; infinite ends where weak instruments do not bound it, none where every
        value is rejected (the instruments contradict each other). None without a test.
    j, j_p : float or None
        Hansen's J of the overidentifying restrictions, by two-step GMM, and its p value, χ²(q − 1); a small one suggests that the
        instruments contradict each other. None with as many instruments as endogenous columns, or with no more clusters than
        moments, or two kinds of them.
    untested : str
        Why there is no Anderson–Rubin test.
    """

    effective_f: float
    ar_p: float
    ar_set: tuple[tuple[float, float], ...] | None
    j: float | None
    j_p: float | None
    untested: str = ""

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
        if self.ar_set is None:
            words += f", no Anderson–Rubin test or set ({self.untested})"
        else:
            words += f", Anderson–Rubin p {self.ar_p:.3f}, 95 % set ".replace("nan", "n/a")
            words += " ∪ ".join(map(_interval, self.ar_set)) or "empty"
        if self.j is not None:
            words += f"; Hansen J {self.j:.2f}, p {self.j_p:.3f}"
        return f"{words}."


def _interval(ends: tuple[float, float]) -> str:
    low, high = ends
    return f"[{low:.3g}, {high:.3g}]".replace("-", "−").replace("[−inf", "(−∞").replace("inf]", "∞)")


def identification(
    y: np.ndarray, endogenous: np.ndarray, X: np.ndarray, Z: np.ndarray, weight: np.ndarray,
    config: dict[str, Any], scale: float = 1.0,
) -> Identification:  # fmt: skip
    """Return the tests of one endogenous column with excluded instruments Z (n, q), orthonormal and net of X and effects.

    ``config`` is what linearmodels' ``fit`` takes for the covariance; ``scale`` brings the coefficient to its units.

    References
    ----------
    Anderson, T. W. and Rubin, H. (1949), Estimation of the parameters of a single equation in a complete system of stochastic
    equations, Annals of Mathematical Statistics 20(1). Hansen, L. P. (1982), Large sample properties of generalized method of
    moments estimators, Econometrica 50(4). Montiel Olea, J. L. and Pflueger, C. (2013), A robust test for weak instruments,
    Journal of Business & Economic Statistics 31(3).
    """
    k = X.shape[1]
    q = Z.shape[1]
    rows = len(y) - k - q - config.get("extra_df", 0)
    config = config | {"debiased": config["debiased"] and rows > 0}
    iv = extra("linearmodels.iv", "regressions", "A test of identification")

    def reduced(target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients on Z of a regression on X and Z, and their covariance."""
        fit = iv.IV2SLS(target, np.column_stack([X, Z]), None, None, weights=weight).fit(**config)
        return np.asarray(fit.params)[k:], np.asarray(fit.cov)[k:, k:]

    first, V = reduced(endogenous)
    strength = float(first @ first)
    f = strength / float(np.trace(V)) if np.trace(V) > 0 else np.inf
    clustered = "clusters" in config  # without them each row is one of its own
    groups = np.asarray(config.get("clusters", np.arange(len(y)))).reshape(len(y), -1)
    n_groups = min(len(np.unique(column)) for column in groups.T)
    j = j_p = None
    if q > 1 and groups.shape[1] == 1 and n_groups - clustered > k + q:
        moments: dict[str, Any] = {"weight_type": "robust"}
        if clustered:
            moments = {"weight_type": "clustered", "clusters": groups[:, 0]}
        with suppress(ValueError):  # moments of few effective clusters have no weight matrix
            test = iv.IVGMM(y, X, endogenous, Z, weights=weight, **moments).fit().j_stat
            j = float(test.stat)
            j_p = float(test.pval)
    if rows < 1:
        return Identification(f, np.nan, None, j, j_p, "no more rows than coefficients")
    if clustered and n_groups <= q:
        return Identification(f, np.nan, None, j, j_p, "no more clusters than instruments")
    # around the estimate, in units of its standard error, roots keep their digits; with weak instruments it may lie anywhere
    center = float(first @ reduced(y)[0]) / strength if f >= 10 and strength else 0.0
    gap, C = reduced(y - center * endogenous)
    unit = float(np.sqrt(abs(np.trace(C)) / max(strength + abs(np.trace(V)), 1e-300))) or 1.0
    (_, plus), (_, minus) = (reduced(y - (center + t * unit) * endogenous) for t in (1, -1))
    covariance = np.stack([C, (plus - minus) / 2, unit**2 * V])
    rubin = _AndersonRubin(gap, unit * first, covariance, n_groups if clustered else None, rows)
    intervals = rubin.not_rejected()
    if intervals is None:
        return Identification(f, np.nan, None, j, j_p, "the covariance of their coefficients is singular")
    ends = np.sort(np.sort((center + unit * intervals) * scale), axis=0)  # scale may be negative
    zero = float(rubin.p(np.array([-center / unit]))[0])
    return Identification(f, zero, tuple((float(low), float(high)) for low, high in ends), j, j_p)


@dataclass(frozen=True)
class _AndersonRubin:
    """The test that ``gap − t · step``, coefficients on the instruments, are zero; ``t`` is the value in standard errors.

    ``covariance`` has the coefficients of 1, t and t² of theirs, (3, q, q); with clusters Wald's statistic is Hotelling's T².
    """

    gap: np.ndarray
    step: np.ndarray
    covariance: np.ndarray
    n_clusters: int | None
    rows: int

    @property
    def freedom(self) -> int:
        """The degrees of freedom of F's denominator."""
        if self.n_clusters is None:
            return self.rows
        return self.n_clusters - len(self.step)

    @property
    def wald(self) -> float:
        """What Wald's statistic is divided by, to have the F distribution."""
        q = len(self.step)
        if self.n_clusters is None:
            return q
        return q * (self.n_clusters - 1) / (self.n_clusters - q)

    def p(self, t: np.ndarray) -> np.ndarray:
        """Return the p-value of each value, (n,); NaN where the covariance is singular."""
        slopes = self.gap - t[:, None] * self.step
        cov = np.tensordot(t[:, None] ** np.arange(3), self.covariance, 1)
        least, most = np.linalg.eigvalsh(cov)[:, [0, -1]].T
        sound = least > SINGULAR * most
        cov[~sound] = np.eye(len(self.step))
        squares = (slopes * np.linalg.solve(cov, slopes[..., None])[..., 0]).sum(-1)
        return np.where(sound, stats.f.sf(squares / self.wald, len(self.step), self.freedom), np.nan)

    def not_rejected(self) -> np.ndarray | None:
        """Return the intervals of values that are not rejected, (m, 2); None where none can be tested."""
        gap = self.gap
        step = self.step
        squares = np.stack([np.outer(gap, gap), -np.outer(gap, step) - np.outer(step, gap), np.outer(step, step)])
        critical = self.wald * stats.f.isf(1 - LEVEL, len(step), self.freedom)
        # Wald's d'C⁻¹d is critical, c, exactly where C − d d' / c is singular; where C is, the test may cease to exist
        roots = np.r_[_singular_at(self.covariance - squares / critical), _singular_at(self.covariance)]
        ends = np.unique(np.r_[-10 * FAR, roots, 10 * FAR])
        ends = ends[np.diff(ends, prepend=-np.inf) > DOUBLE * (1 + np.abs(ends))]
        between = self.p((ends[:-1] + ends[1:]) / 2)
        if np.isnan(between).all():
            return None
        kept = ~(between < 1 - LEVEL)  # without a test no value is rejected
        edges = np.flatnonzero(np.diff(np.r_[False, kept, False].astype(int))).reshape(-1, 2)
        return np.r_[-np.inf, ends[1:-1], np.inf][edges]


def _singular_at(parts: np.ndarray) -> np.ndarray:
    """Return the t, of complex ones the real part, at which ``parts[0] + t · parts[1] + t² · parts[2]`` is singular."""
    constant, linear, square = parts / (np.trace(parts[0]) or 1.0)
    one, zero = np.eye(len(square)), np.zeros_like(square)
    roots = linalg.eigvals(np.block([[zero, one], [-constant, -linear]]), np.block([[one, zero], [zero, square]])).real
    return np.asarray(roots[np.abs(roots) < FAR])
