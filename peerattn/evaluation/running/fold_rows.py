"""Training and test rows of one fold of a comparison, checked and encoded once for all models."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from peerattn.panel import Panel, PanelEncoder


class Frames(NamedTuple):
    """Rows in an order that a Panel does not keep, such as an audit's."""

    X: pd.DataFrame
    y: pd.Series


class FoldRows:
    """Training and test rows of one fold, as every model gets them: ``train`` and ``call``.

    Models are called with all rows of the tested periods, so that no firm loses a peer; ``scored`` are the positions of the test
    rows among them.
    """

    train: Panel | Frames
    call: Panel | Frames

    def __init__(self, panel: Panel, train: np.ndarray, test: np.ndarray) -> None:
        when = panel.X.index.get_level_values(1)
        call = np.flatnonzero(when.isin(when[test].unique()))
        if (train[1:] > train[:-1]).all() and (panel.order[1:] > panel.order[:-1]).all():
            plain = replace(panel, weights={}, known_at=None)
            self.train, self.call = plain.take(train), plain.take(call)
        else:
            self.train, self.call = (Frames(panel.X.iloc[rows], panel.y.iloc[rows]) for rows in (train, call))
        self.scored = np.searchsorted(call, test)
        self._encoder: PanelEncoder | None = None
        self._encoded: dict[bool, pd.DataFrame] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another process, or be copied, without what can be made again there."""
        return self.__dict__ | {"_encoder": None, "_encoded": {}}

    def asking(self, X: pd.DataFrame, y: pd.Series) -> FoldRows:
        """Return the same training rows with other rows to predict."""
        other = copy(self)
        other.call, other.scored, other._encoder = Frames(X, y), np.arange(len(X)), self._encoder
        return other

    def encoded(self, training: bool) -> pd.DataFrame:
        """Return the training rows, or those of the call, as numbers, by an encoding fitted on the training rows alone.

        All plain regressors share it; it is made when the first of them needs it.
        """
        if self._encoder is None:
            self._encoder = PanelEncoder().fit(_given(self.train))
        if training not in self._encoded:
            self._encoded[training] = self._encoder.transform(_given(self.train if training else self.call))
        return self._encoded[training]


def _given(rows: Panel | Frames) -> Panel | pd.DataFrame:
    return rows if isinstance(rows, Panel) else rows.X
