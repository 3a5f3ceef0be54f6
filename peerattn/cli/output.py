"""What commands print and write: text or JSON on stdout, files whole or not at all."""

from __future__ import annotations

import json
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerattn.cli.options import given_as
from peerattn.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

FRAMES = (".parquet", ".pq", ".csv", ".feather", ".arrow", ".ipc")


@dataclass(kw_only=True)
class Output:
    """What a command prints: the result on stdout, as text or JSON; progress on stderr."""

    quiet: bool = given_as(
        "Print the result only: no progress, no list of columns.", "--quiet", default=False
    )
    as_json: bool = given_as("Print the result as JSON, for other programs.", "--json", default=False)

    def say(self, text: str, result: dict[str, Any]) -> None:
        """Print a result."""
        print(
            json.dumps(plain(result), ensure_ascii=False, indent=2, allow_nan=False) if self.as_json else text
        )

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
    import numpy as np
    import pandas as pd

    from peerattn.render import show_label

    if isinstance(value, dict):
        return {show_label(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, pd.DataFrame):
        return plain(value.to_dict("records"))
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    value = value.item() if isinstance(value, np.bool_ | np.number) else value
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
    import pandas as pd

    from peerattn.render import atomic_path, csv_text, write_atomic

    if path.suffix.lower() == ".csv":
        for name in frame.select_dtypes(exclude=["number", "bool", "datetime", "datetimetz"]):
            frame = frame.assign(**{str(name): [v if pd.isna(v) else csv_text(v) for v in frame[name]]})
        return write_atomic(path, frame.rename(columns=csv_text).to_csv(index=False))
    with atomic_path(path) as temporary:
        if path.suffix.lower() in (".parquet", ".pq"):
            frame.to_parquet(temporary, index=False)
        else:
            frame.to_feather(temporary)
    return path
