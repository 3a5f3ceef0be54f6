"""A network against links that others have observed: does it find them, and more of them than industry and size do?"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy import sparse, stats

from peerattn.exceptions import InputError, check_count, expect, validate_arguments
from peerattn.network.attributes import characteristic, code_numbers
from peerattn.network.base import Network
from peerattn.network.cross_section import Array, strongest
from peerattn.network.inference.permutation import among, within
from peerattn.network.measures.comparison import aligned
from peerattn.render import Shown, Table
from peerattn.seeds import seeded_generator


@dataclass(frozen=True, eq=False, repr=False)
class Validation(Shown):
    """How well a network finds the links of another; means over firms (with a link and a peer) and periods.

    Attributes
    ----------
    precision, recall : float
        Share of a firm's ``k`` largest weights that are links, and share of its links that are among them.
    auc : float
        Chance that a linked firm has more weight than one that is not linked, ties half (0.5: no relation).
    chance : float
        Precision of peers drawn at random among all firms.
    matched : float
        Precision of peers drawn at random among firms of the same industry and size group as each peer; NaN without
        ``codes`` and ``size``.
    p_precision, p_auc, p_matched : float
        One-sided p values by exchanging firms: all firms, and for ``p_matched`` firms of one industry and size group.
    k, n_firms, n_links, n_permutations : int
        Peers considered, firms and links compared (over all periods), permutations.
    """

    precision: float
    recall: float
    auc: float
    chance: float
    matched: float
    p_precision: float
    p_auc: float
    p_matched: float
    k: int
    n_firms: int
    n_links: int
    n_permutations: int
    _displayed: ClassVar[str] = "summary"

    @property
    def lift(self) -> float:
        """Precision over chance."""
        return self.precision / self.chance

    @property
    def lift_beyond(self) -> float:
        """Precision over that of peers of the same industry and size."""
        return self.precision / self.matched

    def to_frame(self) -> pd.DataFrame:
        """Return value, benchmark, lift and p value of each measure.

        Returns
        -------
        pandas.DataFrame
            Rows: precision against all firms, precision against firms of the same industry and size (where they were given),
            recall, AUC.
        """
        rows = {f"precision at {self.k}": (self.precision, self.chance, self.lift, self.p_precision)}
        if not np.isnan(self.matched):
            rows["against same industry and size"] = (self.precision, self.matched, self.lift_beyond, self.p_matched)
        rows[f"recall at {self.k}"] = (self.recall, np.nan, np.nan, np.nan)
        rows["AUC"] = (self.auc, 0.5, np.nan, self.p_auc)
        return pd.DataFrame(rows, index=["value", "benchmark", "lift", "p_value"]).T

    def summary(self) -> Table:
        """Return the measures as a table.

        Returns
        -------
        Table
        """
        note = (
            f"{self.n_firms:,} focal firms and {self.n_links:,} links, counted in each period. Benchmark: peers drawn at random, "
            f"among all firms or, with codes or size, among firms of the same group. P values by {self.n_permutations:,} "
            "exchanges of firms, one-sided."
        )
        frame = self.to_frame().rename_axis("").reset_index()
        title = "The network against observed links"
        return Table.from_frame(frame, title=title, formats={"lift": ".2f"}, footnotes=(note,))

    def __repr__(self) -> str:
        return f"Validation(precision at {self.k} {self.precision:.3f}, lift {self.lift:.2f}, AUC {self.auc:.3f})"


@validate_arguments
def validate(
    network: Network,
    links: Network,
    *,
    k: int = 10,
    codes: pd.Series | None = None,
    size: pd.Series | None = None,
    n_size_groups: int = 5,
    n_permutations: int = 199,
    random_state: int = 0,
) -> Validation:
    """Measure how well a network finds the links that another source has observed.

    Parameters
    ----------
    network : PeerNetwork
        Estimated weights, signed or not; the largest positive ones are a firm's peers.
    links : PeerNetwork
        Supply chains, text-based peers, common analysts, ...: a link where the weight is above zero; see
        :meth:`PeerNetwork.from_edge_file`. One undated cross-section holds for all periods.
    k : int, default 10
        Peers of each firm that are considered.
    codes, size : pandas.Series, optional
        Industry and size by firm, or by firm and period (the last known counts): what the network must beat.
    n_size_groups : int, default 5
        Groups of equal number by size.
    n_permutations : int, default 199
        Exchanges of firms for the p values.
    random_state : int, default 0
        Seed of the exchanges.

    Returns
    -------
    Validation

    Raises
    ------
    InputError
        When the networks have no firm or period in common, there is no link, or the network was cut to fewer than ``k``.

    Notes
    -----
    Only firms that are in both are compared: a firm that the other source does not cover is no evidence. Links are exchanged by
    giving firms each other's places, the same in all periods (QAP), so that pairs are never taken as independent. Where focal
    firms and peers differ, peers alone are exchanged. The matched benchmark counts the peer itself among the firms of its
    group, which is conservative in small groups.

    What links have in common beside weights: :func:`dyadic_regression` of ``links`` on the network, codes and size.

    References
    ----------
    Hoberg and Phillips (2016), "Text-based network industries and endogenous product differentiation", Journal of
    Political Economy 124 (links to compare with). Dekker, Krackhardt and Snijders (2007), Psychometrika 72 (QAP).

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0, 0.8, 0.1, 0.1], [0.7, 0, 0.2, 0.1], [0.1, 0.1, 0, 0.8], [0.2, 0.2, 0.6, 0]])
    >>> network = PeerNetwork.from_matrices({None: ("ABCD", None, W)})
    >>> links = PeerNetwork.from_edges(pd.DataFrame({"firm": list("ABCD"), "peer": list("BADC"), "weight": 1.0}))
    >>> validate(network, links, k=1, n_permutations=19)
    Validation(precision at 1 1.000, lift 3.00, AUC 1.000)
    """
    check_count(k=k, n_size_groups=n_size_groups, n_permutations=n_permutations)
    network.check_whole("validate", k)
    expect(len(network.periods) > 0, "network", "at least one period", "none")
    if network.is_dated and not links.is_dated:
        # links without a date hold in every period
        links = links.replaced([links.section()[1]] * len(network.periods), periods=network.periods)
    rng = seeded_generator(random_state)
    cell = _cells(network, codes, size, n_size_groups)
    groups = [np.zeros(len(network.labels), dtype=int)]
    if cell is not None:
        groups.append(cell)
    # the same draws in all periods: a firm keeps another's place over time
    drawn = [within(rng, group) for group in groups for _ in range(n_permutations)]
    total = np.zeros(7)
    exchanged = np.zeros((len(drawn), 7))
    for _, rows, columns, weights, others in aligned(network, links):
        one = _Period(rows, columns, weights, others, k)
        found = one.scores(one.links, np.nan if cell is None else one.rate(cell))
        if found[0]:
            total += found
            exchanged += [one.scores(one.exchanged(order)) for order in drawn]
    if not total[0]:
        such = f"{network.labels.tolist()[0]!r}, {links.labels.tolist()[0]!r}"
        raise InputError(f"links: no firm has a peer and a link; labels ({such}) must be spelled alike.")
    means = dict(zip(("precision", "auc", "recall", "chance", "matched"), total[2:] / total[0]))
    with np.errstate(invalid="ignore"):
        beyond = exchanged[:, 2:4] / exchanged[:, :1] >= total[2:4] / total[0] - 1e-12
    p = np.full((2, 2), np.nan)  # without cells none for firms of the same group
    p[: len(groups)] = (1 + beyond.reshape(len(groups), n_permutations, 2).sum(axis=1)) / (1 + n_permutations)
    return Validation(
        **means, p_precision=p[0, 0], p_auc=p[0, 1], p_matched=p[1, 0],
        k=int(k), n_firms=int(total[0]), n_links=int(total[1]), n_permutations=n_permutations,
    )  # fmt: skip


class _Period:
    """One period's weights and links among the firms of both, with what every exchange of firms needs."""

    def __init__(self, rows: Array, columns: Array, weights: sparse.csr_array, others: sparse.csr_array, k: int) -> None:
        self.rows = rows
        self.columns = columns
        self.other = rows[:, None] != columns[None]
        self.links = (others.toarray() > 0) & self.other
        self.possible = self.other.sum(axis=1)
        # a firm is never its own candidate: it ranks below all others, and the ranks start after it
        lowest = np.where(self.other, weights.toarray(), -np.inf)
        self.ranks = stats.rankdata(lowest, axis=1) - (len(columns) - self.possible)[:, None]
        self.top = strongest(weights.maximum(0), k).toarray() > 0

    def scores(self, links: Array, rate: float | Array = np.nan) -> Array:
        """Sums over firms: their number, links, precision, AUC, recall, chance, and precision where peers are links at a rate.

        Of firms with a peer and a link that are not linked to all.
        """
        count = links.sum(axis=1)
        n_peers = self.top.sum(axis=1)
        possible = self.possible
        hits = (self.top & links).sum(axis=1)
        expected = (self.top * rate).sum(axis=1)
        area = (self.ranks * links).sum(axis=1) - count * (count + 1) / 2
        # a firm linked to nobody, or to all, has no right answer
        used = (count > 0) & (count < possible) & (n_peers > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            auc = area / (count * (possible - count))
            parts = [used, count, hits / n_peers, auc, hits / count, count / possible, expected / n_peers]
        return np.stack(parts, axis=1)[used].sum(axis=0)

    def exchanged(self, order: Array) -> Array:
        """Return the links when firms take each other's places: peers alone where focal firms are others."""
        focal, peers = (among(order, side) for side in (self.rows, self.columns))
        if not np.array_equal(self.rows, self.columns):
            focal = np.arange(len(self.rows))
        return self.links[np.ix_(focal, peers)] & self.other

    def rate(self, cell: Array) -> Array:
        """Return the share of links in the cell of each peer, for each focal firm."""
        groups, group = np.unique(cell[self.columns], return_inverse=True)
        member = (group[:, None] == np.arange(len(groups))).astype(float)
        return ((self.links @ member) / np.maximum(self.other @ member, 1.0))[:, group]


def _cells(network: Network, codes: pd.Series | None, size: pd.Series | None, n_groups: int) -> Array | None:
    """Group of each label by its last known code and its mean rank by size; None without both."""
    if codes is None and size is None:
        return None
    everyone = np.arange(len(network.labels))
    periods = network.periods
    code = pd.DataFrame({t: code_numbers(network, codes, everyone, t, "codes") for t in periods})
    # a firm keeps its place over time, so its group must, too
    last = code.where(code >= 0).ffill(axis=1).iloc[:, -1].fillna(-1)
    sizes = pd.DataFrame({t: characteristic(network, size, everyone, t, "size") for t in periods})
    by_size = sizes.rank(pct=True).mean(axis=1).rank(pct=True).fillna(0.0)
    return np.asarray(pd.MultiIndex.from_arrays([last, np.ceil(by_size * n_groups)]).factorize(sort=True)[0])
