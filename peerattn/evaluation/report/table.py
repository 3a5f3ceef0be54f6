"""The table of a comparison: as text, LaTeX and Markdown, with the finding under it."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from peerattn.evaluation.inference.forecast_tests import (
    ForecastTest,
    critical_t,
    format_p,
    periods_needed,
    short_reason,
)
from peerattn.evaluation.measures.scores import (
    LOG_METRICS,
    METRICS,
    ORDER_METRICS,
    REGRESSION_METRICS,
    Metric,
)
from peerattn.evaluation.measures.valuation import named_like_log
from peerattn.exceptions import InputError, unknown_name
from peerattn.render import Table, markdown_text, write_atomic
from peerattn.render.regression import MINUS

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison, ModelNote

PRINTED = ("r2_zero", "r2_mean", "r2_within", "rmse", "rank_ic", "rank_ic_t", "dm_t", "dm_p")
REPORTED = ("r2_zero", "r2_mean", "r2_within", "rmse", "mae", "rank_ic", "rank_ic_t", "dm_t", "dm_p")
_TASK_TITLES = {"forecast": "Forecast", "explain": "Explanation"}
#: Marks of two-sided p-values, the smallest level first.
STARS = ((0.01, "***"), (0.05, "**"), (0.1, "*"))
STARS_NOTE = "* p < 0.10, ** p < 0.05, *** p < 0.01 (two-sided), on DM t."


def table(comparison: Comparison, metrics: Sequence[str] = PRINTED, *, stars: bool = False) -> pd.DataFrame:
    """Return the comparison as it prints, one row for each model.

    Parameters
    ----------
    metrics : sequence of str
        Keys of ``scores``, in the order wanted; also ``fm_slope``, ``fm_t`` (Fama–MacBeth) and ``cal_slope``, ``cal_p``
        (Mincer–Zarnowitz).
    stars : bool, default False
        Mark the DM t by its two-sided p-value: ``*`` below 10 %, ``**`` below 5 %, ``***`` below 1 %.

    Returns
    -------
    DataFrame
        Indexed by model. Numbers are unrounded; where there is none the cell says why, such as ``n/a
        (T=2)``. For numbers only take :attr:`scores`.
    """
    return as_table(comparison, metrics, stars=stars).to_frame().set_index("Model")


def as_table(comparison: Comparison, metrics: Sequence[str] = PRINTED, *, stars: bool = False) -> Table:
    """Return the comparison as a table that renders as text, HTML, LaTeX and Markdown; see :meth:`table`."""
    known = {metric.key: metric for metric in (*METRICS, *REGRESSION_METRICS)}
    for key in metrics:
        if key not in known:
            raise unknown_name("metrics", "metric", key, known)
    if not metrics:
        raise InputError(f"metrics: name at least one of {', '.join(known)}.")
    chosen = [known[key] for key in metrics]
    unshown = {m.name for m in comparison.models if comparison.task == "explain" and not m.shown_outcomes}
    rows: list[tuple[Any, ...]] = [
        (m.name + " †" * (m.name in unshown), *(_cell(comparison, m, metric, stars) for metric in chosen))
        for m in comparison.models
    ]
    blanks = [""] * (len(chosen) - 1)
    rows += [(failure.model, "failed", *blanks) for failure in comparison.failures]
    return Table(
        f"{_TASK_TITLES[comparison.task]} of {comparison.outcome}, out of sample",
        ("Model", *(metric.head for metric in chosen)),
        rows,
        alignment="l" + "r" * len(chosen),
        formats=("", *(metric.format for metric in chosen)),
        footnotes=_footnotes(comparison, set(metrics), stars, bool(unshown)),
    )


def without_tests(comparison: Comparison, metrics: Sequence[str]) -> list[str]:
    """Leave out the tests over time where the periods are too few for any; the note under the table says so.

    Errors in per cent are added where the outcome is a log.
    """
    if named_like_log(comparison.outcome):
        metrics = [key for name in metrics for key in (name, *(LOG_METRICS if name == "rmse" else ()))]
    few = len(comparison.periods) < periods_needed(comparison.horizon)
    return [key for key in metrics if not (few and key in ("rank_ic_t", "dm_t", "dm_p"))]


def text(comparison: Comparison, width: int | None = None) -> str:
    """Return the table and the finding as text.

    Parameters
    ----------
    width : int, optional
        Widest line, by default the terminal's.
    """
    width = width or shutil.get_terminal_size((100, 24)).columns
    shown = as_table(comparison, without_tests(comparison, PRINTED))
    words, notes = (
        "\n".join(textwrap.fill(said, width) for said in part)
        for part in (comparison.summary(), shown.footnotes)
    )
    return f"{replace(shown, footnotes=()).text(width)}\n\n{notes}\n\n{words}"


def to_latex(
    comparison: Comparison,
    path: str | os.PathLike[str] | None = None,
    *,
    metrics: Sequence[str] = PRINTED,
    stars: bool = False,
    caption: str | None = None,
    label: str = "",
) -> str:
    """Return the table as LaTeX (package booktabs), and write it where a path is given; see :meth:`table`."""
    shown = as_table(comparison, metrics, stars=stars)
    shown = shown if caption is None else replace(shown, title=caption)
    return _written(shown.to_latex(label=label), path)


def to_markdown(
    comparison: Comparison,
    path: str | os.PathLike[str] | None = None,
    *,
    metrics: Sequence[str] = PRINTED,
    stars: bool = False,
) -> str:
    """Return the table and the finding as Markdown, and write it where a path is given; see :meth:`table`."""
    words = "\n\n".join(map(markdown_text, comparison.summary()))
    return _written(f"{as_table(comparison, metrics, stars=stars).to_markdown()}\n\n{words}\n", path)


def _written(said: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        write_atomic(path, said)
    return said


def _cell(comparison: Comparison, model: ModelNote, metric: Metric, stars: bool) -> float | str:
    name, key = model.name, metric.key
    if key in ORDER_METRICS and not model.orders_firms:
        return (
            "n/a"  # the mean of all others falls in the own outcome: its order of firms is -1 by construction
        )
    if key == "rank_ic_t":
        ic = comparison.rank_ics[name]
        return short_reason(ic.test.reason) if ic.t is None and ic.n_periods else _number(ic.t)
    if key in ("dm_t", "dm_p"):
        if name == comparison.baseline:
            return "baseline" if key == "dm_t" else ""
        return _tested(comparison.tests[name], metric, stars)
    if metric not in REGRESSION_METRICS:
        return _number(comparison.scores.loc[name, key])
    slope, calibrated = comparison.regressions[name]
    if key == "cal_p":
        return "n/a" if calibrated.p_value is None else format_p(calibrated.p_value)
    return _number({"fm_slope": slope.slope, "fm_t": slope.t, "cal_slope": calibrated.slope}[key])


def _tested(test: ForecastTest, metric: Metric, stars: bool) -> float | str:
    if test.statistic is None or test.p_value is None:
        return short_reason(test.reason) if metric.key == "dm_t" else ""
    if metric.key == "dm_p":
        return format_p(test.p_value)
    marks = next((mark for level, mark in STARS if test.p_value < level), "")
    shown = f"{test.statistic:{metric.format}}{marks}".replace("-", MINUS)
    return shown if stars else test.statistic


def _footnotes(comparison: Comparison, metrics: set[str], stars: bool, unshown: bool) -> list[str]:
    of_columns = (
        (
            {"r2_zero", "r2_mean"},
            "R² zero, R² mean: out of sample, against a forecast of zero and against the prevailing mean.",
        ),
        ({"r2_within"}, "R² within period: of differences between the firms of a period."),
        (
            set(LOG_METRICS),
            "e: error in per cent of the level, exp(ŷ − y) − 1; the median of its absolute value, and the share within 15%.",
        ),
        (
            {"rank_ic", "rank_ic_t"},
            "Rank IC: mean Spearman correlation"
            + (
                f"; {critical_t(ic.test for ic in comparison.rank_ics.values())}."
                if "rank_ic_t" in metrics
                else "."
            ),
        ),
        (
            {"dm_t", "dm_p"},
            f"DM t: panel Diebold–Mariano against {comparison.baseline!r}, Student's t; positive = better. p: of each test on "
            "its own.",
        ),
    )
    notes = [f"{comparison.sample}.", *(said for keys, said in of_columns if metrics & keys)]
    if metrics & {"fm_slope", "fm_t"}:
        notes.append("FM: mean of the slopes of outcome on prediction, period by period (Fama–MacBeth).")
    if metrics & {"cal_slope", "cal_p"}:
        notes.append(
            "Calibration: slope of outcome on prediction, and p of intercept 0 and slope 1, clustered by firm and period."
        )
    if stars and "dm_t" in metrics:
        notes.append(STARS_NOTE)
    needed = periods_needed(comparison.horizon)
    if (n := len(comparison.periods)) < needed:
        notes.append(
            f"T = {n} period{'s are' if n > 1 else ' is'} too few for a test over time ({needed} are needed)."
        )
    if unshown:
        notes.append("† a control: sees no peers' outcomes.")
    if tuned := [f"{model.name} {model.trials}" for model in comparison.models if model.trials > 1]:
        notes.append(f"Settings tried inside the training rows of each fit: {', '.join(tuned)}.")
    failed = [f"{f.model} failed in fit {f.fold} and is not scored: {f.error}" for f in comparison.failures]
    return [*notes, *failed, *(f"Note: {note}" for note in comparison.notes)]


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
