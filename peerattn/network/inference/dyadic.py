"""What makes a peer? Regression over pairs, with standard errors for pairs that share firms."""

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

#: With fewer firms the tests reject a true null in more than 8 % of samples at the 5 % level: no p-value is given.
MIN_FIRMS = 25

if TYPE_CHECKING:
    from peerattn.network.peer_network import PeerNetwork


@dataclass(frozen=True, eq=False)
class DyadicRegression:
    """Least squares over ordered pairs with dyad-robust standard errors.

    Attributes
    ----------
    params, bse, tvalues, pvalues : pandas.Series
        Coefficients (weight per unit), standard errors, their ratios, two-sided p values (Student's t with n − 1 degrees of
        freedom for n firms); p values are NaN with fewer than 25 firms.
    cov : pandas.DataFrame
        Dyad-robust covariance of the coefficients, by the jackknife over firms.
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
        """Return confidence intervals at level 1 − alpha, columns 0 (lower) and 1 (upper); NaN with fewer than 25 firms."""
        width = stats.t.ppf(1 - alpha / 2, self.n_firms - 1) * self.bse.where(self.pvalues.notna())
        return pd.DataFrame({0: self.params - width, 1: self.params + width})

    def to_frame(self) -> pd.DataFrame:
        """Return coefficients, standard errors, t, p and 95 % intervals as a frame."""
        bounds = self.conf_int()
        return pd.DataFrame(
            {
                "coef": self.params,
                "std err": self.bse,
                "t": self.tvalues,
                "P>|t|": self.pvalues,
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
                *(
                    (f"No p values: the tests hold from {MIN_FIRMS} firms on. Use mrqap.",)
                    if self.n_firms < MIN_FIRMS
                    else ()
                ),
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

    The covariance allows pairs that share a firm to be correlated, in all periods: by firm, less what pairs of the same two
    firms would count twice,

    ``V = (n − 1)/n Σ_i (b − b₋ᵢ)(b − b₋ᵢ)' − (X'X)⁻¹ (Σ_{i<j} s_ij s_ij') (X'X)⁻¹``

    with ``b₋ᵢ`` the estimate without firm i and ``s_ij`` the sum of ``x e`` over the pairs of i and j, both ways.

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
    Costs one pass over all pairs. The sum over pairs that share a firm, of which the jackknife is the small-sample form, rejects
    a true null 20 % of the time with 25 firms; the jackknife 5 to 8 % (``benchmarks/results/sizes.md``). A variance that comes
    out negative is reported as NaN.

    References
    ----------
    Aronow, Samii and Assenova (2015), "Cluster-robust variance estimation for dyadic data", Political
    Analysis 23. Graham (2020), "Dyadic regression", in *The Econometric Analysis of Network Data* (the jackknife).

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
    cov = _covariance(focal, peers, y, X, params, bread)
    variance = np.diag(cov)
    errors = np.sqrt(np.where(variance > 0, variance, np.nan))
    t, n_firms = params / errors, len(np.unique(np.concatenate([focal, peers])))
    p = 2 * stats.t.sf(np.abs(t), n_firms - 1) if n_firms >= MIN_FIRMS else np.full(len(t), np.nan)
    index = pd.Index(names)
    return DyadicRegression(
        params=pd.Series(params, index=index),
        bse=pd.Series(errors, index=index),
        tvalues=pd.Series(t, index=index),
        pvalues=pd.Series(p, index=index),
        cov=pd.DataFrame(cov, index=index, columns=index),
        nobs=len(y),
        n_firms=n_firms,
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


def _covariance(focal: Array, peers: Array, y: Array, X: Array, params: Array, bread: Array) -> Array:
    """The jackknife over firms, less the pairs of firms counted twice."""
    firms, ends = np.unique(np.concatenate([focal, peers]), return_inverse=True)
    i, j, n, k = *np.split(ends, 2), len(firms), X.shape[1]
    gram, moment = np.zeros((n, k, k)), np.zeros((n, k))  # of the pairs that a firm is in
    for end in (i, j):
        for a in range(k):
            moment[:, a] += np.bincount(end, X[:, a] * y, n)
            for b in range(k):
                gram[:, a, b] += np.bincount(end, X[:, a] * X[:, b], n)
    whole = X.T @ X
    without = np.linalg.pinv(whole - gram, hermitian=True) @ (X.T @ y - moment)[:, :, None]
    shift = without[:, :, 0] - params
    scores = X * (y - X @ params)[:, None]
    _, place = np.unique(np.minimum(i, j) * n + np.maximum(i, j), return_inverse=True)
    by_pair = np.stack([np.bincount(place, column) for column in scores.T])
    return np.asarray((n - 1) / n * shift.T @ shift - bread @ (by_pair @ by_pair.T) @ bread)
