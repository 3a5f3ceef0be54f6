"""How much do the edges of a learned network move with the periods? Refits over blocks of periods, and a test of direction."""

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logit

from peerattn.exceptions import InputError, check_count, expect, validate_arguments
from peerattn.models.attention.warm_start import WarmStart
from peerattn.network import PeerNetwork
from peerattn.network.measures.asymmetry import cyclic_part
from peerattn.render import Shown, Table, show_label
from peerattn.seeds import seeded_generator
from peerattn.types import OutcomesLike, PanelLike

_TINY = 1e-12  # weights are kept this far from 0 and 1 before their log odds are taken
MOST_ROUNDS = 12  # of optimisation
SETTLED = 0.05  # of the spread of the draws: how far another round may move them


@dataclass(frozen=True, eq=False)
class NetworkBootstrap(Shown):
    """A learned network and what refits on resampled periods make of it.

    Attributes
    ----------
    network : PeerNetwork
        The network of the fitted model.
    edges : pandas.DataFrame
        Columns ``period, firm, peer, weight, settled``: the edges that are followed, their weights in ``network``, and in the
        refit on the periods as they are.
    draws : ndarray (n_draws, n_edges)
        Their weights in every refit.
    direction : pandas.DataFrame
        Index ``period``; ``statistic`` (mean square of the cyclic part of ``log w_ij − log w_ji``, pairs weighted by
        ``w_ij + w_ji``), ``noise`` (its mean over refits, the network's own cyclic part taken out) and ``p``; last row "all".
        Empty where no period has pairs to compare.
    n_draws, block_length : int
    """

    network: PeerNetwork
    edges: pd.DataFrame
    draws: np.ndarray
    direction: pd.DataFrame
    n_draws: int
    block_length: int

    @validate_arguments
    def spread(self, share: float = 0.95) -> pd.DataFrame:
        """Return where the middle share of the refits lies for each edge; it is no confidence interval.

        Refits keep the heads that the search found; another sample would have found others. They have a ridge penalty, so that
        the spread lies around ``settled``, and ``weight`` may be outside. At 95 % the spread covered .38 to
        1.00 of a symmetric truth's weights, by panel, and .84 to .99 of a directed one's.

        Parameters
        ----------
        share : float, default 0.95
            Between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            Columns ``period, firm, peer, weight, settled, lower, upper``, as :func:`peerattn.network.write_explorer` takes them.
        """
        expect(0 < share < 1, "share", "a number between 0 and 1", share)
        lower, upper = np.quantile(self.draws, ((1 - share) / 2, (1 + share) / 2), axis=0, method="weibull")
        return self.edges.assign(lower=lower, upper=upper)

    @property
    def p_value(self) -> float:
        """Chance of as much direction were the network reversible in all periods (NaN where the network has no such pair)."""
        return float(self.direction["p"].get("all", np.nan))

    @property
    def least_p(self) -> float:
        """Least p that this number of refits can give, 1 / (n_draws + 1)."""
        return 1 / (self.n_draws + 1)

    def to_frame(self) -> pd.DataFrame:
        """Return where 95 % of the refits lie: :meth:`spread`."""
        return self.spread()

    def table(self) -> Table:
        """Return the test of direction as a table, at most 24 periods."""
        step = max(1, -(-len(self.direction) // 25))
        displayed = pd.concat([self.direction.iloc[:-1:step], self.direction.iloc[-1:]])
        rows = [(show_label(label), *values) for label, *values in displayed.itertuples()]
        title = "Is the network directed? Null: it is reversible (any symmetric score)"
        heads = ("Period", "Cyclic part", "Noise", "p")
        formats = ("", ".4f", ".4f", ".3f")
        refits = f"{self.n_draws} refits on blocks of {self.block_length} periods, which keep the heads of the fitted model"
        note = f"{refits}: uncertainty about these is not in it. The least possible p is {self.least_p:.3f}."
        return Table(title, heads, rows, alignment="lrrr", formats=formats, footnotes=(note,))

    def __str__(self) -> str:
        return f"{self!r}\n\n{self.table().text()}"

    def __repr__(self) -> str:
        least = ", the least possible" * (self.p_value <= self.least_p)
        edges = f"{len(self.edges):,} edges, {self.n_draws} refits, blocks of {self.block_length} periods"
        return f"NetworkBootstrap({edges}, direction p={self.p_value:.3f}{least})"


@validate_arguments
def bootstrap_network(
    model: Any,
    X: PanelLike,
    y: OutcomesLike,
    *,
    at: Any = None,
    outcomes: OutcomesLike = None,
    n_draws: int = 49,
    block_length: int | None = None,
    top_k: int | None = 10,
    random_state: int = 0,
) -> NetworkBootstrap:
    r"""Refit a model on resampled blocks of periods, and measure how much its network moves.

    Periods are drawn in circular blocks (Politis and Romano 1992), all firms of a period together. Every refit starts
    from the fitted model and keeps its heads, so that it shows how weights move **given that these heads were found**; no
    confidence interval of a weight is given. Refits are trained in rounds, on the loss of ``fit`` plus a ridge penalty, until
    another round moves the draws by at most 5 % of their spread (root mean squares of the log odds, pairs weighted by the
    weight in a refit on the periods as they are): they have settled, which is less than a minimum, since the loss may still
    fall slowly where it is flat. A model whose refits have not settled after twelve rounds raises an error.
    The test of direction compares the cyclic part r of
    :math:`\log w_{ij} - \log w_{ji}`, zero for every reversible network, with its noise: ``p`` is the share of refits in which
    :math:`\|r^* - r^0\|` is at least :math:`\|r^0\|`.

    Parameters
    ----------
    model : PeerAttentionRegressor or PeerAttentionClassifier
        Fitted on a panel.
    X, y
        The rows it was fitted on.
    at : DataFrame, optional
        The cross-sections whose network is wanted; default ``X``.
    outcomes : Series, optional
        Outcomes of ``at``, where the model reads outcomes (default ``y`` when ``at`` is ``X``).
    n_draws : int, default 49
        Refits.
    block_length : int, optional
        Periods in a block; default the cube root of their number, rounded.
    top_k : int, optional
        Edges followed for each firm and period, the largest; None: all.
    random_state : int, default 0
        Seed of the draws.

    Returns
    -------
    NetworkBootstrap

    Raises
    ------
    InputError
        When the model is of another kind (kernels and industry means have no parameters to refit), was fitted with weights of
        rows, has fewer than four periods, its refits do not settle, or an argument is out of range.

    Notes
    -----
    **What it conditions on**: encodings, the heads that were kept and the neighbourhood of the fitted parameters. That
    another random start may find other heads is not in it: ``model.stability_`` reports that, and is no sampling error.

    References
    ----------
    Politis and Romano (1992), "A circular block-resampling procedure for stationary data". Kelly (1979), *Reversibility and
    Stochastic Networks*. Davidson and MacKinnon (1999), "Bootstrap testing in nonlinear models", International Economic
    Review 40 (few steps from the estimate).

    Examples
    --------
    >>> from peerattn import PeerAttentionRegressor, simulate_panel
    >>> panel = simulate_panel(12, 16, 2, sharpness=2.0, random_state=0)
    >>> model = PeerAttentionRegressor(n_heads=1, d_head=2, kappa=None, random_state=0).fit(panel.X, panel.y)
    >>> found = bootstrap_network(model, panel.X, panel.y, n_draws=3)
    >>> found.spread(0.8).columns.tolist()
    ['period', 'firm', 'peer', 'weight', 'settled', 'lower', 'upper']
    """
    expect(y is not None, "y", "the outcomes that the model was fitted on", None)
    check_count(n_draws=n_draws, top_k=top_k)
    start = WarmStart(model, X, y)
    if (n := start.n_periods) < 4:
        raise InputError(f"X: blocks need at least four periods with outcomes, got {n}.")
    length = round(n ** (1 / 3)) if block_length is None else block_length
    expect(1 <= length <= n, "block_length", f"1 to {n} (periods)", repr(block_length))
    drawn = block_counts(seeded_generator(random_state), n, length, n_draws)
    counts = np.vstack([np.ones_like(drawn[:1]), drawn])  # the sample itself first
    if at is None:
        at = X
        if model.reads_outcomes and outcomes is None:
            outcomes = y
    network = model.peer_network(at, outcomes=outcomes)
    refitted = _settled(start, counts, at, outcomes)
    followed = []
    cyclic = {}
    for (period, section), weights in zip(network.sections(), refitted, strict=True):
        i, j, _ = section.entries(top_k)
        followed.append(weights[:, i, j])
        if section.is_square and (found := _cyclic_squares(weights)):
            cyclic[period] = found
    weights = np.concatenate(followed, axis=1)
    edges = network.edges(top_k=top_k).assign(settled=weights[0])
    return NetworkBootstrap(network, edges, weights[1:], _direction(cyclic), n_draws, length)


def _settled(start: WarmStart, counts: np.ndarray, at: Any, outcomes: OutcomesLike) -> list[np.ndarray]:
    """Return the weights of refits, (1 + n_draws, n_firms, n_peers) for each period, that another round no longer moves."""
    before: Any = np.inf
    for members in islice(start.refits(counts), MOST_ROUNDS):
        found = list(start.weights(members, at, outcomes))
        every = np.concatenate([weights.reshape(len(counts), -1) for weights in found], axis=1).astype(float)
        # log odds have no bounds at which a weight could only move one way
        odds = logit(np.clip(every, _TINY, 1 - _TINY))
        shift = (odds[1:] - odds[0]) * np.sqrt(every[0])
        moved = float(np.linalg.norm(shift - before)) / max(float(np.linalg.norm(shift)), 1e-300)
        if moved <= SETTLED or not shift.any():
            return found
        before = shift
    last = f"{MOST_ROUNDS} rounds (the last still moves weights by {moved:.0%} of their spread)"
    raise InputError(f"model: its refits have not settled after {last}: no inference is possible. Fit it with fewer heads.")


def block_counts(rng: np.random.Generator, n_periods: int, length: int, n_draws: int) -> np.ndarray:
    """Return how often each period is drawn in circular blocks, (n_draws, n_periods); each draw has ``n_periods``.

    Examples
    --------
    >>> block_counts(np.random.default_rng(0), 6, 2, 3).sum(axis=1).tolist()
    [6, 6, 6]
    """
    starts = rng.integers(0, n_periods, size=(n_draws, -(-n_periods // length), 1))
    drawn = ((starts + np.arange(length)) % n_periods).reshape(n_draws, -1)[:, :n_periods]
    return np.array([np.bincount(draw, minlength=n_periods) for draw in drawn])


def _cyclic_squares(weights: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Return a period's sums of squares, (1 + n_draws,), and mass; weights (1 + n_draws, n, n), the undisturbed first."""
    base = cyclic_part(weights[0])
    pairs = weights[0] + weights[0].T
    if not pairs.any() or len(base) < 3:
        return None
    parts = (base, *(cyclic_part(draw) - base for draw in weights[1:]))
    return np.array([(pairs * part**2).sum() for part in parts]), float(pairs.sum())


def _direction(cyclic: dict[Any, tuple[np.ndarray, float]]) -> pd.DataFrame:
    """Return statistic, noise and p by period, and of all."""
    if not cyclic:
        return pd.DataFrame(columns=["statistic", "noise", "p"])
    squares, mass = (np.array([found[k] for found in cyclic.values()]) for k in (0, 1))
    squares = np.vstack([squares, squares.sum(axis=0)])
    mass = np.append(mass, mass.sum())
    own = squares[:, 0]
    refits = squares[:, 1:]
    p = (1 + (refits >= own[:, None]).sum(axis=1)) / squares.shape[1]
    index = pd.Index([*cyclic, "all"], dtype=object, name="period")
    return pd.DataFrame({"statistic": own / mass, "noise": refits.mean(axis=1) / mass, "p": p}, index)
