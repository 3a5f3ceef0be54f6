"""Which columns are characteristics: chosen openly, never guessed in silence."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import CodeWarning, InputError, check_names, checked, warn_user
from peerattn.panel.codes import are_whole, looks_like_code

_OTHER_OUTCOME = re.compile(r"(_next|_lead|_fwd)\d*$|(_lead|_fwd)|^(outcome|target|y)$", re.IGNORECASE)
_DECIMAL = re.compile(r"^[+-]?\d*\.\d*[1-9]\d*(?:e[+-]?\d+)?$|\de[+-]?\d", re.IGNORECASE)
_RETURN = re.compile(r"(^|_)(ex|x|m|d|w)?ret(s|urns?|x|adj)?(_|\d|$)", re.IGNORECASE)
LEAK_CORRELATION = 0.98


@dataclass(frozen=True)
class ColumnChoice:
    """The columns taken as characteristics and codes, and why each other one was left."""

    characteristics: tuple[str, ...]
    codes: tuple[str, ...]
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        used = {"characteristics": self.characteristics, **({"codes": self.codes} if self.codes else {})}
        lines = [f"{what} ({len(names)}): {', '.join(map(str, names))}" for what, names in used.items()]
        why: dict[str, list[str]] = {}
        for column, reason in self.left.items():
            why.setdefault(reason, []).append(column)
        left = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in why.items())
        return "\n".join([*lines, f"left out: {left}"] if left else lines)


def looks_like_outcome(name: object) -> bool:
    """Tell whether a column is named like an outcome (``*_next``, ``*_lead*``, ``*_fwd*``; ``outcome``, ``target``, ``y``).

    >>> looks_like_outcome("ret_next"), looks_like_outcome("lev")
    (True, False)
    """
    return bool(_OTHER_OUTCOME.search(str(name)))


def named_like_return(outcome: str) -> bool:
    """Tell whether an outcome is named like a return.

    >>> [named_like_return(name) for name in ("ret_next", "ret_exc_lead1m", "stock_return", "retention", "roa_next")]
    [True, True, True, False, False]
    """
    return bool(_RETURN.search(outcome))


@checked
def choose_columns(
    frame: pd.DataFrame,
    *,
    labels: Sequence[str],
    outcome: str | None = None,
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
    codes : sequence of str
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
    if characteristics is None:
        why = {name: _reason_to_leave(frame[name]) for name in others}
        chosen = [name for name in others if not why[name]]
    else:
        chosen = list(dict.fromkeys(characteristics))
        why = dict.fromkeys(others, "not requested")
        check_no_outcomes(chosen)
        for name in chosen:
            other = f"characteristics: {name!r} is already firm, period, outcome or code; name it once."
            if name not in others:
                raise InputError(other)
            text = f"characteristics: {name!r} holds {frame[name].dtype}, not numbers; declare it in codes, or convert it."
            if not is_number(frame[name]):
                raise InputError(text)
    none = f"no characteristics: none of the columns {columns} is a number that may be used."
    if not chosen and not codes:
        raise InputError(none)
    return _chosen(frame, chosen, tuple(codes), {n: why[n] for n in others if n not in chosen})


def all_columns(frame: pd.DataFrame, codes: Sequence[object]) -> ColumnChoice:
    """Return all columns of a frame of characteristics: codes are those declared and those of text."""
    check_unique(frame.columns)
    check_no_outcomes(list(frame.columns))
    check_known("codes", codes, frame.columns)
    found = [name for name in frame.columns if name in codes or holds_text(frame[name])]
    for name in found:
        example = None if name in codes else number_as_text(frame[name])
        stored = f"X: column {name!r} holds numbers stored as text, such as {example!r}"
        if example:
            raise InputError(f"{stored}: convert it with pandas.to_numeric, or declare it in codes.")
    return _chosen(frame, [name for name in frame.columns if name not in found], tuple(found))


def _chosen(frame: pd.DataFrame, numbers: Sequence[Any], *others: Any) -> ColumnChoice:
    """Return the choice of these numbers, codes, and what was left; warn of whole numbers under the name of a code."""
    for name in filter(looks_like_code, numbers):
        if are_whole(pd.to_numeric(frame[name], errors="coerce")):
            message = f"column {name!r} looks like a code but is used as a number; declare it in codes=, or drop it from X."
            warn_user(CodeWarning(message))
    return ColumnChoice(tuple(numbers), *others)


def check_unique(columns: pd.Index) -> None:
    """Raise an InputError when two columns have one name."""
    for name in columns[columns.duplicated()]:
        raise InputError(f"X has several columns named {name!r}: column names must be unique.")


def check_known(argument: str, names: Iterable[object], columns: Collection[object]) -> None:
    """Raise an InputError that names the argument when one of the names is no column."""
    check_names(argument, "column", [name for name in names if name is not None], columns)


def _reason_to_leave(column: pd.Series) -> str:
    """Return why a column is not taken where the caller names none; an empty text where it is."""
    if (example := number_as_text(column)) is not None:
        reason = f"numbers stored as text, such as {example!r}: convert with pandas.to_numeric"
        wording = f"column {column.name!r} is left out: it holds {reason}, or declare it in codes."
        warn_user(CodeWarning(wording))
        return reason
    if not is_number(column):
        return "not a number; declare it in codes to use it"
    if looks_like_outcome(column.name):
        return "looks like another outcome"
    return "looks like a code; declare it in codes to use it" if looks_like_code(column.name) else ""


def is_number(column: pd.Series) -> bool:
    """Tell whether a column holds numbers, those of Python objects and missing values among them."""
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind.startswith("mixed"):  # truth values beside numbers are numbers
        return all(isinstance(value, int | float | np.number | np.bool_) for value in column.dropna())
    return kind in ("integer", "floating", "boolean")


def holds_text(column: pd.Series) -> bool:
    """Tell whether a column holds text or categories, and so is a code."""
    return pd.api.types.infer_dtype(column, skipna=True) in ("string", "categorical")


def number_as_text(column: pd.Series) -> str | None:
    """Return an example where a column of text holds numbers with decimals, which no code has; else None.

    >>> number_as_text(pd.Series(["0.5", "-1.25e3", None])), number_as_text(pd.Series(["3711", "100"]))
    ('0.5', None)
    """
    if isinstance(column.dtype, pd.CategoricalDtype) or not holds_text(column):
        return None
    known = column.dropna().astype(str).str.strip()
    decimal = known[known.str.contains(_DECIMAL)]
    others = pd.to_numeric(known, errors="coerce").isna().mean()  # "NA", "." and the like
    return str(decimal.iloc[0]) if len(decimal) and others <= 0.05 else None


def check_no_outcomes(names: Sequence[object]) -> None:
    """Raise when a characteristic is named like next period's outcome (``*_next``)."""
    outcomes = [str(name) for name in names if str(name).endswith("_next")]
    wording = f"characteristics: {', '.join(map(repr, outcomes))} hold next period's outcomes"
    if outcomes:
        raise InputError(f"{wording} and would leak the future into the model; drop them from X.")


def possible_leaks(characteristics: pd.DataFrame, y: np.ndarray) -> list[str]:
    """Return the characteristics whose correlation with the outcome exceeds 0.98 in absolute value, over ten rows or more."""
    outcome = pd.Series(y, characteristics.index)
    with np.errstate(divide="ignore", invalid="ignore"):  # of constants
        found = {name: abs(x.corr(outcome, min_periods=10)) for name, x in characteristics.items()}
    return [str(name) for name, correlation in found.items() if correlation > LEAK_CORRELATION]
