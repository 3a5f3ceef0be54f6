"""The table of a comparison: as text, LaTeX and Markdown, with the finding under it."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from peerattn.evaluation.compared import Compared, ModelNote
from peerattn.evaluation.inference.forecast_tests import (
    ForecastTest,
    critical_t,
    format_p,
    periods_needed,
    short_reason,
)
from peerattn.evaluation.inference.regressions import calibration, fama_macbeth
from peerattn.evaluation.measures.scores import (
    LOG_METRICS,
    METRICS,
    ORDER_METRICS,
    REGRESSION_METRICS,
    Metric,
)
from peerattn.evaluation.measures.valuation import named_like_log
from peerattn.evaluation.report.words import few_periods
from peerattn.exceptions import InputError, unknown_name
from peerattn.render import Table, markdown_text, write_atomic
from peerattn.render.cells import MINUS

__all__ = ["Path"]
PathLike = str | os.PathLike[str]
PRINTED = ("r2_mean", "r2_se", "r2_within", "rmse", "rank_ic", "rank_ic_t", "dm_t", "dm_p")
REPORTED = (
    "reads",
    "r2_mean",
    "r2_se",
    "r2_zero",
    "r2_within",
    "rmse",
    "rank_ic",
    "rank_ic_t",
    "dm_t",
    "dm_p",
)
READS = Metric("reads", "Reads", "")
_TASK_TITLES = {"forecast": "Forecast", "explain": "Explanation"}
#: Marks of two-sided p-values, the smallest level first.
STARS = ((0.01, "***"), (0.05, "**"), (0.1, "*"))
STARS_NOTE = "* p < 0.10, ** p < 0.05, *** p < 0.01 (two-sided), on DM t."
_NOTES = (
    (
        {"r2_mean", "r2_zero"},
        "R² mean, R² zero: out of sample, against the prevailing mean and against a forecast of zero.",
    ),
    ({"r2_se"}, "s.e.: of R² mean, over time, or clustered by firm where the periods are few."),
    ({"r2_within"}, "R² within period: of differences between the firms of a period."),
    (
        {"fm_slope", "fm_t"},
        "FM: mean of the slopes of outcome on prediction, period by period (Fama–MacBeth).",
    ),
    (
        {"cal_slope", "cal_p"},
        "Calibration: slope of outcome on prediction, and p of intercept 0 and slope 1, clustered by firm and period.",
    ),
)


def table(compared: Compared, metrics: Sequence[str] = PRINTED, *, stars: bool = False) -> pd.DataFrame:
    """Return the comparison as it prints, one row for each model.

    Parameters
    ----------
    metrics : sequence of str
        Keys of ``scores``, in the order wanted; also ``reads`` (what the model reads), ``fm_slope``, ``fm_t`` (Fama–MacBeth) and
        ``cal_slope``, ``cal_p`` (Mincer–Zarnowitz).
    stars : bool, default False
        Mark the DM t by its two-sided p-value: ``*`` below 10 %, ``**`` below 5 %, ``***`` below 1 %.

    Returns
    -------
    DataFrame
        Indexed by model. Numbers are unrounded; where there is none the cell says why, such as ``n/a
        (T=2)``. For numbers only take :attr:`scores`.
    """
    return as_table(compared, metrics, stars=stars).to_frame().set_index("Model")


def as_table(compared: Compared, metrics: Sequence[str] = PRINTED, *, stars: bool = False) -> Table:
    """Return the comparison as a table that renders as text, HTML, LaTeX and Markdown; see :meth:`table`."""
    known = {metric.key: metric for metric in (READS, *METRICS, *REGRESSION_METRICS)}
    for key in metrics:
        if key not in known:
            raise unknown_name("metrics", "metric", key, known)
    if not metrics:
        raise InputError(f"metrics: name at least one of {', '.join(known)}.")
    chosen = [known[key] for key in metrics]
    rows: list[tuple[Any, ...]] = [
        (m.name, *(_cell(compared, m, metric, stars) for metric in chosen)) for m in compared.models
    ]
    blanks = [""] * (len(chosen) - 1)
    rows += [(failure.model, "failed", *blanks) for failure in compared.failures]
    return Table(
        f"{_TASK_TITLES[compared.task]} of {compared.outcome}, out of sample",
        ("Model", *(metric.head for metric in chosen)),
        rows,
        alignment="l" + "".join("l" if metric is READS else "r" for metric in chosen),
        formats=("", *(metric.format for metric in chosen)),
        footnotes=_footnotes(compared, set(metrics), stars),
    )


def without_tests(compared: Compared, metrics: Sequence[str]) -> list[str]:
    """Leave out the tests over time where the periods are too few for any; the note under the table says so.

    Errors in per cent are added where the outcome is a log.
    """
    if named_like_log(compared.outcome):
        metrics = [key for name in metrics for key in (name, *(LOG_METRICS if name == "rmse" else ()))]
    few = len(compared.periods) < periods_needed(compared.horizon)
    return [key for key in metrics if not (few and key in ("rank_ic_t", "dm_t", "dm_p"))]


def text(compared: Compared, finding: Sequence[str], width: int | None = None) -> str:
    """Return the table and the finding as text."""
    width = width or shutil.get_terminal_size((100, 24)).columns
    shown = as_table(compared, without_tests(compared, PRINTED))
    words, notes = (
        "\n".join(textwrap.fill(said, width) for said in part) for part in (finding, shown.footnotes)
    )
    return f"{replace(shown, footnotes=()).text(width)}\n\n{notes}\n\n{words}"


def to_latex(
    compared: Compared,
    path: PathLike | None = None,
    *,
    metrics: Sequence[str] = PRINTED,
    stars: bool = False,
    caption: str | None = None,
    label: str = "",
) -> str:
    """Return the table as LaTeX (package booktabs), and write it where a path is given; see :meth:`table`."""
    shown = as_table(compared, metrics, stars=stars)
    shown = shown if caption is None else replace(shown, title=caption)
    return shown.to_latex(path, label=label)


def to_markdown(
    compared: Compared,
    finding: Sequence[str],
    path: PathLike | None = None,
    *,
    metrics: Sequence[str] = PRINTED,
    stars: bool = False,
) -> str:
    """Return the table and the finding as Markdown, and write it where a path is given."""
    words = "\n\n".join(map(markdown_text, finding))
    said = f"{as_table(compared, metrics, stars=stars).to_markdown()}\n\n{words}\n"
    if path is not None:
        write_atomic(path, said)
    return said


def _cell(compared: Compared, model: ModelNote, metric: Metric, stars: bool) -> float | str:
    name, key = model.name, metric.key
    if metric is READS:
        return model.reads
    if key in ORDER_METRICS and name not in compared.ordering:
        return "n/a"  # it falls in the own outcome: its order of firms is -1 by construction
    if key == "rank_ic_t":
        ic = compared.rank_ics[name]
        return short_reason(ic.test.reason) if ic.t is None and ic.n_periods else _number(ic.t)
    if key in ("dm_t", "dm_p"):
        if name == compared.baseline:
            return "baseline" if key == "dm_t" else ""
        return _tested(compared.tests[name], metric, stars)
    if metric not in REGRESSION_METRICS:
        return _number(compared.scores.loc[name, key])
    y, predicted, period = (compared.predictions[column] for column in ("outcome", name, "period"))
    if key in ("fm_slope", "fm_t"):
        slope = fama_macbeth(y, predicted, period, horizon=compared.horizon)
        return _number(slope.slope if key == "fm_slope" else slope.t)
    found = calibration(y, predicted, period, firm=compared.predictions["firm"])
    if key == "cal_p":
        return "n/a" if found.p_value is None else format_p(found.p_value)
    return _number(found.slope)


def _tested(test: ForecastTest, metric: Metric, stars: bool) -> float | str:
    if test.statistic is None or test.p_value is None:
        return short_reason(test.reason) if metric.key == "dm_t" else ""
    if metric.key == "dm_p":
        return format_p(test.p_value)
    marks = next((mark for level, mark in STARS if test.p_value < level), "")
    shown = f"{test.statistic:{metric.format}}{marks}".replace("-", MINUS)
    return shown if stars else test.statistic


def _footnotes(compared: Compared, metrics: set[str], stars: bool) -> list[str]:
    notes = [f"{compared.sample}.", *(said for keys, said in _NOTES if metrics & keys)]
    if "rank_ic" in metrics:
        t = f"; {critical_t(ic.test for ic in compared.rank_ics.values())}" if "rank_ic_t" in metrics else ""
        notes.append(f"Rank IC: mean Spearman correlation{t}.")
    if metrics & {"dm_t", "dm_p"}:
        notes.append(
            f"DM t: panel Diebold–Mariano against {compared.baseline!r}, Student's t; positive = better. p: two-sided, each "
            "on its own."
        )
    if stars and "dm_t" in metrics:
        notes.append(STARS_NOTE)
    notes.append(few_periods(compared, periods_needed(compared.horizon)))
    if tuned := [f"{model.name} {model.trials}" for model in compared.models if model.trials > 1]:
        notes.append(f"Settings tried inside the training rows of each fit: {', '.join(tuned)}.")
    notes += [f"{f.model} failed in fit {f.fold} and is not scored: {f.error}" for f in compared.failures]
    notes += [f"Note: {note}" for note in compared.notes]
    return [note for note in notes if note]


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
