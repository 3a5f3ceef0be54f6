"""Frames that commands read and write: whole or not at all."""

from pathlib import Path

import pandas as pd

from peerattn.exceptions import expect
from peerattn.panel.frames import flat, read_frame
from peerattn.render import atomic_path, check_writable, csv_of

FRAMES = (".parquet", ".pq", ".csv", ".feather", ".arrow", ".ipc")


def flat_frame(path: Path | str) -> pd.DataFrame:
    """Return a file as a frame whose labels are columns, all named by text."""
    frame = flat(read_frame(path))
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def writable_file(path: Path, known: tuple[str, ...]) -> Path:
    """Return a file to write, its folder made, its ending known; found out before the work."""
    ends = path.suffix.lower() in known
    expect(ends, "--out", f"a name that ends in {', '.join(known)}", repr(str(path)))
    check_writable(path.parent, argument="--out")
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
