"""The table of a comparison, as it prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from peerattn.evaluation.inference.forecast_tests import MIN_PERIODS, DieboldMariano, format_p, short_reason
from peerattn.evaluation.measures.scores import METRICS, ORDER_METRICS, REGRESSION_METRICS, Metric
from peerattn.evaluation.model_note import ModelNote
from peerattn.exceptions import InputError, did_you_mean
from peerattn.render import Table

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison

_TASK_TITLES = {"forecast": "Forecast", "explain": "Explanation"}
#: Marks of two-sided p-values, the smallest level first.
STARS = ((0.01, "***"), (0.05, "**"), (0.1, "*"))
STARS_NOTE = "* p < 0.10, ** p < 0.05, *** p < 0.01 (two-sided), on DM t."


def comparison_table(comparison: Comparison, metrics: Sequence[str], stars: bool) -> Table:
    """Return the metrics of all models, those that failed last; see :meth:`Comparison.table`."""
    known = {metric.key: metric for metric in (*METRICS, *REGRESSION_METRICS)}
    for key in metrics:
        if key not in known:
            raise InputError(
                f"metrics: there is no {key!r}.{did_you_mean(key, known)} Known: {', '.join(known)}."
            )
    if not metrics:
        raise InputError(f"metrics: name at least one of {', '.join(known)}.")
    chosen = [known[key] for key in metrics]
    rows: list[tuple[Any, ...]] = [
        (_shown_name(comparison, model), *(_cell(comparison, model, m, stars) for m in chosen))
        for model in comparison.models
    ]
    blanks = [""] * (len(chosen) - 1)
    rows += [(failure.model, "failed", *blanks) for failure in comparison.failures]
    return Table(
        f"{_TASK_TITLES[comparison.task]} of {comparison.outcome}, out of sample",
        ("Model", *(metric.head for metric in chosen)),
        rows,
        alignment="l" + "r" * len(chosen),
        formats=("", *(metric.format for metric in chosen)),
        footnotes=_footnotes(comparison, set(metrics), stars),
    )


def _shown_name(comparison: Comparison, model: ModelNote) -> str:
    return f"{model.name} †" if comparison.task == "explain" and not model.shown_outcomes else model.name


def _cell(comparison: Comparison, model: ModelNote, metric: Metric, stars: bool) -> float | str:
    name = model.name
    if metric.key in ORDER_METRICS and not model.orders_firms:
        return (
            "n/a"  # the mean of all others falls in the own outcome: its order of firms is -1 by construction
        )
    if metric.key == "rank_ic_t":
        ic = comparison.rank_ics[name]
        return short_reason(ic.test.reason) if ic.t is None and ic.n_periods else _number(ic.t)
    if metric.key in ("dm_t", "dm_p"):
        if name == comparison.baseline:
            return "baseline" if metric.key == "dm_t" else ""
        return _tested(comparison.tests[name], metric, stars)
    if metric in REGRESSION_METRICS:
        slope, calibrated = comparison.regressions[name]
        found = {"fm_slope": slope.slope, "fm_t": slope.t, "cal_slope": calibrated.slope}
        if metric.key == "cal_p":
            return "n/a" if calibrated.p_value is None else format_p(calibrated.p_value)
        return _number(found[metric.key])
    return _number(comparison.scores.loc[name, metric.key])


def _tested(test: DieboldMariano, metric: Metric, stars: bool) -> float | str:
    if test.statistic is None or test.p_value is None:
        return short_reason(test.reason) if metric.key == "dm_t" else ""
    if metric.key == "dm_p":
        return format_p(test.p_value)
    marks = next((mark for level, mark in STARS if test.p_value < level), "")
    return f"{test.statistic:{metric.format}}{marks}" if stars else test.statistic


def _footnotes(comparison: Comparison, metrics: set[str], stars: bool) -> list[str]:
    ics = [ic.test for ic in comparison.rank_ics.values()]
    notes = [
        comparison.sample + ".",
        "R² zero, R² mean: out of sample, against a forecast of zero and against the prevailing mean. R² within: "
        "between the firms of a period. Rank IC: mean Spearman correlation; its t allows for serial correlation.",
        f"DM t: panel Diebold–Mariano against {comparison.baseline!r}, Student's t; positive = better.",
    ]
    if metrics & {"fm_slope", "fm_t"}:
        notes.append("FM: mean of the slopes of outcome on prediction, period by period (Fama–MacBeth).")
    if metrics & {"cal_slope", "cal_p"}:
        notes.append(
            "Calibration: slope of outcome on prediction, and p of intercept 0 and slope 1, clustered by firm and period."
        )
    if stars:
        notes.append(STARS_NOTE)
    if len(comparison.periods) < MIN_PERIODS:
        notes.append(
            f"T={len(comparison.periods)} periods are too few for a test over time ({MIN_PERIODS} are needed)."
        )
    reasons = [*(test.reason for test in comparison.tests.values()), *(test.reason for test in ics)]
    if any(reason.startswith("n/a (r=") for reason in reasons):
        notes.append(
            "n/a (r): autocorrelated over time, too much so for the number of periods; no test holds."
        )
    if any(not model.shown_outcomes for model in comparison.models) and comparison.task == "explain":
        notes.append("† a control: sees no peers' outcomes.")
    tuned = [f"{model.name} {model.trials}" for model in comparison.models if model.trials > 1]
    if tuned:
        notes.append(f"Settings tried inside the training rows of each fit: {', '.join(tuned)}.")
    failed = [f"{f.model} failed in fit {f.fold} and is not scored: {f.error}" for f in comparison.failures]
    return [*notes, *failed, *(f"Note: {note}" for note in comparison.notes)]


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
