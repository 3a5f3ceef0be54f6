"""The peers inside any model: a prediction as a weighted sum of training outcomes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, checked
from peerattn.models.base import has_peers
from peerattn.models.cross_section import adding_up, stacked
from peerattn.models.smoothers import smoother_of
from peerattn.network import PeerNetwork
from peerattn.panel.frames import as_pandas
from peerattn.panel.labels import panel_labels
from peerattn.panel.memory import check_memory
from peerattn.panel.panel import Panel
from peerattn.render import show_label

_CELLS = 5_000_000  # of a block of weights: 40 megabytes
_ROUNDING = 1e-4  # of the outcome's standard deviation: histogram boosting sums in single precision


@checked
def peer_weights(
    model: Any,
    X: Any,
    X_train: Any = None,
    y_train: Any = None,
    *,
    by: Literal["firm", "row"] = "firm",
    top_k: int | None = None,
    firm: str = "firm",
    period: str = "period",
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
    X_train : DataFrame (m, p) or array-like
        The rows the model was fitted on, in the order of fit.
    y_train : Series or array-like (m,)
        Their outcomes. ``W y_train`` is compared with ``model.predict(X)``, so that no weights of another fit are returned.
    by : {"firm", "row"}, default "firm"
        Peers are firms, over whose training rows weights are added up, or single training rows (firm and period).
    top_k : int, optional
        Keep the strongest weights of each row only: memory is then k numbers a row and one block.
    firm, period : str
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
        return model.peer_network(X, **({} if top_k is None else {"top_k": top_k}))
    if hasattr(model, "fit"):
        check_is_fitted(_last(model))
    if X_train is None or y_train is None:
        raise InputError("X_train, y_train: pass the rows and outcomes that the model was fitted on.")
    X, X_train = (_frame(rows) for rows in (X, X_train))
    y = np.asarray(as_pandas(y_train), dtype=float).reshape(-1)
    if len(y) != len(X_train):
        raise InputError(f"y_train has {len(y)} outcomes for the {len(X_train)} rows of X_train.")
    firms, periods = _labels(X, firm, period)
    peers, group = _peers(*_labels(X_train, firm, period), by)
    if top_k is None:
        cells = 8.0 * len(X) * len(peers)
        what = f"weights of {len(X):,} rows"
        check_memory(cells, what, "keep the strongest only, top_k=.")
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
    whole = top_k is None and not signed
    name = type(_last(model)).__name__
    network = PeerNetwork.from_matrices(matrices, name=name, signed=signed, row_normalized=whole)
    return network.replaced(top_k=top_k)


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
        raise InputError(
            f"X_train, y_train: the weights give predictions that miss those of {type(model).__name__} by up to {miss:.3g}; "
            "pass the rows, order and outcomes that it was fitted on, without sample_weight."
        )


def _last(model: Any) -> Any:
    """Return the model itself, of a pipeline or a search of one."""
    model = getattr(model, "best_estimator_", model)
    return model[-1] if hasattr(model, "steps") else model
