"""The report of a comparison: one page that a co-author or a referee can open anywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from peerattn.evaluation.comparison import PACKAGES
from peerattn.evaluation.report.figures import cumulative_gain, rank_ic_over_time
from peerattn.evaluation.report.network import network_sections
from peerattn.evaluation.report.tests import (
    audit_section,
    calibration_section,
    ladder_section,
    portfolio_section,
    tests_section,
)
from peerattn.render import Code, Section, Table, page, show_label
from peerattn.render.page import Block

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison

REPORTED = ("r2_zero", "r2_mean", "r2_within", "rmse", "mae", "rank_ic", "rank_ic_t", "dm_t", "dm_p")
_TASKS = {
    "forecast": "Forecast: no outcome of the predicted period is used.",
    "explain": (
        "Explanation: peer models are shown the outcomes of the other firms of the same period, never the firm's own. "
        "It is not a forecast."
    ),
}
_VERBS = {"forecast": "predicts", "explain": "explains"}
_MOST_YEARS = 40


def report_page(comparison: Comparison) -> str:
    """Return the report as one self-contained HTML page."""
    summary = _summary(comparison)
    facts = {
        "Outcome": comparison.outcome,
        "Task": comparison.task,
        "Firms": f"{comparison.n_firms:,}",
        "Tested periods": f"{len(comparison.periods)} ({_span(comparison)})",
        "Outcomes scored": f"{comparison.n_outcomes:,}",
        "Baseline": comparison.baseline,
    }
    return page(
        f"Who {_VERBS[comparison.task]} {comparison.outcome}?",
        _sections(comparison, summary[1:]),
        lead=summary[0],
        facts=facts,
        footer=_made_with(comparison),
    )


def outcomes_page(comparisons: Mapping[str, Comparison]) -> str:
    """Return the reports of several outcomes as one page, a table of all before them."""
    blocks = list(comparisons.values())
    names = list(dict.fromkeys(name for block in blocks for name in block.names))
    rows: list[tuple[object, ...]] = []
    for outcome, block in comparisons.items():
        scores = block.scores["r2_mean"].reindex(names)
        rows.append((outcome, block.n_outcomes, *scores))
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
    return page(
        f"Who {_VERBS[blocks[0].task]} {', '.join(comparisons)}?",
        sections,
        lead=f"The same models on {len(blocks)} outcomes, each compared on its own.",
        footer=_made_with(blocks[0]),
    )


def _sections(comparison: Comparison, summary: Sequence[str]) -> list[Section]:
    return [
        Section("In plain words", [*summary, _TASKS[comparison.task]]),
        Section("The comparison", [comparison.as_table(REPORTED), *_failures(comparison)]),
        tests_section(comparison),
        _over_time(comparison),
        portfolio_section(comparison),
        calibration_section(comparison),
        *ladder_section(comparison),
        *network_sections(comparison),
        audit_section(comparison),
        _where(comparison),
        Section("The sample and its limits", _sample(comparison)),
        Section("What went in", _inputs(comparison)),
        Section("How it was made", _settings(comparison)),
    ]


def _summary(comparison: Comparison) -> list[str]:
    return [_together(sentence) for sentence in comparison.summary()]


def _made_with(comparison: Comparison) -> str:
    return f"Made with peerattn {comparison.settings.get('peerattn', '')}".strip() + "."


def _together(sentence: str) -> str:
    """Keep a statistic on one line with its value."""
    return re.sub(
        r"\b([tpT]|R²) ([=<] )?(?=[-\d])", lambda found: found.group().replace(" ", "\u00a0"), sentence
    )


def _span(comparison: Comparison) -> str:
    first, last = (show_label(comparison.periods[k]) for k in (0, -1))
    return first if first == last else f"{first} to {last}"


def _failures(comparison: Comparison) -> list[Block]:
    if not comparison.failures:
        return []
    rows = [(failure.model, failure.fold, failure.error) for failure in comparison.failures]
    return [Table("Models that failed", ("Model", "In fit", "Error"), rows, alignment="lrl")]


def _over_time(comparison: Comparison) -> Section:
    pictures: list[Block] = [
        picture for picture in (cumulative_gain(comparison), rank_ic_over_time(comparison)) if picture
    ]
    return Section("Over time", pictures or ["One period is tested: there is nothing to show over time."])


def _where(comparison: Comparison) -> Section:
    """Return the scores by year and by the groups of the comparison."""
    blocks: list[Block] = [
        "R² mean is against the prevailing mean, R² within between the firms of a period; both on the group's own rows. Few rows "
        "make noisy figures."
    ]
    years = comparison.by("year")
    n_years = years.index.get_level_values("group").nunique()
    if 1 < n_years <= _MOST_YEARS:
        blocks += _by_group(comparison, "By year", years)
    for name, group in comparison.groups.items():
        blocks += _by_group(comparison, f"By {name}", comparison.by(group))
    if len(blocks) == 1:
        blocks = ["One year is tested, and no groups were asked for."]
    return Section("Where it is good", blocks)


def _by_group(comparison: Comparison, title: str, scores: object) -> list[Block]:
    """Return one table: a row for each group, R² and rank IC of the models beside each other."""
    import pandas as pd

    assert isinstance(scores, pd.DataFrame)
    shown = _shown_by_group(comparison)
    rows: list[tuple[object, ...]] = []
    for group, part in scores.groupby(level="group", sort=False):
        of_models = part.droplevel("group")
        values = [of_models[key][name] for key in ("r2_mean", "r2_within") for name in shown]
        rows.append((show_label(group), int(of_models["rows"].iloc[0]), *values))
    heads = [f"{name}: {what}" for what in ("R² mean", "R² within") for name in shown]
    formats = ("", "", *[".4f"] * len(heads))
    return [
        Table(title, (title.removeprefix("By "), "Rows", *heads), rows, "l" + "r" * (1 + len(heads)), formats)
    ]


def _shown_by_group(comparison: Comparison) -> list[str]:
    """Return the best model, the baseline and the best model that looks to no peers: more do not fit a page."""
    rmse = comparison.scores["rmse"]
    controls = [model.name for model in comparison.models if not model.looks_to_peers]
    peers = [model.name for model in comparison.models if model.looks_to_peers]
    best = [str(rmse[names].idxmin()) for names in (peers, controls) if names]
    return list(dict.fromkeys([*best, comparison.baseline]))


def _sample(comparison: Comparison) -> list[Block]:
    said: list[Block] = [
        "All models are scored on the same rows: those of the tested periods whose outcome is known. A model that cannot "
        "predict one of them is not scored at all."
    ]
    if len(comparison.sample_loss):
        loss = comparison.sample_loss
        rows = [tuple(row) for row in loss.itertuples(index=False, name=None)]
        heads = ("Rows", "rows", "firms", "periods", "lost in this step")
        said.append(Table("From the panel to the scored sample", heads, rows, alignment="lrrrr"))
    unknown = int(comparison.predictions["outcome"].isna().sum())
    if unknown:
        said.append(
            f"{unknown:,} more rows of these periods have no known outcome: they are not scored, but serve as peers."
        )
    limits = comparison.limits or ["None is known: none was told, and the panel itself shows none."]
    return [*said, "Known limits of the panel:", *(f"• {limit}" for limit in limits)]


def _inputs(comparison: Comparison) -> list[Block]:
    plain = (
        "Plain regressors get missing values as the period's median with an indicator, codes one-hot, all learned on training "
        "rows only. The control with own characteristics uses no codes."
    )
    return [*_columns(comparison), plain]


def _columns(comparison: Comparison) -> list[str]:
    """Say which columns were taken and which were left, and why."""
    choice = comparison.choice
    said = [
        f"Characteristics ({len(choice.characteristics)}): {', '.join(choice.characteristics) or 'none'}."
    ]
    if choice.codes:
        said.append(f"Codes ({len(choice.codes)}): {', '.join(choice.codes)}.")
    reasons: dict[str, list[str]] = {}
    for column, reason in choice.left.items():
        reasons.setdefault(str(reason), []).append(str(column))
    said += [f"Left out ({reason}): {', '.join(columns)}." for reason, columns in reasons.items()]
    return said


def _settings(comparison: Comparison) -> list[Block]:
    settings = dict(comparison.settings)
    versions = [(name, settings.pop(name)) for name in ("peerattn", *PACKAGES) if name in settings]
    said = [f"{name[0].upper()}{name[1:]}: {value}." for name, value in settings.items()]
    models = [(model.name, model.settings) for model in comparison.models]
    blocks: list[Block] = ["A paragraph for a paper, to be edited:", Code(comparison.methods()), *said]
    if comparison.configuration:
        blocks += [
            "The configuration that makes this report again, as report.toml for peerattn compare --config report.toml:",
            Code(comparison.configuration),
        ]
    return [
        *blocks,
        Table("Models", ("Model", "Settings"), models, alignment="ll"),
        Table("", ("Package", "Version"), versions, alignment="ll"),
    ]
