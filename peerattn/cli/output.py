"""What commands print and write: text or JSON on stdout, files whole or not at all."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.render import check_writable, csv_text, show_label, write_atomic


def say(text: str, result: dict[str, Any], as_json: bool) -> None:
    """Print a result: as text, or as one JSON object."""
    print(json.dumps(plain(result), ensure_ascii=False, indent=2, allow_nan=False) if as_json else text)


def plain(value: Any) -> Any:
    """Return a result in JSON's own types; numbers that are not finite become null.

    >>> plain({"r2": np.float64("nan"), "firms": np.int64(3), "period": pd.Timestamp("2012-06-30")})
    {'r2': None, 'firms': 3, 'period': '2012-06-30'}
    """
    if isinstance(value, dict):
        return {show_label(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, pd.DataFrame):
        return [plain(row) for row in value.to_dict("records")]
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return None if pd.isna(value) else show_label(value)


def writable_file(path: Path, known: tuple[str, ...]) -> Path:
    """Return a file to write, its folder made, its ending known; found out before the work."""
    if path.suffix.lower() not in known:
        raise InputError(f"--out: expected a name that ends in {', '.join(known)}, got {str(path)!r}.")
    check_writable(path.parent, argument="--out")
    return path


def write_frame(frame: pd.DataFrame, path: Path) -> Path:
    """Write a frame as Parquet, CSV or Arrow, as its name ends; in CSV an apostrophe stands before what would be a formula."""
    from peerattn.render import atomic_path

    if path.suffix.lower() == ".csv":
        for name in frame.select_dtypes(exclude=["number", "bool", "datetime", "datetimetz"]):
            frame = frame.assign(**{str(name): [v if pd.isna(v) else csv_text(v) for v in frame[name]]})
        return write_atomic(path, frame.rename(columns=csv_text).to_csv(index=False))
    with writing(path), atomic_path(path) as temporary:
        if path.suffix.lower() in (".parquet", ".pq"):
            frame.to_parquet(temporary, index=False)
        else:
            frame.to_feather(temporary)
    return path


FRAMES = (".parquet", ".pq", ".csv", ".feather", ".arrow", ".ipc")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the disk says into bad input."""
    try:
        yield
    except OSError as error:
        raise InputError(f"--out: cannot write {str(path)!r}: {error.strerror or error}.") from error


@contextmanager
def working(what: str, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show on stderr that work of unknown length goes on."""
    if quiet:
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        yield status.update
