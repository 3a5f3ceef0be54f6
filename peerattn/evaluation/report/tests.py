"""The sections of a report that test: chance, portfolios, calibration, the ladder, the audit."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from peerattn.evaluation.inference.forecast_tests import MIN_PERIODS, format_p, p_words, short_reason
from peerattn.evaluation.measures.sorting import periods_per_year, usual_quantiles
from peerattn.evaluation.report.figures import left_out, portfolios_picture
from peerattn.exceptions import InputError
from peerattn.render import Section, Table
from peerattn.render.page import Block

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison
    from peerattn.evaluation.measures.portfolios import QuantilePortfolios, Weighting


def tests_section(comparison: Comparison) -> Section:
    """Return the tests against the baseline, the confidence set, and whether any model is superior."""
    n = len(comparison.periods)
    if n < MIN_PERIODS:
        few = (
            f"{n} period{' is' if n == 1 else 's are'} tested, and {MIN_PERIODS} are needed for a test over time: what differs "
            "in these periods may not in others. Mean gain: the baseline's mean squared error less the model's, positive = "
            "the model is better."
        )
        return Section("Is it chance?", [few, *_paired(comparison)])
    rows = []
    for test in comparison.tests.values():
        tested = test.statistic is not None
        rows.append(
            (
                test.model,
                test.gain,
                test.statistic if tested else short_reason(test.reason),
                format_p(test.p_value) if test.p_value is not None else "",
                test.n_periods,
                test.freedom if tested else "",
            )
        )
    table = Table(
        f"Each model against {comparison.baseline}",
        ("Model", "Mean gain", "t", "p", "Periods", "Degrees of freedom"),
        rows,
        alignment="lrrrrr",
        formats=("", ".3g", ".2f", "", "", ""),
    )
    words = (
        "Panel Diebold–Mariano tests of equal squared error. Losses are averaged over the firms of each period first, so that "
        "a period counts once; the variance is the equal-weighted cosine estimate, and t is Student's (Lazarus, Lewis, Stock and "
        "Watson 2018). Mean gain: the baseline's mean squared error less the model's, positive = the model is better."
    )
    return Section("Is it chance?", [words, table, *_many(comparison)])


def _paired(comparison: Comparison) -> list[Block]:
    """Return the tests that few periods allow: losses paired and clustered by firm."""
    if comparison.n_firms < 2:
        return []
    rows = []
    for name in comparison.names:
        if name == comparison.baseline:
            continue
        found = comparison.test(name).test
        statistic = found.reason if found.statistic is None else found.statistic
        rows.append((name, found.gain, statistic, "" if found.p_value is None else format_p(found.p_value)))
    return [
        Table(
            f"Each model against {comparison.baseline}, given these periods",
            ("Model", "Mean gain", "t", "p"),
            rows,
            alignment="lrrr",
            formats=("", ".3g", ".2f", ""),
            footnotes=[
                "Squared errors paired and clustered by firm: conditional on these periods, and on their shocks."
            ],
        )
    ]


def _many(comparison: Comparison) -> list[Block]:
    """Return the tests of all models at once."""
    kept, superior = comparison.confidence_set(), comparison.superior()
    found = ", ".join(superior.superior) or "none"
    rows = [
        (name, float(kept.p_values[name]), "in" if name in kept.included else "out")
        for name in comparison.names
    ]
    table = Table(
        f"Model confidence set at {1 - kept.size:.0%}",
        ("Model", "MCS p", "Among the best"),
        rows,
        alignment="lrl",
        footnotes=[
            "Hansen, Lunde and Nason (2011), range statistic, stationary bootstrap of periods with mean block length "
            f"{kept.block_length}: models that cannot be told from the best."
        ],
    )
    return [
        table,
        f"Does any model beat {superior.benchmark}, the search among all of them accounted for? Hansen's test of superior "
        f"predictive ability (2005): {p_words(superior.p_value)}. Superior at the {superior.size:.0%} level by Romano and Wolf's "
        f"step-down (2005): {found}.",
    ]


def portfolio_section(comparison: Comparison) -> Section:
    """Return what firms sorted by prediction turned out to do."""
    title = "Sorted by prediction"
    sorted_by = _portfolios(comparison, "equal")
    if not sorted_by:
        return Section(
            title, ["No model's predictions differ between the firms of a period: nothing can be sorted."]
        )
    words = (
        f"Firms are sorted anew each period into {usual_quantiles(comparison)} groups of equal size by each model's "
        "prediction. Shown are mean outcomes; the spread is highest less lowest, its t allows for serial correlation."
        f"{left_out(comparison)}"
    )
    blocks: list[Block] = [
        portfolios_picture(comparison, sorted_by),
        _portfolio_table(comparison, "Mean outcome by group", sorted_by),
    ]
    if comparison.is_return:
        per_year = periods_per_year(comparison.periods)
        years = f"annual ({per_year:g} periods a year)" if per_year else "per period"
        words += (
            f" {comparison.outcome} is taken for a simple return, so the groups are equal-weighted portfolios: turnover is "
            "what the spread trades in a period, both legs; the break-even cost per unit traded is what would eat it up. No "
            f"cost is taken off. Sharpe ratios are {years}."
        )
        if comparison.market_value is not None:
            title_of_values = f"Portfolios weighted by {comparison.market_value.name}"
            blocks.append(_portfolio_table(comparison, title_of_values, _portfolios(comparison, "value")))
    return Section(title, [words, *blocks])


def _portfolios(comparison: Comparison, weighting: Weighting) -> dict[str, QuantilePortfolios]:
    """Return the portfolios of each model whose predictions differ."""
    found = {}
    for name in comparison.ordering:
        with suppress(InputError):  # predictions that do not differ make no portfolios
            found[name] = comparison.portfolios(name, weighting=weighting)
    return found


def _portfolio_table(comparison: Comparison, title: str, sorted_by: dict[str, QuantilePortfolios]) -> Table:
    n = usual_quantiles(comparison)
    heads = ["Model", "Lowest", "Highest", "Spread", "t"]
    formats = ["", ".4g", ".4g", ".4g", ".2f"]
    if comparison.is_return:
        heads += ["Sharpe", "Turnover", "Break-even cost"]
        formats += [".2f", ".2f", ".4g"]
    rows = []
    for name, p in sorted_by.items():
        t = short_reason(p.test.reason) if p.t is None else p.t
        row: list[object] = [name, p.returns[1].mean(), p.returns[n].mean(), p.mean, t]
        if comparison.is_return:
            row += [p.sharpe, float(p.turnover.mean()) if len(p.turnover) else np.nan, p.break_even_cost]
        rows.append(row)
    return Table(title, heads, rows, "l" + "r" * (len(heads) - 1), formats)


def calibration_section(comparison: Comparison) -> Section:
    """Return whether a unit more predicted is a unit more."""
    rows = []
    for name in comparison.ordering:
        slope, found = comparison.regressions[name]
        fm_t: object = slope.t
        if slope.t is None:
            fm_t = short_reason(slope.test.reason) if len(slope.by_period) else ""
        p = "" if found.p_value is None else format_p(found.p_value)
        rows.append((name, found.intercept, found.slope, p, slope.slope, fm_t))
    table = Table(
        "Outcome on prediction",
        ("Model", "Intercept", "Slope", "p (0, 1)", "FM slope", "FM t"),
        rows,
        alignment="lrrrrr",
        formats=("", ".4g", ".3f", "", ".3f", ".2f"),
    )
    words = (
        "Where predictions are calibrated, the intercept is 0 and the slope 1 (Mincer and Zarnowitz 1969; p of both, "
        "clustered by firm and "
        "period). A slope below 1: predictions differ too much. FM slope: the mean of one regression a period (Fama and MacBeth "
        "1973), which leaves the common level out; its t is against 0."
    )
    return Section("Are predictions calibrated?", [words, table])


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


def audit_section(comparison: Comparison) -> Section:
    """Return the audit's certificate of each model."""
    if not comparison.audit:
        words = (
            "No audit was run. compare(..., audit=True), or --audit on the command line, tries to refute on this "
            "panel, model and "
            "split that nothing leaks."
        )
        return Section("Audit", [words])
    blocks: list[Block] = [
        "Each claim was tried on this panel, model and split: the first fold's model was asked again with one thing "
        "changed. What "
        "stands was not refuted here; a leak made before the panel came here cannot be seen."
    ]
    for name, audit in comparison.audit.items():
        table = audit.as_table()
        verdict = "all claims stand" if audit.passed else f"refuted: {', '.join(audit.refuted)}"
        blocks.append(
            Table(f"{name}: {verdict}", table.columns, table.rows, "lll", footnotes=[f"{audit.model}"])
        )
    return Section("Audit", blocks)
