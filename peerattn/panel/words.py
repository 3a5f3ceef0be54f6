"""Text in cells: numbers that other programs wrote as text, and words that mean missing."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError

#: Words for missing, in lower case. Among names they may be names: NA is a ticker, Namibia and North America.
WORDS = frozenset("na n/a #n/a #na <na> nan -nan null none nil missing n.a. n.a n.m. nm n.d. - -- – — .. ...".split())
#: Among numbers: empty; missing ones of SAS and Stata; errors of a spreadsheet.
MISSING_NUMBER = re.compile(r"|\.[A-Za-z_]?|#[A-Z0-9/]+[!?]|#N/A N/A")
_SPACE = " \u00a0\u2009\u202f"
_CURRENCY = r"(?:US|HK|CA|A|C|R)?\$|[€£¥₹₩₽]|USD|EUR|GBP|JPY|CHF|CNY|RMB|CAD|AUD|HKD|INR|KRW|BRL|SEK|NOK|DKK|PLN"
_BODY = (
    rf"[0-9]{{1,3}}(?P<mark>[.,'’{_SPACE}])[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*(?:(?!(?P=mark))[.,][0-9]*)?"
    r"|[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+"
)
_NUMBER = re.compile(
    rf"(?P<open>\()?(?P<sign>[-+−–]?)\s?(?P<before>{_CURRENCY})?\s?(?P<inner>[-−]?)(?P<body>{_BODY})"
    rf"(?P<power>[eE][-+]?[0-9]+)?\s?(?P<after>{_CURRENCY})?\s?(?P<unit>%|[A-Za-z]{{1,3}})?\s?(?P<last>{_CURRENCY})?"
    r"(?P<close>\))?"
)
_EVIDENT = re.compile(rf"\.(?![0]*$)|[,'’()%+−-]|[eE][0-9]|{_CURRENCY}|[0-9][{_SPACE}][0-9]")
_POWERS = {"": 0, "%": -2, "x": 0, "k": 3, "m": 6, "mm": 6, "mn": 6, "b": 9, "bn": 9}  # of ten, of each unit
_MOSTLY = 0.5  # share of cells that are numbers, above which the others are slips
_FIRST = 1000  # different texts that tell whether a column is one of names


@dataclass(frozen=True)
class ReadNumbers:
    """The numbers of a column of text.

    Attributes
    ----------
    values : Series of float64
        NaN where missing.
    note : str
        What was read as what, for a message.
    """

    values: pd.Series
    note: str


def missing_words(column: pd.Series) -> str:
    """Return how many cells of a column of names hold a word for missing, for a message; empty where none does.

    >>> missing_words(pd.Series(["NA", "EU", "NA"]))
    "'NA' in 2 cells"
    """
    if pd.api.types.is_numeric_dtype(column.dtype):
        return ""
    counts = column.value_counts()
    found = {level: n for level, n in counts.items() if n and isinstance(level, str) and level.strip().lower() in WORDS}
    return ", ".join(f"{word!r} in {n} cell{'s' * (n > 1)}" for word, n in found.items())


def read_numbers(column: pd.Series) -> ReadNumbers | None:
    """Return the numbers of a column of text; None where it holds names, or whole numbers, which may be codes.

    Read are decimals, thousands separators, per cent (as decimals), currencies, amounts in thousands (K), millions (M) and
    billions (B), and negative numbers in parentheses, where all cells of the column have one reading.

    Raises
    ------
    InputError
        Where a cell can be read in two ways, or is no number among numbers.

    Examples
    --------
    >>> found = read_numbers(pd.Series(["5.1%", "(2%)", "n.a."], name="growth"))
    >>> found.values.tolist(), found.note
    ([0.051, -0.02, nan], "'5.1%' as 0.051, 'n.a.' as missing")
    """
    if pd.api.types.infer_dtype(column, skipna=True) not in ("string", "categorical"):
        return None
    place, levels = pd.factorize(column)
    if getattr(column.dtype, "ordered", False) or not all(isinstance(level, str) for level in levels):
        return None
    texts = pd.Series([level.strip() for level in levels], dtype=object)
    missing = texts.map(is_missing).to_numpy(dtype=bool)
    known = texts[~missing]
    # names are distinguished from numbers by the first cells, before all are parsed
    if known[:_FIRST].map(_NUMBER.fullmatch).isna().mean() > 1 - _MOSTLY:
        return None
    parts = known.map(_NUMBER.fullmatch)
    numbers = parts.notna()
    evident = known.index[numbers & known.map(lambda text: bool(_EVIDENT.search(text)))]
    # whole numbers without any mark may be codes; a number with a superfluous 0 before it is one
    if not len(evident) or known.str.match(r"0[0-9]").any():
        return None
    if not numbers.all():
        counts = pd.Series(place).value_counts().reindex(known.index).fillna(0)
        # mostly names, of which a few look like numbers
        if counts[numbers].sum() < _MOSTLY * counts.sum():
            return None
        raise _unreadable(column, known[~numbers].iloc[0], f"is no number, though others such as {known[numbers].iloc[0]!r} are")
    _check_units(column, parts)
    mark = _decimal_mark(column, parts)
    values = pd.Series([_value(match, mark) for match in parts], known.index, dtype=float).reindex(texts.index)
    read = values.reindex(place).set_axis(column.index)
    read.name = column.name
    notes = [f"{levels[evident[0]]!r} as {values[evident[0]]:.6g}"]
    notes += [f"{levels[at]!r} as missing" for at in np.flatnonzero(missing)[:1] if texts[at]]
    return ReadNumbers(read, ", ".join(notes))


def is_missing(text: str) -> bool:
    """Return whether text in a column of numbers means missing.

    >>> [is_missing(text) for text in ("", "NA", ".a", "#DIV/0!", "0")]
    [True, True, True, True, False]
    """
    return text.lower() in WORDS or bool(MISSING_NUMBER.fullmatch(text))


def _unreadable(column: pd.Series, cell: str, why: str) -> InputError:
    row = int(np.argmax((column.astype(object).map(str).str.strip() == cell).to_numpy()))
    remedy = "Write plain numbers, such as 1234.5, or declare the column in codes"
    return InputError(f"column {column.name!r}: the cell {cell!r} (row {row}) {why}. {remedy}.")


def _check_units(column: pd.Series, parts: pd.Series) -> None:
    """Raise where a unit is unknown, or units differ between cells in a way that leaves a number open."""
    percent: dict[bool, str] = {}
    currencies: dict[str, str] = {}
    for match in parts:
        cell, unit = match.group(), (match["unit"] or "").lower()
        if unit not in _POWERS:
            raise _unreadable(column, cell, f"has the unit {match['unit']!r}, which is not known")
        signs = [bool(match[name]) for name in ("sign", "inner", "open")]
        if bool(match["open"]) != bool(match["close"]) or sum(signs) > 1:
            raise _unreadable(column, cell, "has signs or parentheses that contradict each other")
        if unit == "%" or re.search("[1-9]", match["body"]):  # 0 is 0 in per cent, too
            percent.setdefault(unit == "%", cell)
        for currency in filter(None, (match["before"], match["after"], match["last"])):
            currencies.setdefault(currency, cell)
    if len(percent) > 1:
        raise _unreadable(column, percent[True], f"is in per cent, others such as {percent[False]!r} are not")
    if len(currencies) > 1:
        first, other, *_ = currencies.values()
        raise _unreadable(column, first, f"is in another currency than {other!r}")


def _decimal_mark(column: pd.Series, parts: pd.Series) -> str:
    """Return the decimal mark of a column, a point or a comma; raise where its cells leave it open."""
    votes: dict[str, str] = {}
    unsure = None
    for match in parts:
        body = match["body"]
        marks = re.findall(r"[.,]", body)
        if len(set(marks)) == 2:
            votes.setdefault(marks[-1], match.group())
        elif len(marks) > 1:  # 1,234,567: the mark of thousands
            votes.setdefault({".": ",", ",": "."}[marks[0]], match.group())
        elif marks and (match["mark"] not in marks or body.startswith("0")):
            votes.setdefault(marks[0], match.group())
        elif marks == [","]:  # 5,100 is 5100 or 5.1
            unsure = unsure or match.group()
    if len(votes) > 1:
        raise _unreadable(column, votes[","], f"has a decimal comma, {votes['.']!r} a decimal point")
    if not votes and unsure:
        raise _unreadable(column, unsure, "has a comma of thousands or of decimals, and no other cell shows which")
    return next(iter(votes), ".")


def _value(match: re.Match[str], mark: str) -> float:
    """Return the number of a cell."""
    whole, _, rest = match["body"].partition(mark)
    digits = f"{re.sub('[^0-9]', '', whole) or '0'}.{rest or '0'}"
    # read with its power of ten, 5.1% is the very float that 0.051 is
    power = int((match["power"] or "e0")[1:]) + _POWERS[(match["unit"] or "").lower()]
    number = float(f"{digits}e{power}")
    if match["open"] or match["sign"] in ("-", "−", "–") or match["inner"]:
        return -number
    return number
