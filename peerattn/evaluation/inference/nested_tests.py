r"""Tests for forecasts that Diebold and Mariano's does not cover: nested, learned, or combined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import (
    MIN_PERIODS,
    ForecastTest,
    degrees_of_freedom,
    long_run_variance,
    mean_gain_by_period,
    mean_test,
    periods_needed,
)
from peerattn.evaluation.measures.metrics import scored_rows
from peerattn.evaluation.splits.periods import sorted_periods
from peerattn.exceptions import checked


@checked
def clark_west(
    outcome: Any,
    prediction: Any,
    baseline_prediction: Any,
    period: Any,
    *,
    horizon: int = 1,
    model: str = "model",
    baseline: str = "baseline",
) -> ForecastTest:
    r"""Test whether a model that nests the baseline forecasts better, both fitted by least squares.

    .. math:: f_{t} = \tfrac{1}{n_t} \sum_i \big[ (y_{it} - b_{it})^2 - (y_{it} - m_{it})^2 + (b_{it} - m_{it})^2 \big]

    The last term gives back the noise of the parameters that are zero under the null. The mean of f over periods is
    tested against zero from above, by Student's t with an equal-weighted cosine variance (``mean_test``).

    Parameters
    ----------
    outcome, prediction, baseline_prediction : array-like of length n
        NaN outcomes are left out.
    period : array-like of length n
    horizon : int, default 1
    model, baseline : str
        Names for the result.

    Returns
    -------
    ForecastTest
        No statistic but a reason with fewer than max(12, 4 (h + 1)) periods, or forecasts that never differ.

    Notes
    -----
    It asks about the *population*: a model that wins here may still have the larger squared error in this sample.
    Only for nested least squares; for learned or shrunk models use :func:`giacomini_white`.

    References
    ----------
    Clark, T. and West, K. (2007), Approximately normal tests for equal predictive accuracy in nested models, Journal
    of Econometrics 138(1), 291–311.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, period = rng.normal(size=400), np.repeat(np.arange(40), 10)
    >>> clark_west(x + rng.normal(size=400), x, np.zeros(400), period).p_value < 0.001
    True
    """
    codes, _ = sorted_periods(period)
    y, ours, theirs, group = scored_rows(outcome, prediction, baseline_prediction, codes)
    adjusted = (y - theirs) ** 2 - (y - ours) ** 2 + (theirs - ours) ** 2
    series = pd.Series(adjusted).groupby(group).mean().to_numpy()
    names = ("Clark–West", model, baseline)
    same = bool(np.max(np.abs(theirs - ours)) <= 1e-12 * max(np.max(np.abs(ours)), 1e-300))
    return _one_sided(names, series, horizon, same)


@checked
def encompassing(
    outcome: Any,
    prediction: Any,
    baseline_prediction: Any,
    period: Any,
    *,
    horizon: int = 1,
    model: str = "model",
    baseline: str = "baseline",
) -> ForecastTest:
    r"""Test whether the baseline encompasses the model, so that a combination of both forecasts no better.

    .. math:: d_t = \tfrac{1}{n_t} \sum_i e^{base}_{it} (e^{base}_{it} - e^{model}_{it})

    has mean zero where the best combination gives the model no weight. Tested from above, as in :func:`clark_west`.

    Parameters and errors are those of :func:`clark_west`.

    Returns
    -------
    ForecastTest
        A small p-value: the model knows something that the baseline does not.

    References
    ----------
    Harvey, D., Leybourne, S. and Newbold, P. (1998), Tests for forecast encompassing, Journal of Business & Economic
    Statistics 16(2), 254–259.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, z, period = rng.normal(size=400), rng.normal(size=400), np.repeat(np.arange(40), 10)
    >>> encompassing(x + z, x, z, period).p_value < 0.01
    True
    """
    codes, _ = sorted_periods(period)
    y, ours, theirs, group = scored_rows(outcome, prediction, baseline_prediction, codes)
    series = pd.Series((y - theirs) * (ours - theirs)).groupby(group).mean().to_numpy()
    same = bool(np.max(np.abs(theirs - ours)) <= 1e-12 * max(np.max(np.abs(ours)), 1e-300))
    names = ("encompassing", model, baseline)
    return _one_sided(names, series, horizon, same)


def _one_sided(names: tuple[str, str, str], series: np.ndarray, horizon: int, same: bool) -> ForecastTest:
    """Test the mean of a series against zero from above."""
    found = mean_test(series, horizon)
    t, p, reason = found.t, found.upper_p, found.reason
    if same and not reason.startswith("n/a (T="):
        t, p, reason = None, None, "same forecasts"
    convention = f"equal-weighted cosine variance, t({found.freedom})"
    return ForecastTest(
        *names, found.mean, t, p, len(series), found.freedom, horizon, "greater", reason, convention
    )


@checked
def giacomini_white(
    loss: Any,
    baseline_loss: Any,
    period: Any,
    *,
    horizon: int = 1,
    conditional: bool = True,
    model: str = "model",
    baseline: str = "baseline",
) -> ForecastTest:
    r"""Test whether two forecasting *methods*, estimation and all, are equally good in every state.

    .. math:: W = T\, \bar Z' \hat\Omega^{-1} \bar Z, \qquad
              Z_t = h_{t-h}\, d_t, \qquad h_{t-h} = (1,\ d_{t-h})'

    d the cross-section's mean gain in t. At horizon 1 Z is a martingale difference under the null: Ω is its second moment and
    :math:`\tfrac{W / 2}{(T - W) / (T - 2)} \sim F(2, T - 2)`, which tends to their :math:`W \sim \chi^2_2`. Otherwise, and
    for equal loss on average (``conditional=False``, Z = d), Z may be serially correlated: Ω is the equal-weighted cosine
    variance of ``mean_test`` and :math:`\tfrac{\nu - q + 1}{\nu q} W \sim F(q, \nu - q + 1)`. The window of estimation
    must not grow (``window="rolling"``): then the noise of estimation is part of the method, and learned, shrunk and nested
    models are all allowed.

    Parameters
    ----------
    loss, baseline_loss : array-like of length n
        NaN where the outcome is unknown.
    period : array-like of length n
    horizon : int, default 1
    conditional : bool, default True
        False: equal loss on average only.
    model, baseline : str
        Names for the result.

    Returns
    -------
    ForecastTest
        ``statistic`` is the F statistic; ``gain`` tells who is better on average. No statistic but a reason with too few
        usable periods (12; 4 (h + 1) at longer horizons), or losses that never differ.

    References
    ----------
    Giacomini, R. and White, H. (2006), Tests of conditional predictive ability, Econometrica 74(6), 1545–1578. Lazarus, E.,
    Lewis, D., Stock, J. and Watson, M. (2018), HAR inference, Journal of Business & Economic Statistics 36(4), 541–559.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> base, period = rng.chisquare(1, 1000), np.repeat(np.arange(40), 25)
    >>> giacomini_white(base - 0.1 * rng.random(1000), base, period).p_value < 0.001
    True
    """
    gains, size = mean_gain_by_period(loss, baseline_loss, period)
    mean = float(gains.mean())
    Z = gains[:, None]
    if conditional:
        Z = gains[horizon:, None] * np.column_stack([np.ones_like(gains), gains])[: len(gains[horizon:])]
    n, q = Z.shape
    needed = MIN_PERIODS if horizon == 1 else periods_needed(horizon)
    reason = f"n/a (T={n}, {needed} needed)" if n < needed else ""
    if not reason and np.max(np.abs(gains)) <= 1e-12 * size:
        reason = "same losses"
    freedom, statistic, p, convention = 0, None, None, ""
    if not reason:
        freedom, statistic, p, reason = _wald(Z, horizon, independent=conditional and horizon == 1)
        variance = "second moment" if conditional and horizon == 1 else "equal-weighted cosine variance"
        convention = f"{variance}, F({q}, {freedom})"
    return ForecastTest(
        "Giacomini–White",
        model,
        baseline,
        mean,
        statistic,
        p,
        n,
        freedom,
        horizon,
        "two-sided",
        reason,
        convention,
    )


def _wald(Z: np.ndarray, horizon: int, *, independent: bool) -> tuple[int, float | None, float | None, str]:
    """Return the degrees of freedom, statistic and p-value of a mean of zero, and why there is none."""
    from scipy.stats import f as fisher

    (n, q), nu = Z.shape, 0
    if (np.ptp(Z, axis=0) <= 1e-14 * np.abs(Z).max(axis=0)).any():
        return 0, None, None, "n/a (no variance)"
    if not independent:
        nu = max(q, min(degrees_of_freedom(z, horizon) for z in Z.T))
    omega = Z.T @ Z / n if independent else long_run_variance(Z, nu)
    scale = np.sqrt(np.diag(omega))
    if not (scale > 0).all() or np.linalg.cond(omega / np.outer(scale, scale)) > 1e12:
        return 0, None, None, "n/a (no variance)"
    z = Z.mean(axis=0)
    wald = float(n * z @ np.linalg.solve(omega, z))
    freedom = n - q if independent else nu - q + 1
    statistic = wald / q * freedom / (n - wald if independent else nu)
    return freedom, statistic, float(fisher.sf(statistic, q, freedom)), ""
