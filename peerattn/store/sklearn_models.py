"""The estimators of scikit-learn that a model file may hold, as attributes: arrays, numbers and text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import ElasticNet, ElasticNetCV, Lasso, LassoCV, LinearRegression, Ridge, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from peerattn.exceptions import InputError

_LINEAR = (ElasticNet, ElasticNetCV, Lasso, LassoCV, LinearRegression, Ridge, RidgeCV)
_OTHERS = (DummyRegressor, HistGradientBoostingRegressor, KNeighborsRegressor, Pipeline, StandardScaler)
_FORESTS = (ExtraTreesRegressor, RandomForestRegressor)
_TREE = (DecisionTreeRegressor, ExtraTreeRegressor)  # alone, or what a forest is made of
#: By name. Their methods are scikit-learn's own; a file gives them numbers.
KNOWN: dict[str, Any] = {kind.__name__: kind for kind in (*_LINEAR, *_OTHERS, *_FORESTS, *_TREE)}
_OUTSIDE = "path: the trees of the file point outside themselves."
_TREES = "HistGradientBoostingRegressor"
_OF_NODES = "left_child right_child feature threshold missing_go_to_left".split()
_KEPT = "n_features_in_ feature_names_in_ n_outputs_ n_trees_per_iteration_ _n_features _baseline_prediction".split()


def state_of(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the attributes of an estimator, trees as arrays of their nodes.

    Raises
    ------
    InputError
        For gradient boosting with categories or a loss other than the squared error.
    """
    held = {name: value for name, value in vars(estimator).items() if name not in ("_tree", "memory")}
    if type(estimator) in _TREE and "tree_" in held:
        held["estimators_"] = [estimator]
    if type(estimator) in (*_FORESTS, *_TREE) and "estimators_" in held:
        trees = [tree.tree_ for tree in held["estimators_"]]
        stored = _as_arrays([tree.__getstate__()["nodes"] for tree in trees], _OF_NODES)
        stored["values"] = np.concatenate([tree.value for tree in trees])
        for name in ("left_child", "right_child"):
            stored["nodes"][name] = stored["nodes"][name].astype(np.int32)
    elif type(estimator).__name__ == _TREES and "_predictors" in held:
        if held["is_categorical_"] is not None or estimator.loss != "squared_error":
            raise InputError(f"{_TREES}: stored without pickle where loss='squared_error' and no feature is categorical.")
        stored = _as_arrays([tree.nodes for step in held["_predictors"] for tree in step])
    else:
        return held
    kept = {name: held[name] for name in _KEPT if name in held}
    return estimator.get_params() | kept | {"trees": stored}


def _as_arrays(trees: list[np.ndarray], names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the nodes of all trees, one array for each of the named fields, and the number of nodes of each tree."""
    nodes = np.concatenate(trees)
    fields = {name: np.ascontiguousarray(nodes[name]) for name in names or nodes.dtype.names or ()}
    return {"sizes": np.array(list(map(len, trees))), "nodes": fields}


def from_state(name: str, held: dict[str, Any]) -> Any:
    """Return the estimator of this class with these attributes.

    Raises
    ------
    InputError
        For a class that is not in the list, or trees whose nodes point outside.
    """
    if name not in KNOWN:
        raise InputError(f"path: the file names {name!r}, which is no part of a saved model.")
    trees = held.pop("trees", None)
    estimator = with_attributes(KNOWN[name], held)
    if name == "Pipeline":
        estimator.memory = None
    # a tree of neighbours cannot be stored, and costs little to grow again
    if name == "KNeighborsRegressor" and "_fit_X" in held:  # its tree is made again of the training rows
        estimator.fit(held["_fit_X"], held["_y"])
        vars(estimator).update(held)
    if trees is not None and "values" in trees:
        _plant_forest(estimator, **trees)
    elif trees is not None:
        _plant(estimator, trees["sizes"], trees["nodes"])
    return estimator


def with_attributes(cls: Any, held: dict[str, Any]) -> Any:
    """Return an estimator of this class with these attributes, none of which may hide a method.

    Raises
    ------
    InputError
        For an attribute that an estimator of this class does not store.
    """
    for name in held:
        if name.startswith("__") or (hasattr(cls, name) and name not in cls._get_param_names()):
            raise InputError(f"path: the file names {name!r}, which {cls.__name__} does not store.")
    # not __init__: nothing of the class runs for a file
    estimator = cls.__new__(cls)
    vars(estimator).update(held)
    return estimator


def _plant(estimator: Any, sizes: np.ndarray, fields: dict[str, np.ndarray]) -> None:
    """Give gradient boosting its trees; their nodes are read by compiled code that does not look where they point."""
    from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    nodes = np.zeros(int(sizes.sum()), PREDICTOR_RECORD_DTYPE)
    for name, values in fields.items():
        nodes[name] = values
    if estimator.n_features_in_ != estimator._n_features or nodes["is_categorical"].any():
        raise InputError(_OUTSIDE)
    # compiled code follows these numbers without looking
    inner = nodes["is_leaf"] == 0
    _check_nodes(sizes, inner, nodes["left"], nodes["right"], nodes["feature_idx"], estimator._n_features)
    none = np.zeros((0, 8), dtype=np.uint32)
    trees = [TreePredictor(part, none, none) for part in np.split(nodes, np.cumsum(sizes)[:-1])]
    estimator._predictors = [[tree] for tree in trees]
    estimator._bin_mapper = _BinMapper()
    estimator._bin_mapper.is_categorical_ = np.zeros(estimator._n_features, dtype=np.uint8)
    estimator._bin_mapper.bin_thresholds_ = []
    estimator._preprocessor = estimator.is_categorical_ = estimator._is_categorical_remapped = None
    estimator._loss = estimator._get_loss(sample_weight=None)


def _plant_forest(estimator: Any, sizes: np.ndarray, nodes: dict[str, np.ndarray], values: np.ndarray) -> None:
    """Give a forest, or a tree alone, its nodes; what they were learned from (impurities, numbers of rows) is not stored."""
    from sklearn.tree._tree import NODE_DTYPE, Tree

    p = estimator.n_features_in_
    n_outputs = estimator.n_outputs_
    table = np.zeros(int(sizes.sum()), NODE_DTYPE)
    for name, column in nodes.items():
        table[name] = column
    inner = table["left_child"] >= 0
    _check_nodes(sizes, inner, table["left_child"], table["right_child"], table["feature"], p)
    if values.shape != (len(table), n_outputs, 1):
        raise InputError(_OUTSIDE)
    vars(estimator).update(vars(type(estimator)()) | vars(estimator))  # and what is no parameter
    planted = [estimator]
    if type(estimator) in _FORESTS:
        planted = estimator.estimators_ = [clone(estimator.estimator) for _ in sizes]
    for one, at in zip(planted, np.split(np.arange(len(table)), np.cumsum(sizes)[:-1]), strict=True):
        one.tree_ = Tree(p, np.ones(n_outputs, dtype=np.intp), n_outputs)
        one.tree_.__setstate__({"max_depth": len(at), "node_count": len(at), "nodes": table[at], "values": values[at]})
        one.n_features_in_ = p
        one.n_outputs_ = n_outputs


def _check_nodes(sizes: np.ndarray, inner: np.ndarray, left: np.ndarray, right: np.ndarray, feature: np.ndarray, p: int) -> None:
    """Raise where an inner node points to no later node of its own tree, or reads no column."""
    own = np.arange(len(inner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # place of a node in its tree
    size = np.repeat(sizes, sizes)
    inside = (left > own) & (left < size) & (right > own) & (right < size) & (feature >= 0) & (feature < p)
    if bool((inner & ~inside).any() or (sizes < 1).any()):
        raise InputError(_OUTSIDE)
