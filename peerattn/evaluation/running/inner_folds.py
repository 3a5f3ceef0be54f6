"""Validation inside a model: searches and early stops that hold out rows of periods they learn from, and gaps before periods."""

from collections.abc import Iterator
from itertools import islice
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import check_cv

from peerattn.evaluation.inference.interval_regressor import IntervalRegressor
from peerattn.models import OwnHistoryRegressor, PanelEstimator, PeerFeatures
from peerattn.models.attention.options import AttentionOptions
from peerattn.panel.knowledge import first_known, sorted_periods

#: scikit-learn: HistGradientBoostingRegressor(early_stopping="auto") stops early beyond.
ROWS_STOPPED_EARLY = 10_000


def random_rows(
    model: BaseEstimator, X: pd.DataFrame, y: pd.Series, name: str = "", *, horizon: int = 1, known_at: pd.Series | None = None
) -> Iterator[str]:
    """Yield what in a model validates on rows of periods that it learns from, or whose outcomes it would not know, in words.

    Parameters
    ----------
    model : estimator
        Searches, ``...CV`` estimators, stacks, boosters; parts inside pipelines and other estimators count.
    X, y
        The rows the model is fitted on, indexed by firm and period.
    horizon : int, default 1
        Periods until an outcome is known.
    known_at : Series, optional
        When outcomes are known, by firm and period, where they have dates.

    Examples
    --------
    >>> from sklearn.linear_model import LassoCV
    >>> index = pd.MultiIndex.from_product([range(9), range(4)], names=["firm", "period"])
    >>> X = pd.DataFrame({"size": range(36)}, index=index)
    >>> list(random_rows(LassoCV(), X, X["size"]))
    ['LassoCV(cv=None) holds out rows of periods that it learns from']
    """
    if not isinstance(model, BaseEstimator):
        return
    who = name + type(model).__name__
    params = model.get_params(deep=False)
    leave_one_out = isinstance(model, RidgeCV) and params["cv"] is None  # closed form, no folds
    folds = "cv" in params and params["cv"] != "prefit" and not leave_one_out
    if folds and (wrong := _wrong_with(params["cv"], X, y, horizon, known_at)):
        yield f"{who}(cv={' '.join(str(params['cv']).split())}) {wrong}"
    # boosters hold out random rows of their own
    stops = params.get("early_stopping", False)
    long = isinstance(model, HistGradientBoostingRegressor) and len(X) > ROWS_STOPPED_EARLY
    if stops is True or (stops == "auto" and long):
        yield f"{who}(early_stopping={stops!r}) stops early on random rows"
    if isinstance(model, GradientBoostingRegressor) and params["n_iter_no_change"] is not None:
        yield f"{who}(n_iter_no_change={params['n_iter_no_change']}) stops early on random rows"
    for part in _parts(params):
        if isinstance(part, BaseEstimator):
            every = _fitted_rows(model, X, y)
            when: dict[str, Any] = {"horizon": horizon, "known_at": known_at}
            yield from islice((found for rows in every for found in random_rows(part, *rows, f"{who}: ", **when)), 1)


def _fitted_rows(model: BaseEstimator, X: pd.DataFrame, y: pd.Series) -> Iterator[tuple[pd.DataFrame, pd.Series]]:
    """Yield the rows that the parts of a model are fitted on: all, and of attention the earlier ones, by which it weighs."""
    if isinstance(model, PanelEstimator):  # what it holds is fitted on the rows of known outcome
        X = X[y.notna()]
        y = y[y.notna()]
    yield X, y
    if isinstance(model, AttentionOptions):
        when = sorted_periods(X.index.get_level_values(1))[0]
        for t in range(2 * len(np.unique(when)) // 3, when.max(initial=0) + 1):
            yield X[when < t], y[when < t]


def _parts(params: dict[str, Any]) -> Iterator[Any]:
    for value in params.values():
        yield value
        if isinstance(value, list | tuple):
            yield from (part for step in value if isinstance(step, list | tuple) for part in step)


def purged(model: BaseEstimator, horizon: int) -> Any:
    """Return a model that learns from outcomes, and has them as lags, only once they are known."""
    if horizon == 1 or isinstance(model, type) or not hasattr(model, "get_params"):
        return model
    params = model.get_params()
    changed: dict[str, Any] = {}
    for key, value in params.items():
        owner, _, option = key.rpartition("__")
        least = {"purge": horizon - 1}.get(option, 0)
        # a model of the user's own may mean something else by its horizon
        if option == "horizon" and isinstance(params.get(owner, model), PeerFeatures | IntervalRegressor):
            least = horizon
        if isinstance(value, Integral) and value < least:
            changed[key] = least
        history = option == "gaps" and isinstance(params.get(owner, model), OwnHistoryRegressor)
        if history and isinstance(value, list | tuple) and all(isinstance(gap, Integral) for gap in value):
            changed[key] = [max(gap, horizon) for gap in value]
    return clone(model).set_params(**changed) if changed else model


def parts_of(model: object) -> Iterator[object]:
    """Yield a model and all that it is made of: steps, unions of columns, what a search tunes, learners."""
    yield model
    if hasattr(model, "get_params") and not isinstance(model, type):
        for part in _parts(model.get_params(deep=False)):
            yield from parts_of(part)


def _wrong_with(cv: object, X: pd.DataFrame, y: pd.Series, horizon: int, known_at: pd.Series | None) -> str:
    """Describe what is wrong with the folds of these rows; empty where nothing is."""
    if isinstance(cv, Iterator):
        return "can be read only once: pass a list"
    when, periods = sorted_periods(X.index.get_level_values(1))
    known = when
    observed = y.notna().to_numpy()
    if known_at is not None:
        known = first_known(pd.Index(known_at.reindex(X.index)), periods)
    try:
        for train, test in list(check_cv(cv).split(X, y)):
            held_out = np.unique(when[test])
            after = held_out - when[train][:, None]
            if (after == 0).any():
                return "holds out rows of periods that it learns from"
            late = observed[train][:, None] & (known[train][:, None] > held_out)
            if (np.abs(after) < horizon).any() or ((after > 0) & late).any():
                return "learns from outcomes that are not known in the periods that it holds out"
    except ValueError as error:
        return f"cannot split the rows that it is fitted on ({error})"
    except Exception:  # a splitter of somebody else's that wants other rows: left to the fit to report
        pass
    return ""
