"""Column presets: the names, timing, missing codes and filters of the panel files the field has.

A preset knows how a source spells its file; it holds no data. The panel's description says what it did, and its ``limits`` what a
reader must know of the source.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peerattn.datasets.embedded import value_after
from peerattn.exceptions import InputError, checked, did_you_mean, unknown_name
from peerattn.panel import Panel, read_panel
from peerattn.panel.frames import read_frame

_SAME_MONTH = 0.9  # correlation above which two columns of returns are one


@dataclass(frozen=True)
class Preset:
    """How one source spells its panel.

    Attributes
    ----------
    name, title : str
    source : str
        Who made the file, and where it is described.
    firm, period : str
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
    limits : tuple of str
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
    limits: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Preset({self.name!r}: {self.title})"


def _presets() -> dict[str, Preset]:
    """Return the presets of the data file beside this one."""
    stored: Any = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    as_tuples: Any = (
        {k: tuple(v) if isinstance(v, list) else v for k, v in rules.items()} for rules in stored
    )
    return {rules["name"]: Preset(**rules) for rules in as_tuples}


PRESETS = _presets()


@checked
def read_preset(
    source: Any,
    preset: str,
    *,
    outcome: str | None = None,
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    industry: str | None = None,
) -> Panel:
    """Read a panel whose file a preset knows.

    Parameters
    ----------
    source : path or frame
        As in :func:`peerattn.read_panel`. Column names are read in lower case where the preset's own are not there.
    preset : str
        One of ``PRESETS``: "crsp_compustat", "jensen_kelly_pedersen", "open_source_asset_pricing", "gu_kelly_xiu".
    outcome : str, optional
        Another column to predict, which must then hold next month's value itself.
    characteristics, codes, industry
        As in :func:`peerattn.read_panel`.

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
    if preset not in PRESETS:
        raise unknown_name("preset", "preset", preset, PRESETS)
    rules = PRESETS[preset]
    frame = _lower_case(read_frame(source), rules)
    frame = _cleaned(frame, rules)
    frame, steps = _kept(frame, rules)
    month = month_ends(frame[rules.period], rules.period)
    repeated = pd.DataFrame({"f": frame[rules.firm], "m": month}).duplicated()
    if repeated.any():
        row = int(np.argmax(repeated.to_numpy()))
        raise InputError(
            f"{rules.firm}, {rules.period}: {frame[rules.firm].iloc[row]} has {month.iloc[row]:%Y-%m} twice; keep "
            "one row a month."
        )
    frame[rules.period] = month
    if outcome is None:
        frame, outcome, how = _with_outcome(frame, rules)
        steps.append(how)
    elif outcome.lower() in frame.columns and outcome not in frame.columns:
        outcome = outcome.lower()
    industry = industry or next((name for name in rules.industry if name in frame.columns), None)
    wanted = {*codes, industry, outcome, *(characteristics or ())}
    frame = frame.drop(columns=[name for name in rules.left if name in frame.columns and name not in wanted])
    return read_panel(
        frame,
        outcome=outcome,
        firm=rules.firm,
        period=rules.period,
        characteristics=characteristics,
        codes=codes,
        industry=industry,
        description=f"{rules.title} ({'; '.join(steps)})",
    )


def _lower_case(frame: pd.DataFrame, rules: Preset) -> pd.DataFrame:
    frame = frame.reset_index() if frame.index.names != [None] else frame
    columns = [str(name) for name in frame.columns]
    known = {rules.firm, rules.period, rules.outcome, rules.returns, rules.lagged_by}
    known |= {*rules.industry, *rules.keep, *rules.missing, *rules.absolute, *rules.left}
    renamed = [
        name.lower() if name.lower() in known and name.lower() not in columns else name for name in columns
    ]
    frame = frame.set_axis(renamed, axis=1)
    for argument, name in (("firm", rules.firm), ("period", rules.period)):
        if name not in renamed:
            raise InputError(
                f"preset {rules.name!r}: the file has no {name!r}, its {argument}.{did_you_mean(name, renamed)} "
                f"Columns: {', '.join(renamed[:20])}{', ...' if len(renamed) > 20 else ''}."
            )
    return frame.copy()


def _cleaned(frame: pd.DataFrame, rules: Preset) -> pd.DataFrame:
    """Return numbers as numbers, with codes of missing values as missing and flags taken off."""
    for name in {*rules.missing, rules.returns, rules.outcome} & set(frame.columns):
        # CRSP writes missing returns as letters
        numbers = pd.to_numeric(frame[name], errors="coerce").astype(float)
        frame[name] = numbers.mask(numbers.isin(rules.missing.get(name, ())))
    for name in set(rules.absolute) & set(frame.columns):
        frame[name] = frame[name].abs()
    if {"dlret", rules.returns} <= set(frame.columns):
        both = (1 + frame[rules.returns].fillna(0)) * (1 + frame["dlret"].fillna(0)) - 1
        frame[rules.returns] = both.where(frame[rules.returns].notna() | frame["dlret"].notna())
    return frame


def _kept(frame: pd.DataFrame, rules: Preset) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that the preset keeps, and what it did in words."""
    steps = []
    for name, values in rules.keep.items():
        if name in frame.columns:
            kept = pd.to_numeric(frame[name], errors="coerce").isin(list(values)).to_numpy()
            steps.append(f"{name} in {list(values)}: {int((~kept).sum()):,} rows left out")
            frame = frame[kept]
    if not len(frame):
        raise InputError(f"preset {rules.name!r}: no row is left ({'; '.join(steps)}).")
    if "excntry" in frame.columns and frame["excntry"].nunique() > 1:
        countries = ", ".join(sorted(map(str, frame["excntry"].unique()))[:6])
        raise InputError(
            f"preset {rules.name!r}: the file holds several countries ({countries}, ...), which do not form one "
            "cross-section; keep one."
        )
    return frame.copy(), steps


def _with_outcome(frame: pd.DataFrame, rules: Preset) -> tuple[pd.DataFrame, str, str]:
    """Return the frame with its outcome, the outcome's name, and how it was made."""
    if rules.outcome:
        if rules.outcome not in frame.columns:
            raise InputError(
                f"preset {rules.name!r}: the file has no {rules.outcome!r}; name the column to predict."
            )
        return frame, rules.outcome, f"outcome {rules.outcome} as in the file"
    if rules.returns not in frame.columns:
        raise InputError(
            f"preset {rules.name!r}: the file has no {rules.returns!r}, the month's return; merge it, or name the "
            "column to predict."
        )
    if rules.lagged_by in frame.columns and _by_predicted_month(frame, rules):
        frame = frame.rename(columns={rules.returns: "ret_next"})
        return (
            frame,
            "ret_next",
            f"outcome: {rules.returns} of the row's own month, which {rules.lagged_by} is a month before",
        )
    after = value_after(frame[rules.returns], frame[rules.firm], _month_numbers(frame[rules.period]))
    return frame.assign(ret_next=after), "ret_next", f"outcome: {rules.returns} of the month after"


def _by_predicted_month(frame: pd.DataFrame, rules: Preset) -> bool:
    """Return whether rows are labelled by the month that is predicted: the lagged return is then that of the month before."""
    before = value_after(frame[rules.returns], frame[rules.firm], _month_numbers(frame[rules.period]), -1)
    known = frame[rules.lagged_by].astype(float)
    agreement = {
        "before": known.corr(pd.Series(before, index=frame.index)),
        "same": known.corr(frame[rules.returns]),
    }
    if not any(value > _SAME_MONTH for value in agreement.values()):
        raise InputError(
            f"preset {rules.name!r}: {rules.lagged_by} is neither {rules.returns} of the same month (correlation "
            f"{agreement['same']:.2f}) nor of the month before ({agreement['before']:.2f}), so the timing of the rows is not "
            "known. Was the return merged by month end? Otherwise name the column to predict."
        )
    return bool(agreement["before"] > _SAME_MONTH)


def _month_numbers(month: pd.Series) -> pd.Series:
    return month.dt.year * 12 + month.dt.month


def month_ends(period: pd.Series, name: str) -> pd.Series:
    """Return the last day of each row's month, from dates, yyyymmdd or yyyymm.

    >>> month_ends(pd.Series([201202, 20120229]), "date").dt.strftime("%Y-%m-%d").tolist()
    ['2012-02-29', '2012-02-29']
    """
    if pd.api.types.is_numeric_dtype(period.dtype):
        numbers = period.astype(float)
        text = numbers.where(numbers > 999_999, numbers * 100 + 1).map("{:.0f}".format)
        dates = pd.to_datetime(text, format="%Y%m%d", errors="coerce")
    else:
        dates = pd.to_datetime(period, errors="coerce")
    if dates.isna().any():
        raise InputError(f"{name}: {period[dates.isna()].iloc[0]!r} is not a date, yyyymmdd or yyyymm.")
    return (dates + pd.offsets.MonthEnd(0)).dt.normalize()
