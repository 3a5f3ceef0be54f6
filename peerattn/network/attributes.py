"""Characteristics and codes brought into a network's order, by label."""

from collections.abc import Hashable
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, expect
from peerattn.network.base import Network
from peerattn.network.cross_section import Array, where_in
from peerattn.render import show_label

Values = TypeVar("Values", "pd.Series[Any]", pd.DataFrame)


def firm_level(network: Network, index: pd.Index, argument: str) -> int | None:
    """Return the position of the firm level in an index of firms and periods; None for an index of firms.

    Raises
    ------
    InputError
        When the index is neither, repeats a label, or has no firm or no period of the network.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({2001: (["A", "B"], None, np.eye(2)[::-1])})
    >>> firm_level(network, pd.MultiIndex.from_tuples([(2001, "A")], names=["year", "gvkey"]), "x")
    1
    """
    if index.has_duplicates:
        raise InputError(f"{argument}: {show_label(index[index.duplicated()][0])} occurs twice in its index.")
    if index.nlevels == 2 and not network.is_dated:
        raise InputError(f"{argument}: the network has no periods; index values by firm.")
    expect(index.nlevels <= 2, argument, "an index of firms (and periods)", list(index.names))
    level = None if index.nlevels == 1 else _firms_are(network, index)
    firms = index.get_level_values(level or 0)
    if len(firms) and not firms.isin(network.labels).any():
        known = ", ".join(map(repr, network.labels[:1])) or "none"
        labels = f"none of its labels (such as {firms.tolist()[0]!r}) is a firm of the network (such as {known})"
        raise InputError(f"{argument}: {labels}. Index it by firm, or by firm and period.")
    periods = index.get_level_values(1 - level) if level is not None else index[:0]
    if len(periods) and not periods.isin(network.periods).any():
        other, ours = (each.tolist()[0] for each in (periods, network.periods))
        labels = f"none of its periods (such as {other!r}) is one of the network (such as {ours!r})"
        raise InputError(f"{argument}: {labels}. Use labels of the same type and date.")
    return level


def _firms_are(network: Network, index: pd.Index) -> int:
    """Return which of two levels holds the firms."""
    names = list(index.names)
    if "period" in names:
        return 1 - names.index("period")
    if "firm" in names:
        return names.index("firm")
    # without names the level with more of the network's periods is the period
    first, second = (index.get_level_values(level).isin(network.periods).sum() for level in (0, 1))
    return int(first > second)


def by_firm(network: Network, values: Values, period: Hashable, argument: str) -> Values:
    """Return values by firm, or by firm and period, as those of one period by firm.

    Raises
    ------
    InputError
        As :func:`firm_level`.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({2001: (["A", "B"], None, np.eye(2)[::-1])})
    >>> by_firm(network, pd.Series({("A", 2001): 7, ("B", 2000): 8}), 2001, "size").to_dict()
    {'A': 7}
    """
    # values that do not change over time are those of every period
    level = firm_level(network, values.index, argument)
    if level is None:
        return values
    return values[values.index.get_level_values(1 - level) == period].droplevel(1 - level)


def characteristic(network: Network, values: pd.Series | None, positions: Array, period: Hashable, argument: str) -> Array:
    """Return a characteristic of the firms at ``positions`` of ``network.labels`` in one period, NaN where unknown.

    ``values`` are by firm, or by firm and period (None: all unknown); an error calls them ``argument``.

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
    if values is None:
        return np.full(len(positions), np.nan)
    expect(pd.api.types.is_numeric_dtype(values.dtype), argument, "numbers", values.dtype)
    found = by_firm(network, values, period, argument).reindex(network.labels.take(positions))
    return found.to_numpy(dtype=np.float64, na_value=np.nan)


def code_numbers(network: Network, codes: pd.Series | None, positions: Array, period: Hashable, argument: str) -> Array:
    """Return the code of each firm in one period as a number (equal codes, equal numbers), -1 where unknown.

    As :func:`characteristic`, with codes of any kind, missing values unknown.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({2001: (["A", "B"], None, np.eye(2)[::-1])})
    >>> code_numbers(network, pd.Series({"A": "3711"}), np.array([0, 1]), 2001, "sic")
    array([ 0, -1])
    """
    if codes is not None:
        codes = pd.Series(pd.factorize(codes)[0], codes.index)
    return np.nan_to_num(characteristic(network, codes, positions, period, argument), nan=-1).astype(int)


def labels_of(network: Network, codes: pd.Series, positions: Array, period: Hashable, argument: str) -> list[str]:
    """Return the code of each firm in one period as text, ``"unknown"`` where there is none.

    As :func:`characteristic`; codes that know none of these firms are an error.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({2001: (["A", "B"], None, np.eye(2)[::-1])})
    >>> labels_of(network, pd.Series({("A", 2001): 7, ("B", 2000): 8}), np.array([0, 1]), 2001, "order")
    ['7', 'unknown']
    """
    here = by_firm(network, codes.astype(object), period, argument).reindex(network.labels.take(positions))
    found = here.map(show_label).where(here.notna(), "unknown").tolist()
    if found and set(found) == {"unknown"}:
        raise InputError(f"{argument}: the code of every firm{where_in(period)} is unknown; index by firm.")
    return found
