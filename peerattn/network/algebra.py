"""Networks from networks: choices, averages, transposes, and weighted averages of characteristics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, checked
from peerattn.network.attributes import firm_level, places_of
from peerattn.network.base import BaseNetwork, Net, last_learned
from peerattn.network.cross_section import Array, CrossSection, Weights, frozen, where_in

Values = TypeVar("Values", "pd.Series[Any]", pd.DataFrame)


@checked
def mean(network: Net) -> Net:
    """Return the mean over periods as one undated cross-section.

    Each firm's row is averaged over the periods in which it has a peer; a peer absent in one of them
    counts zero there. Rows therefore still sum to one.

    Returns
    -------
    PeerNetwork
        Sparse where all periods are. Of a learned network, learned until the last of them: a covariance weighs firms by their
        past outcomes, and without a date nothing says which of these were known.
    """
    rows, columns = (network.labels.get_indexer_for(side) for side in (network.firms, network.reference))
    counts = np.zeros(len(rows))
    shape = (len(rows), len(columns))
    every_sparse = all(section.is_sparse for _, section in network.sections())
    total: Any = sparse.csr_array(shape) if every_sparse else np.zeros(shape)
    for _, section in network.sections():
        i, j = np.searchsorted(rows, section.rows), np.searchsorted(columns, section.columns)
        counts[i[~section.isolates()]] += 1
        if every_sparse:
            found = section.csr().tocoo()
            total = total + sparse.csr_array((found.data, (i[found.row], j[found.col])), shape=shape)
        else:
            total[np.ix_(i, j)] += section.dense()
    averaged = _scaled_rows(total, 1.0 / np.maximum(counts, 1))
    section = CrossSection(rows, rows if np.array_equal(rows, columns) else columns, frozen(averaged))
    until = network.learned_until
    if until is not None and network.is_dated:
        until = last_learned([until, network.periods.max()])
    return network.replaced([section], periods=pd.Index([None], dtype=object), learned_until=until)


def _scaled_rows(weights: Any, factors: Array) -> Weights:
    if sparse.issparse(weights):
        return sparse.csr_array(sparse.diags_array(factors) @ weights)
    return np.asarray(weights * factors[:, None].astype(weights.dtype))


@checked
def subset(network: Net, *, firms: Any = None, periods: Any = None) -> Net:
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
        A choice of periods alone keeps :attr:`PeerNetwork.stability`.

    Raises
    ------
    InputError
        When a firm or period is unknown.
    """
    found = network.periods
    if periods is not None:
        found = found[found.isin([network.section(period)[0] for period in _listed(periods)])]
    sections = [s for period, s in network.sections() if period in found or not network.is_dated]
    if firms is None:
        return network.replaced(sections, periods=found, stability=network.stability)
    chosen = [network.firm_position(firm) for firm in _listed(firms)]
    among = [_among(section, chosen) for section in sections]
    return network.replaced(among, periods=found, row_normalized=False)


def _among(section: CrossSection, firms: list[int]) -> CrossSection:
    i, j = np.flatnonzero(np.isin(section.rows, firms)), np.flatnonzero(np.isin(section.columns, firms))
    rows = section.rows[i]
    columns = rows if section.is_square else section.columns[j]
    weights: Any = section.csr()[i][:, j] if section.is_sparse else section.dense()[np.ix_(i, j)]
    return CrossSection(rows, columns, frozen(weights))


def _listed(labels: Any) -> Iterable[Any]:
    one = isinstance(labels, str) or not isinstance(labels, Iterable)
    return [labels] if one else cast("Iterable[Any]", labels)


@checked
def normalized(network: Net) -> Net:
    """Return the network with every row divided by its sum; isolates stay isolates.

    Returns
    -------
    PeerNetwork

    Raises
    ------
    InputError
        When the network is signed.
    """
    if network.signed:
        raise InputError(
            "normalized: rows of a signed network may sum to zero and cannot be normalised; take positive()."
        )
    return _row_normalised(network, [section for _, section in network.sections()])


@checked
def positive(network: Net) -> Net:
    """Return the positive weights on other firms, each row divided by its sum: ``w⁺_ij = max(w_ij, 0) / Σ_{k≠i} max(w_ik, 0)``.

    What a next step needs that takes no negative weights (linear in means, a spatial model, a flow) from the signed
    network of a ridge or a covariance. A weight on oneself (a firm's own past) is no peer and is left out; a firm
    without a positive weight on another is an isolate. How large the positive part was is lost: report it beside.

    Returns
    -------
    PeerNetwork
        Not signed; rows sum to one or zero. Of a network cut to its largest weights, the positive among those kept.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0.2, 0.6, -0.3], [0.1, 0.0, 0.3], [-0.5, 0.0, 0.0]])
    >>> PeerNetwork.from_matrices({None: ("ABC", None, W)}, signed=True).positive().matrix().round(2)
    peer     A    B     C
    firm
    A     0.00  1.0  0.00
    B     0.25  0.0  0.75
    C     0.00  0.0  0.00
    """
    kept = []
    for _, section in network.sections():
        weights = section.others().maximum(0)
        kept.append(replace(section, weights=weights if section.is_sparse else weights.toarray()))
    return _row_normalised(network, kept)


def _row_normalised(network: Net, given: list[CrossSection]) -> Net:
    sections = []
    for section in given:
        sums = section.row_sums()
        factors = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums != 0)
        exact: Any = section.weights.astype(np.float64)
        sections.append(CrossSection(section.rows, section.columns, frozen(_scaled_rows(exact, factors))))
    return network.replaced(sections, row_normalized=True, signed=False, top_k=None)


def peer_average(network: BaseNetwork, values: Values) -> Values:
    """Return each focal firm's weighted sum of its peers' values, ``W @ x``: ``Σ_j w_ij x_j``, by label."""
    if not isinstance(values, pd.Series | pd.DataFrame):
        raise InputError(
            f"W @ x: expected a Series or DataFrame labelled by firm, got {type(values).__name__}; "
            "labels decide which value belongs to which firm."
        )
    frame = values.to_frame() if isinstance(values, pd.Series) else values
    level = firm_level(network, frame.index, "W @ x")
    parts = [
        _product(section, _values_of(network, frame, section, period, level))
        for period, section in network.sections()
    ]
    index = _result_index(network, frame.index, level)
    result = pd.DataFrame(np.concatenate(parts), index=index, columns=frame.columns)
    if isinstance(values, pd.Series):
        return pd.Series(result.iloc[:, 0], name=values.name)
    return result


def _values_of(
    network: BaseNetwork, frame: pd.DataFrame, section: CrossSection, period: Any, level: int | None
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


def _result_index(network: BaseNetwork, given: pd.Index, level: int | None) -> pd.Index:
    rows = network.labelled({"firm": [section.rows for _, section in network.sections()]})
    if not network.is_dated:
        return pd.Index(rows["firm"], name=given.name or "firm")
    order = ["period", "firm"] if level == 1 else ["firm", "period"]
    named = [None, None] if level is None else given.names
    return pd.MultiIndex.from_frame(rows[order], names=[a or b for a, b in zip(named, order, strict=True)])
