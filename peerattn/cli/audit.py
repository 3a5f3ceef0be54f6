"""``peerattn audit``: try to find a leak in a model, a panel and a split."""

from __future__ import annotations

from typing import Any

from peerattn.cli import options as o
from peerattn.cli.app import app


@app.command(
    epilog="Example:  peerattn audit panel.parquet --outcome roa_next --industry sic --model attention --test-periods 4"
)
def audit(
    panel: o.OptionalPanel = None,
    dataset: o.FromDataset = None,
    preset: o.FromPreset = None,
    firm: o.Firm = None,
    period: o.Period = None,
    outcome: o.Outcome = None,
    characteristics: o.Characteristics = None,
    codes: o.Codes = None,
    industry: o.Industry = None,
    model: o.Model = "attention",
    settings: o.Settings = None,
    task: o.AskedTask = None,
    test_periods: o.TestPeriods = None,
    refit_every: o.RefitEvery = None,
    window: o.AskedWindow = None,
    train_periods: o.TrainPeriods = None,
    horizon: o.Horizon = None,
    seed: o.Seed = None,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Try to refute, on this panel, model and split, that nothing leaks: a line for each claim, with its evidence."""
    from peerattn.cli.output import say, working
    from peerattn.cli.panels import read_settings, take_models, take_panel, walk_forward
    from peerattn.evaluation import audit as audit_model

    columns = o.columns(firm, period, outcome, industry, characteristics, codes)
    taken = take_panel(panel, dataset, preset, columns, seed or 0)
    wanted: Any = str(task or "forecast")
    [(title, estimator)] = take_models([model], taken, wanted, seed or 0, read_settings(settings)).items()
    cv = walk_forward(taken, test_periods, refit_every, window or "expanding", train_periods, horizon or 1)
    if not (quiet or as_json):
        print(f"{taken}\n", flush=True)
    with working(f"auditing {title}: four fits", quiet):
        found = audit_model(estimator, taken, cv=cv, task=wanted, random_state=seed or 0)
    verdict = "No claim was refuted." if found.passed else f"Refuted: {'; '.join(found.refuted)}."
    result = {"model": title, "passed": found.passed, "refuted": found.refuted, "lines": found.to_frame()}
    say(f"{found}\n\n{verdict}", result, as_json)
