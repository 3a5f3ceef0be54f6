"""Fama–French industries from SIC codes: 12, 48 and 49 groups."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, checked
from peerattn.panel.codes import canonical_codes

#: SIC codes of each industry, in order of its number; the last, "Other", takes every code that no other one names.
#: Source: Kenneth R. French, Data Library, industry definitions ("Siccodes12", "Siccodes48", "Siccodes49"),
#: https://mba.tuck.dartmouth.edu/pages/faculty/ken.french/data_library.html; neighbouring ranges are joined.
TABLES = Path(__file__).with_name("fama_french.json")


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


@checked
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
    codes = canonical_codes(column.rename("sic"))
    known = codes.notna()
    for code in codes[known & ~codes.str.fullmatch(r"\d{4}").fillna(False).astype(bool)]:
        raise InputError(f"sic: {code!r} is not a SIC code: up to four digits are expected.")
    found = pd.Series(None, index=column.index, name=column.name, dtype="str")
    found[known] = _industry_of_code(industries)[codes[known].astype(int)]
    return found
