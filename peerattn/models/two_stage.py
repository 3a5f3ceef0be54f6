"""Two-stage least squares by ``linearmodels``: absorbed effects, clustered errors, and how well instruments identify."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from peerattn.exceptions import InputError, extra
from peerattn.models.identification import Identification, identification
from peerattn.models.wild_bootstrap import wild_cluster_p
from peerattn.panel.effects import DEPENDENT, degrees_of, independent_columns, integers, net_of
from peerattn.render import Regression

FEW_CLUSTERS = 50
PEERS_OUTCOME = "peers' outcome"
SUMMED = 1e-14  # of a column's size, more than sums over many peers lose


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
        others = "others" + " and of the absorbed effects" * bool(self.effects)
        notes = [
            (True, f"Standard errors {kind}; t with {self.freedom:,} degrees of freedom."),
            (self.n_bootstrap, f"P value{tested}: wild cluster bootstrap, {self.n_bootstrap:,} draws, the null imposed."),
            (self.n_bootstrap and self.instrumented, "Other p values: Student's t, for which the bootstrap has no test here."),
            (self.effects, f"Absorbed: {' and '.join(self.effects)} effects."),
            (self.instrumented and found, f"{self.instrumented} is instrumented by {by}"),
            (self.dropped, f"Left out as combinations of {others}: {', '.join(self.dropped)}."),
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
    y: np.ndarray,
    exogenous: pd.DataFrame,
    endogenous: np.ndarray | None = None,
    instruments: pd.DataFrame | None = None,
    *,
    weight: np.ndarray | None = None,
    effects: pd.DataFrame | None = None,
    clusters: pd.DataFrame | None = None,
    n_bootstrap: int = 0,
    random_state: int = 0,
) -> TwoStage:
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
    found = None
    if eq.Z.shape[1]:
        found = identification(eq.target, eq.W[:, 0], eq.X, eq.Z, weight, config, float(eq.back[-1, -1]))
    series = partial(pd.Series, index=eq.columns)
    return TwoStage(
        params=series(params), std_errors=series(errors), pvalues=series(p), cov=pd.DataFrame(cov, eq.columns, eq.columns),
        freedom=freedom, nobs=int(weight.sum()), clusters=counts, effects=tuple(effects.columns),
        rsquared=float(np.nan_to_num(fit.rsquared)), identification=found, instruments=eq.instruments, dropped=eq.dropped,
        n_bootstrap=n_bootstrap, **about,
    )  # fmt: skip
