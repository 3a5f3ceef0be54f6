"""``peerattn fit``: one model on one panel, saved."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peerattn.cli import options as o
from peerattn.cli.app import command
from peerattn.exceptions import InputError

if TYPE_CHECKING:
    from peerattn.panel import Panel


@command(
    epilog="Example:  peerattn fit panel.parquet --outcome roa_next --industry sic --model attention --until 2010 "
    "--out roa.model"
)
def fit(
    source: o.PanelOptions,
    model: o.Model = "attention",
    settings: o.Settings = None,
    task: o.AskedTask = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="PERIOD", help="Learn from this period and those before. [default: all]"),
    ] = None,
    training_rows: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Read N rows at most: whole periods, evenly spaced. [default: all]"
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The fitted model, a .model file.")] = Path(
        "peer.model"
    ),
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep finished stages of an attention model here: the same command goes on from them after it was killed. "
            "Deleted once the model is saved.",
        ),
    ] = None,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Fit one model on a panel and save it, for predict and network.

    Started by torchrun --nproc-per-node=2 -m peerattn fit, two processes fit an attention model together, each on its periods.
    """
    from peerattn.cli.asked import panel_asked
    from peerattn.cli.model_file import SavedModel, versions
    from peerattn.cli.output import say, working, writable_file
    from peerattn.cli.panels import read_settings, take_models
    from peerattn.datasets.presets import PRESETS
    from peerattn.processes import all_sum
    from peerattn.training.checkpoint import remove_checkpoint

    limit = {} if training_rows is None else {"training_rows": training_rows}
    with _together() as first:
        taken, wanted = panel_asked(o.given(source) | limit), str(task or "forecast")
        [(title, estimator)] = take_models(
            [model], taken, wanted, source.seed or 0, read_settings(settings)
        ).items()
        target = writable_file(out, (".model",))
        rows = _rows_until(taken, until)
        kept = _checkpointed(estimator, checkpoint)
        n, preset = all_sum(int(rows.sum())), source.preset
        if first and not (quiet or as_json):
            print(f"{taken}\nmodel: {title}, on {n:,} rows\n", flush=True)
        with working(f"fitting {title}", quiet or not first):
            fitted = _fitted(estimator, taken, rows, wanted, kept)
    if not first:
        return
    saved = SavedModel(
        fitted,
        title,
        wanted,
        firm=source.firm or (PRESETS[preset].firm if preset else "firm"),
        period=source.period or (PRESETS[preset].period if preset else "period"),
        outcome=taken.outcome,
        characteristics=taken.choice.characteristics,
        codes=taken.choice.codes,
        industry=taken.industry,
        preset=preset and preset.value,
        versions=versions(),
    )
    saved.save(target)
    if checkpoint is not None:
        remove_checkpoint(checkpoint)
    said = f"model: {title} for {taken.outcome}, fitted on {n:,} rows; saved in {target.resolve()}"
    result = {"model": title, "outcome": taken.outcome, "rows": n, "file": str(target.resolve())}
    if hasattr(fitted, "heads_"):
        factors: dict[str, float] = fitted.evidence_["factor"].to_dict()
        result |= {"factors": factors, "heads": len(fitted.heads_)}
        words = ", ".join(f"{group} {factor:.2f}" for group, factor in factors.items())
        said += f"\nweights beside own lines (0: none, 1: in full): {words}; heads: {len(fitted.heads_)}"
    say(said, result, as_json)


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

    from peerattn.cli.panels import period_named
    from peerattn.processes import gathered

    if until is None:
        return np.ones(len(panel.X), dtype=bool)
    labels = panel.X.index.get_level_values("period")
    mine, *others = gathered(labels.unique())
    return np.asarray(labels <= period_named("--until", until, mine.append(others)))


def _checkpointed(model: Any, checkpoint: Path | None) -> dict[str, Path]:
    """Return what fit is passed for a checkpoint: nothing without one."""
    from peerattn.models.attention.base import AttentionModel

    if checkpoint is None:
        return {}
    if not isinstance(model, AttentionModel):
        raise InputError(
            f"--checkpoint: {type(model).__name__} writes none, as only attention models do; leave it out."
        )
    return {"checkpoint": checkpoint}


def _fitted(model: Any, panel: Panel, rows: Any, task: str, kept: dict[str, Path]) -> Any:
    """Return the model fitted as a comparison fits it: peer models on the panel, others on numbers and known outcomes."""
    import numpy as np
    from sklearn.pipeline import make_pipeline

    from peerattn.evaluation.running.entries import Entry, FoldRows, supports, takes_panels
    from peerattn.panel import PanelEncoder
    from peerattn.processes import joined

    if not supports(model, task):
        raise InputError(
            f"--task: {type(model).__name__} cannot do {task!r}; choose the other task, or another model."
        )
    if takes_panels(model):
        return model.fit(panel.X[rows], panel.y[rows], **kept)
    if joined():
        raise InputError(
            f"--model: several processes fit attention models only, got {type(model).__name__}; fit it in one process."
        )
    if not panel.y[rows].notna().any():
        raise InputError("--until: no outcome is known by then; name a later period.")
    fold = FoldRows(panel, np.flatnonzero(rows), np.flatnonzero(rows))
    return make_pipeline(PanelEncoder().fit(fold.X_train), Entry("", model, native=False).fit(fold))
