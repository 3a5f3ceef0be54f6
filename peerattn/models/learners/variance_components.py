"""Variances within and between groups (firms over time, periods over firms), and of sums, with the thresholds of their t."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from peerattn.models.cross_section import CrossSection, group_sums
from peerattn.scaling import ROUNDING


def variance_components(table: np.ndarray) -> tuple[float, float]:
    """Return the variance within rows and that between their means, NaN = unknown (analysis of variance)."""
    known = np.isfinite(table)
    n = known.sum(1)
    table = table[n > 0]
    n = n[n > 0]
    mean = np.nanmean(table, axis=1)
    within = float(np.nansum((table - mean[:, None]) ** 2) / max(n.sum() - len(n), 1))
    return within, max(0.0, float((mean**2).mean() - (within / n).mean()))


def variance_of_sum(terms: np.ndarray, information: np.ndarray) -> np.ndarray:
    r"""Return the variance of the sum S of independent terms (n, ...), such as the scores of clusters: (...).

    .. math:: \sum_g \frac{(s_g - h_g S)^2}{1 - h_g}

    with :math:`h_g` a term's share of the ``information`` (n, ...), its expected share of the sum: large clusters add more than
    small ones. It is unbiased where a term's variance is in proportion to its information (Bell and McCaffrey 2002, Survey
    Methodology 28), and with equal shares the usual variance. Infinite where one term has all the information.
    """
    n = len(terms)
    total = information.sum(axis=0)
    share = np.divide(information, total, out=np.full_like(information, 1 / n, dtype=float), where=total > 0)
    rest = 1 - share
    squares = (terms - share * terms.sum(axis=0)) ** 2
    return np.divide(squares, rest, out=np.full_like(squares, np.inf), where=rest > ROUNDING).sum(axis=0)


def t_threshold(kappa: float, n_clusters: float, n_tests: int = 1) -> float:
    """Return the quantile of Student's t with the tail probability of κ standard errors, by Bonferroni the largest of several."""
    return float(stats.t.isf(stats.norm.sf(kappa) / n_tests, max(n_clusters, 2) - 1))


def common_variance(sections: Sequence[CrossSection]) -> float:
    """Return τ, the variance that the targets of a period share over that of a single one."""
    of_periods = [each for s in sections if s.focal.y is not None for each in np.atleast_2d(s.focal.y.T)]
    table = np.full((len(of_periods), max(map(len, of_periods))), np.nan)
    for row, each in zip(table, of_periods, strict=True):
        row[: len(each)] = each
    within, between = variance_components(table)
    if within <= 0:
        return 0.0
    return between / within


def net_of_common(columns: np.ndarray, weight: np.ndarray, period: np.ndarray, tau: float) -> np.ndarray:
    r"""Return columns (n, m) net of a share of their period's mean: generalised least squares with random effects of periods.

    The share is :math:`\theta_t = 1 - (1 + n_t \tau)^{-1/2}`; periods are numbered from 0.
    """
    total = np.bincount(period, weight)
    share = (1 - 1 / np.sqrt(1 + tau * total)) / np.maximum(total, 1e-12)  # θ over n
    return np.asarray(columns - (share[:, None] * group_sums(columns * weight[:, None], period))[period])


def precision_of_periods(y: np.ndarray, period: np.ndarray) -> np.ndarray:
    """Return the inverse of the variance within each row's period, in units of that of all, (n,); periods numbered from 0.

    One row of the variance of all is added to each period, so that a tiny one of small errors has not all the weight.
    """
    n = np.maximum(np.bincount(period), 1)
    deviation = y - (np.bincount(period, y) / n)[period]
    squares = np.bincount(period, deviation**2)
    usual = float(squares.sum() / max(len(y) - len(n), 1))
    if usual <= 0:
        return np.ones(len(y))
    return np.asarray((n * usual / (squares + usual))[period])
