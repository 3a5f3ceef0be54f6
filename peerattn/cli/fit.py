"""``peerattn fit``: one model on one panel, saved."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from peerattn.cli import options as o
from peerattn.cli.app import command
from peerattn.cli.output import Output, writable_file
from peerattn.cli.panels import period_named, read_settings, take_models, take_panel
from peerattn.exceptions import InputError

if TYPE_CHECKING:
    from peerattn.panel import Panel


@command(
    epilog="Example:  peerattn fit panel.parquet --outcome roa_next --industry sic --model attention --until 2010 "
    "--out roa.model"
)
def fit(
    *,
    options: o.PanelOptions,
    model: o.Model = "attention",
    settings: o.Settings = None,
    task: o.TaskName = None,
    until: str | None = typer.Option(
        None, metavar="PERIOD", help="Learn from this period and those before. [default: all]"
    ),
    training_rows: int | None = typer.Option(
        None, metavar="N", min=1, help="Read N rows at most: whole periods, evenly spaced. [default: all]"
    ),
    out: Path = typer.Option("peer.model", metavar="FILE", help="The fitted model, a .model file."),
    checkpoint: Path | None = typer.Option(
        None,
        metavar="FOLDER",
        help="Keep finished stages of an attention model here: the same command goes on from them after it was killed. "
        "Deleted once the model is saved.",
    ),
    output: Output,
) -> None:
    """Fit one model on a panel and save it, for predict and network.

    Started by torchrun --nproc-per-node=2 -m peerattn fit, two processes fit an attention model together, each on its periods.
    """
    from peerattn.cli.model_file import SavedModel
    from peerattn.processes import all_sum
    from peerattn.training.checkpoint import remove_checkpoint

    wanted = task or "forecast"
    with _together() as first:
        panel = take_panel(options, training_rows)
        chosen = take_models([model], panel, wanted, options.seed or 0, read_settings(settings))
        [(title, estimator)] = chosen.items()
        target = writable_file(out, (".model",))
        rows = _rows_until(panel, until)
        n = all_sum(int(rows.sum()))
        output.quiet |= not first
        output.announce(f"{panel}\nmodel: {title}, on {n:,} rows")
        with output.working(f"fitting {title}"):
            fitted = _fitted(estimator, panel, rows, wanted, checkpoint)
    if not first:
        return
    SavedModel.of(fitted, title, wanted, panel, options).save(target)
    if checkpoint is not None:
        remove_checkpoint(checkpoint)
    message = f"model: {title} for {panel.outcome}, fitted on {n:,} rows; saved in {target.resolve()}"
    result = {"model": title, "outcome": panel.outcome, "rows": n, "file": str(target.resolve())}
    if hasattr(fitted, "heads_"):
        factors: dict[str, float] = fitted.evidence_["factor"].to_dict()
        result |= {"factors": factors, "heads": len(fitted.heads_)}
        words = ", ".join(f"{group} {factor:.2f}" for group, factor in factors.items())
        message += f"\nweights beside own lines (0: none, 1: in full): {words}; heads: {len(fitted.heads_)}"
    output.say(message, result)


@contextmanager
def _together() -> Iterator[bool]:
    """Fit with the other processes that torchrun started, if it did; tell whether this is the first, which alone speaks."""
    from peerattn.processes import data_parallel, process

    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield True
        return
    with data_parallel(), warnings.catch_warnings():
        if process():
            warnings.simplefilter("ignore")
        yield process() == 0


def _rows_until(panel: Panel, until: str | None) -> Any:
    """Return which rows are learned from."""
    import numpy as np

    from peerattn.processes import gathered

    if until is None:
        return np.ones(len(panel.X), dtype=bool)
    mine, *others = gathered(panel.period.unique())
    return np.asarray(panel.period <= period_named("--until", until, mine.append(others)))


def _fitted(model: Any, panel: Panel, rows: Any, task: Any, checkpoint: Path | None) -> Any:
    """Return the model fitted as a comparison fits it: peer models on the panel, others on numbers and known outcomes."""
    import numpy as np
    from sklearn.pipeline import make_pipeline

    from peerattn.evaluation.running.entries import Entry, supports, takes_panels
    from peerattn.evaluation.running.fold_rows import FoldRows
    from peerattn.models.attention.base import AttentionModel
    from peerattn.panel import PanelEncoder
    from peerattn.processes import joined

    name = type(model).__name__
    if checkpoint is not None and not isinstance(model, AttentionModel):
        raise InputError(f"--checkpoint: {name} writes none, as only attention models do; leave it out.")
    if not supports(model, task):
        raise InputError(f"--task: {name} cannot do {task!r}; choose the other task, or another model.")
    if takes_panels(model):
        kept = {} if checkpoint is None else {"checkpoint": checkpoint}
        return model.fit(panel.X[rows], panel.y[rows], **kept)
    if joined():
        raise InputError(
            f"--model: several processes fit attention models only, got {name}; fit it in one process."
        )
    if not panel.y[rows].notna().any():
        raise InputError("--until: no outcome is known by then; name a later period.")
    fold = FoldRows(panel, np.flatnonzero(rows), np.flatnonzero(rows))
    return make_pipeline(PanelEncoder().fit(fold.X_train), Entry("", model, native=False).fit(fold))
