"""Files of a panel: columns of one type in all of them, read forwards in batches; where the rows of each period are."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.panel.arrow import as_pandas, flat, to_pandas

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

#: Endings of files that are read by period, and their formats.
KINDS = {**dict.fromkeys((".feather", ".arrow", ".ipc"), "arrow"), ".parquet": "parquet", ".pq": "parquet"}
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")  # which pandas writes where rows were selected


class Run(NamedTuple):
    """Successive rows of one file."""

    file: int
    start: int
    stop: int


class Reader:
    """Some columns of one file; rows that were passed are read from the beginning of their row group again."""

    def __init__(self, file: ds.Fragment, schema: pa.Schema, columns: Sequence[str]) -> None:
        self.parts = [file]
        sizes = [file.count_rows()]
        if hasattr(file, "row_groups"):  # a scan of its own for each row group: it keeps what it has read
            self.parts = file.split_by_row_group()
            sizes = [group.num_rows for group in file.row_groups]
        self.starts = np.cumsum([0, *sizes])
        self.rows = self.position = int(self.starts[-1])
        self.options = {"schema": schema, "columns": list(columns), "batch_readahead": 0}
        self.batches: Iterator[Any] = iter(())
        self.held: list[Any] = []

    def take(self, start: int, stop: int) -> pd.DataFrame:
        """Return rows."""
        import pyarrow as pa

        # rows further back: begin again at the row group that holds them
        if start < self.position:
            first = int(np.searchsorted(self.starts, start, side="right")) - 1
            self.held = []
            self.position = int(self.starts[first])
            self.batches = (b for part in self.parts[first:] for b in part.to_batches(**self.options))
        while self.position + sum(map(len, self.held)) < stop:
            while self.held and self.position + len(self.held[0]) <= start:
                self.position += len(self.held.pop(0))
            self.held.append(next(self.batches))
        table = pa.Table.from_batches(self.held)
        frame = to_pandas(table.slice(start - self.position, stop - start))
        self.held = table.slice(stop - self.position).to_batches()
        self.position = stop
        return frame


def schema_of(dataset: ds.Dataset, files: Sequence[Any]) -> tuple[Any, dict[str, str]]:
    """Return one type for each column of all files, as one frame of all would have, and what is wrong where there is none.

    Whole numbers of several sizes become int64, whole and fractional ones float64, times take the finer unit, and a column
    without any value in one file is there what it is in others. What has nothing in common becomes text (which codes may be).
    """
    import pyarrow as pa

    physical = {name for file in files for name in file.physical_schema.names}
    folders = [key for key in dataset.schema if key.name not in physical]
    found: dict[str, dict[Any, str]] = {key.name: {key.type: "the names of folders"} for key in folders}
    for file in files:
        for column in file.physical_schema:
            found.setdefault(column.name, {}).setdefault(column.type, file.path)
    kinds = {name: _common([*of]) for name, of in found.items() if not _ROW_NUMBERS.fullmatch(name)}
    apart = {name: [*found[name].items()][::-1] for name, kind in kinds.items() if kind is None}
    wrong = {name: ", ".join(f"{kind} in {where}" for kind, where in of) for name, of in apart.items()}
    return pa.schema([(name, kind or pa.string()) for name, kind in kinds.items()]), wrong


def _common(kinds: list[Any]) -> Any:
    """Return the type that holds all, the same as one frame of all rows would have; None where there is none."""
    import pyarrow as pa

    known = [kind for kind in kinds if not pa.types.is_null(kind)] or kinds
    if len(known) == 1:
        return known[0]
    decimals = all(map(pa.types.is_decimal, known))

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(kind):  # categories are only a way to store text
            return plain(kind.value_type)
        if pa.types.is_decimal(kind) and not decimals:  # beside other numbers decimals are numbers
            return pa.float64()
        if pa.types.is_boolean(kind):
            return pa.int8()
        return kind

    try:
        return pa.unify_schemas([pa.schema([("", plain(kind))]) for kind in known], promote_options="permissive").field(0).type
    except pa.ArrowException:
        return None


def dataset_of(source: object) -> tuple[Any, Any]:
    """Return a dataset of what came, and the temporary folder it lies in, if it does."""
    if hasattr(source, "get_fragments"):
        return source, None
    if isinstance(source, Iterator):
        folder = tempfile.TemporaryDirectory(prefix="peerattn-")
        _spill(source, Path(folder.name))
        return dataset_of(folder.name)[0], folder
    import pyarrow.dataset as ds

    wanted = "source: expected a path, a pyarrow Dataset or an iterator of frames"
    if not isinstance(source, str | Path):
        raise InputError(f"{wanted}, got {type(source).__name__}.")
    path = Path(source)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder.")
    if path.is_file() and path.suffix.lower() not in KINDS:
        raise InputError(f"{path}: a Parquet or Arrow file can be read by period; read others whole, with read_panel.")
    # the names of folders are values of columns, as year=2001, below what was named and not above it
    kind = KINDS.get(path.suffix.lower(), "parquet")
    return ds.dataset(path, format=kind, partitioning="hive", partition_base_dir=str(path)), None


def _spill(frames: Iterator[Any], folder: Path) -> None:
    """Write the frames of an iterator, a file each."""
    number = -1
    for number, frame in enumerate(frames):
        given = as_pandas(frame)
        if not isinstance(given, pd.DataFrame):
            raise InputError(f"source: expected an iterator of frames, got one of {type(given).__name__}.")
        flat(given).to_parquet(folder / f"{number:08}.parquet", index=False)
    if number < 0:
        raise InputError("source: the iterator gave no frame.")


def runs_of(files: Sequence[Any], schema: pa.Schema, period: str) -> tuple[pd.Series, list[Run]]:
    """Return where the rows of each period are: labels, one for each run of successive rows of a file."""
    labels = list[pd.Series]()
    runs = list[Run]()
    for number, file in enumerate(files):
        column = file.to_table(schema=schema, columns=[period]).to_pandas()[period]
        codes, found = pd.factorize(column, use_na_sentinel=False)
        edges = [*np.flatnonzero(np.diff(codes, prepend=-1)).tolist(), len(codes)]
        begun = pd.Series(codes[edges[:-1]])
        # a period in two places would be read as two cross-sections
        for again in found[begun[begun.duplicated()]]:
            remedy = f"sort the file by {period!r}, or write a file for each period."
            raise InputError(f"rows of period {again} are in several places of a file: {remedy}")
        labels.append(column.iloc[edges[:-1]])
        runs += [Run(number, *ends) for ends in pairwise(edges)]
    return pd.concat(labels, ignore_index=True), runs
