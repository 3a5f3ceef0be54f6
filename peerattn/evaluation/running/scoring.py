"""Scoring models that read peers' outcomes inside scikit-learn's validation and searches."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from peerattn.evaluation.measures.metrics import r2_out_of_sample
from peerattn.exceptions import checked, refuse
from peerattn.panel import as_panel


@checked
def explain_score(estimator: Any, X: Any, y: Any) -> float:
    r"""Return R² of ``estimator.predict(X, outcomes=y)`` over the rows whose outcome is known.

    .. math:: R^2 = 1 - \frac{\sum_i (y_i - \hat y_i(y_{-i}))^2}{\sum_i (y_i - \bar y)^2}

    Each row is predicted from the outcomes of the other firms of its period. scikit-learn's own scorers cannot
    pass outcomes on; this one goes into ``cross_validate(..., scoring=explain_score)`` and ``GridSearchCV``.

    Parameters
    ----------
    estimator : fitted peer model, or a Pipeline or search of one
    X : DataFrame (n, p)
    y : Series or array-like (n,)
        Outcomes of the rows of X; NaN means unknown.

    Returns
    -------
    float

    Raises
    ------
    InputError
        When fewer than two outcomes are known, or ``predict`` of the estimator takes none.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn.models import IndustryPeerRegressor
    >>> X = pd.DataFrame({"firm": list("ABCD"), "period": 2001, "sic": ["37", "37", "29", "29"]})
    >>> model = IndustryPeerRegressor(industry="sic").fit(X, [1.0, 2.0, 5.0, 6.0])
    >>> round(explain_score(model, X, [1.0, 2.0, 5.0, 6.0]), 3)
    0.765
    """
    model = getattr(estimator, "best_estimator_", estimator)
    final = model[-1] if hasattr(model, "steps") else model
    said = f"explain_score: {type(final).__name__} reads no outcomes of peers; score it with scoring='r2'."
    refuse("outcomes" not in signature(final.predict).parameters, said)
    predicted = np.asarray(model.predict(X, outcomes=y), dtype=float).reshape(-1)
    firm, period = getattr(final, "firm", "firm"), getattr(final, "period", "period")
    outcome = as_panel(X, y, characteristics=(), firm=firm, period=period).y.to_numpy(dtype=float)
    known = ~np.isnan(outcome)
    n = int(known.sum())
    refuse(n < 2, f"explain_score: {n} outcomes are known; at least two are needed.")
    return r2_out_of_sample(outcome[known], predicted[known], outcome[known].mean())
