"""The network of a model's cross-sections: weights on peers' rows, added up by firm."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import check_at_least
from peerattn.models.cross_section import NO_IDENTITY, CrossSection, adding_up, stacked
from peerattn.network import PeerNetwork
from peerattn.network.base import last_learned
from peerattn.panel.memory import check_memory

_CELLS = 3_000_000  # of a chunk of a network's weights, and the arrays of that size that computing it takes
_ARRAYS = 12
#: What gives the weights of some focal rows on all peers, (n_rows, n_peers).
RowWeights = Callable[[slice], np.ndarray | sparse.sparray]
SectionWeights = Callable[[CrossSection], RowWeights]
NetworkMaker = Callable[[Iterator[CrossSection]], PeerNetwork]


def network_of_sections(
    sections: Iterable[CrossSection],
    weights: SectionWeights,
    *,
    name: str,
    signed: bool,
    top_k: int | None = None,
    sparse_weights: Callable[[CrossSection], sparse.csr_array | None] = lambda section: None,
    learned_until: object = None,
    reads_past: bool = False,
    row_normalized: bool = True,
) -> PeerNetwork:
    """Return the network of cross-sections.

    Parameters
    ----------
    sections : iterable of CrossSection
    weights : callable
        Gives what computes the weights of a cross-section, some focal rows at a time.
    name : str
    signed : bool
        Whether a weight may be negative.
    top_k : int, optional
        Keep the largest weights of each firm only.
    sparse_weights : callable, optional
        Gives the weights of a whole cross-section where they are sparse, else None; by default they are not.
    learned_until : label
        Last period whose outcomes the weights were learned from.
    reads_past : bool
        Whether weights depend on outcomes of earlier periods of the call, too.
    row_normalized : bool
        Whether rows sum to one (but with ``top_k``).
    """
    if top_k is not None:
        check_at_least(1, top_k=top_k)
    matrices = {}
    learned = [learned_until]
    for section in sections:
        if reads_past:
            learned.append(section.past.last_before(section.period))
        labels, group = peer_columns(section)
        if top_k is None:
            # the weights, what checks them (a bit for each), and what it takes to compute a chunk of rows
            needed = 10.0 * len(section.focal) * len(labels) + 8.0 * _ARRAYS * _CELLS
            remedy = "keep the strongest peers only, top_k=, or pass fewer firms."
            check_memory(needed, f"the network of {len(section.focal):,} firms", remedy)
        blocks: Iterator[Any]
        found = sparse_weights(section)
        if found is None:
            of_rows = weights(section)
            blocks = (of_rows(rows) @ group for rows in section.chunks(_CELLS))
        else:
            blocks = iter([found @ group])
        matrices[section.period] = (section.focal.label, labels, stacked(blocks, len(section.focal), top_k))
    network = PeerNetwork.from_matrices(matrices, name=name, signed=signed, row_normalized=row_normalized and top_k is None)
    return network.replaced(top_k=top_k, learned_until=last_learned(learned))


def peer_columns(section: CrossSection) -> tuple[pd.Index, sparse.csr_array]:
    """Return the network's columns, and the matrix that adds peer rows up into them."""
    labels = section.focal.label.unique()
    # without labels the rows of the call are numbered, and so are those of training: no. 0 of both are two firms
    rows_of_others = isinstance(labels, pd.RangeIndex) and (section.focal.identity == NO_IDENTITY).all()
    if rows_of_others or not section.peers.label.isin(labels).all():
        labels = section.peers.label.unique()
    return labels, adding_up(labels.get_indexer(section.peers.label), len(labels))
