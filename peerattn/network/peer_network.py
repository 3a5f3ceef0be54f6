"""The directed peer network: weights of focal firms (rows) on peers (columns), period by period."""

from peerattn.exceptions import validate_methods
from peerattn.network import algebra, building
from peerattn.network import peers as peers_of
from peerattn.network.base import Constructor, Network
from peerattn.network.explorer import write_explorer
from peerattn.network.figures import matrices
from peerattn.network.io import graphs, tables
from peerattn.network.measures import concentration
from peerattn.network.measures.asymmetry import asymmetry as measured_asymmetry
from peerattn.render import Shown


@validate_methods
class PeerNetwork(Network, Shown):
    """Directed, weighted network of firms over periods.

    ``W_t[i, j]`` is the weight that focal firm i puts on peer j in period t: rows are focal
    firms, columns are peers. Rows sum to one, or to zero where a firm has no admissible peer (an isolate).

    Make one with :meth:`from_matrices`, :meth:`from_edges` or :meth:`from_parquet`.

    Parameters
    ----------
    labels : pandas.Index
        Every firm that is a focal firm or a possible peer in any period.
    periods : pandas.Index
        One label for each cross-section, in order; ``Index([None])`` for one undated cross-section.
    sections : sequence of CrossSection
        One for each period.
    name : str, default ""
        What made the network; shown in tables and figures.
    signed : bool, default False
        Weights may be negative, and rows sum to anything.
    row_normalized : bool, default True
        Rows sum to one or zero; False after a choice of firms or a cut to the top k.
    top_k : int, optional
        Weights that are kept of each firm, the largest; None: all. Measures that need all weights then raise an error.
    stability : pandas.DataFrame, optional
        How well repeated estimates of this network agree, a row for each pair of estimates: ``comparison``
        (``"seeds"`` or ``"folds"``), ``correlation`` (:func:`network_correlation`) and ``common_top5``
        (:func:`common_peers`). A choice of periods keeps it, other changes drop it.
    learned_until : label, optional
        Last period from whose outcomes the weights were learned; NaN: learned from undated ones; None: not learned from
        outcomes. Models raise an error for such a network as ``network=`` or ``prior=`` in periods up to it.

    Notes
    -----
    Weights show what a model found useful for prediction. They are not causal peer effects: common shocks
    and sorting give the same picture (Manski 1993, "Identification of endogenous social effects: the
    reflection problem", Review of Economic Studies 60).

    Examples
    --------
    >>> import numpy as np
    >>> W = np.array([[0.0, 0.9, 0.1], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
    >>> firms = ["GM", "US Steel", "Chrysler"]
    >>> network = PeerNetwork.from_matrices({1935: (firms, firms, W)}, name="by hand")
    >>> network
    PeerNetwork('by hand', 3 firms, 1 period, 5 edges)
    >>> network.peers("GM")
    1.2 effective peers, 100.0% shown      peer  weight
    0                                  US Steel     0.9
    1                                  Chrysler     0.1
    """

    from_matrices = Constructor(building.from_matrices)
    from_edges = Constructor(building.from_edges)

    peers = peers_of.peers
    followers = peers_of.followers
    subset = algebra.subset
    mean = algebra.mean
    normalized = algebra.normalized
    positive = algebra.positive
    __matmul__ = algebra.peer_average
    asymmetry = measured_asymmetry
    heat_map = matrices.heat_map
    table = concentration.summary_table

    to_parquet = tables.to_parquet
    from_parquet = Constructor(tables.from_parquet)
    to_csv = tables.to_csv
    from_csv = Constructor(tables.from_csv)
    from_edge_file = Constructor(tables.from_edge_file)
    to_scipy = tables.to_scipy
    to_networkx = graphs.to_networkx
    from_networkx = Constructor(graphs.from_networkx)
    to_graphml = graphs.to_graphml
    from_graphml = Constructor(graphs.from_graphml)
    to_gexf = graphs.to_gexf
    to_libpysal = graphs.to_libpysal
    to_explorer = write_explorer

    def equals(self, other: object) -> bool:
        """Return whether another network has the same labels (with dtypes), weights, name, kind and stability.

        Parameters
        ----------
        other : object

        Returns
        -------
        bool

        Examples
        --------
        >>> import pandas as pd
        >>> from peerattn import PeerNetwork
        >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
        >>> network = PeerNetwork.from_matrices({None: W})

        >>> network.equals(PeerNetwork.from_matrices({None: W}))
        True
        """
        if not isinstance(other, PeerNetwork):
            return False
        # what a file would hold is what makes two networks equal
        same = tables.held_facts(self) == tables.held_facts(other)
        return same and self.edges().equals(other.edges())

    def __repr__(self) -> str:
        facts = [_counted(len(self.firms), "firm")]
        if self.name:
            facts.insert(0, repr(self.name))
        if not self.firms.equals(self.reference):
            facts.append(_counted(len(self.reference), "reference firm"))
        if self.is_dated:
            facts.append(_counted(len(self.periods), "period"))
        else:
            facts.append("undated")
        facts.append(_counted(sum(section.n_edges for section in self._sections), "edge"))
        if self.signed:
            facts.append("signed")
        if self.top_k is not None:
            facts.append(f"cut to the {self.kept_words()}")
        return f"PeerNetwork({', '.join(facts)})"

    def __str__(self) -> str:
        return f"{self!r}\n\n{self.table().text()}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
