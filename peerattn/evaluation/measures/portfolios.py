"""What predictions would have earned: quantile portfolios, what trading them costs, and luck."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from peerattn.evaluation.compared import Compared
from peerattn.evaluation.inference.forecast_tests import MeanTest, OfPeriods, mean_test
from peerattn.evaluation.measures.factors import match_factors, periods_per_year
from peerattn.evaluation.measures.metrics import as_numbers, check_one_order
from peerattn.exceptions import InputError, check_at_least, check_count, expect, validate_arguments
from peerattn.panel.knowledge import sorted_periods
from peerattn.panel.panel import check_finite
from peerattn.render import show_label
from peerattn.scaling import ROUNDING
from peerattn.types import LabelsLike, OutcomesLike

Weighting = Literal["equal", "value"]


@dataclass(frozen=True, repr=False)
class QuantilePortfolios(OfPeriods):
    """Portfolios of firms sorted by prediction, formed anew each period.

    Attributes
    ----------
    returns : DataFrame
        Return of each period (rows) and portfolio (columns 1, lowest prediction, to n, highest).
    spread : Series
        Highest less lowest.
    turnover : Series
        What the spread trades in each period but the first: bought and sold, both legs, as a share of one leg's
        value.
    weighting : str
        "equal" or "value".
    periods_per_year : float
    test : MeanTest
        Of the mean spread against zero.
    alpha : MeanTest or None
        Intercept of the spread on the factors, per period, and its test; None without factors.
    betas : Series or None
        Slopes on the factors.
    """

    returns: pd.DataFrame
    spread: pd.Series
    turnover: pd.Series
    weighting: Weighting
    periods_per_year: float
    test: MeanTest
    alpha: MeanTest | None = None
    betas: pd.Series | None = None

    @property
    def sharpe(self) -> float:
        """Sharpe ratio of the spread, annualised by the square root of ``periods_per_year``."""
        return self.net_sharpe(0.0)

    @property
    def break_even_cost(self) -> float:
        """Cost per unit traded at which the mean spread is zero; NaN where the spread is not positive."""
        traded = float(self.turnover.mean())
        return self.mean / traded if traded > 0 and self.mean > 0 else float("nan")

    def net(self, cost: float) -> pd.Series:
        """Return the spread net of a cost per unit traded; in the first period both legs are bought."""
        traded = self.turnover.reindex(self.spread.index).fillna(2.0)
        return (self.spread - cost * traded).rename("spread, net")

    def net_sharpe(self, cost: float) -> float:
        """Return the Sharpe ratio of :meth:`net`, annualised like :attr:`sharpe`."""
        earned = self.net(cost)
        return float(_sharpe(earned.mean(), earned.std())) * self.periods_per_year**0.5

    def to_frame(self) -> pd.DataFrame:
        """Return mean, standard deviation and Sharpe ratio of each portfolio and of the spread."""
        both = self.returns.assign(spread=self.spread)
        table = pd.DataFrame({"mean": both.mean(), "sd": both.std()})
        return table.assign(sharpe=_sharpe(table["mean"], table["sd"]) * self.periods_per_year**0.5)

    def __repr__(self) -> str:
        cost = f", break-even cost {self.break_even_cost:.4g}" * (self.break_even_cost > 0)
        traded = f"Sharpe {self.sharpe:.2f}, turnover {self.turnover.mean():.2f}{cost}"
        sorted_by = f"{self.returns.shape[1]} {self.weighting}-weighted"
        return f"QuantilePortfolios({sorted_by}, spread {self.mean:.4g}, t={self._t_text}, {traded})"


@validate_arguments
def quantile_portfolios(
    outcome: Any,
    prediction: OutcomesLike,
    firm: LabelsLike,
    period: LabelsLike,
    *,
    n_quantiles: int = 10,
    weight: OutcomesLike = None,
    factors: pd.DataFrame | None = None,
    outcome_horizon: int | None = None,
    periods_per_year: float = 1.0,
    horizon: int = 1,
) -> QuantilePortfolios:
    r"""Sort the firms of each period by prediction into portfolios, and hold them for the period.

    With w the weights in a leg and r the outcomes (simple returns), the turnover of a leg in t is

    .. math:: \sum_i \Big| w_{it} - \frac{w_{i,t-1} (1 + r_{i,t-1})}{1 + \sum_j w_{j,t-1} r_{j,t-1}} \Big|,

    that of the spread the sum over its two legs; the break-even cost is the mean spread over the mean turnover.

    Parameters
    ----------
    outcome : array-like of length n
        Simple returns in decimals; NaN where unknown. Such firms are sorted, too, so that the sorting depends on
        no outcome; the return of a portfolio is that of its firms with a known outcome.
    prediction, firm, period : array-like of length n
        A firm whose prediction is NaN is in no portfolio of the period.
    n_quantiles : int, default 10
    weight : array-like of length n, optional
        Market values, positive; by default firms weigh equally.
    factors : DataFrame, optional
        Factor returns in decimals, indexed by period: the spread is regressed on those of the time in which its outcomes are
        realised.
    outcome_horizon : int, optional
        Required with factors: 0 where the outcome labelled t is realised in t, 1 where it is in t + 1 (``ret_next``).
    periods_per_year : float, default 1.0
        12 annualises the Sharpe ratio of monthly returns.
    horizon : int, default 1
        Forecast horizon in periods, for the variance of the mean spread and of alpha.

    Returns
    -------
    QuantilePortfolios

    Raises
    ------
    InputError
        For arrays of different length, a firm that is missing or occurs twice in a period, infinite outcomes, bad weights, fewer
        than two portfolios, no period in which both end portfolios have a return, or factors that are collinear or do not cover
        the periods in which the outcomes are realised.

    Notes
    -----
    Equal predictions share a portfolio, so that the order of rows plays no part. Periods in which the lowest or
    the highest portfolio is empty are left out. No cost is taken off. The tests are those of ``mean_test``: Student's t with an
    equal-weighted cosine variance.

    References
    ----------
    Gu, S., Kelly, B. and Xiu, D. (2020), Empirical asset pricing via machine learning, Review of Financial Studies
    33(5), 2223–2273, section 2.4 (turnover). Novy-Marx, R. and Velikov, M. (2016), A taxonomy of anomalies and their
    trading costs, Review of Financial Studies 29(1), 104–147.

    Examples
    --------
    >>> quantile_portfolios([0.0, 0.1, 0.0, 0.2], [1, 2, 1, 2], list("ABAB"), [1, 1, 2, 2], n_quantiles=2).spread.tolist()
    [0.1, 0.2]
    """
    check_at_least(2, n_quantiles=n_quantiles)
    check_count(n_quantiles=n_quantiles)
    expect(periods_per_year > 0, "periods_per_year", "a positive number", periods_per_year)
    check_one_order(outcome, prediction, firm, period, weight)
    weighting: Weighting = "equal" if weight is None else "value"
    frame, codes, periods = _sorted_rows(outcome, prediction, firm, period, weight)
    frame["q"] = quantile_groups(frame["prediction"].to_numpy(), codes, n_quantiles) + 1
    # sorted with all firms, held with those whose outcome is known
    known = frame[frame["r"].notna()]
    cells = known.assign(wr=known["w"] * known["r"]).groupby(["t", "q"])[["wr", "w"]].sum()
    returns = (cells["wr"] / cells["w"]).unstack("q").reindex(columns=range(1, n_quantiles + 1))
    returns = returns[returns[1].notna() & returns[n_quantiles].notna()]
    expect(not returns.empty, "n_quantiles", "known outcomes in both end portfolios of some period", "none", "Use fewer.")
    traded = sum(_turnover(frame[frame["q"] == q], returns.index) for q in (1, n_quantiles))
    returns = returns.set_axis(periods[returns.index], axis=0)
    returns = returns.rename_axis(index="period", columns="portfolio")
    turnover = pd.Series(traded, index=returns.index[1:], name="turnover")
    spread = (returns[n_quantiles] - returns[1]).rename("spread")
    made: Any = (returns, spread, turnover, weighting, float(periods_per_year), mean_test(spread, horizon))
    if factors is not None:
        made += _alpha(spread, match_factors(factors, spread.index, outcome_horizon=outcome_horizon), horizon)
    return QuantilePortfolios(*made)


def _sorted_rows(outcome: Any, prediction: Any, firm: Any, period: Any, weight: Any) -> tuple[pd.DataFrame, np.ndarray, pd.Index]:
    """Return checked rows with t, firm, r, w and prediction, the number of each row's period, and the periods."""
    codes, periods = sorted_periods(period)
    if weight is None:
        weight = np.ones(len(codes))
    given = {"firm": np.asarray(firm).reshape(-1), "r": as_numbers("outcome", outcome), "w": as_numbers("weight", weight)}
    given["prediction"] = as_numbers("prediction", prediction)
    lengths = {len(codes), *map(len, given.values())}
    expect(len(lengths) == 1, "outcome, prediction, firm, period, weight", "one length", sorted(lengths))
    frame = pd.DataFrame({"t": codes, **given})
    expect(bool(frame["firm"].notna().all()), "firm", "a label in every row", f"{frame['firm'].isna().sum()} missing")
    twice = frame.duplicated(["t", "firm"])
    if twice.any():
        t, who = frame.loc[twice, ["t", "firm"]].to_numpy(dtype=object)[0].tolist()
        raise InputError(f"firm: {who!r} occurs twice in period {show_label(periods[t])}; keep one row each.")
    expect(bool((frame["w"] > 0).all()), "weight", "positive numbers, known in every row", "some that are not")
    check_finite(given["r"], "outcome")
    return frame, codes, periods


def quantile_groups(values: np.ndarray, group: np.ndarray, n: int) -> np.ndarray:
    """Return the quantile group 0, …, n − 1 of each value within its group; equal values share one, unknown ones have −1.

    >>> quantile_groups(np.array([5.0, 1.0, 3.0, 3.0]), np.zeros(4, dtype=int), 4).tolist()
    [3, 0, 2, 2]
    """
    rows = pd.Series(values).groupby(group)
    found = ((rows.rank() - 0.5) * n / rows.transform("count")).clip(upper=n - 1)
    return found.fillna(-1).to_numpy().astype(int)


def _sharpe(mean: Any, sd: Any) -> Any:
    """Return mean over standard deviation; NaN where the latter is rounding, of returns that never differ."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sd > ROUNDING * np.abs(mean), np.divide(mean, sd), np.nan)


def _turnover(leg: pd.DataFrame, formed: pd.Index) -> np.ndarray:
    """Return the turnover of one leg from each formed period to the next."""
    table: Any = leg.pivot(index="t", columns="firm", values=["w", "r"]).reindex(formed).fillna(0.0)
    held = table["w"].div(table["w"].sum(axis=1), axis=0)
    # weights drift with returns before they are traded back
    grown = held * (1 + table["r"])
    drifted = grown.div(grown.sum(axis=1), axis=0).fillna(0.0).shift()  # nothing is left of a leg that lost all
    return (held - drifted).abs().sum(axis=1).to_numpy()[1:]


def _alpha(spread: pd.Series, factors: pd.DataFrame, horizon: int) -> tuple[MeanTest, pd.Series]:
    """Return the test of the intercept, the mean of its estimate's terms, and the slopes."""
    from statsmodels.regression.linear_model import OLS

    n, k = factors.shape
    design = np.column_stack([np.ones(n), factors.to_numpy() / np.maximum(factors.abs().max().to_numpy(), 1e-300)])
    if n > k and np.linalg.matrix_rank(design, tol=1e-10 * np.sqrt(n)) <= k:
        raise InputError(f"factors: {list(factors.columns)} are collinear, or one does not vary. Leave one out.")
    fit = OLS(spread.to_numpy(), np.column_stack([np.ones(n), factors.to_numpy()])).fit()
    alpha = float(fit.params[0])
    betas = pd.Series(fit.params[1:], index=factors.columns, name="beta")
    if n < k + 2:
        return MeanTest(alpha, cause=f"T={n}, {k + 2} needed"), betas
    # the intercept is a mean of these terms, so that its test is that of a mean
    scores = fit.model.exog * fit.resid[:, None]
    return mean_test(alpha + n * scores @ fit.normalized_cov_params[0], horizon), betas


#: Quantile groups by the number of firms that a typical period must hold for them.
_QUANTILES = ((100, 10), (25, 5), (9, 3))


def portfolios_of(
    comparison: Compared, model: str, *, n_quantiles: int | None = None, weighting: Weighting = "equal"
) -> QuantilePortfolios:
    """Return portfolios of firms sorted by a model's forecast; see :func:`quantile_portfolios`.

    By default there are as many as the periods hold firms for: 10, 5 or 3. Where the outcome is not a return
    (:attr:`is_return`) they are groups, and only their mean outcomes have a meaning. ``weighting="value"`` weighs firms by
    :attr:`market_value`; firms without one are left out.

    Raises
    ------
    InputError
        For a nowcast, which nobody could have traded on; an unknown model; market values that are missing.
    """
    comparison.check_model(model)
    if comparison.task != "forecast":
        raise InputError("portfolios: a nowcast uses outcomes of the same period, so it cannot be traded on.")
    frame = comparison.predictions
    weight = None
    typical = comparison.known.groupby("period").size().median()
    if weighting == "value":
        if comparison.panel.market_value is None:
            raise InputError("weighting='value' needs market values: compare(..., market_value=COLUMN).")
        labels = pd.MultiIndex.from_frame(frame[["firm", "period"]])
        weight = comparison.panel.market_value.loc[labels].to_numpy()
        frame = frame[~np.isnan(weight)]
        weight = weight[~np.isnan(weight)]
    return quantile_portfolios(
        *(frame[name] for name in ("outcome", model, "firm", "period")),
        n_quantiles=n_quantiles or next((n for firms, n in _QUANTILES if typical >= firms), 2),
        weight=weight,
        factors=comparison.panel.factors,
        outcome_horizon=0,  # they are dated as the outcomes are
        periods_per_year=periods_per_year(comparison.periods) or 1.0,
        horizon=comparison.horizon,
    )
