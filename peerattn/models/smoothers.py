"""Weights of training rows in the predictions of scikit-learn's regressors: ``ŷ = W y``, row by row, never n × n at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.model_selection._search import BaseSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import normalize
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from peerattn.exceptions import InputError
from peerattn.models.cross_section import adding_up

#: Of rows of X the weights of all training rows, (n_rows, n_training).
Smoother = Callable[[Any], Any]
#: Of options what keeps a prediction linear in the outcomes, and why others do not.
_LINEAR: dict[str, tuple[tuple[Any, ...], str]] = {
    "positive": ((False,), "coefficients that are cut off at zero are not linear in the outcomes."),
    "criterion": (
        ("squared_error", "friedman_mse", "poisson", "deprecated"),
        "leaves that do not hold means; use 'squared_error'.",
    ),
    "monotonic_cst": ((None,), "leaves that are cut off to keep an order are not means."),
    "loss": (("squared_error",), "only 'squared_error' is linear in the outcomes."),
    "subsample": ((1,), "the rows that each tree saw are not kept; use subsample=1."),
    "do_early_stopping_": ((False,), "the rows held out are not kept; use early_stopping=False."),
    "init": ((None, "zero"), "expected None or 'zero'."),
}


def smoother_of(model: BaseEstimator, X: Any) -> Smoother:
    """Return the function that gives the weights of the training rows ``X`` in a fitted model's predictions.

    Raises
    ------
    InputError
        For a regressor, or an option of one, whose prediction is not linear in the training outcomes.
    """
    if isinstance(model, BaseSearchCV):
        return smoother_of(model.best_estimator_, X)
    if isinstance(model, Pipeline):
        if len(model) == 1:
            return smoother_of(model[-1], X)
        before = model[:-1]
        inner = smoother_of(model[-1], before.transform(X))
        return lambda Z: inner(before.transform(Z))
    for kinds, make in _KINDS.items():
        if isinstance(model, kinds):
            _check_options(model)
            return make(model, X)
    name = type(model).__name__
    known = ", ".join(sorted(kind.__name__ for kinds in _KINDS for kind in kinds))
    raise InputError(
        f"model: {name} is not a weighted sum of training outcomes that is known here; expected one of {known}, a Pipeline "
        "or search of one, or a peer model of this package."
    )


def _check_options(model: BaseEstimator) -> None:
    """Raise for an option with which a prediction is not linear in the outcomes."""
    for attribute, (fine, why) in _LINEAR.items():
        value = getattr(model, attribute, fine[0])
        option = attribute.removeprefix("do_").rstrip("_")
        if not any(value is each or (np.isscalar(value) and value == each) for each in fine):
            raise _refused(model, option, why)
    if np.ndim(getattr(model, "alpha_", getattr(model, "alpha", 0.0))):
        raise _refused(model, "alpha", "expected one penalty, got several.")


def _refused(model: BaseEstimator, option: str, why: str) -> InputError:
    return InputError(f"model: {type(model).__name__}({option}={getattr(model, option, '...')!r}): {why}")


def _linear(model: BaseEstimator, X: Any) -> Smoother:
    x = np.asarray(X, dtype=float)
    alpha = getattr(model, "alpha_", getattr(model, "alpha", 0.0))
    center = np.zeros(x.shape[1])
    level = 0.0
    if model.fit_intercept:
        center = x.mean(axis=0)
        level = 1 / len(x)
    u, s, vt = np.linalg.svd(x - center, full_matrices=False)
    kept = s > s.max(initial=0.0) * max(x.shape) * np.finfo(float).eps
    u = u[:, kept]
    s = s[kept]
    v = vt[kept].T
    back = (v * (s / (s**2 + alpha))) @ u.T  # (p, n): coefficients of outcomes
    return lambda Z: (np.asarray(Z, dtype=float) - center) @ back + level


def _kernel_ridge(model: BaseEstimator, X: Any) -> Smoother:
    # ŷ = k(x)'(K + αI)⁻¹y
    gram = model._get_kernel(model.X_fit_)
    gram[np.diag_indices_from(gram)] += model.alpha
    factor = linalg.cho_factor(gram, overwrite_a=True)
    return lambda Z: linalg.cho_solve(factor, model._get_kernel(model.X_fit_, np.asarray(Z, dtype=float))).T


def _neighbors(model: BaseEstimator, X: Any) -> Smoother:
    from sklearn.neighbors._base import _get_weights

    n = model.n_samples_fit_

    def weights(Z: Any) -> sparse.csr_array:
        distance, at = model.kneighbors(Z)
        w = _get_weights(distance, model.weights)
        if w is None:
            w = np.ones(at.shape)
        starts = np.arange(len(at) + 1) * at.shape[1]
        return normalize(sparse.csr_array((w.ravel(), at.ravel(), starts), shape=(len(at), n)), norm="l1")

    return weights


def _leaves(tree: Any) -> Callable[[Any], np.ndarray]:
    """Return the function that gives the leaf of each row."""
    return lambda Z: tree.tree_.apply(np.asarray(Z, dtype=np.float32))


def _forest(model: BaseEstimator, X: Any) -> Smoother:
    trees = [_leaves(tree) for tree in getattr(model, "estimators_", [model])]
    whole = np.arange(len(X))
    draws = [whole] * len(trees)
    if getattr(model, "bootstrap", False):
        draws = model.estimators_samples_
    means = []  # of each tree: (n_leaves, n), rows of training weights
    for tree, drawn in zip(trees, draws):
        leaf = tree(X)
        # a row drawn twice counts twice in its leaf's mean
        often = np.bincount(drawn, minlength=len(whole)).astype(float)
        counted = sparse.csr_array(adding_up(leaf, leaf.max() + 1).multiply(often[:, None]).T)
        counted.eliminate_zeros()
        means.append(normalize(counted, norm="l1"))
    return lambda Z: sum(mean[tree(Z)] for tree, mean in zip(trees, means)) / len(trees)


def _boosting(model: BaseEstimator, X: Any) -> Smoother:
    if model.n_iter_no_change is not None:
        why = "the rows held out are not kept; use n_iter_no_change=None."
        raise _refused(model, "n_iter_no_change", why)
    trees = [_leaves(tree) for tree in model.estimators_[:, 0]]
    return _boosted(trees, X, model.learning_rate, mean=model.init is None)


def _hist_boosting(model: BaseEstimator, X: Any) -> Smoother:
    known, places = model._bin_mapper.make_known_categories_bitsets()
    trees = []
    for (predictor,) in model._predictors:
        named = copy(predictor)
        named.nodes = predictor.nodes.copy()
        named.nodes["value"] = np.arange(len(named.nodes))  # a prediction is then the leaf's number
        trees.append(lambda Z, named=named: named.predict(Z, known, places, 1).astype(int))
    prepared = model._preprocess_X(X, reset=False)
    penalty = model.l2_regularization
    inner = _boosted(trees, prepared, model.learning_rate, penalty, mean=True)
    return lambda Z: inner(model._preprocess_X(Z, reset=False))


def _boosted(trees: Sequence[Callable[[Any], np.ndarray]], X: Any, rate: float, penalty: float = 0.0, *, mean: bool) -> Smoother:
    r"""Return the weights of a boosted sum, by carrying each row's gradient back through the trees.

    With ``r_0 = y − ȳ``, ``r_m = (I − P_m) r_{m−1}`` and ``P_m`` the shrunken leaf means of tree m, a prediction is
    ``ȳ + Σ_m e' P_m r_{m−1}``. Read backwards, ``g ← g + P_m'(e_leaf − g)``: one pass over the trees for each block of rows,
    and no n × n matrix. ``trees`` give each row's leaf; a leaf's mean is its sum times ``rate`` over rows plus penalty.
    """
    leaves = [tree(X) for tree in trees]
    sizes = [np.bincount(leaf) for leaf in leaves]
    members = [adding_up(leaf, len(size)) for leaf, size in zip(leaves, sizes)]
    scales = [rate / (np.maximum(size, 1) + penalty)[:, None] for size in sizes]

    def weights(Z: Any) -> np.ndarray:
        requested = [tree(Z) for tree in trees]
        g = np.zeros((len(X), len(requested[0])))
        for leaf, member, scale, mine in zip(leaves[::-1], members[::-1], scales[::-1], requested[::-1]):
            sums = -(member.T @ g)  # (n_leaves, b)
            sums[mine, np.arange(len(mine))] += 1.0
            g += (sums * scale)[leaf]
        if mean:
            g += 1 / len(g) - g.mean(axis=0)
        return np.asarray(g.T)

    return weights


_KINDS: dict[tuple[type[RegressorMixin], ...], Callable[[Any, Any], Smoother]] = {
    (LinearRegression, Ridge, RidgeCV): _linear,
    (KernelRidge,): _kernel_ridge,
    (KNeighborsRegressor,): _neighbors,
    (RandomForestRegressor, ExtraTreesRegressor, DecisionTreeRegressor, ExtraTreeRegressor): _forest,
    (GradientBoostingRegressor,): _boosting,
    (HistGradientBoostingRegressor,): _hist_boosting,
}
