"""Priors: a code or a given network, soft with a learned strength or as the only peers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import peerattn
from peerattn.datasets import simulate_panel
from peerattn.exceptions import InputError, IsolateWarning
from peerattn.models import Comovement, PeerAttentionClassifier, PeerAttentionRegressor, Prior, StackedPeerRegressor
from peerattn.models.attention.warm_start import WarmStart

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point

FAST = {"n_heads": 1, "kappa": None, "random_state": 0}


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(40, 20, 3, truth="industry", signal_share=0.8, n_industries=5, random_state=0)


def test_soft_prior_of_an_industry_truth_is_learned_to_be_positive(panel):
    """Beside the stack's test; in full heads give way to the industry's mean, which is the truth."""
    model = PeerAttentionRegressor(prior="industry", codes=["industry"], **FAST)
    learned = clone(model).set_params(kappa=1.0, own="linear").fit(panel.X, panel.y)
    assert learned.prior_strength_.columns.tolist() == ["seed", "head", "prior", "strength"]
    assert learned.prior_strength_["strength"].max() > 0.5
    in_full = model.fit(panel.X, panel.y)
    assert in_full.prior_strength_.empty
    W = in_full.peer_network(panel.X).matrix("2000-03")
    industry = panel.X["industry"].xs(panel.X.index.levels[1][2], level="period").loc[W.index].to_numpy()
    assert W.to_numpy()[industry[:, None] != industry].max() == 0


def test_refits_keep_to_the_relation_that_heads_gave_way_to(panel):
    """In full industry peers take the place of heads: these are imposed, where the prior was added to the scores."""
    model = PeerAttentionRegressor(prior="industry", codes=["industry"], **FAST).fit(panel.X, panel.y)
    [relation] = WarmStart(model, panel.X, panel.y).sample.terms.priors
    assert relation.only and not model.pair_terms_.priors[0].only


def test_only_looks_to_the_same_code(panel):
    model = PeerAttentionRegressor(prior="only", codes=["industry"], **FAST).fit(panel.X, panel.y)
    W = model.peer_network(panel.X).matrix("2000-03")
    industry = panel.X["industry"].xs(model.peer_network(panel.X).periods[2], level="period").loc[W.index].to_numpy()
    same = industry[:, None] == industry[None, :]
    assert W.to_numpy()[~same].max() == 0
    np.testing.assert_allclose(W.sum(axis=1), 1.0)


def test_firms_of_one_new_industry_are_peers_and_stand_apart_from_other_new_ones(panel):
    """A level without training rows has no embedding; the relation needs none."""
    model = PeerAttentionRegressor(prior="only", codes=["industry"], **FAST).fit(panel.X, panel.y)
    X = panel.X.xs(panel.X.index.levels[1][0], level="period", drop_level=False).copy()
    X["industry"] = ["fintech"] * 3 + ["biotech"] * 2 + X["industry"].astype(str).tolist()[5:]
    firms = X.index.get_level_values("firm")
    W = model.peer_network(X).matrix(X.index[0][1]).loc[firms, firms].to_numpy()
    np.testing.assert_allclose(W[:3, :3].sum(axis=1), 1.0)
    np.testing.assert_allclose(W[3:5, 3:5].sum(axis=1), 1.0)
    # each call by itself gives new levels the same numbers
    codes = [model.design_.integers(peerattn.panel.as_panel(each, codes=["industry"])) for each in (X, X.iloc[3:6])]
    assert (codes[0][3:6] == codes[1]).all() and codes[0][0] != codes[0][3]


def test_a_firm_alone_in_its_code_is_an_isolate(panel):
    X = panel.X.copy()
    lonely = X.index.get_level_values("firm") == X.index.get_level_values("firm")[0]
    X["industry"] = X["industry"].astype(object).where(~lonely, "alone").astype("str")
    model = PeerAttentionRegressor(prior="only", codes=["industry"], **FAST).fit(X, panel.y)
    with pytest.warns(IsolateWarning, match="no admissible peer"):
        predicted = model.predict(X)
    assert np.isfinite(predicted).all()
    assert set(model.peer_network(X).isolates["firm"]) == {X.index.get_level_values("firm")[0]}


def test_given_network_restricts_or_leans(panel):
    X = panel.X.drop(columns="industry")
    only = PeerAttentionRegressor(prior=Prior(panel.network, only=True), **FAST).fit(X, panel.y)
    W, truth = only.peer_network(X).matrix("2000-02"), panel.network.matrix("2000-02")
    assert W.to_numpy()[truth.loc[W.index, W.columns].to_numpy() == 0].max() == 0
    soft = PeerAttentionRegressor(prior=panel.network, **FAST).fit(X, panel.y)
    W = soft.peer_network(X).matrix("2000-02")
    assert W.to_numpy()[truth.loc[W.index, W.columns].to_numpy() == 0].max() == 0, "heads of three steps give way to it"


@pytest.mark.parametrize(
    "prior, message",
    [
        ("secotr", "expected a code column of X .codes: .*got 'secotr'.*Declare it in codes="),
        ("only", "expected one code in X .*Name it"),
        (Prior(Comovement(), exclude=True), r"expected a code column in Prior\(..., exclude=True\), got Comovement"),
        (Prior({"A": 1.0}), "expected a code column, a PeerNetwork or Comovement\\(\\), got dict"),
    ],
)
def test_bad_priors_are_refused(panel, prior, message):
    with pytest.raises(InputError, match=message):
        PeerAttentionRegressor(prior=prior, **FAST).fit(panel.X.drop(columns="industry"), panel.y)


def test_firms_of_an_excluded_group_are_never_peers(panel):
    """Share classes of one company: the group widens the own identity, of outcomes, too."""
    X, y = panel.X, panel.y
    model = PeerAttentionRegressor(prior=Prior("industry", exclude=True), task="nowcast", own="linear", **FAST)
    network = model.fit(X, y).peer_network(X, outcomes=y)
    W = network.matrix(network.periods[2])
    industry = X["industry"].xs(network.periods[2], level="period").loc[W.index].to_numpy()
    assert not W.to_numpy()[industry[:, None] == industry].any() and W.to_numpy().any()
    first = X["industry"] == X["industry"].iloc[0]
    moved = model.predict(X, outcomes=y + 5.0 * first)
    np.testing.assert_allclose(moved[first], model.predict(X, outcomes=y)[first], atol=1e-10)


@pytest.fixture(scope="module")
def pairs():
    """Twenty firms, each of which moves with one other for a reason that no characteristic shows."""
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([[f"F{k:02d}" for k in range(20)], range(2000, 2040)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(800, 2)), index, ["size", "leverage"])
    common = np.repeat(rng.normal(size=(10, 40)), 2, axis=0).ravel()
    return X, pd.Series(X["size"] + common + 0.4 * rng.normal(size=800), index)


MOVED = {"prior": [Comovement(6), Comovement(30)], "task": "nowcast", **FAST}


def test_heads_attend_to_firms_that_moved_together(pairs, train_heads):
    train_heads(3, 60)
    X, y = pairs
    past = X.index.get_level_values("period") < 2030
    model = PeerAttentionRegressor(**{**MOVED, "kappa": 1.0}).fit(X[past], y[past])
    W = model.peer_network(X, outcomes=y).matrix(2035)
    partner = np.arange(20) ^ 1
    assert W.to_numpy()[np.arange(20), partner].mean() > 0.9
    assert model.prior_strength_.groupby("prior")["strength"].mean()["co-movement over 30 periods"] > 0.3

    def error(fitted):
        return np.mean((y[~past] - fitted.predict(X[~past], outcomes=y[~past])) ** 2)

    without = PeerAttentionRegressor(**{**MOVED, "n_heads": 0}).fit(X[past], y[past])
    assert error(model) < 0.4 * error(without)


def test_comovement_is_the_cosine_of_past_residuals_in_standard_errors(pairs):
    X, y = pairs
    model = PeerAttentionRegressor(**MOVED).fit(X, y)
    _, sections = model._gate_call(X, y)
    section = list(sections)[20]
    found = model.pair_terms_.prior(section, slice(0, 5))
    slopes = np.linalg.lstsq(np.column_stack([X, np.ones(800)]), y, rcond=None)[0]
    residual = (y - X @ slopes[:2] - slopes[2]).unstack("period")
    z = ((residual - residual.mean()) / residual.std(ddof=0)).clip(-4, 4)
    for k, window in enumerate((6, 30)):
        before = z.loc[:, :2019].to_numpy()[:, -window:]
        length = np.sqrt(np.maximum((before**2).sum(axis=1), 6))
        expected = np.sqrt(window) * before @ before.T / np.outer(length, length)
        np.testing.assert_allclose(found[..., k], expected[:5], atol=1e-2)


def test_comovement_uses_no_outcome_of_the_period_or_later_ones(pairs):
    X, y = pairs
    period = X.index.get_level_values("period")
    firm = X.index.get_level_values("firm")
    model = PeerAttentionRegressor(**MOVED).fit(X[period < 2020], y[period < 2020])
    usual = model.peer_network(X[period >= 2020], outcomes=y[period >= 2020])
    predicted = model.predict(X, outcomes=y)
    later = y + 9.0 * np.random.default_rng(1).normal(size=len(y)) * (period >= 2030)
    moved = model.peer_network(X[period >= 2020], outcomes=later[period >= 2020])
    for year in (2020, 2030):
        pd.testing.assert_frame_equal(usual.matrix(year), moved.matrix(year))
    assert not np.allclose(usual.matrix(2035), moved.matrix(2035))
    np.testing.assert_array_equal(model.predict(X, outcomes=later)[period < 2030], predicted[period < 2030])
    own = (period == 2030) & (firm == "F03")
    changed = model.predict(X, outcomes=y + 5.0 * own)
    np.testing.assert_array_equal(changed[own], predicted[own])
    assert (changed != predicted)[period == 2030].any()


def test_comovement_is_saved_and_read_period_by_period(pairs, tmp_path):
    X, y = pairs
    recent = X.index.get_level_values("period") >= 2030
    model = PeerAttentionRegressor(**MOVED).fit(X[~recent], y[~recent])
    expected = model.predict(X[recent], outcomes=y[recent])
    model.save(tmp_path / "model")
    again = peerattn.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X[recent], outcomes=y[recent]), expected)
    frames = (X[recent].assign(y=y[recent])[X.index[recent].get_level_values("period") == t] for t in range(2030, 2040))
    parts = model.predict(frames, outcomes="y")
    by_period = X.index[recent].get_level_values("period").argsort(kind="stable")
    np.testing.assert_allclose(parts, expected[by_period], rtol=1e-12)


def test_comovement_in_a_forecast_knows_training_alone(pairs):
    X, y = pairs
    past = X.index.get_level_values("period") < 2030
    network = PeerAttentionRegressor(prior=Comovement(), **FAST).fit(X[past], y[past]).peer_network(X[~past])
    assert network.periods.size == 10


@pytest.mark.parametrize("window", [0, 97, 1.5, "12", None])
def test_bad_windows_are_an_error(window):
    with pytest.raises(InputError, match="window: expected a whole number of periods from 1 to 96"):
        Comovement(window)


def test_comovement_needs_a_panel(pairs):
    X, y = pairs
    for model in (PeerAttentionRegressor(**MOVED), StackedPeerRegressor(task="nowcast", prior=Comovement())):
        with pytest.raises(InputError, match=r"Comovement\(\) uses past outcomes"):
            model.fit(X.to_numpy(), y.to_numpy())
    three = PeerAttentionClassifier(**MOVED)
    with pytest.raises(InputError, match="at most two classes"):
        three.fit(X, pd.Series(np.digitize(y, [-1, 1]), y.index))
    cross = PeerAttentionRegressor(attention="cross", **MOVED)
    with pytest.raises(InputError, match=r"Comovement\(\) uses past outcomes"):
        cross.fit(X, y, reference=(X, y))


def test_a_relation_cannot_be_imposed_and_excluded():
    with pytest.raises(InputError, match="Prior: expected only=True or exclude=True, got both"):
        Prior("industry", only=True, exclude=True)
