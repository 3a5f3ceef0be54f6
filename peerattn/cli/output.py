"""What commands print and write: text or JSON on stdout, files whole or not at all."""

from __future__ import annotations

import json
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerattn.cli.options import option
from peerattn.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

FRAMES = (".parquet", ".pq", ".csv", ".feather", ".arrow", ".ipc")


@dataclass(kw_only=True)
class Output:
    """What a command prints: the result on stdout, as text or JSON; progress on stderr.

    Attributes
    ----------
    quiet
        Print the result only: no progress, no list of columns.
    as_json
        Print the result as JSON, for other programs.
    """

    quiet: bool = False
    as_json: bool = option("--json", default=False)

    def say(self, text: str, result: dict[str, Any]) -> None:
        """Print a result."""
        shown = json.dumps(plain(result), ensure_ascii=False, indent=2, allow_nan=False)
        print(shown if self.as_json else text)

    def announce(self, text: str) -> None:
        """Print what the command works on, unless the result alone is wanted."""
        if not (self.quiet or self.as_json):
            print(f"{text}\n", flush=True)

    def working(self, what: str) -> AbstractContextManager[object]:
        """Show on stderr that work of unknown length goes on."""
        if self.quiet:
            return nullcontext()
        from rich.console import Console

        return Console(stderr=True).status(what)


def plain(value: Any) -> Any:
    """Return a result in JSON's own types; numbers that are not finite become null.

    >>> import numpy as np, pandas as pd
    >>> plain({"r2": np.float64("nan"), "firms": np.int64(3), "period": pd.Timestamp("2012-06-30")})
    {'r2': None, 'firms': 3, 'period': '2012-06-30'}
    """
    import pandas as pd

    from peerattn.render import show_label

    if isinstance(value, pd.DataFrame):
        value = value.to_dict("records")
    if isinstance(value, dict):
        return {show_label(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | str | int):
        return value
    return None if pd.isna(value) else show_label(value)


def writable_file(path: Path, known: tuple[str, ...]) -> Path:
    """Return a file to write, its folder made, its ending known; found out before the work."""
    if path.suffix.lower() not in known:
        raise InputError(f"--out: expected a name that ends in {', '.join(known)}, got {str(path)!r}.")
    from peerattn.render import check_writable

    check_writable(path.parent, argument="--out")
    return path


def write_frame(frame: pd.DataFrame, path: Path) -> Path:
    """Write a frame as Parquet, CSV or Arrow, as its name ends; in CSV an apostrophe precedes what would be a formula."""
    from peerattn.render import atomic_path, csv_text

    kind = path.suffix.lower()
    with atomic_path(path) as temporary:
        if kind == ".csv":
            texts = frame.select_dtypes(exclude=["number", "bool", "datetime", "datetimetz"])
            frame = frame.assign(
                **{str(name): texts[name].map(csv_text, na_action="ignore") for name in texts}
            )
            frame.rename(columns=csv_text).to_csv(temporary, index=False)
        elif kind in (".parquet", ".pq"):
            frame.to_parquet(temporary, index=False)
        else:
            frame.to_feather(temporary)
    return path
