"""The stack: the one equation, shares of firms without a past, and no leak with every group entering."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from peerattn import PeerAttentionRegressor, StackedPeerRegressor, simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import contributions
from peerattn.models.stacking import candidates
from peerattn.models.stacking.evidence import STEPS
from peerattn.models.stacking.weights import Column, Scope, Stage

FIRMS, PERIODS = 30, 9
GROUPS = ["nonlinear", "history", "common", "peers"]


def data(seed=0):
    """Own lines, an interaction, firm effects, shocks of periods and of industries, and a shared price of a characteristic."""
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([[f"F{i:02d}" for i in range(FIRMS)], range(PERIODS)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(len(index), 2)), index=index, columns=["size", "lev"])
    X["sic"] = pd.Categorical(rng.choice(list("abc"), size=len(X)))
    firm, t = index.get_level_values(0), index.get_level_values(1)
    lasting = pd.Series(rng.normal(size=FIRMS), firm.unique()).loc[firm].to_numpy()
    price, shock = rng.normal(size=PERIODS)[t], rng.normal(size=PERIODS)[t]
    y = X["size"] + X["size"] * X["lev"] + lasting + shock + 1.5 * price * X["lev"] + 0.3 * rng.normal(size=len(X))
    return X, pd.Series(y, index)


def entering(model, weights):
    """Let parts enter by given weights: what is tested holds whatever the weights are."""
    stack = model.stack_
    for group, given in weights.items():
        stack.stages[group] = staged(given)
    return model


def staged(weights):
    """Weights by the name of a candidate of one prediction."""
    return Stage({Column(name): w for name, w in weights.items()}, float("nan"), 0.0)


@pytest.fixture(scope="module")
def everything():
    """An explanation in which every group enters; what did not by itself is refitted on all periods and given a weight."""
    X, y = data()
    model = StackedPeerRegressor(task="nowcast", n_heads=1, kappa=0.0, random_state=0).fit(X, y)
    return model, X, y


def test_the_prediction_is_the_equation(everything):
    """Group after group, B + Σ w (P − B); what is common is added as it is, and slopes within periods in two ways.

    What is common is of the residuals of observed outcomes from own models.
    """
    model, X, y = everything
    stack = model.stack_
    assert {name for name in GROUPS if stack.stages[name].selected()} == set(GROUPS)
    sections = list(model._gate_call(X, y)[1])
    k = 6
    seen = model._as_seen(replace(sections[k], focal=replace(sections[k].focal, y=None)))
    ols = stack.view.lines.predict(seen.focal)
    steps, told = [ols], seen

    def difference(group, name, of):
        part, base = stack.fitted[name], steps[-1]
        if name == "slopes":
            found = part.predict([seen])[0] - {Scope.WITHIN: base, Scope.ADDED: ols}[of]
            return found - found.mean(axis=0)
        if group == "common":
            return part.predict([told])[0]
        return part.predict([seen])[0] - base

    for group in GROUPS:
        if group == "common":  # of all firms as peers, less the stack so far
            known = pd.Series(steps[-1][:, 0] - seen.own[0][:, 0], seen.focal.label)
            told = replace(seen, peers=replace(seen.peers, y=seen.peers.y - known[seen.peers.label].to_numpy()))
            np.testing.assert_allclose(stack.left([seen])[0].peers.y, told.peers.y, atol=1e-10)
        stage = stack.stages[group]
        steps.append(steps[-1] + sum(stage.weights[c] * difference(group, c.candidate, c.scope) for c in stage.selected()))
    every = pd.Series(model.predict(X, outcomes=y), X.index)
    predicted = every.xs(sections[k].period, level="period").loc[seen.focal.label]
    np.testing.assert_allclose(predicted, steps[-1][:, 0] * model.y_scale_ + model.y_center_, atol=1e-10)


def test_contributions_are_not_negative(everything):
    model, X, y = everything
    assert (contributions(model, X, outcomes=y).matrix(PERIODS - 1).to_numpy() >= 0).all()


def test_evidence_and_steps_say_what_entered(everything):
    model, X, y = everything
    evidence, steps = model.evidence_, model.explain_gain()
    assert list(evidence.index) == GROUPS and list(steps.index) == ["own characteristics", *GROUPS]
    assert {"factor", "t", "loss_reduction", "periods", "tested", "reason", "selected"} <= set(evidence.columns)
    assert evidence["tested"].all() and (evidence["reason"].drop("peers") == "").all()
    for group, stage in model.stack_.stages.items():
        assert evidence.loc[group, "factor"] == pytest.approx(max(stage.sums().values()))
        assert 0 <= evidence.loc[group, "factor"] <= 1 + 1e-6
    np.testing.assert_allclose(steps["r2"], steps["gain"].cumsum())
    assert (steps["gain"][1:] > 0).all(), "without a penalty no group makes the held-out loss larger"


def test_steps_are_the_stack_group_by_group_and_end_in_the_prediction(everything):
    model, X, y = everything
    shuffled = X.sample(frac=1, random_state=0)
    steps = model.predict_steps(shuffled, outcomes=y.loc[shuffled.index])
    assert list(steps) == list(STEPS) and steps.index.equals(shuffled.index)
    np.testing.assert_array_equal(steps["peers"], model.predict(shuffled, outcomes=y.loc[shuffled.index]))
    seen = [model._as_seen(s) for s in model._gate_call(X, y)[1]]
    ols = np.concatenate([s.own[0][:, 0] for s in seen]) * model.y_scale_ + model.y_center_
    labels = [(firm, s.period) for s in seen for firm in s.focal.label]
    np.testing.assert_allclose(steps[STEPS[0]].loc[labels], ols, atol=1e-10)
    assert all((steps[one] != steps[other]).any() for one, other in pairwise(STEPS)), "every group has a weight here"


def test_a_group_without_weight_leaves_the_prediction_as_it_is():
    """A stack of noise, heads that were not selected, and heads in full: the last but one column has no peers."""
    panel = simulate_panel(12, 10, 2, random_state=0)
    noise = pd.Series(np.random.default_rng(1).normal(size=120), panel.X.index)
    heads = {"n_heads": 1, "random_state": 0}
    for model in (StackedPeerRegressor(**heads), PeerAttentionRegressor(**heads), PeerAttentionRegressor(kappa=None, **heads)):
        steps = model.fit(panel.X, noise).predict_steps(panel.X)
        np.testing.assert_array_equal(steps["peers"], model.predict(panel.X))
        for before, after, group in zip(STEPS, STEPS[1:], GROUPS, strict=False):
            selected = bool(model.stack_.stages[group].selected())
            assert selected or (steps[before] == steps[after]).all(), (model, group)
    arrays = PeerAttentionRegressor(loss="huber", **heads).fit(panel.X.to_numpy(), noise.to_numpy())
    steps = arrays.predict_steps(panel.X.to_numpy())
    np.testing.assert_array_equal(steps["peers"], arrays.predict(panel.X.to_numpy()))
    assert steps.index.equals(pd.RangeIndex(120))
    with pytest.raises(InputError, match="X: expected rows in memory"):
        arrays.predict_steps(iter([panel.X]))


def test_no_prediction_reads_its_own_outcome(everything):
    """∂ŷ_i/∂y_i = 0 with every group entering; others' outcomes of the period count, and earlier ones of the firm."""
    model, X, y = everything
    before = model.predict(X, outcomes=y)
    for firm in ("F03", "F21"):
        moved = y.copy()
        moved[(firm, 5)] += 0.25
        move = pd.Series(model.predict(X, outcomes=moved) - before, X.index)
        period = X.index.get_level_values("period")
        assert abs(move[(firm, 5)]) < 1e-10
        others = move[(period == 5) & (X.index.get_level_values("firm") != firm)]
        assert others.abs().max() > 1e-4
        assert move[period < 5].abs().max() == 0


def test_what_is_missing_from_the_end_of_a_call_changes_nothing_before(everything):
    model, X, y = everything
    early = X.index.get_level_values("period") < 5
    whole = model.predict(X, outcomes=y)[early]
    np.testing.assert_allclose(model.predict(X[early], outcomes=y[early]), whole, atol=1e-12)


def test_rows_in_another_order_give_the_same_predictions(everything):
    model, X, y = everything
    shuffled = X.sample(frac=1, random_state=1)
    found = pd.Series(model.predict(shuffled, outcomes=y[shuffled.index]), shuffled.index)
    np.testing.assert_allclose(found[X.index], model.predict(X, outcomes=y), atol=1e-9)


def test_a_fit_on_rows_in_another_order_is_the_same():
    panel = simulate_panel(20, 8, 2, random_state=0)
    order = panel.X.sample(frac=1, random_state=0).index
    models = [
        StackedPeerRegressor(n_heads=1, own="linear", random_state=0).fit(panel.X.loc[at], panel.y[at])
        for at in (panel.X.index, order)
    ]
    np.testing.assert_allclose(*(m.predict(panel.X) for m in models), atol=1e-8)


def test_forecasts_of_a_period_read_nothing_later():
    """Of a model fitted before it; and a fit on rows up to an origin knows nothing of the later rows."""
    X, y = data()
    past = X.index.get_level_values("period") < 6
    model = StackedPeerRegressor(n_heads=1, own="linear", kappa=0.0, random_state=0).fit(X[past], y[past])
    assert model.stack_.stages["history"].weights and any(model.stack_.stages["history"].weights.values())
    now = X.index.get_level_values("period") == 6
    later = X.copy()
    later.loc[X.index.get_level_values("period") > 6, ["size", "lev"]] += 100.0
    np.testing.assert_array_equal(model.predict(X[~past])[now[~past]], model.predict(later[~past])[now[~past]])
    unknown = y.where(past)
    again = StackedPeerRegressor(n_heads=1, own="linear", kappa=0.0, random_state=0).fit(X, unknown)
    own = [m.stack_.view.lines.predict(next(iter(m._gate_call(X[past], None)[1])).focal) for m in (model, again)]
    np.testing.assert_allclose(*own, atol=1e-10)
    np.testing.assert_allclose(again.stack_.view.history.table, model.stack_.view.history.table, atol=1e-10)


def test_purged_outcomes_are_not_read():
    """With purge = 2 the outcomes of the last two periods before one change no explanation of it by the firm's own past."""
    X, y = data()
    model = StackedPeerRegressor(task="nowcast", n_heads=0, own="linear", purge=2, kappa=0.0, random_state=0).fit(X, y)
    entering(model, {"common": {}})
    assert any(model.stack_.stages["history"].weights.values())
    period = X.index.get_level_values("period")
    call = X[period >= 6].rename(index=lambda t: t + 10, level="period")  # not in the history of training
    told = y[period >= 6].rename(index=lambda t: t + 10, level="period")
    before = model.predict(call, outcomes=told)
    moved = told.copy()
    at = call.index.get_level_values("period")
    moved[at == 16] += 1.0
    move = np.abs(model.predict(call, outcomes=moved) - before)
    assert move[at <= 18].max() == 0.0
    free = model.set_params(purge=0)
    np.testing.assert_array_equal(free.predict(call, outcomes=told), before, "the purge is of the fit")


def test_peers_read_no_purged_outcomes_either():
    """The covariance of firms' past does not read the last two periods' outcomes; that of the third before, it does."""
    X, y = data()
    model = StackedPeerRegressor(task="nowcast", n_heads=1, own="linear", purge=2, kappa=0.0, random_state=0).fit(X, y)
    assert "covariance" in model.stack_.fitted
    entering(model, {"nonlinear": {}, "history": {}, "common": {}, "peers": {"covariance": 1.0}})
    call, told = (
        z[z.index.get_level_values("period") >= PERIODS - 4].rename(index=lambda t: t + 10, level="period") for z in (X, y)
    )
    before, moved = model.predict(call, outcomes=told), told.copy()
    moved[call.index.get_level_values("period") == PERIODS + 6] += np.random.default_rng(0).normal(
        size=(call.index.get_level_values("period") == PERIODS + 6).sum()
    )
    move = pd.Series(model.predict(call, outcomes=moved) - before, call.index).abs().groupby("period").max()
    assert list(move > 0) == [True, False, False, True]


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
@pytest.mark.parametrize(
    ("firm", "period", "match"),
    [
        (str, int, "firms of X are text, those of fit numbers"),
        (
            int,
            str,
            r"periods of X such as '20\d\d' .text written as 9999. cannot be compared with those of fit, such as 20\d\d .years.",
        ),
        (int, lambda t: 100 * t + 12, r"periods of X such as 20\d\d12 .yyyymm."),
    ],
)
def test_a_past_under_labels_of_another_type_is_refused(task, firm, period, match):
    panel = simulate_panel(40, 10, 2, random_state=0)
    firms, periods = (panel.X.index.get_level_values(level).factorize()[0] for level in ("firm", "period"))
    labels = [firms, periods + 2000]
    index = pd.MultiIndex.from_arrays(labels, names=["firm", "period"])
    X, effect = panel.X.set_axis(index), 3 * np.random.default_rng(0).normal(size=40)
    y = pd.Series(panel.y.to_numpy() + effect[labels[0]], index)
    model = StackedPeerRegressor(task=task, n_heads=0, own="linear", random_state=0).fit(X, y)
    assert model.stack_.stages["history"].selected()
    other = pd.MultiIndex.from_tuples([(firm(i), period(t)) for i, t in index], names=["firm", "period"])
    shown = {"outcomes": y.set_axis(other)} if task == "nowcast" else {}
    with pytest.raises(InputError, match=match):
        model.predict(X.set_axis(other), **shown)


def test_a_firm_without_a_past_gets_the_stack_that_was_weighed_without_history():
    """By hand, beside firms with a past in the same period."""
    X, y = data()
    model = StackedPeerRegressor(task="nowcast", n_heads=1, own="linear", kappa=0.0, random_state=0).fit(X, y)
    effect = model.stack_.stages["history"].selected()[0].candidate
    peers = model.stack_.stages["peers"].selected()[0].candidate
    entering(model, {"history": {effect: 0.6}, "common": {}, "peers": {peers: 0.5}, "nonlinear": {}})
    assert not model.stack_.without_history.stages["history"].weights
    for group, given in {"nonlinear": {}, "history": {}, "common": {}, "peers": {peers: 0.8}}.items():
        model.stack_.without_history.stages[group] = staged(given)
    last = X.index.get_level_values("period") == PERIODS - 1
    call, told = X[last], y[last]
    new = call.rename(index={"F04": "unseen"}, level="firm")
    shown = told.rename(index={"F04": "unseen"}, level="firm")
    (section,) = model._gate_call(new, shown)[1]
    seen = model._as_seen(replace(section, focal=replace(section.focal, y=None)))
    base = model.stack_.view.lines.predict(seen.focal)[:, 0]
    parts = {name: model.stack_.fitted[name].predict([seen])[0][:, 0] for name in (effect, peers)}
    k = list(section.focal.label).index("unseen")
    assert np.isnan(parts[effect][k]) and np.isfinite(np.delete(parts[effect], k)).all()
    own = base + 0.6 * np.nan_to_num(parts[effect] - base)
    expected = 0.5 * parts[peers] + 0.5 * own
    expected[k] = 0.8 * parts[peers][k] + 0.2 * base[k]
    found = (model.predict(new, outcomes=shown) - model.y_center_) / model.y_scale_
    found = pd.Series(found, new.index.get_level_values("firm"))
    np.testing.assert_allclose(found[section.focal.label], expected, atol=1e-10)


def test_without_a_kappa_heads_are_used_in_full_and_untested():
    panel = simulate_panel(15, 6, 2, random_state=0)
    model = PeerAttentionRegressor(n_heads=1, own="linear", kappa=None, random_state=0).fit(panel.X, panel.y)
    assert set(model.stack_.fitted) == {"heads"}
    assert not model.evidence_["tested"].any() and len(model.explain_gain()) == 0
    heads = model.stack_.fitted["heads"]
    # they have found their weight by themselves
    assert 0 < model.stack_.weight("heads") == heads.size <= 1
    sections = [model._as_seen(replace(s, focal=replace(s.focal, y=None))) for s in model._gate_call(panel.X, None)[1]]
    expected = []
    for section, predicted in zip(sections, heads.predict(sections), strict=True):
        added = predicted - section.own_term
        # what they add to the mean of a period has a weight of its own
        expected.append(section.own_term + heads.size * (added - (1 - heads.mean_factor) * added.mean(0)))
    expected = np.concatenate(expected)[:, 0] * model.y_scale_ + model.y_center_
    labels = [(firm, s.period) for s in sections for firm in s.focal.label]
    found = pd.Series(model.predict(panel.X), panel.X.index)
    np.testing.assert_allclose(found.loc[labels], expected, atol=1e-12)
    with pytest.raises(InputError, match="'kappa' parameter .*Got 'none'"):
        model.set_params(kappa="none").fit(panel.X, panel.y)


def test_what_cannot_be_judged_says_why_and_is_not_trained(monkeypatch):
    few = simulate_panel(4, 6, 2, random_state=0)
    model = StackedPeerRegressor(n_heads=1, random_state=0).fit(few.X, few.y)
    assert not model.evidence_["tested"].any()
    assert model.evidence_.loc["peers", "reason"].startswith("too few known outcomes")
    assert model.evidence_.loc["common", "reason"] == model.evidence_.loc["peers", "reason"]
    two = simulate_panel(60, 2, 2, random_state=0)
    monkeypatch.setattr(candidates, "HeadsLearner", None)
    model = StackedPeerRegressor(n_heads=1, own="linear", random_state=0).fit(two.X, two.y)
    peers = model.evidence_.loc["peers"]
    assert not peers["tested"] and peers["factor"] == 0
    assert peers["reason"].startswith("held-out periods count as 1.0 of equal size")
    assert model.evidence_.loc["history", "tested"], "the rest is tested"


def test_networks_of_parts_and_of_the_whole(everything):
    """The whole prediction's weights are its derivative by the outcomes of peers, part by part and by their weights."""
    model, X, y = everything
    period = X.index.get_level_values("period") == PERIODS - 1
    call, told = X[period], y[period]
    names = [n for n in ("covariance", "ridge") if n in model.stack_.fitted]
    names += ["heads"] if model.stack_.heads().members else []
    assert set(names) & {"covariance", "ridge"}
    parts = {n: model.peer_network(call, outcomes=told, part=n).matrix(PERIODS - 1).to_numpy() for n in names}
    whole = model.peer_network(call, outcomes=told).matrix(PERIODS - 1).to_numpy()
    signed = [n for n in names if n != "heads"]
    assert all((parts[n] < 0).any() for n in signed)
    if "heads" in parts:
        assert (parts["heads"] >= 0).all()
        np.testing.assert_allclose(parts["heads"].sum(1), 1)
    else:
        assert not model.peer_network(call, outcomes=told, part="heads").matrix(PERIODS - 1).to_numpy().any()
        np.testing.assert_allclose(whole, sum(model.stack_.weight(n) * parts[n] for n in signed), atol=1e-10)
    zero = {group: {} for group in ("nonlinear", "history", "common")}
    stages = dict(model.stack_.stages)
    try:
        entering(model, zero)
        before, moved = model.predict(call, outcomes=told), told.copy()
        moved.iloc[3] += 0.1
        np.testing.assert_allclose((model.predict(call, outcomes=moved) - before) / 0.1, whole[:, 3], atol=1e-7)
    finally:
        model.stack_.stages.update(stages)
    with pytest.raises(InputError, match="part must be one of .*'heads', 'covariance', 'ridge'.*got 'trees'"):
        model.peer_network(call, outcomes=told, part="trees")
    with pytest.raises(InputError, match="part: expected .heads., to which head= and layer= belong, got 'ridge'"):
        model.peer_network(call, outcomes=told, part="ridge", layer=0)


def test_a_part_that_did_not_enter_has_an_empty_network():
    panel = simulate_panel(15, 6, 2, random_state=0)
    model = PeerAttentionRegressor(task="nowcast", n_heads=1, kappa=None, random_state=0).fit(panel.X, panel.y)
    for part in ("covariance", "ridge"):
        network = model.peer_network(panel.X, outcomes=panel.y, part=part)
        assert len(network.isolates) == len(panel.X)
    heads = model.peer_network(panel.X, outcomes=panel.y, part="heads")
    assert heads.equals(model.peer_network(panel.X, outcomes=panel.y))
