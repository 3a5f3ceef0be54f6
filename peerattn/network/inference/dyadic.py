"""What makes a peer? Regression over pairs whose standard errors know that pairs share firms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from peerattn.exceptions import InputError
from peerattn.network.cross_section import Array
from peerattn.network.inference.dyads import dyads
from peerattn.render import Table

if TYPE_CHECKING:
    from peerattn.network.peer_network import PeerNetwork


@dataclass(frozen=True, eq=False)
class DyadicRegression:
    """Least squares over ordered pairs with dyad-robust standard errors.

    Attributes
    ----------
    params, bse, tvalues, pvalues : pandas.Series
        Coefficients (weight per unit), standard errors, their ratios, two-sided p values (normal).
    cov : pandas.DataFrame
        Dyad-robust covariance of the coefficients.
    nobs, n_firms, n_periods : int
        Ordered pairs, firms and periods used.
    rsquared : float
        Share of variance explained.
    """

    params: pd.Series
    bse: pd.Series
    tvalues: pd.Series
    pvalues: pd.Series
    cov: pd.DataFrame
    nobs: int
    n_firms: int
    n_periods: int
    rsquared: float

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return confidence intervals at level 1 − alpha, columns 0 (lower) and 1 (upper)."""
        width = stats.norm.ppf(1 - alpha / 2) * self.bse
        return pd.DataFrame({0: self.params - width, 1: self.params + width})

    def to_frame(self) -> pd.DataFrame:
        """Return coefficients, standard errors, z, p and 95 % intervals as a frame."""
        bounds = self.conf_int()
        return pd.DataFrame(
            {
                "coef": self.params,
                "std err": self.bse,
                "z": self.tvalues,
                "P>|z|": self.pvalues,
                "[0.025": bounds[0],
                "0.975]": bounds[1],
            }
        )

    def summary(self) -> Table:
        """Return the regression as a table in statsmodels' form."""
        frame = self.to_frame()
        rows = [(name, *values) for name, values in zip(frame.index, frame.to_numpy(), strict=True)]
        return Table(
            "Dyadic regression of weights: what makes a peer?",
            ("", *frame.columns),
            rows,
            formats=("", ".4g", ".2g", ".2f", ".3f", ".4g", ".4g"),
            footnotes=(
                f"{self.nobs:,} ordered pairs of {self.n_firms:,} firms in {self.n_periods} periods, R² {self.rsquared:.3f}. "
                "Standard errors allow any correlation between pairs that share a firm (Aronow, Samii and Assenova 2015).",
            ),
        )

    def __str__(self) -> str:
        return self.summary().text()

    def __repr__(self) -> str:
        return (
            f"DyadicRegression({len(self.params)} coefficients, {self.nobs:,} pairs, {self.n_firms:,} firms)"
        )

    def _repr_html_(self) -> str:
        return self.summary().html()


def dyadic_regression(
    network: PeerNetwork, regressors: Mapping[str, Any], *, periods: Any = None
) -> DyadicRegression:
    """Regress weights on characteristics of pairs, ``w_ij,t = a + Σ_k b_k x_k,ij,t + e_ij,t``.

    The covariance is ``(X'X)⁻¹ (Σ_{d,d'} 1[d and d' share a firm] e_d e_d' x_d x_d') (X'X)⁻¹``, over ordered
    pairs of all periods.

    Parameters
    ----------
    network : PeerNetwork
        Its weights are explained, among firms that both look and are looked to.
    regressors : mapping of str to SameCode, Difference, PeerNetwork or DataFrame
        What may explain them, by name. Firms with an unknown value are left out.
    periods : iterable of labels, optional
        Default all.

    Returns
    -------
    DyadicRegression
        ``summary()`` is the table.

    Raises
    ------
    InputError
        When there are too few pairs, or regressors do not vary or repeat one another.

    Notes
    -----
    Costs one pass over all pairs. A variance that comes out negative (few firms) is reported as NaN.

    References
    ----------
    Aronow, Samii and Assenova (2015), "Cluster-robust variance estimation for dyadic data", Political
    Analysis 23.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork, SameCode, dyadic_regression
    >>> codes = pd.Series(list("aabb"), index=list("ABCD"))
    >>> W = np.array([[0, 0.8, 0.1, 0.1], [0.7, 0, 0.2, 0.1], [0.1, 0.1, 0, 0.8], [0.2, 0.2, 0.6, 0]])
    >>> network = PeerNetwork.from_matrices({None: (codes.index, None, W)})
    >>> dyadic_regression(network, {"same code": SameCode(codes)}).params.round(4).to_dict()
    {'constant': 0.1375, 'same code': 0.5875}
    """
    blocks = dyads(network, regressors, periods)
    names = ["constant", *regressors]
    focal, peers, y, X = _observations(blocks)
    if len(y) <= len(names):
        raise InputError(
            f"network: only {len(y)} pairs have every regressor known; {len(names)} coefficients need more."
        )
    if np.linalg.matrix_rank(X / np.maximum(np.abs(X).max(axis=0), 1e-300)) < X.shape[1]:
        raise InputError("regressors: one does not vary between pairs, or repeats the others; leave it out.")
    bread = np.linalg.inv(X.T @ X)
    params = bread @ (X.T @ y)
    rest = y - X @ params
    cov = bread @ _shared_firm_meat(focal, peers, X * rest[:, None]) @ bread
    variance = np.diag(cov)
    errors = np.sqrt(np.where(variance > 0, variance, np.nan))
    z = params / errors
    index = pd.Index(names)
    return DyadicRegression(
        params=pd.Series(params, index=index),
        bse=pd.Series(errors, index=index),
        tvalues=pd.Series(z, index=index),
        pvalues=pd.Series(2 * stats.norm.sf(np.abs(z)), index=index),
        cov=pd.DataFrame(cov, index=index, columns=index),
        nobs=len(y),
        n_firms=len(np.unique(np.concatenate([focal, peers]))),
        n_periods=sum(len(positions) > 1 for positions, _, _ in blocks),
        rsquared=float(1 - rest @ rest / ((y - y.mean()) @ (y - y.mean()))) if np.ptp(y) else float("nan"),
    )


def _observations(blocks: list[tuple[Array, Array, Array]]) -> tuple[Array, Array, Array, Array]:
    """Focal firm, peer, weight and regressors (with a constant) of every ordered pair."""
    focal, peers, y, X = [], [], [], []
    for positions, weights, regressors in blocks:
        i, j = np.nonzero(~np.eye(len(positions), dtype=bool))
        focal.append(positions[i])
        peers.append(positions[j])
        y.append(weights[i, j])
        X.append(np.column_stack([np.ones(len(i)), regressors[:, i, j].T]))
    return np.concatenate(focal), np.concatenate(peers), np.concatenate(y), np.concatenate(X)


def _shared_firm_meat(focal: Array, peers: Array, scores: Array) -> Array:
    """Sum of s_d s_d' over all d, d' that share a firm: by firm, less the pairs of firms counted twice."""
    size = int(max(focal.max(), peers.max())) + 1
    by_firm = np.zeros((size, scores.shape[1]))
    np.add.at(by_firm, focal, scores)
    np.add.at(by_firm, peers, scores)
    keys = np.minimum(focal, peers).astype(np.int64) * size + np.maximum(focal, peers)
    _, place = np.unique(keys, return_inverse=True)
    by_pair = np.zeros((int(place.max()) + 1, scores.shape[1]))
    np.add.at(by_pair, place, scores)
    return np.asarray(by_firm.T @ by_firm - by_pair.T @ by_pair)
