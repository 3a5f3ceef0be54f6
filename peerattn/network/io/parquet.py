"""Parquet: tidy edges any reader can use, and what is needed to get all of a network back."""

from __future__ import annotations

import base64
import io
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, checked
from peerattn.network.base import FACTS, BaseNetwork, Net
from peerattn.network.cross_section import CrossSection, frozen, place_in
from peerattn.render import write_atomic
from peerattn.store.sealed import UNSEALED, read_sealed, seal

if TYPE_CHECKING:
    import pyarrow as pa

_KEY = "peerattn.network"
_VERSION = 4
_EXPECTED = "a network that to_parquet wrote (of other edges make one: PeerNetwork.from_edges(pandas.read_parquet(path)))"


@checked
def to_parquet(network: BaseNetwork, path: str | os.PathLike[str], *, place: str = "") -> None:
    """Write the network as tidy edges in Parquet; :meth:`from_parquet` gives all of it back.

    Columns ``period, firm, peer, weight``, one row for each weight that is not zero, row groups of one period
    each (a reader with a filter on ``period`` reads only these); the file's metadata hold each period's firms and peers
    (isolates too), the name, the kind and the stability, under a seal that shows any change.

    Parameters
    ----------
    path : path-like
        The file. It is replaced whole or not at all.
    place : str, default ""
        What the file is for (a model, a run): :meth:`from_parquet` refuses it in another's place.

    Raises
    ------
    InputError
        When it cannot be written, or labels are of a kind Parquet has no type for.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    one = min(1, len(network.labels), len(network.periods))
    example = {"period": network.periods[:one], "firm": network.labels[:one], "peer": network.labels[:one]}
    narrow = {str(section.weights.dtype) for _, section in network.sections()} == {"float32"}
    frame = pd.DataFrame(example).assign(weight=np.zeros(one, dtype="float32" if narrow else "float64"))
    try:
        schema = pa.Schema.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"to_parquet: labels of this kind have no Parquet type ({error}); make them text."
        ) from error
    content = io.BytesIO()
    with pq.ParquetWriter(content, schema, compression="zstd") as writer:
        for position, (_, section) in enumerate(network.sections()):
            edges = network.replaced([section], periods=network.periods[[position]]).edges()
            writer.write_table(pa.Table.from_pandas(edges, schema=schema, preserve_index=False))
        facts = json.dumps(_description(network) | {"place": place, "seal": UNSEALED})
        writer.add_key_value_metadata({_KEY: facts})
    write_atomic(path, seal(content.getvalue()))


@checked
def from_parquet(cls: type[Net], path: str | os.PathLike[str], *, place: str | None = None) -> Net:
    """Read a network that :meth:`to_parquet` wrote.

    Parameters
    ----------
    path : path-like
        The file.
    place : str, optional
        What the file must be for; default: not checked.

    Returns
    -------
    PeerNetwork
        Equal to the one written: weights, isolates, label dtypes, name, kind and stability.

    Raises
    ------
    InputError
        When the file is missing, cut off, not a network, is for something else, or was changed after it was written.
    """
    import pyarrow.parquet as pq

    content = read_sealed(path, _EXPECTED)
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        facts = json.loads(file.metadata.metadata[_KEY.encode()])
        if facts["version"] != _VERSION:
            raise InputError(
                f"path: {str(path)!r} has format {facts['version']}, this version reads format {_VERSION}."
            )
        if place is not None and facts["place"] != place:
            raise InputError(
                f"path: {str(path)!r} is for {facts['place']!r}, not for {place!r}; it was moved or copied there."
            )
        edges, labels = file.read(["firm", "peer", "weight"]), _unpacked(facts["labels"])
        stability = facts["stability"] and pd.DataFrame(facts["stability"])
        periods, until = (_unpacked(facts[name]) for name in ("periods", "learned_until"))
        told = {name: facts[name] for name in FACTS} | {"stability": stability, "learned_until": until[0]}
        return cls(labels, periods, _sections(facts["sections"], labels, edges), **told)
    except InputError:
        raise
    except Exception as error:  # parsers raise anything
        raise InputError(
            f"path: expected {_EXPECTED}, got {str(path)!r}, whose content is of another origin "
            f"({type(error).__name__}: {error})."
        ) from error


def _description(network: BaseNetwork) -> dict[str, Any]:
    """Everything of a network that is not an edge, ready for JSON."""
    sections = [
        {
            "edges": section.n_edges,
            "rows": section.rows.tolist(),
            "columns": None if section.is_square else section.columns.tolist(),
            "is_sparse": section.is_sparse,
            "dtype": str(section.weights.dtype),
        }
        for _, section in network.sections()
    ]
    return network.facts() | {
        "version": _VERSION,
        "labels": _packed(network.labels),
        "periods": _packed(network.periods),
        "learned_until": _packed(pd.Index([network.learned_until])),
        "stability": None if network.stability is None else network.stability.to_dict("list"),
        "sections": sections,
    }


def _packed(labels: pd.Index) -> str:
    """Return labels, their dtype kept, as text: Arrow's stream format, compressed."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    table = pa.Table.from_pandas(pd.DataFrame({"label": labels}), preserve_index=False)
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode("ascii")


def _unpacked(text: str) -> pd.Index:
    import pyarrow as pa

    frame = pa.ipc.open_stream(base64.b64decode(text)).read_all().to_pandas()
    return pd.Index(frame["label"]).rename(None)


def _sections(kept: list[dict[str, Any]], labels: pd.Index, edges: pa.Table) -> Iterator[CrossSection]:
    """Read the cross-sections from what is known of them and the edges of all periods, in their order."""
    start = 0
    for facts in kept:
        rows = np.array(facts["rows"], dtype=np.intp)
        columns = rows if facts["columns"] is None else np.array(facts["columns"], dtype=np.intp)
        here = edges.slice(start, facts["edges"]).to_pandas()
        start += facts["edges"]
        i, j = (
            place_in(members, labels.get_indexer_for(pd.Index(here[side])))
            for side, members in (("firm", rows), ("peer", columns))
        )
        entries = (here["weight"].to_numpy(dtype=facts["dtype"]), (i, j))
        weights = sparse.csr_array(entries, shape=(len(rows), len(columns)))
        yield CrossSection(rows, columns, frozen(weights if facts["is_sparse"] else weights.toarray()))
