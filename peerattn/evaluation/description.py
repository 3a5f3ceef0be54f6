"""Table 1: what the panel holds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, check_names, checked
from peerattn.panel import Panel, as_panel
from peerattn.render import Shown, Table

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
PathLike = str | os.PathLike[str]
Labels = Mapping[str, str | tuple[str, str]]
_HEADS = {"mean": "Mean", "p50": "Median", "between": "Between firms", "missing": "Missing"}


@dataclass(frozen=True, eq=False, repr=False)
class PanelDescription(Shown):
    """Descriptive statistics of a panel's outcome and characteristics; made by :func:`describe_panel`.

    Attributes
    ----------
    frame : DataFrame
        One row a variable: N, mean, sd, quantiles, the share of the variance between firms (R² on firm means), and the share of
        rows where it is missing.
    names : dict of str to str
        Variables as a reader knows them.
    definitions : dict of str to str
        What they are, and in which unit.
    n_firms, n_periods : int
    """

    _shown = "as_table"

    frame: pd.DataFrame
    names: dict[str, str]
    definitions: dict[str, str]
    n_firms: int
    n_periods: int

    def to_frame(self) -> pd.DataFrame:
        """Return :attr:`frame`."""
        return self.frame.copy()

    def as_table(self, title: str = "Descriptive statistics") -> Table:
        """Return the description as a table that renders as text, HTML, LaTeX and Markdown."""
        heads = [_HEADS.get(column, column.upper()) for column in self.frame.columns]
        shown = {"N": "", "Between firms": ".2f", "Missing": ".1%"}
        rows = [
            (self.names[str(name)], int(count), *rest)
            for name, (count, *rest) in zip(self.frame.index, self.frame.to_numpy().tolist(), strict=True)
        ]
        formats = [shown.get(head, "#.3g") for head in heads]
        notes = [
            f"{self.n_firms:,} firms, {self.n_periods} periods. Between firms: share of the variance that firms' means explain."
        ]
        notes += [f"{self.names[name]}: {said.rstrip('.')}." for name, said in self.definitions.items()]
        return Table(title, ("Variable", *heads), rows, "l" + "r" * len(heads), ("", *formats), notes)

    def to_latex(
        self, path: PathLike | None = None, *, caption: str = "Descriptive statistics", label: str = ""
    ) -> str:
        """Return the table as LaTeX (booktabs), and write it where a path is given."""
        return self.as_table(caption).to_latex(path, label=label)

    def to_markdown(self, path: PathLike | None = None, *, caption: str = "Descriptive statistics") -> str:
        """Return the table as Markdown, and write it where a path is given."""
        return self.as_table(caption).to_markdown(path)

    def __repr__(self) -> str:
        return (
            f"PanelDescription({len(self.frame)} variables, {self.n_firms:,} firms, {self.n_periods} periods)"
        )


@checked
def describe_panel(
    X: Any,
    y: Any = None,
    *,
    labels: Labels | None = None,
    quantiles: Sequence[float] = QUANTILES,
    firm: str = "firm",
    period: str = "period",
    codes: Sequence[str] = (),
) -> PanelDescription:
    """Return Table 1: N, mean, standard deviation and quantiles of the outcome and each characteristic.

    Parameters
    ----------
    X : Panel or DataFrame
        As for every estimator. Codes are not described.
    y : Series, optional
        The outcome, the first row of the table; a Panel holds its own.
    labels : mapping of str to str or (str, str), optional
        Variables as a reader knows them, or that and their definition with the unit:
        ``{"size": ("Size", "log of total assets, in million dollars")}``. Those named come first, in this order.
    quantiles : sequence of float, default (.05, .25, .5, .75, .95)
    firm, period : str
        Names of the index levels (or columns) with the labels.
    codes : sequence of str
        Columns that are codes.

    Returns
    -------
    PanelDescription
        Prints as a table; ``to_latex``, ``to_markdown``, ``to_frame``.

    Raises
    ------
    InputError
        For a label of what is not there, or a quantile outside 0 to 1.

    Examples
    --------
    >>> X = pd.DataFrame({"firm": list("AABB"), "period": [1, 2, 1, 2], "size": [1.0, 2.0, 5.0, None]})
    >>> found = describe_panel(X, [0.1, 0.2, 0.3, 0.4], labels={"size": ("Size", "log of assets, in million dollars")})
    >>> found.to_frame().loc["size", ["n", "mean", "p50", "missing"]].round(3).tolist()
    [3.0, 2.667, 2.0, 0.25]
    """
    if not all(0 <= q <= 1 for q in quantiles):
        raise InputError(f"quantiles: expected numbers between 0 and 1, got {list(quantiles)!r}.")
    panel = X if isinstance(X, Panel) and y is None else as_panel(X, y, firm=firm, period=period, codes=codes)
    columns = {} if panel.outcomes is None else {str(panel.outcome): panel.outcomes}
    columns |= {str(name): column.to_numpy() for name, column in panel.characteristics.items()}
    given = {name: (said, "") if isinstance(said, str) else said for name, said in (labels or {}).items()}
    check_names("labels", "variable", given, [*columns, *map(str, panel.codes.columns)])
    outcome = list(columns)[: panel.outcomes is not None]
    order = list(dict.fromkeys([*outcome, *(name for name in given if name in columns), *columns]))
    owners = np.arange(len(panel)) if panel.firm is None else pd.factorize(panel.firm)[0]
    rows = {name: _statistics(columns[name], owners, quantiles) for name in order}
    said = {name: given.get(name, (name, "")) for name in order}
    return PanelDescription(
        pd.DataFrame.from_dict(rows, orient="index").rename_axis("variable"),
        {name: called for name, (called, _) in said.items()},
        {name: definition for name, (_, definition) in said.items() if definition},
        len(np.unique(owners)),
        panel.period.nunique(),
    )


def _statistics(x: np.ndarray, firm: np.ndarray, quantiles: Sequence[float]) -> dict[str, float]:
    known = np.isfinite(x)
    values = pd.Series(x[known], dtype=float)
    row = {"n": float(known.sum()), "mean": values.mean(), "sd": values.std()}
    row |= {f"p{100 * q:g}": float(values.quantile(q)) for q in quantiles}
    total = float(((values - values.mean()) ** 2).sum())
    rest = float(((values - values.groupby(firm[known]).transform("mean")) ** 2).sum())
    return row | {"between": 1 - rest / total if total > 0 else np.nan, "missing": 1 - known.mean()}
