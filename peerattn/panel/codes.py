"""Codes: SIC and other classifications that are names, whatever their dtype."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, checked

#: Classifications whose digits nest: the code of length k is a group of the code of length k + 1.
_SCHEMES = {
    "sic": r"h?sic(h|cd|code|_code|4)?$",
    "naics": "naics",
    "gics": "gics|gsubind|gind|ggroup|gsector",
}
_LOOKS_LIKE_CODE = re.compile(r"^(h?sic|naics|gics|ff\d|permno|permco|gvkey|cik)", re.IGNORECASE)
_UNKNOWN_TEXT = {"", "nan", "none", "<na>"}
_UNKNOWN = {"sic": ("0000", "9999"), "plain": ()}  # "0" in other schemes


@checked
def code_scheme(name: object) -> str:
    """Return ``"sic"``, ``"naics"``, ``"gics"`` or ``"plain"``, by the column's name.

    >>> code_scheme("siccd"), code_scheme("sic2")
    ('sic', 'plain')
    """
    matching = (scheme for scheme, pattern in _SCHEMES.items() if re.match(pattern, str(name).lower()))
    return next(matching, "plain")


def looks_like_code(name: object) -> bool:
    """Tell whether a numeric column of this name is probably a code (``sic*``, ``ff49``, ``permno``, ...)."""
    return bool(_LOOKS_LIKE_CODE.match(str(name)))


def are_whole(values: Any) -> bool:
    """Tell whether the known values are whole numbers, some of them above 1: a code, not a mark of 0 and 1."""
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
    scheme = scheme or code_scheme(column.name)
    if column.dtype == object:  # of which True and 1 would be one level
        column = column.astype("str")
    kept = isinstance(column.dtype, pd.CategoricalDtype)
    place, levels = (column.cat.codes.to_numpy(), column.cat.categories) if kept else pd.factorize(column)
    texts = _texts(pd.Series(levels, name=column.name))
    spelled = pd.Series([_spelled(text, scheme) for text in texts], dtype="str", name=column.name)
    return spelled.reindex(place).set_axis(column.index)  # -1 is missing


def _texts(levels: pd.Series) -> pd.Series:
    """Return each level as text; numbers that are not whole are refused."""
    if pd.api.types.is_bool_dtype(levels.dtype) or not pd.api.types.is_numeric_dtype(levels.dtype):
        return levels.astype("str")
    numbers = levels.to_numpy(dtype=float, na_value=np.nan)
    broken = numbers[(np.abs(numbers) > 2**62) | (np.isfinite(numbers) & (np.round(numbers) != numbers))]
    for value in broken:
        held = f"column {levels.name!r} is declared as a code but holds {'infinity' if np.isinf(value) else value}: "
        remedy = "codes are whole numbers or text, NaN where unknown. Drop it from codes= to use it as a characteristic."
        raise InputError(held + remedy)
    return pd.Series(numbers).astype("Int64").astype("str")


def _spelled(text: str, scheme: str) -> str | None:
    """Return the one spelling of a code, None where it stands for an unknown one."""
    code = text.strip()
    if code.endswith(".0") and code[:-2].isdigit():
        code = code[:-2]
    if scheme == "sic" and code.isdigit():
        code = code.zfill(4)
    return None if code.lower() in _UNKNOWN_TEXT or code in _UNKNOWN.get(scheme, ("0",)) else code
