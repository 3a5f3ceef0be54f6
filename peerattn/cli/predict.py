"""``peerattn predict``: a saved model's predictions for a panel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from peerattn.cli.app import command
from peerattn.cli.options import SavedModelOptions
from peerattn.cli.output import FRAMES, Output, writable_file, write_frame


@command
@dataclass(kw_only=True)
class Predict(SavedModelOptions, Output):
    """Predict every row of a panel with a saved model.

    Attributes
    ----------
    out : FILE
        Predictions, as Parquet, CSV or Arrow; or a folder, written a period at a time, for panels larger than memory.
    """

    example: ClassVar = "predict roa.model panel.parquet --out predictions.parquet"
    out: Path = Path("predictions.parquet")

    def run(self) -> None:
        """Predict, write, print."""
        from peerattn.cli.model_file import load_model

        saved = load_model(self.model)
        said, place = f"predictions of {saved.outcome} by {saved.name} in", self.out.resolve()
        if not self.out.suffix:
            with self.working(f"predicting with {saved.name}"):
                stored = saved.write_by_period("predictions", self.panel, self.out)
            about = {"model": saved.name, "rows": len(stored), "folder": str(place)}
            self.say(f"{len(stored):,} {said} the folder {place}", about)
            return
        panel, labels = saved.panel(self.panel), [saved.firm, saved.period]
        writable_file(self.out, FRAMES)
        with self.working(f"predicting with {saved.name}"):
            predicted = saved.predict(panel)
        frame = predicted.to_frame().assign(**{saved.outcome: panel.y}).rename_axis(labels).reset_index()
        write_frame(frame[[*labels, saved.outcome, "prediction"]], self.out)
        message = f"{len(frame):,} {said} {place}"
        result: dict[str, Any] = {"model": saved.name, "rows": len(frame), "file": str(place)}
        known = panel.y.notna()
        if known.sum() > 1:
            from peerattn.evaluation import r2_within_period

            period = panel.X.index.get_level_values("period")[known.to_numpy()]
            result["r2_within"] = r2_within_period(panel.y[known], predicted[known], period)
            message += f"\nR² within period, where the outcome is known: {result['r2_within']:.4f}"
            message += " (in-sample where the model was fitted on these rows)"
        self.say(message, result)
