"""A progress bar for people who wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(label: str | None, total: int) -> Iterator[Callable[[float], None]]:
    """Show a bar with the time left on standard error; without a label, show nothing.

    Parameters
    ----------
    label : str or None
        What is being done.
    total : int
        Number of steps.

    Yields
    ------
    callable
        To be called with the loss once per step.

    Examples
    --------
    >>> with progress_bar(None, 10) as advance:
    ...     advance(0.5)
    """
    if label is None:
        yield lambda loss: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4g}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, loss=float("nan"))
        yield lambda loss: bar.update(task, advance=1, loss=loss)
