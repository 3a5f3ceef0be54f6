"""Two-stage least squares with clustered standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import linalg, stats

from peerattn.render import Table

DEPENDENT = 1e-9  # a column whose part that is new is a smaller share of it counts as dependent


@dataclass(frozen=True)
class TwoStage:
    """Estimates of ``y = Xβ + e`` with some columns of X instrumented.

    Attributes
    ----------
    params, std_errors : Series
        By regressor; robust to heteroskedasticity, and to dependence within clusters if there are any.
    n_rows : int
    n_clusters : int or None
    cluster : str or None
    r_squared : float
        ``1 − Σe²/Σ(y − ȳ)²``; may be negative in two-stage least squares.
    instrumented : str or None
        Name of the endogenous regressor.
    first_stage_f : float or None
        F statistic of the excluded instruments in its first stage; below 10 they are weak (Staiger and Stock 1997).
    instruments : tuple of str
    dropped : tuple of str
        Columns left out because earlier ones contain them.
    """

    params: pd.Series
    std_errors: pd.Series
    n_rows: int
    n_clusters: int | None
    cluster: str | None
    r_squared: float
    instrumented: str | None = None
    first_stage_f: float | None = None
    instruments: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return coefficients, standard errors, z, p and 95 % intervals."""
        z = self.params / self.std_errors
        width = stats.norm.ppf(0.975) * self.std_errors
        return pd.DataFrame(
            {
                "coef": self.params,
                "std err": self.std_errors,
                "z": z,
                "P>|z|": 2 * stats.norm.sf(np.abs(z)),
                "[0.025": self.params - width,
                "0.975]": self.params + width,
            }
        )

    def summary(self) -> Table:
        """Return the estimates as a table in statsmodels' form."""
        frame = self.to_frame()
        robust = (
            "robust"
            if self.cluster is None
            else f"clustered by {self.cluster} ({self.n_clusters:,} clusters)"
        )
        notes = [f"{self.n_rows:,} rows, R² {self.r_squared:.3f}. Standard errors {robust}."]
        if self.instrumented is not None:
            notes.append(
                f"{self.instrumented} is instrumented by {len(self.instruments)} columns ({', '.join(self.instruments)}): "
                f"first-stage F {self.first_stage_f:.1f}{' (weak: below 10)' if (self.first_stage_f or 0) < 10 else ''}."
            )
        if self.dropped:
            notes.append(f"Left out, being combinations of others: {', '.join(self.dropped)}.")
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
    clusters: np.ndarray | None = None,
    cluster: str | None = None,
    endogenous_name: str = "peers' outcome",
) -> TwoStage:
    """Estimate by two-stage least squares (ordinary where nothing is endogenous).

    ``β = (X'P_Z X)⁻¹ X'P_Z y`` with ``Z`` the exogenous columns and the instruments. Dependent columns are dropped first.
    ``weight`` are frequency weights; ``clusters`` integers, one a row.
    """
    root = np.ones(len(y)) if weight is None else np.sqrt(weight)
    scale = root[:, None]
    keep = independent_columns(exogenous.to_numpy() * scale)
    X, names = exogenous.to_numpy()[:, keep] * scale, list(exogenous.columns[keep])
    dropped = [str(name) for name in exogenous.columns[~keep]]
    fitted, first_stage_f, used = X, None, []
    if endogenous is not None and instruments is not None:
        both = np.column_stack([X, instruments.to_numpy() * scale])
        excluded = independent_columns(both)[X.shape[1] :]
        used = [str(name) for name in instruments.columns[excluded]]
        dropped += [str(name) for name in instruments.columns[~excluded]]
        Z = np.column_stack([X, instruments.to_numpy()[:, excluded] * scale])
        W = endogenous * root
        projected = Z @ linalg.lstsq(Z, W)[0]
        first_stage_f = _partial_f(W, projected, X, len(used), float(np.sum(root**2)))
        fitted, X = np.column_stack([X, projected]), np.column_stack([X, W])
        names.append(endogenous_name)
    target = y * root
    params = linalg.lstsq(fitted, target)[0]
    residual = target - X @ params
    unit = np.linalg.norm(fitted, axis=0)
    unit = np.where(unit > 0, unit, 1.0)  # in units of its columns the inverse drops none of them
    bread = linalg.pinvh((fitted / unit).T @ (fitted / unit)) / np.outer(unit, unit)
    scores = fitted * residual[:, None]
    if weight is not None and clusters is None:
        scores = fitted * (residual / np.where(root > 0, root, 1.0))[:, None]
        scores = scores * np.where(root > 0, 1.0, 0.0)[:, None]
    if clusters is not None:
        order = np.unique(clusters, return_inverse=True)[1]
        summed = np.zeros((order.max() + 1, scores.shape[1]))
        np.add.at(summed, order, scores)
        scores = summed
    covariance = bread @ (scores.T @ scores) @ bread
    mean = float(np.average(y, weights=weight))
    total = float(np.sum(root**2 * (y - mean) ** 2))
    return TwoStage(
        pd.Series(params, index=names),
        pd.Series(np.sqrt(np.maximum(np.diag(covariance), 0.0)), index=names),
        len(y) if weight is None else int(weight.sum()),
        None if clusters is None else len(scores),
        cluster,
        1 - float(residual @ residual) / total if total > 0 else 0.0,
        None if endogenous is None else endogenous_name,
        first_stage_f,
        tuple(used),
        tuple(dropped),
    )


def _partial_f(y: np.ndarray, fitted: np.ndarray, restricted: np.ndarray, q: int, n: float) -> float:
    """Return the F statistic of q columns that the fit has beyond the restricted regressors."""
    without = y - restricted @ linalg.lstsq(restricted, y)[0]
    rest = y - fitted
    freedom = n - restricted.shape[1] - q
    gain = float(without @ without - rest @ rest)
    return gain / q / (float(rest @ rest) / freedom) if q and freedom > 0 and rest @ rest > 0 else np.inf


def describe(names: Sequence[str], prefix: str) -> list[str]:
    """Return names with a prefix, such as ``peers' size``."""
    return [f"{prefix} {name}" for name in names]
