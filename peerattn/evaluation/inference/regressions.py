"""Outcomes regressed on predictions: Fama and MacBeth's slope, and calibration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from peerattn.evaluation.inference import forecast_tests as tests
from peerattn.evaluation.measures.metrics import moments_within, scored_rows
from peerattn.exceptions import expect, reworded, validate_arguments
from peerattn.panel.effects import degrees_of, effect_labels, net_of
from peerattn.panel.knowledge import sorted_periods
from peerattn.render import Regression
from peerattn.types import LabelsLike, OutcomesLike


@dataclass(frozen=True)
class FamaMacBethSlope(tests.OfPeriods):
    """Mean slope of outcomes on predictions over periods.

    Attributes
    ----------
    test : MeanTest
        Of the mean slope against zero, as in :func:`diebold_mariano`.
    r2 : float
        Mean over periods of the regressions' R².
    by_period : Series
        Slope of each period with at least three firms and differing predictions.
    """

    test: tests.MeanTest
    r2: float
    by_period: pd.Series

    @property
    def slope(self) -> float:
        """Mean slope, 1 where a unit more predicted is a unit more on average; NaN where predictions never differ."""
        return self.test.mean

    def __repr__(self) -> str:
        return f"FamaMacBethSlope(slope={self.slope:.4g}, t={self._t_text}, periods={len(self.by_period)})"


@validate_arguments
def fama_macbeth(outcome: Any, prediction: OutcomesLike, period: LabelsLike, *, horizon: int = 1) -> FamaMacBethSlope:
    r"""Return the Fama–MacBeth slope of the outcome on the prediction.

    .. math:: y_{it} = a_t + b_t \hat y_{it} + e_{it}, \qquad \bar b = \tfrac{1}{T} \sum_t b_t

    one regression for each period; the test of the mean slope is ``mean_test``: Student's t with an
    equal-weighted cosine variance.

    Parameters
    ----------
    outcome, prediction : array-like of length n
        Rows in which one is NaN are left out.
    period : array-like of length n
        Period labels; periods with fewer than three firms, or whose predictions do not differ, have no slope.
    horizon : int, default 1
        Forecast horizon in periods, for the variance of the mean slope.

    Returns
    -------
    FamaMacBethSlope

    References
    ----------
    Fama, E. and MacBeth, J. (1973), Risk, return, and equilibrium: empirical tests, Journal of Political Economy
    81(3), 607–636. Lazarus, E., Lewis, D., Stock, J. and Watson, M. (2018), HAR inference, Journal of Business & Economic
    Statistics 36(4), 541–559.

    Examples
    --------
    >>> fama_macbeth([1.0, 2.0, 4.0, 0.0, 3.0, 3.0], [1.0, 2.0, 3.0] * 2, [1, 1, 1, 2, 2, 2])
    FamaMacBethSlope(slope=1.5, t=n/a (T=2, 12 needed), periods=2)
    """
    m = moments_within(outcome, prediction, period)
    m = m[(m["n"] >= 3) & (m["xx"] > 0)]
    slopes = m["xy"] / m["xx"]
    r2 = float((slopes * m["xy"] / m["yy"].where(m["yy"] > 0)).fillna(0.0).mean())
    return FamaMacBethSlope(tests.mean_test(slopes, horizon), r2, slopes)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Calibration(Regression):
    """Whether outcomes are on average what was predicted.

    Attributes
    ----------
    params, std_errors, pvalues : Series
        Of ``constant`` (without effects) and ``prediction``: 0 and 1 where predictions are calibrated. Clustered by period, and
        by firm where firms were given; errors and p values (against zero, as in every regression) are NaN with fewer than
        twelve clusters of either kind.
    p_value : float or None
        Of constant 0 and slope 1: Hotelling's F(2, G − 2), G the smaller number of clusters; with effects of slope 1, t(G − 1).
    effects : tuple of str
        Effects that were absorbed.
    """

    p_value: float | None
    title: str = "Calibration: outcome on prediction"

    @property
    def intercept(self) -> float:
        """The constant; NaN where effects take its place."""
        return float(self.params.get("constant", np.nan))

    @property
    def slope(self) -> float:
        """What a unit more predicted is on average; NaN where predictions do not differ."""
        return float(self.params["prediction"])

    def _figures(self) -> dict[str, object]:
        p = f"p of calibration ({'0, ' * (not self.effects)}1)"
        return {p: tests.format_p(self.p_value, "n/a"), **super()._figures()}

    def _footnotes(self) -> list[str]:
        what = "slope 1" if self.effects else "constant 0 and slope 1"
        clustered = "Errors clustered by period, and by firm where firms are given."
        return [f"P values are against zero; of {what}: {self._p}. {clustered}"]

    @property
    def _p(self) -> str:
        return "n/a" if self.p_value is None else tests.p_words(self.p_value)

    def __repr__(self) -> str:
        if self.effects:
            return f"Calibration(slope={self.slope:.4g}, effects={self.effects}; of 1: {self._p})"
        return f"Calibration(intercept={self.intercept:.4g}, slope={self.slope:.4g}; of 0 and 1: {self._p})"


def _one_a_row(name: str, labels: LabelsLike, n: int) -> np.ndarray:
    """Return labels as an array, one for each of n rows."""
    with reworded(f"{name}: expected one label for each of the {n} rows", kinds=ValueError):
        found = np.asarray(labels)
    expect(found.shape == (n,), name, f"one label for each of the {n} rows", f"an array of shape {found.shape}")
    return found


@validate_arguments
def calibration(
    outcome: Any,
    prediction: OutcomesLike,
    period: LabelsLike,
    *,
    firm: LabelsLike = None,
    effects: Mapping[str, Any] | Sequence[str] = (),
) -> Calibration:
    r"""Return the calibration of predictions: Mincer and Zarnowitz's regression.

    .. math:: y_{it} = a + b \hat y_{it} + e_{it}, \qquad H_0: a = 0,\ b = 1

    with variances clustered by period and firm: rows of one period share its shocks, rows of one firm its level.

    Parameters
    ----------
    outcome, prediction : array-like of length n
        Rows in which one is NaN are left out.
    period : array-like of length n
        Period labels.
    firm : array-like of length n, optional
        Firm labels; without them variances are clustered by period alone, which takes rows of one firm as independent.
    effects : sequence of {"firm", "period"} or mapping of str to array-like (n,), default ()
        Absorbed in place of the constant: with ``("period",)`` the slope between firms, with ``("firm",)`` within firms.
        A mapping names other groups, such as ``{"sic×period": labels}``.

    Returns
    -------
    Calibration
        Slope NaN where predictions do not differ, or not beyond the effects.

    References
    ----------
    Mincer, J. and Zarnowitz, V. (1969), The evaluation of economic forecasts, in: Economic Forecasts and
    Expectations, NBER. Cameron, A. C., Gelbach, J. and Miller, D. (2011), Robust inference with multiway clustering, Journal
    of Business & Economic Statistics 29(2), 238–249.

    Examples
    --------
    >>> calibration([0.0, 2.0, 4.0], [0.0, 1.0, 2.0], [1, 2, 3])
    Calibration(intercept=0, slope=2; of 0 and 1: n/a)
    """
    labels = {"period": sorted_periods(period)[0]}
    n = len(labels["period"])
    if firm is not None:
        labels["firm"] = pd.factorize(_one_a_row("firm", firm, n))[0]
    y, forecast, kept = scored_rows(outcome, prediction, np.arange(n))
    kept = kept.astype(int)
    clusters = pd.DataFrame(labels).iloc[kept]
    given = effects if isinstance(effects, Mapping) else labels
    kept_labels = {name: _one_a_row(f"effects[{name!r}]", of, n)[kept] for name, of in given.items()}
    groups = effect_labels(tuple(effects), kept_labels)
    absorbed = tuple(map(str, groups))
    least = 1e-12 * np.max(np.abs([forecast, y]), axis=1)  # below this a difference is rounding
    # effects are taken out of both sides (Frisch and Waugh 1933)
    forecast, y = net_of(groups, np.column_stack([forecast, y])).T
    k = 2 - bool(absorbed)
    names = ["constant", "prediction"][-k:]
    fewest = int(clusters.nunique().min())
    rsquared = float("nan")
    p = None
    params = pd.Series([np.mean(y - forecast), np.nan][-k:], names)
    errors = np.full(k, np.nan)
    unit = np.ptp(forecast)
    if unit > least[0]:
        fit, back, null = _scaled_fit(forecast, y, k)
        params[:] = back @ fit.params
        params[params.abs() <= least[1] * np.array([1.0, 1 / unit])[-k:]] = 0.0
        if np.ptp(y) > least[1]:
            rsquared = float(fit.rsquared)
        if fewest >= tests.MIN_PERIODS:
            errors, p = _clustered(fit, back, null, groups, clusters)
    std_errors = pd.Series(errors, names)
    return Calibration(
        params=params, std_errors=std_errors, pvalues=2 * (params / std_errors).abs().map(stats.t(fewest - 1).sf), nobs=len(y),
        rsquared=rsquared, freedom=None if p is None else fewest - 1, p_value=p, effects=absorbed,
    )  # fmt: skip


def _scaled_fit(forecast: np.ndarray, y: np.ndarray, k: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the regression on predictions in other units, what brings its coefficients back, and those under calibration."""
    from statsmodels.regression.linear_model import OLS

    # about their mean and in units of their range, so that the level and unit of predictions do not matter
    level = np.mean(forecast)
    unit = np.ptp(forecast)
    fit = OLS(y / unit, np.column_stack([np.ones(len(y)), (forecast - level) / unit])[:, -k:]).fit()
    return fit, np.array([[unit, -level], [0.0, 1.0]])[-k:, -k:], np.array([level / unit, 1.0])[-k:]


def _clustered(
    fit: Any, back: np.ndarray, null: np.ndarray, groups: pd.DataFrame, clusters: pd.DataFrame
) -> tuple[np.ndarray, float | None]:
    """Return clustered standard errors and the p value of Wald's test of calibration; NaN, None if a variance is negative."""
    k = len(back)
    fewest = int(clusters.nunique().min())
    left = len(clusters) - k
    cov = fit.get_robustcov_results("cluster", groups=clusters.to_numpy().squeeze()).cov_params()
    cov *= left / max(left - degrees_of(groups, clusters), 1)  # those of effects not nested in clusters
    with np.errstate(invalid="ignore"):
        errors = np.sqrt(np.diag(back @ cov @ back.T))
    if not (errors > 0).all():  # two-way variances may come out negative
        return np.full(k, np.nan), None
    gap = fit.params - null
    wald = float(gap @ np.linalg.solve(cov, gap))
    return errors, float(stats.f.sf(wald / k * (fewest - k) / (fewest - 1), k, fewest - k))
