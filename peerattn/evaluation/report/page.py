"""The report of a comparison: one page that a co-author or a referee can open anywhere."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from peerattn.evaluation.report.answer import answer, answer_pictures
from peerattn.evaluation.report.figures import cumulative_gain, rank_ic_over_time
from peerattn.evaluation.report.methods import TASKS, methods_paragraph, versions_of
from peerattn.evaluation.report.network import network_sections
from peerattn.evaluation.report.sections import (
    audit_section,
    calibration_section,
    ladder_section,
    portfolio_section,
    subgroup_section,
    tests_section,
)
from peerattn.evaluation.report.table import REPORTED, as_table, without_tests
from peerattn.render import Code, Section, Table, page, write_atomic
from peerattn.render.page import Block

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison

_VERBS = {"forecast": "predict", "explain": "explain"}


def to_html(comparison: Comparison, path: str | os.PathLike[str]) -> Path:
    """Write the report: one self-contained page that opens offline.

    Raises
    ------
    InputError
        When the file cannot be written.
    """
    facts = {
        "Outcome": comparison.outcome,
        "Task": comparison.task,
        "Firms": f"{comparison.n_firms:,}",
        "Tested periods": f"{len(comparison.periods)} ({comparison.span})",
        "Outcomes scored": f"{comparison.n_outcomes:,}",
        "Baseline": comparison.baseline,
    }
    title, footer = (
        f"Do peers help to {_VERBS[comparison.task]} {comparison.outcome}?",
        _made_with(comparison),
    )
    lead, pictures = unbroken(" ".join(answer(comparison))), answer_pictures(comparison)
    sections = _sections(comparison, _summary(comparison))
    text = page(title, sections, lead=lead, opening=pictures, facts=facts, footer=footer)
    return write_atomic(path, text)


def outcomes_to_html(comparisons: Mapping[str, Comparison], path: str | os.PathLike[str]) -> Path:
    """Write the reports of several outcomes as one page, a table of all before them."""
    blocks = list(comparisons.values())
    names = list(dict.fromkeys(name for block in blocks for name in block.names))
    rows = [
        (outcome, block.n_outcomes, *block.scores["r2_mean"].reindex(names))
        for outcome, block in comparisons.items()
    ]
    table = Table(
        "R² out of sample against the prevailing mean",
        ("Outcome", "Scored", *names),
        rows,
        "l" + "r" * (1 + len(names)),
        ("", ",", *[".4f"] * len(names)),
    )
    sections = [Section("All outcomes", [table])]
    for outcome, block in comparisons.items():
        parts = _sections(block, _summary(block))
        sections += [Section(f"{outcome}: {part.title}", part.blocks) for part in parts]
    title = f"Do peers help to {_VERBS[blocks[0].task]} {', '.join(comparisons)}?"
    lead = f"The same models on {len(blocks)} outcomes, each compared on its own."
    return write_atomic(path, page(title, sections, lead=lead, footer=_made_with(blocks[0])))


def _sections(comparison: Comparison, summary: Sequence[str]) -> list[Section]:
    """Return all sections that have something to show."""
    return [
        Section("Findings", [*summary, f"Task: {comparison.task}. {TASKS[comparison.task]}"]),
        Section(
            "The comparison",
            [as_table(comparison, without_tests(comparison, REPORTED)), *_failures(comparison)],
        ),
        *tests_section(comparison),
        *_over_time(comparison),
        *portfolio_section(comparison),
        *calibration_section(comparison),
        *ladder_section(comparison),
        *network_sections(comparison),
        *audit_section(comparison),
        *subgroup_section(comparison),
        *_description(comparison),
        Section("The sample and its limits", _sample(comparison)),
        Section("Inputs", _inputs(comparison)),
        Section("Reproduction", _reproduction(comparison)),
    ]


def _summary(comparison: Comparison) -> list[str]:
    return [unbroken(said) for said in comparison.summary()]


def unbroken(said: str) -> str:
    """Keep each statistic on one line with its value."""
    statistic = re.compile(r"\b([tpT]|R²) ([=<] )?(?=[-\d])")
    return statistic.sub(lambda m: m.group().replace(" ", "\u00a0"), said)


def _made_with(comparison: Comparison) -> str:
    return f"Made with peerattn {comparison.settings.get('peerattn', '')}".strip() + "."


def _failures(comparison: Comparison) -> list[Block]:
    if not comparison.failures:
        return []
    rows = [(failure.model, failure.fold, failure.error) for failure in comparison.failures]
    return [Table("Models that failed", ("Model", "In fit", "Error"), rows, alignment="lrl")]


def _over_time(comparison: Comparison) -> list[Section]:
    drawn = [picture for picture in (cumulative_gain(comparison), rank_ic_over_time(comparison)) if picture]
    return [Section("Over time", drawn)] if drawn else []


def _description(comparison: Comparison) -> list[Section]:
    if comparison.description is None:
        return []
    return [Section("Descriptive statistics", [comparison.description.as_table("The panel, all periods")])]


def _sample(comparison: Comparison) -> list[Block]:
    said: list[Block] = [
        "All models are scored on the same rows: those of the tested periods whose outcome is known. A model that cannot "
        "predict one of them is not scored at all."
    ]
    if len(comparison.sample_loss):
        rows = list(comparison.sample_loss.itertuples(index=False, name=None))
        heads = ("Rows", "rows", "firms", "periods", "lost in this step")
        said.append(Table("From the panel to the scored sample", heads, rows, alignment="lrrrr"))
    unknown = int(comparison.predictions["outcome"].isna().sum())
    if unknown:
        said.append(
            f"{unknown:,} more rows of these periods have no known outcome: they are not scored, but serve as peers."
        )
    limits = comparison.limits or ["none declared, and none found in the panel itself."]
    return [*said, "Known limits of the panel:", *(f"• {limit}" for limit in limits)]


def _inputs(comparison: Comparison) -> list[Block]:
    """Say which columns were taken and which were left out, and why."""
    choice = comparison.choice
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
        "rows only. The OLS control uses own characteristics without codes; the boosting control uses both."
    )
    return [*said, plain]


def _reproduction(comparison: Comparison) -> list[Block]:
    versions = versions_of(comparison)
    others = {name: value for name, value in comparison.settings.items() if name not in versions}
    blocks: list[Block] = [
        "A paragraph for a paper, to be edited:",
        Code(methods_paragraph(comparison)),
        *(f"{name[0].upper()}{name[1:]}: {value}." for name, value in others.items()),
    ]
    if comparison.configuration:
        blocks += [
            "The configuration that makes this report again: save it as report.toml and run",
            Code("peerattn compare --config report.toml"),
            Code(comparison.configuration),
        ]
    models = [(model.name, model.settings) for model in comparison.models]
    return [
        *blocks,
        Table("Models", ("Model", "Settings"), models, alignment="ll"),
        Table("", ("Package", "Version"), list(versions.items()), alignment="ll"),
    ]
