"""Files of a panel: columns of one type in all of them, read forwards in batches; where the rows of each period are."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.panel.frames import as_pandas

#: Endings of files that are read by period, and their formats.
KINDS = {
    ".feather": "feather",
    ".arrow": "feather",
    ".ipc": "feather",
    ".parquet": "parquet",
    ".pq": "parquet",
}
BATCH = 2**14  # rows read at once
BUFFER = 2**16  # bytes of a column read at once
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")  # which pandas writes where rows were selected


@dataclass(frozen=True)
class Run:
    """Successive rows of one file."""

    file: int
    start: int
    stop: int


class File:
    """One file, its columns in the types of the panel, read forwards in batches."""

    def __init__(self, fragment: Any, schema: Any) -> None:
        import pyarrow.dataset as ds

        self.fragment, self.schema = fragment, schema
        self.keys = ds.get_partition_keys(fragment.partition_expression)
        self.rows = fragment.count_rows()

    def tables(self, columns: Sequence[str], start: int = 0) -> tuple[int, Iterator[Any]]:
        """Return a row at or before ``start``, and tables of the rows from there on; little is read ahead."""
        there = [name for name in columns if name in self.fragment.physical_schema.names]
        if not hasattr(self.fragment, "row_groups"):
            batches = self.fragment.to_batches(columns=there, batch_size=BATCH, batch_readahead=0)
            return 0, (self._typed(batch, columns) for batch in batches)
        import pyarrow.parquet as pq

        file = pq.ParquetFile(self.fragment.open(), buffer_size=BUFFER)
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        ends = np.cumsum(sizes)
        first = int(np.searchsorted(ends, start, side="right"))
        # one reader a row group: it keeps the buffers of all that it has read
        each = (file.iter_batches(BATCH, row_groups=[g], columns=there) for g in range(first, len(sizes)))
        batches = (self._typed(batch, columns) for several in each for batch in several)
        return int(ends[first] - sizes[first]), batches

    def _typed(self, batch: Any, columns: Sequence[str]) -> Any:
        import pyarrow as pa

        made = {}
        for name in columns:
            kind = self.schema.field(name).type
            if name in self.keys:
                made[name] = pa.repeat(pa.scalar(self.keys[name]).cast(kind), len(batch))
            elif name not in batch.schema.names:
                made[name] = pa.nulls(len(batch), kind)
            else:
                made[name] = batch[name] if batch[name].type == kind else batch[name].cast(kind, safe=False)
        return pa.table(made)


class Reader:
    """Some columns of one file; rows that were passed are read from the beginning of their row group again."""

    def __init__(self, file: File, columns: Sequence[str]) -> None:
        self.file, self.columns, self.position = file, columns, file.rows
        self.tables: Iterator[Any] = iter(())
        self.rest: Any = None

    def take(self, start: int, stop: int) -> pd.DataFrame:
        """Return rows."""
        import pyarrow as pa

        if start < self.position:
            self.rest, (self.position, self.tables) = None, self.file.tables(self.columns, start)
        pieces: list[Any] = []
        while self.position < stop:
            table = next(self.tables) if self.rest is None else self.rest
            skipped, used = max(0, start - self.position), min(stop - self.position, len(table))
            pieces += [table.slice(skipped, used - skipped)] if used > skipped else []
            self.rest = table.slice(used) if used < len(table) else None
            self.position += used
        return as_pandas(pa.concat_tables(pieces))


def schema_of(fragments: Sequence[Any], keys: Any) -> tuple[Any, dict[str, str]]:
    """Return one type for each column of all files, as one frame of all would have, and what is wrong where there is none.

    Whole numbers of several sizes become int64, whole and fractional ones float64, times take the finer unit, numbers and text
    together become text (which codes may be), and a column without any value in one file is there what it is in others.
    """
    import pyarrow as pa

    found = {key.name: (key.type, "the names of folders") for key in keys}
    wrong: dict[str, str] = {}
    for fragment in fragments:
        for column in fragment.physical_schema:
            kind, where = found.setdefault(column.name, (column.type, fragment.path))
            both = _common(kind, column.type)
            if both is None or (pa.types.is_string(both) and not (_is_text(kind) and _is_text(column.type))):
                wrong[column.name] = f"{column.type} in {fragment.path}, {kind} in {where}"
            found[column.name] = pa.string() if both is None else both, where
    kept = [(name, kind) for name, (kind, _) in found.items() if not _ROW_NUMBERS.fullmatch(name)]
    return pa.schema(kept), wrong


def _common(one: Any, other: Any) -> Any:
    """Return the type that holds both, the same as one frame of all rows would have; None where there is none."""
    import pyarrow as pa

    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_decimal(one) or pa.types.is_decimal(other):  # Python objects in a frame, no numbers
        return None
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (one, other)]
    plain = [pa.int8() if pa.types.is_boolean(kind) else kind for kind in plain]
    try:
        schemas = [pa.schema([("column", kind)]) for kind in plain]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        numbers = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in plain]
        mixed = all(number or _is_text(kind) for number, kind in zip(numbers, plain, strict=True))
        return pa.string() if mixed else None


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return kind in (pa.null(), pa.string(), pa.large_string(), pa.string_view())


def dataset_of(source: Any) -> tuple[Any, Any]:
    """Return a dataset of what came, and the temporary folder it lies in, if it does."""
    if hasattr(source, "get_fragments"):
        return source, None
    if isinstance(source, Iterator):
        folder = tempfile.TemporaryDirectory(prefix="peerattn-")
        _spill(source, Path(folder.name))
        return dataset_of(folder.name)[0], folder
    import pyarrow.dataset as ds

    if not isinstance(source, str | Path):
        raise InputError(
            f"source: expected a path, a pyarrow Dataset or an iterator of frames, got {type(source).__name__}."
        )
    path = Path(source)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder.")
    if path.is_file() and path.suffix.lower() not in KINDS:
        raise InputError(
            f"{path}: a Parquet or Arrow file can be read by period; read others whole, with read_panel."
        )
    with readable(source):
        return ds.dataset(path, format=KINDS.get(path.suffix.lower(), "parquet"), partitioning="hive"), None


def _spill(frames: Iterator[Any], folder: Path) -> None:
    """Write the frames of an iterator, a file each."""
    number = -1
    for number, frame in enumerate(frames):
        given = as_pandas(frame)
        if not isinstance(given, pd.DataFrame):
            raise InputError(f"source: expected an iterator of frames, got one of {type(given).__name__}.")
        named = given.index.names != [None]
        with readable("source"):
            (given.reset_index() if named else given).to_parquet(folder / f"{number:08}.parquet", index=False)
    if number < 0:
        raise InputError("source: the iterator gave no frame.")


@contextmanager
def readable(source: Any) -> Iterator[None]:
    """Turn what Arrow says about files into bad input."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"{source}: cannot be read by period ({reason}).") from error


def runs_of(files: Sequence[File], period: str) -> tuple[pd.Series, list[Run]]:
    """Return where the rows of each period are: labels, one for each run of successive rows of a file."""
    labels, runs = list[pd.Series](), list[Run]()
    for number, file in enumerate(files):
        here: dict[Any, int] = {}  # label -> its run
        start = 0
        for table in file.tables([period])[1]:
            column = as_pandas(table)[period]
            codes, found = pd.factorize(column, use_na_sentinel=False)
            begins = np.flatnonzero(np.diff(codes, prepend=-1))
            for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(codes)], strict=True):
                value = found[codes[begin]]
                if value not in here:
                    here[value] = len(runs)
                    labels.append(column.iloc[[begin]])
                    runs.append(Run(number, start + begin, start + end))
                    continue
                before = runs[here[value]]
                if before.stop != start + begin:
                    raise InputError(
                        f"rows of period {value} are in several places of a file: sort the file by {period!r}, or write a file "
                        "for each period."
                    )
                runs[here[value]] = Run(number, before.start, start + end)
            start += len(codes)
    return pd.concat(labels, ignore_index=True), runs
