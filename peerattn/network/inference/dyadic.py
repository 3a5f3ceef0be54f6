"""What makes a peer? Regression over pairs, with standard errors for pairs that share firms."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse, stats

from peerattn.exceptions import InputError, expect, validate_arguments, validate_methods
from peerattn.network.algebra import subset
from peerattn.network.attributes import characteristic, code_numbers
from peerattn.network.base import Network
from peerattn.network.cross_section import Array
from peerattn.panel.effects import effect_labels, effect_parts, net_of
from peerattn.render import Regression
from peerattn.render.regression import estimates


@validate_methods
@dataclass(frozen=True)
class SameCode:
    """Regressor 1[code_i = code_j]; zero where either code is unknown.

    Parameters
    ----------
    codes : pandas.Series
        By firm, or by firm and period.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn.network import SameCode
    >>> sector = pd.Series(["oil", "oil", "tech"], index=["XOM", "CVX", "AAPL"])
    >>> SameCode(sector).codes["XOM"]
    'oil'
    """

    codes: pd.Series

    def matrix(self, network: Network, positions: Array, period: Hashable) -> Array:
        """Return the regressor among some firms in one period, shape (n, n)."""
        codes = code_numbers(network, self.codes, positions, period, "codes")
        return np.asarray(((codes[:, None] == codes[None]) & (codes[:, None] >= 0)).astype(np.float64))


@validate_methods
@dataclass(frozen=True)
class Difference:
    """Regressor x_j − x_i (how much larger the peer is), or its size.

    Parameters
    ----------
    values : pandas.Series
        Characteristic by firm, or by firm and period.
    absolute : bool, default True
        Take ``|x_i − x_j|``.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn.network import Difference
    >>> size = pd.Series([9.0, 7.5], index=["XOM", "CVX"])
    >>> float(Difference(size).values["CVX"])
    7.5
    """

    values: pd.Series
    absolute: bool = True

    def matrix(self, network: Network, positions: Array, period: Hashable) -> Array:
        """Return the regressor among some firms in one period, shape (n, n); NaN where x is unknown."""
        x = characteristic(network, self.values, positions, period, "values")
        gap = x[None] - x[:, None]
        return np.abs(gap) if self.absolute else gap


def observations(network: Network, regressors: Mapping[str, Any], periods: Any = None) -> tuple[pd.DataFrame, Array, Array]:
    """Return the ordered pairs of distinct firms in all periods as observations.

    Firms that are only focal firms or only peers, and firms with an unknown regressor, are left out.

    Returns
    -------
    tuple
        Columns ``firm``, ``peer`` (positions in the labels) and ``period`` of each pair; weights (N,); regressors (N, p).

    Raises
    ------
    InputError
        When there is no regressor, or one is of a kind not known here.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({1: ("ABC", None, np.eye(3)[[1, 2, 0]])})
    >>> size = pd.Series({"A": 1.0, "B": 2.0})
    >>> pairs, y, X = observations(network, {"size": Difference(size)})
    >>> pairs.to_numpy().tolist(), y.tolist(), X.tolist()
    ([[0, 1, 0], [1, 0, 0]], [1.0, 0.0], [[1.0], [1.0]])
    """
    expect(bool(regressors), "regressors", "at least one, such as {'same SIC': SameCode(codes)}", "none")
    network.check_whole("regressors of pairs")
    chosen = subset(network, periods=periods)
    parts = []
    for number, (period, section) in enumerate(chosen.sections()):
        firms, weights = section.square()
        order = np.argsort(firms)  # the same draws whatever the order of rows
        firms = firms[order]
        weights = weights[np.ix_(order, order)]
        stack = np.stack([_matrix(x, name, chosen, firms, period) for name, x in regressors.items()])
        off = ~np.eye(len(firms), dtype=bool)
        # a complete set of pairs: firms are exchanged and left out as wholes
        known = _complete(np.isnan(stack).any(axis=0) & off)
        i, j = np.nonzero(off & known & known[:, None])
        parts.append((firms[i], firms[j], np.full(len(i), number), weights[i, j], *stack[:, i, j]))
    if not parts:
        raise InputError("periods: none is chosen; choose at least one.")
    focal, peers, period, y, *X = (np.concatenate(column) for column in zip(*parts, strict=True))
    return pd.DataFrame({"firm": focal, "peer": peers, "period": period}), y, np.column_stack(X)


def _complete(unknown: Array) -> Array:
    """Firms left after dropping, one after the other, the firm with most unknown pairs."""
    kept = np.ones(len(unknown), dtype=bool)
    while True:
        # the firm with most gaps goes first: as few as possible are lost
        counts = np.where(kept, unknown[:, kept].sum(axis=1) + unknown[kept].sum(axis=0), 0)
        if not counts.any():
            return kept
        kept[counts == counts.max()] = False


def _matrix(regressor: Any, name: str, network: Network, positions: Array, period: Hashable) -> Array:
    if isinstance(regressor, SameCode | Difference):
        return regressor.matrix(network, positions, period)
    labels = network.labels.take(positions)
    if isinstance(regressor, Network):
        regressor = regressor.matrix(period if regressor.is_dated else None)
    expected = "SameCode, Difference, PeerNetwork or frame"
    expect(isinstance(regressor, pd.DataFrame), f"regressors[{name!r}]", expected, type(regressor).__name__)
    return np.asarray(regressor.reindex(index=labels, columns=labels).to_numpy(dtype=np.float64))


def sizes(X: Array) -> Array:
    """Return the largest absolute value of each column, so that no column is lost to rounding beside larger ones."""
    return np.maximum(np.abs(X).max(axis=0), 1e-300)


def independent(X: Array) -> Array:
    """Return regressors net of constants or effects, in units of their sizes before; rounding errors are zero.

    Raises
    ------
    InputError
        When one is zero or a combination of the others.
    """
    X = np.where(np.abs(X) < 1e-10, 0.0, X)
    if np.linalg.matrix_rank(X / sizes(X), tol=1e-9 * np.sqrt(len(X))) < X.shape[1]:
        raise InputError("regressors: one does not vary (net of effects) or repeats others; drop it.")
    return X


#: With fewer firms the tests reject a true null in more than 8 % of samples at the 5 % level: no p-value is given.
MIN_FIRMS = 25

#: Up to this number of firms the jackknife absorbs the effects anew without each firm; beyond, leaving one out hardly moves them.
MOST_ABSORBED = 100


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DyadicRegression(Regression):
    """Least squares over ordered pairs with dyad-robust standard errors.

    Attributes
    ----------
    params, std_errors, tstats, pvalues : pandas.Series
        Coefficients (weight per unit), standard errors, their ratios, two-sided p values (Student's t with n − 1 degrees of
        freedom for n firms); p values are NaN with fewer than 25 firms.
    cov : pandas.DataFrame
        Dyad-robust covariance of the coefficients, by the jackknife over firms.
    nobs, n_firms, n_periods : int
        Ordered pairs, firms and periods used.
    rsquared : float
        Share of variance explained, net of absorbed effects.
    effects : tuple of str
        Effects that were absorbed.

    Examples
    --------
    >>> from peerattn import simulate_panel
    >>> panel = simulate_panel(10, 3, 2, n_industries=2, random_state=0)
    >>> from peerattn.network import SameCode, dyadic_regression
    >>> found = dyadic_regression(panel.network, {"same industry": SameCode(panel.X["industry"])})
    >>> found.params.index.tolist()
    ['constant', 'same industry']
    """

    cov: pd.DataFrame
    n_firms: int
    n_periods: int
    title: str = "Dyadic regression of weights: what makes a peer?"

    def _figures(self) -> dict[str, object]:
        return {"Firms": self.n_firms} | super()._figures()

    def _footnotes(self) -> list[str]:
        periods = f"{self.n_periods} period{'s' * (self.n_periods > 1)}"
        notes = [
            f"Ordered pairs of {self.n_firms:,} firms in {periods}. Standard errors allow any correlation between pairs that "
            "share a firm (Aronow, Samii and Assenova 2015)."
        ]
        if self.n_firms < MIN_FIRMS:
            notes.append(f"No p values: the tests hold from {MIN_FIRMS} firms on. Use mrqap.")
        return notes


@validate_arguments
def dyadic_regression(
    network: Network, regressors: Mapping[str, Any], *, periods: Any = None, effects: Sequence[str] = ()
) -> DyadicRegression:
    """Regress weights on characteristics of pairs, ``w_ij,t = a + Σ_k b_k x_k,ij,t + e_ij,t``.

    The covariance allows pairs that share a firm to be correlated, in all periods: the sum over firms, minus what
    pairs of the same two firms would count twice,

    ``V = (n − 1)/n Σ_i (b − b₋ᵢ)(b − b₋ᵢ)' − (X'X)⁻¹ (Σ_{i<j} s_ij s_ij') (X'X)⁻¹``

    with ``b₋ᵢ`` the estimate without firm i and ``s_ij`` the sum of ``x e`` over the pairs of i and j, both ways.

    Parameters
    ----------
    network : PeerNetwork
        Its weights are explained, among firms that are both focal firms and peers.
    regressors : mapping of str to SameCode, Difference, PeerNetwork or DataFrame
        What may explain them, by name. Firms with an unknown value are left out.
    periods : iterable of labels, optional
        Default all.
    effects : sequence of str, default ()
        Absorbed in place of the constant: ``"firm"`` (the focal firm), ``"peer"`` (its popularity), ``"period"``, or
        several joined by ``×``, such as ``"peer×period"``.

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
    Costs one pass over all pairs. The jackknife is the small-sample form of the sum over pairs that share a firm: with 25 and 40
    firms it rejects a true null 5 to 7 % of the time (``benchmarks/results/sizes.md``). A variance that comes out negative is
    reported as NaN. Effects are absorbed by ``pyhdfe``, up to 100 firms anew without each firm. With more firms the jackknife is
    of variables net of them.

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
    pairs, y, X = observations(network, regressors, periods)
    names = list(regressors)
    if not effect_parts(effects):
        names = ["constant", *names]
        X = np.column_stack([np.ones(len(y)), X])
    expect(len(y) > len(names), "network", f"more known pairs than {len(names)} coefficients", len(y))
    # effects by number: a label need not be text
    groups = effect_labels(effects, {name: pairs[name] for name in ("firm", "peer", "period")})
    # net of their means where there is a constant, and in units of their spread: no level or unit makes columns dependent
    back = np.diag(1 / sizes(X))
    level = 0.0
    if not len(groups.columns):
        level = y.mean()
        back[0, 1:] = -X[:, 1:].mean(axis=0) * np.diag(back)[1:]
    raw = np.column_stack([X @ back, y - level])
    net = net_of(groups, raw)
    spread = sizes(independent(net[:, :-1]))
    X = net[:, :-1] / spread
    raw[:, :-1] /= spread
    back /= spread
    y = net[:, -1]
    bread = np.linalg.inv(X.T @ X)
    slopes = bread @ (X.T @ y)
    rest = y - X @ slopes
    firms, ends = np.unique(np.concatenate([pairs["firm"], pairs["peer"]]), return_inverse=True)
    i, j = np.split(ends, 2)
    # the effects without a firm are others: in a small network that matters
    if len(groups.columns) and len(firms) <= MOST_ABSORBED:
        without = np.stack([_without(raw, groups, (i != k) & (j != k)) for k in range(len(firms))])
    else:
        without = _all_without(i, j, len(firms), X, y)
    cov = back @ _covariance(i, j, without - slopes, X * rest[:, None], bread) @ back.T
    params = back @ slopes
    params[0] += level
    # a jackknife minus what is counted twice may be negative in tiny samples
    variance = np.diag(cov)
    errors = np.sqrt(np.where(variance > 0, variance, np.nan))
    t = params / errors
    n_firms = len(firms)
    p = np.where(n_firms < MIN_FIRMS, np.nan, 2 * stats.t.sf(np.abs(t), n_firms - 1))
    return DyadicRegression(
        **estimates(names, params, errors, p),
        cov=pd.DataFrame(cov, names, names),
        freedom=n_firms - 1,
        rsquared=float(1 - rest @ rest / ((y - y.mean()) @ (y - y.mean()))) if np.ptp(y) else float("nan"),
        nobs=len(y),
        n_firms=n_firms,
        n_periods=pairs["period"].nunique(),
        effects=tuple(map(str, groups)),
    )


def _without(raw: Array, groups: pd.DataFrame, rest: Array) -> Array:
    """The estimate from the rest of the pairs, effects absorbed anew."""
    net = net_of(groups[rest], raw[rest])
    return np.asarray(np.linalg.lstsq(net[:, :-1], net[:, -1], rcond=1e-8)[0])


def _all_without(i: Array, j: Array, n: int, X: Array, y: Array) -> Array:
    """The estimates without each firm, (n, k), of variables as they are."""
    at = np.tile(np.arange(len(y)), 2)
    # the pairs that a firm is in
    member = sparse.csr_array((np.ones(len(at)), (np.concatenate([i, j]), at)), shape=(n, len(y)))
    both = np.column_stack([X, y])
    sums = X.T @ both - np.stack([member @ (x[:, None] * both) for x in X.T], axis=1)  # of all other pairs
    return np.asarray((np.linalg.pinv(sums[:, :, :-1], rcond=1e-13, hermitian=True) @ sums[:, :, -1:])[:, :, 0])


def _covariance(i: Array, j: Array, shift: Array, scores: Array, bread: Array) -> Array:
    """The jackknife over firms, ``shift`` the change when each is left out, minus the pairs of firms counted twice."""
    n = len(shift)
    # both directions of a pair have its two firms in common
    _, place = np.unique(np.minimum(i, j) * n + np.maximum(i, j), return_inverse=True)
    by_pair = np.stack([np.bincount(place, column) for column in scores.T])
    return np.asarray((n - 1) / n * shift.T @ shift - bread @ (by_pair @ by_pair.T) @ bread)
