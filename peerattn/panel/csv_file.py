"""CSV files: one type for each column as a whole, words kept as they are written, encodings named."""

from __future__ import annotations

import codecs
import csv
import io
import lzma
import re
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.panel.arrow import to_pandas
from peerattn.panel.words import MISSING_NUMBER, WORDS

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 2**24  # bytes; a row must fit into one


def read_csv_file(path: Path, separator: str = ",", as_text: Collection[str] | None = ()) -> pd.DataFrame:
    """Read a CSV file, packed or not.

    A column is of whole numbers, of numbers, of truth values, or of text: all of it, never a part. Among numbers "NA", "." and
    the like are missing; in text only empty cells and "." are. Whole numbers with zeros before them are codes, and stay text.

    Parameters
    ----------
    path : Path
        UTF-8, columns named in the first row.
    separator : str
    as_text : collection of str, optional
        Columns that stay text in any case; None for all.

    Raises
    ------
    InputError
        For another encoding or separator, rows of other lengths, or a name that two columns have.
    """
    import pyarrow as pa
    import pyarrow.csv as arrow

    # Arrow counts empty lines before the names as rows
    data = _bytes(path).removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    _check_encoding(path, data)
    # the header alone is read here, as Python reads CSV: Arrow would rename or drop columns
    rows = csv.reader(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline=""), delimiter=separator)
    header = next(filter(None, rows), [])
    if not header:
        raise InputError(f"{path}: not a readable CSV file (it is empty).")
    if len(header) == 1 and (found := re.search(r"[;\t|,]", header[0])):
        other = {",": "commas"}.get(separator, "tabs")
        raise InputError(f"{path}: has one column only, {header[0][:60]!r}: separate columns by {other}, not {found.group()!r}.")
    for name in header:
        if name.strip() and header.count(name) > 1:
            raise InputError(f"{path}: {header.count(name)} columns are named {name!r}: give each column a name of its own.")
    keys = [str(at) for at in range(len(header))]
    # names are ours alone here, so that empty ones are kept
    table = arrow.read_csv(
        pa.BufferReader(data),
        read_options=arrow.ReadOptions(column_names=keys, skip_rows_after_names=1, block_size=_BLOCK),
        parse_options=arrow.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=arrow.ConvertOptions(column_types=dict.fromkeys(keys, pa.string()), strings_can_be_null=False),
    )
    columns = {}
    for at, name in enumerate(header):
        typed = _typed(table.column(at), as_text is None or name in as_text)
        if not name.strip():
            if typed.null_count == len(typed) or (at == 0 and _counts(typed)):
                continue  # a trailing comma; the row numbers of pandas and R
            name = f"Unnamed: {at}"
        columns[name] = typed
    return to_pandas(pa.table(columns))


def _bytes(path: Path) -> bytes:
    """Return the content of a file, unpacked as its name ends."""
    import pyarrow as pa

    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as packed:
            return packed.read(packed.namelist()[0])
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    with pa.input_stream(str(path), compression="detect") as stream:
        return bytes(stream.read())


def _check_encoding(path: Path, data: bytes) -> None:
    """Raise for text that is no UTF-8, with what it probably is and the remedy."""
    width = 16 + 16 * (b"\0\0" in data[:4])
    found = f"zero bytes, as UTF-{width} has them"
    encoding = f"utf-{width}"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        if b"\0" not in data:
            line = data.count(b"\n", 0, error.start) + 1
            found = f"byte 0x{data[error.start]:02x} in line {line}, as cp1252 (Western) or cp1250 (Central Europe) may have it"
            encoding = "cp1252"
    else:
        if b"\0" not in data[:4096]:
            return
    remedy = f"Save it as UTF-8, or pass the frame pandas.read_csv({path.name!r}, encoding={encoding!r})"
    raise InputError(f"{path}: its encoding is not UTF-8: it holds {found}. {remedy}.")


def _typed(text: pa.ChunkedArray, keep: bool) -> pa.Array | pa.ChunkedArray:
    """Return a column of text in the one type that holds all of it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # a point is Stata's missing value
    trimmed = pc.utf8_trim_whitespace(text)
    empty = pc.is_in(trimmed, pa.array(["", "."]))
    kept = pc.if_else(empty, pa.scalar(None, pa.string()), text)
    if keep:
        return kept
    word = pc.is_in(pc.utf8_lower(trimmed), pa.array(sorted(WORDS)))
    word = pc.or_(word, pc.match_substring_regex(trimmed, f"^(?:{MISSING_NUMBER.pattern})$"))
    numbers = pc.if_else(word, pa.scalar(None, pa.string()), trimmed)
    if numbers.null_count == len(numbers):
        return pa.nulls(len(numbers), pa.float64())
    # a leading zero is part of a code: 0100 is not 100
    if pc.any(pc.match_substring_regex(numbers, "^[+-]?0[0-9xX]")).as_py():
        return kept
    kinds = (pa.float64(), pa.bool_())
    if pc.all(pc.match_substring_regex(numbers, "^[+-]?[0-9]+$")).as_py():
        # whole numbers that no integer holds would lose digits as floats
        kinds = (pa.int64(), pa.uint64())
    for kind in kinds:
        try:
            return pc.cast(numbers, kind)
        except pa.ArrowInvalid:
            continue
    return kept


def _counts(column: pa.ChunkedArray) -> bool:
    """Return whether a column counts the rows, from 0 or from 1."""
    values = column.to_numpy()
    return any(np.array_equal(values, np.arange(first, first + len(values))) for first in (0, 1))
