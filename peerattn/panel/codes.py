"""Codes: SIC and other classifications that are names, whatever their dtype."""

import re
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pandas as pd

from peerattn.exceptions import InputError, checked
from peerattn.panel.words import WORDS

#: Classifications whose digits nest: the code of length k is a group of the code of length k + 1.
_SCHEMES = {
    "sic": r"h?sic(h|cd|code|_code|4)?$",
    "naics": "naics",
    "gics": "gics|gsubind|gind|ggroup|gsector",
}
_LOOKS_LIKE_CODE = re.compile(r"^(h?sic|naics|gics|ff\d|permno|permco|gvkey|cik)", re.IGNORECASE)
_UNKNOWN = {"sic": ("0000", "9999"), "plain": ()}  # "0" in other schemes
#: Floats beyond hold no longer each whole number: different codes would be one.
LARGEST_WHOLE = 2**53


@checked
def code_scheme(name: object) -> str:
    """Return ``"sic"``, ``"naics"``, ``"gics"`` or ``"plain"``, by the column's name.

    >>> code_scheme("siccd"), code_scheme("sic2")
    ('sic', 'plain')
    """
    matching = (scheme for scheme, pattern in _SCHEMES.items() if re.match(pattern, str(name).lower()))
    return next(matching, "plain")


def looks_like_code(name: object) -> bool:
    """Return whether a numeric column of this name is probably a code (``sic*``, ``ff49``, ``permno``, ...)."""
    return bool(_LOOKS_LIKE_CODE.match(str(name)))


def are_whole(values: npt.ArrayLike | pd.Series) -> bool:
    """Return whether the known values are whole numbers, some of them above 1: a code, not a mark of 0 and 1."""
    known = pd.Series(values).astype(float).replace([np.inf, -np.inf], np.nan).dropna()
    return bool((known == known.round()).all() and (known > 1).any())


@checked
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
    try:
        return _canonical(column, scheme or code_scheme(column.name))
    except UnicodeError as error:
        held = f"column {column.name!r} holds text that is no valid Unicode"
        raise InputError(f"{held}: replace or drop such characters ({ascii(str(error))[:120]}).") from error


def _canonical(column: pd.Series, scheme: str) -> pd.Series:
    """Return the one spelling of each code of a column."""
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
        raise InputError(f"{held} {level!r} as a float, which has lost digits: read it as whole numbers or text.")
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
