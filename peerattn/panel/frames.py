"""Frames of every kind in, pandas frames out: files, lazy frames, database relations, Arrow's C stream."""

from pathlib import Path

import pandas as pd

from peerattn.exceptions import InputError, reworded
from peerattn.panel.arrow import as_pandas as as_pandas
from peerattn.panel.arrow import flat as flat
from peerattn.panel.arrow import to_pandas
from peerattn.panel.csv_file import read_csv_file
from peerattn.panel.files import KINDS, dataset_of, schema_of
from peerattn.panel.statistical import STATISTICAL, read_statistical_file


def read_frame(source: object) -> pd.DataFrame:
    """Read a Parquet, CSV, Arrow, Stata, SAS or SPSS file or a folder of Parquet files; pass frames of other tools through.

    Raises
    ------
    InputError
        When the file is missing, of an unknown kind, or damaged; or ``source`` is not a frame.
    MissingExtraError
        For a file of Stata, SAS or SPSS where pyreadstat, of the extra ``stata``, is not installed.
    """
    if isinstance(source, str | Path):
        return _read_file(Path(source))
    frame = as_pandas(source)
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"expected a path or a frame (pandas, polars, pyarrow, DuckDB), got {type(source).__name__}.")
    return frame


def _read_file(path: Path) -> pd.DataFrame:
    if path.is_dir():
        with reworded(f"{path}: cannot be read as a folder of Parquet files"):
            return _read_folder(path)
    kind = _KINDS.get(path.suffix.lower(), "")
    if (path.suffix or path.exists()) and not kind:
        raise InputError(f"{path}: unknown kind of file {path.suffix!r}; known are {', '.join(sorted(_KINDS))}. Or pass a frame.")
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    remedy = " Is it complete?"
    if kind == "statistical":
        remedy += " Is it in another encoding than it declares?"
    with reworded(f"{path}: not a readable {kind} file", remedy):
        if kind == "CSV":
            return read_csv_file(path)
        if kind == "statistical":
            return read_statistical_file(path)
        return to_pandas(dataset_of(path)[0].to_table())


def _read_folder(path: Path) -> pd.DataFrame:
    """Read the files of a folder as one, each column of one type."""
    dataset, _ = dataset_of(path)
    files = list(dataset.get_fragments())
    if not files:
        raise InputError(f"{path}: the folder holds no Parquet file.")
    schema, wrong = schema_of(dataset, files)
    for name, kinds in wrong.items():
        raise InputError(f"column {name!r} holds {kinds}: write one type in all files.")
    return to_pandas(dataset.replace_schema(schema).to_table())


#: Endings of files, and what they are.
_KINDS = {**{ending: kind.title() for ending, kind in KINDS.items()}, ".csv": "CSV", **dict.fromkeys(STATISTICAL, "statistical")}
