"""``peerattn audit``: try to find a leak in a model, a panel and a split."""

from __future__ import annotations

from peerattn.cli import options as o
from peerattn.cli.app import command
from peerattn.cli.output import Output
from peerattn.cli.panels import read_settings, take_models, take_panel, take_split


@command(
    epilog="Example:  peerattn audit panel.parquet --outcome roa_next --industry sic --model attention --test-periods 4"
)
def audit(
    *,
    options: o.SplitOptions,
    model: o.Model = "attention",
    settings: o.Settings = None,
    task: o.TaskName = None,
    output: Output,
) -> None:
    """Test a model for leaks on this panel and split: a line for each rule, with its evidence."""
    from peerattn.evaluation import audit as audit_model

    panel, seed, wanted = take_panel(options), options.seed or 0, task or "forecast"
    [(title, estimator)] = take_models([model], panel, wanted, seed, read_settings(settings)).items()
    cv = take_split(panel, options)
    output.announce(str(panel))
    with output.working(f"auditing {title}: four fits"):
        found = audit_model(estimator, panel, cv=cv, task=wanted, random_state=seed)
    verdict = "No claim was refuted." if found.passed else f"Refuted: {'; '.join(found.refuted)}."
    result = {"model": title, "passed": found.passed, "refuted": found.refuted, "lines": found.to_frame()}
    output.say(f"{found}\n\n{verdict}", result)
