"""What a network is made of: labels, periods, and one cross-section for each; everything else is a function of it."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from types import MethodType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, expect, validate_arguments, validate_methods
from peerattn.network.cross_section import Array, CrossSection, check_rows, where_in
from peerattn.panel.columns import check_known
from peerattn.panel.labels import find_firm, find_period

Made = TypeVar("Made")
Side = Literal["rows", "columns"]
Arguments = ParamSpec("Arguments")

FACTS = ("name", "signed", "row_normalized", "top_k", "learned_until")
_STABILITY = ("comparison", "correlation", "common_top5")


class Constructor(Generic[Arguments]):
    """A function of a class and what to make, as a class method that gives what the class is."""

    def __init__(self, function: Callable[Concatenate[Any, Arguments], Any]) -> None:
        self.function = validate_arguments(function)

    def __get__(self, instance: object, owner: type[Made]) -> Callable[Arguments, Made]:
        """Return the function bound to a class."""
        return MethodType(self.function, owner)


@validate_methods
@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """Labels, periods and cross-sections; see :class:`PeerNetwork`, which adds what can be done with them."""

    labels: pd.Index
    periods: pd.Index
    sections: InitVar[Iterable[CrossSection]]
    _: KW_ONLY
    name: str = ""
    signed: bool = False
    row_normalized: bool = True
    top_k: int | None = None
    stability: pd.DataFrame | None = None
    learned_until: Any = None
    _sections: tuple[CrossSection, ...] = field(init=False)

    def __post_init__(self, sections: Iterable[CrossSection]) -> None:
        until = self.learned_until
        # the class is frozen: this is the only place that sets anything
        vars(self).update(
            _sections=tuple(sections),
            row_normalized=self.row_normalized and not self.signed,
            stability=_checked_stability(self.stability),
            learned_until=until.item() if isinstance(until, np.number) else until,
        )
        count = len(self._sections)
        expect(count == len(self.periods), "sections", f"one for each of {len(self.periods)} periods", count)
        if self.row_normalized:
            for period, section in zip(self.periods, self._sections, strict=True):
                check_rows(section, self.labels.take(section.rows), where_in(period))

    def replaced(self, sections: Iterable[CrossSection] | None = None, **changed: Any) -> Self:
        """Return a network with the same labels and name and other cross-sections.

        Parameters
        ----------
        sections : iterable of CrossSection, optional
            One for each period; default: this network's.
        **changed
            ``periods`` (labels of the cross-sections), ``name``, ``signed``, ``row_normalized``, ``top_k`` and ``learned_until``;
            default: as here. ``stability``; default: none, for other weights are another estimate.

        Returns
        -------
        PeerNetwork
        """
        # what is not changed is kept, so that every function of a network returns a complete one
        kept: dict[str, Any] = {"labels": self.labels, "periods": self.periods} | self.facts() | changed
        return type(self)(sections=self._sections if sections is None else sections, **kept)

    def facts(self) -> dict[str, Any]:
        """Return name, kind, cut and the last period learned from, which hold for a network of other weights, too."""
        return {name: getattr(self, name) for name in FACTS}

    @property
    def firms(self) -> pd.Index:
        """Focal firms of any period (rows)."""
        return self.labels.take(self._occurring("rows"))

    @property
    def reference(self) -> pd.Index:
        """Candidate peers of any period (columns)."""
        return self.labels.take(self._occurring("columns"))

    def _occurring(self, side: str) -> Array:
        return np.unique(np.concatenate([np.empty(0, int), *(getattr(s, side) for s in self._sections)]))

    def occurs(self, position: int, side: Side) -> bool:
        """Return whether a firm is ever in the ``rows`` or in the ``columns``."""
        return any(position in getattr(section, side) for section in self._sections)

    @property
    def is_dated(self) -> bool:
        """False for one undated cross-section."""
        return not (len(self.periods) == 1 and self.periods[0] is None)

    @property
    def isolates(self) -> pd.DataFrame:
        """Firms whose weights are all zero: columns ``period``, ``firm``."""
        return self.tidy({"firm": section.rows[section.isolates()]} for section in self._sections)

    def sections(self) -> Iterator[tuple[Any, CrossSection]]:
        """Iterate over (period, cross-section) in the order of ``periods``."""
        return zip(self.periods, self._sections, strict=True)

    def section(self, period: Hashable = None) -> tuple[Any, CrossSection]:
        """Return the label and cross-section of one period.

        Parameters
        ----------
        period : label, optional
            May be left out when there is only one; strings such as ``"2012-06"`` are understood.

        Returns
        -------
        tuple
            Period label and ``CrossSection``.

        Raises
        ------
        InputError
            When the period is unknown, or left out though there are several.
        """
        if period is None:
            if len(self._sections) != 1:
                raise InputError(f"period: {len(self._sections)} periods; choose one, or take mean().")
            return self.periods[0], self._sections[0]
        if not self.is_dated:
            raise InputError(f"period: got {period!r}, but the network is undated; leave period out.")
        found = find_period(period, self.periods)
        return found, self._sections[int(np.flatnonzero(self.periods == found)[0])]

    def firm_position(self, firm: Hashable) -> int:
        """Return the position of a firm in ``labels``.

        Raises
        ------
        InputError
            When there is no such firm; near matches are shown.
        """
        return int(np.flatnonzero(self.labels == find_firm(firm, self.labels))[0])

    def matrix(self, period: Hashable = None) -> pd.DataFrame:
        """Return one period's weights as a frame.

        Parameters
        ----------
        period : label, optional
            May be left out when there is only one.

        Returns
        -------
        pandas.DataFrame
            Shape (n_firms, n_peers); rows are focal firms, columns are peers.

        Raises
        ------
        InputError
            When the period is unknown, or left out though there are several.

        Examples
        --------
        >>> from peerattn.network import PeerNetwork
        >>> edges = pd.DataFrame({"firm": ["A", "B"], "peer": ["B", "A"], "weight": 1.0})
        >>> PeerNetwork.from_edges(edges).matrix()
        peer    A    B
        firm
        A     0.0  1.0
        B     1.0  0.0
        """
        _, section = self.section(period)
        firms = self.labels.take(section.rows).rename("firm")
        peers = self.labels.take(section.columns).rename("peer")
        return self._marked(pd.DataFrame(np.array(section.dense()), firms, peers))

    def edges(self, period: Hashable = None, top_k: int | None = None) -> pd.DataFrame:
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
        chosen = self.at(period)
        names = ("firm", "peer", "weight")
        parts = (dict(zip(names, section.edges(top_k), strict=True)) for _, section in chosen.sections())
        return self._marked(chosen.tidy(parts).reindex(columns=["period", *names]))

    def _marked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a frame of weights with what they were learned from, in ``attrs``, which Parquet keeps, too."""
        if self.learned_until is not None:
            frame.attrs["learned_until"] = as_plain(self.learned_until)
        return frame

    def to_frame(self) -> pd.DataFrame:
        """Return all edges: :meth:`edges` without a choice.

        Returns
        -------
        pandas.DataFrame
            Columns ``period, firm, peer, weight``.
        """
        return self.edges()

    def at(self, period: Hashable) -> Self:
        """Return the network of one period; None: of all periods, as it is."""
        if period is None:
            return self
        # stability is of the whole network, and stays its own
        found, section = self.section(period)
        return self.replaced([section], periods=self.periods[self.periods == found], stability=self.stability)

    def tidy(self, parts: Iterable[Mapping[str, Any] | pd.DataFrame]) -> pd.DataFrame:
        """Return one frame, ``period`` first, of the columns that each period has.

        ``firm`` and ``peer`` hold positions in ``labels`` and come out as labels.
        """
        # a network without periods still has columns
        frames = [pd.DataFrame(part) for part in parts] or [pd.DataFrame({"firm": np.empty(0, dtype=int)})]
        found = pd.concat(frames, ignore_index=True)
        for side in found.columns.intersection(["firm", "peer"]):
            found[side] = self.labels.take(found[side].to_numpy())
        # labels come last: until here firms are positions, which are small and compare fast
        found.insert(0, "period", self.periods.repeat([len(frame) for frame in frames][: len(self.periods)]))
        return found

    def check_whole(self, measure: str, k: int | None = None, *, signed: bool = True) -> None:
        """Raise an error for a measure of all weights (or of the k largest of each firm) of a network that was cut to fewer.

        With ``signed=False`` a measure that needs weights that are not negative raises an error for a signed network, too.
        """
        if self.top_k is not None and (k is None or k > self.top_k):
            remedy = "Make it without top_k, or take network.normalized(), the kept weights as a network of their own."
            raise InputError(f"{measure}: the network holds the {self.kept_words()}; this measure needs all. {remedy}")
        if self.signed and not signed:
            raise InputError(f"{measure}: needs weights that are not negative; pass positive().")

    def kept_words(self) -> str:
        """Return in words what a network that was cut keeps."""
        size = "largest weight" if self.top_k == 1 else f"{self.top_k} largest weights"
        sums = np.concatenate([section.row_sums()[~section.isolates()] for section in self._sections])
        if self.signed or not len(sums):
            return f"{size} of each firm"
        return f"{size} of each firm, {np.median(sums):.1%} of all weight (median firm)"


Net = TypeVar("Net", bound=Network)


def as_plain(label: object) -> int | float | str | None:
    """Return a label as files hold it, a number or text; None stays None."""
    if label is None or isinstance(label, int | float | str):
        return label
    return str(label)


def last_learned(labels: Iterable[Any]) -> Any:
    """Return the last period until which any of several weights were learned; None where none were."""
    return max((label for label in labels if label is not None), default=None, key=str)


def _checked_stability(frame: pd.DataFrame | None) -> pd.DataFrame | None:
    """Return an own copy of a network's stability, its columns checked; None stays None."""
    if frame is None:
        return None
    check_known("stability", _STABILITY, frame.columns)
    strange = sorted(set(frame["comparison"]) - {"seeds", "folds"})
    expect(not strange, "stability", "comparisons 'seeds' or 'folds'", ", ".join(map(repr, strange)))
    return frame[list(_STABILITY)].reset_index(drop=True)
