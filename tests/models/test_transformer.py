"""PeerTransformerRegressor: what it selects, predicts and shows, its options, and its doors."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

from peerattn import PeerTransformerRegressor, StackedPeerRegressor, load
from peerattn.evaluation import head_importance, prune, pruning_curve
from peerattn.exceptions import InputError, IsolateWarning, SmallCrossSectionWarning
from peerattn.models import make_model

SMALL = {"d_model": 8, "max_steps": 4, "n_seeds": 2, "kappa": None, "random_state": 0}


def panel(n=10, T=10, seed=0, noise=0.3):
    """An outcome that is the absolute value of the other firms' mean characteristic, and an industry."""
    g = np.random.default_rng(seed)
    x = g.normal(size=(T, n, 2)) + g.normal(size=(T, 1, 2))
    others = (x[..., 0].sum(1, keepdims=True) - x[..., 0]) / (n - 1)
    index = pd.MultiIndex.from_product([range(2000, 2000 + T), [f"f{k:02d}" for k in range(n)]], names=["period", "firm"])
    X = pd.DataFrame(x.reshape(-1, 2), index=index, columns=["size", "leverage"])
    X["industry"] = pd.Categorical(np.tile(["a", "b"], T * n // 2))
    return X, pd.Series((np.abs(others) + noise * g.normal(size=(T, n))).ravel(), index=index, name="y")


@pytest.fixture(scope="module")
def data():
    return panel()


@pytest.fixture(scope="module")
def late(data):
    """The last four periods, where the others would only repeat what they show."""
    X, y = data
    kept = X.index.get_level_values("period") >= 2006
    return X[kept], y[kept]


@pytest.fixture(scope="module")
def deep(data):
    return PeerTransformerRegressor(n_layers=2, task="nowcast", **SMALL).fit(*data)


@pytest.fixture(scope="module")
def model(data):
    return PeerTransformerRegressor(**SMALL).fit(*data)


@pytest.mark.full_search
def test_peers_that_enter_as_an_absolute_value_are_selected_and_predict():
    X, y = panel(8, 110, noise=0.1)
    train = X.index.get_level_values("period") < 2090
    options = {"max_steps": 150, "random_state": 0}
    found = PeerTransformerRegressor(**options).fit(X[train], y[train])
    control = PeerTransformerRegressor(attention=False, **options).fit(X[train], y[train])
    assert found.evidence_.loc["peers", "factor"] > 0.3
    assert found.score(X[~train], y[~train]) > control.score(X[~train], y[~train]) + 0.15
    assert found.peer_network(X[~train]).isolates.empty
    assert len(control.peer_network(X).isolates) == len(X)


@pytest.mark.parametrize("options", [{"kappa": 1.0}, {"kappa": None}])
def test_without_attention_it_is_a_nonlinear_own_firm_model(options):
    """What it gains is no gain of peers; the network reads no other firm."""
    X, _ = panel(12, 20)
    X = X[["size", "leverage"]]
    y = X["size"] ** 2 + 0.1 * np.random.default_rng(0).normal(size=len(X))
    found = PeerTransformerRegressor(**{**SMALL, "max_steps": 60, **options}, attention=False).fit(X, y)
    assert found.evidence_.loc["nonlinear", "factor"] > 0.2 and found.evidence_.loc["peers", "factor"] == 0
    half = X.index.get_level_values("firm") < "f06"
    if options["kappa"] is None:  # else slopes within periods may be selected beside it
        np.testing.assert_allclose(found.predict(X[half]), found.predict(X)[half], atol=1e-9)


def test_an_own_estimator_is_weighed_on_held_out_periods(data):
    X, y = data
    with pytest.raises(InputError, match="own: an estimator is weighed"):
        PeerTransformerRegressor(**{**SMALL, "own": Ridge()}).fit(X, y)
    found = PeerTransformerRegressor(**{**SMALL, "own": Ridge(), "kappa": 1.0}).fit(X, y)
    assert found.evidence_.loc["nonlinear", "tested"]


def test_where_nothing_is_to_be_found_the_prediction_is_least_squares():
    X, _ = panel(10, 20)
    y = X["size"] + np.random.default_rng(1).normal(size=len(X))
    found = PeerTransformerRegressor(d_model=8, max_steps=20, random_state=0).fit(X, y)
    assert found.evidence_.loc["peers", "factor"] == 0
    assert found.heads_.empty and head_importance(found, X, y).empty
    assert len(found.peer_network(X).isolates) == len(X)
    assert found.evidence_.loc["peers", "tested"]


@pytest.mark.parametrize("options", [{}, {"n_layers": 2}, {"attention": False}, {"own": "none"}])
def test_forecasts_read_no_outcomes(data, options):
    X, y = data
    few = {**SMALL, "max_steps": 1, "n_seeds": 1, **options}  # to refuse outcomes needs no more
    few_periods = X.index.get_level_values("period") < 2004
    found = PeerTransformerRegressor(**few).fit(X[few_periods], y[few_periods])
    with pytest.raises(InputError, match="uses no outcomes"):
        found.predict(X, outcomes=y)


@pytest.mark.parametrize("options", [{}, {"n_layers": 2}, {"attention": False}, {"own": "none"}])
def test_nowcasts_never_read_the_own_outcome(request, data, options):
    X, y = data
    if options == {"n_layers": 2}:
        found = request.getfixturevalue("deep")
    else:
        found = PeerTransformerRegressor(task="nowcast", **{**SMALL, **options}).fit(X, y)
    X, y = X[:40], y[:40]  # four periods
    at = list(range(20, 30))
    before = found.predict(X, outcomes=y)
    for i in at[::3]:
        changed = y.copy()
        changed.iloc[i] += 5.0
        after = found.predict(X, outcomes=changed)
        assert after[i] == before[i]
        assert (after[:20] == before[:20]).all()
        assert (after[at] != before[at]).any() == (options.get("attention") is not False)
    with pytest.raises(InputError, match="pass outcomes="):
        found.predict(X)


def test_a_later_period_changes_no_earlier_prediction(data, deep):
    X, y = data
    early = X.index.get_level_values("period") < 2006
    later = X.assign(size=np.where(early, X["size"], 9.0)), y.where(early, -9.0)
    before = deep.predict(X, outcomes=y)[early]
    assert (deep.predict(later[0], outcomes=later[1])[early] == before).all()
    assert (deep.predict(X[early], outcomes=y[early]) == before).all()


def test_the_order_of_rows_changes_nothing_but_the_order(data, late, model, deep):
    X, y = data
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(model.predict(X.iloc[order]), model.predict(X)[order])
    refitted = PeerTransformerRegressor(**SMALL).fit(X.iloc[order], y.iloc[order])
    np.testing.assert_allclose(refitted.predict(X), model.predict(X), rtol=1e-5)
    X, y = late
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = deep.predict(X.iloc[order], outcomes=y.iloc[order])
    np.testing.assert_allclose(shuffled, deep.predict(X, outcomes=y)[order])


def test_networks_of_layers_and_heads(late, deep):
    X, y = late
    for options in ({}, {"layer": 0}, {"layer": 1}, {"head": 3}):
        network = deep.peer_network(X, outcomes=y, **options)
        W = network.matrix(2007).to_numpy()
        np.testing.assert_allclose(W.sum(1), 1)
        assert (np.diag(W) == 0).all() and (W >= 0).all()
    assert deep.peer_network(X, outcomes=y, top_k=3).edges().groupby(["period", "firm"]).size().eq(3).all()
    assert deep.heads_[["seed", "layer", "head"]].value_counts().eq(1).all() and len(deep.heads_) == 8
    with pytest.raises(InputError, match="layer must be one of"):
        deep.peer_network(X, outcomes=y, layer=2)
    with pytest.raises(InputError, match="head must be one of"):
        deep.peer_network(X, outcomes=y, head=8)
    with pytest.raises(InputError, match="head: expected one of layer 1"):
        deep.peer_network(X, outcomes=y, layer=1, head=0)


def test_rollout_multiplies_the_layers(late, deep):
    X, y = late
    A, B = (deep.peer_network(X, outcomes=y, layer=k).matrix(2008).to_numpy() for k in (0, 1))
    half = lambda W: (W + np.eye(len(W))) / 2  # noqa: E731
    np.testing.assert_allclose(deep.rollout(X, outcomes=y).matrix(2008).to_numpy(), half(B) @ half(A))
    np.testing.assert_allclose(deep.rollout(X, outcomes=y, residual=0).matrix(2008).to_numpy(), B @ A)


def test_importance_and_pruning_of_heads(late, deep):
    X, y = late
    importance = head_importance(deep, X, y, outcomes=y)
    assert importance.index.names == ["layer", "head"] and len(importance) == 8
    few = prune(deep, importance.nlargest(3).index)
    assert len(few.heads_) == 3
    assert np.isfinite(few.predict(X, outcomes=y)).all()
    W = few.peer_network(X, outcomes=y, head=0).matrix(2007).to_numpy()
    np.testing.assert_allclose(W.sum(1), 1)
    np.testing.assert_allclose(prune(deep, importance.index).predict(X, outcomes=y), deep.predict(X, outcomes=y))
    curve = pruning_curve(deep, importance, X, y)
    assert curve["heads"].tolist() == list(range(8, -1, -1))
    with pytest.raises(InputError, match="has no head"):
        prune(deep, [("0.blocks.7.attention", 0)])


def test_saving_and_cloning(data, late, deep, tmp_path):
    X, y = late
    deep.save(tmp_path / "a.model")
    again = load(tmp_path / "a.model")
    assert (again.predict(X, outcomes=y) == deep.predict(X, outcomes=y)).all()
    assert again.peer_network(X, outcomes=y).edges().equals(deep.peer_network(X, outcomes=y).edges())
    pruned = prune(deep, deep.heads_.index[:0])
    pruned.save(tmp_path / "b.model")
    assert (load(tmp_path / "b.model").predict(X, outcomes=y) == pruned.predict(X, outcomes=y)).all()
    assert clone(deep).get_params() == deep.get_params()
    again = clone(deep).fit(*data)
    assert (again.predict(X, outcomes=y) == deep.predict(X, outcomes=y)).all()


def test_a_firm_alone_gets_its_own_part(data, model):
    X, _ = data
    alone = X.iloc[[3]]
    with pytest.warns(SmallCrossSectionWarning), pytest.warns(IsolateWarning):
        (found,) = model.predict(alone)
    lines = model.stack_.view.lines.predict(model._gate_rows(alone)[1])[0, 0]
    assert found == pytest.approx(lines * model.y_scale_ + model.y_center_)


def test_cross_attention_reads_the_reference_alone(data):
    X, y = data
    firm = X.index.get_level_values("firm")
    few, others = firm < "f03", firm >= "f03"
    found = PeerTransformerRegressor(attention="cross", task="nowcast", n_layers=2, **SMALL)
    found.fit(X[few], y[few], reference=(X[others], y[others]))
    assert set(found.peer_network(X[few]).edges()["peer"]) == set(firm[others])
    before = found.predict(X[few])
    assert (found.predict(X[few], reference=(X[others], y[others])) == before).all()
    assert (found.predict(X[few], reference=(X[others], y[others] + 1)) != before).any()


def test_weights_of_rows_and_of_peers(data):
    X, y = data
    weight = np.where(X.index.get_level_values("firm") == "f01", 1e-9, 1.0)
    found = PeerTransformerRegressor(**SMALL).fit(X, y, peer_weight=weight, loss_weight=weight)
    W = found.peer_network(X, peer_weight=weight).matrix(2003)
    assert W["f01"].max() < 1e-6


@pytest.mark.parametrize("attention", ["self", False])
def test_the_sharpe_ratio_gives_portfolio_weights_and_compares_portfolios(data, attention):
    X, y = data
    found = PeerTransformerRegressor(loss="sharpe", attention=attention, **SMALL).fit(X, y)
    gross = pd.Series(found.predict(X), X.index).abs().groupby("period").sum()
    assert gross.mean() == pytest.approx(1)
    names = ["network without attention", "linear"]
    assert found.portfolio_.index.tolist() == (["transformer", *names] if attention else names)
    assert np.isfinite(found.portfolio_["sharpe"]).all()
    scaled = PeerTransformerRegressor(loss="sharpe", attention=attention, **SMALL).fit(X, 7 * y)
    np.testing.assert_allclose(scaled.predict(X), found.predict(X), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("loss", ["huber", "rank"])
def test_other_losses_predict_in_units_of_the_outcome(data, loss):
    X, y = data
    found = PeerTransformerRegressor(loss=loss, **{**SMALL, "max_steps": 15}).fit(X, 100 + 10 * y)
    predicted = found.predict(X)
    assert abs(predicted.mean() - (100 + 10 * y).mean()) < 3
    assert 0.1 < predicted.std() / (10 * y).std() < 1.5


def test_arrays_attend_to_the_training_rows():
    g = np.random.default_rng(0)
    X, y = g.normal(size=(60, 3)), g.normal(size=60)
    found = PeerTransformerRegressor(**SMALL).fit(X, y)
    assert found.predict(X[:5]) == pytest.approx(found.predict(X)[:5], abs=1e-9)
    once = {
        **SMALL,
        "max_steps": 1,
    }  # later steps of Adam follow the sign of gradients that are zero but for rounding
    weighed = PeerTransformerRegressor(**once).fit(X, y, sample_weight=np.full(60, 2.0))
    repeated = PeerTransformerRegressor(**once).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert weighed.predict(X) == pytest.approx(repeated.predict(X), abs=1e-5)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"attention": "crossed"}, "'attention' parameter"),
        ({"attention": True}, "'attention' parameter"),
        ({"attention": "cross"}, 'attention="cross" needs reference='),
        ({"loss": "absolute"}, "'loss' parameter"),
        ({"loss": "sharpe", "task": "nowcast"}, 'loss="sharpe" needs task="forecast"'),
        ({"n_heads": 3}, "n_heads: expected a divisor of d_model=32, got 3"),
        ({"n_layers": 0}, "n_layers"),
        ({"n_seeds": 0}, "n_seeds"),
        ({"max_steps": 0}, "max_steps"),
        ({"d_model": "wide"}, "d_model"),
        ({"kappa": -1.0}, "'kappa' parameter"),
        ({"precision": "half"}, "'precision' parameter .*'bfloat16'"),
        ({"codes": "industry"}, r"'codes' parameter .*Got 'industry' instead. Write"),
        ({"own": "trees"}, "'own' parameter"),
        ({"task": "nowcasts"}, "'task' parameter .*Near matches: 'nowcast'"),
    ],
)
def test_bad_options_are_named(data, options, message):
    with pytest.raises(InputError, match=message):
        PeerTransformerRegressor(**options).fit(*data)


def test_bad_input_is_named(data):
    X, y = data
    with pytest.raises(InputError, match="device='tpu' cannot be used"):
        PeerTransformerRegressor(**SMALL).fit(X, y, device="tpu")
    with pytest.raises(InputError, match="loss='rank' needs periods"):
        PeerTransformerRegressor(loss="rank").fit(np.ones((60, 2)), np.arange(60.0))


def test_a_progress_bar_where_it_is_wanted(data, capfd):
    PeerTransformerRegressor(verbose=True, **SMALL).fit(*data)
    assert "PeerTransformerRegressor" in capfd.readouterr().err


def test_it_has_a_name():
    assert repr(make_model("transformer", task="nowcast")) == "PeerTransformerRegressor(random_state=0, task='nowcast')"


def test_it_stands_in_the_stack_where_it_is_named():
    X, y = panel(8, 40, noise=0.2)
    transformer = PeerTransformerRegressor(d_model=8, max_steps=20)
    stack = StackedPeerRegressor(
        n_heads=0, own="linear", learners=[("network", transformer, "peers")], kappa=0.0, random_state=0
    ).fit(X, y)
    assert "network" in stack.evidence_.loc["peers", "selected"] or "network" in str(stack.evidence_.loc["peers"])
    assert np.isfinite(stack.predict(X)).all()


@pytest.mark.full_search
@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_a_nonlinear_own_shape_is_no_evidence_of_peers(task):
    """A second network makes the average of two better, so attention is tested beside the same network without it."""
    g = np.random.default_rng(3)
    x = g.normal(size=(30, 20, 2))
    index = pd.MultiIndex.from_product([range(2000, 2030), range(20)], names=["period", "firm"])
    X = pd.DataFrame(x.reshape(-1, 2), index, columns=["size", "leverage"])
    y = pd.Series((x[..., 0] ** 2 + 0.5 * g.normal(size=(30, 20))).ravel(), index)
    evidence = PeerTransformerRegressor(task=task, max_steps=150, random_state=0).fit(X, y).evidence_
    assert evidence.loc["nonlinear", "selected"].startswith("network without attention")
    assert evidence.loc["peers", "factor"] == 0
