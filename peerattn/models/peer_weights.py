"""The peers inside any model: a prediction as a weighted sum of training outcomes, ``ŷ = W y``, never n × n at once."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Literal

import numpy as np
import pandas as pd
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
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, reworded, validate_arguments
from peerattn.models.base import has_peers
from peerattn.models.cross_section import adding_up, stacked
from peerattn.network import PeerNetwork
from peerattn.panel.frames import as_pandas
from peerattn.panel.labels import panel_labels
from peerattn.panel.memory import check_memory
from peerattn.panel.panel import Panel
from peerattn.render import show_label
from peerattn.types import ColumnLike

_CELLS = 5_000_000  # of a block of weights: 40 megabytes
_ROUNDING = 1e-4  # of the outcome's standard deviation: histogram boosting sums in single precision


@validate_arguments
def peer_weights(
    model: Any,
    X: Any,
    X_train: Any = None,
    y_train: Any = None,
    *,
    by: Literal["firm", "row"] = "firm",
    top_k: int | None = None,
    firm: ColumnLike = "firm",
    period: ColumnLike = "period",
) -> PeerNetwork:
    r"""Return whose outcomes a fitted model's predictions are made of.

    The prediction of many regressors is a weighted sum of the training outcomes,

    .. math:: \hat y_i = \sum_{j \in \text{training}} w_{ij}\, y_j,

    of least squares and ridges, ``w = 1/n + (x − x̄)'(X'X + λI)⁻¹X'``; of kernel ridges, ``k(x)'(K + αI)⁻¹``; of nearest
    neighbours and forests, the share of a row in the neighbourhood or the leaves; of gradient boosting with squared loss, what
    a gradient carried back through the trees leaves on each row.

    Parameters
    ----------
    model : fitted estimator
        LinearRegression, Ridge, RidgeCV, KernelRidge, KNeighborsRegressor, decision trees, random forests, extra trees,
        GradientBoostingRegressor, HistGradientBoostingRegressor; a Pipeline or search of one; or a peer model of this package,
        which gives its own network.
    X : DataFrame (n, p) or array-like
        The rows to predict, as ``model.predict`` takes them. Firms and periods are read from the index.
    X_train : DataFrame (m, p) or array-like, optional
        The rows the model was fitted on, in the order of fit.
    y_train : Series or array-like (m,), optional
        Their outcomes. ``W y_train`` is compared with ``model.predict(X)``, so that no weights of another fit are returned.
    by : {"firm", "row"}, default "firm"
        Peers are firms, over whose training rows weights are added up, or single training rows (firm and period).
    top_k : int, optional
        Keep the strongest weights of each row only: memory is then k numbers a row and one block.
    firm, period : str, default "firm", "period"
        Names of the index levels.

    Returns
    -------
    PeerNetwork
        ``W[i, j]`` is the weight of peer j in the prediction of i; signed unless the model is a mean of rows (neighbours,
        trees, forests).

    Raises
    ------
    InputError
        For a model whose prediction is not linear in the outcomes, or one that was not fitted on these rows.

    Notes
    -----
    A firm's own past rows are among its training rows: ``by="firm"`` shows how much of a prediction is its own past. The
    weights are those of the model as fitted: that trees chose their splits, and searches their settings, by the outcomes is
    not in them. Time of boosting: rows × training rows × trees; kernel ridges factor their n × n kernel, as their fit does.
    ``W y`` equals the prediction to rounding; of histogram boosting, which sums gradients in single precision, to 1e-6.

    References
    ----------
    Geertsema, P. and Lu, H. (2023), Relative valuation with machine learning, Journal of Accounting Research 61(1), 329–376;
    and (2023), Instance-based explanations for gradient boosting machine predictions (AXIL weights), arXiv:2301.01864.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from peerattn import load_grunfeld
    >>> panel = load_grunfeld()
    >>> X, y = panel.X[["value", "capital"]][panel.y.notna()], panel.y.dropna()
    >>> forest = RandomForestRegressor(50, random_state=0).fit(X, y)
    >>> network = peer_weights(forest, X.xs(1953, level="period", drop_level=False), X, y)
    >>> network.peers("IBM", k=3)["peer"].tolist()
    ['IBM', 'Chrysler', 'Westinghouse']
    """
    if has_peers(model):
        return model.peer_network(X, top_k=top_k)
    if hasattr(model, "fit"):
        check_is_fitted(last_estimator(model))
    if X_train is None or y_train is None:
        raise InputError("X_train, y_train: pass the rows and outcomes that the model was fitted on.")
    X, X_train = (_frame(rows) for rows in (X, X_train))
    y = np.asarray(as_pandas(y_train), dtype=float).reshape(-1)
    if len(y) != len(X_train):
        raise InputError(f"y_train has {len(y)} outcomes for the {len(X_train)} rows of X_train.")
    firms, periods = _labels(X, firm, period)
    learned, learned_in = _labels(X_train, firm, period)
    peers, group = _peers(learned, learned_in, by)
    if by == "row" and learned_in is not None:
        # peers are "firm period", which is text, and labels of a network have one type
        firms = pd.Index([show_label(label) for label in firms])
    if top_k is None:
        check_memory(8.0 * len(X) * len(peers), f"weights of {len(X):,} rows", "keep the strongest only, top_k=.")
    fitted = f"X_train, y_train: expected the rows that {type(model).__name__} was fitted on"
    with reworded(fitted, kinds=ValueError):
        smoother = smoother_of(model, X_train)
    predicted = np.asarray(model.predict(X), dtype=float).reshape(-1)
    step = max(1, _CELLS // len(y))

    def block_of(rows: np.ndarray) -> Any:
        # checked block by block, so that no weights of another fit are returned
        weights = smoother(_safe_indexing(X, rows))
        _check_fit(weights @ y, predicted[rows], y, model)
        return weights @ group

    places: dict[Any, np.ndarray] = {None: np.arange(len(X))}
    if periods is not None:
        places = {when: np.flatnonzero(periods == when) for when in periods.unique()}
    matrices: dict[Any, Any] = {}
    for when, at in places.items():
        blocks = (block_of(at[start : start + step]) for start in range(0, len(at), step))
        matrices[when] = (firms[at], peers, stacked(blocks, len(at), top_k))
    signed = any(W.min() < -1e-15 for _, _, W in matrices.values())
    # without a constant, or from a start of zero, weights that are not negative need not sum to one
    sums = np.concatenate([np.asarray(W.sum(axis=1)).ravel() for _, _, W in matrices.values()])
    whole = top_k is None and not signed and bool(np.abs(sums - 1).max(initial=0.0) < 1e-6)
    name = type(last_estimator(model)).__name__
    return PeerNetwork.from_matrices(matrices, name=name, signed=signed, row_normalized=whole).replaced(top_k=top_k)


def _frame(rows: Any) -> Any:
    rows = as_pandas(rows.X if isinstance(rows, Panel) else rows)
    return rows if isinstance(rows, pd.DataFrame) else np.asarray(rows)


def _labels(rows: Any, firm: str, period: str) -> tuple[pd.Index, pd.Index | None]:
    """Return the firm and the period of each row; the index, or row numbers, where there are not both."""
    found = panel_labels(rows, firm, period)
    if found is not None:
        return pd.Index(found.firm), pd.Index(found.period)
    return getattr(rows, "index", pd.RangeIndex(len(rows))), None


def _peers(firms: pd.Index, periods: pd.Index | None, by: str) -> tuple[pd.Index, sparse.csr_array]:
    """Return the peers' labels, and the matrix that adds training rows up into them."""
    if by == "row" and periods is not None:
        firms = pd.Index([f"{show_label(f)} {show_label(p)}" for f, p in zip(firms, periods)])
    column, labels = pd.factorize(firms)
    return labels, adding_up(column, len(labels))


def _check_fit(made: np.ndarray, predicted: np.ndarray, y: np.ndarray, model: Any) -> None:
    miss = float(np.abs(made - predicted).max(initial=0.0))
    if not miss <= _ROUNDING * max(float(y.std()), np.finfo(float).tiny):
        found = f"the weights give predictions that miss those of {type(model).__name__} by up to {miss:.3g}"
        remedy = "pass the rows, order and outcomes that it was fitted on, without sample_weight."
        raise InputError(f"X_train, y_train: {found}; {remedy}")


def last_estimator(model: Any) -> Any:
    """Return the model itself, of a pipeline or a search of one."""
    model = getattr(model, "best_estimator_", model)
    return model[-1] if hasattr(model, "steps") else model


#: Of rows of X the weights of all training rows, (n_rows, n_training).
Smoother = Callable[[Any], Any]
#: Of options what keeps a prediction linear in the outcomes, and why others do not.
_LINEAR: dict[str, tuple[tuple[Any, ...], str]] = {
    "positive": ((False,), "coefficients that are cut off at zero are not linear in the outcomes."),
    "criterion": (("squared_error", "friedman_mse", "poisson", "deprecated"), "leaves that hold no means; use 'squared_error'."),
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
    wanted = f"one of {known}, a Pipeline or search of one, or a peer model of this package"
    raise InputError(f"model: {name} is not a weighted sum of training outcomes that is known here; expected {wanted}.")


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
    center = x.mean(axis=0) * model.fit_intercept
    level = model.fit_intercept / len(x)
    u, s, vt = np.linalg.svd(x - center, full_matrices=False)
    kept = s > s.max(initial=0.0) * max(x.shape) * np.finfo(float).eps
    shrunk = np.divide(s, s**2 + alpha, out=np.zeros_like(s), where=kept)
    back = (vt.T * shrunk) @ u.T  # (p, n): coefficients of outcomes
    return lambda Z: (np.asarray(Z, dtype=float) - center) @ back + level


def _kernel_ridge(model: BaseEstimator, X: Any) -> Smoother:
    # ŷ = k(x)'(K + αI)⁻¹y
    gram = model._get_kernel(model.X_fit_)
    gram[np.diag_indices_from(gram)] += model.alpha
    factor = linalg.cho_factor(gram, overwrite_a=True)
    return lambda Z: linalg.cho_solve(factor, model._get_kernel(model.X_fit_, np.asarray(Z, dtype=float))).T


def _neighbors(model: BaseEstimator, X: Any) -> Smoother:
    from sklearn.neighbors._base import _get_weights

    def weights(Z: Any) -> sparse.csr_array:
        graph = model.kneighbors_graph(Z, mode="distance")
        w = _get_weights(graph.data.reshape(graph.shape[0], -1), model.weights)
        graph.data = np.ones(graph.nnz) if w is None else w.ravel()
        return normalize(sparse.csr_array(graph), norm="l1")

    return weights


def _leaves(tree: Any) -> Callable[[Any], np.ndarray]:
    """Return the function that gives the leaf of each row."""
    return lambda Z: tree.tree_.apply(np.asarray(Z, dtype=np.float32))


def _forest(model: BaseEstimator, X: Any) -> Smoother:
    trees = [_leaves(tree) for tree in getattr(model, "estimators_", [model])]
    draws = getattr(model, "estimators_samples_", [np.arange(len(X))])
    means = []  # of each tree: (n_leaves, n), rows of training weights
    for tree, drawn in zip(trees, draws):
        leaf = tree(X)
        # a row drawn twice counts twice in its leaf's mean
        often = np.bincount(drawn, minlength=len(X)).astype(float)
        counted = sparse.csr_array(adding_up(leaf, leaf.max() + 1).multiply(often[:, None]).T)
        counted.eliminate_zeros()
        means.append(normalize(counted, norm="l1"))
    return lambda Z: sum(mean[tree(Z)] for tree, mean in zip(trees, means)) / len(trees)


def _boosting(model: BaseEstimator, X: Any) -> Smoother:
    if model.n_iter_no_change is not None:
        raise _refused(model, "n_iter_no_change", "the rows held out are not kept; use n_iter_no_change=None.")
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
    inner = _boosted(trees, prepared, model.learning_rate, model.l2_regularization, mean=True)
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
