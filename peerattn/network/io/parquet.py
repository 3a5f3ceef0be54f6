"""Parquet: tidy edges any reader can use, and what is needed to get all of a network back; a file or a folder."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network.attributes import labelled
from peerattn.network.cross_section import Array, CrossSection, Weights, frozen, place_in
from peerattn.render import UNSEALED, read_sealed, seal, show_label, write_atomic

if TYPE_CHECKING:
    import pyarrow as pa

    from peerattn.network.peer_network import PeerNetwork

_KEY = "peerattn.network"
_VERSION = 2
_EXPECTED = "a network that to_parquet wrote (of other edges make one: PeerNetwork.from_edges(pandas.read_parquet(path)))"
_FACTS = "_network.json"
_UNDATED = "__HIVE_DEFAULT_PARTITION__"  # what Hive and those who follow it call a missing value


def to_parquet(network: PeerNetwork, path: str | os.PathLike[str], *, partitioned: bool = False) -> None:
    """Write the network as tidy edges in Parquet; :meth:`from_parquet` gives all of it back.

    Columns ``period, firm, peer, weight``, one row for each weight that is not zero, row groups of one period
    each; the file's metadata hold each period's firms and peers (isolates too), the name, the kind and the stability.

    Parameters
    ----------
    path : path-like
        The file, or the folder of a partitioned network. It is replaced whole or not at all.
    partitioned : bool, default False
        Make a folder with one file for each period, ``period=2012-06-30/edges.parquet``, which pandas, Arrow,
        DuckDB and Spark read as one table and of which one can read single periods; ``_network.json`` holds the rest.

    Raises
    ------
    InputError
        When it cannot be written, labels are of a kind Parquet has no type for, or a folder is there that holds no
        network.
    """
    if partitioned:
        _write_folder(network, Path(path))
    else:
        _write_file(network, path)


def from_parquet(cls: type[PeerNetwork], path: str | os.PathLike[str]) -> PeerNetwork:
    """Read a network that :meth:`to_parquet` wrote.

    Parameters
    ----------
    path : path-like
        The file, or the folder of a partitioned network.

    Returns
    -------
    PeerNetwork
        Equal to the one written: weights, isolates, label dtypes, name, kind and stability.

    Raises
    ------
    InputError
        When the file is missing, cut off, not a network, or was changed after it was written.
    """
    return cls(**(_read_folder(Path(path)) if Path(path).is_dir() else _read_file(path)))


def _write_file(network: PeerNetwork, path: str | os.PathLike[str]) -> None:
    import pyarrow.parquet as pq

    schema = _edge_schema(network)
    content = io.BytesIO()
    with pq.ParquetWriter(content, schema, compression="zstd") as writer:
        for table in _edge_tables(network, schema):
            writer.write_table(table)
        writer.add_key_value_metadata({_KEY: json.dumps(_description(network) | {"seal": UNSEALED})})
    write_atomic(path, seal(content.getvalue()))


def _write_folder(network: PeerNetwork, target: Path) -> None:
    """Write the files of all periods to a temporary folder, then give it its name."""
    import pyarrow.parquet as pq

    if target.exists() and not (target / _FACTS).is_file():
        raise InputError(f"path: {str(target)!r} exists and holds no network; choose a new folder.")
    schema = _edge_schema(network)
    folders = _folders(network)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    except OSError as error:
        raise InputError(f"path: cannot write {str(target)!r}: {error.strerror}.") from error
    digests = []
    try:
        for name, table in zip(folders, _edge_tables(network, schema), strict=True):
            (temporary / name).mkdir()
            path = temporary / name / "edges.parquet"
            pq.write_table(table.drop_columns("period"), path, compression="zstd")
            digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
        facts = _description(network) | {"folders": folders, "digests": digests, "seal": UNSEALED}
        (temporary / _FACTS).write_bytes(seal(json.dumps(facts).encode()))
        temporary.chmod(0o755)
        _put(temporary, target)
    except OSError as error:
        raise InputError(f"path: cannot write {str(target)!r}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put(temporary: Path, target: Path) -> None:
    """Give the folder its name; an old one steps aside first and goes when the new one stands."""
    if not target.exists():
        temporary.rename(target)
        return
    aside = temporary.with_suffix(".old")
    target.rename(aside)
    try:
        temporary.rename(target)
    except OSError:
        aside.rename(target)
        raise
    shutil.rmtree(aside)


def _folders(network: PeerNetwork) -> list[str]:
    shown = [show_label(period) if network.is_dated else _UNDATED for period in network.periods]
    if len(set(shown)) < len(shown):
        raise InputError("to_parquet: two periods have the same text and would share a folder.")
    return [f"period={quote(name, safe=' ')}" for name in shown]


def _edge_tables(network: PeerNetwork, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield each period's edges as an Arrow table."""
    import pyarrow as pa

    for position, (_, section) in enumerate(network.sections()):
        i, j, w = section.entries()
        one = network.replaced([section], periods=network.periods[[position]])
        frame = labelled(one, {"firm": [section.rows[i]], "peer": [section.columns[j]], "weight": [w]})
        yield pa.Table.from_pandas(frame, schema=schema, preserve_index=False)


def _edge_schema(network: PeerNetwork) -> pa.Schema:
    """Return the columns of the edges."""
    import pyarrow as pa

    count = len(network.periods) if len(network.labels) else 0
    firms = network.labels[:1].repeat(count)
    kinds = {str(section.weights.dtype) for _, section in network.sections()}
    weights = np.zeros(count, dtype="float32" if kinds == {"float32"} else "float64")
    example = {"period": network.periods[:count], "firm": firms, "peer": firms, "weight": weights}
    try:
        return pa.Schema.from_pandas(pd.DataFrame(example), preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"to_parquet: labels of this kind have no Parquet type ({error}); make them text."
        ) from error


def _description(network: PeerNetwork) -> dict[str, Any]:
    """Everything of a network that is not an edge, ready for JSON."""
    sections = [section for _, section in network.sections()]
    other = [np.empty(0, dtype=np.intp) if section.is_square else section.columns for section in sections]
    return facts_of(network) | {
        "version": _VERSION,
        "edges": [section.n_edges for section in sections],
        "square": [section.is_square for section in sections],
        "sparse": [section.is_sparse for section in sections],
        "dtype": [str(section.weights.dtype) for section in sections],
        "labels": packed(network.labels),
        "periods": packed(network.periods),
        "rows": packed(_member_frame([section.rows for section in sections])),
        "columns": packed(_member_frame(other)),
    }


def facts_of(network: PeerNetwork) -> dict[str, Any]:
    """Return the arguments of :class:`PeerNetwork` beside labels and weights, ready for JSON."""
    facts = {name: getattr(network, name) for name in ("name", "signed", "row_normalized", "top_k")}
    stability = None if network.stability is None else network.stability.to_dict("list")
    until = None if network.learned_until is None else packed(pd.Index([network.learned_until]))
    return facts | {"stability": stability, "learned_until": until}


def stored_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that :func:`facts_of` gave, from a file's facts."""
    kept = {name: facts[name] for name in ("name", "signed", "row_normalized")}
    stability = facts.get("stability")
    kept["top_k"] = facts.get("top_k")
    until = facts.get("learned_until")
    kept["learned_until"] = None if until is None else unpacked_labels(until)[0]
    return kept | {"stability": None if stability is None else pd.DataFrame(stability)}


def _member_frame(parts: Sequence[Array]) -> pd.DataFrame:
    where = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    positions = np.concatenate([np.empty(0, dtype=np.intp), *parts])
    return pd.DataFrame({"section": where.astype(np.int32), "position": positions.astype(np.int32)})


def packed(values: pd.DataFrame | pd.Index) -> str:
    """Return a frame or labels, dtypes kept, as text: Arrow's stream format, compressed."""
    import pyarrow as pa

    frame = values if isinstance(values, pd.DataFrame) else pd.DataFrame({"label": values})
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


def unpacked_labels(text: str) -> pd.Index:
    """Return the labels that :func:`packed` made into text."""
    return pd.Index(unpacked(text)["label"]).rename(None)


def _read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    import pyarrow.parquet as pq

    content = read_sealed(path, _EXPECTED)
    with _understood(path):
        file = pq.ParquetFile(io.BytesIO(content))
        facts = json.loads(file.metadata.metadata[_KEY.encode()])
        groups = _row_groups(file, facts["edges"])
        columns = ["firm", "peer", "weight"]
        return _network_parts(
            facts, lambda t: file.read_row_groups(groups[t], columns=columns).to_pandas(), path
        )


def _read_folder(folder: Path) -> dict[str, Any]:
    import pyarrow.parquet as pq

    if not (folder / _FACTS).is_file():
        raise InputError(
            f"path: {str(folder)!r} is a folder without {_FACTS}: no network written by to_parquet(partitioned=True)."
        )
    content = read_sealed(folder / _FACTS, _EXPECTED)
    with _understood(folder):
        facts = json.loads(content)

        def edges(position: int) -> pd.DataFrame:
            name = facts["folders"][position]
            if Path(name).name != name:
                raise InputError(f"path: {str(folder)!r} names {name!r}, which lies outside it.")
            path = folder / name / "edges.parquet"
            try:
                content = path.read_bytes()
            except OSError as error:
                raise InputError(f"path: cannot read {str(path)!r}: {error.strerror}.") from error
            if hashlib.sha256(content).hexdigest() != facts["digests"][position]:
                raise InputError(f"path: {str(path)!r} was changed, cut off or damaged after it was written.")
            frame: pd.DataFrame = pq.ParquetFile(io.BytesIO(content)).read().to_pandas()
            return frame

        return _network_parts(facts, edges, folder)


@contextmanager
def _understood(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what fails on a file that somebody else sealed into bad input."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # parsers raise anything
        raise InputError(
            f"path: expected {_EXPECTED}, got {str(path)!r}, whose content is of another origin "
            f"({type(error).__name__}: {error})."
        ) from error


def _network_parts(facts: dict[str, Any], edges: Callable[[int], pd.DataFrame], path: Any) -> dict[str, Any]:
    """Return the arguments of :class:`PeerNetwork` from a description and the edges of each period."""
    if facts["version"] != _VERSION:
        raise InputError(
            f"path: {str(path)!r} has format {facts['version']}, this version reads format {_VERSION}."
        )
    labels, periods = unpacked_labels(facts["labels"]), unpacked_labels(facts["periods"])
    if len(periods) == 1 and pd.isna(periods[0]):
        periods = pd.Index([None], dtype=object)
    rows, columns = (_by_section(unpacked(facts[side]), len(periods)) for side in ("rows", "columns"))
    sections = []
    for position in range(len(periods)):
        peers = rows[position] if facts["square"][position] else columns[position]
        kind = facts["dtype"][position], facts["sparse"][position]
        weights = _weights(edges(position), labels, rows[position], peers, *kind)
        sections.append(CrossSection(rows[position], peers, weights))
    return stored_facts(facts) | {"labels": labels, "periods": periods, "sections": sections}


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
    i, j = (
        place_in(members, labels.get_indexer_for(pd.Index(frame[side])))
        for side, members in (("firm", rows), ("peer", columns))
    )
    entries = sparse.csr_array(
        (frame["weight"].to_numpy(dtype=dtype), (i, j)), shape=(len(rows), len(columns))
    )
    return frozen(entries if is_sparse else entries.toarray())
