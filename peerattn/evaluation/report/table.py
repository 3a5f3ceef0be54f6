"""The table of a comparison, as text, LaTeX and Markdown with the finding under it; its workbook and Parquet files."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from peerattn.evaluation.claims import WithClaims
from peerattn.evaluation.inference.forecast_tests import critical_t, format_p, periods_needed
from peerattn.evaluation.inference.regressions import calibration, fama_macbeth
from peerattn.evaluation.measures import scores
from peerattn.evaluation.measures.valuation import named_like_log
from peerattn.evaluation.model_note import ModelNote
from peerattn.evaluation.report.words import few_periods, summary
from peerattn.exceptions import InputError, check_names
from peerattn.render import Table, atomic_path, markdown_text, write_atomic, write_workbook
from peerattn.render.cells import MINUS
from peerattn.render.regression import STARS

PathLike = str | os.PathLike[str]
PRINTED = ("r2_mean", "r2_se", "r2_within", "rmse", "rank_ic", "rank_ic_t", "dm_t", "dm_p")
REPORTED = ("reads", "r2_mean", "r2_se", "r2_zero", *PRINTED[2:])
READS = scores.Metric("reads", "Uses", "")
_TASK_TITLES = {"forecast": "Forecast", "nowcast": "Nowcast"}
STARS_NOTE = "* p < 0.10, ** p < 0.05, *** p < 0.01 (two-sided), on DM t."
#: What is noted under the table where one of these columns is shown.
_NOTES = {
    ("r2_mean", "r2_zero"): (
        "R² mean, R² zero: out of sample, against the prevailing mean and against a forecast of zero."
    ),
    ("r2_se",): "s.e.: of R² mean, over time, or clustered by firm where the periods are few.",
    ("r2_within",): "R² within period: of differences between the firms of a period.",
    ("fm_slope", "fm_t"): "FM: mean of the slopes of outcome on prediction, period by period (Fama–MacBeth).",
    ("cal_slope", "cal_p"): (
        "Calibration: slope of outcome on prediction, and p of intercept 0 and slope 1, clustered by firm and period."
    ),
}


def laid_out(title: str, columns: Mapping[str, str], rows: Sequence[Sequence[object]], *notes: str) -> Table:
    """Return a table of columns by their heads: ``"l"`` or ``"r"`` for text on that side, else the format of their numbers."""
    specs = list(columns.values())
    sides = "".join("l" if spec == "l" else "r" for spec in specs)
    return Table(title, list(columns), rows, sides, ["" if spec in "lr" else spec for spec in specs], notes)


def as_table(compared: WithClaims, metrics: Sequence[str] = PRINTED, *, stars: bool = False) -> Table:
    """Return the comparison as a table that renders as text, HTML, LaTeX and Markdown; see :meth:`table`."""
    known = {metric.key: metric for metric in (READS, *scores.METRICS, *scores.REGRESSION_METRICS)}
    check_names("metrics", "metric", metrics, known)
    if not len(metrics):
        raise InputError(f"metrics: name at least one of {', '.join(known)}.")
    chosen = [known[key] for key in dict.fromkeys(metrics)]
    rows = [(m.name, *(_cell(compared, m, metric, stars) for metric in chosen)) for m in compared.models]
    rows += [(failure.model, "failed", *[""] * (len(chosen) - 1)) for failure in compared.failures]
    columns = {"Model": "l"} | {metric.head: metric.format or "l" for metric in chosen}
    title = f"{_TASK_TITLES[compared.task]} of {compared.outcome}, out of sample"
    return laid_out(title, columns, rows, *_footnotes(compared, set(metrics), stars))


def without_tests(compared: WithClaims, metrics: Sequence[str]) -> list[str]:
    """Leave out the tests over time where the periods are too few for any; the note under the table explains it.

    Errors in per cent are added where the outcome is a log.
    """
    if named_like_log(compared.outcome):
        metrics = [key for name in metrics for key in (name, *(scores.LOG_METRICS if name == "rmse" else ()))]
    few = len(compared.periods) < periods_needed(compared.horizon)
    return [key for key in metrics if not (few and key in ("rank_ic_t", "dm_t", "dm_p"))]


def text(compared: WithClaims, width: int | None = None) -> str:
    """Return the table and the finding as text, no wider than ``width`` (by default the terminal)."""
    width = width or shutil.get_terminal_size((100, 24)).columns
    displayed = as_table(compared, without_tests(compared, PRINTED))
    parts = (summary(compared), displayed.footnotes)
    words, notes = ("\n".join(textwrap.fill(wording, width) for wording in part) for part in parts)
    return f"{replace(displayed, footnotes=()).text(width)}\n\n{notes}\n\n{words}"


def to_markdown(
    compared: WithClaims, path: PathLike | None = None, *, metrics: Sequence[str] = PRINTED, stars: bool = False
) -> str:
    """Return the table and the finding as Markdown, and write it where a path is given; see :meth:`table`."""
    words = "\n\n".join(map(markdown_text, summary(compared)))
    wording = f"{as_table(compared, metrics, stars=stars).to_markdown()}\n\n{words}\n"
    if path is not None:
        write_atomic(path, wording)
    return wording


def _cell(compared: WithClaims, model: ModelNote, metric: scores.Metric, stars: bool) -> float | str:
    name = model.name
    key = metric.key
    if metric is READS:
        return model.reads
    if key in scores.ORDER_METRICS and name not in compared.ordering:
        return "n/a"  # it falls in the own outcome: its order of firms is -1 by construction
    if key == "rank_ic_t":
        ic = compared.rank_ics[name]
        return ic.test.cell if ic.n_periods else float("nan")
    if key in ("dm_t", "dm_p"):
        return _tested(compared, name, metric, stars)
    if metric not in scores.REGRESSION_METRICS:
        return float(compared.scores[key][name])
    y, predicted, period = (compared.predictions[column] for column in ("outcome", name, "period"))
    if key in ("fm_slope", "fm_t"):
        value = getattr(fama_macbeth(y, predicted, period, horizon=compared.horizon), key[3:])
        return float("nan" if value is None else value)
    found = calibration(y, predicted, period, firm=compared.predictions["firm"])
    return found.slope if key == "cal_slope" else format_p(found.p_value, "n/a")


def _tested(compared: WithClaims, name: str, metric: scores.Metric, stars: bool) -> float | str:
    """Return the t or the p of a model against the baseline, or why there is none."""
    shows_t = metric.key == "dm_t"
    if name == compared.baseline:
        return "baseline" if shows_t else ""
    test = compared.tests[name]
    if not shows_t:
        return format_p(test.p_value)
    if test.t is None or test.p_value is None or not stars:
        return test.cell
    marks = "*" * sum(test.p_value < level for level in STARS)
    return f"{test.t:{metric.format}}{marks}".replace("-", MINUS)


def _footnotes(compared: WithClaims, metrics: set[str], stars: bool) -> list[str]:
    notes = [f"{compared.sample}.", *(wording for keys, wording in _NOTES.items() if metrics & {*keys})]
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
    notes.append(few_periods(compared))
    if tuned := [f"{model.name} {model.trials}" for model in compared.models if model.trials > 1]:
        notes.append(f"Settings tried inside the training rows of each fit: {', '.join(tuned)}.")
    notes += [f"{f.model} failed in fit {f.fold} and is not scored: {f.error}" for f in compared.failures]
    notes += [f"Note: {note}" for note in compared.notes]
    return [note for note in notes if note]


def edges_of(compared: WithClaims, *, top_k: int | None = None) -> pd.DataFrame:
    """Return the edges of all networks: columns model, period, firm, peer, weight; with ``top_k`` the strongest."""
    parts = [network.edges(top_k=top_k).assign(model=name) for name, network in compared.networks.items()]
    columns = ["model", "period", "firm", "peer", "weight"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def to_parquet(
    compared: WithClaims, path: PathLike, *, edges: PathLike | None = None, top_k: int | None = None
) -> Path:
    """Write all predictions to a Parquet file, and the networks' edges to another, of each firm the ``top_k`` strongest."""
    frames = {path: compared.predictions}
    if edges is not None:
        frames[edges] = edges_of(compared, top_k=top_k)
    for at, frame in frames.items():
        with atomic_path(at) as temporary:
            frame.to_parquet(temporary, index=False)
    return Path(path)


def to_excel(compared: WithClaims, path: PathLike) -> Path:
    """Write a workbook: finding, scores, decomposition, tests, losses, sample and settings, a sheet each.

    Raises
    ------
    InputError
        When the file cannot be written, or openpyxl (the extra ``excel``) is missing.
    """
    columns = ["model", "baseline", "loss_difference", "statistic", "p_value", "n_periods", "freedom"]
    tests = [[getattr(test, column) for column in columns] for test in compared.tests.values()]
    models = pd.DataFrame([vars(model) for model in compared.models]).rename(columns={"name": "model"})
    settings = [*compared.settings.items(), *(("limit of the panel", wording) for wording in compared.panel.limits)]
    sheets = {
        "Summary": pd.DataFrame({"Finding": summary(compared)}),
        "Decomposition": compared.claims.to_frame().reset_index(),
        "Scores": compared.scores.reset_index(),
        "Table": as_table(compared).to_frame(),
        "Tests": pd.DataFrame(tests, columns=columns),
        "Losses by period": compared.losses.reset_index(),
        "Failures": pd.DataFrame([vars(failure) for failure in compared.failures]),
        **{f"Audit {name}": audit.to_frame() for name, audit in compared.audit.items()},
        "Sample": compared.panel.sample_loss,
        "Models": models[["model", "information", "reads", "settings"]],
        "Settings": pd.DataFrame(settings, columns=["setting", "value"]),
    }
    return write_workbook(path, {k: sheet for k, sheet in sheets.items() if len(sheet)})
