"""Firm labels and period labels of a whole network: one index each, one kind of label each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from peerattn.exceptions import InputError


def as_labels(labels: Any, argument: str) -> pd.Index:
    """Return ``labels`` as an index of scalars of one kind, without missing ones.

    Parameters
    ----------
    labels : index, array or iterable
        Strings, integers, timestamps, periods, categories.
    argument : str
        What the error calls them.

    Returns
    -------
    pandas.Index
        Object columns that hold one kind become that kind.

    Raises
    ------
    InputError
        When a label is missing or a tuple, or kinds are mixed.

    Examples
    --------
    >>> as_labels(["A", "B"], "firms").tolist()
    ['A', 'B']
    """
    given = labels if isinstance(labels, pd.Index | pd.Series | np.ndarray) else list(labels)
    index = pd.Index(given, tupleize_cols=False) if not isinstance(given, pd.Series) else pd.Index(given)
    if isinstance(index, pd.MultiIndex) or any(isinstance(label, tuple) for label in index[:1]):
        raise InputError(f"{argument}: expected one label each, got tuples such as {index[0]!r}.")
    index = _of_one_kind(index.rename(None), argument)
    if index.hasnans:
        raise InputError(
            f"{argument}: {int(np.sum(index.isna()))} labels are missing; every one needs a label."
        )
    return index


def _of_one_kind(index: pd.Index, argument: str) -> pd.Index:
    if index.dtype != object:
        return index
    index = index.infer_objects()
    if index.dtype != object:
        return index
    kinds = sorted({type(label).__name__ for label in index})
    if len(kinds) > 1:
        raise InputError(f"{argument}: labels mix {' and '.join(kinds)}; use one kind.")
    return index


def common_labels(indexes: Sequence[pd.Index]) -> pd.Index:
    """Return every label that occurs in ``indexes`` once, sorted where labels can be sorted.

    Raises
    ------
    InputError
        When the indexes hold different kinds of labels.

    Examples
    --------
    >>> common_labels([pd.Index(["B", "A"]), pd.Index(["C", "A"])]).tolist()
    ['A', 'B', 'C']
    """
    distinct: list[pd.Index] = []
    for index in indexes:
        if not any(
            index is seen or (index.dtype == seen.dtype and index.equals(seen)) for seen in distinct[-2:]
        ):
            distinct.append(index)
    everything = _joined(distinct).unique()
    try:
        return everything.sort_values()
    except TypeError:
        return everything


def _joined(indexes: Sequence[pd.Index]) -> pd.Index:
    if not indexes:
        return pd.Index([], dtype=str)
    if all(isinstance(index.dtype, pd.CategoricalDtype) for index in indexes):
        same = all(index.dtype == indexes[0].dtype for index in indexes)
        return pd.CategoricalIndex(
            union_categoricals([pd.Categorical(index) for index in indexes], ignore_order=not same)
        )
    plain = [index for index in indexes if len(index)] or list(indexes[:1])
    return _of_one_kind(plain[0].append(list(plain[1:])), "firms")


def as_periods(keys: Iterable[Any]) -> pd.Index:
    """Return period labels as an index; ``None`` alone stands for one undated cross-section.

    Raises
    ------
    InputError
        When they repeat, mix kinds, or mix ``None`` with dates.

    Examples
    --------
    >>> as_periods([2001, 2000]).tolist()
    [2001, 2000]
    """
    labels = keys if isinstance(keys, pd.Index) else list(keys)
    if len(labels) == 1 and labels[0] is None:
        return pd.Index([None], dtype=object)
    if any(label is None for label in labels):
        raise InputError(
            "periods: None stands for a single undated cross-section and cannot be one of several."
        )
    periods = as_labels(labels, "periods")
    if periods.has_duplicates:
        raise InputError(f"periods: {periods[periods.duplicated()][0]!r} is given twice.")
    return periods


def check_unique(labels: pd.Index, argument: str) -> None:
    """Refuse a firm that is given twice in one cross-section, showing up to three.

    Raises
    ------
    InputError
        When a label repeats.
    """
    if labels.has_duplicates:
        repeated = labels[labels.duplicated()].unique()
        shown = ", ".join(repr(label) for label in repeated[:3])
        raise InputError(
            f"{argument}: {len(repeated)} labels are given twice ({shown}); each firm comes once a period."
        )
