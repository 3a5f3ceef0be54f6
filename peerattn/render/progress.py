"""A progress bar for people who wait."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size

CLEAR = "\r\x1b[K"
"""What a line printed above the bar begins with."""


@contextmanager
def progress_bar(label: str | None, total: int, done: int = 0) -> Iterator[Callable[..., None]]:
    """Show a bar with the time left on standard error, for as long as the work lasts; without a label, show nothing.

    Parameters
    ----------
    label : str or None
        What is being done.
    total : int
        Number of steps.
    done : int, default 0
        Steps done before (those found in a store), which do not count for the time left.

    Yields
    ------
    callable
        ``advance(note, steps=1)``, to be called after each step; with 0 steps it only changes the note behind the bar.

    Examples
    --------
    >>> with progress_bar(None, 10) as advance:
    ...     advance("loss 0.5")
    """
    if label is None:
        yield lambda note, steps=1: None
        return
    stream = sys.stderr
    # steps found in a store took no time: only new ones are counted
    start = time.monotonic()
    now = done
    terminal = stream.isatty()

    def advance(note: str, steps: int = 1) -> None:
        nonlocal now
        now += steps
        # a bar in a log file would be thousands of lines
        if terminal or now == total and steps:  # a log file keeps one line
            left = round((time.monotonic() - start) / max(now - done, 1) * (total - now))
            bar = "━" * round(30 * now / max(total, 1))
            line = f"{label} {bar:30} {now}/{total} {left // 60}:{left % 60:02} left   {note}"
            if terminal:  # on one line, over the one before
                stream.write(f"{CLEAR}{line[: get_terminal_size().columns - 1]}")
            else:
                stream.write(f"{line}\n")
            stream.flush()

    try:
        yield advance
    finally:
        if terminal:
            stream.write(CLEAR)
