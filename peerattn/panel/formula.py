"""A panel from a formula, as linearmodels and R's fixest write them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from peerattn.exceptions import InputError, check_names, checked, extra
from peerattn.panel.frames import read_frame, readable
from peerattn.panel.panel import Panel
from peerattn.panel.reading import read_panel


@checked
def from_formula(
    formula: str, frame: Any, *, firm: str = "firm", period: str = "period", **options: Any
) -> Panel:
    """Return the panel of a formula such as ``"roa_next ~ size + log(assets) | sic + year"``.

    Parameters
    ----------
    formula : str
        Outcome ~ characteristics | codes. Characteristics may be functions and interactions, as formulaic writes them:
        ``log(assets)``, ``size:lev``, ``poly(size, 2)``. Code columns follow the bar; the names of firm and period may
        be among them, and are labels in any case. ``roa_next ~ .`` takes every column that :func:`read_panel` would.
    frame : DataFrame or path
        One row for each firm and period.
    firm, period : str
        Names of the labels.
    **options
        Of :func:`read_panel`: ``industry``, ``known_at``, ``description``.

    Returns
    -------
    Panel
        For every estimator's ``fit``, for ``compare`` and ``audit``.

    Raises
    ------
    InputError
        For a formula without ``~``, or a column that does not exist.

    Notes
    -----
    A term whose columns are missing in a row is missing there; no row is dropped, for every firm is a peer. Transformations
    that are fitted (``scale(size)``) would see test rows and are refused.

    Examples
    --------
    >>> frame = pd.DataFrame({"firm": list("AB"), "period": 2001, "roa": [0.1, 0.2], "assets": [1.0, 2.0], "sic": [3711, 100]})
    >>> panel = from_formula("roa ~ log(assets) | sic + period", frame)
    >>> panel.outcome, list(panel.characteristics), list(panel.codes)
    ('roa', ['log(assets)'], ['sic'])
    """
    model_matrix = extra("formulaic", "regressions", "from_formula").model_matrix
    left, tilde, right = formula.partition("~")
    terms, _, after = right.partition("|")
    whole = tilde and left.strip() and terms.strip()
    if not whole:
        raise InputError(f"formula: expected 'outcome ~ characteristics | codes', got {formula!r}.")
    frame = read_frame(frame)
    frame = frame.reset_index() if frame.index.names != [None] else frame
    codes = [name for name in map(str.strip, after.split("+")) if name and name not in (firm, period)]
    for argument, names in {"firm": [firm], "period": [period], "formula": codes}.items():
        check_names(argument, "column", names, frame.columns)
    for fitted in ("scale(", "center(", "poly(", "bs(", "cs("):
        learns = f"formula: {fitted}...) learns from all rows, tested ones, too; put it in a Pipeline."
        if fitted in formula:
            raise InputError(learns)

    def columns_of(side: str) -> pd.DataFrame:
        with readable(f"formula: {side!r} cannot be read"):
            return pd.DataFrame(model_matrix(f"{side} - 1", frame, na_action="ignore", output="pandas"))

    outcome = left.strip()
    y = columns_of(outcome)
    if y.shape[1] != 1:
        raise InputError(f"formula: {outcome!r} makes {y.shape[1]} columns; the outcome is one.")
    table = frame
    used = None
    if terms.strip() != ".":
        x = columns_of(terms.strip())
        used = list(x.columns)
        table = pd.concat([frame[[firm, period, *codes]], x.drop(columns=outcome, errors="ignore")], axis=1)
    options |= {"firm": firm, "period": period, "codes": codes, "characteristics": used}
    return read_panel(table.assign(**{outcome: y.iloc[:, 0]}), outcome=outcome, **options)
