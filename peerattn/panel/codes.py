"""Codes: SIC and other classifications that are names, whatever their dtype; the Fama–French industries of SIC codes."""

import json
import re
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from peerattn.exceptions import InputError, reworded, validate_arguments
from peerattn.panel.words import WORDS

#: Classifications whose digits nest: the code of length k is a group of the code of length k + 1.
_SCHEMES = {"sic": r"h?sic(h|cd|code|_code|4)?$", "naics": "naics", "gics": "gics|gsubind|gind|ggroup|gsector"}
_LOOKS_LIKE_CODE = re.compile(r"(h?sic|naics|gics|ff\d|permno|permco|gvkey|cik)", re.IGNORECASE)
_NAMES_A_GROUP = re.compile(r"firm|id|(sub_?)?industry|sector|country|state|region", re.IGNORECASE)
#: What the codes of these are, and how messages put it.
_FORMS = {"sic": (r"\d{4}", "four"), "naics": (r"\d{1,6}(-\d\d)?", "six"), "gics": (r"\d{1,8}", "eight")}
_FIRST_SIC = "0100"  # agriculture: what is below numbers groups of another kind
_UNKNOWN = {"sic": ("0000", "9999"), "plain": ()}  # "0" in other schemes
#: Floats beyond hold no longer each whole number: different codes would be one.
LARGEST_WHOLE = 2**53
#: SIC codes of each industry, in order of its number; the last, "Other", takes every code that no other one names.
#: Source: Kenneth R. French, Data Library, industry definitions ("Siccodes12", "Siccodes48", "Siccodes49"),
#: https://mba.tuck.dartmouth.edu/pages/faculty/ken.french/data_library.html; neighbouring ranges are joined.
TABLES = Path(__file__).with_name("fama_french.json")


@validate_arguments
def code_scheme(name: object) -> str:
    """Return ``"sic"``, ``"naics"``, ``"gics"`` or ``"plain"``, by the column's name.

    >>> code_scheme("siccd"), code_scheme("sic2")
    ('sic', 'plain')
    """
    matching = (scheme for scheme, pattern in _SCHEMES.items() if re.match(pattern, str(name).lower()))
    return next(matching, "plain")


def looks_like_code(name: object) -> bool:
    """Return whether a numeric column of this name is probably a code (``sic*``, ``ff49``, ``permno``, ``country``, ...)."""
    return bool(_LOOKS_LIKE_CODE.match(str(name)) or _NAMES_A_GROUP.fullmatch(str(name)))


def are_whole(values: npt.ArrayLike | pd.Series) -> bool:
    """Return whether the known values are whole numbers, some of them above 1: a code, not a mark of 0 and 1."""
    known = pd.Series(values).astype(float).replace([np.inf, -np.inf], np.nan).dropna()
    return bool((known == known.round()).all() and (known > 1).any())


@validate_arguments
def canonical_codes(column: pd.Series, scheme: str | None = None) -> pd.Series:
    """Return codes as strings, one spelling a code; unknown codes are NA.

    Parameters
    ----------
    column : pandas.Series
        Integers, floats, strings or categories.
    scheme : {"sic", "naics", "gics", "plain"}, optional
        By default read from the column's name. SIC codes are padded to four digits; 0 and 9999 mean unknown.

    Raises
    ------
    InputError
        When the column holds numbers that are not whole.

    Examples
    --------
    >>> import pandas as pd
    >>> canonical_codes(pd.Series([100, 3711.0, 0, None], name="sic")).tolist()
    ['0100', '3711', nan, nan]
    """
    scheme = scheme or code_scheme(column.name)
    with reworded(f"column {column.name!r} holds text that is no valid Unicode", " Replace or drop it.", UnicodeError):
        if column.dtype == object:  # value by value, because of 1, 1.0 and True pandas makes one level
            column = column.map(lambda value: _text(value, column.name), na_action="ignore").astype("str").where(column.notna())
        # each level is spelled once, not each row: a panel has millions of rows and hundreds of codes
        place, levels = pd.factorize(column)
        texts = [_spelled(_text(level, column.name), scheme) for level in levels.tolist()]
        return pd.Series(texts, dtype="str", name=column.name).reindex(place).set_axis(column.index)  # -1 is missing


def _text(level: object, name: object) -> str:
    """Return a code as text; numbers that are not whole, or of which digits are lost, raise an error."""
    if not isinstance(level, float | np.floating | Decimal):
        return str(level)
    held = f"column {name!r} is declared as a code but holds"
    remedy = "codes are whole numbers or text, NaN where unknown. Drop it from codes= to use it as a characteristic."
    if not np.isfinite(float(level)):
        raise InputError(f"{held} infinity: {remedy}")
    if level != int(level):
        raise InputError(f"{held} {level}: {remedy}")
    if not isinstance(level, Decimal) and abs(float(level)) >= LARGEST_WHOLE:
        raise InputError(f"{held} {level} as a float, which has lost digits: read it as whole numbers or text.")
    return str(int(level))


def _spelled(text: str, scheme: str) -> str | None:
    """Return the one spelling of a code, None where it means unknown."""
    code = text.strip()
    if code.endswith(".0") and code[:-2].isdigit():
        code = code[:-2]
    if scheme == "sic" and code.isdigit():
        code = code.zfill(4)
    # "NA" is no number of a classification, but may be the name of a region
    if code in ("", ".", *_UNKNOWN.get(scheme, ("0",))) or (scheme != "plain" and code.lower() in WORDS):
        return None
    return code


def nested_codes(column: pd.Series, scheme: str) -> pd.Series:
    """Return the codes of a classification whose digits nest; an InputError where a value is no such code.

    >>> nested_codes(pd.Series([100, 3711.0], name="industry"), "sic").tolist()
    ['0100', '3711']
    """
    codes = canonical_codes(column, scheme)
    if fault := fault_of_codes(codes, scheme):
        remedy = 'Models take other codes with scheme="plain", or under another name of the column'
        raise InputError(f"{column.name}: {fault}. {remedy}.")
    return codes


def fault_of_codes(codes: pd.Series, scheme: str) -> str:
    """Return which of some canonical codes is none of a classification whose digits nest; empty where all are."""
    form, digits = _FORMS[scheme]
    for code in codes.dropna().unique():
        if not re.fullmatch(form, code):
            return f"{code!r} is not a {scheme.upper()} code: up to {digits} digits are expected"
    return ""


def check_sic(column: pd.Series, scheme: str) -> None:
    """Raise an InputError where a column to be grouped by ``scheme`` holds numbers of groups, and no SIC codes."""
    codes = nested_codes(column, "sic").dropna().unique()
    if len(codes) and max(codes) < _FIRST_SIC:
        held = ", ".join(code.lstrip("0") for code in sorted(codes)[:3])
        remedy = "leave scheme out, or name a column of SIC codes"
        raise InputError(f"scheme={scheme!r} groups SIC codes; column {column.name!r} holds {held}: {remedy}.")


@cache
def fama_french(industries: int) -> dict[str, str]:
    """Return the ranges of SIC codes of each industry of one set."""
    table: dict[str, str] = json.loads(TABLES.read_text(encoding="utf-8"))[str(industries)]
    return table


def _industry_of_code(industries: int) -> np.ndarray:
    """Return the industry of every SIC code from 0 to 9999."""
    names = np.full(10_000, "Other", dtype=object)
    for name, ranges in fama_french(industries).items():
        for both in ranges.split():
            first, _, last = both.partition("-")
            names[int(first) : int(last or first) + 1] = name
    return names


@validate_arguments
def sic_to_fama_french(sic: Any, industries: Literal[12, 48, 49] = 49) -> Any:
    """Return the Fama–French industry of SIC codes.

    Parameters
    ----------
    sic : Series, sequence, or one code
        SIC codes as numbers or text; 0, 9999 and NaN mean unknown.
    industries : {12, 48, 49}, default 49
        Which set.

    Returns
    -------
    Series of str on the index of ``sic`` (one str or None for one code)
        Short names such as "BusEq"; NA = unknown. A code that no industry names is "Other".

    Raises
    ------
    InputError
        For another set, or values that are not SIC codes.

    Notes
    -----
    Kenneth French leaves codes outside his lists without an industry, and assigns codes by CRSP's historical SIC and
    Compustat's; here such codes are "Other", and the code given is used.

    References
    ----------
    Fama, E. F. and French, K. R. (1997), Industry costs of equity, Journal of Financial Economics 43(2); definitions of
    Kenneth R. French's Data Library.

    Examples
    --------
    >>> sic_to_fama_french(3711, 49), sic_to_fama_french("7372", 12)
    ('Autos', 'BusEq')
    >>> sic_to_fama_french(pd.Series([100, 7372, None], index=["A", "B", "C"]), 49).tolist()
    ['Agric', 'Softw', nan]
    """
    if np.ndim(sic) == 0:
        found = sic_to_fama_french([sic], industries).dropna()
        return next(iter(found), None)
    column = sic
    if not isinstance(sic, pd.Series):
        column = pd.Series(list(sic))
    codes = nested_codes(column.rename("sic"), "sic")
    known = codes.notna()
    found = pd.Series(None, index=column.index, name=column.name, dtype="str")
    found[known] = _industry_of_code(industries)[codes[known].astype(int)]
    return found
