import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from peerattn.evaluation import WalkForward, compare, quantile_portfolios
from peerattn.evaluation.inference.forecast_tests import bias_ratio, mean_test
from peerattn.exceptions import InputError


def sample(n_firms=30, n_periods=15, seed=0):
    rng = np.random.default_rng(seed)
    firm, period = (a.ravel() for a in np.meshgrid(np.arange(n_firms), np.arange(n_periods)))
    there = rng.random(len(firm)) < 0.9
    firm, period = firm[there], period[there]
    forecast = rng.normal(size=len(firm))
    r = 0.02 * forecast + 0.1 * rng.normal(size=len(firm))
    r[rng.random(len(r)) < 0.05] = np.nan
    return r, forecast, firm, period, rng.uniform(1, 9, len(firm))


@pytest.mark.parametrize("weighted", [False, True])
def test_returns_turnover_and_cost_against_loops(weighted):
    r, forecast, firm, period, size = sample()
    w = size if weighted else np.ones_like(size)
    found = quantile_portfolios(r, forecast, firm, period, n_quantiles=5, weight=size if weighted else None)
    spread, traded, before = [], [], {}
    for t in range(15):
        here = np.flatnonzero(period == t)
        order = here[np.argsort(forecast[here])]
        bounds = [(k + 0.5) * 5 / len(order) for k in range(len(order))]
        legs = {q: [i for i, at in zip(order, bounds) if int(at) == q] for q in (0, 4)}
        means, total = {}, 0.0
        for q, leg in legs.items():
            known = [i for i in leg if not np.isnan(r[i])]
            means[q] = sum(w[i] * r[i] for i in known) / sum(w[i] for i in known)
            target = {firm[i]: w[i] / sum(w[k] for k in leg) for i in leg}
            if t:
                drifted = before[q]
                total += sum(abs(target.get(f, 0) - drifted.get(f, 0)) for f in {*target, *drifted})
            grown = {firm[i]: target[firm[i]] * (1 + (0 if np.isnan(r[i]) else r[i])) for i in leg}
            before[q] = {f: g / sum(grown.values()) for f, g in grown.items()}
        spread.append(means[4] - means[0])
        traded += [total] if t else []
    assert np.allclose(found.spread, spread) and np.allclose(found.turnover, traded)
    assert found.sharpe == pytest.approx(np.mean(spread) / np.std(spread, ddof=1))
    assert found.break_even_cost == pytest.approx(np.mean(spread) / np.mean(traded))
    assert found.weighting == ("value" if weighted else "equal")
    assert found.t == pytest.approx(mean_test(spread).t)
    assert list(found.to_frame().index) == [1, 2, 3, 4, 5, "spread"]


def test_alpha_against_statsmodels():
    r, forecast, firm, period, _ = sample()
    factors = pd.DataFrame(0.1 * np.random.default_rng(1).normal(size=(15, 2)), columns=["mkt", "smb"])
    found = quantile_portfolios(r, forecast, firm, period, n_quantiles=3, factors=factors, outcome_horizon=0, periods_per_year=12)
    fit = sm.OLS(found.spread, sm.add_constant(factors)).fit()
    assert found.alpha.mean == pytest.approx(fit.params["const"]) and found.alpha.freedom == 2
    X, u, error = fit.model.exog, fit.resid.to_numpy(), np.zeros(3)
    for j in (1, 2):  # the sandwich with the cosine variance of the scores
        terms = sum(X[t] * u[t] * np.cos(np.pi * j * (t + 0.5) / 15) for t in range(15)) * np.sqrt(2 / 15)
        error += (np.linalg.inv(X.T @ X) @ terms) ** 2 * 15 / 2
    assert found.alpha.t == pytest.approx(fit.params["const"] / np.sqrt(error[0] * bias_ratio(15, 2)))
    assert np.allclose(found.betas, fit.params[["mkt", "smb"]])
    assert found.sharpe == pytest.approx(np.sqrt(12) * found.spread.mean() / found.spread.std())
    with pytest.raises(InputError, match="factors: .* 5 periods"):
        quantile_portfolios(r, forecast, firm, period, factors=factors.iloc[:10], outcome_horizon=0)
    with pytest.raises(InputError, match="outcome_horizon must be"):
        quantile_portfolios(r, forecast, firm, period, factors=factors)


def test_sorting_depends_on_no_outcome_and_on_no_order():
    r, forecast, firm, period, _ = sample()
    found = quantile_portfolios(r, forecast.round(1), firm, period, n_quantiles=4)
    order = np.random.default_rng(0).permutation(len(r))
    other = quantile_portfolios(*(a[order] for a in (r, forecast.round(1), firm, period)), n_quantiles=4)
    pd.testing.assert_frame_equal(found.returns, other.returns)
    assert np.allclose(found.turnover, other.turnover)


def test_bad_portfolios():
    r, forecast, firm, period, size = sample()
    with pytest.raises(InputError, match="n_quantiles"):
        quantile_portfolios(r, forecast, firm, period, n_quantiles=1)
    with pytest.raises(InputError, match="weight: expected positive"):
        quantile_portfolios(r, forecast, firm, period, weight=size - 5)
    with pytest.raises(InputError, match="known outcomes in both end portfolios .* Use fewer"):
        quantile_portfolios(r, np.ones_like(r), firm, period)


def test_a_comparison_scores_by_group():
    from sklearn.linear_model import LinearRegression

    rng = np.random.default_rng(3)
    months = pd.date_range("2010-01-31", periods=30, freq="ME")
    index = pd.MultiIndex.from_product([range(20), months], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=600)}, index=index)
    y = (X["size"] + rng.normal(size=600)).rename("ret")
    result = compare({"OLS": LinearRegression()}, X, y, cv=WalkForward(18, 18), decomposition=False, verbose=False)
    years = result.by("year")
    assert list(years.index.get_level_values("group").unique()) == [2011, 2012]
    frame = result.predictions
    at = frame["period"].dt.year == 2012
    miss = ((frame["outcome"] - frame["OLS"]) ** 2)[at].sum()
    base = ((frame["outcome"] - result.training_mean) ** 2)[at].sum()
    assert years.loc[(2012, "OLS"), "r2_mean"] == pytest.approx(1 - miss / base)
    half = (X["size"].groupby(level=1).rank(pct=True) > 0.5) + 1
    sizes = result.by(half.swaplevel())
    assert set(sizes.index.get_level_values("group")) == {1, 2} and (sizes["rows"] == 180).all()
    industry = pd.Series(np.where(index.get_level_values(0) < 5, "A", None), index=index)
    assert result.by(industry).loc[("unknown", "OLS"), "rows"] == 15 * 18
    for by, options, message in (
        ("month", {}, "by: expected 'year'"),
        (X["size"], {}, "more than 50 different numbers"),
        ([1], {}, "by: expected text or Series"),
    ):
        with pytest.raises(InputError, match=message):
            result.by(by, **options)


def test_a_spread_that_is_not_positive_has_no_break_even_cost():
    columns = ([1, 2, 2, 1], list("ABAB"), [1, 1, 2, 2])
    gained, lost = (quantile_portfolios(np.array([0.0, 0.1, 0.2, 0.0]) * sign, *columns, n_quantiles=2) for sign in (1, -1))
    assert gained.break_even_cost > 0 and "break-even cost" in repr(gained)
    assert np.isnan(lost.break_even_cost) and "break-even" not in repr(lost)


def test_a_leg_that_loses_all_is_bought_anew():
    found = quantile_portfolios([-1.0, 0.1, 0.0, 0.2], [1, 2, 1, 2], list("ABAB"), [1, 1, 2, 2], n_quantiles=2)
    assert found.turnover.tolist() == [1.0]  # it was 0, as if the leg had been kept
