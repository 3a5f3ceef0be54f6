"""The sections of a report that test: joint tests, portfolios, calibration, the ladder, audits, subgroups."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import (
    critical_t,
    format_p,
    p_words,
    periods_needed,
    short_reason,
)
from peerattn.evaluation.measures.factors import periods_per_year
from peerattn.evaluation.measures.groups import scores_by
from peerattn.evaluation.measures.portfolios import QuantilePortfolios, Weighting, deflated_sharpe
from peerattn.evaluation.measures.sorting import portfolios_of, usual_quantiles
from peerattn.evaluation.report.figures import left_out, portfolios_picture
from peerattn.evaluation.report.verdict import best_peer_and_control, robustness
from peerattn.evaluation.steps import step
from peerattn.exceptions import InputError
from peerattn.render import Section, Table, show_label
from peerattn.render.page import Block

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison

_MOST_YEARS = 40
COST = 0.001  # per unit traded


def tests_section(comparison: Comparison) -> list[Section]:
    """Return the tests against the baseline, the joint tests, and what single firms and periods decide."""
    n, needed = len(comparison.periods), periods_needed(comparison.horizon)
    better = "Mean gain: the baseline's mean squared error less the model's, positive = the model is better."
    if n < needed:
        words = (
            f"{n} period{' is' if n == 1 else 's are'} tested, and {needed} are needed for a test over time: what differs "
            f"in these periods may not in others. {better}"
        )
    else:
        words = (
            "Panel Diebold–Mariano tests of equal squared error, each on its own. Losses are averaged over the firms of each "
            "period first, so that a period counts once; the variance is the equal-weighted cosine estimate, and t is Student's "
            f"(Lazarus, Lewis, Stock and Watson 2018). {better}"
        )
    blocks: list[Block] = [words, *_against_baseline(comparison)]
    if n >= needed:
        blocks += _joint(comparison)
    return [Section("Statistical tests", [*blocks, *(said for said, _ in robustness(comparison))])]


def _against_baseline(comparison: Comparison) -> list[Block]:
    """Return the table of the tests against the baseline; paired and clustered where periods are few."""
    few = len(comparison.periods) < periods_needed(comparison.horizon)
    if few and comparison.n_firms < 2:
        return []
    rows: list[list[float | int | str]] = []
    for name, over_time in comparison.tests.items():
        tested = step(comparison, name)
        test = tested.test if few else over_time
        p = "" if test.p_value is None else format_p(test.p_value)
        statistic = short_reason(test.reason) if test.statistic is None else test.statistic
        row: list[float | int | str] = [name, test.gain, statistic, p]
        if few:
            rows.append([*row, tested.test_name])
        else:
            rows.append([*row, *(["", ""] if test.statistic is None else [test.n_periods, test.freedom])])
    notes = [
        "Squared errors are paired, and clustered by firm or by a code with at least ten groups, whichever gives the larger p "
        "(wild cluster bootstrap). The tests are conditional on these periods, and on the shocks that all firms share in them."
    ]
    return [
        Table(
            f"Each model against {comparison.baseline}" + ", given these periods" * few,
            ["Model", "Mean gain", "t", "p", *(["Test"] if few else ["Periods", "Degrees of freedom"])],
            rows,
            alignment="lrrrl" if few else "lrrrrr",
            formats=("", ".3g", ".2f", "", *([""] if few else ["", ""])),
            footnotes=notes if few else [],
        )
    ]


def _joint(comparison: Comparison) -> list[Block]:
    """Return the tests of all models at once."""
    kept, superior = comparison.confidence_set(), comparison.superior()
    rows = [
        (name, float(kept.p_values[name]), "in" if name in kept.included else "out")
        for name in comparison.names
    ]
    note = (
        "Multiple comparisons with the best (Horrace and Schmidt 2000): a model is out where another one is significantly "
        "better, the number of others accounted for. A difference that cannot be tested leaves no model out."
    )
    title = f"The best model is among these, with a confidence of {1 - kept.size:.0%}"
    p = "no gain can be tested" if np.isnan(superior.p_value) else p_words(superior.p_value)
    untested = " ".join(f"Of {name} no test is made: {why}." for name, why in superior.untested.items())
    return [
        Table(title, ("Model", "p", "May be the best"), rows, alignment="lrl", footnotes=[note]),
        f"Does any model beat {superior.benchmark}, the search among all of them accounted for? The least p of the tests above, "
        f"one-sided and by Holm's step-down (1979): {p}. Superior at the {superior.size:.0%} level: "
        f"{', '.join(superior.superior) or 'none'}. {untested}".strip(),
    ]


def portfolio_section(comparison: Comparison) -> list[Section]:
    """Return what firms sorted by forecast turned out to do; nothing for an explanation, which cannot be traded on."""
    sorted_by = _portfolios(comparison, "equal")
    if not sorted_by:
        return []
    words = (
        f"Firms are sorted anew each period into {usual_quantiles(comparison)} groups of equal size by each model's "
        "prediction. Shown are mean outcomes; the spread is highest less lowest, "
        f"{critical_t(portfolios.test for portfolios in sorted_by.values())}.{left_out(comparison)}"
    )
    blocks: list[Block] = [
        portfolios_picture(comparison, sorted_by),
        _portfolio_table(comparison, "Mean outcome by group", sorted_by),
    ]
    if comparison.is_return:
        per_year = periods_per_year(comparison.periods)
        years = f"annual ({per_year:g} periods a year)" if per_year else "per period"
        words += (
            f" {comparison.outcome} is treated as a simple return, so the groups are equal-weighted portfolios: turnover is "
            "what the spread trades in a period, both legs; the break-even cost per unit traded is the cost that would "
            "consume a positive spread. "
            f"Sharpe ratios are {years}; the net one has {COST:.1%} per unit traded deducted. The deflated one is the "
            f"probability that the true ratio exceeds what the best of {comparison.n_trials} lucky settings would show "
            "(Bailey and López de Prado 2014)."
        )
        if comparison.factors is not None:
            factors = comparison.factors
            of = factors.attrs.get("realised", "the same period")
            words += f" Alpha: per period, net of {', '.join(map(str, factors.columns))} of {of}."
        blocks.append(_strategy_table(comparison, sorted_by))
        if comparison.market_value is not None:
            title = f"Portfolios weighted by {comparison.market_value.name}"
            blocks.append(_portfolio_table(comparison, title, _portfolios(comparison, "value")))
    return [Section("Sorted by forecast", [words, *blocks])]


def _portfolios(comparison: Comparison, weighting: Weighting) -> dict[str, QuantilePortfolios]:
    """Return the portfolios of each model whose predictions differ; none of an explanation."""
    found = {}
    for name in comparison.ordering:
        with suppress(InputError):  # predictions that do not differ make no portfolios
            found[name] = portfolios_of(comparison, name, weighting=weighting)
    return found


def _portfolio_table(comparison: Comparison, title: str, sorted_by: dict[str, QuantilePortfolios]) -> Table:
    heads = ["Model", "Lowest", "Highest", "Spread", "t"]
    formats = ["", ".4g", ".4g", ".4g", ".2f"]
    rows = []
    for name, p in sorted_by.items():
        ends = (p.returns.iloc[:, 0].mean(), p.returns.iloc[:, -1].mean())
        row: list[object] = [name, *ends, p.mean, short_reason(p.test.reason) if p.t is None else p.t]
        rows.append(row)
    return Table(title, heads, rows, "l" + "r" * (len(heads) - 1), formats)


def _strategy_table(comparison: Comparison, sorted_by: dict[str, QuantilePortfolios]) -> Table:
    """Return what the spreads were as strategies: risk, trading, luck, and what factors leave."""
    heads = ["Model", "Sharpe", "net of cost", "deflated", "Turnover", "Break-even cost"]
    formats = ["", ".2f", ".2f", ".2f", ".2f", ".4g"]
    if comparison.factors is not None:
        heads, formats = [*heads, "Alpha", "t"], [*formats, ".4g", ".2f"]
    ratios = [
        p.mean / float(p.spread.std()) for p in sorted_by.values() if len(p.spread) > 1 and p.spread.std() > 0
    ]
    spread_of_trials = float(np.var(ratios)) if ratios else 0.0
    rows = []
    for name, p in sorted_by.items():
        deflated = float("nan")
        with suppress(InputError):
            deflated = deflated_sharpe(
                p.spread, n_trials=comparison.n_trials, trial_variance=spread_of_trials
            )
        row: list[object] = [
            name,
            p.sharpe,
            p.net_sharpe(COST),
            deflated,
            float(p.turnover.mean()),
            p.break_even_cost,
        ]
        if p.alpha is not None:
            row += [p.alpha.mean, short_reason(p.alpha.reason) if p.alpha.t is None else p.alpha.t]
        rows.append(row)
    return Table("The spread as a strategy", heads, rows, "l" + "r" * (len(heads) - 1), formats)


def calibration_section(comparison: Comparison) -> list[Section]:
    """Return whether a unit more predicted is a unit more."""
    rows = []
    for name in comparison.ordering:
        slope, found = comparison.regressions[name]
        if not len(
            slope.by_period
        ):  # one prediction for all firms of a period: nothing to calibrate between firms
            continue
        reason = short_reason(slope.test.reason) if len(slope.by_period) else ""
        fm_t = reason if slope.t is None else slope.t
        p = reason or "n/a" if found.p_value is None else format_p(found.p_value)
        rows.append((name, found.intercept, found.slope, p, slope.slope, fm_t))
    table = Table(
        "Outcome on prediction",
        ("Model", "Intercept", "Slope", "p (0, 1)", "FM slope", "FM t"),
        rows,
        alignment="lrrrrr",
        formats=("", ".4g", ".3f", "", ".3f", ".2f"),
    )
    words = (
        "Where predictions are calibrated, the intercept is 0 and the slope 1 (Mincer and Zarnowitz 1969; p of both, clustered "
        "by firm and period). A slope below 1: predictions differ too much. FM slope: the mean of one regression a period (Fama "
        "and MacBeth 1973), which leaves the common level out; its t is against 0. Models that give all firms of a period one "
        "prediction are left out."
    )
    return [Section("Calibration", [words, table])]


def ladder_section(comparison: Comparison) -> list[Section]:
    """Return the ladder, where the models make one."""
    climbed = comparison.ladder
    if climbed is None:
        return []
    words = (
        "From own characteristics over fixed peers, fixed kernel and linear attention to learned attention: where a gain "
        "comes from."
    )
    return [Section("The ladder", [words, climbed.as_table(), climbed.summary()])]


def audit_section(comparison: Comparison) -> list[Section]:
    """Return the audit of each model that was audited."""
    if not comparison.audit:
        return []
    blocks: list[Block] = [
        "Each claim was tried on this panel, model and split: the first fold's model predicted again with one thing changed. "
        "What stands was not refuted here; a leak made before the panel came here cannot be seen."
    ]
    for name, audit in comparison.audit.items():
        table = audit.as_table()
        verdict = "all claims stand" if audit.passed else f"refuted: {', '.join(audit.refuted)}"
        blocks.append(Table(f"{name}: {verdict}", table.columns, table.rows, "lll", footnotes=[audit.model]))
    return [Section("Audit", blocks)]


def subgroup_section(comparison: Comparison) -> list[Section]:
    """Return the scores by year and by the groups of the comparison."""
    tables = {name: scores_by(comparison, group) for name, group in comparison.groups.items()}
    years = scores_by(comparison, "year")
    if len(comparison.periods) >= 4:
        tables = {"half of the tested periods": scores_by(comparison, _halves(comparison))} | tables
    if 1 < years.index.get_level_values("group").nunique() <= _MOST_YEARS:
        tables = {"year of the row": years} | tables
    if not tables:
        return []
    words = (
        "R² mean is against the prevailing mean, R² within period of differences between the firms of a period; both on the "
        "group's own rows. Few rows make noisy figures. A row stands in the year of its own period; its outcome may be "
        "realised later."
    )
    parts: list[Block] = [_by_group(comparison, name, scores) for name, scores in tables.items()]
    return [Section("Performance by subgroup", [words, *parts])]


def _halves(comparison: Comparison) -> pd.Series:
    """Return the earlier or the later half of the tested periods, for each row."""
    labels = pd.MultiIndex.from_frame(comparison.predictions[["firm", "period"]])
    earlier, later = (
        comparison.periods[: len(comparison.periods) // 2],
        comparison.periods[len(comparison.periods) // 2 :],
    )
    names = [f"{show_label(part[0])} to {show_label(part[-1])}" for part in (earlier, later)]
    late = labels.get_level_values("period").isin(later)
    return pd.Series(np.where(late, names[1], names[0]), index=labels)


def _by_group(comparison: Comparison, name: str, scores: pd.DataFrame) -> Table:
    """Return one table: a row for each group, and of few models, since more do not fit a page."""
    pair = best_peer_and_control(comparison)
    best = pair or (str(comparison.scores["rmse"].idxmin()),)
    shown = list(dict.fromkeys([*best, comparison.baseline]))
    rows: list[tuple[object, ...]] = []
    for group, part in scores.groupby(level="group", sort=False):
        of_models = part.droplevel("group")
        values = [of_models[key][model] for key in ("r2_mean", "r2_within") for model in shown]
        rows.append((show_label(group), int(of_models["rows"].iloc[0]), *values))
    heads = [f"{model}: {what}" for what in ("R² mean", "R² within period") for model in shown]
    formats = ("", "", *[".4f"] * len(heads))
    return Table(f"By {name}", (name, "Rows", *heads), rows, "l" + "r" * (1 + len(heads)), formats)
