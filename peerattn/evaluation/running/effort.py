"""How long a fit takes, roughly, before it is made."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import ParameterGrid

from peerattn.evaluation.running.entries import Entry, searches
from peerattn.evaluation.running.information import last_step
from peerattn.models import NadarayaWatsonRegressor, PeerAttentionRegressor
from peerattn.panel import Panel


def expected_seconds(entry: Entry, panel: Panel, train: np.ndarray) -> float:
    """Return about how many seconds a model takes to be fitted on these rows and to predict a fifth as many, on one core.

    Constants are of a desktop processor of 2023, within a factor of three for panels of 1,000 to 100,000 rows.
    """
    final, n = last_step(entry.model), len(train)
    tried = max((_settings(search) for search in searches(entry.model)), default=1)
    if isinstance(final, PeerAttentionRegressor):
        return tried * final.n_layers * (5 + n / 1_000)
    if isinstance(final, NadarayaWatsonRegressor):
        return tried * (0.2 + 2e-9 * n * n * len(panel.columns))
    return tried * (0.3 + n / 5_000)


def _settings(search: object) -> int:
    """Return how many fits a search makes: settings times folds, as far as it says."""
    count = len(ParameterGrid(getattr(search, "param_grid", {})))
    folds = getattr(search, "cv", None)
    return int(getattr(search, "n_iter", count)) * (folds if isinstance(folds, int) else 5)
