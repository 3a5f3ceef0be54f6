"""The directed peer network: who looks to whom, period by period."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network import algebra, building
from peerattn.network.attributes import kept_words, labelled
from peerattn.network.cross_section import Array, CrossSection, check_rows, where_in
from peerattn.network.explorer import write_explorer
from peerattn.network.figures import matrices
from peerattn.network.io import graphs, parquet, tables
from peerattn.network.measures import comparison, concentration
from peerattn.network.measures.asymmetry import asymmetry as measured_asymmetry
from peerattn.panel.labels import find_firm, find_period


@dataclass(frozen=True, eq=False, repr=False, init=False)
class PeerNetwork:
    """Directed, weighted network of firms over periods.

    ``W_t[i, j]`` is the weight that focal firm i puts on peer j in period t: rows look, columns are
    looked to. Rows sum to one, or to zero where a firm has no admissible peer (an isolate).

    Make one with :meth:`from_matrices`, :meth:`from_edges` or :meth:`from_parquet`.

    Parameters
    ----------
    labels : pandas.Index
        Every firm that is a focal firm or a possible peer in any period.
    periods : pandas.Index
        One label for each cross-section, in order; ``Index([None])`` for one undated cross-section.
    sections : sequence of CrossSection
        One for each period.
    name : str
        What made the network; shown in tables and figures.
    signed : bool
        Weights may be negative, and rows sum to anything.
    row_normalized : bool
        Rows sum to one or zero; False after steps such as :meth:`symmetrized` or a cut to the top k.
    top_k : int, optional
        Weights that are kept of each firm, the largest; None: all. Measures that need all then refuse the network.
    stability : pandas.DataFrame, optional
        How well repeated estimates of this network agree, a row for each pair of estimates: ``comparison``
        (``"seeds"`` or ``"folds"``), ``correlation`` (:func:`network_correlation`) and ``common_top5``
        (:func:`common_peers`). A choice of periods keeps it, other changes drop it.
    learned_until : label, optional
        Last period from whose outcomes the weights were learned; NaN: learned from undated ones; None: not learned from
        outcomes. Models refuse such a network as ``network=`` or ``prior=`` in periods up to it.

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
    1.2 effective peers, 100.0% shown      peer  weight
    0                                  US Steel     0.9
    1                                  Chrysler     0.1
    """

    labels: pd.Index
    periods: pd.Index
    name: str
    signed: bool
    row_normalized: bool
    top_k: int | None
    stability: pd.DataFrame | None
    learned_until: Any
    _sections: tuple[CrossSection, ...]

    def __init__(
        self,
        labels: pd.Index,
        periods: pd.Index,
        sections: Iterable[CrossSection],
        *,
        name: str = "",
        signed: bool = False,
        row_normalized: bool = True,
        top_k: int | None = None,
        stability: pd.DataFrame | None = None,
        learned_until: Any = None,
    ) -> None:
        vars(self).update(  # the class is frozen: this is the only place that sets anything
            labels=labels,
            periods=periods,
            name=str(name),
            signed=bool(signed),
            row_normalized=bool(row_normalized) and not signed,
            top_k=None if top_k is None else int(top_k),
            stability=comparison.checked_stability(stability),
            learned_until=learned_until,
            _sections=tuple(sections),
        )
        if self.row_normalized:
            for period, section in self.sections():
                check_rows(section, labels.take(section.rows), where_in(period))

    from_matrices = classmethod(building.from_matrices)
    from_edges = classmethod(building.from_edges)

    def replaced(
        self,
        sections: Iterable[CrossSection] | None = None,
        *,
        periods: pd.Index | None = None,
        row_normalized: bool | None = None,
        signed: bool | None = None,
        top_k: int | Literal["same"] | None = "same",
        stability: pd.DataFrame | None = None,
        learned_until: Any = "same",
    ) -> PeerNetwork:
        """Return a network with the same labels and name and other cross-sections.

        Parameters
        ----------
        sections : iterable of CrossSection, optional
            One for each period; default: this network's.
        periods : pandas.Index, optional
            Their labels; default: this network's.
        row_normalized, signed : bool, optional
            Default: as here.
        top_k : int, optional
            Default: as here; None: nothing is cut.
        stability : pandas.DataFrame, optional
            Default: none, for other weights are another estimate.
        learned_until : label, optional
            Default: as here.

        Returns
        -------
        PeerNetwork
        """
        return PeerNetwork(
            self.labels,
            self.periods if periods is None else periods,
            self._sections if sections is None else sections,
            name=self.name,
            signed=self.signed if signed is None else signed,
            top_k=self.top_k if top_k == "same" else top_k,
            row_normalized=self.row_normalized if row_normalized is None else row_normalized,
            stability=stability,
            learned_until=self.learned_until
            if isinstance(learned_until, str) and learned_until == "same"
            else learned_until,
        )

    @property
    def firms(self) -> pd.Index:
        """Focal firms of any period (rows)."""
        return self.labels.take(self._occurring("rows"))

    @property
    def reference(self) -> pd.Index:
        """Possible peers of any period (columns)."""
        return self.labels.take(self._occurring("columns"))

    def _occurring(self, side: str) -> Array:
        seen = np.zeros(len(self.labels), dtype=bool)
        for section in self._sections:
            seen[getattr(section, side)] = True
        return np.flatnonzero(seen)

    @property
    def is_dated(self) -> bool:
        """False for one undated cross-section."""
        return not (len(self.periods) == 1 and self.periods[0] is None)

    @property
    def isolates(self) -> pd.DataFrame:
        """Firms whose weights are all zero: columns ``period``, ``firm``."""
        return labelled(self, {"firm": [section.rows[section.isolates()] for section in self._sections]})

    def sections(self) -> Iterator[tuple[Any, CrossSection]]:
        """Iterate over (period, cross-section) in the order of :attr:`periods`."""
        return zip(self.periods, self._sections, strict=True)

    def section(self, period: Any = None) -> tuple[Any, CrossSection]:
        """Return the label and cross-section of one period.

        Parameters
        ----------
        period : label, optional
            May be left out when there is only one; strings such as ``"2012-06"`` are understood.

        Returns
        -------
        tuple
            Period label and :class:`CrossSection`.

        Raises
        ------
        InputError
            When the period is unknown, or left out though there are several.
        """
        if period is None:
            if len(self._sections) != 1:
                raise InputError(
                    f"period: the network has {len(self._sections)} periods; choose one, or average them with mean()."
                )
            return self.periods[0], self._sections[0]
        if not self.is_dated:
            raise InputError(
                f"period: got {period!r}, but this network is one undated cross-section; leave period out."
            )
        found = find_period(period, self.periods)
        return found, self._sections[int(np.flatnonzero(self.periods == found)[0])]

    def firm_position(self, firm: Any) -> int:
        """Return the position of a firm in :attr:`labels`.

        Raises
        ------
        InputError
            When there is no such firm; near matches are shown.
        """
        return int(np.flatnonzero(self.labels == find_firm(firm, self.labels))[0])

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
        firms, peers = self.labels.take(section.rows), self.labels.take(section.columns)
        return pd.DataFrame(np.array(section.dense()), firms.rename("firm"), peers.rename("peer"))

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
        if top_k is not None and (
            isinstance(top_k, bool) or not isinstance(top_k, int | np.integer) or top_k < 1
        ):
            raise InputError(f"top_k: expected a positive integer or None, got {top_k!r}.")
        chosen = self if period is None else self.subset(periods=[period])
        found = [(section, *section.entries(top_k)) for section in chosen._sections]
        columns = {
            "firm": [section.rows[i] for section, i, _, _ in found],
            "peer": [section.columns[j] for section, _, j, _ in found],
            "weight": [w.astype(np.float64) for *_, w in found],
        }
        return labelled(chosen, columns)

    def to_frame(self) -> pd.DataFrame:
        """Return all edges: :meth:`edges` without a choice.

        Returns
        -------
        pandas.DataFrame
            Columns ``period, firm, peer, weight``.
        """
        return self.edges()

    def peers(self, firm: Any, period: Any = None, k: int | None = 10) -> pd.DataFrame:
        """Return a firm's peers, most weight first.

        Parameters
        ----------
        firm : label
            The focal firm.
        period : label, optional
            Default: the mean over the periods in which the firm has a peer.
        k : int, optional
            At most so many; None for all.

        Returns
        -------
        pandas.DataFrame
            Columns ``peer, weight``, zero weights left out. The title above the columns says whether weights are means over
            periods, and gives the effective number of peers, 1 / Σ w² of weights that sum to one, and how much of the firm's
            weight those shown have together:
            five peers of 1 % each are the top of a flat list.

        Raises
        ------
        InputError
            When the firm or period is unknown, or is not a focal firm in that period.
        """
        chosen, position = self._found(firm, period, "rows", "is not a focal firm")
        weights = algebra.weights_from(chosen, position)
        found = _ranked(chosen, weights, "peer", k)
        if not weights.any():
            return found
        sizes, shown = np.abs(weights), np.abs(found["weight"].to_numpy()).sum()
        if chosen.top_k is None:
            share = f"{shown / sizes.sum():.1%}{' of all |w|' if chosen.signed else ''} shown"
            title = f"{sizes.sum() ** 2 / (sizes @ sizes):,.1f} effective peers, {share}"
        else:
            title = f"top {chosen.top_k} kept" + ("" if chosen.signed else f", {shown:.1%} shown")
        several = period is None and len(self.periods) > 1
        return found.rename_axis(columns=f"mean over periods: {title}" if several else title)

    def followers(self, firm: Any, period: Any = None, k: int | None = 10) -> pd.DataFrame:
        """Return a firm's followers, the firms that have it as a peer, most weight first.

        Parameters
        ----------
        firm : label
            The peer.
        period : label, optional
            Default: for each follower, the mean over the periods in which it has a peer, so that
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
            When the firm or period is unknown, or is not a possible peer in that period.
        """
        chosen, position = self._found(firm, period, "columns", "is not a possible peer")
        return _ranked(chosen, algebra.weights_to(chosen, position), "firm", k)

    def _found(self, firm: Any, period: Any, side: str, lack: str) -> tuple[PeerNetwork, int]:
        """Return the network of the periods meant and a firm's position, or say on which side the firm is missing."""
        chosen = self if period is None else self.subset(periods=[period])
        position = chosen.firm_position(firm)
        if position not in chosen._occurring(side):
            where = where_in(chosen.periods[0]) if len(chosen.periods) == 1 else ""
            raise InputError(f"firm: {chosen.labels[position]!r} {lack}{where}.")
        return chosen, position

    subset = algebra.subset
    mean = algebra.mean
    symmetrized = algebra.symmetrized
    normalized = algebra.normalized
    positive = algebra.positive
    __matmul__ = algebra.peer_average
    asymmetry = measured_asymmetry
    heat_map = matrices.heat_map
    table = concentration.summary_table

    to_parquet = parquet.to_parquet
    from_parquet = classmethod(parquet.from_parquet)
    to_csv = tables.to_csv
    from_csv = classmethod(tables.from_csv)
    to_scipy = tables.to_scipy
    to_xarray = tables.to_xarray
    from_xarray = classmethod(tables.from_xarray)
    to_networkx = graphs.to_networkx
    from_networkx = classmethod(graphs.from_networkx)
    to_graphml = graphs.to_graphml
    from_graphml = classmethod(graphs.from_graphml)
    to_gexf = graphs.to_gexf
    to_libpysal = graphs.to_libpysal
    from_libpysal = classmethod(graphs.from_libpysal)
    to_explorer = write_explorer

    def equals(self, other: object) -> bool:
        """Return whether another network has the same labels (with dtypes), weights, name, kind and stability.

        Parameters
        ----------
        other : object

        Returns
        -------
        bool
        """
        if not isinstance(other, PeerNetwork):
            return False
        facts = [(n.name, n.signed, n.row_normalized, n.top_k) for n in (self, other)]
        pairs = ((self.periods, other.periods), (self.labels, other.labels))
        same = facts[0] == facts[1] and all(a.equals(b) and a.dtype == b.dtype for a, b in pairs)
        known = [pd.DataFrame() if n.stability is None else n.stability for n in (self, other)]
        return (
            same
            and known[0].equals(known[1])
            and all(
                np.array_equal(a.rows, b.rows)
                and np.array_equal(a.columns, b.columns)
                and a.weights.dtype == b.weights.dtype
                and a.is_sparse == b.is_sparse
                and all(np.array_equal(x, y) for x, y in zip(a.entries(), b.entries(), strict=True))
                for a, b in zip(self._sections, other._sections, strict=True)
            )
        )

    def __repr__(self) -> str:
        facts = [repr(self.name)] if self.name else []
        facts += [_counted(len(self.firms), "firm")]
        if not self.firms.equals(self.reference):
            facts += [_counted(len(self.reference), "reference firm")]
        facts += [_counted(len(self.periods), "period") if self.is_dated else "undated"]
        facts += [_counted(sum(section.n_edges for section in self._sections), "edge")]
        facts += ["signed"] if self.signed else []
        facts += [f"cut to the {kept_words(self)}"] if self.top_k is not None else []
        return f"PeerNetwork({', '.join(facts)})"

    def __str__(self) -> str:
        return f"{self!r}\n\n{self.table().text()}"

    def _repr_html_(self) -> str:
        return self.table().html()


def _ranked(network: PeerNetwork, weights: Array, column: str, k: int | None) -> pd.DataFrame:
    order = np.argsort(-np.abs(weights), kind="stable")
    order = order[weights[order] != 0][:k]
    return pd.DataFrame({column: network.labels.take(order), "weight": weights[order]})


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
