"""What commands print: the result on stdout, as text or JSON; progress on stderr."""

import json
import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape

from peerattn.cli.options import Output
from peerattn.foreign_text import UNSAFE, visible
from peerattn.render import show_label


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
