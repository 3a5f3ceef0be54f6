"""A network as a folder: one Parquet file for each period, named so that other tools know the period."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network.parquet import description, edge_schema, edge_table, network_parts
from peerattn.render import show_label

if TYPE_CHECKING:
    from peerattn.network.store import NetworkStore

_FACTS = "_network.json"
_UNDATED = "__HIVE_DEFAULT_PARTITION__"  # what Hive and those who follow it call a missing value


def write_partitions(network: NetworkStore, path: str | os.PathLike[str]) -> Path:
    """Write a network to a folder, whole or not at all: ``period=.../edges.parquet`` and ``_network.json``.

    Parameters
    ----------
    network : NetworkStore
    path : path-like
        The folder; one that holds a network is replaced.

    Returns
    -------
    pathlib.Path
        The folder written.

    Raises
    ------
    InputError
        When it cannot be written, or there is a file or a folder of something else.
    """
    import pyarrow.parquet as pq

    target = Path(path)
    if target.exists() and not (target / _FACTS).is_file():
        raise InputError(f"path: {str(target)!r} is there already and holds no network; choose a new folder.")
    schema = edge_schema(network).remove_metadata()
    columns = [field for field in schema if field.name != "period"]
    facts = json.loads(description(network)) | {"folders": _folders(network)}
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    except OSError as error:
        raise InputError(f"path: cannot write {str(target)!r}: {error.strerror}.") from error
    try:
        for position, (_, section) in enumerate(network.sections()):
            folder = temporary / facts["folders"][position]
            folder.mkdir()
            table = edge_table(network, position, section, schema).select([field.name for field in columns])
            pq.write_table(table, folder / "edges.parquet", compression="zstd")
        (temporary / _FACTS).write_text(json.dumps(facts), encoding="utf-8")
        temporary.chmod(0o755)
        _put(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


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


def _folders(network: NetworkStore) -> list[str]:
    shown = [show_label(period) if network.is_dated else _UNDATED for period in network.periods]
    if len(set(shown)) < len(shown):
        raise InputError(
            "to_parquet: two periods have the same text, which a folder's name needs to tell apart."
        )
    return [f"period={quote(name, safe=' ')}" for name in shown]


def read_partitions(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what :func:`write_partitions` wrote, as the arguments of :class:`PeerNetwork`.

    Raises
    ------
    InputError
        When the folder holds no network, or a period's file is missing, cut off or not the one written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(path)
    if not (folder / _FACTS).is_file():
        raise InputError(
            f"path: {str(folder)!r} is a folder without {_FACTS}: no network written by to_parquet(partitioned=True)."
        )
    facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))

    def edges(position: int) -> pd.DataFrame:
        file = folder / facts["folders"][position] / "edges.parquet"
        try:
            frame: pd.DataFrame = pq.ParquetFile(file).read().to_pandas()
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"path: {str(file)!r} cannot be read as Parquet ({error}).") from error
        if len(frame) != facts["edges"][position]:
            raise InputError(
                f"path: {str(file)!r} holds {len(frame)} edges where {facts['edges'][position]} were written."
            )
        return frame

    return network_parts(facts, edges, str(folder))
