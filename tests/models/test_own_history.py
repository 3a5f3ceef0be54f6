import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from peerattn.exceptions import InputError
from peerattn.models import CommonShocksRegressor, OwnHistoryRegressor

N, T = 40, 20


def panel(seed=0, effect=0.0, rho=0.0, common=0.0, curve=0.0, noise=1.0):
    """x, and y = x + a firm effect + an AR(1) + a common shock + a curve + noise."""
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(N), range(2001, 2001 + T)], names=["firm", "period"])
    x = rng.normal(size=(N, T))
    u = np.zeros((N, T))
    for t in range(T):
        u[:, t] = rho * u[:, t - 1] + rng.normal(size=N) if t else rng.normal(size=N) / np.sqrt(1 - rho**2)
    industry = np.arange(N) % 4
    shock = rng.normal(size=(4, T))[industry] + rng.normal(size=T)
    y = x + effect * rng.normal(size=(N, 1)) + noise * u + common * shock + curve * (x**2 - 1)
    X = pd.DataFrame({"x": x.ravel(), "industry": np.repeat([f"i{k}" for k in industry], T)}, index)
    return X, pd.Series(y.ravel(), index, name="y")


def split(X, y, last=2015):
    past = X.index.get_level_values("period") <= last
    return X[past], y[past], X[~past], y[~past]


def r2(y, predicted):
    return 1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum()


def test_firm_effects_and_persistence_are_predicted_nearly_as_well_as_can_be():
    for options, best in (({"effect": 2.0}, 1.0), ({"rho": 0.9}, 1.0)):
        X, y = panel(**options)
        X0, y0, X1, y1 = split(X, y, 2019)
        error = ((y1 - OwnHistoryRegressor().fit(X0, y0).predict(X1)) ** 2).mean()
        assert error < 1.6 * best


def test_a_gap_is_learned_from_rows_with_that_gap():
    """Of an AR(1) at gap 6 the coefficient is ρ⁶: a model of gap 1 would take the last value nearly whole."""
    errors = np.zeros(3)
    for seed in range(5):
        X, y = panel(rho=0.8, seed=seed)
        X0, y0, X1, y1 = split(X, y, 2014)
        far = X1.index.get_level_values("period") == 2020
        for k, gaps in enumerate([(1,), (6,), (1, 6)]):
            errors[k] += ((y1 - OwnHistoryRegressor(gaps=gaps).fit(X0, y0).predict(X1))[far] ** 2).mean()
    assert errors[1] < errors[0] and errors[2] < errors[0]


def test_curves_enter_and_nothing_costs_much():
    for curve in (0.0, 1.0):
        X, y = panel(curve=curve)
        X0, y0, X1, y1 = split(X, y)
        error = ((y1 - OwnHistoryRegressor().fit(X0, y0).predict(X1)) ** 2).mean()
        least = min(
            ((y1 - model.fit(X0[["x"]], y0).predict(X1[["x"]])) ** 2).mean()
            for model in (LinearRegression(), HistGradientBoostingRegressor())
        )
        assert error < 1.2 * least


def test_outcomes_of_the_same_and_later_periods_are_never_read():
    X, y = panel(effect=1.0, rho=0.5)
    X0, y0, X1, y1 = split(X, y)
    model = OwnHistoryRegressor().fit(X0, y0)
    shown = model.predict(X1, outcomes=y1)
    now = X1.index.get_level_values("period") >= 2018
    changed = model.predict(X1, outcomes=y1.where(~now, 30.0))
    same = X1.index.get_level_values("period") <= 2018
    np.testing.assert_allclose(shown[same], changed[same])
    assert np.abs(shown[~same] - changed[~same]).max() > 1
    assert r2(y1, shown) > r2(y1, model.predict(X1))  # the own firm's later past helps


def test_rows_out_of_order_change_nothing():
    X, y = panel(effect=1.0)
    X0, y0, X1, _ = split(X, y)
    model = OwnHistoryRegressor().fit(X0, y0)
    order = np.random.default_rng(0).permutation(len(X0))
    again = OwnHistoryRegressor().fit(X0.iloc[order], y0.iloc[order])
    np.testing.assert_allclose(model.predict(X1), again.predict(X1[::-1])[::-1], rtol=1e-9)


def test_names_of_firms_change_nothing():
    X, y = panel(effect=1.0, curve=1.0)
    X0, y0, X1, _ = split(X, y)
    names = X.index.levels[0]
    last_first = [each.rename(index=dict(zip(names, names[::-1], strict=True)), level="firm") for each in (X0, y0, X1)]
    Z0, z0, Z1 = last_first
    model = OwnHistoryRegressor().fit(X0, y0)
    assert any("forest" in part for part in model.stacks_[0].fitted)  # whose rows are drawn
    np.testing.assert_allclose(OwnHistoryRegressor().fit(Z0, z0).predict(Z1), model.predict(X1), rtol=1e-9)


@pytest.mark.parametrize("gaps", [(), (0,), 1, (1.5,)])
def test_gaps_are_whole_numbers(gaps):
    X, y = panel()
    with pytest.raises(InputError, match="gaps"):
        OwnHistoryRegressor(gaps=gaps).fit(X, y)


def test_without_characteristics_there_is_history_alone():
    X, y = panel(effect=2.0)
    empty = X[[]].assign(x=np.nan)
    X0, y0, X1, y1 = split(empty, y)
    assert r2(y1, OwnHistoryRegressor().fit(X0, y0).predict(X1)) > 0.3


def test_common_shocks_are_read_from_the_other_firms():
    X, y = panel(common=2.0, effect=1.0)
    X0, y0, X1, y1 = split(X, y)
    model = CommonShocksRegressor(industry="industry").fit(X0, y0)
    shown = model.predict(X1, outcomes=y1)
    assert r2(y1, shown) > r2(y1, model.predict(X1)) + 0.4
    assert r2(y1, shown) > r2(y1, CommonShocksRegressor().fit(X0, y0).predict(X1, outcomes=y1)) + 0.1
    own = y1.copy()
    own.iloc[7] += 50.0  # the firm's own outcome moves the others, not itself
    moved = model.predict(X1, outcomes=own)
    assert moved[7] == pytest.approx(shown[7])
    X, y = panel()
    X0, y0, X1, y1 = split(X, y, 2019)
    none = CommonShocksRegressor(industry="industry").fit(X0, y0)
    assert np.abs(none.predict(X1, outcomes=y1) - none.predict(X1)).max() < 0.2


def test_what_is_added_is_the_weighted_mean_of_the_other_firms_and_of_those_of_the_industry():
    X, y = panel(common=2.0)
    X0, y0, X1, y1 = split(X, y, 2019)  # one period: no outcome that is shown is the own past of another row
    model = CommonShocksRegressor(industry="industry").fit(X0, y0)
    (stack,), own = model.stacks_, OwnHistoryRegressor().fit(X0, y0).predict(X1)
    weights = {column.candidate: w for column, w in stack.stages["common"].weights.items()}
    assert weights["period"] + weights["codes x period"] == pytest.approx(1, abs=0.1)
    within = model.predict(X1) - own  # slopes within the period
    assert np.abs(within).max() > 1e-3 and abs(within.mean()) < 1e-8
    left = y1 - own
    n = len(left)
    mean = (left.sum() - left) / (n - 1)
    codes = X1["industry"].to_numpy()
    of_industry = np.exp(stack.fitted["codes x period"].covariance.parameters["level"][1])
    P = np.linalg.inv(np.exp(7.0) + of_industry * (codes[:, None] == codes) + 1.0001 * np.eye(n))
    shocks = left - P @ left / P.diagonal()
    expected = own + within + weights["period"] * mean + weights["codes x period"] * shocks
    np.testing.assert_allclose(model.predict(X1, outcomes=y1), expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.UnitWarning")
@pytest.mark.parametrize("model", [OwnHistoryRegressor(), CommonShocksRegressor()])
@pytest.mark.parametrize("rows", [slice(0, 3), slice(0, 1), slice(0, T), slice(0, None, T)])
def test_tiny_panels(model, rows):
    X, y = panel()
    X, y = X.iloc[rows], y.iloc[rows]
    assert np.isfinite(model.fit(X, y).predict(X)).all()
    assert np.isfinite(model.fit(X, y).predict(X, outcomes=y)).all()
