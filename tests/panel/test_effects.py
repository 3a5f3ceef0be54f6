"""Absorbed effects against dummies, linearmodels' AbsorbingLS and statsmodels."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from linearmodels.iv import AbsorbingLS
from scipy.sparse.csgraph import connected_components
from scipy.stats import t
from sklearn.linear_model import Ridge

from peerattn.evaluation import calibration
from peerattn.exceptions import InputError, LostPeriodWarning
from peerattn.models import LinearInMeansRegressor
from peerattn.models.own_characteristics import OwnCharacteristicsRegressor
from peerattn.network import Difference, PeerNetwork, dyadic_regression
from peerattn.panel.effects import degrees_of, effect_labels, estimated_effects, known_effects, net_of


def panel(n_firms=30, n_periods=8, seed=0):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(n_firms), range(2000, 2000 + n_periods)], names=["firm", "period"])
    firm, period = (index.get_level_values(name).to_numpy() for name in index.names)
    sic = np.array(["28", "37", "73"])[firm % 3]
    level = rng.normal(size=n_firms)[firm] + rng.normal(size=(3, n_periods))[firm % 3, period - 2000]
    X = pd.DataFrame({"size": level + rng.normal(size=len(index)), "lev": rng.normal(size=len(index)), "sic": sic}, index)
    y = 0.5 * X["size"] - X["lev"] + 2 * level + rng.normal(size=len(index))
    at = np.sort(rng.permutation(len(index))[: len(index) - 40])
    return X.iloc[at], y.rename("roa").iloc[at]


def absorbing(X, y, names, effects):
    groups = effect_labels(effects, {"firm": X.index.get_level_values(0), "period": X.index.get_level_values(1), "sic": X["sic"]})
    codes = groups.apply(lambda column: pd.Categorical(column)).set_index(X.index)
    return AbsorbingLS(y, X[names], absorb=codes, drop_absorbed=True).fit(
        cov_type="clustered", clusters=pd.Series(X.index.get_level_values(0), X.index), use_cache=False
    )


EFFECTS = [("firm",), ("firm", "period"), ("firm", "sic×period"), ("sic", "period")]


@pytest.mark.parametrize("effects", EFFECTS)
def test_linear_in_means_absorbs_as_linearmodels_does(effects):
    X, y = panel(60)
    model = LinearInMeansRegressor(effects=effects).fit(X if any("sic" in e for e in effects) else X.drop(columns="sic"), y)
    found, theirs = model.results_, absorbing(X, y, ["size", "lev"], effects)
    np.testing.assert_allclose(found.params, theirs.params, atol=1e-8)
    ratio = np.asarray(found.std_errors / theirs.std_errors)
    assert ratio == pytest.approx(ratio[0]) and 0.9 < ratio[0] < 1.1  # they differ in how effects count as parameters
    assert found.effects == effects and not found.dropped
    rest = y - X[["size", "lev"]] @ found.params
    dummies = pd.get_dummies(effect_labels(effects, {"firm": X.index.get_level_values(0).astype(str),
        "period": X.index.get_level_values(1).astype(str), "sic": X["sic"]})).to_numpy(float)  # fmt: skip
    fitted = dummies @ np.linalg.lstsq(dummies, rest, rcond=None)[0]
    np.testing.assert_allclose(model.predict(X if "sic" in str(effects) else X.drop(columns="sic")), y - rest + fitted, atol=1e-6)


@pytest.mark.parametrize("effects", EFFECTS)
def test_the_ols_control_absorbs_and_predicts_by_effects_known_from_training(effects):
    X, y = panel()
    past = X.index.get_level_values("period") < 2006
    model = OwnCharacteristicsRegressor(effects=effects).fit(X[past], y[past])
    theirs = absorbing(X[past], y[past], ["size", "lev"], effects)
    np.testing.assert_allclose(model.model_[-1].coef_, theirs.params, atol=1e-8)
    predicted = model.predict(X[~past])
    own = X.loc[~past, ["size", "lev"]].to_numpy() @ theirs.params.to_numpy()
    known = predicted - own - model.model_[-1].intercept_
    if effects == ("firm",):
        np.testing.assert_allclose(
            known, model.effects_["firm"].reindex(X[~past].index.get_level_values(0)).fillna(0.0), atol=1e-8
        )
    if effects == ("sic", "period"):
        assert len(np.unique(known.round(9))) == 3  # periods are new
    later = y.where(past, y + 100.0)
    np.testing.assert_array_equal(
        OwnCharacteristicsRegressor(effects=effects).fit(X[past], later[past]).predict(X), model.predict(X)
    )


def test_groups_of_one_row_take_their_degrees_of_freedom():
    """A third of the firms have one row, which their effect explains: it does not add to n − k."""
    X, y = panel()
    firm, period = (X.index.get_level_values(k) for k in (0, 1))
    X, y = (each[(firm >= 10) | (period == 2001 + firm % 7)] for each in (X, y))
    for effects in (("firm",), ("firm", "period"), ("firm", "sic×period")):
        found = LinearInMeansRegressor(effects=effects, cluster=None).fit(X, y).results_
        labels = {"firm": X.index.get_level_values(0), "period": X.index.get_level_values(1), "sic": X["sic"]}
        dummies = pd.get_dummies(effect_labels(effects, labels).astype(str)).to_numpy(float)
        theirs = sm.OLS(y, np.column_stack([X[found.params.index], dummies])).fit(cov_type="HC1")
        degrees = len(y) - np.linalg.matrix_rank(theirs.model.exog)  # statsmodels has it to rounding only
        scale = np.sqrt(theirs.df_resid / degrees)
        np.testing.assert_allclose(found.std_errors, theirs.bse.iloc[: len(found.params)] * scale, rtol=1e-8)
        assert found.freedom == degrees


def test_effects_need_least_squares():
    X, y = panel()
    with pytest.raises(InputError, match="leave estimator out"):
        OwnCharacteristicsRegressor(Ridge(), effects=("firm",)).fit(X, y)
    with pytest.raises(InputError, match="'industry' is no label"):
        effect_labels(("industry×period",), {"period": [1], "sic": ["28"]})


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")  # missing rows leave some firms without peers
def test_network_effects_are_constants_of_the_parts_of_each_period_s_network():
    X, y = panel(40, 2)
    X = X.drop(columns="sic")
    n = 40
    W = np.zeros((n, n))
    for start, size in ((0, 10), (10, 14), (24, 16)):
        rng = np.random.default_rng(start)
        block = (rng.random((size, size)) < 0.3) | np.eye(size, k=1, dtype=bool) | np.eye(size, k=-1, dtype=bool)
        W[start : start + size, start : start + size] = block & ~np.eye(size, dtype=bool)
    model = LinearInMeansRegressor(network=pd.DataFrame(W), effects=("network×period",), peer_outcome=False).fit(X, y)
    parts = {period: X.xs(period, level="period").index.to_numpy() for period in (2000, 2001)}
    designs, constants, outcomes = [], [], []
    for period, firms in parts.items():  # missing rows cut some parts, and leave some firms alone
        here = W[np.ix_(firms, firms)]
        some = here.sum(axis=1) > 0
        here = here / np.maximum(here.sum(axis=1, keepdims=True), 1)
        x = X.xs(period, level="period").loc[firms].to_numpy()
        part = connected_components(here)[1]
        designs.append(np.column_stack([x, here @ x])[some])
        constants += [f"{period} {label}" for label in part[some]]
        outcomes += y.xs(period, level="period").loc[firms][some].tolist()
    table = np.column_stack([np.vstack(designs), pd.get_dummies(constants)]).astype(float)
    assert len(model.effects_["network×period"]) == len(set(constants)) == 5
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(table, outcomes, rcond=None)[0][:4], atol=1e-8)


@pytest.mark.parametrize("effects", [("firm",), ("period",), ("firm", "period")])
def test_calibration_with_effects_is_least_squares_with_dummies(effects):
    rng = np.random.default_rng(0)
    firm, period = (a.ravel() for a in np.meshgrid(np.arange(40), np.arange(15)))
    forecast = rng.normal(size=40)[firm] + rng.normal(size=600)
    y = 0.7 * forecast + rng.normal(size=40)[firm] + rng.normal(size=15)[period] + rng.normal(size=600)
    y[:7] = np.nan
    known = np.isfinite(y)
    found = calibration(y, forecast, period, firm=firm, effects=effects)
    dummies = np.hstack([pd.get_dummies({"firm": firm, "period": period}[name][known]).to_numpy(float) for name in effects])
    net = lambda v: v - dummies @ np.linalg.lstsq(dummies, v, rcond=None)[0]  # noqa: E731
    fit = sm.OLS(net(y[known]), net(forecast[known])).fit(
        cov_type="cluster", cov_kwds={"groups": np.column_stack([period, firm])[known]}
    )
    assert found.slope == pytest.approx(fit.params[0]) and np.isnan(found.intercept)
    assert found.std_errors["prediction"] == pytest.approx(fit.bse[0], rel=1e-6)
    assert found.p_value == pytest.approx(2 * t.sf(abs(fit.params[0] - 1) / fit.bse[0], 14), rel=1e-6)
    assert "effects=" in repr(found)


@pytest.mark.parametrize("effects", [("firm",), ("peer",), ("firm", "peer"), ("firm×period", "peer×period")])
def test_dyadic_effects_are_dummies(effects):
    rng, firms = np.random.default_rng(0), [f"F{k:02d}" for k in range(12)]
    size = pd.Series(rng.normal(size=12), firms)
    x = {when: pd.DataFrame(rng.normal(size=(12, 12)), firms, firms) for when in (1, 2)}
    W = {
        when: (
            firms,
            None,
            5 + rng.normal(size=(12, 12)) + np.abs(np.subtract.outer(size.to_numpy(), size.to_numpy())),
        )
        for when in (1, 2)
    }
    network = PeerNetwork.from_matrices(W, row_normalized=False)
    found = dyadic_regression(network, {"gap": Difference(size), "x": x[1]}, effects=effects)
    i, j = np.nonzero(~np.eye(12, dtype=bool))
    labels = {"firm": np.tile(i, 2), "peer": np.tile(j, 2), "period": np.repeat([1, 2], len(i))}
    y = np.concatenate([network.matrix(when).loc[firms, firms].to_numpy()[i, j] for when in (1, 2)])
    gap = np.tile(np.abs(size.to_numpy()[i] - size.to_numpy()[j]), 2)
    table = np.column_stack([gap, np.tile(x[1].to_numpy()[i, j], 2)])
    dummies = np.hstack([pd.get_dummies(column).to_numpy(float) for _, column in effect_labels(effects, labels).items()])
    full = np.linalg.lstsq(np.column_stack([table, dummies]), y, rcond=None)[0]
    np.testing.assert_allclose(found.params, full[:2], atol=1e-10)
    assert list(found.params.index) == ["gap", "x"] and found.effects == effects


def test_effects_of_three_kinds_come_back():
    rng = np.random.default_rng(1)
    groups = pd.DataFrame({"firm": rng.integers(0, 9, 200), "period": rng.integers(0, 5, 200), "sic": rng.integers(0, 3, 200)})
    y = rng.normal(size=200)
    mean, effects = estimated_effects(y, groups)
    np.testing.assert_allclose(y - mean - known_effects(effects, groups), net_of(groups, y[:, None])[:, 0], atol=1e-8)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("level", [0.0, 1e6])
def test_two_effects_converge_in_every_unit_and_at_every_level(unit, level):
    rng = np.random.default_rng(0)
    kept = rng.random(240) < 0.7
    groups = pd.DataFrame({"firm": np.repeat(range(20), 12), "period": np.tile(range(12), 20)})[kept]
    x = rng.normal(size=(240, 2))[kept] + np.outer(groups["firm"], [1.0, -2.0]) + np.outer(groups["period"], [3.0, 1.0])
    dummies = pd.get_dummies(groups.astype(str)).to_numpy(dtype=float)
    right = x - dummies @ np.linalg.lstsq(dummies, x, rcond=None)[0]
    found = net_of(groups, (x + level) * unit)
    np.testing.assert_allclose(found / unit, right, atol=1e-8 * (1 + level / 1e2))
    assert degrees_of(groups) == 31


@pytest.mark.parametrize("names", [["period"], ["firm", "period"], ["period", "firm"], ["period", "same"]])
def test_effects_of_one_group(names):
    groups = pd.DataFrame({"firm": [1, 1, 2, 2, 3], "period": 2001, "same": "a"})[names]
    table = np.array([[1.0], [3.0], [5.0], [9.0], [4.0]])
    right = [-1, 1, -2, 2, 0] if "firm" in names else table.ravel() - table.mean()
    np.testing.assert_allclose(net_of(groups, table).ravel(), right, atol=1e-12)


def test_effects_that_do_not_converge_are_an_error(monkeypatch):
    monkeypatch.setattr("peerattn.panel.effects.ROUNDS", 2)
    rng = np.random.default_rng(0)
    groups = pd.DataFrame({"firm": rng.integers(0, 20, 60), "period": rng.integers(0, 20, 60)})
    with pytest.raises(InputError, match="effects: firm, period are not absorbed"):
        net_of(groups, rng.normal(size=(60, 1)))


def test_effects_and_labels_of_wrong_kinds_are_named():
    network = PeerNetwork.from_matrices({None: (pd.Index(["A", "B", "C"]), None, (1 - np.eye(3)) / 2)})
    with pytest.raises(InputError, match="effects: expected a list of names, got Series"):
        dyadic_regression(network, {"same": network}, effects=pd.Series(["firm"]))
    with pytest.raises(InputError, match="firm: expected one label for each of the 2 rows"):
        calibration([1.0, 2.0], [1.0, 2.0], [1, 2], firm=[[1], [2, 3]])


def test_effects_of_codes_are_absorbed_on_rows_without_labels():
    """As with labels, and by dummies; those of firms, which the rows do not have, are left out."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=60), "sic": rng.choice(["2834", "3711", "6021"], 60)})
    level = X["sic"].map({"2834": 0.0, "3711": 5.0, "6021": 9.0})
    X["x"] += level
    y = X["x"] - level + 0.1 * rng.normal(size=60)
    dummies = np.column_stack([X["x"], pd.get_dummies(X["sic"], dtype=float)])
    slope = np.linalg.lstsq(dummies, y, rcond=None)[0][0]
    found = OwnCharacteristicsRegressor(effects=["sic"]).fit(X, y)
    assert found.slopes_["x"] == pytest.approx(slope)
    np.testing.assert_allclose(found.predict(X), dummies @ np.linalg.lstsq(dummies, y, rcond=None)[0])
    with pytest.warns(LostPeriodWarning):
        both = OwnCharacteristicsRegressor(effects=["firm", "sic"]).fit(X, y)
    assert list(both.effects_) == ["sic"] and both.slopes_["x"] == pytest.approx(slope)


@pytest.mark.parametrize("model", [OwnCharacteristicsRegressor, LinearInMeansRegressor])
@pytest.mark.parametrize("effect", ["period", "sic×period"])
def test_periods_of_another_type_are_an_error_in_joined_effects_too(model, effect):
    quarters = pd.period_range("2001Q1", periods=6, freq="Q")
    index = pd.MultiIndex.from_product([[f"F{k}" for k in range(12)], quarters], names=["firm", "period"])
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=72), "sic": np.tile(["28", "37"], 36)}, index)
    found = model(effects=(effect,)).fit(X, X["x"] + rng.normal(size=72))
    found.predict(X)
    with pytest.raises(InputError, match="cannot be compared with those of fit"):
        found.predict(X.set_axis(index.set_levels(quarters.to_timestamp(), level=1)))
