"""The wild cluster bootstrap: tests of regressions, and of a mean, with few clusters."""

import numpy as np
import pandas as pd
from scipy.optimize import bisect

from peerattn.exceptions import InputError, check_at_least, expect, reworded
from peerattn.models.cross_section import adding_up
from peerattn.panel.effects import net_of
from peerattn.seeds import check_seed

WEBB = np.sqrt([0.5, 1.0, 1.5])  # six points, ± each
FEW = 12  # with fewer clusters two signs make too few distinct draws
CELLS = 20_000_000
MEAN_DRAWS = 9_999
ZERO_VARIANCE = 1e-24  # of that of independent rows: less is what rounding leaves of none
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

    .. math:: y^*_{gi} = x_{gi} \tilde\beta + \eta_g \tilde e_{gi}, \qquad
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
        NaN where the statistic does not exist, as with no more clusters than columns of Z.

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
    R /= np.maximum(np.linalg.norm(R, axis=0), 1e-300)  # the statistic does not depend on units, but its rank would
    # a missing label is one of its own, and labels of several kinds have no order
    cluster, label = pd.factorize(np.asarray(cluster), use_na_sentinel=False)
    if Z.shape[1] >= len(label):  # scores sum to zero over clusters: their covariance is singular
        return float("nan")
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
        star = rest[:, None] * signs(rng, len(label), min(step, n_draws - start))[cluster]
        if effects is not None:
            star = net_of(effects, star / root[:, None], weight) * root[:, None]
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
    # where each cluster's score is zero, V is rounding of full rank, far below the variance of independent rows
    of_rows = np.square(A[tested]) @ np.square(residual)
    sound = (np.linalg.matrix_rank(V) == q) & (np.einsum("bqq->qb", V) > ZERO_VARIANCE * of_rows).all(axis=0)
    solved = np.linalg.solve(V[sound], delta.T[sound][:, :, None])[:, :, 0]
    out[sound] = np.einsum("bq,bq->b", delta.T[sound], solved)
    return out


def cluster_t(total: np.ndarray, size: np.ndarray) -> float:
    """Return the t of the mean of a variable with these sums and numbers of rows of its clusters, (G,) each."""
    n = len(size)
    mean = total.sum() / size.sum()
    return float(total.sum() / np.linalg.norm(total - size * mean) * np.sqrt((n - 1) / n))


class WildMean:
    r"""The mean of a variable by the wild cluster bootstrap of a constant, the null imposed.

    .. math:: r_g = S_g - n_g \mu, \quad m^* = \tfrac1N \textstyle\sum_g \eta_g r_g, \qquad
              t^*(\mu) = \frac{N m^*}{\sqrt{\frac{G}{G-1} \sum_g (\eta_g r_g - n_g m^*)^2}}

    as :func:`wild_cluster_p` with a regressor of ones. The sums are polynomials in :math:`\mu`, so that an interval takes no
    draws of its own.

    Parameters
    ----------
    total : ndarray (G,)
        Sums of the variable in each cluster, S.
    size : ndarray (G,)
        Rows of each cluster, n.

    Attributes
    ----------
    t, p : float
        Of a mean of zero, two-sided.

    References
    ----------
    As :func:`wild_cluster_p`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = WildMean(rng.normal(20.0, 8.0, size=12), np.full(12, 10))
    >>> found.p < 0.001, [round(end, 1) for end in found.interval()]
    (True, [1.6, 2.4])
    """

    def __init__(self, total: np.ndarray, size: np.ndarray):
        n = size.astype(float)
        self._N = float(n.sum())
        self._mean = float(total.sum() / self._N)
        rest = total - n * self._mean  # sums around the mean, from which each hypothesis is so far away
        self._root = float(np.linalg.norm(rest))
        self._n_squares = float(n @ n)
        eta = signs(np.random.default_rng(0), len(n), MEAN_DRAWS).T
        # of each draw the coefficients of the polynomials
        self._sums = (eta @ np.column_stack([rest, n, rest * n, n**2])).T
        self._squares = (eta**2 @ np.column_stack([rest**2, rest * n, n**2])).T
        self.t = cluster_t(total, n)
        self.p = self._p(-self._mean)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of all means that the test does not reject; infinite where two clusters reject nothing."""
        return self._bound(-1.0, 1 - level), self._bound(1.0, 1 - level)

    def _p(self, away: float) -> float:
        """Return the p-value of a mean that is so far away from that of the variable."""
        rest, n, rest_n, n_n = self._sums
        rest_square, cross_square, n_square = self._squares
        total = rest - away * n
        square = rest_square - 2 * away * cross_square + away**2 * n_square
        variance = square - 2 * total / self._N * (rest_n - away * n_n) + (total / self._N) ** 2 * self._n_squares
        least = self._N * abs(away) / self._root * np.sqrt(np.maximum(variance, 0)) * (1 - 1e-9)
        return float(1 + np.sum(np.abs(total) >= least)) / (1 + len(total))

    def _bound(self, side: float, size: float) -> float:
        """Return where on this side of the mean a test of this size begins to reject, by bisection."""
        outside = side * self._root / self._N
        while self._p(outside) >= size:
            if abs(outside) * self._N > FARTHEST * self._root:  # too few clusters to reject anything
                return side * np.inf
            outside *= 2
        return self._mean + bisect(lambda away: (self._p(away) >= size) - 0.5, 0.0, outside, xtol=abs(outside) / 2**30)
