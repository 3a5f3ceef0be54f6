"""Training and test rows of one fold of a comparison, checked and encoded once for all models."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from peerattn.panel import Panel, PanelEncoder


class FoldRows:
    """Training and test rows of one fold, as every model gets them.

    Models are called with all rows of the tested periods (``X_call``), so that no firm loses a peer; ``scored``
    are the positions of the test rows among them.
    """

    def __init__(self, panel: Panel, train: np.ndarray, test: np.ndarray) -> None:
        when = panel.X.index.get_level_values(1)
        call = np.flatnonzero(when.isin(when[test].unique()))
        self.train: Panel | None = None
        self.call: Panel | None = None
        if (train[1:] > train[:-1]).all() and (panel.order[1:] > panel.order[:-1]).all():
            plain = replace(panel, weights={}, known_at=None)
            self.train, self.call = plain.take(train), plain.take(call)
            (self.X_train, self.y_train), (self.X_call, self.y_call) = (
                (part.X, part.y) for part in (self.train, self.call)
            )
        else:  # an audit's, in another order
            self.X_train, self.y_train = panel.X.iloc[train], panel.y.iloc[train]
            self.X_call, self.y_call = panel.X.iloc[call], panel.y.iloc[call]
        self.scored = np.searchsorted(call, test)
        self._characteristics = list(panel.choice.characteristics)
        self._encoders: dict[bool, PanelEncoder] = {}
        self._encoded: dict[tuple[str, bool], pd.DataFrame] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another process, or be copied, without what can be made again there."""
        return self.__dict__ | {"_encoders": {}, "_encoded": {}}

    def asking(self, X: pd.DataFrame, y: pd.Series) -> FoldRows:
        """Return the same training rows with other rows to predict."""
        other = copy(self)
        other.X_call, other.y_call, other.scored, other.call = X, y, np.arange(len(X)), None
        other._encoders = self._encoders
        return other

    def encoded(self, part: Literal["train", "call"], own_only: bool) -> pd.DataFrame:
        """Return training rows, or those of the call, as numbers, by an encoding fitted on the training rows alone.

        All plain regressors share one encoding, made when the first of them needs it; the linear controls
        share another, of the characteristics without codes.
        """
        columns = self._characteristics if own_only else list(self.X_train.columns)
        if not columns:
            return (self.X_train if part == "train" else self.X_call)[[]]
        if own_only not in self._encoders:
            self._encoders[own_only] = PanelEncoder().fit(self._columns("train", own_only, columns))
        if (part, own_only) not in self._encoded:
            encoder = self._encoders[own_only]
            self._encoded[part, own_only] = encoder.transform(self._columns(part, own_only, columns))
        return self._encoded[part, own_only]

    def _columns(self, part: str, own_only: bool, columns: list[Any]) -> Panel | pd.DataFrame:
        panel, X = (self.train, self.X_train) if part == "train" else (self.call, self.X_call)
        if panel is None:
            return X[columns]
        return replace(panel, codes=panel.codes[[]], columns=tuple(columns)) if own_only else panel
