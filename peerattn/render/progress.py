"""A progress bar for people who wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


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
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns: tuple[Any, ...] = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left   {task.fields[note]}", markup=False),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=console.is_terminal
    ) as bar:  # a log file keeps one line
        task = bar.add_task(label, total=total, completed=done, note="")
        yield lambda note, steps=1: bar.update(task, advance=steps, note=note)
