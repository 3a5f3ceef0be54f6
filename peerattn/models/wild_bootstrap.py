"""The wild cluster bootstrap: tests of regressions with few clusters."""

from __future__ import annotations

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.panel.effects import net_of

WEBB = np.sqrt([0.5, 1.0, 1.5])  # six points, ± each
FEW = 12  # with fewer clusters two signs make too few distinct draws
CELLS = 20_000_000


def wild_cluster_p(
    y: np.ndarray,
    X: np.ndarray,
    Z: np.ndarray,
    cluster: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    effects: pd.DataFrame | None = None,
    n_draws: int = 999,
    random_state: int = 0,
) -> float:
    r"""Return the p value of ``δ = 0`` in ``y = Xβ + Zδ + effects + e`` by the wild cluster bootstrap, the null imposed.

    .. math:: y^*_{gi} = x_{gi}'\tilde\beta + \eta_g \tilde e_{gi}, \qquad
              p = \frac{1 + \#\{F^* \ge F\}}{1 + B}

    with :math:`\tilde\beta, \tilde e` of the regression without Z, one sign :math:`\eta_g` a cluster and draw, and F the Wald
    statistic with variances clustered alike.

    Parameters
    ----------
    y : ndarray (n,)
    X : ndarray (n, k)
        Regressors that are not tested.
    Z : ndarray (n, q)
        Regressors that are.
    cluster : ndarray (n,)
    weight : ndarray (n,), optional
        Frequency weights.
    effects : DataFrame (n, e), optional
        Absorbed effects; y, X and Z are net of them already, and each draw is made so again.
    n_draws : int, default 999
    random_state : int, default 0

    Returns
    -------
    float
        NaN where the statistic does not exist.

    Notes
    -----
    Signs are ±1, with fewer than 12 clusters Webb's six points. O(n · draws).

    References
    ----------
    Cameron, A. C., Gelbach, J. and Miller, D. (2008), Bootstrap-based improvements for inference with clustered errors, Review
    of Economics and Statistics 90(3). Webb, M. (2014), Reworking wild bootstrap based inference for clustered errors, Queen's
    University. Roodman, D., MacKinnon, J., Nielsen, M. and Webb, M. (2019), Fast and wild, Stata Journal 19(1).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, cluster = rng.normal(size=(60, 1)), np.repeat(np.arange(10), 6)
    >>> wild_cluster_p(x[:, 0] + rng.normal(size=60), np.ones((60, 1)), x, cluster) < 0.05
    True
    """
    if n_draws < 1:
        raise InputError(f"n_bootstrap must be at least 1, got {n_draws!r}.")
    root = np.ones(len(y)) if weight is None else np.sqrt(weight)
    R = np.column_stack([X, Z]) * root[:, None]
    label, cluster = np.unique(cluster, return_inverse=True)
    outside = np.linalg.qr(X * root[:, None])[0] if X.shape[1] else np.zeros((len(y), 0))
    rest = root * y - outside @ (outside.T @ (root * y))
    A = np.linalg.pinv(R)  # rows: coefficients as combinations of y
    tested = slice(X.shape[1], R.shape[1])
    observed = _wald(rest[:, None], R, A, tested, cluster, len(label))[0]
    if not np.isfinite(observed):
        return float("nan")
    rng, extreme, left = np.random.default_rng(random_state), 0, n_draws
    while left:
        draws = min(left, max(1, CELLS // len(y)))
        star = rest[:, None] * signs(rng, len(label), draws)[cluster]
        star = net_of(effects, star / root[:, None], weight)[0] * root[:, None]
        extreme += int(np.sum(_wald(star, R, A, tested, cluster, len(label)) >= observed * (1 - 1e-12)))
        left -= draws
    return (1 + extreme) / (1 + n_draws)


def signs(rng: np.random.Generator, n_clusters: int, n_draws: int) -> np.ndarray:
    """Return draws of mean zero and variance one, (n_clusters, n_draws)."""
    points = np.r_[-WEBB, WEBB] if n_clusters < FEW else np.array([-1.0, 1.0])
    return rng.choice(points, size=(n_clusters, n_draws))


def _wald(
    y: np.ndarray, R: np.ndarray, A: np.ndarray, tested: slice, cluster: np.ndarray, n_clusters: int
) -> np.ndarray:
    """Return ``δ'V⁻¹δ`` for each column of y, V clustered (without factors, which would cancel)."""
    params = A @ y
    residual, delta = y - R @ params, params[tested]
    q, draws = delta.shape
    order = np.argsort(cluster, kind="stable")
    starts = np.searchsorted(cluster[order], np.arange(n_clusters))
    scores = np.stack([np.add.reduceat((a[:, None] * residual)[order], starts) for a in A[tested]])
    V = np.einsum("qgb,rgb->bqr", scores, scores)
    out = np.full(draws, np.nan)
    sound = np.linalg.matrix_rank(V) == q if draws else np.zeros(0, dtype=bool)
    out[sound] = np.einsum(
        "bq,bq->b", delta.T[sound], np.linalg.solve(V[sound], delta.T[sound][:, :, None])[:, :, 0]
    )
    return out
