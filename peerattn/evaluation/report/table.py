"""The table of a comparison: its cells, and the notes under it."""

from collections.abc import Mapping, Sequence

import numpy as np

from peerattn.evaluation.claims import WithClaims
from peerattn.evaluation.compared import ModelNote
from peerattn.evaluation.inference.forecast_tests import critical_t, format_p, periods_needed
from peerattn.evaluation.inference.regressions import calibration, fama_macbeth
from peerattn.evaluation.measures import scores
from peerattn.evaluation.measures.valuation import named_like_log
from peerattn.exceptions import check_names, expect
from peerattn.render import MINUS, STARS, Table

PRINTED = ("r2_mean", "r2_se", "r2_within", "rmse", "rank_ic", "rank_ic_t", "dm_t", "dm_p")
REPORTED = ("reads", "r2_mean", "r2_se", "r2_zero", *PRINTED[2:])
READS = scores.Metric("reads", "Uses", "")
#: What is noted under the table where one of these columns is shown.
_NOTES = {
    ("r2_mean",): "R² mean: out of sample, against the prevailing mean.",
    ("r2_zero",): "R² zero: the same against a forecast of zero.",
    ("r2_se",): "s.e.: of R² mean, {how}.",
    ("r2_within",): "R² within period: of differences between the firms of a period.",
    ("fm_slope", "fm_t"): "FM: mean of the slopes of outcome on prediction, period by period (Fama–MacBeth).",
    ("cal_slope", "cal_p"): "Calibration: slope of outcome on prediction; p of intercept 0 and slope 1, clustered both ways.",
}


def laid_out(title: str, columns: Mapping[str, str], rows: Sequence[Sequence[object]], *notes: str) -> Table:
    """Return a table of columns by their heads: ``"l"`` or ``"r"`` for text on that side, else the format of their numbers."""
    specs = list(columns.values())
    sides = "".join("l" if spec == "l" else "r" for spec in specs)
    formats = ["" if spec in ("l", "r") else spec for spec in specs]
    return Table(title, list(columns), rows, sides, formats, notes)


def as_table(compared: WithClaims, metrics: Sequence[str] = PRINTED, *, stars: bool = False) -> Table:
    """Return the comparison as a table that renders as text, HTML, LaTeX and Markdown; see :meth:`table`."""
    known = {metric.key: metric for metric in (READS, *scores.METRICS, *scores.REGRESSION_METRICS)}
    check_names("metrics", "metric", metrics, known)
    expect(len(metrics) > 0, "metrics", f"at least one of {', '.join(known)}", "none")
    chosen = [known[key] for key in dict.fromkeys(metrics)]
    rows = [(m.name, *(_cell(compared, m, metric, stars) for metric in chosen)) for m in compared.models]
    rows += [(failure.model, "failed", *[""] * (len(chosen) - 1)) for failure in compared.failures]
    columns = {"Model": "l"} | {metric.head: metric.format or "l" for metric in chosen}
    title = f"{compared.task.capitalize()} of {compared.outcome}, out of sample"
    return laid_out(title, columns, rows, *_footnotes(compared, set(metrics), stars))


def without_tests(compared: WithClaims, metrics: Sequence[str]) -> list[str]:
    """Leave out the tests over time where the periods are too few for any; the note under the table explains it.

    Errors in per cent are added to the usual columns where the outcome is a log.
    """
    if named_like_log(compared.outcome) and tuple(metrics) in (PRINTED, REPORTED):
        at = metrics.index("rmse") + 1
        metrics = [*metrics[:at], *scores.LOG_METRICS, *metrics[at:]]
    return [key for key in metrics if not (compared.few_periods and key in ("rank_ic_t", "dm_t", "dm_p"))] or list(metrics)


def _cell(compared: WithClaims, model: ModelNote, metric: scores.Metric, stars: bool) -> float | str:
    name = model.name
    key = metric.key
    if metric is READS:
        return model.reads
    if key in scores.ORDER_METRICS and not compared.has_order(name):
        return "n/a"
    if key == "rank_ic_t" and compared.rank_ics[name].n_periods:
        return compared.rank_ics[name].test.cell
    if key in ("dm_t", "dm_p"):
        return _tested(compared, name, metric, stars)
    if metric not in scores.REGRESSION_METRICS:
        return float(compared.scores[key][name])
    y, predicted, period = (compared.predictions[column] for column in ("outcome", name, "period"))
    if key in ("fm_slope", "fm_t"):
        value = getattr(fama_macbeth(y, predicted, period, horizon=compared.horizon), key[3:])
        return float(np.array(value, dtype=float))  # NaN where there is no t
    found = calibration(y, predicted, period, firm=compared.predictions["firm"])
    if key == "cal_slope":
        return found.slope
    return format_p(found.p_value, "n/a")


def _tested(compared: WithClaims, name: str, metric: scores.Metric, stars: bool) -> float | str:
    """Return the t or the p of a model against the baseline, or why there is none."""
    if name == compared.baseline:
        return {"dm_t": "baseline", "dm_p": ""}[metric.key]
    test = compared.tests[name]
    if metric.key == "dm_p":
        return format_p(test.p_value)
    if test.t is None or test.p_value is None or not stars:
        return test.cell
    marks = "*" * sum(test.p_value < level for level in STARS)
    return f"{test.t:{metric.format}}{marks}".replace("-", MINUS)


def _footnotes(compared: WithClaims, metrics: set[str], stars: bool) -> list[str]:
    how = "over time"
    if compared.few_periods:
        how = "clustered by firm, given these periods"
    notes = [f"{compared.sample}.", *(wording.format(how=how) for keys, wording in _NOTES.items() if metrics & {*keys})]
    if "rank_ic" in metrics:
        t = f"; {critical_t(ic.test for ic in compared.rank_ics.values())}" * ("rank_ic_t" in metrics)
        none = "; none of means of all others, which fall in the own outcome" * (not all(map(compared.has_order, compared.names)))
        notes.append(f"Rank IC: mean Spearman correlation{t}{none}.")
    if metrics & {"dm_t", "dm_p"}:
        notes.append(f"DM t: panel Diebold–Mariano against {compared.baseline!r}; positive = better. p: two-sided, each alone.")
    if stars and "dm_t" in metrics:
        notes.append("* p < 0.10, ** p < 0.05, *** p < 0.01 (two-sided), on DM t.")
    if compared.few_periods:
        needed = periods_needed(compared.horizon)
        notes.append(f"T = {len(compared.periods)} is too few for a test over time ({needed} are needed).")
    if tuned := [f"{model.name} {model.trials}" for model in compared.models if model.trials > 1]:
        notes.append(f"Settings tried inside the training rows of each fit: {', '.join(tuned)}.")
    notes += [f"{f.model} failed in fit {f.fold} and is not scored: {f.error}" for f in compared.failures]
    return notes + [f"Note: {note}" for note in compared.notes]
