r"""Is one forecast better than another, or is the difference chance? Tests over the periods of a panel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.splits.periods import sorted_periods
from peerattn.exceptions import InputError

#: With fewer periods no test over time is made: a HAC variance from so few is a guess.
MIN_PERIODS = 10


def newey_west_lags(n_periods: int, horizon: int = 1) -> int:
    r"""Return the lags of a HAC variance: max(h − 1, ⌊4 (T/100)^{2/9}⌋), less than T.

    The second term is the rule of thumb of Newey and West (1994) for the Bartlett kernel; h-step forecast
    errors are correlated over h − 1 periods in any case.

    >>> newey_west_lags(120), newey_west_lags(36, horizon=12)
    (4, 11)
    """
    rule = math.floor(4 * (n_periods / 100) ** (2 / 9)) if n_periods else 0
    return max(0, min(max(horizon - 1, rule), n_periods - 1))


def hac_mean(series: np.ndarray, lags: int) -> tuple[float, float | None]:
    """Return the mean of a series and its t-statistic with a Newey–West (Bartlett) variance.

    The variance is that of statsmodels' ``OLS(series, 1).fit(cov_type="HAC")`` without small-sample factor.
    The t-statistic is None where the variance is zero (a constant series).
    """
    from statsmodels.regression.linear_model import OLS

    spread = np.ptp(series)
    if spread <= 1e-14 * np.max(np.abs(series), initial=0.0):
        return float(np.mean(series)), None
    fit = OLS(series, np.ones_like(series)).fit(cov_type="HAC", cov_kwds={"maxlags": lags})
    t = float(fit.tvalues[0])
    return float(fit.params[0]), t if math.isfinite(t) else None


@dataclass(frozen=True)
class DieboldMariano:
    """Result of a panel Diebold–Mariano test of a model against a baseline.

    Attributes
    ----------
    model, baseline : str
    gain : float
        Mean over periods of the baseline's loss less the model's; positive: the model is better.
    statistic, p_value : float or None
        t-statistic of the gain and its two-sided p-value; None where no test is made, ``reason`` says why.
    n_periods, lags, horizon : int
    reason : str
    """

    model: str
    baseline: str
    gain: float
    statistic: float | None
    p_value: float | None
    n_periods: int
    lags: int
    horizon: int = 1
    reason: str = ""

    def __repr__(self) -> str:
        return f"DieboldMariano({self.model!r} against {self.baseline!r}: {self.outcome})"

    @property
    def outcome(self) -> str:
        """The result in a few characters, such as ``t = 2.31, p = 0.023`` or ``n/a (T=2)``."""
        if self.statistic is None or self.p_value is None:
            return self.reason
        return f"t = {self.statistic:.2f}, {p_words(self.p_value)}"

    def __str__(self) -> str:
        if self.statistic is None:
            return f"{self.model} against {self.baseline}: {self.reason}, mean gain {self.gain:.4g}"
        return (
            f"{self.model} against {self.baseline}: {self.outcome}, mean gain {self.gain:.4g} "
            f"({self.n_periods} periods, {self.lags} lags)"
        )


def format_p(p_value: float) -> str:
    """Return a p-value with three decimals, ``<0.001`` below that.

    >>> format_p(0.0421), format_p(1e-9)
    ('0.042', '<0.001')
    """
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def p_words(p_value: float) -> str:
    """Return a p-value for a sentence.

    >>> p_words(0.0421), p_words(1e-9)
    ('p = 0.042', 'p < 0.001')
    """
    shown = format_p(p_value)
    return f"p < {shown[1:]}" if shown.startswith("<") else f"p = {shown}"


def diebold_mariano(
    loss: Any,
    baseline_loss: Any,
    period: Any,
    *,
    horizon: int = 1,
    lags: int | None = None,
    model: str = "model",
    baseline: str = "baseline",
) -> DieboldMariano:
    r"""Test whether two forecasts of a panel have the same expected loss.

    Losses are averaged over each cross-section first, so that firms of one period, which share its shocks,
    count as one observation:

    .. math::

        d_t = \tfrac{1}{n_t} \sum_i (L^{base}_{it} - L^{model}_{it}), \qquad
        DM = \sqrt{\tfrac{T + 1 - 2h + h(h - 1)/T}{T}} \; \frac{\bar d}{\sqrt{\widehat{V}(\bar d)}},

    with Newey and West's variance and the small-sample factor of Harvey, Leybourne and Newbold (1997);
    p-values are two-sided and use Student's t with T − 1 degrees of freedom.

    Parameters
    ----------
    loss, baseline_loss : array-like of length n
        Losses row by row, such as squared errors; NaN where the outcome is unknown (such rows are left out).
    period : array-like of length n
        Period labels.
    horizon : int, default 1
        Forecast horizon h in periods.
    lags : int or None, default None
        Lags of the variance; None: max(h − 1, ⌊4 (T/100)^{2/9}⌋).
    model, baseline : str
        Names for the result.

    Returns
    -------
    DieboldMariano
        With fewer than ten periods, or where the two losses never differ, no statistic but a reason.

    Raises
    ------
    InputError
        For arrays of different length, a loss known for one forecast only, or no loss at all.

    Notes
    -----
    The test is for forecasts that are not nested. A model that nests the baseline pays for its extra
    parameters under the null of no gain, which makes the test careful (Clark and West 2007).

    References
    ----------
    Diebold, F. and Mariano, R. (1995), Comparing predictive accuracy, Journal of Business & Economic
    Statistics 13(3), 253–263. Harvey, D., Leybourne, S. and Newbold, P. (1997), International Journal of
    Forecasting 13(2), 281–291. Gu, S., Kelly, B. and Xiu, D. (2020), Review of Financial Studies 33(5),
    2223–2273, eq. 20 (the panel form). Newey, W. and West, K. (1994), Review of Economic Studies 61(4),
    631–653.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> period = np.repeat(np.arange(40), 25)
    >>> baseline_loss = rng.chisquare(1, 1000)
    >>> diebold_mariano(baseline_loss - 0.1 * rng.random(1000), baseline_loss, period).p_value < 0.001
    True
    >>> diebold_mariano(baseline_loss[:50], baseline_loss[50:100], period[:50])
    DieboldMariano('model' against 'baseline': n/a (T=2))
    """
    gains, size = mean_gain_by_period(loss, baseline_loss, period)
    n = len(gains)
    lags = newey_west_lags(n, horizon) if lags is None else lags
    mean = float(gains.mean())

    def result(statistic: float | None, p_value: float | None, reason: str = "") -> DieboldMariano:
        return DieboldMariano(model, baseline, mean, statistic, p_value, n, lags, horizon, reason)

    if n < MIN_PERIODS or n <= horizon:
        return result(None, None, f"n/a (T={n})")
    if np.max(np.abs(gains)) <= 1e-12 * size:  # no more than rounding
        return result(None, None, "same losses")
    _, t = hac_mean(gains, lags)
    if t is None:
        return result(None, None, "n/a (no variance)")
    from scipy.stats import t as student

    statistic = t * math.sqrt((n + 1 - 2 * horizon + horizon * (horizon - 1) / n) / n)
    return result(statistic, float(2 * student.sf(abs(statistic), n - 1)))


def mean_gain_by_period(loss: Any, baseline_loss: Any, period: Any) -> tuple[np.ndarray, float]:
    """Return the mean gain of each period in time order, and the size of the baseline's losses."""
    ours, theirs = (np.asarray(values, dtype=float).reshape(-1) for values in (loss, baseline_loss))
    codes, _ = sorted_periods(period)
    if not len(ours) == len(theirs) == len(codes):
        raise InputError(
            f"loss, baseline_loss and period must have one length, got {len(ours)}, {len(theirs)} and "
            f"{len(codes)}."
        )
    known = ~np.isnan(ours)
    if (known != ~np.isnan(theirs)).any():
        raise InputError("loss and baseline_loss must be NaN in the same rows: use one sample for both.")
    if not known.any():
        raise InputError("loss holds no known value: there is nothing to test.")
    gain = pd.Series(theirs[known] - ours[known])
    return gain.groupby(codes[known]).mean().to_numpy(), float(np.mean(np.abs(theirs[known])))
