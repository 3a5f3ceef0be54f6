"""The progress of a comparison: a bar on stderr with the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[str, int], None]


@contextmanager
def progress(total: int, done: int, verbose: bool) -> Iterator[Advance]:
    """Give a function ``advance(description, steps)`` that moves a bar on stderr, or does nothing.

    Parameters
    ----------
    total : int
        Steps in all.
    done : int
        Steps done before (those found in a store), which do not count for the time left.
    verbose : bool
    """
    if not verbose:
        yield lambda description, steps: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, completed=done)

        def advance(description: str, steps: int) -> None:
            bar.update(task, advance=steps, description=description or None)

        yield advance
