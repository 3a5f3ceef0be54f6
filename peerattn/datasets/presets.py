"""Column presets: the names, timing, missing codes and filters of the panel files the field has.

A preset knows how a source spells its file; it holds no data. The panel's description lists what was done, its ``limits`` what a
reader must know of the source.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from peerattn.datasets.embedded import value_after
from peerattn.exceptions import InputError, check_names, did_you_mean, validate_arguments
from peerattn.panel import Panel, read_panel
from peerattn.panel.frames import flat, read_frame
from peerattn.panel.time_order import timestamps
from peerattn.render import show_label
from peerattn.types import ColumnLike

_SAME_MONTH = 0.9  # correlation above which two columns of returns are one


@dataclass(frozen=True)
class Preset:
    """How one source spells its panel.

    Attributes
    ----------
    name, title : str
    source : str
        Who made the file, and where it is described.
    firm, period : str, default "firm", "period"
        Columns, in lower case.
    outcome : str
        The column of the file that is next month's return; empty where it is made of ``returns``.
    returns : str
        The column with the month's own return, from which the outcome is made; empty where the file has the outcome.
    industry : sequence of str
        Code columns, the best first; the first that is there is taken.
    keep : dict of str to sequence of numbers
        Rows are kept where these columns, where they are there, hold one of the numbers.
    missing : dict of str to sequence of numbers
        Numbers that mean missing.
    absolute : sequence of str
        Columns whose sign is a flag.
    left : sequence of str
        Identifiers, prices in currency and other returns: never characteristics.
    lagged_by : str
        A column that holds last month's return, if rows are labelled by the month that is predicted: the timing is then
        inferred from the numbers.
    limits : sequence of str, default ()

    Examples
    --------
    >>> from peerattn.datasets import PRESETS
    >>> sorted(PRESETS)
    ['crsp_compustat', 'gu_kelly_xiu', 'jensen_kelly_pedersen', 'open_source_asset_pricing']
    """

    name: str
    title: str
    source: str
    firm: str
    period: str
    outcome: str = ""
    returns: str = ""
    industry: Sequence[str] = ()
    keep: dict[str, Sequence[float]] = field(default_factory=dict)
    missing: dict[str, Sequence[float]] = field(default_factory=dict)
    absolute: Sequence[str] = ()
    left: Sequence[str] = ()
    lagged_by: str = ""
    limits: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"Preset({self.name!r}: {self.title})"


_RULES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
PRESETS = {rules["name"]: Preset(**rules) for rules in _RULES}


@validate_arguments
def read_preset(
    source: Any,
    preset: str,
    *,
    outcome: ColumnLike | None = None,
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    industry: ColumnLike | None = None,
) -> Panel:
    """Read a panel whose file a preset knows.

    Parameters
    ----------
    source : path or frame
        As in :func:`~peerattn.panel.read_panel`. Column names are read in lower case where the preset's own are not there.
    preset : str
        One of ``PRESETS``: "crsp_compustat", "jensen_kelly_pedersen", "open_source_asset_pricing", "gu_kelly_xiu".
    outcome : str, optional
        Another column to predict, which must then hold next month's value itself.
    characteristics, codes, industry
        As in :func:`~peerattn.panel.read_panel`.

    Returns
    -------
    Panel
        Indexed by firm and month end. Where the file has no outcome it is ``ret_next``, the return of the month after, in
        decimals, looked up by firm and month: a firm that skips a month gets none.

    Raises
    ------
    InputError
        For an unknown preset, a file without its columns, or months that occur twice.

    Examples
    --------
    >>> frame = pd.DataFrame({"permno": [1, 1, 2, 2], "date": [20010131, 20010228] * 2, "RET": ["0.1", "C", 0.3, -0.2],
    ...                       "size": [1.0, 2.0, 3.0, 4.0], "siccd": [3711, 3711, 0, 0]})
    >>> panel = read_preset(frame, "crsp_compustat")
    >>> panel.choice.characteristics, panel.industry, panel.y.round(1).tolist()
    (('ret', 'size'), 'siccd', [nan, nan, -0.2, nan])
    """
    check_names("preset", "preset", [preset], PRESETS)
    rules = PRESETS[preset]
    frame, steps = _kept(_cleaned(_lower_case(read_frame(source), rules), rules), rules)
    month = frame[rules.period] = month_ends(frame[rules.period], rules.period)
    repeated = frame.duplicated([rules.firm, rules.period]).to_numpy()
    if repeated.any():
        firm = show_label(frame[rules.firm][repeated].iloc[0])
        raise InputError(f"{rules.firm}, {rules.period}: {firm} has {month[repeated].iloc[0]:%Y-%m} twice; keep one row a month.")
    if outcome is None:
        frame, outcome, how = _with_outcome(frame, rules)
        steps.append(how)
    elif outcome not in frame.columns and outcome.lower() in frame.columns:
        outcome = outcome.lower()
    industry = industry or next((name for name in rules.industry if name in frame.columns), None)
    # identifiers and other outcomes are left, unless they were named
    unused = {*rules.left} - {*codes, industry, outcome, *(characteristics or ())}
    return read_panel(
        frame.drop(columns=unused & {*frame.columns}),
        outcome=outcome,
        firm=rules.firm,
        period=rules.period,
        characteristics=characteristics,
        codes=codes,
        industry=industry,
        description=f"{rules.title} ({'; '.join(steps)})",
    )


def _lower_case(frame: pd.DataFrame, rules: Preset) -> pd.DataFrame:
    """Return a copy whose columns have the preset's names where they differ in case alone."""
    frame = flat(frame)
    known = {rules.firm, rules.period, rules.outcome, rules.returns, rules.lagged_by}
    known |= {*rules.industry, *rules.keep, *rules.missing, *rules.absolute, *rules.left}
    columns = list(map(str, frame.columns))
    renamed = {name: name.lower() for name in columns if name.lower() in known - {*columns}}
    columns = [renamed.get(name, name) for name in columns]
    for argument, name in (("firm", rules.firm), ("period", rules.period)):
        if name not in columns:
            have = f"{did_you_mean(name, columns)} Columns: {', '.join(columns[:20])}{', ...' * (len(columns) > 20)}."
            raise InputError(f"preset {rules.name!r}: the file has no {name!r}, its {argument}.{have}")
    return frame.set_axis(columns, axis=1).copy()


def _cleaned(frame: pd.DataFrame, rules: Preset) -> pd.DataFrame:
    """Return numbers as numbers, with codes of missing values as missing and flags taken off."""
    for name in {*rules.missing, *rules.absolute, "dlret", rules.returns, rules.outcome} & {*frame.columns}:
        # CRSP writes missing returns as letters
        numbers = pd.to_numeric(frame[name], errors="coerce").astype(float)
        frame[name] = numbers.mask(numbers.isin(rules.missing.get(name, ())))
    for name in {*rules.absolute} & {*frame.columns}:
        frame[name] = frame[name].abs()
    if {"dlret", rules.returns} <= {*frame.columns}:
        # the return of a delisting month is that of its days and of the delisting
        both = frame[[rules.returns, "dlret"]]
        frame[rules.returns] = (1 + both).prod(axis=1, min_count=1) - 1
    return frame


def _kept(frame: pd.DataFrame, rules: Preset) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that the preset keeps, and what it did in words."""
    steps = []
    for name in [name for name in rules.keep if name in frame.columns]:
        kept = pd.to_numeric(frame[name], errors="coerce").isin(rules.keep[name])
        steps.append(f"{name} in {list(rules.keep[name])}: {int((~kept).sum()):,} rows left out")
        frame = frame[kept]
    if not len(frame):
        raise InputError(f"preset {rules.name!r}: no row is left ({'; '.join(steps)}).")
    countries = sorted(map(str, frame.get("excntry", pd.Series(dtype=str)).unique()))
    if len(countries) > 1:
        several = f"several countries ({', '.join(countries[:6])}, ...), which do not form one cross-section"
        raise InputError(f"preset {rules.name!r}: the file holds {several}; keep one.")
    return frame.copy(), steps


def _with_outcome(frame: pd.DataFrame, rules: Preset) -> tuple[pd.DataFrame, str, str]:
    """Return the frame with its outcome, the outcome's name, and how it was made."""
    source = rules.outcome or rules.returns
    if source not in frame.columns:
        what = "the month's return"
        if rules.outcome:
            what = "next month's return"
        raise InputError(f"preset {rules.name!r}: no {source!r}, {what}; merge it, or name the outcome.")
    if rules.outcome:
        return frame, source, f"outcome {source} as in the file"
    returns = frame[source]
    month = frame[rules.period].dt.to_period("M")
    if rules.lagged_by in frame.columns:
        lagged = frame[rules.lagged_by].astype(float)
        before = lagged.corr(pd.Series(value_after(returns, frame[rules.firm], month, -1), frame.index))
        same = lagged.corr(returns)
        if not (before > _SAME_MONTH or same > _SAME_MONTH):
            neither = f"neither {source} of the same month (correlation {same:.2f}) nor of the month before ({before:.2f})"
            remedy = "Was the return merged by month end? Otherwise name the column to predict."
            wording = f"{rules.lagged_by} is {neither}, so the timing of the rows is not known"
            raise InputError(f"preset {rules.name!r}: {wording}. {remedy}")
        if before > _SAME_MONTH:  # rows are labelled by the month that is predicted
            how = f"outcome: {source} of the row's own month, which {rules.lagged_by} is a month before"
            return frame.rename(columns={source: "ret_next"}), "ret_next", how
    after = value_after(returns, frame[rules.firm], month)
    return frame.assign(ret_next=after), "ret_next", f"outcome: {source} of the month after"


def month_ends(period: pd.Series, name: str) -> pd.Series:
    """Return the last day of each row's month, from dates, yyyymmdd or yyyymm.

    >>> month_ends(pd.Series([201202, 20120229]), "date").dt.strftime("%Y-%m-%d").tolist()
    ['2012-02-29', '2012-02-29']
    """
    dates = period
    if pd.api.types.is_numeric_dtype(period.dtype):
        numbers = period.astype(float)
        texts = numbers.where(numbers > 999_999, numbers * 100 + 1).map("{:.0f}".format)
        dates = pd.to_datetime(texts, format="%Y%m%d", errors="coerce")
    elif not pd.api.types.is_datetime64_any_dtype(period.dtype):
        dates = pd.Series(timestamps(pd.Index(period), name), period.index)
    if dates.isna().any():
        raise InputError(f"{name}: {show_label(period[dates.isna()].iloc[0])} is not a date, yyyymmdd or yyyymm.")
    return (dates + pd.offsets.MonthEnd(0)).dt.normalize()
