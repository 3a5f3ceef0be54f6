"""The report of a comparison: one page that a co-author or a referee can open anywhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from peerattn.evaluation.claims import Judged
from peerattn.evaluation.compared import Compared
from peerattn.evaluation.inference.forecast_tests import format_p
from peerattn.evaluation.report import sections
from peerattn.evaluation.report.figures import cumulative_gain, opening_pictures
from peerattn.evaluation.report.network import network_sections, peers_by_model_section
from peerattn.evaluation.report.table import REPORTED, as_table, without_tests
from peerattn.evaluation.report.words import TASKS, VERBS, few_codes, methods_paragraph, summary, versions_of
from peerattn.render import Code, Section, Table, page, write_atomic
from peerattn.render.page import Block


def to_html(compared: Judged, path: str | os.PathLike[str]) -> Path:
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
        "Do peers help?": compared.claims.answer,
    }
    first, *finding = summary(compared)
    text = page(
        f"Do peers help to {VERBS[compared.task]} {compared.outcome}?",
        _sections(compared, finding),
        lead=first,
        opening=opening_pictures(compared, few_codes(compared)),
        facts=facts,
        footer=_made_with(compared),
    )
    return write_atomic(path, text)


def outcomes_to_html(comparisons: Mapping[str, Judged], path: str | os.PathLike[str]) -> Path:
    """Write the reports of several outcomes as one page, a table of all before them."""
    parts = [Section("All outcomes", [outcomes_table(comparisons)])]
    for outcome, compared in comparisons.items():
        of_one = _sections(compared, summary(compared))
        parts += [Section(f"{outcome}: {part.title}", part.blocks) for part in of_one]
    first = next(iter(comparisons.values()))
    title = f"Do peers help to {VERBS[first.task]} {', '.join(comparisons)}?"
    lead = f"The same models on {len(comparisons)} outcomes or horizons, each compared on its own."
    return write_atomic(path, page(title, parts, lead=lead, footer=_made_with(first)))


def outcomes_table(comparisons: Mapping[str, Judged]) -> Table:
    """Return one line an outcome: its horizon, R² without and with peers with their standard errors, the gain and its test."""
    rows: list[tuple[object, ...]] = []
    for outcome, compared in comparisons.items():
        scores, claims = compared.scores, compared.claims
        pair, g = (claims.control, claims.peer), claims.gain
        cells = [scores.loc[name, key] if name else None for name in pair for key in ("r2_mean", "r2_se")]
        ends = (None, None, None) if g is None else (g.gain, g.low, g.high)
        p = "" if claims.p is None else format_p(claims.p)
        rows.append((outcome, compared.horizon, compared.n_outcomes, *cells, *ends, p, claims.answer))
    r2 = ("R² without peers", "s.e.", "R² with peers", "s.e.")
    heads = ("Outcome", "Horizon", "Scored", *r2, "Gain", "low", "high", "p", "Do peers help?")
    formats = ("", "", ",", *(".4f",) * 4, *("+.4f",) * 3, "", "")
    note = (
        "R² against the prevailing mean. Gain: best model with peers minus best model without, with its 95% interval; p "
        "one-sided."
    )
    title = "Held-out R² by outcome and horizon"
    return Table(title, heads, rows, "l" + "r" * 10 + "l", formats, (note,))


def _sections(compared: Judged, finding: list[str]) -> list[Section]:
    """Return all sections that have something to show."""
    gains, found = cumulative_gain(compared), compared.panel.description
    failures = [(failure.model, failure.fold, failure.error) for failure in compared.failures]
    failed = [Table("Models that failed", ("Model", "In fit", "Error"), failures)] if failures else []
    return [
        Section("Findings", [*finding, f"Task: {compared.task}. {TASKS[compared.task]}"]),
        *sections.decomposition_section(compared),
        Section("The models", [as_table(compared, without_tests(compared, REPORTED)), *failed]),
        *sections.tests_section(compared),
        *sections.gains_section(compared),
        *([Section("Over time", [gains])] if gains else []),
        *sections.portfolio_section(compared),
        *network_sections(compared),
        *peers_by_model_section(compared),
        *sections.audit_section(compared),
        *([Section("Descriptive statistics", [found.as_table("The panel, all periods")])] if found else []),
        Section("The sample and its limits", _sample(compared)),
        Section("Inputs", _inputs(compared)),
        Section("Reproduction", _reproduction(compared)),
    ]


def _made_with(compared: Compared) -> str:
    return f"Made with peerattn {compared.settings.get('peerattn', '')}".strip() + "."


def _sample(compared: Compared) -> list[Block]:
    said: list[Block] = [
        "All models are scored on the same rows: those of the tested periods whose outcome is known. A model that cannot "
        "predict one of them is not scored at all."
    ]
    if len(loss := compared.panel.sample_loss):
        shown = loss.rename(columns={"step": "Rows", "rows lost": "lost in this step"})
        said.append(Table.from_frame(shown, title="From the panel to the scored sample"))
    if unknown := int(compared.predictions["outcome"].isna().sum()):
        said.append(
            f"{unknown:,} more rows of these periods have no known outcome: they are not scored, but serve as peers."
        )
    limits = compared.panel.limits or ["none declared, and none found in the panel itself."]
    return [*said, "Known limits of the panel:", *(f"• {limit}" for limit in limits)]


def _inputs(compared: Compared) -> list[str]:
    """Say which columns were taken and which were left out, and why."""
    said = [f"{line[0].upper()}{line[1:]}." for line in str(compared.panel.choice).splitlines()]
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
    packages = Table("", ("Package", "Version"), list(versions.items()))
    return [*blocks, Table("Models", ("Model", "Settings"), models), packages]
