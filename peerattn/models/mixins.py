"""What a panel estimator adds to be a regressor, or a classifier, of scikit-learn."""

from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils._tags import Tags

from peerattn.exceptions import InputError, validate_arguments
from peerattn.models.learned import warn_of_missing_labels
from peerattn.panel.panel import Panel
from peerattn.training import one_thread
from peerattn.types import OutcomesLike, PanelLike

if TYPE_CHECKING:  # a mixin is typed as what it is mixed into
    from peerattn.models.base import PanelEstimator as Mixed
else:
    Mixed = object


def _scored(
    model: Mixed, X: PanelLike, y: OutcomesLike, sample_weight: OutcomesLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return known outcomes, their predictions and weights."""
    if y is None and isinstance(X, Panel):
        y = X.y
    observed = {"outcomes": y} if model.needs_outcomes and model.dated_ else {}
    predicted = model.predict(X, **observed)
    # the panel has its rows sorted: predictions are brought into the same order
    panel = model._check(X, model._encode_outcomes(y), fitting=False)
    if panel.outcomes is None:
        raise InputError("y: a score needs the outcomes, got None.")
    known = np.isfinite(panel.outcomes)
    weight = None if sample_weight is None else panel.align(sample_weight, "sample_weight")[known]
    return panel.outcomes[known], predicted[panel.order][known], weight


class PanelRegressorMixin(RegressorMixin, Mixed):
    """Makes a regressor of a panel estimator: R² over the rows whose outcome is known."""

    def score(self, X: PanelLike, y: OutcomesLike = None, sample_weight: OutcomesLike = None) -> float:
        """Return R² of ``predict(X)`` over the rows whose outcome is known."""
        known, predicted, weight = _scored(self, X, y, sample_weight)
        return float(r2_score(known, predicted, sample_weight=weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = not self._reads_characteristics
        return tags


class OwnFirmMixin(Mixed):
    """Makes a panel estimator read no peers: it learns from the rows of known outcome."""

    _has_peers = False

    @validate_arguments
    @one_thread()
    def fit(self, X: PanelLike, y: OutcomesLike = None) -> Self:  # type: ignore[override]
        """Fit on training rows.

        Parameters
        ----------
        X : Panel, DataFrame (n, p) indexed by (firm, period), or array-like; or StoredPanel, path, Dataset, iterator of frames
        y : Series or array-like (n,), or str (the column, of files), optional
            Outcome; a Panel holds its own. In a panel NaN means unknown: the row is not learned from.
        """
        panel = self._check(X, y, fitting=True)
        assert panel.outcomes is not None
        if self._needs_labels:
            warn_of_missing_labels(type(self).__name__, panel, y, self.firm, self.period)
        known = np.isfinite(panel.outcomes)
        self._learn_from(panel, known, panel.outcomes[known])
        return self

    @property
    def reads_outcomes(self) -> bool:
        """Whether ``predict`` must be given outcomes of the rows' own period: never."""
        return False

    @property
    def _needs_labels(self) -> bool:
        """Whether rows without labels make it another model: a mean of all, or a regression on own characteristics."""
        return True

    def _learn_from(self, panel: Panel, known: np.ndarray, y: np.ndarray) -> None:
        """Learn from the panel, whose rows ``known`` have the outcomes ``y``."""
        raise NotImplementedError


class PanelClassifierMixin(ClassifierMixin, Mixed):
    """Makes a classifier of a panel estimator: accuracy over the rows whose class is known."""

    classes_: np.ndarray

    def score(self, X: PanelLike, y: OutcomesLike, sample_weight: OutcomesLike = None) -> float:
        """Return the accuracy of ``predict(X)`` over the rows whose class is known."""
        known, predicted, weight = _scored(self, X, y, sample_weight)
        return float(accuracy_score(self.classes_[known.astype(int)], predicted, sample_weight=weight))
