"""Which columns are characteristics: chosen openly, never guessed in silence."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import CodeWarning, InputError, check_names, validate_arguments, warn_user
from peerattn.foreign_text import visible
from peerattn.panel.codes import are_whole, looks_like_code
from peerattn.panel.words import missing_words, read_numbers
from peerattn.types import ColumnLike

_COPY = r"(?:\.\d+|_\d+|_x|_y|_duplicated_\d+)?"  # how merges and readers name a second column of one name
_LATER = rf"(_next|_lead|_fwd)\d*{_COPY}$|_lead|_fwd|^(next|lead|fwd)\d*_|t ?\+ ?\d+[)\]]?$"
_OTHER_OUTCOME = re.compile(rf"{_LATER}|^(outcome|target|y){_COPY}$", re.IGNORECASE)
_NEXT = re.compile(rf"_next{_COPY}$", re.IGNORECASE)
_SECOND = re.compile(r"(.+?)(?:\.\d+|_duplicated_\d+)")
_NO_NAME = re.compile(r"|Unnamed: ?\d+(_level_\d+)?|__index_level_\d+__|row[._]?names?", re.IGNORECASE)
_ROWS = re.compile(r"(index|obs|_n|no|nr|id|x|row[._]?(id|no|nr|num|number)?)(_1)?", re.IGNORECASE)
_RETURN = re.compile(r"(^|_)(ex|x|m|d|w)?ret(s|urns?|x|adj)?(_|\d|$)", re.IGNORECASE)
_DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{4})([ T][\d:.]+Z?)?")  # of years in four digits
LEAK_CORRELATION = 0.98


@dataclass(frozen=True)
class ColumnChoice:
    """The columns taken as characteristics and codes, and why each other one was left."""

    characteristics: tuple[str, ...]
    codes: tuple[str, ...]
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"characteristics ({len(self.characteristics)}): {', '.join(map(str, self.characteristics))}"]
        if self.codes:
            lines.append(f"codes ({len(self.codes)}): {', '.join(map(str, self.codes))}")
        why: dict[str, list[str]] = {}
        for column, reason in self.left.items():
            why.setdefault(reason, []).append(column)
        if why:
            lines.append("left out: " + "; ".join(f"{', '.join(names)} ({reason})" for reason, names in why.items()))
        return visible("\n".join(lines))


def looks_like_outcome(name: object) -> bool:
    """Return whether a column is named like an outcome.

    Those of later periods: ``*_next``, ``*_lead*``, ``*_fwd*``, ``next_*``, ``lead_*``, ``fwd_*``, ``* t+1``. And ``outcome``,
    ``target``, ``y``.

    >>> [looks_like_outcome(name) for name in ("ret_next", "lead1_roa", "ROA t+1", "lev", "leadership")]
    [True, True, True, False, False]
    """
    return bool(_OTHER_OUTCOME.search(str(name).strip()))


def named_like_return(outcome: str) -> bool:
    """Return whether an outcome is named like a return.

    >>> [named_like_return(name) for name in ("ret_next", "ret_exc_lead1m", "stock_return", "retention", "roa_next")]
    [True, True, True, False, False]
    """
    return bool(_RETURN.search(outcome))


@validate_arguments
def choose_columns(
    frame: pd.DataFrame,
    *,
    labels: Sequence[str],
    outcome: ColumnLike | None = None,
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
) -> ColumnChoice:
    """Choose the characteristics of a frame.

    By default every numeric column, except labels, outcome, codes, whatever is named like another outcome, and
    undeclared numeric codes.

    Parameters
    ----------
    frame : pandas.DataFrame
    labels : sequence of str
        Columns that hold firm and period.
    outcome : str, optional
    characteristics : sequence of str, optional
        Take exactly these.
    codes : sequence of str, default ()
        Columns that are codes.

    Raises
    ------
    InputError
        When a named column does not exist, does not hold numbers, or is an outcome.
    """
    columns = list(map(str, frame.columns))
    check_unique(pd.Index(columns))
    check_known("characteristics", characteristics or (), columns)
    check_known("codes", codes, columns)
    others = [name for name in columns if name not in {*labels, *codes, outcome}]
    # nobody has named columns: take the numbers, and keep a reason for each column that is left
    if characteristics is None:
        known = {*columns, *labels, *codes}
        why = {name: _reason_to_leave(frame[name], known, outcome) for name in others}
        chosen = [name for name in others if not why[name]]
    else:
        chosen = list(dict.fromkeys(characteristics))
        why = dict.fromkeys(others, "not requested")
        check_no_outcomes(chosen)
        for name in chosen:
            if name not in others:
                raise InputError(f"characteristics: {name!r} is already firm, period, outcome or code; name it once.")
            if not holds_numbers(frame[name]):
                kind = frame[name].dtype
                raise InputError(f"characteristics: {name!r} holds {kind}, not numbers; declare it in codes, or convert it.")
    if not chosen and not codes:
        raise InputError(f"no characteristics: none of the columns {columns} is a number that may be used.")
    return _chosen(frame, chosen, tuple(codes), {n: why[n] for n in others if n not in chosen})


def all_columns(frame: pd.DataFrame, codes: Sequence[object], labels: Sequence[object] = ()) -> ColumnChoice:
    """Return all columns of a frame of characteristics: codes are those declared and those of text.

    ``labels`` are the names of firm and period, of which a second column would be none.
    """
    check_unique(frame.columns)
    check_no_outcomes(list(frame.columns))
    check_known("codes", codes, frame.columns)
    for name in frame.columns:
        if (first := _first_of_name(name, {*frame.columns, *labels})) is not None:
            raise InputError(f"X: {name!r} is a second column {first!r}, numbered by the reader: drop or rename one.")
        if is_row_number(frame[name], strict=True):
            raise InputError(f"X: column {name!r} holds row numbers, or comes from a comma at the end of lines: drop it.")
    # text that spells numbers is a characteristic, other text a code
    found = [name for name in frame.columns if name in codes or (holds_text(frame[name]) and not holds_numbers(frame[name]))]
    for name in found:
        if name not in codes:
            _check_no_dates(frame[name])
    return _chosen(frame, [name for name in frame.columns if name not in found], tuple(found))


def _chosen(
    frame: pd.DataFrame, numbers: Sequence[Any], codes: tuple[Any, ...], left: Mapping[str, str] | None = None
) -> ColumnChoice:
    """Return the choice of these numbers, codes, and what was left; warn of what may be something else."""
    for name in filter(looks_like_code, numbers):
        if are_whole(pd.to_numeric(frame[name], errors="coerce")):
            message = f"column {name!r} looks like a code but is used as a number; declare it in codes=, or drop it from X."
            warn_user(CodeWarning(message))
    for name in numbers:
        read_with_warning(frame[name])
    for name in codes:
        warn_of_words(frame[name])
    return ColumnChoice(tuple(numbers), codes, dict(left or {}))


def read_with_warning(column: pd.Series, argument: str = "") -> pd.Series:
    """Return a column, one of text as the numbers that it spells, with a warning; other text as it is."""
    text = read_numbers(column)
    if text is None:
        return column
    warn_user(CodeWarning(f"{argument}column {column.name!r} is text and is read as numbers: {text.note}."))
    return text.values


def warn_of_words(names: pd.Series) -> None:
    """Warn where a column of names holds words such as NA, which are names here."""
    if words := missing_words(names):
        remedy = "leave the cells empty if they mean that it is missing"
        warn_user(CodeWarning(f"column {names.name!r} holds {words}, which is taken as a name: {remedy}."))


def check_unique(columns: pd.Index) -> None:
    """Raise an InputError when two columns have one name."""
    for name in columns[columns.duplicated()]:
        raise InputError(f"X has several columns named {name!r}: column names must be unique.")


def check_known(argument: str, names: Iterable[object], columns: Collection[object]) -> None:
    """Raise an InputError that names the argument when one of the names is no column."""
    check_names(argument, "column", [name for name in names if name is not None], columns)


def _reason_to_leave(column: pd.Series, known: Collection[object], outcome: str | None) -> str:
    """Return why a column is not taken where the caller names none; an empty text where it is."""
    if (first := _first_of_name(column.name, known)) is not None:
        return f"a second column {first}, numbered by the reader"
    if is_row_number(column):
        return "row numbers, or no name"
    if not holds_numbers(column):
        return "not a number; declare it in codes to use it"
    again = outcome is not None and str(column.name).strip().lower() == outcome.strip().lower()
    if again or looks_like_outcome(column.name):
        return "looks like another outcome"
    if looks_like_code(column.name) and are_whole(pd.to_numeric(column, errors="coerce")):
        return "looks like a code; declare it in codes to use it"
    return ""


def _first_of_name(name: object, known: Collection[object]) -> str | None:
    """Return the column that this one repeats, as pandas numbers the second ``size`` of a header ``size.1``; None of most."""
    second = _SECOND.fullmatch(str(name))
    if second and second[1] in known:
        return second[1]
    return None


def is_row_number(column: pd.Series, *, strict: bool = False) -> bool:
    """Return whether a column of numbers has no name of its own or counts rows; ``strict``: by its name alone.

    >>> is_row_number(pd.Series([3, 7], name="Unnamed: 0")), is_row_number(pd.Series([3.5, 7.1], name="size"))
    (True, False)
    """
    if not is_number(column):
        return False
    if _NO_NAME.fullmatch(str(column.name)):
        return True
    if strict or not pd.api.types.is_integer_dtype(column.dtype) or len(column) < 5 or column.hasnans:
        return False
    values = np.sort(column.to_numpy())  # of shuffled rows, too
    counts = values[0] in (0, 1) and bool((np.diff(values) == 1).all())
    # a filter leaves gaps in the numbers of rows, and sorting another order
    return (counts and len(values) >= 10) or (bool(_ROWS.fullmatch(str(column.name))) and column.is_unique)


def is_number(column: pd.Series) -> bool:
    """Return whether a column holds numbers, those of Python objects, decimals and missing values among them."""
    # by content, not by dtype: a column of objects may hold nothing but numbers
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind.startswith("mixed"):  # truth values beside numbers are numbers
        return all(isinstance(value, int | float | np.number | np.bool_ | Decimal) for value in column.dropna())
    return kind in ("integer", "floating", "boolean", "decimal", "mixed-integer-float")


def no_numbers(values: pd.Series | pd.DataFrame) -> str:
    """Return the kind of dates, durations and complex numbers, of which numpy would make floats; empty where there are none."""
    columns = [values]
    if isinstance(values, pd.DataFrame):
        columns = [values[name] for name in values]
    kinds = (pd.api.types.infer_dtype(getattr(column.dtype, "categories", column)) for column in columns)
    return next((kind for kind in kinds if kind.startswith(("complex", "date", "period", "timedelta"))), "")


def holds_numbers(column: pd.Series) -> bool:
    """Return whether a column holds numbers, or text that is read as such."""
    return is_number(column) or read_numbers(column) is not None


def holds_text(column: pd.Series) -> bool:
    """Return whether a column holds text or categories, and so is a code."""
    return pd.api.types.infer_dtype(column, skipna=True) in ("string", "categorical")


def _check_no_dates(column: pd.Series) -> None:
    """Raise where a column of text, by its first cells, holds dates, of which each would be a level of a code."""
    first = [cell for cell in column.dropna().iloc[:5] if isinstance(cell, str)]
    if first and all(_DATE.fullmatch(cell.strip()) for cell in first):
        remedy = "a characteristic is a number, a code is text or a category; declare it in codes= where it is one"
        raise InputError(f"column {column.name!r} of X holds dates such as {first[0]!r}: {remedy}.")


def check_no_outcomes(names: Sequence[object]) -> None:
    """Raise when a characteristic is named like next period's outcome (``*_next``)."""
    outcomes = [str(name) for name in names if _NEXT.search(str(name).strip())]
    if outcomes:
        wording = f"characteristics: {', '.join(map(repr, outcomes))} hold next period's outcomes"
        raise InputError(f"{wording} and would leak the future into the model; drop them from X.")


def possible_leaks(characteristics: pd.DataFrame, y: np.ndarray) -> list[str]:
    """Return the characteristics whose correlation with the outcome exceeds 0.98 in absolute value, over ten rows or more."""
    outcome = pd.Series(y, characteristics.index)
    with np.errstate(divide="ignore", invalid="ignore"):  # of constants
        found = {name: abs(x.corr(outcome, min_periods=10)) for name, x in characteristics.items()}
    return [str(name) for name, correlation in found.items() if correlation > LEAK_CORRELATION]
