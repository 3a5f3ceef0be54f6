"""Outcomes meet their rows: by label where both carry labels, by position otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.panel.labels import PanelLabels, panel_labels


def align_outcome(
    y: Any,
    X: pd.DataFrame,
    labels: PanelLabels,
    *,
    firm: str = "firm",
    period: str = "period",
    name: str = "y",
) -> np.ndarray:
    """Return one outcome per row of ``X``, in ``X``'s order; NaN means unknown.

    Parameters
    ----------
    y : Series, one-column frame or array-like, (n,)
        Aligned by label when it has ``X``'s two-level index (any row or level order), by position otherwise; other
        index labels must not be those of ``X`` in another order.
    X : pandas.DataFrame
    labels : PanelLabels
        Those of ``X``.
    firm, period : str
        Names of the labels.
    name : str
        The argument's name, for messages.

    Raises
    ------
    InputError
        When labels differ (three are shown), the length differs, a value is infinite, or all are missing.

    Examples
    --------
    >>> index = pd.MultiIndex.from_tuples([("A", 1), ("B", 1)], names=["firm", "period"])
    >>> X = pd.DataFrame({"size": [1.0, 2.0]}, index=index)
    >>> align_outcome(pd.Series([20.0, 10.0], index=index[::-1]), X, panel_labels(X)).tolist()
    [10.0, 20.0]
    """
    if isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        y = y.iloc[:, 0]
    if isinstance(y, pd.Series) and y.index.nlevels == 2:
        values = _by_label(y, labels, firm, period, name)
    else:
        if isinstance(y, pd.Series):
            _refuse_other_order(y.index, X.index, name)
        values = position_outcome(y, len(X), name)
    if np.isinf(values).any():
        raise InputError(
            f"{name} contains infinity in {int(np.isinf(values).sum())} rows: use NaN where it is unknown."
        )
    if np.isnan(values).all():
        raise InputError(f"{name} has no known value: all {len(values)} are NaN.")
    return values


def position_outcome(y: Any, n_rows: int, name: str) -> np.ndarray:
    """Return ``y`` as ``n_rows`` floats, matched by position."""
    try:
        values = (
            pd.Series(y).to_numpy(dtype=float, na_value=np.nan)
            if np.ndim(y) < 2
            else np.asarray(y, dtype=float)
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold numbers: {error}") from error
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (n_rows,):
        raise InputError(
            f"{name} has shape {values.shape}, but X has {n_rows} rows: one outcome a row is needed."
        )
    return values


def _by_label(y: pd.Series, labels: PanelLabels, firm: str, period: str, name: str) -> np.ndarray:
    names = list(y.index.names)
    if set(names) == {firm, period}:
        own = panel_labels(y, firm, period)
        assert own is not None
        have: pd.Index = pd.MultiIndex.from_arrays([own.firm, own.period])
    elif names == [None, None]:
        have = y.index
    else:
        raise InputError(
            f"{name} has index levels {names}, but X's labels are {[firm, period]}: name them alike."
        )
    wanted = pd.MultiIndex.from_arrays([labels.firm, labels.period])
    if have.has_duplicates:
        pairs = have[have.duplicated()].unique()[:3].tolist()
        raise InputError(f"{name} has duplicated (firm, period) labels, such as {_show(pairs)}.")
    position = have.get_indexer(wanted)
    if len(have) != len(wanted) or (position < 0).any():
        missing = wanted[position < 0][:3].tolist()
        extra = have[wanted.get_indexer(have) < 0][:3].tolist()
        told = [f"{name} lacks {_show(missing)}"] if missing else []
        told += [f"{name} has {_show(extra)}, which X lacks"] if extra else []
        raise InputError(
            f"the labels of {name} are not those of X ({len(have)} against {len(wanted)} rows): {'; '.join(told)}. "
            "Select both from one frame, or pass an array to match by position."
        )
    return y.to_numpy(dtype=float, na_value=np.nan)[position]


def _refuse_other_order(have: pd.Index, wanted: pd.Index, name: str) -> None:
    """Raise where matching by position would pair each row with another row's outcome."""
    if (
        len(have) != len(wanted)
        or have.equals(wanted)
        or have.nlevels != wanted.nlevels
        or not have.is_unique
    ):
        return
    if (have.get_indexer(wanted) >= 0).all():
        raise InputError(
            f"{name} carries the index labels of X in another order: {name}.loc[X.index] puts them in order; pass an array to "
            "match by position."
        )


def _show(pairs: list[Any]) -> str:
    return ", ".join(f"({firm}, {period})" for firm, period in pairs)
