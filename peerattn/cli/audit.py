"""``peerattn audit``: try to find a leak in a model, a panel and a split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from peerattn.cli.app import command
from peerattn.cli.options import ModelOptions, SplitOptions
from peerattn.cli.output import Output
from peerattn.cli.panels import read_settings, take_models, take_panel, take_split


@command
@dataclass(kw_only=True)
class Audit(ModelOptions, SplitOptions, Output):
    """Test a model for leaks on this panel and split: a line for each rule, with its evidence."""

    example: ClassVar = (
        "audit panel.parquet --outcome roa_next --industry sic --model attention --test-periods 4"
    )

    def run(self) -> None:
        """Audit, print."""
        from peerattn.evaluation import audit

        panel, seed, task = take_panel(self), self.seed or 0, self.task or "forecast"
        models = take_models([self.model], panel, task, seed, read_settings(self.settings))
        [(title, model)] = models.items()
        cv = take_split(panel, self)
        self.announce(str(panel))
        with self.working(f"auditing {title}: four fits"):
            found = audit(model, panel, cv=cv, task=task, random_state=seed)
        verdict = "No claim was refuted." if found.passed else f"Refuted: {'; '.join(found.refuted)}."
        result = {"model": title, "passed": found.passed, "refuted": found.refuted, "lines": found.to_frame()}
        self.say(f"{found}\n\n{verdict}", result)
