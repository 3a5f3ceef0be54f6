"""What commands read and write: frames, whole or not at all; the result on stdout, as text or JSON; progress on stderr."""

import json
import math
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape

from peerattn.cli.options import Output
from peerattn.exceptions import expect
from peerattn.foreign_text import UNSAFE, visible
from peerattn.panel.frames import flat, read_frame
from peerattn.render import atomic_path, check_writable, csv_of, show_label

FRAMES = (".parquet", ".pq", ".csv", ".feather", ".arrow", ".ipc")


def flat_frame(path: Path | str) -> pd.DataFrame:
    """Return a file as a frame whose labels are columns, all named by text."""
    frame = flat(read_frame(path))
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def writable_file(path: Path, known: tuple[str, ...], option: str = "--out") -> Path:
    """Return a file to write, its folder made, its ending known; found out before the work."""
    expect(path.suffix.lower() in known, option, f"a name that ends in {', '.join(known)}", repr(str(path)))
    check_writable(path.parent, argument=option)
    return path


def write_frame(frame: pd.DataFrame, path: Path) -> Path:
    """Write a frame as Parquet, CSV or Arrow, as its name ends; in CSV an apostrophe precedes what would be a formula."""
    kind = path.suffix.lower()
    with atomic_path(path) as temporary:
        if kind == ".csv":
            temporary.write_text(csv_of(frame), encoding="utf-8", newline="")
        elif kind in (".parquet", ".pq"):
            frame.to_parquet(temporary, index=False)
        else:
            frame.to_feather(temporary)
    return path


def report_line(options: Output, text: str, result: dict[str, Any]) -> None:
    """Print a result."""
    if options.as_json:
        displayed = json.dumps(plain(result), ensure_ascii=False, indent=2, allow_nan=False)
        # JSON leaves some characters as they are that a terminal obeys
        print(UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", displayed))
    else:
        print(visible(text))


def announce(options: Output, text: str) -> None:
    """Print what the command works on, unless the result alone is wanted."""
    if not (options.quiet or options.as_json):
        print(f"{visible(text)}\n", flush=True)


def working(options: Output, what: str) -> AbstractContextManager[object]:
    """Show on stderr that work of unknown length goes on."""
    if options.quiet:
        return nullcontext()
    return Console(stderr=True).status(escape(visible(what)))


def plain(value: Any) -> Any:
    """Return a result in JSON's own types; numbers that are not finite become null.

    >>> import numpy as np
    >>> plain({"r2": np.float64("nan"), "firms": np.int64(3), "period": pd.Timestamp("2012-06-30")})
    {'r2': None, 'firms': 3, 'period': '2012-06-30'}
    """
    if isinstance(value, pd.DataFrame):
        value = value.to_dict("records")
    if isinstance(value, dict):
        return {show_label(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    # numpy's numbers are no numbers of JSON
    if hasattr(value, "item"):
        value = value.item()
    if pd.isna(value) or (isinstance(value, float) and math.isinf(value)):
        return None
    if isinstance(value, bool | str | int | float):
        return value
    return show_label(value)
