"""The wild cluster bootstrap: tests of regressions, and of means, with few clusters."""

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, check_at_least, expect, reworded
from peerattn.models.cross_section import adding_up
from peerattn.panel.effects import net_of
from peerattn.seeds import check_seed

WEBB = np.sqrt([0.5, 1.0, 1.5])  # six points, ± each
FEW = 12  # with fewer clusters two signs make too few distinct draws
CELLS = 20_000_000
FARTHEST = 1e3  # standard errors from the mean at which no bound is looked for


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
    check_at_least(1, n_bootstrap=n_draws)
    check_seed(random_state)
    with reworded("y, X, Z, weight: expected numbers", kinds=(TypeError, ValueError)):
        y = np.asarray(y, dtype=float)
        X, Z = (np.column_stack([np.asarray(columns, dtype=float)]) for columns in (X, Z))  # one column may come as a vector
        root = np.ones(len(y)) if weight is None else np.sqrt(np.asarray(weight, dtype=float))
    lengths = [np.shape(each)[:1] for each in (y, X, Z, cluster, root)]
    expect(set(lengths) == {y.shape}, "y, X, Z, cluster, weight", "one row for each of y", f"shapes {lengths}")
    expect(effects is None or isinstance(effects, pd.DataFrame), "effects", "a frame or None", type(effects).__name__)
    if not np.isfinite(np.column_stack([y, X, Z])).all():
        raise InputError("y, X, Z: expected a number in every row, got missing ones; leave these rows out.")
    R = np.column_stack([X, Z]) * root[:, None]
    label, cluster = np.unique(cluster, return_inverse=True)
    outside = np.linalg.qr(X * root[:, None])[0]
    # residuals of the regression without Z: draws of them obey the null
    rest = root * y - outside @ (outside.T @ (root * y))
    A = np.linalg.pinv(R)  # rows: coefficients as combinations of y
    tested = slice(X.shape[1], R.shape[1])
    observed = _wald(rest[:, None], R, A, tested, cluster, len(label))[0]
    if not np.isfinite(observed):
        return float("nan")
    rng = np.random.default_rng(random_state)
    extreme = 0
    step = max(1, CELLS // len(y))
    for start in range(0, n_draws, step):
        draws = min(step, n_draws - start)
        star = rest[:, None] * signs(rng, len(label), draws)[cluster]
        star = net_of(effects, star / root[:, None], weight)[0] * root[:, None]
        extreme += int(np.sum(_wald(star, R, A, tested, cluster, len(label)) >= observed * (1 - 1e-12)))
    return (1 + extreme) / (1 + n_draws)


def signs(rng: np.random.Generator, n_clusters: int, n_draws: int) -> np.ndarray:
    """Return draws of mean zero and variance one, (n_clusters, n_draws)."""
    points = np.r_[-WEBB, WEBB] if n_clusters < FEW else np.array([-1.0, 1.0])
    return points[rng.integers(len(points), size=(n_clusters, n_draws), dtype=np.uint8)]


def _wald(y: np.ndarray, R: np.ndarray, A: np.ndarray, tested: slice, cluster: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return ``δ'V⁻¹δ`` for each column of y, V clustered (without factors, which would cancel)."""
    params = A @ y
    residual = y - R @ params
    delta = params[tested]
    q, draws = delta.shape
    sums = adding_up(cluster, n_clusters).T
    scores = np.stack([sums @ (a[:, None] * residual) for a in A[tested]])
    V = np.einsum("qgb,rgb->bqr", scores, scores)
    out = np.full(draws, np.nan)
    sound = np.linalg.matrix_rank(V) == q
    solved = np.linalg.solve(V[sound], delta.T[sound][:, :, None])[:, :, 0]
    out[sound] = np.einsum("bq,bq->b", delta.T[sound], solved)
    return out


class WildMeans:
    r"""The means of K variables by the wild cluster bootstrap of a constant, the null imposed.

    .. math:: r_g = S_g - n_g \mu, \quad m^* = \tfrac1N \textstyle\sum_g \eta_g r_g, \qquad
              t^*(\mu) = \frac{N m^*}{\sqrt{\frac{G}{G-1} \sum_g (\eta_g r_g - n_g m^*)^2}}

    as :func:`wild_cluster_p` with a regressor of ones. The sums are polynomials in :math:`\mu`, so that an interval takes no
    draws of its own.

    Parameters
    ----------
    total : ndarray (G, K)
        Sums of the variables in each cluster, S.
    size : ndarray (G,)
        Rows of each cluster, n.
    n_draws : int, default 9999
    random_state : int, default 0

    Attributes
    ----------
    t, p : ndarray (K,)
        Of a mean of zero, two-sided.

    References
    ----------
    As :func:`wild_cluster_p`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = WildMeans(rng.normal(20.0, 8.0, size=(12, 1)), np.full(12, 10))
    >>> bool(found.p[0] < 0.001), found.intervals().round(1).tolist()
    (True, [[1.6, 2.4]])
    """

    def __init__(self, total: np.ndarray, size: np.ndarray, *, n_draws: int = 9_999, random_state: int = 0):
        G = len(size)
        self._N = size.sum()
        n = size.astype(float)[:, None]
        self._means = total.sum(0) / self._N
        rest = total - n * self._means  # sums around the mean, from which each hypothesis is so far away
        self._root = np.sqrt(np.sum(rest**2, axis=0))
        self._n_squares = float(np.sum(n**2))
        first = np.hstack([rest, n, rest * n, n**2])
        second = np.hstack([rest**2, rest * n, n**2])
        eta = signs(np.random.default_rng(random_state), G, n_draws).T
        self._sums = eta @ first
        self._squares = eta**2 @ second
        self.t = self._N * self._means / self._root * np.sqrt((G - 1) / G)
        self.p = np.array([self._p(k, -mean) for k, mean in enumerate(self._means)])

    def intervals(self, level: float = 0.95) -> np.ndarray:
        """Return all means that the test does not reject, (K, 2); infinite where two clusters reject nothing."""
        K = len(self._means)
        return np.array([[self._bound(k, side, 1 - level) for side in (-1.0, 1.0)] for k in range(K)])

    def _p(self, k: int, away: float) -> float:
        """Return the p-value of a mean that is so far away from that of variable k."""
        K = len(self._means)
        sums = self._sums
        squares = self._squares
        total = sums[:, k] - away * sums[:, K]
        cross = sums[:, K + 1 + k] - away * sums[:, -1]
        square = squares[:, k] - 2 * away * squares[:, K + k] + away**2 * squares[:, -1]
        variance = square - 2 * total / self._N * cross + (total / self._N) ** 2 * self._n_squares
        least = self._N * abs(away) / self._root[k] * np.sqrt(np.maximum(variance, 0)) * (1 - 1e-9)
        return float(1 + np.sum(np.abs(total) >= least)) / (1 + len(sums))

    def _bound(self, k: int, side: float, size: float) -> float:
        """Return where on this side of the mean a test of this size begins to reject, by bisection."""
        inside = 0.0
        outside = side * self._root[k] / self._N
        while self._p(k, outside) >= size:
            if abs(outside) * self._N > FARTHEST * self._root[k]:  # too few clusters to reject anything
                return side * np.inf
            outside *= 2
        for _ in range(30):
            middle = (inside + outside) / 2
            if self._p(k, middle) >= size:
                inside = middle
            else:
                outside = middle
        return float(self._means[k] + inside)
