"""``peerattn fit``: one model on one panel, saved."""

import os
import warnings
from contextlib import ExitStack
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline

from peerattn.cli.commands import Fit
from peerattn.cli.model_file import SavedModel
from peerattn.cli.output import announce, report_line, working, writable_file
from peerattn.cli.panels import period_named, take_model, take_panel
from peerattn.evaluation.running.entries import Entry, supports
from peerattn.evaluation.running.inner_folds import purged
from peerattn.evaluation.running.inputs import FoldRows
from peerattn.evaluation.running.pipelines import takes_panels
from peerattn.exceptions import InputError, expect, reworded
from peerattn.panel import Panel, PanelEncoder
from peerattn.panel.knowledge import dated_by_horizon
from peerattn.processes import all_sum, data_parallel, gathered, joined, process


def run(options: Fit) -> None:
    """Fit, save, print; of several processes only the first prints and saves."""
    with ExitStack() as together, warnings.catch_warnings():
        if os.environ.get("WORLD_SIZE", "1") != "1":
            together.enter_context(data_parallel())
        if later := process() > 0:
            warnings.simplefilter("ignore")
            options.quiet = True
        panel = take_panel(options, options.training_rows)
        title, model = take_model(options, panel)
        target = writable_file(options.out, (".model",))
        learned = _until(options, panel)
        n = all_sum(len(learned))
        announce(options, f"{panel}\nmodel: {title}, on {n:,} rows")
        with working(options, f"fitting {title}"):
            fitted = _fitted(options, model, learned)
    if later:
        return
    SavedModel.of(fitted, title, panel, options).save(target)
    message = f"model: {title} for {panel.outcome}, fitted on {n:,} rows; saved in {target.resolve()}"
    result = {"model": title, "outcome": panel.outcome, "rows": n, "file": str(target.resolve())}
    if hasattr(fitted, "heads_"):
        factors: dict[str, float] = fitted.evidence_["factor"].to_dict()
        result |= {"factors": factors, "heads": len(fitted.heads_)}
        words = ", ".join(f"{group} {factor:.2f}" for group, factor in factors.items())
        message += f"\nweights beside least squares (0: none, 1: in full): {words}; heads: {len(fitted.heads_)}"
    report_line(options, message, result)


def _until(options: Fit, panel: Panel) -> Panel:
    """Return the rows that are learned from: their outcomes are known by the period after the last."""
    # each process holds its own periods: the last one to learn from is found among all
    mine, *others = gathered(panel.period.unique())
    periods = mine.append(others).unique().sort_values()
    end = len(periods)
    if options.until is not None:
        end = int(periods.searchsorted(period_named("--until", options.until, periods), side="right"))
    if end < len(periods):
        panel = panel.before(periods[end])  # outcomes with later dates of their own are unknown, too
    horizon = options.horizon or 1
    expect(end >= horizon, "--horizon", f"at most {end}, the periods learned from", horizon, "Name a later --until.")
    known = periods.get_indexer(panel.period) + horizon <= end
    return panel if known.all() else panel.take(np.flatnonzero(known))


def _fitted(options: Fit, model: BaseEstimator, panel: Panel) -> Any:
    """Return the model fitted as a comparison fits it: peer models on the panel, others on numbers and known outcomes."""
    name = type(model).__name__
    task = options.task or "forecast"
    expect(supports(model, task), "--task", f"one that {name} can do", repr(task), "Choose the other, or another model.")
    horizon = options.horizon or 1
    model = purged(model, horizon)
    if takes_panels(model):
        dated = dated_by_horizon(panel, task, horizon)
        return model.fit(panel.X, panel.y) if dated is panel else model.fit(dated)
    if joined():
        raise InputError(f"--model: several processes fit attention models only, got {name}; fit it in one process.")
    expect(bool(panel.y.notna().any()), "--until", "a period by which outcomes are known", "one without", "Name a later one.")
    # as a comparison fits it, with all rows to learn from
    rows = np.arange(len(panel))
    fold = FoldRows(panel, rows, rows)
    with reworded(f"--model: {name} cannot be fitted", kinds=(TypeError, ValueError)):
        return make_pipeline(PanelEncoder().fit(fold.train.X), Entry("", model).fit(fold))
