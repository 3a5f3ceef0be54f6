"""The test of conditional predictive ability: forecasting methods, the noise of their estimation included."""

from __future__ import annotations

from typing import Any

import numpy as np

from peerattn.evaluation.inference.forecast_tests import (
    MIN_PERIODS,
    ForecastTest,
    degrees_of_freedom,
    long_run_variance,
    mean_gain_by_period,
    periods_needed,
)
from peerattn.exceptions import checked


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
