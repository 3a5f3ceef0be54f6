"""``peerattn audit``: try to find a leak in a model, a panel and a split."""

from __future__ import annotations

from typing import Any

from peerattn.cli import options as o
from peerattn.cli.app import command


@command(
    epilog="Example:  peerattn audit panel.parquet --outcome roa_next --industry sic --model attention --test-periods 4"
)
def audit(
    source: o.PanelOptions,
    split: o.SplitOptions,
    model: o.Model = "attention",
    settings: o.Settings = None,
    task: o.AskedTask = None,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Test a model for leaks on this panel and split: a line for each rule, with its evidence."""
    from peerattn.cli.asked import panel_asked, split_asked
    from peerattn.cli.output import say, working
    from peerattn.cli.panels import read_settings, take_models
    from peerattn.evaluation import audit as audit_model

    asked, wanted = o.given(source) | o.given(split), str(task or "forecast")
    taken, seed = panel_asked(asked), source.seed or 0
    [(title, estimator)] = take_models([model], taken, wanted, seed, read_settings(settings)).items()
    cv = split_asked(taken, asked)
    if not (quiet or as_json):
        print(f"{taken}\n", flush=True)
    options: dict[str, Any] = {"cv": cv, "task": wanted, "random_state": seed}
    with working(f"auditing {title}: four fits", quiet):
        found = audit_model(estimator, taken, **options)
    verdict = "No claim was refuted." if found.passed else f"Refuted: {'; '.join(found.refuted)}."
    result = {"model": title, "passed": found.passed, "refuted": found.refuted, "lines": found.to_frame()}
    say(f"{found}\n\n{verdict}", result, as_json)
