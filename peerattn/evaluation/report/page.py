"""The report of a comparison: one page that a co-author or a referee can open anywhere."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from peerattn.evaluation.claims import Claims
from peerattn.evaluation.compared import Compared
from peerattn.evaluation.inference.forecast_tests import format_p
from peerattn.evaluation.report.figures import cumulative_gain, opening_pictures
from peerattn.evaluation.report.methods import TASKS, methods_paragraph, versions_of
from peerattn.evaluation.report.network import network_sections
from peerattn.evaluation.report.peers_by_model import peers_by_model_section
from peerattn.evaluation.report.sections import (
    audit_section,
    decomposition_section,
    gains_section,
    portfolio_section,
    tests_section,
)
from peerattn.evaluation.report.table import REPORTED, as_table, without_tests
from peerattn.evaluation.report.words import VERBS, few_codes, summary
from peerattn.render import Code, Section, Table, page, write_atomic
from peerattn.render.page import Block


def to_html(compared: Compared, claims: Claims, path: str | os.PathLike[str]) -> Path:
    """Write the report: one self-contained page that opens offline."""
    facts = {
        "Outcome": compared.outcome,
        "Task": compared.task,
        "Firms scored": f"{compared.n_firms:,}",
        "Tested periods": f"{len(compared.periods)} ({compared.span})",
        "Outcomes scored": f"{compared.n_outcomes:,}",
        "Do peers help?": claims.answer,
    }
    first, *finding = map(unbroken, summary(compared, claims))
    text = page(
        f"Do peers help to {VERBS[compared.task]} {compared.outcome}?",
        _sections(compared, claims, finding),
        lead=first,
        opening=opening_pictures(compared, claims, few_codes(compared)),
        facts=facts,
        footer=_made_with(compared),
    )
    return write_atomic(path, text)


def outcomes_to_html(
    comparisons: Mapping[str, tuple[Compared, Claims]], path: str | os.PathLike[str]
) -> Path:
    """Write the reports of several outcomes as one page, a table of all before them."""
    blocks = list(comparisons.values())
    sections = [Section("All outcomes", [outcomes_table(comparisons)])]
    for outcome, (compared, claims) in comparisons.items():
        parts = _sections(compared, claims, [unbroken(said) for said in summary(compared, claims)])
        sections += [Section(f"{outcome}: {part.title}", part.blocks) for part in parts]
    first = blocks[0][0]
    title = f"Do peers help to {VERBS[first.task]} {', '.join(comparisons)}?"
    lead = f"The same models on {len(blocks)} outcomes or horizons, each compared on its own."
    return write_atomic(path, page(title, sections, lead=lead, footer=_made_with(first)))


def outcomes_table(comparisons: Mapping[str, tuple[Compared, Claims]]) -> Table:
    """Return one line an outcome: its horizon, R² without and with peers with their standard errors, the gain and its test."""
    rows: list[tuple[object, ...]] = []
    for outcome, (compared, claims) in comparisons.items():
        scores, pair = compared.scores, (claims.control, claims.peer)
        cells = [scores.loc[name, key] if name else None for name in pair for key in ("r2_mean", "r2_se")]
        g = claims.gain
        ends = (None, None, None) if g is None else (g.gain, g.low, g.high)
        p = "" if claims.p is None else format_p(claims.p)
        rows.append((outcome, compared.horizon, compared.n_outcomes, *cells, *ends, p, claims.answer))
    heads = (
        "Outcome",
        "Horizon",
        "Scored",
        "R² without peers",
        "s.e.",
        "R² with peers",
        "s.e.",
        "Gain",
        "low",
        "high",
        "p",
    )
    return Table(
        "Held-out R² by outcome and horizon",
        (*heads, "Do peers help?"),
        rows,
        "l" + "r" * 10 + "l",
        ("", "", ",", ".4f", ".4f", ".4f", ".4f", "+.4f", "+.4f", "+.4f", "", ""),
        (
            "R² against the prevailing mean. Gain: best model with peers minus best model without, with its 95% interval; p "
            "one-sided.",
        ),
    )


def _sections(compared: Compared, claims: Claims, finding: list[str]) -> list[Section]:
    """Return all sections that have something to show."""
    gains, found = cumulative_gain(compared), compared.panel.description
    return [
        Section("Findings", [*finding, f"Task: {compared.task}. {TASKS[compared.task]}"]),
        *decomposition_section(compared, claims),
        Section("The models", [as_table(compared, without_tests(compared, REPORTED)), *_failures(compared)]),
        *tests_section(compared),
        *gains_section(compared, claims),
        *([Section("Over time", [gains])] if gains else []),
        *portfolio_section(compared),
        *network_sections(compared, claims),
        *peers_by_model_section(compared, claims),
        *audit_section(compared),
        *([Section("Descriptive statistics", [found.as_table("The panel, all periods")])] if found else []),
        Section("The sample and its limits", _sample(compared)),
        Section("Inputs", _inputs(compared)),
        Section("Reproduction", _reproduction(compared)),
    ]


def unbroken(said: str) -> str:
    """Keep each statistic on one line with its value."""
    statistic = re.compile(r"\b([tpT]|R²) ([=<] )?(?=[-\d])")
    return statistic.sub(lambda m: m.group().replace(" ", "\u00a0"), said)


def _made_with(compared: Compared) -> str:
    return f"Made with peerattn {compared.settings.get('peerattn', '')}".strip() + "."


def _failures(compared: Compared) -> list[Block]:
    if not compared.failures:
        return []
    rows = [(failure.model, failure.fold, failure.error) for failure in compared.failures]
    return [Table("Models that failed", ("Model", "In fit", "Error"), rows, alignment="lrl")]


def _sample(compared: Compared) -> list[Block]:
    said: list[Block] = [
        "All models are scored on the same rows: those of the tested periods whose outcome is known. A model that cannot "
        "predict one of them is not scored at all."
    ]
    if len(compared.panel.sample_loss):
        rows = list(compared.panel.sample_loss.itertuples(index=False, name=None))
        heads = ("Rows", "rows", "firms", "periods", "lost in this step")
        said.append(Table("From the panel to the scored sample", heads, rows, alignment="lrrrr"))
    unknown = int(compared.predictions["outcome"].isna().sum())
    if unknown:
        said.append(
            f"{unknown:,} more rows of these periods have no known outcome: they are not scored, but serve as peers."
        )
    limits = compared.panel.limits or ["none declared, and none found in the panel itself."]
    return [*said, "Known limits of the panel:", *(f"• {limit}" for limit in limits)]


def _inputs(compared: Compared) -> list[Block]:
    """Say which columns were taken and which were left out, and why."""
    choice = compared.panel.choice
    named = ", ".join(choice.characteristics) or "none"
    said: list[Block] = [f"Characteristics ({len(choice.characteristics)}): {named}."]
    if choice.codes:
        said.append(f"Codes ({len(choice.codes)}): {', '.join(choice.codes)}.")
    reasons: dict[str, list[str]] = {}
    for column, reason in choice.left.items():
        reasons.setdefault(str(reason), []).append(str(column))
    said += [f"Left out ({reason}): {', '.join(columns)}." for reason, columns in reasons.items()]
    plain = (
        "Plain regressors get missing values as the period's median with an indicator, codes one-hot, all learned on training "
        "rows only. What each model reads is in the table of models."
    )
    return [*said, plain]


def _reproduction(compared: Compared) -> list[Block]:
    versions = versions_of(compared)
    others = {name: value for name, value in compared.settings.items() if name not in versions}
    blocks: list[Block] = [
        "A paragraph for a paper, to be edited:",
        Code(methods_paragraph(compared)),
        *(f"{name[0].upper()}{name[1:]}: {value}." for name, value in others.items()),
    ]
    if compared.configuration:
        blocks += [
            "The configuration that makes this report again: save it as report.toml and run",
            Code("peerattn compare --config report.toml"),
            Code(compared.configuration),
        ]
    models = [(model.name, model.settings) for model in compared.models]
    return [
        *blocks,
        Table("Models", ("Model", "Settings"), models, alignment="ll"),
        Table("", ("Package", "Version"), list(versions.items()), alignment="ll"),
    ]
