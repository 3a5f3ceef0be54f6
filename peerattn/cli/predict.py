"""``peerattn predict``: a saved model's predictions for a panel."""

from __future__ import annotations

from pathlib import Path

import typer

from peerattn.cli import options as o
from peerattn.cli.app import command
from peerattn.cli.output import FRAMES, Output, writable_file, write_frame


@command(epilog="Example:  peerattn predict roa.model panel.parquet --out predictions.parquet")
def predict(
    *,
    model: o.ModelFile,
    panel: o.PanelFile,
    out: Path = typer.Option(
        "predictions.parquet",
        metavar="FILE",
        help="Predictions, as Parquet, CSV or Arrow; or a folder, written a period at a time, for panels larger than memory.",
    ),
    output: Output,
) -> None:
    """Predict every row of a panel with a saved model."""
    from peerattn.cli.model_file import load_model

    saved = load_model(model)
    if not out.suffix:
        with output.working(f"predicting with {saved.name}"):
            stored = saved.write_by_period("predictions", panel, out)
        message = (
            f"{len(stored):,} predictions of {saved.outcome} by {saved.name} in the folder {out.resolve()}"
        )
        output.say(message, {"model": saved.name, "rows": len(stored), "folder": str(out.resolve())})
        return
    taken = saved.panel(panel)
    target = writable_file(out, FRAMES)
    with output.working(f"predicting with {saved.name}"):
        predicted = saved.predict(taken)
    frame = predicted.to_frame().assign(**{saved.outcome: taken.y})
    frame = frame.rename_axis([saved.firm, saved.period]).reset_index()
    write_frame(frame[[saved.firm, saved.period, saved.outcome, "prediction"]], target)
    known = taken.y.notna()
    message = f"{len(frame):,} predictions of {saved.outcome} by {saved.name} in {target.resolve()}"
    result: dict[str, object] = {"model": saved.name, "rows": len(frame), "file": str(target.resolve())}
    if known.sum() > 1:
        from peerattn.evaluation import r2_within_period

        period = taken.X.index.get_level_values("period")[known.to_numpy()]
        within = r2_within_period(taken.y[known], predicted[known], period)
        message += f"\nR² within period, where the outcome is known: {within:.4f}"
        message += " (in-sample where the model was fitted on these rows)"
        result["r2_within"] = within
    output.say(message, result)
