"""Fixed effects of the own model: the within estimator, effects known at the origin, those of a period from the others."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from linearmodels.panel import PanelOLS

import peerattn
from peerattn import PeerAttentionClassifier, PeerAttentionRegressor
from peerattn.exceptions import InputError, IsolateWarning, SmallCrossSectionWarning
from peerattn.models import make_model

FIRMS, YEARS = [f"F{k:02d}" for k in range(24)], range(2001, 2011)
INDEX = pd.MultiIndex.from_product([FIRMS, YEARS], names=["firm", "period"])
OWN = {
    "own": "linear",
    "similarity": "scaled_dot_product",
    "n_heads": 0,
    "scale": None,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def panel():
    """Characteristics go along with firms' levels and industries' shocks; some rows are missing, some outcomes unknown."""
    rng = np.random.default_rng(3)
    level, sic = rng.normal(size=24), np.arange(24) % 4
    shock = 2 * rng.normal(size=(4, 10))[sic] + rng.normal(size=10)
    x = rng.normal(size=(2, 24, 10)) + level[:, None] + shock
    y = 0.5 * x[0] - 0.2 * x[1] + 3 * level[:, None] + shock + 0.3 * rng.normal(size=(24, 10))
    X = pd.DataFrame({"size": x[0].ravel(), "lev": x[1].ravel()}, INDEX)
    X["sic"] = np.repeat(np.array(["2834", "3711", "1311", "7372"])[sic], 10)
    y = pd.Series(y.ravel(), INDEX)
    kept = rng.random(240) > 0.1
    return X[kept], y.mask(rng.random(240) < 0.05)[kept]


def before(values, year):
    return values[values.index.get_level_values("period") < year]


def test_forecasts_are_those_of_least_squares_with_a_dummy_for_each_firm(panel):
    X, y = panel
    train, known = before(X, 2008), before(y, 2008).notna()
    model = PeerAttentionRegressor(effects=("firm",), **OWN).fit(train, before(y, 2008))
    numbers = X[["size", "lev"]]
    dummies = pd.get_dummies(pd.Series(X.index.get_level_values("firm"), X.index)).astype(float)
    design = pd.concat([numbers, dummies], axis=1)
    ols = sm.OLS(before(y, 2008)[known], before(design, 2008)[known]).fit()
    np.testing.assert_allclose(model.predict(X), ols.predict(design), atol=1e-7)
    expected = PanelOLS(before(y, 2008)[known], train.loc[known, ["size", "lev"]], entity_effects=True).fit()
    slope = model.own_.slope[:, 0] / model.own_.spread * model.y_scale_
    np.testing.assert_allclose(slope, expected.params, atol=1e-8)
    control = make_model("ols").set_params(effects=("firm",)).fit(train.drop(columns="sic"), before(y, 2008))
    np.testing.assert_allclose(model.predict(X), control.predict(X.drop(columns="sic")), atol=1e-7)


def test_a_firm_without_training_rows_has_the_mean_effect(panel):
    X, y = panel
    new = X.index.get_level_values("firm") == "F05"
    model = PeerAttentionRegressor(effects=("firm",), **OWN).fit(X[~new], y[~new])
    effects = model.own_.effects.lasting["firm"]
    weight = X[~new & y.notna()].groupby(level="firm").size()
    assert "F05" not in effects.index and abs(effects @ weight.reindex(effects.index)) < 1e-6
    own = (X[["size", "lev"]].to_numpy() - model.own_.center) / model.own_.spread @ model.own_.slope
    expected = (own[:, 0] + model.own_.intercept) * model.y_scale_ + model.y_center_
    np.testing.assert_allclose(model.predict(X)[new], expected[new], atol=1e-9)


def test_effects_of_a_period_are_the_means_of_the_other_firms(panel):
    """Slopes equal those of absorbed effects; the prediction is a plain loop over the group's other firms."""
    X, y = panel
    effects = ("firm", "period", "sic×period")
    model = PeerAttentionRegressor(values="outcomes", effects=effects, **OWN).fit(X, y)
    known = y.notna()
    codes = pd.Series(X["sic"] + "|" + X.index.get_level_values("period").astype(str), X.index)
    groups = pd.DataFrame({"sic×period": pd.factorize(codes[known])[0]}, X.index[known])
    numbers = X.loc[known, ["size", "lev"]]
    oracle = PanelOLS(y[known], numbers, entity_effects=True, other_effects=groups).fit()
    slope = model.own_.slope[:, 0] / model.own_.spread * model.y_scale_
    np.testing.assert_allclose(slope, oracle.params, atol=1e-6)
    found = model.predict(X, outcomes=y)
    firm = model.own_.effects.lasting["firm"] * model.y_scale_
    own = X[["size", "lev"]] @ slope + X.index.get_level_values("firm").map(firm).to_numpy()
    own += (
        model.y_center_
        + (model.own_.intercept - (model.own_.center / model.own_.spread) @ model.own_.slope[:, 0]).item()
        * model.y_scale_
    )
    left = y - own
    for row in X.index[::7]:
        others = (X.index.get_level_values("period") == row[1]) & (X.index != row) & known
        same = others & (X["sic"] == X.loc[row, "sic"]).to_numpy()
        effect = left[same].mean() if same.any() else left[others].mean()
        assert found[row] == pytest.approx(own[row] + effect, abs=1e-8)
    alone = X[(X.index.get_level_values("period") == 2005) & (X["sic"] == "2834").to_numpy()].iloc[:1]
    with pytest.warns(SmallCrossSectionWarning), pytest.warns(IsolateWarning):
        found = model.predict(alone, outcomes=y.loc[alone.index])
    assert found.iloc[0] == pytest.approx(own[alone.index[0]])


def test_peers_are_judged_against_the_own_model_with_its_effects(panel):
    """Without peers in the data nothing enters, and predictions are those of the own model with its effects."""
    X, y = panel
    shown = {"effects": ("firm", "sic×period"), "values": "outcomes", "similarity": "covariance"}
    for told, options in (({}, {"effects": ("firm",), "n_heads": 1}), ({"outcomes": y}, shown)):
        model = PeerAttentionRegressor(own="linear", scale=None, random_state=0, **options).fit(X, y)
        assert not model.parts_ and (model.evidence_["factor"] == 0).all() and model.of_period_ == 1
        own = PeerAttentionRegressor(**(options | OWN)).fit(X, y)
        np.testing.assert_array_equal(model.predict(X, **told), own.predict(X, **told))


def test_a_covariance_takes_the_place_of_effects_of_a_period(panel):
    """Without judgement it enters in full: no effect of the period is left, and the prediction is its own."""
    X, y = panel
    options = {"values": "outcomes", "similarity": "covariance", "own": "linear", "random_state": 0}
    model = PeerAttentionRegressor(effects=("firm", "period"), prune=False, **options).fit(X, y)
    assert model.of_period_ == 0 and list(model.parts_) == ["covariance"]
    panel_, sections = model._gate_call(X, y)
    section = next(iter(sections))
    added = model.parts_["covariance"].additions([model._as_seen(section)])[0]
    expected = model.own_.predict(section.focal) + added
    np.testing.assert_allclose(model._outputs(section)[0], expected, atol=1e-12)


def test_curves_are_estimated_net_of_effects(panel):
    X, y = panel
    bent = y + 2 * np.abs(X["size"] - X["size"].mean())
    straight, curved = (
        PeerAttentionRegressor(effects=("firm",), own=own, n_heads=0, random_state=0).fit(
            before(X, 2008), before(bent, 2008)
        )
        for own in ("linear", "additive")
    )
    late = X.index.get_level_values("period") >= 2008
    assert curved.own_.curves is not None
    error = [((model.predict(X) - bent)[late] ** 2).mean() for model in (straight, curved)]
    assert error[1] < 0.8 * error[0]


def test_a_saved_model_keeps_its_effects(panel, tmp_path):
    X, y = panel
    model = PeerAttentionRegressor(values="outcomes", effects=("firm", "sic^period"), **OWN).fit(X, y)
    model.save(tmp_path / "m.model")
    np.testing.assert_array_equal(
        peerattn.load(tmp_path / "m.model").predict(X, outcomes=y), model.predict(X, outcomes=y)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"effects": ("firm", "period")}, "effects: 'period' is not known before the period is over"),
        ({"effects": ("sic×period",)}, "effects: 'sic×period' is not known before the period is over"),
        ({"effects": "firm"}, "effects must be a sequence of names, got 'firm'"),
        ({"effects": ("firm",), "own": "none"}, "effects=.*own='none' do not go together"),
        ({"effects": ("firm",), "loss": "huber"}, "effects are absorbed by least squares"),
        ({"effects": ("frm",)}, "'frm'"),
        (
            {"effects": ("sic×period", "firm×period"), "values": "outcomes"},
            "overlap within a period, where only the finest group",
        ),
    ],
)
def test_effects_that_cannot_be_are_refused(panel, options, message):
    with pytest.raises(InputError, match=message):
        PeerAttentionRegressor(**({"random_state": 0} | options)).fit(*panel)


def test_effects_need_a_panel_and_a_regression(panel):
    with pytest.raises(
        InputError, match="effects: they are those of firms and periods, which X does not carry"
    ):
        PeerAttentionRegressor(effects=("firm",)).fit(
            panel[0][["size", "lev"]].to_numpy(), panel[1].fillna(0).to_numpy()
        )
    with pytest.raises(InputError, match="effects are absorbed by least squares"):
        PeerAttentionClassifier(effects=("firm",)).fit(panel[0], (panel[1] > 0).astype(int))
