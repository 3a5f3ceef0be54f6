"""Firm history: what a firm's own past outcomes predict, so that it does not pass for what its peers predict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from peerattn.models.cross_section import CrossSection, section_numbers
from peerattn.models.learners.linear import by_section, stacked_rows
from peerattn.models.learners.nonlinear import Estimated, fit_trees
from peerattn.models.learners.past_outcomes import WINDOW
from peerattn.models.learners.training import FEW_ROWS, Training
from peerattn.models.learners.variance_components import common_variance, net_of_common, variance_components


@dataclass(frozen=True)
class OwnHistory:
    r"""A candidate that reads the firm's own past outcomes, known by then; a firm without a past has no prediction.

    ``ols_i + e_i``: an empirical-Bayes firm effect of the past residuals of the linear own part,
    :math:`e_i = \bar r_i n_i / (n_i + λ)` (n of them, :math:`\lambda = \sigma^2_{within} / \sigma^2_{between}`; Efron and
    Morris 1975); or an autoregression, a ridge on the firm's trend (:func:`trends`), the last residual and every lag that enough
    rows have; trend and last residual count as their 1st or 99th percentile in training where they lie beyond (as characteristics
    of curves do); or, with ``trees``, gradient boosting on characteristics, codes, effect and last residual.
    """

    shrink: float  # λ; infinite where firms do not differ
    slope: np.ndarray  # of the effect; or of trend, last residual and lags, the latest lag last
    trend: float = np.inf  # λ of firms' trends; infinite where they do not differ
    bounds: np.ndarray | None = None  # (2, 2): lowest and highest trend and last residual of an autoregression
    trees: Estimated | None = None

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return the prediction of every focal row of each cross-section, (n_focal, 1); NaN without a past."""
        columns, known = past_columns(sections, self.shrink)
        if self.trees is not None:
            found = self.trees.of(stacked_rows(sections), columns)
        else:
            X = columns[:, :1]
            if self.bounds is not None:
                X = lag_columns(sections, columns[:, 1], self.trend, len(self.slope) - FIRST_LAG)
                X[:, :FIRST_LAG] = X[:, :FIRST_LAG].clip(*self.bounds)
            found = np.concatenate([section.own_term for section in sections]) + (X @ self.slope)[:, None]
        return by_section(np.where(known[:, None], found, np.nan), sections)


FIRST_LAG = 2  # columns of an autoregression before its lags: trend and last residual
BLOCKS = 5  # of periods, over which its penalty is cross-validated
PENALTIES = np.geomspace(0.02, 100, 20)  # the last residual is nearly the latest lag: some penalty is always needed


def _of_tables(sections: Sequence[CrossSection]) -> Iterator[list[CrossSection]]:
    """Yield the cross-sections that see one table of the past: most often all; with dates of knowledge each has its own."""
    return (list(group) for _, group in groupby(sections, key=lambda section: id(section.past)))


def past_columns(sections: Sequence[CrossSection], shrink: float) -> tuple[np.ndarray, np.ndarray]:
    """Return each focal firm's effect, last residual and number of past ones, (n, 3), and who has a past."""
    found = [group[0].past.own_past(group) for group in _of_tables(sections)]
    last, mean, n = (np.concatenate(column) for column in zip(*found, strict=True))
    effect = mean * n / np.maximum(n + shrink, 1e-12)  # zero where λ is infinite
    return np.column_stack([effect, last, n]), n > 0


def trends(sections: Sequence[CrossSection], shrink: float) -> np.ndarray:
    r"""Return how far each focal firm's own trend has moved by its period, (n,): slope times time since the mean of the past.

    The least squares slope is shrunk by :math:`L_i / (L_i + λ)`, :math:`L_i` the squared deviations of its periods from their
    mean and :math:`\lambda` the variance around trends over that of slopes between firms (empirical Bayes).
    """
    found = [group[0].past.own_trend(group) for group in _of_tables(sections)]
    slope, length, time = (np.concatenate(column) for column in zip(*found, strict=True))
    return np.asarray(slope * time * length / np.maximum(length + shrink, 1e-12))


def lag_columns(sections: Sequence[CrossSection], last: np.ndarray, trend: float, n_lags: int) -> np.ndarray:
    """Return the columns of an autoregression, (n, 2 + lags): trend, last residual, and lags in standard deviations."""
    lags = [section.past.before(section.period, section.focal.label, n_lags) for section in sections]
    return np.column_stack([trends(sections, trend), last, np.concatenate(lags)])


def fit_history(training: Training, *, lag: bool, trees: bool = False) -> OwnHistory | None:
    """Fit a firm effect, with ``lag`` an autoregression, or trees on effect and last residual; None without periods.

    With fewer than 50 training rows that have a past a firm effect is the mean of the past as it is (λ = 0), which the
    candidates' problem shrinks; nothing else can be fitted then.
    """
    if not (training.problem.dated and training.problem.reads_past):
        return None
    _, known = past_columns(training.residuals, 0.0)
    few = known.sum() < FEW_ROWS
    shrink = 0.0
    table = training.history.table.to_numpy(float)
    if not few:
        within, between = variance_components(table)
        shrink = within / between if between > 0 else np.inf
    if not (lag or trees) and np.isfinite(shrink):
        return OwnHistory(shrink, slope=np.ones(1))
    if few or not (lag or trees):
        return None
    columns, _ = past_columns(training.residuals, shrink)
    if trees:
        return OwnHistory(shrink, slope=np.ones(1), trees=fit_trees(training, columns))
    y = np.concatenate([section.focal.y for section in training.residuals])[known]
    trend = trend_ratio(table)
    X = lag_columns(training.residuals, columns[:, 1], trend, min(WINDOW, table.shape[1]))[known]
    # few extreme outcomes would else determine the slopes
    bounds = np.quantile(X[:, :FIRST_LAG], [0.01, 0.99], axis=0)
    X[:, :FIRST_LAG] = X[:, :FIRST_LAG].clip(*bounds)
    # lags further back than the last one that enough rows have are noise
    enough = (X[:, FIRST_LAG:] != 0).sum(axis=0) >= FEW_ROWS
    oldest = int(enough.argmax()) if enough.any() else len(enough)
    X = np.delete(X, range(FIRST_LAG, FIRST_LAG + oldest), axis=1)
    period = np.unique(section_numbers(training.residuals)[known], return_inverse=True)[1]
    # shocks that a period's firms share would pass for evidence on the slopes
    tau = common_variance(training.residuals)
    net = net_of_common(np.column_stack([X, y]), np.ones(len(y)), period, tau)
    return OwnHistory(shrink, ridge_slopes(net[:, :-1], net[:, -1], period), trend, bounds)


def trend_ratio(table: np.ndarray) -> float:
    """Return λ of firms' trends: the variance around them over that of their slopes between firms, NaN = unknown (F, T)."""
    known = np.isfinite(table)
    table = table[known.sum(axis=1) > 2]
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
