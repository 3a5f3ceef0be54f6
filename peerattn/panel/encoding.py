"""Missing values and codes: the one documented way from a checked panel to numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import DroppedColumnWarning, InputError
from peerattn.panel.gate import Panel, check_panel


def weighted_median(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the median of the known values, each counted ``weights`` times.

    >>> weighted_median(np.array([1.0, 2.0, np.nan]), np.array([1, 2, 5]))
    2.0
    """
    known = np.isfinite(values) if weights is None else np.isfinite(values) & (weights > 0)
    if not known.any():
        return np.nan
    if weights is None:
        return float(np.median(values[known]))
    order = np.argsort(values[known], kind="stable")
    ordered, cumulated = values[known][order], np.cumsum(weights[known][order])
    middle = (cumulated[-1] - 1) / 2
    at = np.searchsorted(cumulated, [np.floor(middle), np.ceil(middle)], side="right")
    return float(ordered[np.minimum(at, len(ordered) - 1)].mean())


@dataclass(frozen=True)
class Imputation:
    """How missing characteristics are filled, learned on training rows.

    A missing value takes the median of its cross-section; where a period has none, the training median. Columns with
    missing training values get an indicator ``<name>_missing``; columns without any training value are dropped.
    """

    kept: tuple[Any, ...]
    medians: np.ndarray
    indicated: tuple[Any, ...]

    @classmethod
    def fit(cls, panel: Panel, weights: np.ndarray | None = None) -> Imputation:
        """Learn medians and indicators from the training rows."""
        frame = panel.characteristics
        if weights is not None:
            frame = frame[weights > 0]
            weights = weights[weights > 0]
        empty = [name for name in frame.columns if frame[name].isna().all()]
        if empty:
            warnings.warn(
                DroppedColumnWarning(f"no training value at all in {', '.join(map(repr, empty))}: left out."),
                stacklevel=4,
            )
        kept = tuple(name for name in frame.columns if name not in empty)
        if not kept and not panel.codes.shape[1]:
            raise InputError(
                "X has no characteristic with a training value and no code: there is nothing to learn from."
            )
        medians = np.array([weighted_median(frame[name].to_numpy(), weights) for name in kept])
        return cls(kept, medians, tuple(name for name in kept if frame[name].isna().any()))

    @property
    def names(self) -> list[str]:
        """Names of the columns that come out."""
        return [str(name) for name in self.kept] + [f"{name}_missing" for name in self.indicated]

    def transform(self, panel: Panel) -> np.ndarray:
        """Return the filled characteristics and the indicators, (n, p)."""
        frame = panel.characteristics[list(self.kept)]
        values = frame.to_numpy()
        missing = np.isnan(values)
        if missing.any():
            values = values.copy()
            fill = np.broadcast_to(self.medians, values.shape)
            if panel.dated:
                columns = missing.any(axis=0)
                by_period = (
                    frame.loc[:, columns].groupby(panel.period.to_numpy()).transform("median").to_numpy()
                )
                fill = fill.copy()
                fill[:, columns] = np.where(np.isnan(by_period), fill[:, columns], by_period)
            values[missing] = fill[missing]
        at = [self.kept.index(name) for name in self.indicated]
        return np.concatenate([values, missing[:, at].astype(float)], axis=1) if at else values


@dataclass(frozen=True)
class CodeBook:
    """The levels of each code seen in training; level 0 is "unknown"."""

    levels: dict[str, tuple[str, ...]]

    @classmethod
    def fit(cls, codes: pd.DataFrame) -> CodeBook:
        """Learn the levels, in alphabetical order."""
        return cls({str(name): tuple(sorted(codes[name].dropna().unique())) for name in codes.columns})

    def transform(self, codes: pd.DataFrame) -> np.ndarray:
        """Return one integer a code, (n, c); unknown and unseen codes are 0."""
        columns = [
            pd.Index(levels).get_indexer(pd.Index(codes[name])) + 1 for name, levels in self.levels.items()
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(codes), 0), dtype=np.int64)


class PanelEncoder(TransformerMixin, BaseEstimator):
    """Turn a panel frame into numbers only, so that every model sees the same inputs.

    Missing characteristics take the median of their cross-section (where the whole period is missing, the training median)
    and an indicator column ``<name>_missing``; codes become one column a level, ``<code>=<level>``, all zero when unknown or
    never seen in training.

    Parameters
    ----------
    codes : sequence of str
        Columns declared to be codes; columns of dtype category or string are codes in any case.
    firm, period : str
        Names of the index levels (or columns) with the labels.

    Examples
    --------
    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "sic": ["3711", "0100", None]})
    >>> PanelEncoder().fit_transform(X)
       size  size_missing  sic=0100  sic=3711
    0   1.0           0.0       0.0       1.0
    1   2.0           1.0       1.0       0.0
    2   3.0           0.0       0.0       0.0
    """

    def __init__(self, codes: Sequence[str] = (), firm: str = "firm", period: str = "period") -> None:
        self.codes = codes
        self.firm = firm
        self.period = period

    def fit(self, X: Any, y: Any = None) -> PanelEncoder:
        """Learn medians, indicators and code levels from training rows."""
        panel = self._check(X, fitting=True)
        self.imputation_ = Imputation.fit(panel)
        self.code_book_ = CodeBook.fit(panel.codes)
        return self

    def transform(self, X: Any) -> pd.DataFrame:
        """Return the encoded rows, in the order and with the index of ``X``."""
        check_is_fitted(self)
        panel = self._check(X, fitting=False)
        blocks = [self.imputation_.transform(panel)]
        integers = self.code_book_.transform(panel.codes)
        for column, levels in enumerate(self.code_book_.levels.values()):
            blocks.append(np.eye(len(levels) + 1)[integers[:, column]][:, 1:])
        encoded = np.concatenate(blocks, axis=1)
        out = np.empty_like(encoded)
        out[panel.order] = encoded
        return pd.DataFrame(out, index=panel.index, columns=self.get_feature_names_out())

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the encoded columns."""
        check_is_fitted(self)
        one_hot = [f"{name}={level}" for name, levels in self.code_book_.levels.items() for level in levels]
        return np.array([*self.imputation_.names, *one_hot], dtype=object)

    def _check(self, X: Any, *, fitting: bool) -> Panel:
        return check_panel(self, X, fitting=fitting, firm=self.firm, period=self.period, codes=self.codes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []  # a frame of float64 comes out
        return tags
