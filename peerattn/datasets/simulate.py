"""Simulated panels whose directed network is known."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

import numpy as np
import pandas as pd
from numpy.random import RandomState
from sklearn.utils import check_random_state

from peerattn.exceptions import InputError, check_at_least, check_count, expect, validate_arguments
from peerattn.network import PeerNetwork
from peerattn.panel import Panel, as_panel
from peerattn.seeds import check_seed

Truth = Literal["directed", "symmetric", "industry"]


@dataclass(frozen=True, eq=False)
class TrueParameters:
    """The parameters that made a simulated panel; K networks, p characteristics, d dimensions of a score.

    Attributes
    ----------
    own : ndarray (p,)
        Slopes of the firm's own characteristics.
    query, key : ndarray (K, p, d)
        ``W_Q`` and ``W_K``: the score of peer j for firm i is ``x_i W_Q W_K' x_j'``. All zero where the truth is industries. Of
        several layers, one for each, the first layer first.
    information : ndarray (K, p)
        What a peer contributes is ``x_j @ information[k]``.
    noise_sd : float
        Standard deviation of the noise.

    Examples
    --------
    >>> from peerattn import simulate_panel
    >>> panel = simulate_panel(10, 3, 2, n_industries=2, random_state=0)
    >>> len(panel.parameters.query)
    1
    """

    own: np.ndarray
    query: np.ndarray
    key: np.ndarray
    information: np.ndarray
    noise_sd: float


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedPanel(Panel):
    """A panel with the truth behind it.

    ``X`` holds characteristics ``x1 ... xp`` and, with industries, the code ``industry``; ``y`` is
    ``own_term + peer_term + noise``. See :class:`~peerattn.panel.Panel` for what it shares with every panel.

    Attributes
    ----------
    own_term, peer_term : pandas.Series
        The two parts of the outcome that can be known, on the index of ``X``.
    networks : tuple of PeerNetwork
        The true weights of each network; empty when the signal share is 0. Of several layers it is their product.
    layers : tuple of PeerNetwork
        With ``n_layers`` of 2 or more, the true weights of each layer, the first layer first; else empty.
    parameters : TrueParameters
    signal_share, own_share : float
        Arguments of the simulation.

    Examples
    --------
    >>> from peerattn import simulate_panel
    >>> panel = simulate_panel(10, 3, 2, n_industries=2, random_state=0)
    >>> len(panel.network.firms)
    10
    """

    own_term: pd.Series = field(default_factory=pd.Series)
    peer_term: pd.Series = field(default_factory=pd.Series)
    networks: tuple[PeerNetwork, ...] = ()
    layers: tuple[PeerNetwork, ...] = ()
    parameters: TrueParameters | None = None
    signal_share: float = 0.0
    own_share: float = 0.0

    @property
    def network(self) -> PeerNetwork:
        """The mean of ``networks``, each of which moves the outcome equally; without one, all firms are isolates."""
        if len(self.networks) == 1:
            return self.networks[0]
        sizes = self.X.groupby(level="period").size()
        none = [[np.zeros((size, size)) for size in sizes]]
        of_each = [[net.section(t)[1].dense() for t in sizes.index] for net in self.networks]
        mean = [np.mean(weights, axis=0) for weights in zip(*(of_each or none))]
        return _networks(self.X.index, [mean])[0]

    def __repr__(self) -> str:
        size = f"{self.labels.levels[0].size} firms, {self.period.nunique()} periods"
        made = f"{self.characteristics.shape[1]} characteristics, {len(self.networks)} networks"
        return f"SimulatedPanel({size}, {made}, signal_share={self.signal_share:g})"


@validate_arguments
def simulate_panel(
    n_firms: int = 150,
    n_periods: int = 80,
    n_characteristics: int = 8,
    *,
    signal_share: float = 0.5,
    own_share: float = 0.3,
    truth: Truth = "directed",
    n_networks: int = 1,
    n_layers: int = 1,
    sharpness: float = 5.0,
    d_head: int = 4,
    persistence: float = 0.9,
    missing_share: float = 0.0,
    n_industries: int = 0,
    random_state: int | RandomState | None = None,
) -> SimulatedPanel:
    r"""Simulate a panel of firms whose directed peer network is known.

    .. math::

        y_{it} = x_{it} b + \sum_k \sum_{j \ne i} w^k_{ijt}\, x_{jt} g_k + e_{it}, \qquad
        w^k_{ijt} = \operatorname{softmax}_{j \ne i}\big(x_{it} W_{Q,k} W_{K,k}' x_{jt}'\big).

    With two layers a firm depends on what its peers' peers have, and not on what its peers have,

    .. math::

        y_{it} = x_{it} b + \sum_j a_{ijt} \sum_k b_{jkt}\, x_{kt} g + e_{it},

    where a and b are weights as above, each with its own :math:`W_Q, W_K`; the network is their product.

    The characteristics are independent autoregressions with unit variance. The scores' standard deviation over pairs
    is ``sharpness``; ``W_K = W_Q`` where the truth is symmetric; where it is industries, the weights are equal over the
    other firms of the same industry.

    Parameters
    ----------
    n_firms, n_periods, n_characteristics : int, default 150, 80, 8
    signal_share : float in [0, 1], default 0.5
        ``Var(peer term net of own x and period mean) / Var(y net of the same)``, in expectation over the noise. At 0 nobody
        has a peer: the true network has isolates only.
    own_share : float in [0, 1), default 0.3
        ``Var(own term) / (Var(own term) + Var(y net of own x))``, within periods.
    truth : {"directed", "symmetric", "industry"}, default "directed"
    n_networks : int, default 1
        Networks that add up, each with its own ``W_Q``, ``W_K``, ``g`` and an equal part in the peer term.
    n_layers : int, default 1
        With 2, peers of peers, i ← j ← k; with 3, the peers of those.
    sharpness : float, default 5.0
        At 0 all peers weigh the same; at 5 a few of 150 carry most of the weight.
    d_head : int, default 4
        Columns of ``W_Q`` and ``W_K``.
    persistence : float in [0, 1), default 0.9
        Autocorrelation of the characteristics.
    missing_share : float in [0, 1), default 0.0
        Share of (firm, period) rows that are absent at random; an absent firm is nobody's peer.
    n_industries : int, default 0
        With 1 or more, X has the code column ``industry``. It plays a part only where the truth is industries.
    random_state : int, RandomState or None, default None

    Returns
    -------
    SimulatedPanel

    Raises
    ------
    InputError
        For a share outside its range, fewer than three firms, an industry truth without industries, or several layers with
        an industry truth or several networks.

    Notes
    -----
    Time and memory: one n x n matrix for each period and network (and layer).

    Examples
    --------
    >>> panel = simulate_panel(20, 5, 3, random_state=0)
    >>> panel
    SimulatedPanel(20 firms, 5 periods, 3 characteristics, 1 networks, signal_share=0.5)
    >>> panel.network.matrix("2000-01").shape
    (20, 20)
    >>> panel.network.peers("F001", period="2000-01", k=2).columns.tolist()
    ['peer', 'weight']
    """
    check_count(n_periods=n_periods, n_characteristics=n_characteristics, n_networks=n_networks, n_layers=n_layers, d_head=d_head)
    check_at_least(3, n_firms=n_firms)
    check_count(n_industries=n_industries or None)
    check_seed(random_state)
    got = f"got n_layers={n_layers}, n_networks={n_networks}, truth={truth!r}, n_industries={n_industries}."
    if truth == "industry" and (n_industries < 1 or n_networks > 1):
        raise InputError(f"truth='industry' takes n_industries of 1 or more and one network; {got}")
    if n_layers > 1 and (truth == "industry" or n_networks > 1):
        raise InputError(f"n_layers: 2 or more need one network that is no industry; {got}")
    expect(0 <= signal_share <= 1, "signal_share", "a number in [0, 1]", signal_share)
    for name, share in {"own_share": own_share, "persistence": persistence, "missing_share": missing_share}.items():
        expect(0 <= share < 1, name, "a number in [0, 1)", share)
    expect(0 <= sharpness < np.inf, "sharpness", "a number of at least 0", sharpness)
    rng = check_random_state(random_state)
    x = _characteristics(rng, n_firms, n_periods, n_characteristics, persistence)  # (T, n, p)
    present = rng.uniform(size=x.shape[:2]) >= missing_share
    expect(bool(present.any()), "missing_share", "a share that leaves some rows", missing_share)
    industry = np.sort(rng.randint(max(n_industries, 1), size=n_firms))
    n_maps = max(n_networks, n_layers) * (truth != "industry")
    query, key = _score_maps(rng, n_maps, x.shape[2], d_head, sharpness, truth)
    rows = [x[t, here] for t, here in enumerate(present)]
    weights = [[_softmax_weights(r @ q @ (r @ k).T) for r in rows] for q, k in zip(query, key)]
    if truth == "industry":
        same = [industry[here][:, None] == industry[here] for here in present]
        weights = [[_softmax_weights(np.where(matching, 0.0, -np.inf)) for matching in same]]
    layers: list[list[np.ndarray]] = []
    if n_layers > 1:  # the last layer's firms attend to firms that attend to those of the layer before
        layers = weights
        weights = [[np.linalg.multi_dot(w[::-1]) for w in zip(*layers)]]
    information = rng.normal(size=(len(weights), x.shape[2]))
    own = rng.normal(size=x.shape[2])

    peer, information = _peer_term(rows, weights, information, signal_share)
    own *= np.sqrt(own_share / (1 - own_share) / np.mean(_demeaned([r @ own for r in rows]) ** 2))
    noise_sd = float(np.sqrt(1 - signal_share))

    index = _labels(present, n_firms)
    own_term = pd.Series(np.concatenate([r @ own for r in rows]), index=index, name="own_term")
    peer_term = pd.Series(np.concatenate(peer), index=index, name="peer_term")
    noise = noise_sd * rng.normal(size=len(index))
    X = pd.DataFrame(np.concatenate(rows), index=index, columns=[f"x{k + 1}" for k in range(x.shape[2])])
    code = None
    if n_industries:
        code = "industry"
        codes = np.array([f"I{k + 1:02d}" for k in industry])
        X[code] = pd.Series(np.concatenate([codes[here] for here in present]), index=index, dtype="str")
    y = (own_term + peer_term + noise).rename("outcome")
    panel = as_panel(X, y, industry=code)
    if signal_share == 0:  # nobody attends to anybody
        weights = layers = []
    return SimulatedPanel(
        **{part.name: getattr(panel, part.name) for part in fields(Panel) if part.name != "description"},
        description=f"simulated (signal_share={signal_share:g}, own_share={own_share:g}, truth={truth!r})",
        networks=_networks(index, weights),
        layers=_networks(index, layers),
        parameters=TrueParameters(own, query, key, information, noise_sd),
        own_term=own_term,
        peer_term=peer_term,
        signal_share=signal_share,
        own_share=own_share,
    )


def _characteristics(rng: RandomState, n: int, periods: int, p: int, persistence: float) -> np.ndarray:
    """Return stationary AR(1) characteristics with unit variance, (T, n, p)."""
    x = rng.normal(size=(periods, n, p))
    for t in range(1, periods):
        x[t] = persistence * x[t - 1] + np.sqrt(1 - persistence**2) * x[t]
    return x


def _score_maps(rng: RandomState, networks: int, p: int, d: int, sharpness: float, truth: str) -> np.ndarray:
    """Return W_Q and W_K, (K, p, d), scaled so that scores between independent firms have sd ``sharpness``."""
    query, key = rng.normal(size=(2, networks, p, d))
    if truth == "symmetric":
        key = query
    product = np.einsum("kpd,kqd->kpq", query, key)
    scale = np.sqrt(sharpness / np.linalg.norm(product, axis=(1, 2), keepdims=True))
    return np.stack([query, key]) * scale


def _softmax_weights(scores: np.ndarray) -> np.ndarray:
    """Return row weights over all firms but one's own, (n, n); zeros where no score is finite."""
    np.fill_diagonal(scores, -np.inf)
    largest = scores.max(axis=1, keepdims=True, initial=np.finfo(float).min)
    weights = np.exp(scores - largest)
    return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(float).tiny))


def _peer_term(
    rows: list[np.ndarray], weights: list[list[np.ndarray]], information: np.ndarray, signal_share: float
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the peer term by period, its net variance equal to ``signal_share``, and the information scaled so."""
    parts = [[w @ (r @ g) for w, r in zip(by_period, rows)] for by_period, g in zip(weights, information)]
    scales = np.array([1 / np.sqrt(_net_variance(part, rows)) for part in parts])
    summed = [sum(s * part[t] for s, part in zip(scales, parts)) for t in range(len(rows))]
    scales *= np.sqrt(signal_share / _net_variance(summed, rows))
    summed = [sum(s * part[t] for s, part in zip(scales, parts)) for t in range(len(rows))]
    return [np.asarray(values) for values in summed], information * scales[:, None]


def _demeaned(by_period: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([values - values.mean(axis=0) for values in by_period if len(values)])


def _net_variance(by_period: Sequence[np.ndarray], rows: list[np.ndarray]) -> float:
    """Return the variance of what own characteristics and period means do not explain."""
    x = _demeaned(rows)
    values = _demeaned(by_period)
    rest = values - x @ np.linalg.lstsq(x, values, rcond=None)[0]
    variance = float(np.mean(rest**2))
    if variance < 1e-12:
        why = "own characteristics and period means explain the peer term (equal weights over all firms do that)"
        raise InputError(f"{why}: raise sharpness, n_firms or n_industries.")
    return variance


def _labels(present: np.ndarray, n_firms: int) -> pd.MultiIndex:
    width = max(3, len(str(n_firms)))
    firms = np.array([f"F{k + 1:0{width}d}" for k in range(n_firms)])
    months = pd.date_range("2000-01-31", periods=len(present), freq="ME")
    period, firm = np.nonzero(present)
    return pd.MultiIndex.from_arrays([firms[firm], months[period]], names=["firm", "period"])


def _networks(index: pd.Index, weights: list[list[np.ndarray]]) -> tuple[PeerNetwork, ...]:
    sections = list(index.to_frame()["firm"].groupby(level="period"))
    names = ["true network"] if len(weights) == 1 else [f"true network {k + 1}" for k in range(len(weights))]
    made = []
    for name, by_period in zip(names, weights, strict=True):
        parts = zip(sections, filter(len, by_period), strict=True)
        matrices = {month: (firms, firms, w) for (month, firms), w in parts}
        made.append(PeerNetwork.from_matrices(matrices, name=name))
    return tuple(made)
