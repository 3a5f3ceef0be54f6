r"""Tests for forecasts that Diebold and Mariano's does not cover: nested, learned, or combined."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import (
    MIN_PERIODS,
    hac_mean,
    mean_gain_by_period,
    newey_west_lags,
    p_words,
)
from peerattn.evaluation.measures.metrics import scored_rows
from peerattn.evaluation.splits.periods import sorted_periods
from peerattn.exceptions import InputError


@dataclass(frozen=True)
class ForecastTest:
    """Result of a test of a model against a baseline over periods.

    Attributes
    ----------
    test : str
        "Clark–West", "Giacomini–White", "encompassing" or "paired by firm".
    model, baseline : str
    gain : float
        Mean of the tested series, its sign as the test has it: positive speaks for the model.
    statistic, p_value : float or None
        None where no test is made; ``reason`` says why.
    n_periods, lags, horizon : int
    alternative : str
        "greater" or "two-sided".
    reason : str
    convention : str
        Which variance, and which distribution the p-value is from.
    """

    test: str
    model: str
    baseline: str
    gain: float
    statistic: float | None
    p_value: float | None
    n_periods: int
    lags: int
    horizon: int
    alternative: str
    reason: str = ""
    convention: str = ""

    @property
    def outcome(self) -> str:
        """The result in a few characters."""
        if self.statistic is None or self.p_value is None:
            return self.reason
        return f"{self.statistic:.2f}, {p_words(self.p_value)}"

    def __repr__(self) -> str:
        return f"ForecastTest({self.test}, {self.model!r} against {self.baseline!r}: {self.outcome})"

    def __str__(self) -> str:
        return (
            f"{self.test} test of {self.model} against {self.baseline}: {self.outcome}, mean {self.gain:.4g} "
            f"({self.n_periods} periods, {self.alternative}; {self.convention})"
        )


def clark_west(
    outcome: Any,
    prediction: Any,
    baseline_prediction: Any,
    period: Any,
    *,
    horizon: int = 1,
    lags: int | None = None,
    model: str = "model",
    baseline: str = "baseline",
) -> ForecastTest:
    r"""Test whether a model that nests the baseline forecasts better, both fitted by least squares.

    .. math:: f_{t} = \tfrac{1}{n_t} \sum_i \big[ (y_{it} - b_{it})^2 - (y_{it} - m_{it})^2 + (b_{it} - m_{it})^2 \big]

    The last term gives back the noise of the parameters that are zero under the null. The mean of f over periods is
    tested against zero from above; Newey–West variance, standard normal.

    Parameters
    ----------
    outcome, prediction, baseline_prediction : array-like of length n
        NaN outcomes are left out.
    period : array-like of length n
    horizon : int, default 1
    lags : int or None, default None
        None: max(h − 1, ⌊4 (T/100)^{2/9}⌋).
    model, baseline : str
        Names for the result.

    Returns
    -------
    ForecastTest
        With fewer than ten periods, or where the forecasts never differ, no statistic but a reason.

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
    return _one_sided(names, series, horizon, lags, "same forecasts" if same else "", "normal")


def encompassing(
    outcome: Any,
    prediction: Any,
    baseline_prediction: Any,
    period: Any,
    *,
    horizon: int = 1,
    lags: int | None = None,
    model: str = "model",
    baseline: str = "baseline",
) -> ForecastTest:
    r"""Test whether the baseline encompasses the model: would a combination of both forecast no better?

    .. math:: d_t = \tfrac{1}{n_t} \sum_i e^{base}_{it} (e^{base}_{it} - e^{model}_{it})

    has mean zero where the best combination gives the model no weight. Tested from above, with the factor of
    Harvey, Leybourne and Newbold and Student's t with T − 1 degrees of freedom.

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
    >>> encompassing(x + z, x, z, period).p_value < 0.001
    True
    """
    codes, _ = sorted_periods(period)
    y, ours, theirs, group = scored_rows(outcome, prediction, baseline_prediction, codes)
    series = pd.Series((y - theirs) * (ours - theirs)).groupby(group).mean().to_numpy()
    same = bool(np.max(np.abs(theirs - ours)) <= 1e-12 * max(np.max(np.abs(ours)), 1e-300))
    names = ("encompassing", model, baseline)
    return _one_sided(names, series, horizon, lags, "same forecasts" if same else "", "student")


def _one_sided(
    names: tuple[str, str, str],
    series: np.ndarray,
    horizon: int,
    lags: int | None,
    reason: str,
    distribution: Literal["normal", "student"],
) -> ForecastTest:
    """Test the mean of a series against zero from above."""
    n = len(series)
    lags = newey_west_lags(n, horizon) if lags is None else lags
    mean, t = hac_mean(series, lags) if n > 1 else (float(series.mean()), None)
    convention = f"Newey–West, {lags} lags, " + (
        "normal" if distribution == "normal" else "t(T − 1), HLN factor"
    )

    def result(statistic: float | None, p: float | None, why: str = "") -> ForecastTest:
        return ForecastTest(*names, mean, statistic, p, n, lags, horizon, "greater", why, convention)

    if n < MIN_PERIODS or n <= horizon:
        return result(None, None, f"n/a (T={n})")
    if reason or t is None:
        return result(None, None, reason or "n/a (no variance)")
    from scipy.stats import norm
    from scipy.stats import t as student

    if distribution == "normal":
        return result(t, float(norm.sf(t)))
    t *= math.sqrt((n + 1 - 2 * horizon + horizon * (horizon - 1) / n) / n)
    return result(t, float(student.sf(t, n - 1)))


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

    .. math:: W = T\, \bar Z' \hat\Omega^{-1} \bar Z \sim \chi^2_q, \qquad
              Z_t = h_{t-h}\, d_t, \qquad h_{t-h} = (1,\ d_{t-h})'

    d the cross-section's mean gain in t, Ω the second moment of Z (with h − 1 Bartlett lags). The window of
    estimation must not grow (``window="rolling"``): then the noise of estimation is part of the method, and learned,
    shrunk and nested models are all allowed.

    Parameters
    ----------
    loss, baseline_loss : array-like of length n
        NaN where the outcome is unknown.
    period : array-like of length n
    horizon : int, default 1
    conditional : bool, default True
        False: h = 1, equal loss on average only.
    model, baseline : str
        Names for the result.

    Returns
    -------
    ForecastTest
        ``statistic`` is W; ``gain`` tells who is better on average. With fewer than ten usable periods, or where the
        losses never differ, no statistic but a reason.

    References
    ----------
    Giacomini, R. and White, H. (2006), Tests of conditional predictive ability, Econometrica 74(6), 1545–1578.

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
    lags = horizon - 1
    convention = f"second moment, {lags} Bartlett lags, χ²({q})"

    def result(statistic: float | None, p: float | None, why: str = "") -> ForecastTest:
        return ForecastTest(
            "Giacomini–White",
            model,
            baseline,
            mean,
            statistic,
            p,
            n,
            lags,
            horizon,
            "two-sided",
            why,
            convention,
        )

    if n < MIN_PERIODS:
        return result(None, None, f"n/a (T={n})")
    if np.max(np.abs(gains)) <= 1e-12 * size:
        return result(None, None, "same losses")
    omega = Z.T @ Z / n
    for lag in range(1, lags + 1):
        moment = Z[lag:].T @ Z[:-lag] / n
        omega += (1 - lag / (lags + 1)) * (moment + moment.T)
    scale = np.sqrt(np.diag(omega))
    if not (scale > 0).all() or np.linalg.cond(omega / np.outer(scale, scale)) > 1e12:
        return result(None, None, "n/a (no variance)")
    from scipy.stats import chi2

    z = Z.mean(axis=0)
    statistic = float(n * z @ np.linalg.solve(omega, z))
    return result(statistic, float(chi2.sf(statistic, q)))


def paired_by_firm(
    loss: Any,
    baseline_loss: Any,
    firm: Any,
    period: Any,
    *,
    model: str = "model",
    baseline: str = "baseline",
) -> ForecastTest:
    r"""Test the mean difference of two losses with variances clustered by firm, where periods are too few.

    .. math:: \bar d = \tfrac{1}{N} \sum_{it} (L^{base}_{it} - L^{model}_{it}), \qquad
              \widehat V(\bar d) = \tfrac{G}{G - 1} \tfrac{1}{N^2} \sum_g \Big( \sum_{(i,t) \in g} (d_{it} - \bar d) \Big)^2

    with G firms, Student's t with G − 1 degrees of freedom, two-sided.

    Parameters
    ----------
    loss, baseline_loss : array-like of length n
        NaN where the outcome is unknown.
    firm, period : array-like of length n
    model, baseline : str
        Names for the result.

    Returns
    -------
    ForecastTest

    Raises
    ------
    InputError
        For fewer than two firms.

    Notes
    -----
    The result is conditional on these periods: shocks that all firms of a period share are not counted, so it says
    nothing about other periods.

    References
    ----------
    Cameron, A. C. and Miller, D. (2015), A practitioner's guide to cluster-robust inference, Journal of Human
    Resources 50(2), 317–372.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> base, firm = rng.chisquare(1, 200), np.repeat(np.arange(100), 2)
    >>> paired_by_firm(0.8 * base, base, firm, np.tile([1, 2], 100)).p_value < 0.001
    True
    """
    ours, theirs = (np.asarray(values, dtype=float).reshape(-1) for values in (loss, baseline_loss))
    mean_gain_by_period(ours, theirs, period)  # checks
    known = ~np.isnan(ours)
    gain = theirs[known] - ours[known]
    cluster, firms = pd.factorize(np.asarray(firm)[known])
    n_periods = len(np.unique(sorted_periods(period)[0][known]))
    if len(firms) < 2:
        raise InputError("firm: differences are clustered by firm, which needs at least two firms.")
    convention = f"clustered by {len(firms)} firms, conditional on these periods"
    names = ("paired by firm", model, baseline)

    def result(statistic: float | None, p: float | None, why: str = "") -> ForecastTest:
        return ForecastTest(
            *names, float(gain.mean()), statistic, p, n_periods, 0, 1, "two-sided", why, convention
        )

    if np.max(np.abs(gain)) <= 1e-12 * np.mean(np.abs(theirs[known])):
        return result(None, None, "same losses")
    from statsmodels.regression.linear_model import OLS

    fit = OLS(gain, np.ones(len(gain))).fit(cov_type="cluster", cov_kwds={"groups": cluster}, use_t=True)
    return result(float(fit.tvalues[0]), float(fit.pvalues[0]))
