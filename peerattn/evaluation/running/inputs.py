"""What a comparison is given, brought to one form: a panel in canonical row order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from peerattn.exceptions import check_names, expect, refuse
from peerattn.models.reference import Reference
from peerattn.panel import Panel, as_panel, read_panel
from peerattn.panel.frames import as_pandas, read_frame
from peerattn.panel.gate import examine
from peerattn.panel.labels import panel_labels
from peerattn.panel.stored import StoredPanel, is_stored, scan_panel

#: Names of the index levels of every frame that models get in a comparison.
LABELS = ("firm", "period")


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
    reference: Any = None,
) -> Panel:
    """Return the panel that ``compare`` was given, its rows sorted by period and firm.

    ``X`` may be a panel, characteristics beside ``y``, or a whole frame (or file) of which ``outcome`` names a column. See
    :func:`peerattn.evaluation.compare` for the parameters and errors.
    """
    options: dict[str, Any] = {"codes": codes, "industry": industry, "firm": firm, "period": period}
    if is_stored(X) and not (isinstance(X, str | Path) and Path(X).is_file()):
        panel = _of_files(X, y, outcome=outcome, characteristics=characteristics, **options)
    elif outcome is not None and y is None and not isinstance(X, Panel):
        panel = read_panel(X, outcome=outcome, characteristics=characteristics, **options)
    else:
        twice = isinstance(X, Panel) and X.outcomes is not None and y is not None
        refuse(twice, "X is a Panel, which holds its outcome; leave out y, or pass X.X and your y.")
        refuse(isinstance(y, str), f"y is the text {y!r}; name a column of X with outcome={y!r}.")
        missing = y is None and not isinstance(X, Panel)
        refuse(missing, "y is missing: pass y beside X, or name the outcome's column of X with outcome=.")
        if industry is not None and hasattr(X, "columns"):
            check_names("industry", "column", [industry], X.columns)
        dated = X.dated if isinstance(X, Panel) else panel_labels(as_pandas(X), firm, period) is not None
        got = f"got {type(X).__name__}. Name yours with firm= and period=."
        named = f"X must be a panel with firm and period, as index levels or columns named {firm!r} and {period!r}"
        refuse(not dated, f"{named}; {got}")
        panel = as_panel(X, y, outcome=outcome, characteristics=characteristics, **options)
    panel = panel.with_outcomes(panel.y)  # some must be known
    universe = None if reference is None else Reference.of(reference).X
    return examine(panel, list(panel.codes), list(panel.codes), universe, (firm, period)).sorted()


def _of_files(X: Any, y: Any, *, outcome: str | None, **options: Any) -> Panel:
    """Return a panel in files, its characteristics mapped into memory."""
    said = "y: X is read from files, so the outcome is a column: leave out y, and name outcome=."
    refuse(y is not None, said)
    if not isinstance(X, StoredPanel):
        return scan_panel(X, outcome=outcome, **options).mapped()
    other = f"outcome: the stored panel holds the outcome {X.outcome!r}, not {outcome!r}."
    refuse(outcome not in (None, X.outcome), other)
    return X.mapped()


def frames_by_outcome(X: Any, y: Any, outcomes: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the frame of each outcome, without the other outcomes."""
    different = len(outcomes) > 0 and len(set(outcomes)) == len(outcomes)
    expect(different, "outcome", "one or more different column names", repr(outcomes))
    refuse(y is not None, "y: outcome= names columns of X; pass one of the two, not both.")
    frame = read_frame(X)
    check_names("outcome", "column", outcomes, frame.columns)
    return {name: frame.drop(columns=[other for other in outcomes if other != name]) for name in outcomes}
