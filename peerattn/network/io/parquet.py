"""Parquet: tidy edges any reader can use, and what is needed to get all of a network back."""

from __future__ import annotations

import base64
import io
import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, checked
from peerattn.network.base import FACTS, BaseNetwork, Net
from peerattn.network.cross_section import Array, CrossSection, Weights, frozen, place_in
from peerattn.render import write_atomic
from peerattn.store.sealed import UNSEALED, read_sealed, seal

if TYPE_CHECKING:
    import pyarrow as pa

_KEY = "peerattn.network"
_VERSION = 3
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

    schema = _edge_schema(network)
    content = io.BytesIO()
    with pq.ParquetWriter(content, schema, compression="zstd") as writer:
        for position, (_, section) in enumerate(network.sections()):
            one = network.replaced([section], periods=network.periods[[position]])
            writer.write_table(pa.Table.from_pandas(one.edges(), schema=schema, preserve_index=False))
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
        return cls(**_parts(facts, file.read(["firm", "peer", "weight"])))
    except InputError:
        raise
    except Exception as error:  # parsers raise anything
        raise InputError(
            f"path: expected {_EXPECTED}, got {str(path)!r}, whose content is of another origin "
            f"({type(error).__name__}: {error})."
        ) from error


def _edge_schema(network: BaseNetwork) -> pa.Schema:
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


def _description(network: BaseNetwork) -> dict[str, Any]:
    """Everything of a network that is not an edge, ready for JSON."""
    sections, until = [section for _, section in network.sections()], network.learned_until
    sides = [(s.rows, s.columns[:0] if s.is_square else s.columns) for s in sections]
    counts = [len(side) for pair in sides for side in pair]
    members = {
        "side": np.repeat(np.arange(2 * len(sides), dtype=np.int32), counts),
        "position": np.concatenate([np.empty(0), *(side for pair in sides for side in pair)]).astype(
            np.int32
        ),
    }
    return network.facts() | {
        "learned_until": None if until is None else _packed(pd.DataFrame({"label": pd.Index([until])})),
        "stability": None if network.stability is None else network.stability.to_dict("list"),
        "version": _VERSION,
        "labels": _packed(pd.DataFrame({"label": network.labels})),
        "periods": _packed(pd.DataFrame({"label": network.periods})),
        "members": _packed(pd.DataFrame(members)),
        "sections": [(s.n_edges, s.is_square, s.is_sparse, str(s.weights.dtype)) for s in sections],
    }


def _packed(frame: pd.DataFrame) -> str:
    """Return a frame, dtypes kept, as text: Arrow's stream format, compressed."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode("ascii")


def _unpacked(text: str) -> pd.DataFrame:
    import pyarrow as pa

    frame: pd.DataFrame = pa.ipc.open_stream(base64.b64decode(text)).read_all().to_pandas()
    return frame


def _parts(facts: dict[str, Any], edges: pa.Table) -> dict[str, Any]:
    """Return the arguments of :class:`PeerNetwork` from a description and the edges of all periods, in their order."""
    labels, periods = (
        pd.Index(_unpacked(facts[name])["label"]).rename(None) for name in ("labels", "periods")
    )
    if len(periods) == 1 and pd.isna(periods[0]):
        periods = pd.Index([None], dtype=object)
    members = _unpacked(facts["members"]).to_numpy(dtype=np.intp)
    sides = np.split(members[:, 1], np.searchsorted(members[:, 0], np.arange(1, 2 * len(periods))))
    if sum(count for count, *_ in facts["sections"]) != edges.num_rows:
        raise InputError(f"path: the file holds {edges.num_rows} edges where others were written.")
    sections, start = [], 0
    for t, (count, square, *kind) in enumerate(facts["sections"]):
        rows = sides[2 * t]
        columns = rows if square else sides[2 * t + 1]
        here = edges.slice(start, count).to_pandas()
        sections.append(CrossSection(rows, columns, _weights(here, labels, rows, columns, *kind)))
        start += count
    stability = None if facts["stability"] is None else pd.DataFrame(facts["stability"])
    until = facts["learned_until"]
    until = None if until is None else pd.Index(_unpacked(until)["label"])[0]
    found = {"labels": labels, "periods": periods, "sections": sections, "stability": stability}
    return {name: facts[name] for name in FACTS} | found | {"learned_until": until}


def _weights(
    frame: pd.DataFrame, labels: pd.Index, rows: Array, columns: Array, is_sparse: bool, dtype: str
) -> Weights:
    i, j = (
        place_in(members, labels.get_indexer_for(pd.Index(frame[side])))
        for side, members in (("firm", rows), ("peer", columns))
    )
    entries = sparse.csr_array(
        (frame["weight"].to_numpy(dtype=dtype), (i, j)), shape=(len(rows), len(columns))
    )
    return frozen(entries if is_sparse else entries.toarray())
