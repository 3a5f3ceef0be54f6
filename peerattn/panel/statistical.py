"""Files of Stata, SAS and SPSS: dates are dates, and numbers with value labels are names."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from peerattn.exceptions import CodeWarning, extra, warn_user
from peerattn.panel.codes import code_scheme

#: Endings of the files, and the functions of pyreadstat that read them.
STATISTICAL = {".dta": "read_dta", ".sas7bdat": "read_sas7bdat", ".xpt": "read_xport", ".sav": "read_sav"}
_STATA = re.compile(r"%-?t?([mqhw])(?![0-9.])")  # counts of months, quarters, half-years, weeks since 1960
# days since 1960; whole names, since files have formats of their own, such as MONEY or YEARGROUP
_SAS = re.compile(
    r"(DATE|DAY|(DDMMYY|MMDDYY|MMYY|YYMM(DD)?)[BCDNPS]?|DOWNAME|JULDAY|JULIAN|MONNAME|MONTH|MONYY|NLDATE[A-Z]*|QTRR?"
    r"|WEEK(DAT[EX]|DAY|[UVW])|WORDDAT[EX]|YEAR|YYMON|YYQR?[CDNPSZ]?|YYWEEK[UVW]|[BE]8601DA)\d*(\.\d*)?$"
)
_SPSS = re.compile(r"(MOYR|QYR|WKYR|[AEJS]?DATE)(?!TIME)")  # seconds since 14 October 1582
_A_YEAR = {"m": 12, "q": 4, "h": 2, "w": 52}


def read_statistical_file(path: Path) -> pd.DataFrame:
    """Read a file of Stata, SAS or SPSS; missing values of every letter are NaN.

    Numbers with a label for each value become the labels, and ``attrs["value_labels"]`` keeps their numbers; classifications
    such as SIC stay numbers, whose digits mean something. Dates of every format become dates or periods.
    """
    tool = extra("pyreadstat", "stata", f"{path.name}, a file of Stata, SAS or SPSS,")
    kind = path.suffix.lower()
    frame, about = getattr(tool, STATISTICAL[kind])(path)
    for name, form in about.original_variable_types.items():
        if pd.api.types.is_numeric_dtype(frame[name].dtype):
            frame[name] = _dates(frame[name], str(form or ""), kind)
    kept = {}
    for name, labels in about.variable_value_labels.items():
        if numbers := _numbers_of_labels(frame[name], labels):
            # the names of values take the place of their numbers
            frame[name] = frame[name].map({number: label for label, number in numbers.items()})
            kept[name] = numbers
    made = pd.DataFrame(frame)
    made.attrs["value_labels"] = kept
    return made


def _dates(counts: pd.Series, form: str, kind: str) -> pd.Series:
    """Return counts of days, weeks, months ... as dates, by the format of the column."""
    # a count of days or months is whole; anything else is a number that only looks dated
    known = counts.dropna()
    if not len(known) or (known % 1 != 0).any():
        return counts
    if kind == ".sav" and _SPSS.match(form):
        return pd.Timestamp("1582-10-14") + pd.to_timedelta(counts, "s")
    if kind in (".sas7bdat", ".xpt") and _SAS.match(form):
        return pd.Timestamp("1960-01-01") + pd.to_timedelta(counts, "D")
    unit = _STATA.match(form)
    if kind != ".dta" or unit is None:
        return counts
    n = _A_YEAR[unit[1]]
    if unit[1] in "mq":
        # pandas counts from 1970, ten years later
        periods = pd.arrays.PeriodArray((known - 10 * n).to_numpy("int64"), dtype=pd.PeriodDtype(unit[1].upper()))
        return pd.Series(periods, known.index, name=counts.name).reindex(counts.index)
    years = pd.to_datetime((1960 + known // n).astype(int).astype(str), format="%Y")
    # a week of Stata begins seven days after the one before, the first on 1 January
    step = {"h": pd.DateOffset(months=6), "w": pd.DateOffset(days=7)}[unit[1]]
    starts = [year + int(part) * step for year, part in zip(years, known % n)]
    return pd.Series(pd.DatetimeIndex(starts), known.index, name=counts.name).reindex(counts.index)


def _numbers_of_labels(column: pd.Series, labels: Mapping[Any, str]) -> dict[str, Any]:
    """Return the value of each label, where all values have one; empty where the column stays as it is."""
    values = column.dropna().unique().tolist()
    named = [value for value in values if value in labels]
    if not named or code_scheme(column.name) != "plain":
        return {}
    if len(named) < len(values):
        such = f"{_written(named[0])} is labelled {labels[named[0]]!r}, but other values have no label"
        message = f"column {column.name!r}: {such}: it is read as numbers; make such values missing, or declare it in codes."
        warn_user(CodeWarning(message))
        return {}
    texts = [str(labels[value]).strip() for value in values]
    twice = {text for text in texts if texts.count(text) > 1}
    # two values of one label stay two
    return {text + f" ({_written(value)})" * (text in twice): value for text, value in zip(texts, values)}


def _written(value: object) -> str:
    """Return a value as its column has it: text in quotation marks, a whole float without its point."""
    if isinstance(value, float):
        return f"{value:.15g}"
    return repr(value)
