"""``peerattn predict``: a saved model's predictions for a panel."""

from typing import Any

import numpy as np

from peerattn.cli.commands import Predict
from peerattn.cli.model_file import load_model
from peerattn.cli.output import FRAMES, report_line, working, writable_file, write_frame
from peerattn.evaluation import r2_within_period
from peerattn.evaluation.running.information import last_step
from peerattn.models.learned import learned_from
from peerattn.panel import Panel

#: Rows of known outcome, by the key of ``--json``, and what they are called.
ROWS = {
    "fit": "rows of the fit, in-sample where their outcome was known then",
    "other": "other rows",
    "all": "in-sample where it was fitted on these rows",
}


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
    about["r2_within"] = {}
    period = panel.X.index.get_level_values("period")
    for which, rows in _known_rows(saved.model, panel).items():
        if rows.sum() > 1:
            r2 = r2_within_period(panel.y[rows], predicted[rows], period[rows])
            about["r2_within"][which] = r2
            message += f"\nR² within period, {ROWS[which]} ({rows.sum():,} rows): {r2:.4f}"
    return report_line(options, message, about)


def _known_rows(model: Any, panel: Panel) -> dict[str, np.ndarray]:
    """Return the rows of known outcome that a model was fitted on, and the others; all of a plain regressor, which keeps none."""
    known = panel.y.notna().to_numpy()
    learned = getattr(last_step(model), "learned_rows_", None)
    if learned is None:
        return {"all": known}
    fitted = learned_from(panel, learned)
    return {"fit": known & fitted, "other": known & ~fitted}
