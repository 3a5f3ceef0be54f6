r"""Is one forecast better than another, or is the difference chance? Tests over the periods of a panel."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.fft import dct, idct
from scipy.signal import lfilter
from scipy.stats import t as student

from peerattn.evaluation.measures.metrics import as_numbers
from peerattn.exceptions import check_count, expect, validate_arguments
from peerattn.foreign_text import visible
from peerattn.panel.knowledge import sorted_periods
from peerattn.types import LabelsLike, OutcomesLike

#: With fewer periods no test over time is made, whatever the horizon: 0.4 T^{2/3} is below two.
MIN_PERIODS = 12
PERSISTENCE = 0.7  # autocorrelation at which the variance of a mean is unbiased


@dataclass(frozen=True)
class MeanTest:
    """Test that the mean of a time series is zero.

    Attributes
    ----------
    mean : float
        NaN for an empty series.
    t, p_value : float or None
        t-statistic and its two-sided p-value; None without a test, ``reason`` explains why.
    freedom : int
        Degrees of freedom of Student's t, ν: the number of cosine terms in the variance.
    cause : str
        Why there is no test; empty where there is one.

    Examples
    --------
    >>> mean_test([0.1, -0.2, 0.3]).reason
    'n/a (T=3, 12 needed)'
    """

    mean: float
    t: float | None = None
    p_value: float | None = None
    freedom: int = 0
    cause: str = ""

    @property
    def reason(self) -> str:
        """Why there is no test, as a table shows it."""
        return f"n/a ({self.cause})" * bool(self.cause)

    @property
    def cell(self) -> float | str:
        """Return t, or why there is none in the width of a table's cell: ``n/a (T=3)``."""
        if self.t is not None:
            return self.t
        return f"n/a ({self.cause.partition(',')[0]})" * bool(self.cause)

    @property
    def upper_p(self) -> float | None:
        """The p-value against means above zero."""
        if self.p_value is None or self.t is None:
            return None
        if self.t > 0:
            return self.p_value / 2
        return 1 - self.p_value / 2


def periods_needed(horizon: int = 1) -> int:
    """Return the fewest periods on which a test over time is made: ``max(12, 4 (h + 1))``.

    >>> periods_needed(), periods_needed(horizon=12)
    (12, 52)
    """
    check_count(horizon=horizon)
    return max(MIN_PERIODS, 4 * (horizon + 1))


@validate_arguments
def mean_test(series: OutcomesLike, horizon: int = 1) -> MeanTest:
    r"""Test that the mean of a series is zero, with a variance that allows for serial correlation.

    .. math::

        t = \frac{\bar x}{\sqrt{\widehat\Omega / T}} \sim t_\nu, \qquad
        \widehat\Omega = \frac{c}{\nu} \sum_{j=1}^{\nu} \Big( \sqrt{\tfrac{2}{T}} \sum_{s=1}^{T} x_s
            \cos \frac{\pi j (s - 1/2)}{T} \Big)^2,

    the equal-weighted cosine estimator, whose fixed-b limit is Student's t, with

    .. math:: \nu = \max\Big( 1, \Big\lfloor \min\Big( 0.4\, T^{2/3},\ \frac{T}{3 (h + 1)} \Big) \Big\rfloor \Big),

    and c the ratio of the variance of :math:`\sqrt T \bar x` to the mean of :math:`\widehat\Omega / c` in an AR(.7): the cosines
    lie above frequency zero, where a persistent series has less variance. Both depend on T and h alone, so that all lines of a
    table have the same degrees of freedom. The first bound is that of Lazarus et al. (2018), chosen at that dependence; the
    second keeps the cosines below the frequencies at which overlapping forecasts lose variance.

    Parameters
    ----------
    series : array-like of length T
        In time order, without gaps.
    horizon : int, default 1
        Forecast horizon h in periods: errors of overlapping forecasts are correlated over h − 1 periods.

    Returns
    -------
    MeanTest
        No test with fewer than ``max(12, 4 (h + 1))`` periods, or without variance.

    Raises
    ------
    InputError
        When the series does not hold finite numbers.

    Notes
    -----
    From 12 periods on nominal 5 % tests reject 2 to 4 % under independence and 7 % under AR(.8); under AR(.9) 12 to 16 %
    (``benchmarks/results/sizes.md``). With ν = 1 the 5 % level is ``|t| = 12.7``.

    References
    ----------
    Lazarus, E., Lewis, D., Stock, J. and Watson, M. (2018), HAR inference: recommendations for practice, Journal of
    Business & Economic Statistics 36(4), 541–559. Coroneo, L. and Iacone, F. (2020), Comparing predictive accuracy in small
    samples using fixed-smoothing asymptotics, Journal of Applied Econometrics 35(4), 391–409. Kendall, M. (1954), Note on
    bias in the estimation of autocorrelation, Biometrika 41, 403–404.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = mean_test(0.5 + rng.normal(size=60))
    >>> found.freedom, found.p_value < 0.05
    (6, True)
    >>> mean_test(np.arange(60.0)).freedom
    6
    """
    x = as_numbers("series", series)
    expect(not np.isnan(x).any(), "series", "numbers without gaps", f"{np.isnan(x).sum()} missing", "Leave these periods out.")
    n = len(x)
    mean = float(x.mean()) if n else float("nan")
    if n < periods_needed(horizon):
        return MeanTest(mean, cause=f"T={n}, {periods_needed(horizon)} needed")
    if np.ptp(x) <= 1e-14 * np.max(np.abs(x)):
        return MeanTest(mean, cause="no variance")
    error, freedom = mean_error(x, horizon)
    return MeanTest(mean, mean / error, float(2 * student.sf(abs(mean / error), freedom)), freedom)


def mean_error(x: np.ndarray, horizon: int = 1) -> tuple[float, int]:
    """Return the standard error of the mean of a series that varies, and ν of :func:`mean_test`."""
    n = len(x)
    freedom = max(1, math.floor(min(0.4 * n ** (2 / 3), n / (3 * (horizon + 1)))))
    variance = long_run_variance(x[:, None], freedom)[0, 0] * bias_ratio(n, freedom)
    return math.sqrt(variance / n), freedom


@cache
def bias_ratio(n: int, freedom: int) -> float:
    """Return the variance of √n times the mean of an AR(.7) over the mean of its :func:`long_run_variance`."""
    power = PERSISTENCE ** np.arange(n)
    of_mean = 1 + 2 * float((1 - np.arange(1, n) / n) @ power[1:])
    cosines = idct(np.eye(freedom, n, 1), norm="ortho")
    # Σ_s Σ_t c_s ρ^|s − t| c_t of each cosine, without the n × n matrix
    sums = lfilter([1.0], [1.0, -PERSISTENCE], cosines, axis=1)
    of_cosines = float((2 * (cosines * sums).sum() - (cosines**2).sum()) / freedom)
    return of_mean / of_cosines


def critical_t(tests: Iterable[MeanTest]) -> str:
    """Describe from which t on a mean differs from 0 at the 5 % level: with few degrees of freedom that is far above 2.

    >>> critical_t([MeanTest(0.1, 4.4, 0.05, 2), MeanTest(0.2, 1.0, 0.39, 3), MeanTest(0.3)])
    "its t allows for serial correlation (Student's t with 2 or 3 degrees of freedom; 5% level: 4.30 or 3.18)"
    """
    allows = "its t allows for serial correlation"
    freedoms = sorted({test.freedom for test in tests if test.t is not None})
    if not freedoms:
        return allows
    levels = " or ".join(f"{student.ppf(0.975, freedom):.2f}" for freedom in freedoms)
    degrees = f"{' or '.join(map(str, freedoms))} degree{'s' * (freedoms != [1])} of freedom"
    return f"{allows} (Student's t with {degrees}; 5% level: {levels})"


def long_run_variance(x: np.ndarray, freedom: int) -> np.ndarray:
    """Return the equal-weighted cosine estimate of the long-run variance of x (T, k), a matrix (k, k)."""
    terms = dct(x, axis=0, norm="ortho")[1 : freedom + 1]
    return np.asarray(terms.T @ terms / freedom)


@dataclass(frozen=True, repr=False, kw_only=True)
class ForecastTest(MeanTest):
    """Panel Diebold–Mariano test of a model against a baseline; ``mean`` is that of loss differences, positive = a better model.

    Attributes
    ----------
    model, baseline : str
    n_periods, horizon : int
    """

    model: str
    baseline: str
    n_periods: int
    horizon: int

    @property
    def loss_difference(self) -> float:
        """Mean of the baseline's loss minus the model's."""
        return self.mean

    @property
    def statistic(self) -> float | None:
        """The t-statistic; None without a test, ``reason`` explains why."""
        return self.t

    @property
    def outcome(self) -> str:
        """The result in a few characters."""
        return self.reason or f"t = {self.t:.2f}, {p_words(self.p_value or 0.0)}"

    def __repr__(self) -> str:
        return f"ForecastTest(Diebold–Mariano, {self.model!r} against {self.baseline!r}: {self.outcome})"

    def __str__(self) -> str:
        found = f"{self.outcome}, mean {self.mean:.4g} (T = {self.n_periods}, two-sided; cosine variance, t({self.freedom}))"
        return visible(f"Diebold–Mariano test of {self.model} against {self.baseline}: {found}")


class OfPeriods:
    """A result that is the mean of a series over periods, with its test."""

    test: MeanTest

    @property
    def mean(self) -> float:
        """The mean; NaN where no period has a value (constant predictions have no correlation)."""
        return self.test.mean

    @property
    def t(self) -> float | None:
        """The t-statistic of the mean, ``test.freedom`` degrees of freedom; None without a test (``test.reason``)."""
        return self.test.t

    @property
    def p_value(self) -> float | None:
        """Two-sided p-value of a mean of zero."""
        return self.test.p_value

    @property
    def _t_text(self) -> str:
        return self.test.reason or f"{self.t:.2f}"


def format_p(p_value: float | None, without: str = "") -> str:
    """Return a p-value with three decimals, ``<0.001`` below that; ``without`` where there is none.

    >>> format_p(0.0421), format_p(1e-9)
    ('0.042', '<0.001')
    """
    if p_value is None:
        return without
    if p_value < 0.001:
        return "<0.001"
    return f"{p_value:.3f}"


def p_words(p_value: float) -> str:
    """Return a p-value for a sentence.

    >>> p_words(0.0421), p_words(1e-9)
    ('p = 0.042', 'p < 0.001')
    """
    return f"p = {format_p(p_value)}".replace("= <", "< ")


@validate_arguments
def diebold_mariano(
    loss: Any, baseline_loss: Any, period: LabelsLike, *, horizon: int = 1, model: str = "model", baseline: str = "baseline"
) -> ForecastTest:
    r"""Test whether two forecasts of a panel have the same expected loss.

    Losses are averaged over each cross-section first, so that firms of one period, which share its shocks,
    count as one observation:

    .. math::

        d_t = \tfrac{1}{n_t} \sum_i (L^{base}_{it} - L^{model}_{it}), \qquad
        DM = \frac{\bar d}{\sqrt{\widehat\Omega / T}} \sim t_\nu, \qquad
        \widehat\Omega = \frac{c}{\nu} \sum_{j=1}^{\nu} \Big( \sqrt{\tfrac{2}{T}} \sum_{t=1}^{T} d_t
            \cos \frac{\pi j (t - 1/2)}{T} \Big)^2,

    the equal-weighted cosine estimate of the variance (Lazarus et al. 2018), with

    .. math:: \nu = \max\Big( 1, \Big\lfloor \min\Big( 0.4\, T^{2/3},\ \frac{T}{3 (h + 1)} \Big) \Big\rfloor \Big)

    and c what makes it unbiased in an AR(.7): :func:`mean_test`, which tests :math:`d_t`. P-values are two-sided.

    Parameters
    ----------
    loss, baseline_loss : array-like of length n
        Losses row by row, such as squared errors; NaN where the outcome is unknown (such rows are left out).
    period : array-like of length n
        Period labels.
    horizon : int, default 1
        Forecast horizon h in periods.
    model, baseline : str, default "model", "baseline"
        Names for the result.

    Returns
    -------
    ForecastTest
        With fewer than max(12, 4 (h + 1)) periods, or losses that never differ: no statistic but a reason.

    Raises
    ------
    InputError
        For arrays of different length, a loss known for one forecast only, or no loss at all.

    Notes
    -----
    The test is for forecasts that are not nested. A model that nests the baseline bears the noise of its extra
    parameters under the null of no gain, which makes the test careful (Clark and West 2007).

    References
    ----------
    Diebold, F. and Mariano, R. (1995), Comparing predictive accuracy, Journal of Business & Economic
    Statistics 13(3), 253–263. Lazarus, E., Lewis, D., Stock, J. and Watson, M. (2018), HAR inference: recommendations for
    practice, Journal of Business & Economic Statistics 36(4), 541–559. Coroneo, L. and Iacone, F. (2020), Comparing predictive
    accuracy in small samples using fixed-smoothing asymptotics, Journal of Applied Econometrics 35(4), 391–409. Gu, S., Kelly, B.
    and Xiu, D. (2020), Review of Financial Studies 33(5), 2223–2273, eq. 20 (the panel form).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> period = np.repeat(np.arange(40), 25)
    >>> baseline_loss = rng.chisquare(1, 1000)
    >>> diebold_mariano(baseline_loss - 0.1 * rng.random(1000), baseline_loss, period).p_value < 0.001
    True
    >>> diebold_mariano(baseline_loss[:50], baseline_loss[50:100], period[:50])
    ForecastTest(Diebold–Mariano, 'model' against 'baseline': n/a (T=2, 12 needed))
    """
    ours = as_numbers("loss", loss)
    theirs = as_numbers("baseline_loss", baseline_loss)
    codes, _ = sorted_periods(period)
    lengths = [len(ours), len(theirs), len(codes)]
    expect(len(set(lengths)) == 1, "loss, baseline_loss, period", "one length", lengths)
    known = ~np.isnan(ours)
    same_sample = np.array_equal(known, ~np.isnan(theirs))
    expect(same_sample, "loss and baseline_loss", "NaN in the same rows", "NaN in others", "Use one sample for both.")
    expect(bool(known.any()), "loss", "some that are known", "NaN in all rows")
    # firms of one period share its shocks: one observation a period
    gains = pd.Series(theirs[known] - ours[known]).groupby(codes[known]).mean()
    found = mean_test(gains, horizon)
    same = gains.abs().max() <= 1e-12 * np.mean(np.abs(theirs[known]))
    if same and len(gains) >= periods_needed(horizon):
        found = MeanTest(found.mean, cause="same losses")
    return ForecastTest(**vars(found), model=model, baseline=baseline, n_periods=len(gains), horizon=horizon)
