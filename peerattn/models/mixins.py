"""What a panel estimator adds to be a regressor, or a classifier, of scikit-learn."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils._tags import Tags

from peerattn.exceptions import InputError
from peerattn.panel.panel import Panel
from peerattn.types import OutcomesLike, PanelLike


class _Predicts(Protocol):
    """A panel estimator, as far as a score needs it."""

    classes_: np.ndarray
    dated_: bool

    @property
    def needs_outcomes(self) -> bool: ...
    def predict(self, X: PanelLike, **options: Any) -> np.ndarray: ...
    def _check(self, X: PanelLike, y: OutcomesLike = None, *, fitting: bool) -> Panel: ...
    def _encode_outcomes(self, outcomes: OutcomesLike) -> OutcomesLike: ...


def _scored(
    model: _Predicts, X: PanelLike, y: OutcomesLike, sample_weight: OutcomesLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return known outcomes, their predictions and weights."""
    if y is None and isinstance(X, Panel):
        y = X.y
    observed = {}
    if model.needs_outcomes and model.dated_:
        observed["outcomes"] = y
    predicted = model.predict(X, **observed)
    panel = model._check(X, model._encode_outcomes(y), fitting=False)
    if panel.outcomes is None:
        raise InputError("y: a score needs the outcomes, got None.")
    known = np.isfinite(panel.outcomes)
    weight = sample_weight
    if weight is not None:
        weight = panel.align(weight, "sample_weight")[known]
    return panel.outcomes[known], predicted[panel.order][known], weight


class PanelRegressorMixin(RegressorMixin):
    """Makes a regressor of a panel estimator: R² over the rows whose outcome is known."""

    def score(
        self: _Predicts, X: PanelLike, y: OutcomesLike = None, sample_weight: OutcomesLike = None
    ) -> float:
        """Return R² of ``predict(X)`` over the rows whose outcome is known."""
        known, predicted, weight = _scored(self, X, y, sample_weight)
        return float(r2_score(known, predicted, sample_weight=weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = not getattr(self, "_reads_characteristics", True)
        return tags


class PanelClassifierMixin(ClassifierMixin):
    """Makes a classifier of a panel estimator: accuracy over the rows whose class is known."""

    def score(self: _Predicts, X: PanelLike, y: OutcomesLike, sample_weight: OutcomesLike = None) -> float:
        """Return the accuracy of ``predict(X)`` over the rows whose class is known."""
        known, predicted, weight = _scored(self, X, y, sample_weight)
        return float(accuracy_score(self.classes_[known.astype(int)], predicted, sample_weight=weight))
