"""The directed peer network: who looks to whom, period by period."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.network import algebra, views
from peerattn.network.building import network_from_edges, sections_from_matrices
from peerattn.network.exchange import NetworkExchange
from peerattn.render import Table

if TYPE_CHECKING:
    import matplotlib.axes

    from peerattn.network.measures.asymmetry import Asymmetry


class PeerNetwork(NetworkExchange):
    """Directed, weighted network of firms over periods.

    ``W_t[i, j]`` is the weight that focal firm i puts on peer j in period t: rows look, columns are
    looked to. Rows sum to one, or to zero where a firm has no admissible peer (an isolate).

    Make one with :meth:`from_matrices`, :meth:`from_edges` or :meth:`from_parquet`.

    Parameters
    ----------
    labels : pandas.Index
        Every firm that occurs.
    periods : pandas.Index
        One label for each cross-section; ``Index([None])`` for one undated cross-section.
    sections : sequence of CrossSection
        One for each period.
    name : str
        What made the network; shown in tables and figures.
    signed : bool
        Weights may be negative, and rows sum to anything.
    row_normalized : bool
        Rows sum to one or zero; False after steps such as :meth:`symmetrized` or a cut to the top k.

    Notes
    -----
    Weights say what a model found useful for prediction. They are not causal peer effects: common shocks
    and sorting give the same picture (Manski 1993, "Identification of endogenous social effects: the
    reflection problem", Review of Economic Studies 60).

    Examples
    --------
    >>> W = np.array([[0.0, 0.9, 0.1], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
    >>> firms = ["GM", "US Steel", "Chrysler"]
    >>> network = PeerNetwork.from_matrices({1935: (firms, firms, W)}, name="by hand")
    >>> network
    PeerNetwork('by hand', 3 firms, 1 period, 5 edges)
    >>> network.peers("GM")
           peer  weight
    0  US Steel     0.9
    1  Chrysler     0.1
    """

    @classmethod
    def from_matrices(
        cls,
        matrices: Mapping[Any, Any],
        *,
        name: str = "",
        signed: bool = False,
        row_normalized: bool = True,
    ) -> PeerNetwork:
        """Make a network from one matrix of weights for each period.

        Parameters
        ----------
        matrices : mapping of period to (firms, peers, W) or DataFrame
            ``W`` has shape (n_firms, n_peers), dense or scipy sparse (it stays sparse); firms label its rows,
            peers its columns. ``peers=None`` means the firms. A frame carries its own labels. One undated
            cross-section has the key ``None``. Firms may differ from period to period.
        name : str, default ""
            What made the network.
        signed : bool, default False
            Whether weights may be negative.
        row_normalized : bool, default True
            Whether rows must sum to one (to 1e-6) or zero.

        Returns
        -------
        PeerNetwork
            With own copies of the weights.

        Raises
        ------
        InputError
            When labels repeat, are missing or do not fit the shape; when weights are NaN, infinite, negative
            (unless signed) or do not sum to one.

        Examples
        --------
        >>> frame = pd.DataFrame([[0.0, 1.0], [1.0, 0.0]], index=["A", "B"], columns=["A", "B"])
        >>> PeerNetwork.from_matrices({2001: frame, 2002: frame}).periods.tolist()
        [2001, 2002]
        """
        labels, periods, sections = sections_from_matrices(matrices)
        return cls(labels, periods, sections, name=name, signed=signed, row_normalized=row_normalized)

    @classmethod
    def from_edges(
        cls,
        edges: pd.DataFrame,
        firms: Any = None,
        *,
        name: str = "",
        signed: bool = False,
        row_normalized: bool = True,
    ) -> PeerNetwork:
        """Make a network from a frame of edges.

        Parameters
        ----------
        edges : pandas.DataFrame
            Columns ``firm``, ``peer``, ``weight`` and, unless undated, ``period``.
        firms : DataFrame with columns period and firm, or iterable of labels, optional
            All firms of each period (or of every period), isolates included. By default the firms of a
            period are those its edges name.
        name, signed, row_normalized
            As in :meth:`from_matrices`.

        Returns
        -------
        PeerNetwork
            Square and sparse inside.

        Raises
        ------
        InputError
            When a column is missing, an edge is given twice or names an unknown firm, or weights are bad.

        Examples
        --------
        >>> edges = pd.DataFrame({"period": 2001, "firm": ["A", "B"], "peer": ["B", "A"], "weight": 1.0})
        >>> PeerNetwork.from_edges(edges, firms=["A", "B", "C"]).isolates
           period firm
        0    2001    C
        """
        labels, periods, sections = network_from_edges(edges, firms)
        return cls(labels, periods, sections, name=name, signed=signed, row_normalized=row_normalized)

    def matrix(self, period: Any = None) -> pd.DataFrame:
        """Return one period's weights as a frame.

        Parameters
        ----------
        period : label, optional
            May be left out when there is only one.

        Returns
        -------
        pandas.DataFrame
            Shape (n_firms, n_peers); rows look, columns are looked to.

        Raises
        ------
        InputError
            When the period is unknown, or left out though there are several.

        Examples
        --------
        >>> edges = pd.DataFrame({"firm": ["A", "B"], "peer": ["B", "A"], "weight": 1.0})
        >>> PeerNetwork.from_edges(edges).matrix()
        peer    A    B
        firm
        A     0.0  1.0
        B     1.0  0.0
        """
        _, section = self.section(period)
        return pd.DataFrame(
            np.array(section.dense()),
            index=self._labels.take(section.rows).rename("firm"),
            columns=self._labels.take(section.columns).rename("peer"),
        )

    def edges(self, period: Any = None, top_k: int | None = None) -> pd.DataFrame:
        """Return the weights that are not zero, one row each.

        Parameters
        ----------
        period : label, optional
            Default: all periods.
        top_k : int, optional
            Only the ``top_k`` largest (by absolute size) of each focal firm, largest first; ties go to the
            earlier column.

        Returns
        -------
        pandas.DataFrame
            Columns ``period, firm, peer, weight``, by period, then by focal firm.

        Raises
        ------
        InputError
            When the period is unknown or ``top_k`` is not a positive integer.
        """
        return views.edges(self, period, top_k)

    def to_frame(self) -> pd.DataFrame:
        """Return all edges: :meth:`edges` without a choice.

        Returns
        -------
        pandas.DataFrame
            Columns ``period, firm, peer, weight``.
        """
        return self.edges()

    def peers(self, firm: Any, period: Any = None, k: int | None = 10) -> pd.DataFrame:
        """Return whom a firm looks to, most weight first.

        Parameters
        ----------
        firm : label
            The focal firm.
        period : label, optional
            Default: the mean over the periods in which the firm looks at someone.
        k : int, optional
            At most so many; None for all.

        Returns
        -------
        pandas.DataFrame
            Columns ``peer, weight``, zero weights left out.

        Raises
        ------
        InputError
            When the firm or period is unknown, or the firm does not look in that period.
        """
        return views.peers(self, firm, period, k)

    def followers(self, firm: Any, period: Any = None, k: int | None = 10) -> pd.DataFrame:
        """Return who looks to a firm, most weight first.

        Parameters
        ----------
        firm : label
            The firm looked to.
        period : label, optional
            Default: for each follower, the mean over the periods in which it looks at someone, so that
            ``followers(j)`` shows for i what ``peers(i)`` shows for j.
        k : int, optional
            At most so many; None for all.

        Returns
        -------
        pandas.DataFrame
            Columns ``firm, weight``, zero weights left out.

        Raises
        ------
        InputError
            When the firm or period is unknown, or the firm cannot be looked to in that period.
        """
        return views.followers(self, firm, period, k)

    def subset(self, *, firms: Any = None, periods: Any = None) -> PeerNetwork:
        """Return the network among some firms, in some periods.

        Parameters
        ----------
        firms : iterable of labels, optional
            Kept as rows and columns. Weights stay what they are, so rows may sum to less than one.
        periods : iterable of labels, optional
            Kept periods.

        Returns
        -------
        PeerNetwork

        Raises
        ------
        InputError
            When a firm or period is unknown.
        """
        return algebra.subset(self, firms, periods)

    def mean(self) -> PeerNetwork:
        """Return the mean over periods as one undated cross-section.

        Each firm's row is averaged over the periods in which it looks at someone; a peer absent in one of
        them counts zero there. Rows therefore still sum to one.

        Returns
        -------
        PeerNetwork
        """
        return algebra.mean_network(self)

    def symmetrized(self) -> PeerNetwork:
        """Return (W + W') / 2; its rows need not sum to one.

        Returns
        -------
        PeerNetwork

        Raises
        ------
        InputError
            When those who look are not those who are looked to.
        """
        return algebra.symmetrized(self)

    def normalized(self) -> PeerNetwork:
        """Return the network with every row divided by its sum; isolates stay isolates.

        Returns
        -------
        PeerNetwork

        Raises
        ------
        InputError
            When the network is signed.
        """
        return algebra.normalized(self)

    def __matmul__(self, values: algebra.Values) -> algebra.Values:
        """Return the peers' weighted average of a characteristic, by label: ``W @ x``."""
        return algebra.peer_average(self, values)

    def asymmetry(self) -> Asymmetry:
        """Return how one-sided the network is, split into popularity and true direction.

        Returns
        -------
        Asymmetry
            See :func:`peerattn.network.measures.asymmetry`.
        """
        from peerattn.network.measures.asymmetry import asymmetry

        return asymmetry(self)

    def heat_map(
        self, period: Any = None, *, ax: matplotlib.axes.Axes | None = None, order: Any = None
    ) -> matplotlib.axes.Axes:
        """Draw one period's weights; see :func:`peerattn.network.figures.heat_map`."""
        from peerattn.network.figures.heat_map import heat_map

        return heat_map(self, period, ax=ax, order=order)

    def equals(self, other: object) -> bool:
        """Return whether another network has the same labels (with dtypes), weights, name and kind.

        Parameters
        ----------
        other : object

        Returns
        -------
        bool
        """
        return isinstance(other, PeerNetwork) and views.equal(self, other)

    def __repr__(self) -> str:
        facts = [repr(self.name)] if self.name else []
        facts += [_counted(len(self.firms), "firm")]
        if not self.firms.equals(self.reference):
            facts += [_counted(len(self.reference), "reference firm")]
        facts += [_counted(len(self.periods), "period") if self.is_dated else "undated"]
        facts += [_counted(sum(section.n_edges for _, section in self.sections()), "edge")]
        facts += ["signed"] if self.signed else []
        return f"PeerNetwork({', '.join(facts)})"

    def table(self) -> Table:
        """Return a summary, a row for each period (every so many when there are over 24).

        Returns
        -------
        Table
        """
        from peerattn.network.measures.concentration import summary_table

        return summary_table(self)

    def __str__(self) -> str:
        return f"{self!r}\n\n{self.table().text()}"

    def _repr_html_(self) -> str:
        return self.table().html()


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
