"""The design as a scikit-learn transformer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from peerattn.panel.design import Column, Design
from peerattn.panel.gate import check_panel
from peerattn.types import OutcomesLike, PanelLike


class FrameTransformer(TransformerMixin, BaseEstimator):
    """A transformer that takes missing values and returns a frame of float64."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags


@dataclass(eq=False, repr=False)
class PanelEncoder(FrameTransformer):
    """Turn a panel into numbers only, so that every model sees the same inputs.

    Missing characteristics take the median of their cross-section (where the whole period is missing, the training median)
    and an indicator column ``<name>_missing``; codes become one column a level, ``<code>=<level>``, all zero when unknown or
    never seen in training. What a column is, is in ``columns_``, not in its name: a name that is taken already is numbered.

    Parameters
    ----------
    codes : sequence of str, default ()
        Columns declared to be codes; columns of dtype category or string are codes in any case.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    design_ : Design

    Examples
    --------
    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "sic": ["3711", "0100", None]})
    >>> PanelEncoder().fit_transform(X)
       size  size_missing  sic=0100  sic=3711
    0   1.0           0.0       0.0       1.0
    1   2.0           1.0       1.0       0.0
    2   3.0           0.0       0.0       0.0
    """

    codes: Sequence[str] = ()
    firm: str = "firm"
    period: str = "period"

    def fit(self, X: PanelLike, y: OutcomesLike = None) -> Self:
        """Learn medians, indicators and code levels from training rows."""
        panel = check_panel(self, X, fitting=True, firm=self.firm, period=self.period, codes=self.codes)
        self.design_ = Design.fit(panel)
        return self

    def transform(self, X: PanelLike) -> pd.DataFrame:
        """Return the encoded rows, in the order and with the index of ``X``."""
        check_is_fitted(self)
        panel = check_panel(self, X, fitting=False, firm=self.firm, period=self.period)
        matrix = self.design_.transform(panel)[np.argsort(panel.order)]
        return pd.DataFrame(matrix, index=panel.index, columns=self.get_feature_names_out())

    @property
    def columns_(self) -> tuple[Column, ...]:
        """Name, role and source of every encoded column."""
        return self.design_.columns

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Names of the encoded columns."""
        check_is_fitted(self)
        return np.array(self.design_.names, dtype=object)
