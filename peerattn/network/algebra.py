"""Networks from networks: choices, averages, products of layers; and weighted averages of characteristics."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, expect, reworded, validate_arguments
from peerattn.network.attributes import Values, by_firm, firm_level
from peerattn.network.base import Net, Network, last_learned
from peerattn.network.cross_section import Array, CrossSection, Weights, frozen, where_in
from peerattn.network.peers import mean_weights


def mean(network: Net) -> Net:
    """Return the mean over periods as one undated cross-section.

    Each firm's row is averaged over the periods in which it has a peer; a peer absent in one of them
    counts zero there. Rows therefore still sum to one.

    Returns
    -------
    PeerNetwork
        Sparse where all periods are. Of a learned network, learned until the last of them: a covariance weighs firms by their
        past outcomes, and without a date it is unknown which of these were known.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> dated = PeerNetwork.from_matrices({2001: W, 2002: W})
    >>> float(dated.mean().matrix().loc["A", "B"])
    0.75
    """
    rows, columns = (network.labels.get_indexer_for(side) for side in (network.firms, network.reference))
    section = CrossSection(rows, columns, frozen(mean_weights(network, rows, columns)))
    # an average over periods knows of the last of them, whatever each was learned from
    until = network.learned_until
    if until is not None and network.is_dated:
        until = last_learned([until, network.periods.max()])
    return network.replaced([section], periods=pd.Index([None], dtype=object), learned_until=until)


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
        A choice of periods alone keeps ``stability``.

    Raises
    ------
    InputError
        When a firm or period is unknown.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> network.subset(firms=["A", "B"])
    PeerNetwork(2 firms, undated, 2 edges)
    """
    # a label may be spelled as find_period reads it
    found = network.periods
    if periods is not None:
        found = found[found.isin([network.section(period)[0] for period in _listed(periods)])]
    sections = [s for period, s in network.sections() if period in found or not network.is_dated]
    if firms is None:
        return network.replaced(sections, periods=found, stability=network.stability)
    chosen = [network.firm_position(firm) for firm in _listed(firms)]
    kept = []
    for each in sections:
        i, j = (np.flatnonzero(np.isin(side, chosen)) for side in (each.rows, each.columns))
        # weights stay what they are: rows of a part may sum to less than one
        kept.append(CrossSection(each.rows[i], each.columns[j], frozen(each.weights[np.ix_(i, j)])))
    return network.replaced(kept, periods=found, row_normalized=False)


def _listed(labels: object) -> Any:
    if pd.api.types.is_list_like(labels):
        return labels
    return [labels]


def normalized(network: Net) -> Net:
    """Return the network with every row divided by its sum; isolates stay isolates.

    Returns
    -------
    PeerNetwork

    Raises
    ------
    InputError
        When the network is signed.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> kept = network.subset(firms=["A", "B"]).normalized()
    >>> float(kept.matrix().loc["A", "B"])
    1.0
    """
    if network.signed:
        raise InputError("normalized: rows of a signed network may sum to zero; take positive().")
    sections = []
    for _, section in network.sections():
        sums = section.row_sums()
        factors = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums != 0)
        # float32 rows would sum to one only to six digits
        scaled = section.weights.astype(np.float64) * factors[:, None]
        sections.append(replace(section, weights=frozen(scaled)))
    return network.replaced(sections, row_normalized=True, top_k=None)


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
    return normalized(network.replaced(kept, row_normalized=False, signed=False))


def peer_average(network: Network, values: Values) -> Values:
    """Return each focal firm's weighted sum of its peers' values, ``Σ_j w_ij x_j``, by label.

    It is 0 of a firm without peers (``network.isolates``), and NaN where a value is missing.
    """
    if isinstance(values, pd.Series):
        return pd.Series(peer_average(network, values.to_frame()).iloc[:, 0], name=values.name)
    expect(isinstance(values, pd.DataFrame), "W @ x", "a Series or frame labelled by firm", type(values).__name__)
    level = firm_level(network, values.index, "W @ x")
    came = ", ".join(map(str, values.dtypes))
    with reworded(f"W @ x: expected numbers in x, got {came}", kinds=(TypeError, ValueError)):
        values = values.astype(np.float64)
    parts = []
    for period, section in network.sections():
        here = by_firm(network, values, period, "W @ x")
        peers = network.labels.take(section.columns)
        if len(missing := peers[here.index.get_indexer_for(peers) < 0]):
            displayed = ", ".join(map(repr, missing[:3]))
            raise InputError(f"W @ x: x has no value for {len(missing)} peers{where_in(period)} ({displayed}).")
        parts.append(_product(section.weights, here.reindex(peers).to_numpy()))
    # the result is labelled as the values came
    return pd.DataFrame(np.concatenate(parts), _result_index(network, values.index, level), values.columns)


def _product(weights: Weights, values: Array) -> Array:
    """Weights times values, where an unknown value matters only to those who put weight on it."""
    # NaN times zero is NaN: a peer without weight must not make the sum unknown
    unknown = np.isnan(values)
    touched = (weights != 0).astype(np.float64) @ unknown.astype(np.float64) > 0
    return np.where(touched, np.nan, weights @ np.where(unknown, 0.0, values))


def _result_index(network: Network, given: pd.Index, level: int | None) -> pd.Index:
    rows = network.tidy({"firm": section.rows} for _, section in network.sections())
    if not network.is_dated:
        return pd.Index(rows["firm"], name=given.name or "firm")
    order = ["firm", "period"]
    if level == 1:
        order.reverse()
    named = [None, None] if level is None else given.names
    return pd.MultiIndex.from_frame(rows[order], names=[a or b for a, b in zip(named, order, strict=True)])


@validate_arguments
def rollout(layers: Sequence[Net], *, residual: float = 0.5) -> Net:
    """Return what stacked attention layers add up to: the product of ``(1 − residual) A + residual I``.

    Parameters
    ----------
    layers : sequence of PeerNetwork
        One for each layer, the first layer first, with the same firms in the same periods; heads averaged.
    residual : float, default 0.5
        Share that passes by the attention; an isolate's information passes by wholly.

    Returns
    -------
    PeerNetwork
        ``W[i, k]``: how much of firm k's input reaches firm i's last layer. Rows sum to one; a firm has weight
        on itself.

    Raises
    ------
    InputError
        When layers differ in firms or periods, do not have rows that sum to one, or are rectangular.

    References
    ----------
    Abnar and Zuidema (2020), "Quantifying attention flow in transformers", ACL, section 3.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> swap = PeerNetwork.from_matrices({None: ("AB", None, np.eye(2)[::-1])})
    >>> rollout([swap, swap]).matrix().to_numpy()
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    expect(len(layers) > 0, "layers", "at least one network", "none")
    expect(0 <= residual <= 1, "residual", "a number between 0 and 1", repr(residual))
    for number, network in enumerate(layers):
        expect(isinstance(network, Network), "layers", "networks", f"{type(network).__name__} as layer {number}")
        if not network.row_normalized:
            raise InputError(f"layers: rows of layer {number} do not sum to one; use normalized() first.")
        same = network.labels.equals(layers[0].labels) and network.periods.equals(layers[0].periods)
        pairs = zip(network.sections(), layers[0].sections(), strict=False)
        if not same or not all(np.array_equal(a.rows, b.rows) and a.is_square for (_, a), (_, b) in pairs):
            raise InputError(f"layers: layer {number} is not square or has other firms or periods than 0.")
    sections = []
    for stack in zip(*(network.sections() for network in layers), strict=True):
        rows = stack[0][1].rows
        product = np.eye(len(rows))
        for _, section in stack:
            # an isolate attends to nobody, and keeps what it has
            passed_by = np.where(section.isolates(), 1.0, residual)
            product = ((1 - residual) * section.dense().astype(np.float64) + np.diag(passed_by)) @ product
        sections.append(CrossSection(rows, rows, frozen(product)))
    return layers[0].replaced(sections, learned_until=last_learned(each.learned_until for each in layers))
