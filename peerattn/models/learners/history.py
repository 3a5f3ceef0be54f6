"""Firm history: what a firm's own past outcomes predict, so that it does not pass for what its peers predict."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peerattn.models.cross_section import CrossSection, section_numbers
from peerattn.models.learners.linear import by_section, stacked_rows
from peerattn.models.learners.nonlinear import Estimated, fit_trees
from peerattn.models.learners.past_outcomes import FEWEST_FOR_A_TREND, WINDOW, of_tables, own_pasts
from peerattn.models.learners.training import FEW_ROWS, Training
from peerattn.models.learners.variance_components import common_variance, net_of_common, variance_components


@dataclass(frozen=True)
class OwnHistory:
    r"""A candidate that reads the firm's own past outcomes, known by then; a firm without a past has no prediction.

    ``ols_i + e_i``: an empirical-Bayes firm effect of the past residuals of the linear own part,
    :math:`e_i = \bar r_i n_i / (n_i + λ)` (n of them, :math:`\lambda = \sigma^2_{within} / \sigma^2_{between}`; Efron and
    Morris 1975); the same with the firm's trend (:func:`trends`); an autoregression, a ridge on the last residual, counted
    at most as its 1st or 99th percentile in training (as characteristics of curves do), and on every lag that enough
    rows have; or, with ``trees``, gradient boosting on characteristics, codes, effect and last residual.
    """

    shrink: float  # λ; infinite where firms do not differ
    trend: float = np.inf  # λ of firms' trends; infinite: none
    slope: np.ndarray | None = None  # of an autoregression: of the last residual and of lags, the latest last
    bounds: tuple[float, float] = (-np.inf, np.inf)  # of the last residual
    trees: Estimated | None = None

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return the prediction of every focal row of each cross-section, (n_focal, 1); NaN without a past."""
        columns, known = past_columns(sections, self.shrink)
        if self.trees is not None:
            found = self.trees.of(stacked_rows(sections), columns)
        else:
            added = columns[:, 0]
            if self.slope is not None:
                added = lag_columns(sections, columns[:, 1].clip(*self.bounds), len(self.slope) - 1) @ self.slope
            elif np.isfinite(self.trend):
                added = added + trends(sections, self.trend)
            found = np.concatenate([section.own_term for section in sections]) + added[:, None]
        return by_section(np.where(known[:, None], found, np.nan), sections)


BLOCKS = 5  # of periods, over which its penalty is cross-validated
PENALTIES = np.geomspace(0.02, 100, 20)  # the last residual is nearly the latest lag: some penalty is always needed


def past_columns(sections: Sequence[CrossSection], shrink: float) -> tuple[np.ndarray, np.ndarray]:
    """Return each focal firm's effect, last residual and number of past ones, (n, 3), and who has a past."""
    return _shrunk(own_pasts(sections), shrink)


def _shrunk(pasts: tuple[np.ndarray, np.ndarray, np.ndarray], shrink: float) -> tuple[np.ndarray, np.ndarray]:
    last, mean, n = pasts
    effect = mean * n / np.maximum(n + shrink, 1e-12)  # zero where λ is infinite
    return np.column_stack([effect, last, n]), n > 0


def trends(sections: Sequence[CrossSection], shrink: float) -> np.ndarray:
    r"""Return how far each focal firm's own trend has moved by its period, (n,): slope times time since the mean of the past.

    The least squares slope is shrunk by :math:`L_i / (L_i + λ)`, :math:`L_i` the squared deviations of its periods from their
    mean and :math:`\lambda` the variance around trends over that of slopes between firms (empirical Bayes).
    """
    found = [group[0].past.own_trend(group) for group in of_tables(sections)]
    slope, length, time = (np.concatenate(column) for column in zip(*found, strict=True))
    return np.asarray(slope * time * length / np.maximum(length + shrink, 1e-12))


def lag_columns(sections: Sequence[CrossSection], last: np.ndarray, n_lags: int) -> np.ndarray:
    """Return the columns of an autoregression, (n, 1 + lags): the last residual, and lags in standard deviations."""
    lags = [section.past.before(section.period, section.focal.label, n_lags) for section in sections]
    return np.column_stack([last, np.concatenate(lags)])


def fit_effect(training: Training) -> OwnHistory | None:
    """Fit a firm effect; None without periods, or where firms do not differ.

    With fewer than 50 training rows that have a past it is the mean of the past as it is (λ = 0), which the candidates' problem
    shrinks.
    """
    shrink = _effect_ratio(training)
    if shrink is None or np.isinf(shrink):
        return None
    return OwnHistory(shrink)


def fit_trend(training: Training) -> OwnHistory | None:
    """Fit firm effects and trends; None with few rows that have a past, or where trends do not differ between firms."""
    shrink = _effect_ratio(training)
    if not shrink:
        return None
    trend = trend_ratio(training.history.table.to_numpy(float))
    if np.isinf(trend):
        return None
    return OwnHistory(shrink, trend)


def fit_trees_with_past(training: Training) -> OwnHistory | None:
    """Fit gradient boosting on characteristics, codes, firm effect and last residual; None with few rows that have a past."""
    shrink = _effect_ratio(training)
    if not shrink:
        return None
    columns, _ = _shrunk(training.own_pasts, shrink)
    return OwnHistory(shrink, trees=fit_trees(training, columns))


def fit_autoregression(training: Training) -> OwnHistory | None:
    """Fit an autoregression; None with few rows that have a past."""
    shrink = _effect_ratio(training)
    if not shrink:
        return None
    columns, known = _shrunk(training.own_pasts, shrink)
    y = np.concatenate([section.focal.y for section in training.residuals])[known]
    # few extreme outcomes would else determine the slope
    low, high = np.quantile(columns[known, 1], [0.01, 0.99])
    bounds = (float(low), float(high))
    X = lag_columns(training.residuals, columns[:, 1].clip(*bounds), min(WINDOW, training.history.table.shape[1]))[known]
    # in standard deviations, as lags are: the units of the outcome must not matter to the penalty
    unit = float(X[:, 0].std()) or 1.0
    X[:, 0] /= unit
    # lags further back than the last one that enough rows have are noise
    enough = (X[:, 1:] != 0).sum(axis=0) >= FEW_ROWS
    oldest = int(enough.argmax()) if enough.any() else len(enough)
    X = np.delete(X, range(1, 1 + oldest), axis=1)
    period = np.unique(section_numbers(training.residuals)[known], return_inverse=True)[1]
    # shocks that a period's firms share would pass for evidence on the slopes
    tau = common_variance(training.residuals)
    net = net_of_common(np.column_stack([X, y]), np.ones(len(y)), period, tau)
    slope = ridge_slopes(net[:, :-1], net[:, -1], period)
    slope[0] /= unit
    return OwnHistory(shrink, slope=slope, bounds=bounds)


def _effect_ratio(training: Training) -> float | None:
    """Return λ of firm effects: 0 with fewer than 50 rows that have a past, infinite where firms do not differ, None: no past."""
    if not (training.problem.dated and training.problem.reads_past):
        return None
    _, _, number = training.own_pasts
    if (number > 0).sum() < FEW_ROWS:
        return 0.0
    within, between = variance_components(training.history.table.to_numpy(float))
    if between <= 0:
        return np.inf
    return within / between


def trend_ratio(table: np.ndarray) -> float:
    """Return λ of firms' trends: the variance around them over that of their slopes between firms, NaN = unknown (F, T)."""
    known = np.isfinite(table)
    table = table[known.sum(axis=1) >= FEWEST_FOR_A_TREND]
    known = np.isfinite(table)
    n = known.sum(axis=1)
    time = np.where(known, np.arange(table.shape[1]), np.nan)
    t = time - np.nanmean(time, axis=1, keepdims=True)
    y = table - np.nanmean(table, axis=1, keepdims=True)
    length = np.nansum(t**2, axis=1)
    slope = np.nansum(t * y, axis=1) / length
    around = float(np.nansum((y - slope[:, None] * t) ** 2) / max((n - 2).sum(), 1))
    between = float((slope**2).mean() - (around / length).mean()) if len(slope) else 0.0
    if between <= 0:
        return np.inf
    return around / between


def ridge_slopes(X: np.ndarray, y: np.ndarray, period: np.ndarray) -> np.ndarray:
    """Return the slopes of a ridge without a constant, its penalty by cross-validation over blocks of whole periods.

    Shocks that firms of a period share would make rows pass for independent in a criterion over rows.
    """
    if period.max() == 0:  # rows of one period are of different firms
        period = np.arange(len(y)) % BLOCKS
    block = period * BLOCKS // (period.max() + 1)
    products = [(X[block == b].T @ X[block == b], X[block == b].T @ y[block == b]) for b in range(BLOCKS)]
    moments = sum(of_block for of_block, _ in products)
    target = sum(of_block for _, of_block in products)
    errors = np.zeros(len(PENALTIES))
    for of_block, v in products:
        slopes = _solved(moments - of_block, target - v)
        # of the squared error what depends on the slopes
        errors += np.einsum("pk,pq,qk->k", slopes, of_block, slopes) - 2 * v @ slopes
    return np.asarray(_solved(moments, target)[:, errors.argmin()])


def _solved(moments: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the slopes of a ridge for each penalty, (p, penalties); penalties count the mean squared column."""
    values, axes = np.linalg.eigh(moments)
    size = max(values.mean(), 1e-300)
    return np.asarray(axes @ ((axes.T @ target)[:, None] / (values.clip(0)[:, None] + size * PENALTIES)))
