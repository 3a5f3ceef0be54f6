"""Weights of training rows in the predictions of scikit-learn's regressors: ``ŷ = W y``, row by row, never n × n at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.base import RegressorMixin
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.model_selection._search import BaseSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from peerattn.exceptions import InputError

#: Of rows of X the weights of all training rows, (n_rows, n_training).
Smoother = Callable[[Any], Any]
_MEANS = ("squared_error", "friedman_mse", "poisson", "deprecated")  # criteria whose leaves hold means


@dataclass(frozen=True)
class _Step:
    """One tree of a boosted sum: leaf of each training row, its shrunken size, and leaf of each row to be predicted."""

    members: sparse.csr_array  # (n_training, n_leaves), one 1 a row
    scale: np.ndarray  # (n_leaves,): learning rate over rows plus penalty
    leaf: np.ndarray  # (n_training,)
    asked: Callable[[Any], np.ndarray]


def smoother_of(model: Any, X: Any) -> Smoother:
    """Return the function that gives the weights of the training rows ``X`` in a fitted model's predictions.

    Raises
    ------
    InputError
        For a regressor, or an option of one, whose prediction is not linear in the training outcomes.
    """
    if isinstance(model, BaseSearchCV):
        return smoother_of(model.best_estimator_, X)
    if isinstance(model, Pipeline):
        inner = smoother_of(model[-1], model[:-1].transform(X) if len(model) > 1 else X)
        return inner if len(model) == 1 else lambda Z: inner(model[:-1].transform(Z))
    for kinds, make in _KINDS.items():
        if isinstance(model, kinds):
            return make(model, X)
    name = type(model).__name__
    known = ", ".join(sorted(kind.__name__ for kinds in _KINDS for kind in kinds))
    raise InputError(
        f"model: {name} is not a weighted sum of training outcomes that is known here; expected one of {known}, a Pipeline "
        "or search of one, or a peer model of this package."
    )


def _refuse(model: Any, option: str, why: str) -> InputError:
    return InputError(f"model: {type(model).__name__}({option}={getattr(model, option, '...')!r}): {why}")


def _linear(model: Any, X: Any) -> Smoother:
    if getattr(model, "positive", False):
        raise _refuse(
            model, "positive", "coefficients that are cut off at zero are not linear in the outcomes."
        )
    x = np.asarray(X, dtype=float)
    alpha = getattr(model, "alpha_", getattr(model, "alpha", 0.0))
    if np.ndim(alpha):
        raise _refuse(model, "alpha", "expected one penalty, got several.")
    center = x.mean(axis=0) if model.fit_intercept else np.zeros(x.shape[1])
    u, s, vt = np.linalg.svd(x - center, full_matrices=False)
    kept = s > s.max(initial=0.0) * max(x.shape) * np.finfo(float).eps
    back = (vt[kept].T * (s[kept] / (s[kept] ** 2 + alpha))) @ u[
        :, kept
    ].T  # (p, n): coefficients of outcomes
    level = 1 / len(x) if model.fit_intercept else 0.0
    return lambda Z: (np.asarray(Z, dtype=float) - center) @ back + level


def _kernel_ridge(model: Any, X: Any) -> Smoother:
    if np.ndim(model.alpha):
        raise _refuse(model, "alpha", "expected one penalty, got several.")
    gram = model._get_kernel(model.X_fit_)
    gram[np.diag_indices_from(gram)] += model.alpha
    factor = linalg.cho_factor(gram, overwrite_a=True)
    return lambda Z: linalg.cho_solve(factor, model._get_kernel(model.X_fit_, np.asarray(Z, dtype=float))).T


def _neighbors(model: Any, X: Any) -> Smoother:
    from sklearn.neighbors._base import _get_weights

    n = model.n_samples_fit_

    def weights(Z: Any) -> sparse.csr_array:
        distance, at = model.kneighbors(Z)
        w = _get_weights(distance, model.weights)
        w = np.ones_like(distance) if w is None else w
        w = w / w.sum(axis=1, keepdims=True)
        starts = np.arange(len(at) + 1) * at.shape[1]
        return sparse.csr_array((w.ravel(), at.ravel(), starts), shape=(len(at), n))

    return weights


def _check_trees(model: Any) -> None:
    if getattr(model, "criterion", "squared_error") not in _MEANS:
        raise _refuse(model, "criterion", "leaves that do not hold means; use 'squared_error'.")
    if getattr(model, "monotonic_cst", None) is not None:
        raise _refuse(model, "monotonic_cst", "leaves that are cut off to keep an order are not means.")


def _members(leaf: np.ndarray) -> sparse.csr_array:
    """Return the indicator matrix of leaves, (n_rows, n_leaves)."""
    ones = np.ones(len(leaf))
    return sparse.csr_array((ones, leaf, np.arange(len(leaf) + 1)), shape=(len(leaf), int(leaf.max()) + 1))


def _forest(model: Any, X: Any) -> Smoother:
    _check_trees(model)
    single = isinstance(model, DecisionTreeRegressor)
    trees = [model] if single else model.estimators_
    x = np.asarray(X, dtype=np.float32)
    draws = [None] * len(trees) if single or not model.bootstrap else model.estimators_samples_
    means = []  # of each tree: (n_nodes, n), rows of training weights
    for tree, drawn in zip(trees, draws):
        often = np.ones(len(x)) if drawn is None else np.bincount(drawn, minlength=len(x)).astype(float)
        leaf = tree.tree_.apply(x)
        rows = np.bincount(leaf, often, minlength=tree.tree_.node_count)
        values = often / np.maximum(rows[leaf], 1.0)
        kept = values > 0
        shape = (tree.tree_.node_count, len(x))
        means.append(sparse.csr_array((values[kept], (leaf[kept], np.flatnonzero(kept))), shape=shape))

    def weights(Z: Any) -> Any:
        z = np.asarray(Z, dtype=np.float32)
        total = sum(mean[tree.tree_.apply(z)] for tree, mean in zip(trees, means))
        return total / len(trees)

    return weights


def _boosting(model: Any, X: Any) -> Smoother:
    _check_trees(model)
    if model.loss != "squared_error":
        raise _refuse(model, "loss", "only 'squared_error' is linear in the outcomes.")
    if model.subsample < 1:
        raise _refuse(model, "subsample", "the rows that each tree saw are not kept; use subsample=1.")
    if model.n_iter_no_change is not None:
        raise _refuse(model, "n_iter_no_change", "the rows held out are not kept; use n_iter_no_change=None.")
    if model.init not in (None, "zero"):
        raise _refuse(model, "init", "expected None or 'zero'.")
    x = np.asarray(X, dtype=np.float32)
    steps = []
    for tree in model.estimators_[:, 0]:
        nodes = tree.tree_.apply(x)
        names, leaf = np.unique(nodes, return_inverse=True)
        where = np.full(tree.tree_.node_count, -1)
        where[names] = np.arange(len(names))

        def leaf_of(Z: Any, tree: Any = tree, where: np.ndarray = where) -> np.ndarray:
            return where[tree.tree_.apply(np.asarray(Z, dtype=np.float32))]

        steps.append(_step(leaf, model.learning_rate, 0.0, leaf_of))
    return _boosted(steps, len(x), mean=model.init is None)


def _hist_boosting(model: Any, X: Any) -> Smoother:
    if model.loss != "squared_error":
        raise _refuse(model, "loss", "only 'squared_error' is linear in the outcomes.")
    if model.do_early_stopping_:
        raise _refuse(model, "early_stopping", "the rows held out are not kept; use early_stopping=False.")
    if model.monotonic_cst is not None:
        raise _refuse(model, "monotonic_cst", "leaves that are cut off to keep an order are not means.")
    known, places = model._bin_mapper.make_known_categories_bitsets()
    prepared = model._preprocess_X(X, reset=False)
    steps = []
    for (predictor,) in model._predictors:
        named = copy(predictor)
        named.nodes = predictor.nodes.copy()
        named.nodes["value"] = np.arange(len(named.nodes))  # a prediction is then the leaf's number

        def leaf_of(Z: Any, named: Any = named) -> np.ndarray:
            return named.predict(Z, known, places, 1).astype(int)

        steps.append(_step(leaf_of(prepared), model.learning_rate, model.l2_regularization, leaf_of))
    inner = _boosted(steps, len(prepared), mean=True)
    return lambda Z: inner(model._preprocess_X(Z, reset=False))


def _step(leaf: np.ndarray, rate: float, penalty: float, asked: Callable[[Any], np.ndarray]) -> _Step:
    members = _members(leaf)
    return _Step(members, rate / (np.bincount(leaf) + max(penalty, 1e-300)), leaf, asked)


def _boosted(steps: Sequence[_Step], n: int, *, mean: bool) -> Smoother:
    r"""Return the weights of a boosted sum, by carrying each row's gradient back through the trees.

    With ``r_0 = y − ȳ``, ``r_m = (I − P_m) r_{m−1}`` and ``P_m`` the shrunken leaf means of tree m, a prediction is
    ``ȳ + Σ_m e' P_m r_{m−1}``. Read backwards, ``g ← g + P_m'(e_leaf − g)``: one pass over the trees for each block of rows,
    and no n × n matrix.
    """

    def weights(Z: Any) -> np.ndarray:
        asked = [step.asked(Z) for step in steps]
        g = np.zeros((n, len(asked[0])))
        for step, leaf in zip(reversed(steps), reversed(asked)):
            sums = -(step.members.T @ g)  # (n_leaves, b)
            sums[leaf, np.arange(len(leaf))] += 1.0
            g += (sums * step.scale[:, None])[step.leaf]
        return np.asarray((g - g.mean(axis=0) + 1 / n if mean else g).T)

    return weights


_KINDS: dict[tuple[type[RegressorMixin], ...], Callable[[Any, Any], Smoother]] = {
    (LinearRegression, Ridge, RidgeCV): _linear,
    (KernelRidge,): _kernel_ridge,
    (KNeighborsRegressor,): _neighbors,
    (RandomForestRegressor, ExtraTreesRegressor, DecisionTreeRegressor, ExtraTreeRegressor): _forest,
    (GradientBoostingRegressor,): _boosting,
    (HistGradientBoostingRegressor,): _hist_boosting,
}
