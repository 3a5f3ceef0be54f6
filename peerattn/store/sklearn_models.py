"""The estimators of scikit-learn that a model file may hold, as attributes: arrays, numbers and text."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import ElasticNet, ElasticNetCV, Lasso, LassoCV, LinearRegression, Ridge, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from peerattn.exceptions import InputError

_LINEAR = (ElasticNet, ElasticNetCV, Lasso, LassoCV, LinearRegression, Ridge, RidgeCV)
_OTHERS = (DummyRegressor, HistGradientBoostingRegressor, KNeighborsRegressor, Pipeline, StandardScaler)
#: By name. Their methods are scikit-learn's own; a file gives them numbers.
KNOWN: dict[str, Any] = {kind.__name__: kind for kind in (*_LINEAR, *_OTHERS)}
_TREES = "HistGradientBoostingRegressor"
_NEEDED = "n_features_in_ feature_names_in_ n_trees_per_iteration_ _n_features _baseline_prediction".split()


def state_of(estimator: Any) -> dict[str, Any]:
    """Return the attributes of an estimator, trees as arrays of their nodes.

    Raises
    ------
    InputError
        For gradient boosting with categories or a loss other than the squared error.
    """
    held = {name: value for name, value in vars(estimator).items() if name not in ("_tree", "memory")}
    if type(estimator).__name__ != _TREES or "_predictors" not in held:
        return held
    if held["is_categorical_"] is not None or estimator.loss != "squared_error":
        raise InputError(
            "HistGradientBoostingRegressor: stored without pickle where loss='squared_error' and no feature is categorical."
        )
    trees = [tree for step in held["_predictors"] for tree in step]
    nodes = np.concatenate([tree.nodes for tree in trees])
    sizes = np.array([len(tree.nodes) for tree in trees])
    fields = {name: np.ascontiguousarray(nodes[name]) for name in nodes.dtype.names or ()}
    kept = {name: held[name] for name in _NEEDED if name in held}
    return estimator.get_params() | kept | {"trees": {"sizes": sizes, "nodes": fields}}


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
    if name == "KNeighborsRegressor" and "_fit_X" in held:  # its tree is made again of the training rows
        estimator.fit(held["_fit_X"], held["_y"])
        vars(estimator).update(held)
    if trees is not None:
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
    own = np.arange(len(nodes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # place of a node in its tree
    inner, size = nodes["is_leaf"] == 0, np.repeat(sizes, sizes)
    sides = [(nodes[side] > own) & (nodes[side] < size) for side in ("left", "right")]
    inside = (nodes["feature_idx"] >= 0) & (nodes["feature_idx"] < estimator._n_features)
    right = (~inner | (sides[0] & sides[1] & inside)) & (nodes["is_categorical"] == 0)
    if not right.all() or (sizes < 1).any() or estimator.n_features_in_ != estimator._n_features:
        raise InputError("path: the trees of the file point outside themselves.")
    none = np.zeros((0, 8), dtype=np.uint32)
    trees = [TreePredictor(part, none, none) for part in np.split(nodes, np.cumsum(sizes)[:-1])]
    estimator._predictors = [[tree] for tree in trees]
    estimator._bin_mapper = _BinMapper()
    estimator._bin_mapper.is_categorical_ = np.zeros(estimator._n_features, dtype=np.uint8)
    estimator._bin_mapper.bin_thresholds_ = []
    estimator._preprocessor = estimator.is_categorical_ = estimator._is_categorical_remapped = None
    estimator._loss = estimator._get_loss(sample_weight=None)
