"""Two-stage least squares by ``linearmodels``: absorbed effects, clustered errors, and how well instruments identify."""

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import linalg, stats

from peerattn.exceptions import InputError, extra
from peerattn.models.wild_bootstrap import wild_cluster_p
from peerattn.panel.effects import DEPENDENT, degrees_of, independent_columns, integers, net_of
from peerattn.render import Regression

FEW_CLUSTERS = 50
PEERS_OUTCOME = "peers' outcome"
LEVEL = 0.95
FAR = 1e8  # standard errors away: a value that stands for infinity
SINGULAR = 1e-12  # least eigenvalue of a covariance over its largest
SUMMED = 1e-14  # of a column's size, more than sums over many peers lose


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
        words = f"effective first-stage F {self.effective_f:.1f}" + " (weak: below 10)" * (self.effective_f < 10)
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
    Anderson, T. W. and Rubin, H. (1949), Annals of Mathematical Statistics 20(1). Hansen, L. P. (1982), Econometrica 50(4).
    Montiel Olea, J. L. and Pflueger, C. (2013), Journal of Business & Economic Statistics 31(3).
    """
    k, q = X.shape[1], Z.shape[1]
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
        moments: dict[str, Any] = {"clusters": groups[:, 0]} if clustered else {}
        with suppress(ValueError):  # moments of few effective clusters have no weight matrix
            kind = "clustered" if clustered else "robust"
            test = iv.IVGMM(y, X, endogenous, Z, weights=weight, weight_type=kind, **moments).fit().j_stat
            j, j_p = float(test.stat), float(test.pval)
    if rows < 1 or (clustered and n_groups <= q):
        few = "no more rows than coefficients" if rows < 1 else "no more clusters than instruments"
        return Identification(f, np.nan, None, j, j_p, few)
    # Wald's statistic / wald ~ F(q, freedom); with clusters Hotelling's T²
    freedom, wald = (n_groups - q, q * (n_groups - 1) / (n_groups - q)) if clustered else (rows, q)
    # around the estimate, in units of its standard error, roots keep their digits; with weak instruments it may lie anywhere
    center = float(first @ reduced(y)[0]) / strength if f >= 10 and strength else 0.0
    gap, C = reduced(y - center * endogenous)
    unit = float(np.sqrt(abs(np.trace(C)) / max(strength + abs(np.trace(V)), 1e-300))) or 1.0
    (_, plus), (_, minus) = (reduced(y - (center + t * unit) * endogenous) for t in (1, -1))
    step = unit * first
    parts = np.stack([C, (plus - minus) / 2, unit**2 * V])  # the covariance of gap − t · step is quadratic in t

    def p(t: np.ndarray) -> np.ndarray:
        slopes = gap - t[:, None] * step
        cov = np.tensordot(t[:, None] ** np.arange(3), parts, 1)
        least, most = np.linalg.eigvalsh(cov)[:, [0, -1]].T
        sound = least > SINGULAR * most
        cov[~sound] = np.eye(q)
        squares = (slopes * np.linalg.solve(cov, slopes[..., None])[..., 0]).sum(-1)
        return np.where(sound, stats.f.sf(squares / wald, q, freedom), np.nan)

    # Wald's statistic d'C⁻¹d is critical, c, exactly where C − d d' / c is singular; where C is, the test may cease to exist
    squares = np.stack([np.outer(gap, gap), -np.outer(gap, step) - np.outer(step, gap), np.outer(step, step)])
    roots = np.r_[_singular_at(parts - squares / (wald * stats.f.isf(1 - LEVEL, q, freedom))), _singular_at(parts)]
    ends = np.unique(np.r_[-10 * FAR, roots, 10 * FAR])
    ends = ends[np.diff(ends, prepend=-np.inf) > 1e-6 * (1 + np.abs(ends))]  # a double root is one, up to rounding
    zero, *between = p(np.r_[-center / unit, (ends[:-1] + ends[1:]) / 2])
    if np.isnan(between).all():
        return Identification(f, np.nan, None, j, j_p, "the covariance of their coefficients is singular")
    kept = ~(np.array(between) < 1 - LEVEL)  # without a test no value is rejected
    edges = np.flatnonzero(np.diff(np.r_[False, kept, False].astype(int))).reshape(-1, 2)
    ends = (center + unit * np.r_[-np.inf, ends[1:-1], np.inf]) * scale
    intervals = np.sort(np.sort(ends[edges]), axis=0)  # scale may be negative
    return Identification(f, float(zero), tuple((float(low), float(high)) for low, high in intervals), j, j_p)


def _singular_at(parts: np.ndarray) -> np.ndarray:
    """Return the t, of complex ones the real part, at which ``parts[0] + t · parts[1] + t² · parts[2]`` is singular."""
    constant, linear, square = parts / (np.trace(parts[0]) or 1.0)
    one, zero = np.eye(len(square)), np.zeros_like(square)
    roots = linalg.eigvals(np.block([[zero, one], [-constant, -linear]]), np.block([[one, zero], [zero, square]])).real
    return np.asarray(roots[np.abs(roots) < FAR])


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TwoStage(Regression):
    """Estimates of ``y = Xβ + effects + e`` with one column of X instrumented.

    Attributes
    ----------
    params, std_errors : Series
        By regressor; robust to heteroskedasticity, and to dependence within clusters if there are any: with the factor
        ``G / (G − 1) · (n − 1) / (n − k)`` for G clusters, and with fewer than 50 of one kind by the jackknife over clusters
        (MacKinnon, Nielsen and Webb 2023), ``(G − 1) / G Σ_g (b₋g − b)²``, effects absorbed anew. k counts regressors and
        absorbed effects, but not effects nested in clusters. NaN where a variance clustered two ways comes out negative.
    pvalues : Series
        Two-sided, Student's t with ``freedom`` degrees of freedom; with ``n_bootstrap`` by the wild cluster bootstrap. Where a
        column is instrumented, its own is the bootstrap's (of the Anderson–Rubin test), and the others are Student's t.
    freedom : int
        Degrees of freedom of t: G − 1 (of the smaller number of clusters), or n − k without clusters.
    nobs : int
    clusters : dict of str to int
        Number of clusters by what they are.
    effects : tuple of str
        Effects that were absorbed.
    rsquared : float
        ``1 − Σe²/Σ(y − ȳ)²``, net of absorbed effects; may be negative in two-stage least squares.
    instrumented : str or None
        Name of the endogenous regressor.
    identification : Identification or None
        Effective first-stage F, Anderson–Rubin test and interval, Hansen's J.
    instruments : tuple of str
    dropped : tuple of str
        Columns left out because earlier ones, or the effects, contain them.
    n_bootstrap : int
        Draws of the wild cluster bootstrap.
    cov : DataFrame
        Covariance of the coefficients.
    """

    clusters: dict[str, int]
    effects: tuple[str, ...]
    instrumented: str | None = None
    identification: Identification | None = None
    instruments: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    n_bootstrap: int = 0
    cov: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def first_stage_f(self) -> float | None:
        """Effective F of the excluded instruments (Montiel Olea and Pflueger 2013); below 10 they are weak."""
        return None if self.identification is None else self.identification.effective_f

    def _figures(self) -> dict[str, object]:
        figures: dict[str, object] = {f"{name} effects": "yes" for name in self.effects}
        figures |= {f"Clusters: {name}": count for name, count in self.clusters.items()}
        if self.identification is not None:
            figures |= self.identification.figures()
        return figures

    def _footnotes(self) -> list[str]:
        kind = "robust"
        if self.clusters:
            counted = (f"{name} ({count:,} clusters)" for name, count in self.clusters.items())
            kind = f"clustered by {' and '.join(counted)}"
        found = self.identification
        tested = f" of {self.instrumented}" if self.instrumented else "s"
        n = len(self.instruments)
        by = f"{n} column{'s' * (n != 1)} ({', '.join(self.instruments)}): {found and found.wording()}"
        notes = [
            (True, f"Standard errors {kind}; t with {self.freedom:,} degrees of freedom."),
            (self.n_bootstrap, f"P value{tested}: wild cluster bootstrap, {self.n_bootstrap:,} draws, the null imposed."),
            (self.n_bootstrap and self.instrumented, "Other p values: Student's t, for which the bootstrap has no test here."),
            (self.effects, f"Absorbed: {' and '.join(self.effects)} effects."),
            (self.instrumented and found, f"{self.instrumented} is instrumented by {by}"),
            (self.dropped, f"Left out as combinations of others: {', '.join(self.dropped)}."),
        ]
        return [note for holds, note in notes if holds]


class _Equation:
    """Outcome, regressors and instruments net of absorbed effects, both made orthonormal; dependent columns are left out.

    Attributes
    ----------
    target, X, Z : ndarray (n, ...)
    W : ndarray (n, 0 or 1)
        The instrumented column, where there are instruments.
    columns : list of str
        Of X and W.
    back : ndarray (k, k)
        ``back @`` coefficients on X and W are those on the columns that were given, the intercept less ``level``.
    level : float
        The mean that was taken out of the outcome; zero where there is no intercept.
    absorbed : int
        Degrees of freedom of the effects.
    """

    def __init__(
        self, y: np.ndarray, endogenous: np.ndarray, exogenous: pd.DataFrame, instruments: pd.DataFrame, weight: np.ndarray,
        effects: pd.DataFrame, clusters: pd.DataFrame | None,
    ):  # fmt: skip
        self.weight = weight
        self.effects = effects
        self.absorbed = degrees_of(effects, clusters)
        raw = np.column_stack([exogenous, instruments, endogenous, y]).astype(float)
        rounding = SUMMED * np.linalg.norm(raw, axis=0)
        # net of means, which the effects or the intercept contain, columns keep their digits at any level
        has_intercept = not effects.shape[1] and bool(np.all(raw[:, 0] == 1))
        means = np.zeros(raw.shape[1])
        if effects.shape[1]:
            means = np.average(raw, axis=0, weights=weight)
        elif has_intercept:
            means[1:] = np.average(raw[:, 1:], axis=0, weights=weight)
        raw -= means
        table = net_of(effects, raw, weight)
        size = np.linalg.norm(table, axis=0)
        absent = size <= np.maximum(DEPENDENT * np.linalg.norm(raw, axis=0), rounding)  # the effects contain it
        size = np.where(absent, 1.0, size)
        table = np.where(absent, 0.0, table / size)  # in units of its columns a rank does not depend on them
        rounding /= size
        root = np.sqrt(weight)[:, None]
        kept = independent_columns(table[:, :-2] * root, rounding[:-2])
        names = np.array([*map(str, exogenous), *map(str, instruments)], dtype=object)
        n_x = exogenous.shape[1]
        x_at = np.flatnonzero(kept[:n_x])
        z_at = n_x + np.flatnonzero(kept[n_x:])
        w_at = np.full(min(len(z_at), 1), len(kept))
        used = np.r_[x_at, w_at]
        if len(w_at) and not independent_columns(table[:, used] * root, rounding[used])[-1]:
            beyond = "own and peers' characteristics and the effects that are absorbed"
            raise InputError(f"y: the mean outcome of peers does not vary beyond {beyond}. Use peer_outcome=False.")
        if not len(used):
            raise InputError("X: no characteristic varies beyond the effects that are absorbed.")
        # of columns that are close to each other orthonormal ones keep their digits
        Q, R = np.linalg.qr(table[:, used] * root)
        X, W = np.split(Q, [len(x_at)], axis=1)
        Z = table[:, z_at] * root
        for _ in range(2):  # net of X; the first time leaves rounding errors
            Z = np.linalg.qr(Z - X @ (X.T @ Z))[0]
        self.target = table[:, -1]
        self.X, self.W, self.Z = (columns / root for columns in (X, W, Z))
        self.back = np.linalg.inv(R) * (size[-1] / size[used])[:, None]
        self.level = float(means[-1]) * has_intercept
        if has_intercept:
            self.back[0] -= means[used] @ self.back
        self.columns = [*names[x_at], PEERS_OUTCOME][: len(used)]
        self.instruments = tuple(names[z_at])
        self.dropped = tuple(names[~kept])

    def errors(self, clusters: pd.DataFrame | None) -> tuple[int, dict[str, int], dict[str, Any]]:
        """Return the degrees of freedom of t, the numbers of clusters, and what linearmodels' ``fit`` takes."""
        degrees = len(self.target) - len(self.back) - self.absorbed
        config: dict[str, Any] = {"cov_type": "robust", "debiased": degrees > 0}
        if self.absorbed and degrees > 0:
            config["extra_df"] = self.absorbed
        if clusters is None:
            return max(degrees, 1), {}, config
        counts = {str(name): int(n) for name, n in clusters.nunique(dropna=False).items()}
        for name in (name for name, n in counts.items() if n == 1):
            raise InputError(f"cluster: all rows are of one {name}; standard errors need several clusters. Pass cluster=None.")
        config |= {"cov_type": "clustered", "clusters": integers(clusters).to_numpy()}
        return max(min(counts.values()) - 1, 1), counts, config

    def jackknife(self, cluster: np.ndarray) -> np.ndarray:
        """Return the covariance of the coefficients by leaving out one cluster after the other."""
        regressors = np.hstack([self.X, self.W])
        table = np.column_stack([regressors, self.X, self.Z, self.target])
        moved = self.effects if self.absorbed else self.effects.iloc[:, :0]  # effects nested in the clusters stay what they are

        def estimate(rows: np.ndarray) -> np.ndarray:
            # the effects without a cluster are others: of a net table they would leave the shifts too small
            net = net_of(moved[rows], table[rows], self.weight[rows]) * np.sqrt(self.weight[rows])[:, None]
            x, z, y = np.split(net, [regressors.shape[1], -1], axis=1)
            first = z @ np.linalg.lstsq(z, x, rcond=DEPENDENT)[0]
            return np.asarray(np.linalg.lstsq(first, y[:, 0], rcond=DEPENDENT)[0])

        labels = np.unique(cluster)
        shift = np.stack([estimate(cluster != label) for label in labels]) - estimate(np.full(len(cluster), True))
        return np.asarray((1 - 1 / len(labels)) * (shift.T @ shift))

    def bootstrapped(self, cluster: np.ndarray, **options: Any) -> np.ndarray:
        """Return p values by the wild cluster bootstrap; NaN of exogenous columns beside W, where no test holds."""
        p_of = partial(wild_cluster_p, cluster=cluster, weight=self.weight, effects=self.effects, **options)
        if self.Z.shape[1]:  # the Anderson–Rubin regression
            return np.r_[np.full(self.X.shape[1], np.nan), p_of(y=self.target, X=self.X, Z=self.Z)]
        X = self.X @ np.linalg.inv(self.back)  # the columns that were given
        target = self.target + self.level * X[:, 0]
        X /= np.linalg.norm(X, axis=0)
        return np.array([p_of(y=target, X=np.delete(X, k, axis=1), Z=x) for k, x in enumerate(X.T)])


def two_stage(
    y: np.ndarray, exogenous: pd.DataFrame, endogenous: np.ndarray | None = None, instruments: pd.DataFrame | None = None, *,
    weight: np.ndarray | None = None, effects: pd.DataFrame | None = None, clusters: pd.DataFrame | None = None,
    n_bootstrap: int = 0, random_state: int = 0,
) -> TwoStage:  # fmt: skip
    """Estimate by two-stage least squares (ordinary where nothing is endogenous).

    ``β = (X'P_Z X)⁻¹ X'P_Z y`` with ``Z`` the exogenous columns and the instruments, all net of ``effects``. Dependent columns
    are dropped first. ``effects`` and ``clusters`` hold one column of labels each, at most two clusters.
    """
    if n_bootstrap and (clusters is None or clusters.shape[1] != 1):
        raise InputError("n_bootstrap: the wild cluster bootstrap takes clusters of one kind; name one in cluster=.")
    if len(y) < 2:
        raise InputError(f"y: estimates need at least two known outcomes, got {len(y)}.")
    IV2SLS = extra("linearmodels.iv", "regressions", "Two-stage least squares").IV2SLS
    about: dict[str, Any] = {"title": "Least squares"}
    if endogenous is not None:
        about = {"title": "Linear-in-means model, two-stage least squares", "instrumented": PEERS_OUTCOME}
    if endogenous is None or instruments is None:  # the outcome stands in for a column that is not used
        endogenous = y
        instruments = exogenous.iloc[:, :0]
    if effects is None:
        effects = pd.DataFrame(index=exogenous.index)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=float)
    eq = _Equation(y, endogenous, exogenous, instruments, weight, effects, clusters)
    freedom, counts, config = eq.errors(clusters)
    fit = IV2SLS(eq.target, eq.X, eq.W, eq.Z, weights=weight).fit(**config)
    cov = np.asarray(fit.cov)
    # with few clusters the sandwich is too small
    if len(counts) == 1 and min(counts.values()) < FEW_CLUSTERS:
        cov = eq.jackknife(config["clusters"][:, 0])
    params = eq.back @ np.asarray(fit.params)
    params[0] += eq.level
    cov = eq.back @ cov @ eq.back.T
    errors = np.sqrt(np.where(np.diag(cov) >= 0, np.diag(cov), np.nan))
    p = 2 * stats.t.sf(np.abs(params / errors), freedom)
    if n_bootstrap:
        drawn = eq.bootstrapped(config["clusters"][:, 0], n_draws=n_bootstrap, random_state=random_state)
        p = np.where(np.isnan(drawn), p, drawn)
    scale = float(eq.back[-1, -1])
    found = identification(eq.target, eq.W[:, 0], eq.X, eq.Z, weight, config, scale) if eq.Z.shape[1] else None
    series = partial(pd.Series, index=eq.columns)
    return TwoStage(
        params=series(params), std_errors=series(errors), pvalues=series(p), cov=pd.DataFrame(cov, eq.columns, eq.columns),
        freedom=freedom, nobs=int(weight.sum()), clusters=counts, effects=tuple(effects.columns),
        rsquared=float(np.nan_to_num(fit.rsquared)), identification=found, instruments=eq.instruments, dropped=eq.dropped,
        n_bootstrap=n_bootstrap, **about,
    )  # fmt: skip
