"""``peerattn describe``: what a file holds, and what would be taken from it."""

import re
import shlex
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from peerattn.cli.commands import Describe
from peerattn.cli.output import flat_frame, report_line, working
from peerattn.exceptions import InputError, expect, reworded
from peerattn.panel.codes import looks_like_code
from peerattn.panel.columns import check_known, choose_columns, holds_text, looks_like_outcome
from peerattn.panel.knowledge import sorted_periods
from peerattn.panel.labels import likely_labels
from peerattn.render import printable, show_label

_LABELS = ("firm", "period")
_INDUSTRY = re.compile(
    r"h?sic(h|cd|_?code|\d)?|naics\w{0,4}|gics\w{0,4}|gsector|ggroup|gind|gsubind|ff_?\d+|"
    r"(ind|industry|sector)(_?(code|id|name|group|class|no|cd|\d+))?",
    re.IGNORECASE,
)
_LISTED = 40
_TEST_OVER_TIME = 12  # test periods that a test over time needs


def run(options: Describe) -> None:
    """Read, print."""
    with working(options, f"reading {options.panel}"):
        frame = flat_frame(options.panel)
    expect(len(frame) > 0, str(options.panel), "rows", "a file without any")
    likely = likely_labels(frame)
    for what in _LABELS:
        check_known(f"--{what}", [getattr(options, what)], frame.columns)
    labels = {what: getattr(options, what) or getattr(likely, what) for what in _LABELS}
    same = labels["firm"] is not None and labels["firm"] == labels["period"]
    expect(not same, "--firm and --period", "two columns", f"{labels['firm']!r} for both")
    facts = _facts(frame, labels)
    report_line(options, _text(str(options.panel), facts), {"file": str(options.panel)} | facts)


def _facts(frame: pd.DataFrame, labels: dict[str, str | None]) -> dict[str, Any]:
    """Return all that is reported, as text and for other programs."""
    named = [name for name in labels.values() if name is not None]
    others = [name for name in frame.columns if name not in named]
    numbers = [name for name in others if is_numeric_dtype(frame[name].dtype)]
    texts = [name for name in others if holds_text(frame[name])]
    codes = [name for name in others if looks_like_code(name) and name in {*numbers, *texts}]
    facts: dict[str, Any] = {"rows": len(frame), "columns": len(frame.columns), **labels}
    facts["outcomes"] = [name for name in others if looks_like_outcome(name) and name in numbers]
    facts["codes"] = [name for name in dict.fromkeys(codes + texts) if frame[name].nunique() > 1]  # a constant is no code
    try:
        chosen = choose_columns(frame, labels=named)
        facts |= {"characteristics": list(chosen.characteristics), "left": dict(chosen.left)}
    except InputError as error:
        facts |= {"characteristics": [], "left": {}, "problem": str(error)}
    facts["missing"] = {name: float(share) for name, share in frame.isna().mean().items() if share > 0}
    if len(named) < 2:
        return facts
    firm, period = named
    # both ways: how many firms a period has, and how long a firm lives
    with reworded("--firm and --period: expected columns of numbers, text or dates", kinds=TypeError):
        sizes = frame.groupby(period)[firm].nunique()
        lives = frame.groupby(firm)[period].nunique()
    _, periods = sorted_periods(frame[period].dropna())
    facts |= {"firms": len(lives), "periods": len(sizes), "first": periods[0], "last": periods[-1]}
    for what, counts in (("firms_per_period", sizes), ("periods_per_firm", lives)):
        facts[what] = dict(zip(("least", "median", "most"), counts.quantile([0, 0.5, 1]), strict=True))
    facts["balanced"] = len(frame) == len(lives) * len(sizes)
    facts["repeated"] = int(frame.duplicated(named).sum())
    facts["unlabelled"] = int(frame[named].isna().any(axis=1).sum())
    return facts


def _text(name: str, facts: dict[str, Any]) -> str:
    """Return the facts as lines to read, and the command to try next."""
    lines = [f"{name}: {facts['rows']:,} rows, {facts['columns']} columns"]
    none = "no column looks like it; name it with --"
    lines += [f"{what}: {facts[what] or none + what}" for what in _LABELS]
    if "firms" in facts:
        counted = "{least:,.0f} to {most:,.0f}, median {median:g}"
        size, life = (counted.format(**facts[what]) for what in ("firms_per_period", "periods_per_firm"))
        ends = f"{show_label(facts['first'])} to {show_label(facts['last'])}"
        shape = "balanced" if facts["balanced"] else "ragged"
        lines.append(f"{facts['firms']:,} firms in {facts['periods']:,} periods, {ends}, {shape}")
        lines.append(f"firms in a period: {size}; periods of a firm: {life}")
        if facts["repeated"]:
            lines.append(f"PROBLEM: {facts['repeated']:,} rows repeat a firm and period; keep one row each")
        if facts["unlabelled"]:
            lines.append(f"PROBLEM: {facts['unlabelled']:,} rows lack a firm or a period")
    for words in ("look like outcomes", "look like codes", "would be taken as characteristics"):
        listed = facts[words.rpartition(" ")[2]]
        lines.append(f"{words} ({len(listed)}): {_listed(listed)}")
    shares = sorted(facts["missing"].items(), key=lambda item: -item[1])
    worst = [f"{column} {share:.1%}" for column, share in shares]
    lines.append(f"missing ({len(worst)} columns): {_listed(worst)}" if worst else "nothing is missing")
    return "\n".join(map(printable, [*lines, "", f"next: {shlex.join(_next_command(name, facts))}"]))


def _listed(names: list[str]) -> str:
    displayed = ", ".join(names[:_LISTED]) or "none"
    if len(names) > _LISTED:
        return f"{displayed}, and {len(names) - _LISTED} more"
    return displayed


def _next_command(name: str, facts: dict[str, Any]) -> list[str]:
    industry = next(filter(_INDUSTRY.fullmatch, facts["codes"]), None)
    options = {what: facts[what] or "COLUMN" for what in _LABELS if facts[what] != what}
    options |= {"outcome": next(iter(facts["outcomes"]), "COLUMN"), "industry": industry}
    if facts.get("periods", 0) >= 2 * _TEST_OVER_TIME:  # without a firm or a period none are counted
        n_tested = max(_TEST_OVER_TIME, facts["periods"] // 3)
        options |= {"test-periods": n_tested, "refit-every": n_tested}
    given = [[f"--{option}", str(value)] for option, value in options.items() if value is not None]
    return sum(given, ["peerattn", "compare", name])
