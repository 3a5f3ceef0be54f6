"""The report of a comparison: one page that a co-author or a referee can open anywhere."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from peerattn.evaluation.claims import WithClaims
from peerattn.evaluation.gains import Gain, gain_by, gain_by_firm
from peerattn.evaluation.inference.forecast_tests import critical_t, format_p
from peerattn.evaluation.inference.multiple_tests import model_confidence_set
from peerattn.evaluation.measures.factors import periods_per_year
from peerattn.evaluation.measures.portfolios import QuantilePortfolios, Weighting, portfolios_of
from peerattn.evaluation.report import words as sentences
from peerattn.evaluation.report.figures import cumulative_gain, opening_pictures, portfolios_picture
from peerattn.evaluation.report.network import network_blocks, peers_by_model, search_blocks
from peerattn.evaluation.report.table import REPORTED, as_table, laid_out, without_tests
from peerattn.exceptions import InputError
from peerattn.render import Block, Code, File, Section, Table, page, show_label, write_atomic

COST = 0.001  # per unit traded
_LISTED = 6  # firms with the largest and with the smallest gain
_GAIN = {"Gain": "+.4f", "low": "+.4f", "high": "+.4f"}


def to_html(compared: WithClaims, path: File) -> Path:
    """Write the report: one self-contained page that opens offline.

    Raises
    ------
    InputError
        When the file cannot be written.
    """
    facts = {
        "Outcome": compared.outcome,
        "Task": compared.task,
        "Firms scored": f"{compared.n_firms:,}",
        "Tested periods": f"{len(compared.periods)} ({compared.span})",
        "Outcomes scored": f"{compared.n_outcomes:,}",
    }
    first, *finding = sentences.summary(compared)
    title = f"{sentences.question(compared)} {compared.claims.answer}"
    why = first.removeprefix(f"{title}: ")  # the title has the question and the answer
    lead = why[0].upper() + why[1:]
    opening = opening_pictures(compared, sentences.few_codes(compared))
    sections = _sections(compared, finding)
    text = page(title, sections, lead=lead, opening=opening, facts=facts, footer=_made_with(compared))
    return write_atomic(path, text)


def outcomes_to_html(comparisons: Mapping[str, WithClaims], path: File) -> Path:
    """Write the reports of several outcomes as one page, a table of all before them."""
    parts = [Section("All outcomes", [outcomes_table(comparisons)])]
    for outcome, compared in comparisons.items():
        of_one = _sections(compared, sentences.summary(compared))
        parts += [Section(f"{outcome}: {part.title}", part.blocks) for part in of_one]
    first = next(iter(comparisons.values()))
    title = f"Do peers help to {sentences.VERBS[first.task]} {', '.join(comparisons)}?"
    lead = f"The same models on {len(comparisons)} outcomes or horizons, each compared on its own."
    return write_atomic(path, page(title, parts, lead=lead, footer=_made_with(first)))


def outcomes_table(comparisons: Mapping[str, WithClaims]) -> Table:
    """Return one line an outcome: its horizon, R² without and with peers with their standard errors, the gain and its test."""
    rows: list[tuple[object, ...]] = []
    for outcome, compared in comparisons.items():
        claims = compared.claims
        cells: list[object] = [None] * 7
        if (gain := claims.gain) is not None:
            pair = compared.scores.loc[[gain.against, gain.model], ["r2_mean", "r2_se"]]
            cells = [*pair.to_numpy().ravel(), gain.gain, gain.low, gain.high]
        rows.append((outcome, compared.horizon, compared.n_outcomes, *cells, format_p(claims.p), claims.answer))
    r2 = ("R² without peers", "s.e.", "R² with peers", "s.e.")
    heads = ("Outcome", "Horizon", "Scored", *r2, "Gain", "low", "high", "p", "Do peers help?")
    formats = ("", "", ",", *(".4f",) * 4, *("+.4f",) * 3, "", "")
    note = "R² against the prevailing mean, of one stack. Gain: with peers minus without, 95% interval; p one-sided."
    return Table("Held-out R² by outcome and horizon", heads, rows, "l" + "r" * 10 + "l", formats, (note,))


def _sections(compared: WithClaims, finding: list[str]) -> list[Section]:
    """Return all sections that have something to show."""
    failures = [(failure.model, failure.fold, failure.error) for failure in compared.failures]
    failed = [Table("Models that failed", ("Model", "In fit", "Error"), failures)] * bool(failures)
    found = compared.panel.description
    blocks: dict[str, Sequence[Block | None]] = {
        "Findings": [*finding, f"Task: {compared.task}. {sentences.TASKS[compared.task]}"],
        "Where predictability comes from": _decomposition(compared),
        "The models": [as_table(compared, without_tests(compared, REPORTED)), *failed],
        "Statistical tests": _tests(compared),
        "Who gains by peers": _gains(compared),
        "Over time": [cumulative_gain(compared)],
        "Sorted by forecast": _portfolio(compared),
        "Estimated peer network": network_blocks(compared),
        "Score matrix": search_blocks(compared),
        "Peers by model": peers_by_model(compared),
        "Audit": _audit(compared),
        "Descriptive statistics": [found.as_table("The panel, all periods") if found else None],
        "The sample and its limits": _sample(compared),
        "Inputs": _inputs(compared),
        "Reproduction": _reproduction(compared),
    }
    filled = {title: [block for block in every if block] for title, every in blocks.items()}
    return [Section(title, content) for title, content in filled.items() if content]


def _made_with(compared: WithClaims) -> str:
    return f"Made with peerattn {compared.settings.get('peerattn', '')}".strip() + "."


def _sample(compared: WithClaims) -> list[Block]:
    wording: list[Block] = ["All models are scored on the same rows: those of the tested periods whose outcome is known."]
    if len(loss := compared.panel.sample_loss):
        displayed = loss.rename(columns={"step": "Rows", "rows lost": "lost in this step"})
        wording.append(Table.from_frame(displayed, title="From the panel to the scored sample"))
    if unknown := int(compared.predictions["outcome"].isna().sum()):
        wording.append(f"{unknown:,} more rows of these periods have no known outcome: they are not scored, but serve as peers.")
    limits = compared.panel.limits or ["none declared, and none found in the panel itself."]
    return [*wording, "Known limits of the panel:", *(f"• {limit}" for limit in limits)]


def _inputs(compared: WithClaims) -> list[str]:
    """Describe which columns were taken and which were left out, and why."""
    plain = "Plain regressors get missing values as the period's median with an indicator, codes one-hot, by training rows only."
    return [*(f"{line[0].upper()}{line[1:]}." for line in str(compared.panel.choice).splitlines()), plain]


def _reproduction(compared: WithClaims) -> list[Block]:
    blocks: list[Block] = ["A paragraph for a paper, to be edited:", Code(sentences.methods_paragraph(compared))]
    if compared.configuration:
        again = "This configuration, saved as report.toml, makes the report again: peerattn compare --config report.toml"
        blocks += [again, Code(compared.configuration)]
    models = [(model.name, model.settings) for model in compared.models]
    settings = Table("Sample and versions", ("Setting", "Value"), list(compared.settings.items()))
    return [*blocks, settings, Table("Models", ("Model", "Settings"), models)]


def _decomposition(compared: WithClaims) -> list[Block]:
    """Return the decomposition of held-out R², and the user's peer models against the stack without peers, as tables."""
    claims = compared.claims
    if not claims.steps:
        return []
    words = f"{sentences.nested(compared)} A step in which nothing was selected has the gain 0."
    rows = [(step.name, step.r2, *_gain_cells(step.gain), step.selected) for step in claims.steps]
    notes = ("p: two-sided, each step on its own. Intervals: 95%.", sentences.tests(compared))
    columns = {"Step": "l", "R²": ".4f", **_GAIN, "t": ".2f", "p": "r", "Selected": "l"}
    blocks: list[Block] = [words, laid_out("Held-out R², step by step", columns, rows, *notes)]
    if claims.models:
        of_models = [(gain.model, gain.against, gain.r2, *_gain_cells(gain)) for gain in claims.models]
        columns = {"Model": "l", "Against": "l", "R²": ".4f", **_GAIN, "t": ".2f", "p": "r"}
        note = "A difference from the stack need not come from peers: the models differ otherwise, too. p: two-sided, each alone."
        blocks.append(laid_out("Each peer model against models without peers", columns, of_models, note))
    return blocks


def _gain_cells(gain: Gain | None) -> tuple[object, ...]:
    if gain is None:
        return (None, None, None, None, "")
    return (gain.gain, gain.low, gain.high, gain.t, format_p(gain.p, gain.reason))


def _tests(compared: WithClaims) -> list[Block]:
    """Return the tests of all models over time, against the baseline and jointly; nothing where the periods are too few."""
    if compared.few_periods:
        return []
    words = f"{sentences.tests(compared)} Losses are averaged over the firms of each period first. Each test is on its own."
    note = "Loss difference: the baseline's mean squared error minus the model's, positive = better."
    rows = [(name, t.mean, t.cell, format_p(t.p_value), t.n_periods, t.freedom or "") for name, t in compared.tests.items()]
    columns = {"Model": "l", "Loss difference": ".3g", "t": ".2f", "p": "r", "Periods": "r", "Degrees of freedom": "r"}
    blocks: list[Block] = [words, laid_out(f"Each model against {compared.baseline}", columns, rows, note)]
    # tests against one baseline, then of all models together
    kept = model_confidence_set(compared.losses, horizon=compared.horizon)
    included = dict.fromkeys(kept.included, "in")
    joint = [(name, float(kept.p_values[name]), included.get(name, "out")) for name in compared.names]
    best = "Multiple comparisons with the best (Horrace and Schmidt 2000): a model is out where another is significantly better."
    title = f"The best model is among these, with a confidence of {1 - kept.size:.0%}"
    return [*blocks, laid_out(title, {"Model": "l", "p": ".3f", "May be the best": "l"}, joint, best)]


def _gains(compared: WithClaims) -> list[Block]:
    """Return who gains and who loses by peers: by firm, and by the groups of the comparison."""
    gain = compared.claims.gain
    if gain is None or gain.reason == "same predictions":
        return []
    peer = gain.model
    control = gain.against
    frame = gain_by_firm(compared, peer, control)
    words = f"Squared error that {peer} saves against {control}, in units of R². Intervals: over periods; of groups, over firms."
    rank = np.arange(len(frame))
    ends = frame[(rank < _LISTED) | (rank >= len(frame) - _LISTED)]
    tables = [("By firm: the largest and the smallest gains", "Firm", ends)]
    groups = dict(compared.panel.groups)
    if len(compared.periods) >= 4:
        groups["half of the tested periods"] = _halves(compared)
    tables += [(f"By {name}", name, gain_by(compared, of, peer, control).sort_index()) for name, of in groups.items()]
    columns = {"Rows": "r", **_GAIN, "Share of the gain": ".0%"}
    if gain.gain <= 0:  # shares of a loss have the wrong sign
        del columns["Share of the gain"]
    blocks: list[Block] = [words]
    for title, what, part in tables:
        rows = [(show_label(label), int(n), *rest[: len(columns) - 1]) for label, n, *rest in part.itertuples()]
        blocks.append(laid_out(title, {what: "l"} | columns, rows))
    return blocks


def _halves(compared: WithClaims) -> pd.Series:
    """Return the earlier or the later half of the tested periods, for each row."""
    middle = len(compared.periods) // 2
    names: dict[object, str] = {}
    for part in (compared.periods[:middle], compared.periods[middle:]):
        names |= dict.fromkeys(part, f"{show_label(part[0])} to {show_label(part[-1])}")
    return compared.predictions.set_index(["firm", "period"], drop=False)["period"].map(names)


def _portfolio(compared: WithClaims) -> list[Block]:
    """Return what firms sorted by forecast turned out to do; nothing for a nowcast, which cannot be traded on."""
    sorted_by = _portfolios(compared, "equal")
    if not sorted_by:
        return []
    facts = compared.panel
    n = next(iter(sorted_by.values())).returns.shape[1]
    t = critical_t(portfolios.test for portfolios in sorted_by.values())
    words = f"Each period firms are sorted by prediction into {n} equal groups. The spread is highest minus lowest, {t}."
    table = _portfolio_table("Mean outcome by group", sorted_by)
    blocks: list[Block] = [portfolios_picture(compared, sorted_by), table]
    if facts.is_return:
        per_year = periods_per_year(compared.periods)
        years = f"annual ({per_year:g} periods a year)" if per_year else "per period"
        trials = sum(model.trials for model in compared.models)
        words += f" {compared.outcome} is treated as a simple return: groups are equal-weighted portfolios,"
        words += f" Sharpe ratios {years}, turnover that of both legs, the cost {COST:.1%} per unit traded."
        words += f" At the break-even cost the spread is zero. The best of {trials} settings tried looks better than it is."
        if (factors := facts.factors) is not None:
            words += f" Alpha: per period, net of {', '.join(map(str, factors))} of {factors.attrs['realised']}."
        blocks.append(_strategy_table(compared, sorted_by))
        if facts.market_value is not None:
            title = f"Portfolios weighted by {facts.market_value.name}"
            blocks.append(_portfolio_table(title, _portfolios(compared, "value")))
    return [words, *blocks]


def _portfolios(compared: WithClaims, weighting: Weighting) -> dict[str, QuantilePortfolios]:
    """Return the portfolios of each model whose predictions differ; none of a nowcast."""
    found = {}
    for name in compared.names:
        with suppress(InputError):  # predictions that do not differ make no portfolios
            found[name] = portfolios_of(compared, name, weighting=weighting)
    return found


def _portfolio_table(title: str, sorted_by: dict[str, QuantilePortfolios]) -> Table:
    ends = {name: p.returns.iloc[:, [0, -1]].mean() for name, p in sorted_by.items()}
    rows = [(name, *ends[name], p.mean, p.test.cell) for name, p in sorted_by.items()]
    columns = {"Model": "l", "Lowest": ".4g", "Highest": ".4g", "Spread": ".4g", "t": ".2f"}
    return laid_out(title, columns, rows)


def _strategy_table(compared: WithClaims, sorted_by: dict[str, QuantilePortfolios]) -> Table:
    """Return what the spreads were as strategies: risk, trading, and what factors leave."""
    columns = {"Model": "l", "Sharpe": ".2f", "net of cost": ".2f", "Turnover": ".2f", "Break-even cost": ".4g"}
    if compared.panel.factors is not None:
        columns |= {"Alpha": ".4g", "t": ".2f"}
    rows = []
    for name, p in sorted_by.items():
        rows.append([name, p.sharpe, p.net_sharpe(COST), p.turnover.mean(), p.break_even_cost])
        if p.alpha is not None:
            rows[-1] += [p.alpha.mean, p.alpha.cell]
    return laid_out("The spread as a strategy", columns, rows)


def _audit(compared: WithClaims) -> list[Block]:
    """Return the audit of each model that was audited."""
    if not compared.audit:
        return []
    blocks: list[Block] = ["A claim that passed was not refuted here; a leak made before the panel was read cannot be seen."]
    for name, audit in compared.audit.items():
        verdict = f"refuted: {', '.join(audit.refuted)}" if audit.refuted else "no claim refuted"
        blocks.append(replace(audit.as_table(), title=f"{name}: {verdict}", footnotes=(audit.model,)))
    return blocks
