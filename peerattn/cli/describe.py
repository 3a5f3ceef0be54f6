"""``peerattn describe``: what a file holds, and what would be taken from it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from peerattn.cli import options as o
from peerattn.cli.app import command
from peerattn.cli.output import Output
from peerattn.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

_FIRM = re.compile(r"firm|permno|gvkey|permco|ticker|tic|cusip|isin|id|company|stock|code", re.IGNORECASE)
_PERIOD = re.compile(r"period|date|datadate|eom|yyyymm|month|quarter|fyear|year|time", re.IGNORECASE)
_LISTED = 40


@command(epilog="Example:  peerattn describe panel.parquet --firm permno --period date")
def describe(*, panel: o.PanelFile, firm: o.Firm = None, period: o.Period = None, output: Output) -> None:
    """Describe a file: its labels, characteristics, codes and outcomes, how unbalanced it is, and how much is missing."""
    from peerattn.panel.frames import read_frame

    with output.working(f"reading {panel}"):
        frame = read_frame(panel)
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    if not len(frame):
        raise InputError(f"{panel}: the file holds no rows.")
    labels = {"firm": _label(frame, firm, "firm"), "period": _label(frame, period, "period")}
    facts = _facts(frame, labels)
    output.say(_text(str(panel), facts), {"file": str(panel)} | facts)


def _label(frame: pd.DataFrame, given: str | None, what: str) -> str | None:
    """Return the column of a label: the one given, else the likeliest; None where none looks like one."""
    from peerattn.panel.columns import refuse_unknown

    columns = list(frame.columns)
    if given is not None:
        refuse_unknown(f"--{what}", [given], columns)
        return given
    pattern = _FIRM if what == "firm" else _PERIOD
    whole = [name for name in columns if pattern.fullmatch(name)]
    return whole[0] if whole else next((name for name in columns if pattern.match(name)), None)


def _facts(frame: pd.DataFrame, labels: dict[str, str | None]) -> dict[str, Any]:
    """Return all that is reported, as text and for other programs."""
    from pandas.api.types import is_numeric_dtype

    from peerattn.panel.codes import looks_like_code
    from peerattn.panel.columns import choose_columns, looks_like_outcome

    named = [name for name in labels.values() if name is not None]
    others = [name for name in frame.columns if name not in named]
    texts = [name for name in others if not is_numeric_dtype(frame[name].dtype)]
    codes = [name for name in others if looks_like_code(name)]
    facts: dict[str, Any] = {"rows": len(frame), "columns": len(frame.columns), **labels}
    facts["outcomes"] = [name for name in others if looks_like_outcome(name) and name not in texts]
    facts["codes"] = codes + [name for name in texts if name not in codes]
    try:
        chosen = choose_columns(frame, labels=named)
        facts |= {"characteristics": list(chosen.characteristics), "left": dict(chosen.left)}
    except InputError as error:
        facts |= {"characteristics": [], "left": {}, "problem": str(error)}
    facts["missing"] = {name: float(share) for name, share in frame.isna().mean().items() if share > 0}
    if len(named) == 2:
        firm, period = named
        sizes, lives = frame.groupby(period)[firm].nunique(), frame.groupby(firm)[period].nunique()
        facts |= {
            "firms": len(lives),
            "periods": len(sizes),
            "first": sizes.index[0],
            "last": sizes.index[-1],
        }
        for what, counts in (("firms_per_period", sizes), ("periods_per_firm", lives)):
            facts[what] = dict(zip(("least", "median", "most"), counts.quantile([0, 0.5, 1]), strict=True))
        facts["balanced"] = len(frame) == len(lives) * len(sizes)
        facts["repeated"] = int(frame.duplicated([firm, period]).sum())
        facts["unlabelled"] = int(frame[[firm, period]].isna().any(axis=1).sum())
    return facts


def _text(name: str, facts: dict[str, Any]) -> str:
    """Return the facts as lines to read, and the command to try next."""
    from peerattn.render import printable, show_label

    lines = [f"{name}: {facts['rows']:,} rows, {facts['columns']} columns"]
    for what in ("firm", "period"):
        lines.append(f"{what}: {facts[what] or f'no column looks like it; name it with --{what}'}")
    if "firms" in facts:
        shape = "balanced" if facts["balanced"] else "ragged"
        ends = f"{show_label(facts['first'])} to {show_label(facts['last'])}"
        size, life = (
            "{least:,.0f} to {most:,.0f}, median {median:g}".format(**facts[what])
            for what in ("firms_per_period", "periods_per_firm")
        )
        lines += [
            f"{facts['firms']:,} firms in {facts['periods']:,} periods, {ends}, {shape}",
            f"firms in a period: {size}; periods of a firm: {life}",
        ]
        if facts["repeated"]:
            lines.append(f"PROBLEM: {facts['repeated']:,} rows repeat a firm and period; keep one row each")
        if facts["unlabelled"]:
            lines.append(f"PROBLEM: {facts['unlabelled']:,} rows lack a firm or a period")
    for words in ("look like outcomes", "look like codes", "would be taken as characteristics"):
        names = facts[words.rpartition(" ")[2]]
        lines.append(f"{words} ({len(names)}): {_listed(names)}")
    worst = sorted(facts["missing"].items(), key=lambda item: -item[1])
    shares = [f"{column} {share:.1%}" for column, share in worst]
    lines.append(f"missing ({len(worst)} columns): {_listed(shares)}" if worst else "nothing is missing")
    return "\n".join([*map(printable, lines), "", printable(_next_command(name, facts))])


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_LISTED]) or "none"
    return f"{shown}, and {len(names) - _LISTED} more" if len(names) > _LISTED else shown


def _next_command(name: str, facts: dict[str, Any]) -> str:
    import shlex

    parts = ["peerattn", "compare", name]
    for what, usual in (("firm", "firm"), ("period", "period")):
        parts += [f"--{what}", facts[what]] if facts[what] not in (None, usual) else []
    parts += ["--outcome", facts["outcomes"][0] if facts["outcomes"] else "COLUMN"]
    industry = next((code for code in facts["codes"] if code.lower().startswith(("sic", "industry"))), None)
    parts += ["--industry", industry] if industry else []
    return f"next: {shlex.join(parts)}"
