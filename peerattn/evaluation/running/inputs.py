"""What a comparison is given, brought to one form: a checked panel in canonical row order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from peerattn.exceptions import InputError, did_you_mean
from peerattn.panel import PanelEncoder, PanelFrame, check_panel, panel_labels, read_panel
from peerattn.panel.columns import ColumnChoice
from peerattn.panel.frames import as_pandas

#: Names of the index levels of every frame that models get in a comparison.
LABELS = ("firm", "period")


@dataclass(frozen=True)
class ComparisonPanel:
    """The panel all models of a comparison see.

    Attributes
    ----------
    X : DataFrame
        Characteristics (float64) and codes (strings), sorted by period and firm; the index levels are named firm and
        period whatever the source calls them.
    y : Series
        Outcome on the same index; NaN where unknown.
    choice : ColumnChoice
        What was taken as characteristics and codes, and what was left.
    outcome : str
        Name of the outcome.
    description : str
        Where the panel comes from, if known.
    industry : str or None
        The code column of the industry.
    """

    X: pd.DataFrame
    y: pd.Series
    choice: ColumnChoice
    outcome: str
    description: str = ""
    industry: str | None = None


def comparison_panel(
    X: Any,
    y: Any = None,
    *,
    outcome: str | None = None,
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    firm: str = "firm",
    period: str = "period",
    industry: str | None = None,
) -> ComparisonPanel:
    """Return the panel that ``compare`` was given, checked.

    ``X`` may be a panel frame as ``read_panel`` returns it, characteristics beside ``y``, or a whole frame
    (or file) of which ``outcome`` names a column. See :func:`peerattn.evaluation.compare` for the
    parameters and errors.
    """
    if isinstance(X, PanelFrame):
        if not (y is None and outcome is None and characteristics is None):
            raise InputError(
                "X is a PanelFrame, which holds its outcome and characteristics; leave out y, outcome and "
                "characteristics, or pass X.X and your y."
            )
        frame, y, choice, description = X.X, X.y, X.choice, X.description
        firm, period, outcome = X.firm, X.period, X.outcome
        industry = industry or X.industry
    elif outcome is not None:
        if y is not None:
            raise InputError("pass y, or outcome= (a column of X), not both.")
        taken = read_panel(
            X,
            outcome=outcome,
            firm=firm,
            period=period,
            characteristics=characteristics,
            codes=codes,
            industry=industry,
        )
        frame, y, choice, description = taken.X, taken.y, taken.choice, ""
        firm, period = taken.firm, taken.period
    else:
        _check_pair(X, y, firm, period)
        frame, choice, description = as_pandas(X), None, ""
        if characteristics is not None:
            frame = _selected(
                frame, [*characteristics, *codes, *([industry] if industry else [])], firm, period
            )
        outcome = str(getattr(y, "name", None) or "outcome")
    declared = dict.fromkeys([*codes, *([industry] if industry else []), *(choice.codes if choice else ())])
    _refuse_missing_industry(industry, frame)
    checked = check_panel(
        PanelEncoder(), frame, y, fitting=True, firm=firm, period=period, codes=tuple(declared)
    )
    if checked.firm is None:
        raise InputError("X carries no firm and period.")
    index = pd.MultiIndex.from_arrays([checked.firm, checked.period], names=LABELS)
    both = pd.concat([checked.characteristics, checked.codes], axis=1).set_axis(index)
    if choice is None:
        choice = ColumnChoice(tuple(map(str, checked.characteristics)), tuple(map(str, checked.codes)))
    return ComparisonPanel(
        both, pd.Series(checked.y, index=index, name=outcome), choice, outcome, description, industry
    )


def _check_pair(X: Any, y: Any, firm: str, period: str) -> None:
    """Refuse what cannot be characteristics beside an outcome."""
    if y is None:
        raise InputError("y is missing: pass y beside X, or name the outcome's column of X with outcome=.")
    if isinstance(y, str):
        raise InputError(f"y is the text {y!r}; name a column of X with outcome={y!r}.")
    frame = as_pandas(X)
    if not isinstance(frame, pd.DataFrame) or panel_labels(frame, firm, period) is None:
        raise InputError(
            f"X must be a frame with firm and period, as index levels or columns named {firm!r} and {period!r}; "
            f"got {type(X).__name__}. Name yours with firm= and period=."
        )
    if not len(frame):
        raise InputError("X has no rows.")


def _selected(frame: pd.DataFrame, wanted: Sequence[str], firm: str, period: str) -> pd.DataFrame:
    """Return the wanted columns, and the labels where they are columns."""
    columns = [str(column) for column in frame.columns]
    for name in wanted:
        if name not in columns:
            raise InputError(f"characteristics: there is no column {name!r}.{did_you_mean(name, columns)}")
    keep = {*wanted, firm, period}
    return frame[[name for name in frame.columns if name in keep]]


def _refuse_missing_industry(industry: str | None, frame: pd.DataFrame) -> None:
    if industry is not None and industry not in frame.columns:
        raise InputError(
            f"industry: there is no column {industry!r}.{did_you_mean(industry, map(str, frame.columns))}"
        )
