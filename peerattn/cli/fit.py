"""``peerattn fit``: one model on one panel, saved."""

from __future__ import annotations

import os
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from peerattn.cli.app import command
from peerattn.cli.options import ModelOptions, PanelOptions, option
from peerattn.cli.output import Output, writable_file
from peerattn.cli.panels import period_named, read_settings, take_models, take_panel
from peerattn.exceptions import InputError

if TYPE_CHECKING:
    from peerattn.panel import Panel


@command
@dataclass(kw_only=True)
class Fit(ModelOptions, PanelOptions, Output):
    """Fit one model on a panel and save it, for predict and network.

    Started by torchrun --nproc-per-node=2 -m peerattn fit, two processes fit an attention model together, each on its periods.

    Attributes
    ----------
    until : PERIOD
        Learn from this period and those before. [default: all]
    training_rows : N
        Read N rows at most: whole periods, evenly spaced. [default: all]
    out : FILE
        The fitted model, a .model file.
    checkpoint : FOLDER
        Keep finished stages of an attention model here: the same command goes on from them after it was killed. Deleted
        once the model is saved.
    """

    example: ClassVar = (
        "fit panel.parquet --outcome roa_next --industry sic --model attention --until 2010 --out roa.model"
    )
    until: str | None = None
    training_rows: int | None = option(min=1)
    out: Path = Path("peer.model")
    checkpoint: Path | None = None

    def run(self) -> None:
        """Fit, save, print; of several processes the first alone speaks and saves."""
        from peerattn.cli.model_file import SavedModel
        from peerattn.processes import all_sum, data_parallel, process
        from peerattn.training.checkpoint import remove_checkpoint

        several = os.environ.get("WORLD_SIZE", "1") != "1"
        with data_parallel() if several else nullcontext(), warnings.catch_warnings():
            if later := process() > 0:
                warnings.simplefilter("ignore")
                self.quiet = True
            panel, task = take_panel(self, self.training_rows), self.task or "forecast"
            settings = read_settings(self.settings)
            [(title, model)] = take_models([self.model], panel, task, self.seed or 0, settings).items()
            target = writable_file(self.out, (".model",))
            rows = self._rows(panel)
            n = all_sum(int(rows.sum()))
            self.announce(f"{panel}\nmodel: {title}, on {n:,} rows")
            with self.working(f"fitting {title}"):
                fitted = self._fitted(model, panel, rows, task)
        if later:
            return
        SavedModel.of(fitted, title, task, panel, self).save(target)
        if self.checkpoint is not None:
            remove_checkpoint(self.checkpoint)
        message = f"model: {title} for {panel.outcome}, fitted on {n:,} rows; saved in {target.resolve()}"
        result = {"model": title, "outcome": panel.outcome, "rows": n, "file": str(target.resolve())}
        if hasattr(fitted, "heads_"):
            factors: dict[str, float] = fitted.evidence_["factor"].to_dict()
            result |= {"factors": factors, "heads": len(fitted.heads_)}
            words = ", ".join(f"{group} {factor:.2f}" for group, factor in factors.items())
            message += (
                f"\nweights beside own lines (0: none, 1: in full): {words}; heads: {len(fitted.heads_)}"
            )
        self.say(message, result)

    def _rows(self, panel: Panel) -> Any:
        """Return which rows are learned from."""
        import numpy as np

        from peerattn.processes import gathered

        if self.until is None:
            return np.ones(len(panel.X), dtype=bool)
        mine, *others = gathered(panel.period.unique())
        return np.asarray(panel.period <= period_named("--until", self.until, mine.append(others)))

    def _fitted(self, model: Any, panel: Panel, rows: Any, task: Any) -> Any:
        """Return the model fitted as a comparison fits it: peer models on the panel, others on numbers and known outcomes."""
        import numpy as np
        from sklearn.pipeline import make_pipeline

        from peerattn.evaluation.running.entries import Entry, supports, takes_panels
        from peerattn.evaluation.running.fold_rows import FoldRows
        from peerattn.models.attention.base import AttentionModel
        from peerattn.panel import PanelEncoder
        from peerattn.processes import joined

        name, kept = type(model).__name__, {} if self.checkpoint is None else {"checkpoint": self.checkpoint}
        if kept and not isinstance(model, AttentionModel):
            raise InputError(f"--checkpoint: {name} writes none, as only attention models do; leave it out.")
        if not supports(model, task):
            raise InputError(f"--task: {name} cannot do {task!r}; choose the other task, or another model.")
        if takes_panels(model):
            return model.fit(panel.X[rows], panel.y[rows], **kept)
        if joined():
            raise InputError(
                f"--model: several processes fit attention models only, got {name}; fit it in one process."
            )
        if not panel.y[rows].notna().any():
            raise InputError("--until: no outcome is known by then; name a later period.")
        fold = FoldRows(panel, np.flatnonzero(rows), np.flatnonzero(rows))
        return make_pipeline(PanelEncoder().fit(fold.X_train), Entry("", model, native=False).fit(fold))
