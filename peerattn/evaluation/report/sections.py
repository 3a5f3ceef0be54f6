"""The sections of a report that test: decomposition, joint tests, gains by firm, portfolios, audits."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import numpy as np
import pandas as pd

from peerattn.evaluation.claims import Claims
from peerattn.evaluation.compared import Compared
from peerattn.evaluation.gains import gain_by, gain_by_firm
from peerattn.evaluation.inference.forecast_tests import (
    critical_t,
    format_p,
    periods_needed,
    short_reason,
)
from peerattn.evaluation.inference.multiple_tests import model_confidence_set
from peerattn.evaluation.measures.factors import periods_per_year
from peerattn.evaluation.measures.portfolios import (
    QuantilePortfolios,
    Weighting,
    portfolios_of,
    usual_quantiles,
)
from peerattn.evaluation.report.figures import (
    left_out,
    portfolios_picture,
)
from peerattn.evaluation.report.words import step_name
from peerattn.exceptions import InputError
from peerattn.render import Section, Table, show_label
from peerattn.render.page import Block

COST = 0.001  # per unit traded
_LISTED = 6  # firms with the largest and with the smallest gain


def decomposition_section(compared: Compared, claims: Claims) -> list[Section]:
    """Return the decomposition of held-out R² as a table."""
    if not claims.steps:
        return []
    words = (
        "Each step is the best model that reads no more than its name says, all on the same rows: own lines "
        "(characteristics, linear), own shape (their curves and interactions), own history (past outcomes, firm effects), "
        "common (what all firms of a period or of an industry share), peers. A step's gain is over the step before. The best "
        "model of a step is chosen on the tested rows, which favours the steps below peers."
    )
    rows: list[tuple[object, ...]] = []
    for step in claims.steps:
        g = step.gain
        if g is None:
            rows.append((step.name, step.model, step.r2, None, None, None, None, ""))
            continue
        tested = format_p(g.p) if g.p is not None else g.reason
        rows.append((step_name(step, claims), step.model, step.r2, g.gain, g.low, g.high, g.t, tested))
    how = {step.gain.how for step in claims.steps if step.gain and step.gain.how}
    notes = ["p: two-sided, each step on its own. Intervals: 95%."]
    if any(one != "over time" for one in how):
        notes.append(
            f"Clustered {' or '.join(sorted(how))} by the wild bootstrap: conditional on these periods, and on errors of the "
            "clusters' sums being symmetric."
        )
    heads = ("Step", "Best model", "R²", "Gain", "low", "high", "t", "p")
    formats = ("", "", ".4f", "+.4f", "+.4f", "+.4f", ".2f", "")
    table = Table("Held-out R², step by step", heads, rows, "llrrrrrr", formats, footnotes=notes)
    return [Section("Where predictability comes from", [words, table])]


def tests_section(compared: Compared) -> list[Section]:
    """Return the tests of all models over time, against the baseline and jointly; nothing where the periods are too few."""
    if len(compared.periods) < periods_needed(compared.horizon):
        return []
    words = (
        "Panel Diebold–Mariano tests of equal squared error, each on its own. Losses are averaged over the firms of each "
        "period first, so that a period counts once; the variance is the equal-weighted cosine estimate, and t is Student's "
        "(Lazarus, Lewis, Stock and Watson 2018). Mean gain: the baseline's mean squared error minus the model's, positive = the "
        "model is better."
    )
    rows: list[list[float | int | str]] = []
    for name, test in compared.tests.items():
        p = "" if test.p_value is None else format_p(test.p_value)
        if test.statistic is None:
            rows.append([name, test.gain, short_reason(test.reason), p, "", ""])
        else:
            rows.append([name, test.gain, test.statistic, p, test.n_periods, test.freedom])
    heads = ["Model", "Mean gain", "t", "p", "Periods", "Degrees of freedom"]
    formats = ("", ".3g", ".2f", "", "", "")
    table = Table(f"Each model against {compared.baseline}", heads, rows, alignment="lrrrrr", formats=formats)
    return [Section("Statistical tests", [words, table, _joint(compared)])]


def _joint(compared: Compared) -> Table:
    """Return the test of all models at once."""
    kept = model_confidence_set(compared.losses, horizon=compared.horizon)
    rows = [
        (name, float(kept.p_values[name]), "in" if name in kept.included else "out")
        for name in compared.names
    ]
    note = (
        "Multiple comparisons with the best (Horrace and Schmidt 2000): a model is out where another one is significantly "
        "better, the number of others accounted for. A difference that cannot be tested leaves no model out."
    )
    title = f"The best model is among these, with a confidence of {1 - kept.size:.0%}"
    return Table(title, ("Model", "p", "May be the best"), rows, alignment="lrl", footnotes=[note])


def gains_section(compared: Compared, claims: Claims) -> list[Section]:
    """Return who gains and who loses by peers: by firm, and by the groups of the comparison."""
    if claims.gain is None or claims.why in ("same", "empty"):
        return []
    peer, control = claims.gain.model, claims.gain.against
    frame = gain_by_firm(compared, peer, control)
    words = (
        f"Squared error that {peer} saves against {control}, over the mean squared error of the prevailing mean. Its mean "
        "over all rows is the gain in R². Intervals of a firm are over its periods, those of a group over its firms."
    )
    ends = frame if len(frame) <= 2 * _LISTED else pd.concat([frame.head(_LISTED), frame.tail(_LISTED)])
    table = partial(_gains_table, shares=claims.gain.gain > 0)  # shares of a loss have the wrong sign
    blocks: list[Block] = [words, table("By firm: the largest and the smallest gains", "Firm", ends)]
    groups = dict(compared.panel.groups)
    if len(compared.periods) >= 4:
        groups["half of the tested periods"] = _halves(compared)
    for name, group in groups.items():
        blocks.append(table(f"By {name}", name, gain_by(compared, group, peer, control).sort_index()))
    return [Section("Who gains by peers", blocks)]


def _gains_table(title: str, what: str, frame: pd.DataFrame, shares: bool) -> Table:
    frame = frame if shares else frame.drop(columns="share")
    rows = [
        (show_label(label), int(n), *rest)
        for label, (n, *rest) in zip(frame.index, frame.to_numpy().tolist(), strict=True)
    ]
    n = 6 if shares else 5
    heads = (what, "Rows", "Gain", "low", "high", "Share of the gain")[:n]
    return Table(title, heads, rows, "lrrrrr"[:n], ("", "", "+.4f", "+.4f", "+.4f", ".0%")[:n])


def _halves(compared: Compared) -> pd.Series:
    """Return the earlier or the later half of the tested periods, for each row."""
    labels = pd.MultiIndex.from_frame(compared.predictions[["firm", "period"]])
    middle = len(compared.periods) // 2
    parts = compared.periods[:middle], compared.periods[middle:]
    names = [f"{show_label(part[0])} to {show_label(part[-1])}" for part in parts]
    late = labels.get_level_values("period").isin(parts[1])
    return pd.Series(np.where(late, names[1], names[0]), index=labels, dtype=object)


def portfolio_section(compared: Compared) -> list[Section]:
    """Return what firms sorted by forecast turned out to do; nothing for an explanation, which cannot be traded on."""
    sorted_by = _portfolios(compared, "equal")
    if not sorted_by:
        return []
    facts = compared.panel
    words = (
        f"Firms are sorted anew each period into {usual_quantiles(compared)} groups of equal size by each model's "
        "prediction. Shown are mean outcomes; the spread is highest minus lowest, "
        f"{critical_t(portfolios.test for portfolios in sorted_by.values())}.{left_out(compared)}"
    )
    blocks: list[Block] = [
        portfolios_picture(compared, sorted_by),
        _portfolio_table("Mean outcome by group", sorted_by),
    ]
    if facts.is_return:
        per_year = periods_per_year(compared.periods)
        years = f"annual ({per_year:g} periods a year)" if per_year else "per period"
        trials = sum(model.trials for model in compared.models)
        words += (
            f" {compared.outcome} is treated as a simple return, so the groups are equal-weighted portfolios: turnover is "
            "what the spread trades in a period, both legs; the break-even cost per unit traded is the cost that would "
            f"consume a positive spread. Sharpe ratios are {years}; the net one has {COST:.1%} per unit traded deducted. The "
            f"best of {trials} settings that were tried looks better than it is."
        )
        if facts.survivors:
            words += (
                " No firm leaves this panel before its last period. Where firms are in it because they survived, or belong "
                "to an index today, past returns and Sharpe ratios are too high, those of a firm's own mean above all: "
                "nobody could have chosen these firms then."
            )
        if facts.factors is not None:
            factors = facts.factors
            of = factors.attrs.get("realised", "the same period")
            words += f" Alpha: per period, net of {', '.join(map(str, factors.columns))} of {of}."
        blocks.append(_strategy_table(compared, sorted_by))
        if facts.market_value is not None:
            title = f"Portfolios weighted by {facts.market_value.name}"
            blocks.append(_portfolio_table(title, _portfolios(compared, "value")))
    return [Section("Sorted by forecast", [words, *blocks])]


def _portfolios(compared: Compared, weighting: Weighting) -> dict[str, QuantilePortfolios]:
    """Return the portfolios of each model whose predictions differ; none of an explanation."""
    found = {}
    for name in compared.ordering:
        with suppress(InputError):  # predictions that do not differ make no portfolios
            found[name] = portfolios_of(compared, name, weighting=weighting)
    return found


def _portfolio_table(title: str, sorted_by: dict[str, QuantilePortfolios]) -> Table:
    heads = ["Model", "Lowest", "Highest", "Spread", "t"]
    rows = []
    for name, p in sorted_by.items():
        ends = (p.returns.iloc[:, 0].mean(), p.returns.iloc[:, -1].mean())
        row: list[object] = [name, *ends, p.mean, short_reason(p.test.reason) if p.t is None else p.t]
        rows.append(row)
    return Table(title, heads, rows, "lrrrr", ["", ".4g", ".4g", ".4g", ".2f"])


def _strategy_table(compared: Compared, sorted_by: dict[str, QuantilePortfolios]) -> Table:
    """Return what the spreads were as strategies: risk, trading, and what factors leave."""
    heads = ["Model", "Sharpe", "net of cost", "Turnover", "Break-even cost"]
    formats = ["", ".2f", ".2f", ".2f", ".4g"]
    if compared.panel.factors is not None:
        heads, formats = [*heads, "Alpha", "t"], [*formats, ".4g", ".2f"]
    rows = []
    for name, p in sorted_by.items():
        row: list[object] = [name, p.sharpe, p.net_sharpe(COST), float(p.turnover.mean()), p.break_even_cost]
        if p.alpha is not None:
            row += [p.alpha.mean, short_reason(p.alpha.reason) if p.alpha.t is None else p.alpha.t]
        rows.append(row)
    return Table("The spread as a strategy", heads, rows, "l" + "r" * (len(heads) - 1), formats)


def audit_section(compared: Compared) -> list[Section]:
    """Return the audit of each model that was audited."""
    if not compared.audit:
        return []
    blocks: list[Block] = [
        "Each claim was tried on this panel, model and split: the first fold's model predicted again with one thing changed. "
        "A claim that passed was not refuted here; a leak made before the panel was read cannot be seen."
    ]
    for name, audit in compared.audit.items():
        table = audit.as_table()
        verdict = "no claim refuted" if audit.passed else f"refuted: {', '.join(audit.refuted)}"
        blocks.append(Table(f"{name}: {verdict}", table.columns, table.rows, "lll", footnotes=[audit.model]))
    return [Section("Audit", blocks)]
