"""Two-stage least squares by ``linearmodels``: absorbed effects, clustered errors for few clusters, effective first-stage F."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from peerattn.exceptions import InputError
from peerattn.render import Table

FEW_CLUSTERS = 50
DEPENDENT = 1e-9  # a column whose part that is new is a smaller share of it counts as dependent


@dataclass(frozen=True)
class TwoStage:
    """Estimates of ``y = Xβ + effects + e`` with one column of X instrumented.

    Attributes
    ----------
    params, std_errors : Series
        By regressor; robust to heteroskedasticity, and to dependence within clusters if there are any: with the factor
        ``G / (G − 1) · (n − 1) / (n − k)`` for G clusters, and with fewer than 50 of one kind by the jackknife over clusters
        (MacKinnon, Nielsen and Webb 2023), ``(G − 1) / G Σ_g (b₋g − b)²``.
    freedom : int
        Degrees of freedom of t: G − 1 (of the smaller number of clusters), or n − k without clusters.
    n_rows : int
    clusters : dict of str to int
        Number of clusters by what they are.
    effects : tuple of str
        Effects that were absorbed.
    r_squared : float
        ``1 − Σe²/Σ(y − ȳ)²``, net of absorbed effects; may be negative in two-stage least squares.
    instrumented : str or None
        Name of the endogenous regressor.
    first_stage_f : float or None
        Effective F of the excluded instruments (Montiel Olea and Pflueger 2013), with the same clusters; below 10 they are weak.
    instruments : tuple of str
    dropped : tuple of str
        Columns left out because earlier ones, or the effects, contain them.
    """

    params: pd.Series
    std_errors: pd.Series
    freedom: int
    n_rows: int
    clusters: dict[str, int]
    effects: tuple[str, ...]
    r_squared: float
    instrumented: str | None = None
    first_stage_f: float | None = None
    instruments: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return coefficients, standard errors, t, p and 95 % intervals."""
        t = self.params / self.std_errors
        width = stats.t.ppf(0.975, self.freedom) * self.std_errors
        return pd.DataFrame(
            {
                "coef": self.params,
                "std err": self.std_errors,
                "t": t,
                "P>|t|": 2 * stats.t.sf(np.abs(t), self.freedom),
                "[0.025": self.params - width,
                "0.975]": self.params + width,
            }
        )

    def summary(self) -> Table:
        """Return the estimates as a table in statsmodels' form."""
        frame = self.to_frame()
        counted = " and ".join(f"{name} ({count:,} clusters)" for name, count in self.clusters.items())
        notes = [
            f"{self.n_rows:,} rows, R² {self.r_squared:.3f}. Standard errors "
            f"{f'clustered by {counted}' if counted else 'robust'}; t with {self.freedom:,} degrees of freedom."
        ]
        if self.effects:
            notes.append(f"Absorbed: {' and '.join(self.effects)} effects.")
        if self.instrumented is not None:
            weak = " (weak: below 10)" if (self.first_stage_f or 0) < 10 else ""
            notes.append(
                f"{self.instrumented} is instrumented by {len(self.instruments)} columns ({', '.join(self.instruments)}): "
                f"effective first-stage F {self.first_stage_f:.1f}{weak}."
            )
        if self.dropped:
            notes.append(f"Left out as combinations of others: {', '.join(self.dropped)}.")
        title = "Linear-in-means model, two-stage least squares" if self.instrumented else "Least squares"
        rows = [(str(name), *values) for name, values in zip(frame.index, frame.to_numpy(), strict=True)]
        return Table(
            title,
            ("", *frame.columns),
            rows,
            formats=("", ".4g", ".2g", ".2f", ".3f", ".4g", ".4g"),
            footnotes=tuple(notes),
        )

    def __str__(self) -> str:
        return self.summary().text()

    def _repr_html_(self) -> str:
        return self.summary().html()


def independent_columns(columns: np.ndarray) -> np.ndarray:
    """Tell which columns are no combination of earlier ones.

    >>> independent_columns(np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 1.0], [1.0, 2.0, 5.0]])).tolist()
    [True, False, True]
    """
    size = np.linalg.norm(columns, axis=0)
    scaled = columns / np.where(size > 0, size, 1.0)
    keep: list[int] = []
    basis = np.empty((len(columns), 0))
    for k in range(columns.shape[1]):
        rest = scaled[:, k] - basis @ (basis.T @ scaled[:, k])
        rest -= basis @ (basis.T @ rest)  # twice is enough (Kahan and Parlett)
        length = np.linalg.norm(rest)
        if size[k] > 0 and length > DEPENDENT:
            keep.append(k)
            basis = np.column_stack([basis, rest / length])
    return np.isin(np.arange(columns.shape[1]), keep)


def two_stage(
    y: np.ndarray,
    exogenous: pd.DataFrame,
    endogenous: np.ndarray | None = None,
    instruments: pd.DataFrame | None = None,
    *,
    weight: np.ndarray | None = None,
    effects: pd.DataFrame | None = None,
    clusters: pd.DataFrame | None = None,
    endogenous_name: str = "peers' outcome",
) -> TwoStage:
    """Estimate by two-stage least squares (ordinary where nothing is endogenous).

    ``β = (X'P_Z X)⁻¹ X'P_Z y`` with ``Z`` the exogenous columns and the instruments, all net of ``effects``. Dependent columns
    are dropped first. ``effects`` and ``clusters`` hold one column of integers each, at most two clusters.
    """
    from linearmodels.iv import IV2SLS

    ours, n_x = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=float), exogenous.shape[1]
    names, parts = [*map(str, exogenous.columns)], [exogenous.to_numpy(dtype=float)]
    if instruments is not None and endogenous is not None:
        names += map(str, instruments.columns)
        parts += [instruments.to_numpy(dtype=float), endogenous[:, None]]
    raw = np.column_stack([*parts, y])
    table, absorbed = _net_of(effects, raw, ours, clusters)
    unit = np.linalg.norm(table, axis=0)
    absent = unit <= DEPENDENT * np.linalg.norm(raw, axis=0)  # the effects contain it
    unit = np.where(absent, 1.0, unit)
    table = np.where(absent, 0.0, table / unit)  # in units of its columns a rank does not depend on them
    kept = independent_columns(table[:, : len(names)] * np.sqrt(ours)[:, None])
    x_at, z_at = np.flatnonzero(kept[:n_x]), n_x + np.flatnonzero(kept[n_x:])
    used = np.r_[x_at, [len(names)] * bool(len(z_at))].astype(int)
    if not len(used):
        raise InputError("X: no characteristic varies beyond the effects that are absorbed.")
    X, W, Z = table[:, x_at], table[:, [len(names)]], table[:, z_at]
    degrees = len(y) - len(used) - absorbed
    config: dict[str, Any] = {"cov_type": "robust", "debiased": degrees > 0}
    if clusters is not None:
        config |= {"cov_type": "clustered", "clusters": clusters.to_numpy()}
    if absorbed and degrees > 0:
        config["extra_df"] = absorbed
    both = (W, Z) if len(z_at) else (None, None)
    fit = IV2SLS(table[:, -1], X if len(x_at) else None, *both, weights=ours).fit(**config)
    columns = pd.Index([*(names[k] for k in x_at), *[endogenous_name] * bool(len(z_at))])
    counts = {} if clusters is None else {str(name): int(clusters[name].nunique()) for name in clusters}
    errors = np.asarray(fit.std_errors)
    if len(counts) == 1 and next(iter(counts.values())) < FEW_CLUSTERS:
        root = np.sqrt(ours)[:, None]
        cluster = np.asarray(clusters)[:, 0]
        errors = _jackknife(
            table[:, used] * root, table[:, np.r_[x_at, z_at]] * root, table[:, -1] * root[:, 0], cluster
        )
    residual, center = np.asarray(fit.resids), np.average(table[:, -1], weights=ours)
    total = float(ours @ (table[:, -1] - center) ** 2)
    return TwoStage(
        pd.Series(np.asarray(fit.params) * unit[-1] / unit[used], index=columns),
        pd.Series(errors * unit[-1] / unit[used], index=columns),
        max(min(counts.values()) - 1 if counts else degrees, 1),
        len(y) if weight is None else int(ours.sum()),
        counts,
        () if effects is None else tuple(effects.columns),
        1 - float(ours @ residual**2) / total if total > 0 else 0.0,
        None if endogenous is None else endogenous_name,
        _effective_f(W[:, 0], X, Z, ours, config) if len(z_at) else None,
        tuple(names[k] for k in z_at),
        tuple(name for name, keep in zip(names, kept) if not keep),
    )


def _jackknife(R: np.ndarray, Q: np.ndarray, y: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """Return standard errors by leaving out one cluster after the other; R the regressors, Q exogenous and instruments."""
    members = [cluster == label for label in np.unique(cluster)]
    sums = np.stack([Q[at].T @ np.column_stack([Q[at], R[at], y[at]]) for at in members])

    def estimate(moments: np.ndarray) -> np.ndarray:
        gram, cross, target = np.split(moments, [Q.shape[1], Q.shape[1] + R.shape[1]], axis=1)
        first = np.linalg.lstsq(gram, cross, rcond=None)[0]
        return np.asarray(np.linalg.lstsq(first.T @ cross, first.T @ target, rcond=None)[0][:, 0])

    whole = sums.sum(axis=0)
    shift = np.stack([estimate(whole - part) for part in sums]) - estimate(whole)
    return np.sqrt((1 - 1 / len(sums)) * (shift**2).sum(axis=0))


def _net_of(
    effects: pd.DataFrame | None, table: np.ndarray, weight: np.ndarray, clusters: pd.DataFrame | None
) -> tuple[np.ndarray, int]:
    """Return the columns net of effects, and the degrees of freedom these take beyond those nested in clusters."""
    if effects is None:
        return table, 0
    import pyhdfe

    nested = None if clusters is None else clusters.to_numpy()
    absorb = pyhdfe.create(effects.to_numpy(), cluster_ids=nested, drop_singletons=False)
    return absorb.residualize(table, weight[:, None]), int(absorb.degrees)


def _effective_f(
    endogenous: np.ndarray, X: np.ndarray, Z: np.ndarray, weight: np.ndarray, config: dict[str, Any]
) -> float:
    """Return ``π'π / tr(V)`` of the first stage, its instruments made orthonormal and net of the exogenous columns."""
    from linearmodels.iv import IV2SLS

    root = np.sqrt(weight / weight.mean())[:, None]
    outside = np.linalg.qr(X * root)[0]
    net = Z * root - outside @ (outside.T @ (Z * root))
    orthonormal = np.linalg.qr(net - outside @ (outside.T @ net))[0] / root
    fit = IV2SLS(endogenous, np.column_stack([X, orthonormal]), None, None, weights=weight).fit(**config)
    slopes, cov = np.asarray(fit.params)[X.shape[1] :], np.asarray(fit.cov)[X.shape[1] :, X.shape[1] :]
    return float(slopes @ slopes / np.trace(cov)) if np.trace(cov) > 0 else np.inf


def describe(names: Sequence[str], prefix: str) -> list[str]:
    """Return names with a prefix, such as ``peers' size``."""
    return [f"{prefix} {name}" for name in names]
