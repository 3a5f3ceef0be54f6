"""By label: characteristics and codes brought into a network's order, and a network's numbers out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network.cross_section import Array, where_in
from peerattn.render import show_label

if TYPE_CHECKING:
    from peerattn.network.peer_network import PeerNetwork


def labelled(network: PeerNetwork, columns: Mapping[str, Sequence[Array]]) -> pd.DataFrame:
    """Return one tidy frame, ``period`` first, from columns that hold one array for each period.

    ``firm`` and ``peer`` hold positions in ``network.labels`` and come out as labels.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({2001: (["A", "B"], None, np.eye(2)[::-1])})
    >>> labelled(network, {"firm": [np.array([1])], "size": [np.array([2.0])]})
       period firm  size
    0    2001    B   2.0
    """
    counts = np.array([len(part) for part in next(iter(columns.values()))], dtype=np.intp)
    frame: dict[str, Any] = {"period": network.periods.repeat(counts)}
    for name, parts in columns.items():
        values = np.concatenate(parts) if len(parts) else np.empty(0)
        is_label = name in ("firm", "peer")
        frame[name] = network.labels.take(values.astype(np.intp)) if is_label else values
    return pd.DataFrame(frame)


def check_whole(network: PeerNetwork, measure: str, k: int | None = None) -> None:
    """Raise where a measure of all weights (or of the k largest of each firm) is asked of a network that was cut to fewer.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({None: ("AB", None, np.eye(2)[::-1])})
    >>> check_whole(network, "asymmetry"), check_whole(network.replaced(top_k=1), "turnover", 1)
    (None, None)
    """
    if network.top_k is not None and (k is None or k > network.top_k):
        raise InputError(
            f"{measure}: the network holds the {kept_words(network)}, and what was cut decides this measure. Make the network "
            "without top_k; or take network.normalized(), the kept weights as a network of their own."
        )


def kept_words(network: PeerNetwork) -> str:
    """Say what a network that was cut keeps."""
    size = "largest weight" if network.top_k == 1 else f"{network.top_k} largest weights"
    if network.signed:
        return f"{size} of each firm"
    sums = np.concatenate([section.row_sums()[~section.isolates()] for _, section in network.sections()])
    share = f", {np.median(sums):.1%} of all weight (median firm)" if len(sums) else ""
    return f"{size} of each firm{share}"


def firm_level(network: PeerNetwork, index: pd.Index, argument: str) -> int | None:
    """Return the position of the firm level in an index of firms and periods; None for an index of firms.

    Raises
    ------
    InputError
        When the index is neither, or repeats a label.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({2001: (["A", "B"], None, np.eye(2)[::-1])})
    >>> firm_level(network, pd.MultiIndex.from_tuples([(2001, "A")], names=["year", "gvkey"]), "x")
    1
    """
    if index.has_duplicates:
        raise InputError(f"{argument}: {index[index.duplicated()][0]!r} occurs twice in its index.")
    if index.nlevels > 2 or (index.nlevels == 2 and not network.is_dated):
        raise InputError(
            f"{argument}: expected an index of firms, or of firms and periods, got levels {list(index.names)}."
        )
    level = None if index.nlevels == 1 else _firms_are(network, index)
    firms = index if level is None else index.get_level_values(level)
    if len(firms) and not firms.isin(network.labels).any():
        raise InputError(
            f"{argument}: none of its labels (such as {firms[0]!r}) is a firm of the network (such as "
            f"{network.labels[0]!r}). Index it by firm, or by firm and period."
        )
    return level


def _firms_are(network: PeerNetwork, index: pd.Index) -> int:
    """Return which of two levels holds the firms."""
    names = list(index.names)
    if "period" in names or "firm" in names:
        return 1 - names.index("period") if "period" in names else names.index("firm")
    matches = [int(np.sum(index.get_level_values(level).isin(network.periods))) for level in (0, 1)]
    return 1 if matches[0] > matches[1] else 0


def places_of(
    network: PeerNetwork, index: pd.Index, level: int | None, positions: Array, period: Any
) -> Array:
    """Return the row of ``index`` that belongs to each firm in a period, -1 where there is none.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({2001: (["A", "B"], None, np.eye(2)[::-1])})
    >>> places_of(network, pd.Index(["B"]), None, np.array([0, 1]), 2001)
    array([-1,  0])
    """
    firms = network.labels.take(positions)
    if level is None:
        return np.asarray(index.get_indexer_for(firms))
    here = np.flatnonzero(index.get_level_values(1 - level) == period)
    found = index[here].get_level_values(level).get_indexer_for(firms)
    return np.where(found >= 0, here[found] if len(here) else -1, -1)


def characteristic(
    network: PeerNetwork, values: pd.Series, positions: Array, period: Any, argument: str
) -> Array:
    """Return a characteristic of the firms at ``positions`` of ``network.labels`` in one period, NaN where unknown.

    ``values`` are by firm, or by firm and period; an error calls them ``argument``.

    Raises
    ------
    InputError
        When ``values`` is not a Series labelled so, or holds no numbers.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({2001: (["A", "B"], None, np.eye(2)[::-1])})
    >>> characteristic(network, pd.Series({"B": 2.0}), np.array([0, 1]), 2001, "size")
    array([nan,  2.])
    """
    place = _series_places(network, values, positions, period, argument)
    if not pd.api.types.is_numeric_dtype(values.dtype):
        raise InputError(f"{argument}: expected numbers, got {values.dtype}.")
    return np.append(values.to_numpy(dtype=np.float64, na_value=np.nan), np.nan)[place]


def code_numbers(
    network: PeerNetwork, codes: pd.Series, positions: Array, period: Any, argument: str
) -> Array:
    """Return the code of each firm in one period as a number (equal codes, equal numbers), -1 where unknown.

    As :func:`characteristic`, with codes of any kind, missing values unknown.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({2001: (["A", "B"], None, np.eye(2)[::-1])})
    >>> code_numbers(network, pd.Series({"A": "3711"}), np.array([0, 1]), 2001, "sic")
    array([ 0, -1])
    """
    place = _series_places(network, codes, positions, period, argument)
    return np.append(pd.factorize(codes)[0], -1)[place]


def labels_of(
    network: PeerNetwork, codes: pd.Series, positions: Array, period: Any, argument: str
) -> list[str]:
    """Return the code of each firm in one period as text, ``"unknown"`` where there is none.

    As :func:`characteristic`; codes that know none of these firms are an error.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({2001: (["A", "B"], None, np.eye(2)[::-1])})
    >>> labels_of(network, pd.Series({("A", 2001): 7, ("B", 2000): 8}), np.array([0, 1]), 2001, "order")
    ['7', 'unknown']
    """
    place = _series_places(network, codes, positions, period, argument)
    values = list(codes)
    found = ["unknown" if p < 0 or pd.isna(values[p]) else show_label(values[p]) for p in place]
    if found and set(found) == {"unknown"}:
        raise InputError(
            f"{argument}: the code of every firm{where_in(period)} is unknown. Index it by firm, or by firm and period."
        )
    return found


def _series_places(network: PeerNetwork, values: Any, positions: Array, period: Any, argument: str) -> Array:
    if not isinstance(values, pd.Series):
        raise InputError(
            f"{argument}: expected a Series labelled by firm, or by firm and period, got {type(values).__name__}."
        )
    return places_of(network, values.index, firm_level(network, values.index, argument), positions, period)
