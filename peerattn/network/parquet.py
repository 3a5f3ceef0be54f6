"""One Parquet file for one network: tidy edges any reader can use, and what is needed to get all of it back."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network.cross_section import Array, CrossSection, Weights, frozen
from peerattn.render import atomic_path

if TYPE_CHECKING:
    import pyarrow as pa

    from peerattn.network.store import NetworkStore

_KEY = b"peerattn.network"
_VERSION = 1


def write_parquet(network: NetworkStore, path: str | os.PathLike[str]) -> Path:
    """Write a network to one Parquet file, whole or not at all.

    Columns ``period, firm, peer, weight``, row groups of one period each, one row for each weight that is not
    zero; the file's metadata hold each period's firms and peers (isolates too), the name, and the kind.

    Parameters
    ----------
    network : NetworkStore
    path : path-like
        The file; its folder must exist.

    Returns
    -------
    pathlib.Path
        The file written.

    Raises
    ------
    InputError
        When the folder cannot be written, or labels are of a kind Parquet has no type for.
    """
    import pyarrow.parquet as pq

    schema = edge_schema(network)
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for position, (_, section) in enumerate(network.sections()):
            writer.write_table(edge_table(network, position, section, schema))
    return Path(path)


def _edge_frame(network: NetworkStore, position: int, section: CrossSection) -> pd.DataFrame:
    i, j, w = section.entries()
    return pd.DataFrame(
        {
            "period": network.periods.take(np.full(len(i), position, dtype=np.intp)),
            "firm": network.labels.take(section.rows[i]),
            "peer": network.labels.take(section.columns[j]),
            "weight": w,
        }
    )


def edge_table(network: NetworkStore, position: int, section: CrossSection, schema: pa.Schema) -> pa.Table:
    """Return one period's edges as an Arrow table."""
    import pyarrow as pa

    return pa.Table.from_pandas(_edge_frame(network, position, section), schema=schema, preserve_index=False)


def edge_schema(network: NetworkStore) -> pa.Schema:
    """Return the columns of the edges, with the network's description as metadata."""
    import pyarrow as pa

    count = len(network.periods) if len(network.labels) else 0
    example = pd.DataFrame(
        {
            "period": network.periods[:count],
            "firm": network.labels[:1].repeat(count),
            "peer": network.labels[:1].repeat(count),
            "weight": np.zeros(count, dtype=_common_float(network)),
        }
    )
    try:
        schema = pa.Schema.from_pandas(example, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"to_parquet: labels of this kind have no Parquet type ({error}); make them text."
        ) from error
    return schema.with_metadata({**(schema.metadata or {}), _KEY: description(network)})


def _common_float(network: NetworkStore) -> str:
    kinds = {str(section.weights.dtype) for _, section in network.sections()}
    return "float32" if kinds == {"float32"} else "float64"


def description(network: NetworkStore) -> bytes:
    """Everything of a network that is not an edge, as JSON."""
    sections = [section for _, section in network.sections()]
    pairs = [(section.rows, section.columns) for section in sections]
    members = {
        "labels": packed(pd.DataFrame({"label": network.labels})),
        "periods": packed(pd.DataFrame({"label": network.periods})),
        "rows": packed(_member_frame([rows for rows, _ in pairs])),
        "columns": packed(_member_frame([_other_columns(section) for section in sections])),
    }
    facts = {
        "version": _VERSION,
        "name": network.name,
        "signed": network.signed,
        "row_normalized": network.row_normalized,
        "edges": [section.n_edges for section in sections],
        "square": [section.is_square for section in sections],
        "sparse": [section.is_sparse for section in sections],
        "dtype": [str(section.weights.dtype) for section in sections],
    }
    return json.dumps(facts | members).encode()


def _other_columns(section: CrossSection) -> Array:
    return np.empty(0, dtype=np.intp) if section.is_square else section.columns


def _member_frame(parts: Sequence[Array]) -> pd.DataFrame:
    where = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    positions = np.concatenate([np.empty(0, dtype=np.intp), *parts])
    return pd.DataFrame({"section": where.astype(np.int32), "position": positions.astype(np.int32)})


def packed(frame: pd.DataFrame) -> str:
    """A frame, its dtypes kept, as text: Arrow's stream format, compressed."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode("ascii")


def unpacked(text: str) -> pd.DataFrame:
    """Return the frame that :func:`packed` made into text."""
    import pyarrow as pa

    frame: pd.DataFrame = pa.ipc.open_stream(base64.b64decode(text)).read_all().to_pandas()
    return frame


def read_parquet(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what :func:`write_parquet` wrote, as the arguments of :class:`PeerNetwork`.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    dict
        ``labels, periods, sections, name, signed, row_normalized``.

    Raises
    ------
    InputError
        When the file is missing, cut off, or not a network.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            metadata = file.schema_arrow.metadata or {}
            if _KEY not in metadata:
                raise InputError(
                    f"path: {str(path)!r} is a Parquet file but not a network written by to_parquet; "
                    "for a file of edges use PeerNetwork.from_edges(pandas.read_parquet(path))."
                )
            facts = json.loads(metadata[_KEY])
            groups = _row_groups(file, facts["edges"])

            def edges(position: int) -> pd.DataFrame:
                frame: pd.DataFrame = file.read_row_groups(
                    groups[position], columns=["firm", "peer", "weight"]
                ).to_pandas()
                return frame

            return network_parts(facts, edges, str(path))
    except FileNotFoundError as error:
        raise InputError(f"path: there is no file {str(path)!r}.") from error
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"path: {str(path)!r} cannot be read as Parquet ({error}); it may be cut off."
        ) from error


def network_parts(facts: dict[str, Any], edges: Callable[[int], pd.DataFrame], path: str) -> dict[str, Any]:
    """Return the arguments of :class:`PeerNetwork` from a description and the edges of each period."""
    if facts["version"] != _VERSION:
        raise InputError(
            f"path: {path!r} has format {facts['version']}, this version reads format {_VERSION}."
        )
    labels = pd.Index(unpacked(facts["labels"])["label"]).rename(None)
    periods = pd.Index(unpacked(facts["periods"])["label"]).rename(None)
    if len(periods) == 1 and pd.isna(periods[0]):
        periods = pd.Index([None], dtype=object)
    rows = _by_section(unpacked(facts["rows"]), len(periods))
    columns = _by_section(unpacked(facts["columns"]), len(periods))
    sections = []
    for position in range(len(periods)):
        peers = rows[position] if facts["square"][position] else columns[position]
        kind = facts["dtype"][position], facts["sparse"][position]
        weights = _weights(edges(position), labels, rows[position], peers, *kind)
        sections.append(CrossSection(rows[position], peers, weights))
    return {
        "labels": labels,
        "periods": periods,
        "sections": sections,
        "name": facts["name"],
        "signed": facts["signed"],
        "row_normalized": facts["row_normalized"],
    }


def _row_groups(file: Any, edges: list[int]) -> list[list[int]]:
    """Row groups of each section: they follow one another and none holds two sections."""
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    ends = np.cumsum(sizes, dtype=np.int64)
    last = np.cumsum(edges, dtype=np.int64)
    if len(edges) and (not len(sizes) or ends[-1] != last[-1]) and last[-1]:
        raise InputError(f"path: the file holds {sum(sizes)} edges where {int(last[-1])} were written.")
    owner = np.searchsorted(last, ends)
    return [[g for g in np.flatnonzero(owner == t).tolist() if sizes[g]] for t in range(len(edges))]


def _by_section(frame: pd.DataFrame, count: int) -> list[Array]:
    positions = frame["position"].to_numpy(dtype=np.intp)
    edges = np.searchsorted(frame["section"].to_numpy(), np.arange(count + 1))
    return [positions[edges[t] : edges[t + 1]] for t in range(count)]


def _weights(
    frame: pd.DataFrame, labels: pd.Index, rows: Array, columns: Array, dtype: str, is_sparse: bool
) -> Weights:
    row_place = np.full(len(labels), -1, dtype=np.intp)
    column_place = row_place.copy()
    row_place[rows], column_place[columns] = np.arange(len(rows)), np.arange(len(columns))
    i = row_place[labels.get_indexer_for(pd.Index(frame["firm"]))]
    j = column_place[labels.get_indexer_for(pd.Index(frame["peer"]))]
    values = frame["weight"].to_numpy(dtype=dtype)
    shape = (len(rows), len(columns))
    if is_sparse:
        return frozen(sparse.csr_array((values, (i, j)), shape=shape))
    dense = np.zeros(shape, dtype=dtype)
    dense[i, j] = values
    return frozen(dense)
