"""Firms exchanged at random: QAP, MRQAP, and placebo networks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, check_count, expect, validate_arguments
from peerattn.network.base import Net, Network
from peerattn.network.cross_section import Array, CrossSection, frozen
from peerattn.network.inference.dyadic import independent, observations, sizes
from peerattn.render import Regression
from peerattn.render.regression import Parentheses, estimates
from peerattn.seeds import seeded_generator

Exchange = Callable[[np.random.Generator], Array]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PermutationRegression(Regression):
    """Regression of weights on characteristics of pairs, with p values from permuted firms.

    Attributes
    ----------
    params, pvalues : pandas.Series
        Coefficients (weight per unit), and two-sided p values by permutation.
    std_errors, tstats : pandas.Series
        Of least squares with a constant for each period, which takes pairs as independent: the statistic that is permuted, not
        to be read as a test.
    rsquared : float
        Within periods when there are several.
    nobs : int
        Ordered pairs of distinct firms, over all periods.
    n_permutations : int
        Permutations drawn.
    method : str
        What was permuted.

    Examples
    --------
    >>> from peerattn import simulate_panel
    >>> panel = simulate_panel(10, 3, 2, n_industries=2, random_state=0)
    >>> from peerattn.network import SameCode, mrqap
    >>> found = mrqap(panel.network, {"same industry": SameCode(panel.X["industry"])}, n_permutations=19)
    >>> bool(0.0 < found.pvalues["same industry"] <= 1.0)
    True
    """

    n_permutations: int
    method: str
    title: str = "What makes a peer? Weights on characteristics of pairs"
    _below: ClassVar[Parentheses] = "pvalues"

    def conf_int(self, level: float = 0.95) -> pd.DataFrame:
        """Return NaN: permutations test, they give no intervals."""
        return pd.DataFrame(np.nan, self.params.index, ["lower", "upper"])

    def _footnotes(self) -> list[str]:
        return [
            f"P values by {self.n_permutations:,} permutations of firms ({self.method}); "
            f"the smallest possible is {1 / (1 + self.n_permutations):.2g}. Standard errors and t statistics are those "
            "of least squares, which takes pairs as independent: they describe, and do not test."
        ]


@validate_arguments
def mrqap(
    network: Network, regressors: Mapping[str, Any], *, periods: Any = None, n_permutations: int = 999, random_state: int = 0
) -> PermutationRegression:
    """Regress weights on characteristics of pairs; p values by double semi-partialing (QAP when there is one).

    ``w_ij,t = a_t + Σ_k b_k x_k,ij,t + e_ij,t`` over ordered pairs of distinct firms. For each k the part of ``x_k``
    that the other regressors do not explain is permuted (firms exchanged, rows and columns alike, **the same firms in
    all periods**) and the t statistic of its coefficient compared with that of the data. Pairs are thus never taken as
    independent, nor are the periods of a persistent network.

    Parameters
    ----------
    network : PeerNetwork
        Its weights are explained, among firms that are both focal firms and peers.
    regressors : mapping of str to SameCode, Difference, PeerNetwork or DataFrame
        What may explain them, by name. Firms with an unknown value are left out.
    periods : iterable of labels, optional
        Default all; each period has its own constant.
    n_permutations : int, default 999
        Cost: one regression on all pairs each, for each regressor.
    random_state : int, default 0
        Seed of the permutations.

    Returns
    -------
    PermutationRegression
        With ``p = (1 + count) / (1 + n_permutations)``.

    Raises
    ------
    InputError
        When there are fewer than four firms in every period, or a regressor does not vary or repeats others.

    Notes
    -----
    Where some firms are absent in some periods a permutation passes over them, so that a firm takes the
    same place in every period in which both are there.

    References
    ----------
    Dekker, Krackhardt and Snijders (2007), "Sensitivity of MRQAP tests to collinearity and autocorrelation
    conditions", Psychometrika 72.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork, SameCode, mrqap
    >>> rng = np.random.default_rng(0)
    >>> codes = pd.Series(list("ab" * 6), index=[f"F{i}" for i in range(12)])
    >>> W = rng.random((12, 12)) + 2.0 * (codes.to_numpy()[:, None] == codes.to_numpy())
    >>> W = W / W.sum(axis=1, keepdims=True)
    >>> network = PeerNetwork.from_matrices({None: (codes.index, None, W)})
    >>> mrqap(network, {"same code": SameCode(codes)}, n_permutations=99).pvalues.tolist()
    [0.02]
    """
    check_count(n_permutations=n_permutations)
    pairs, y, X = observations(network, regressors, periods)
    # three firms have too few different permutations
    enough = (pairs.groupby("period")["firm"].transform("nunique") >= 4).to_numpy()
    if not enough.any():
        raise InputError("network: no period has four firms with every regressor known.")
    pairs = pairs[enough]
    # periods differ in level: weights of small cross-sections are larger
    size = sizes(X)
    values = pd.DataFrame(np.column_stack([y, X / size])[enough])
    means = values.groupby(pairs["period"].to_numpy()).transform("mean")  # a constant for each period
    y, *columns = (values - means).to_numpy().T
    X = independent(np.column_stack(columns))
    slopes = np.linalg.lstsq(X, y, rcond=None)[0]
    rest = y - X @ slopes
    coefficients = slopes / size
    rng = seeded_generator(random_state)
    exchange = _exchanges(pairs)
    degrees = len(y) - X.shape[1] - pairs["period"].nunique()
    t, p = np.transpose([_tested(exchange, y, X, k, degrees, n_permutations, rng) for k in range(X.shape[1])])
    names = pd.Index(list(regressors), name="regressor")
    return PermutationRegression(
        **estimates(names, coefficients, coefficients / t, p),
        rsquared=float(1 - rest @ rest / (y @ y or np.nan)),
        nobs=len(y),
        method="QAP" if X.shape[1] == 1 else "MRQAP, double semi-partialing",
        n_permutations=n_permutations,
    )


def _exchanges(pairs: pd.DataFrame) -> Exchange:
    """Return what draws, for each pair, the observation of the pair whose places its firms take."""
    i, j, period = (pairs[name].to_numpy() for name in ("firm", "peer", "period"))
    # where the observation of each pair of a period is
    places = np.zeros((period.max() + 1, i.max() + 1, i.max() + 1), dtype=np.int32)
    places[period, i, j] = np.arange(len(pairs))
    here = [np.unique(i[period == t]) for t in range(len(places))]

    def drawn(rng: np.random.Generator) -> Array:
        order = rng.permutation(places.shape[1])
        # one permutation of the firms for all periods: pairs keep their dependence over time
        image = np.zeros(places.shape[:2], dtype=int)
        for t, firms in enumerate(here):
            image[t, firms] = firms[among(order, firms)]
        return places[period, image[period, i], image[period, j]]

    return drawn


def _tested(
    exchange: Exchange, y: Array, X: Array, k: int, degrees: int, count: int, rng: np.random.Generator
) -> tuple[float, float]:
    """The t statistic of one coefficient, and its p value by permutations of firms."""
    # the regressor net of the others is what is permuted: double semi-partialing
    basis = np.linalg.qr(np.delete(X, k, axis=1))[0]
    rest, y_rest = (column - basis @ (basis.T @ column) for column in (X[:, k], y))
    observed = _partial_t(y_rest, rest, degrees)
    extreme = 0
    for _ in range(count):
        z = rest[exchange(rng)]
        z -= basis @ (basis.T @ z)
        extreme += abs(_partial_t(y_rest, z, degrees)) >= abs(observed) * (1 - 1e-12)
    return observed, (1 + extreme) / (1 + count)


def _partial_t(y: Array, z: Array, degrees: int) -> float:
    """The t statistic of z in a regression of which y and z are the parts the other regressors leave."""
    zz = z @ z
    zy = z @ y
    rest = y @ y - zy**2 / zz
    return float(zy / np.sqrt(max(zz * rest / degrees, np.finfo(float).tiny)))


def among(order: Array, here: Array) -> Array:
    """Return the permutation that a permutation of all firms makes among some of them: absent firms are skipped.

    Parameters
    ----------
    order : ndarray of int, shape (n,)
        A permutation: firm i takes the place of firm ``order[i]``.
    here : ndarray of int, shape (m,)
        The firms that are there, ascending.

    Returns
    -------
    ndarray of int, shape (m,)
        Places in ``here``; each firm follows its cycle to the first firm that is there. Of a uniform permutation it is uniform.

    Examples
    --------
    >>> among(np.array([1, 2, 0]), np.array([0, 2])).tolist()  # 0 → 1 → 2, and 2 → 0
    [1, 0]
    """
    present = np.zeros(len(order), dtype=bool)
    present[here] = True
    image = order[here]
    # a firm that is absent passes its place on along the permutation, until someone present has it
    while not (there := present[image]).all():
        image = np.where(there, image, order[image])
    return np.searchsorted(here, image)


def within(rng: np.random.Generator, groups: Array) -> Array:
    """Return positions in an order that exchanges rows of one group (a period, an industry) only."""
    order = np.arange(len(groups))
    for group in np.unique(groups):
        here = np.flatnonzero(groups == group)
        order[here] = rng.permutation(here)
    return order


Kind = Literal["relabelled", "rewired"]


@validate_arguments
def placebo(network: Net, kind: Kind = "rewired", *, random_state: int = 0) -> Net:
    """Return a network with the same weights on other peers.

    Parameters
    ----------
    network : PeerNetwork
        Square in each period.
    kind : {"rewired", "relabelled"}, default "rewired"
        ``rewired``: each firm keeps its weights and gives them to random peers. ``relabelled``: firms
        exchange places, the network's shape stays.
    random_state : int, default 0
        Seed.

    Returns
    -------
    PeerNetwork
        Rewired, a weight on oneself stays unchanged, and no firm gains one; relabelled, it goes with the firm's place.

    Raises
    ------
    InputError
        When ``kind`` is unknown, or the network is rectangular.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({None: ("ABC", None, np.eye(3)[[1, 2, 0]])})
    >>> placebo(network, "rewired", random_state=0).matrix().sum(axis=1).tolist()
    [1.0, 1.0, 1.0]
    """
    rng = seeded_generator(random_state)
    square = all(section.is_square for _, section in network.sections())
    expect(square, "placebo", "focal firms that are the peers", "others", "Take subset(firms=...) of both.")
    sections = []
    for _, section in network.sections():
        order = rng.permutation(len(section.rows))
        weights: Any = section.weights
        made = weights[order][:, order] if kind == "relabelled" else _rewired(section, rng)
        sections.append(CrossSection(section.rows, section.rows, frozen(made)))
    return network.replaced(sections)


def _rewired(section: CrossSection, rng: np.random.Generator) -> Any:
    """Give each row's weights to other columns, own column apart."""
    found = np.array(section.dense())
    off = ~np.eye(len(found), dtype=bool)
    found[off] = rng.permuted(found[off].reshape(len(found), max(len(found) - 1, 0)), axis=1).ravel()
    return sparse.csr_array(found) if section.is_sparse else found
