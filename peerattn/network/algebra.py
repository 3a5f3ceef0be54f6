"""Networks from networks: choices, averages, transposes, and weighted averages of characteristics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network.attributes import firm_level, places_of
from peerattn.network.cross_section import Array, CrossSection, Weights, frozen
from peerattn.network.store import where_in

if TYPE_CHECKING:
    from peerattn.network.peer_network import PeerNetwork

Values = TypeVar("Values", "pd.Series[Any]", pd.DataFrame)


def mean_rows(network: PeerNetwork, firms: Array) -> tuple[Array, Array]:
    """Average rows over the periods in which a firm looks at someone; a peer absent then counts zero.

    Parameters
    ----------
    network : PeerNetwork
    firms : ndarray of int
        Positions in ``network.labels``.

    Returns
    -------
    weights : ndarray, shape (n_firms, n_labels)
        Averages; zero rows for firms that never look.
    counts : ndarray of int, shape (n_firms,)
        Periods averaged.
    """
    total = np.zeros((len(firms), len(network.labels)))
    counts = np.zeros(len(firms), dtype=np.intp)
    for _, section in network.sections():
        if not len(section.rows):
            continue
        looking = ~section.isolates()
        place = _places(section.rows, len(network.labels))[firms]
        here = np.flatnonzero((place >= 0) & looking[place])
        if len(here):
            block: Any = section.weights[place[here]]
            total[np.ix_(here, section.columns)] += block.toarray() if section.is_sparse else block
            counts[here] += 1
    return total / np.maximum(counts, 1)[:, None], counts


def weights_to(network: PeerNetwork, firm: int) -> Array:
    """Average weight that every label puts on one firm, over the periods in which that label looks at someone.

    Parameters
    ----------
    network : PeerNetwork
    firm : int
        Position in ``network.labels``.

    Returns
    -------
    ndarray, shape (n_labels,)
        Column of the mean network.
    """
    total = np.zeros(len(network.labels))
    counts = np.zeros(len(network.labels))
    for _, section in network.sections():
        counts[section.rows[~section.isolates()]] += 1
        column = np.flatnonzero(section.columns == firm)
        if len(column):
            found: Any = section.weights[:, [int(column[0])]]
            total[section.rows] += np.asarray(found.toarray() if section.is_sparse else found).ravel()
    return total / np.maximum(counts, 1)


def _places(positions: Array, size: int) -> Array:
    """Inverse of a list of positions: where each label stands in it, or -1."""
    place = np.full(size, -1, dtype=np.intp)
    place[positions] = np.arange(len(positions))
    return place


def mean_network(network: PeerNetwork) -> PeerNetwork:
    """Average over periods, firm by firm, as :func:`mean_rows` does; sparse where the periods are."""
    labels = len(network.labels)
    rows, columns = (network.labels.get_indexer_for(side) for side in (network.firms, network.reference))
    row_place, column_place = _places(rows, labels), _places(columns, labels)
    counts = np.zeros(len(rows))
    shape = (len(rows), len(columns))
    every_sparse = all(section.is_sparse for _, section in network.sections())
    total: Any = sparse.csr_array(shape) if every_sparse else np.zeros(shape)
    for _, section in network.sections():
        i, j = row_place[section.rows], column_place[section.columns]
        counts[i[~section.isolates()]] += 1
        if every_sparse:
            found = section.csr().tocoo()
            total = total + sparse.csr_array((found.data, (i[found.row], j[found.col])), shape=shape)
        else:
            total[np.ix_(i, j)] += section.dense()
    averaged = _scaled_rows(total, 1.0 / np.maximum(counts, 1))
    section = CrossSection(rows, rows if np.array_equal(rows, columns) else columns, frozen(averaged))
    return network.replaced([section], periods=pd.Index([None], dtype=object))


def _scaled_rows(weights: Any, factors: Array) -> Weights:
    if sparse.issparse(weights):
        return sparse.csr_array(sparse.diags_array(factors) @ weights)
    return np.asarray(weights * factors[:, None].astype(weights.dtype))


def subset(network: PeerNetwork, firms: Any, periods: Any) -> PeerNetwork:
    """Keep some firms (as rows and columns) and some periods; rows may then sum to less than one."""
    kept = np.ones(len(network.labels), dtype=bool)
    if firms is not None:
        chosen = [network.firm_position(firm) for firm in _listed(firms)]
        kept = np.isin(np.arange(len(network.labels)), chosen)
    found = network.periods
    if periods is not None:
        wanted = [network.section(period)[0] for period in _listed(periods)]
        found = found[found.isin(wanted)]
    sections = []
    for period, section in network.sections():
        if period not in found and network.is_dated:
            continue
        if firms is None:
            sections.append(section)
            continue
        i, j = np.flatnonzero(kept[section.rows]), np.flatnonzero(kept[section.columns])
        rows = section.rows[i]
        columns = rows if section.is_square else section.columns[j]
        weights: Any = section.csr()[i][:, j] if section.is_sparse else section.dense()[np.ix_(i, j)]
        sections.append(CrossSection(rows, columns, frozen(weights)))
    whole = firms is None and network.row_normalized
    return network.replaced(sections, periods=found, row_normalized=whole)


def _listed(labels: Any) -> Iterable[Any]:
    one = isinstance(labels, str) or not isinstance(labels, Iterable)
    return [labels] if one else cast("Iterable[Any]", labels)


def symmetrized(network: PeerNetwork) -> PeerNetwork:
    """Replace each cross-section by (W + W') / 2."""
    sections = []
    for period, section in network.sections():
        if not section.is_square:
            raise InputError(
                f"symmetrized: those who look and those who are looked to differ{where_in(period)}; a "
                "cross-attention network has no transpose among the same firms."
            )
        weights: Any = section.weights
        half = sparse.csr_array((weights + weights.T) / 2) if section.is_sparse else (weights + weights.T) / 2
        sections.append(CrossSection(section.rows, section.columns, frozen(half)))
    return network.replaced(sections, row_normalized=False)


def normalized(network: PeerNetwork) -> PeerNetwork:
    """Divide each row by its sum; rows of zeros stay."""
    if network.signed:
        raise InputError(
            "normalized: rows of a signed network may sum to nothing; there is no sum to divide by."
        )
    sections = []
    for _, section in network.sections():
        sums = section.row_sums()
        factors = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums != 0)
        exact: Any = section.weights.astype(np.float64)
        sections.append(CrossSection(section.rows, section.columns, frozen(_scaled_rows(exact, factors))))
    return network.replaced(sections, row_normalized=True)


def peer_average(network: PeerNetwork, values: Values) -> Values:
    """Return each focal firm's weighted sum of its peers' values, ``Σ_j w_ij x_j``, by label."""
    if not isinstance(values, pd.Series | pd.DataFrame):
        raise InputError(
            f"W @ x: expected a Series or DataFrame labelled by firm, got {type(values).__name__}; "
            "labels decide which value belongs to which firm."
        )
    frame = values.to_frame() if isinstance(values, pd.Series) else values
    level = firm_level(network, frame.index, "W @ x")
    parts, keys = [], []
    for period, section in network.sections():
        block = _values_of(network, frame, section, period, level)
        parts.append(_product(section, block))
        keys.append(network.labels.take(section.rows))
    index = _result_index(network, keys, frame.index, level)
    result = pd.DataFrame(np.concatenate(parts), index=index, columns=frame.columns)
    if isinstance(values, pd.Series):
        return pd.Series(result.iloc[:, 0], name=values.name)
    return result


def _values_of(
    network: PeerNetwork, frame: pd.DataFrame, section: CrossSection, period: Any, level: int | None
) -> Array:
    place = places_of(network, frame.index, level, section.columns, period)
    if (place < 0).any():
        missing = network.labels.take(section.columns[place < 0])
        shown = ", ".join(repr(label) for label in missing[:3])
        raise InputError(f"W @ x: x has no value for {len(missing)} peers{where_in(period)} ({shown}).")
    return np.asarray(frame.to_numpy(dtype=np.float64))[place]


def _product(section: CrossSection, values: Array) -> Array:
    """Weights times values, where an unknown value matters only to those who put weight on it."""
    unknown = np.isnan(values)
    weights: Any = section.weights
    result = np.asarray(weights @ np.where(unknown, 0.0, values))
    if unknown.any():
        touched = np.asarray((weights != 0).astype(np.float64) @ unknown.astype(np.float64)) > 0
        result = np.where(touched, np.nan, result)
    return result


def _result_index(network: PeerNetwork, keys: list[pd.Index], given: pd.Index, level: int | None) -> pd.Index:
    if not network.is_dated:
        return keys[0].rename(given.name or "firm")
    firms = network.labels.take(
        np.concatenate([section.rows for _, section in network.sections()]).astype(np.intp)
    )
    periods = network.periods.repeat([len(key) for key in keys])
    levels = [firms, periods]
    names: list[Any] = ["firm", "period"]
    if level is not None:
        names = [given.names[level] or "firm", given.names[1 - level] or "period"]
    if level == 1:
        levels, names = levels[::-1], names[::-1]
    return pd.MultiIndex.from_arrays(levels, names=names)
