"""``peerattn predict``: a saved model's predictions for a panel."""

from typing import Any

from peerattn.cli.commands import Predict
from peerattn.cli.model_file import load_model
from peerattn.cli.output import FRAMES, report_line, working, writable_file, write_frame
from peerattn.evaluation import r2_within_period


def run(options: Predict) -> None:
    """Predict, write, print."""
    saved = load_model(options.model)
    place = options.out.resolve()
    about: dict[str, Any] = {"model": saved.name}
    wording = f"predictions of {saved.outcome} by {saved.name} in"
    doing = f"predicting with {saved.name}"
    if not options.out.suffix:
        with working(options, doing):
            stored = saved.write_by_period("predictions", options.panel, options.out)
        about |= {"rows": len(stored), "folder": str(place)}
        return report_line(options, f"{len(stored):,} {wording} the folder {place}", about)
    panel = saved.panel(options.panel)
    labels = [saved.firm, saved.period]
    writable_file(options.out, FRAMES)
    with working(options, doing):
        predicted = saved.predict(panel)
    frame = predicted.to_frame().assign(**{saved.outcome: panel.y}).rename_axis(labels).reset_index()
    write_frame(frame[[*labels, saved.outcome, "prediction"]], options.out)
    message = f"{len(frame):,} {wording} {place}"
    about |= {"rows": len(frame), "file": str(place)}
    known = panel.y.notna()
    if known.sum() > 1:
        period = panel.X.index.get_level_values("period")[known.to_numpy()]
        about["r2_within"] = r2_within_period(panel.y[known], predicted[known], period)
        message += f"\nR² within period, where the outcome is known: {about['r2_within']:.4f}"
        message += " (in-sample where the model was fitted on these rows)"
    return report_line(options, message, about)
