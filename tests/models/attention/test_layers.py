"""Networks of single layers of stacked attention."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from peerattn import PeerAttentionRegressor, simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import Prior
from peerattn.models.learners.batches import Batch, RowTensors
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec
from peerattn.network import rollout

# what is found is beside the point; heads of few steps would else enter by nothing
pytestmark = pytest.mark.usefixtures("fewest_steps", "heads_in_full")


@pytest.fixture(scope="module")
def stacked(plant):
    """Two starts of two heads of three layers, which enter by .3 and .5."""
    panel = simulate_panel(12, 5, 3, random_state=0)
    model = PeerAttentionRegressor(n_heads=1, own="linear", kappa=None, random_state=0).fit(panel.X, panel.y)
    return plant(model, 0.3, 0.5, n_layers=3, n_heads=2).set_params(n_layers=3), panel


def test_layers_are_networks_and_the_last_is_the_default(stacked):
    model, panel = stacked
    layers = [model.peer_network(panel.X, layer=k) for k in range(3)]
    assert layers[2].equals(model.peer_network(panel.X))
    for layer in layers:
        W = layer.matrix(panel.network.periods[0]).to_numpy()
        np.testing.assert_allclose(W.sum(1), 1)
        assert (np.diag(W) == 0).all()
    assert not np.allclose(layers[0].matrix("2000-01"), layers[1].matrix("2000-01"))


def weights_of(z, state, name, head, d=4):
    """Weights of one head of one layer by plain arithmetic: softmax of (q + b)'k / √d over the others and the null peer."""
    q = z @ state[f"{name}query"][head] + state[f"{name}offset"][head]
    scores = q @ (z @ state[f"{name}key"][head]).T / np.sqrt(d)
    scores[np.eye(len(z), dtype=bool)] = -np.inf
    scores = np.c_[scores, q @ state[f"{name}null_key"][head, 0] / np.sqrt(d)]
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return (weights / weights.sum(1, keepdims=True))[:, :-1]


def test_a_head_is_a_chain_of_layers(stacked):
    """x, then (x, B x), then (x, C (x, B x)); the last layer's heads add up, and members are averaged."""
    model, panel = stacked
    period = panel.network.periods[0]
    rows = panel.X.xs(period, level="period")
    x = ((rows.to_numpy() - model.design_.center) / model.design_.spread).clip(-4, 4)
    layers, added = [[], [], []], np.zeros(12)
    for member, weight in zip(model.members_, (0.3, 0.5), strict=True):
        for head in range(2):
            seen = x
            for k, name in enumerate(("before.0.", "before.1.", "")):
                W = weights_of(seen, member.state, name, head)
                layers[k].append(W * member.share[head] * weight)
                told, seen = W @ seen, np.hstack([x, W @ seen])
            added += weight * told @ member.state["value"][head, :, 0]
        added += weight * (x @ member.state["own_slope"][0, :, 0] + member.state["intercept"][0])
    for k in range(3):
        mine = model.peer_network(panel.X, layer=k).matrix(period).loc[rows.index, rows.index]
        expected = np.sum(layers[k], 0)
        np.testing.assert_allclose(mine, expected / expected.sum(1, keepdims=True), atol=1e-10)
    section = next(s for s in model._gate_call(panel.X, None)[1] if s.period == period)
    own = model.stack_.view.lines.predict(section.focal)[:, 0]
    expected = (own + added) * model.y_scale_ + model.y_center_
    predicted = pd.Series(model.predict(panel.X), panel.X.index).xs(period, level="period").loc[section.focal.label]
    np.testing.assert_allclose(predicted, expected, atol=1e-8)


def test_one_head_of_an_earlier_layer(stacked):
    model, panel = stacked
    first = model.peer_network(panel.X, layer=0, head=1).matrix("2000-01")
    rows = panel.X.xs(panel.network.periods[0], level="period")
    x = ((rows.to_numpy() - model.design_.center) / model.design_.spread).clip(-4, 4)
    expected = weights_of(x, model.members_[0].state, "before.0.", 1)
    found = first.loc[rows.index, rows.index]
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True), atol=1e-12)


def test_layers_multiply_to_a_rollout_and_keep_the_strongest(stacked):
    model, panel = stacked
    total = rollout([model.peer_network(panel.X, layer=k) for k in range(3)])
    np.testing.assert_allclose(total.matrix("2000-03").sum(axis=1), 1)
    few = model.peer_network(panel.X, layer=0, top_k=2)
    whole = model.peer_network(panel.X, layer=0)
    assert few.edges(top_k=2)["peer"].equals(whole.edges(top_k=2)["peer"])


def test_bad_layers_are_named(stacked):
    model, panel = stacked
    with pytest.raises(InputError, match="layer must be one of"):
        model.peer_network(panel.X, layer=np.zeros(2))
    with pytest.raises(InputError, match=r"layer must be one of \[None, 0, 1, 2\], got 3"):
        model.peer_network(panel.X, layer=3)
    with pytest.raises(
        InputError, match=r"part must be one of \[None, 'heads', 'covariance', 'ridge', 'heads, start 2'\], got 'trees'"
    ):
        model.peer_network(panel.X, part="trees")


@pytest.mark.parametrize("values", ["characteristics", "outcomes"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_heads_start_as_those_of_one_layer_and_learn_to_use_the_others(values, symmetric):
    spec = PeerSpec(3, n_heads=2, n_layers=2, values=values, symmetric=symmetric)
    module = PeerModule(spec, torch.Generator().manual_seed(0))
    x = torch.tensor(np.random.default_rng(0).normal(size=(1, 9, 3)))
    weights = torch.zeros(1, 9), torch.full((1, 9), -torch.inf), torch.ones(1, 9, dtype=torch.bool)
    no_codes = torch.zeros(1, 9, 0, dtype=torch.long)
    focal = RowTensors(x, no_codes, x[..., 0] ** 2, torch.arange(9)[None], *weights)
    batch = Batch(focal, focal, torch.ones(1, 9))
    before, _ = module(batch)
    with torch.no_grad():
        module.before[0].query.mul_(3.0)
    after, _ = module(batch)
    assert torch.equal(before, after)
    after.square().sum().backward()
    assert module.query.grad[:, spec.n_inputs :].abs().sum() > 0


def test_of_one_kept_layer_the_earlier_ones_are_empty_and_pass_everything_on():
    """Where the search kept one layer of two, the layers multiply to that one."""
    panel = simulate_panel(12, 4, 3, random_state=0)
    model = PeerAttentionRegressor(n_heads=1, kappa=None, random_state=0).fit(panel.X, panel.y)
    model.set_params(n_layers=2)
    first, last = (model.peer_network(panel.X, layer=k) for k in range(2))
    assert len(first.isolates) == len(panel.X) and not len(last.isolates)
    through = rollout([first, last], residual=0)
    np.testing.assert_allclose(through.matrix("2000-03"), last.matrix("2000-03"))


STACKED = {"n_heads": 1, "own": "linear", "kappa": None, "random_state": 0}


@pytest.fixture(scope="module")
def industries():
    return simulate_panel(15, 6, 3, n_industries=3, random_state=0)


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_every_layer_looks_within_the_industry_alone(industries, task, plant):
    """Moving another industry moves no prediction, and no layer's network leaves the industry."""
    X, y = industries.X, industries.y
    options = STACKED | {"task": task, "own": "none", "scale": None, "n_layers": 2}
    model = PeerAttentionRegressor(prior=Prior("industry", only=True), codes=["industry"], **options).fit(X, y)
    plant(model, n_layers=2, n_heads=2)
    told = {"outcomes": y} if task == "nowcast" else {}
    moved, first = X.copy(), X["industry"] == X["industry"].iloc[0]
    moved.loc[~first, ["x1", "x2", "x3"]] += 5.0
    before, after = model.predict(X, **told), model.predict(moved, **told)
    np.testing.assert_allclose(after[first], before[first], atol=1e-12)
    assert np.abs(after[~first] - before[~first]).max() > 1e-3
    codes = X["industry"].xs(industries.network.periods[0], level="period")
    for layer in (0, 1):
        W = model.peer_network(X, layer=layer, **told).matrix(industries.network.periods[0])
        other = codes.loc[W.index].to_numpy()[:, None] != codes.loc[W.columns].to_numpy()
        assert W.to_numpy()[other].max() == 0
        np.testing.assert_allclose(W.sum(axis=1), 1)


def test_earlier_layers_lean_on_a_soft_prior(industries, plant):
    model = PeerAttentionRegressor(prior="industry", codes=["industry"], n_layers=2, **STACKED)
    plant(model.fit(industries.X, industries.y), n_layers=2)
    period = industries.network.periods[0]
    codes = industries.X["industry"].xs(period, level="period")
    before = model.peer_network(industries.X, layer=0).matrix(period)
    same = codes.loc[before.index].to_numpy()[:, None] == codes.loc[before.columns].to_numpy()
    model.members_[0].state["before.0.prior_strength"] += 3.0
    after = model.peer_network(industries.X, layer=0).matrix(period)
    assert after.to_numpy()[same].sum() > before.to_numpy()[same].sum() + 1


@pytest.mark.parametrize("similarity", ["dot_product", "gaussian", "additive"])
def test_earlier_layers_have_the_similarity_and_tied_scores(similarity):
    spec = PeerSpec(3, n_heads=2, n_layers=3, similarity=similarity, symmetric=True, null_peer=False)
    module = PeerModule(spec, torch.Generator().manual_seed(0))
    x = torch.tensor(np.random.default_rng(0).normal(size=(1, 7, 3)))
    for layer in module.before:
        assert not hasattr(layer, "key") and (layer.combine is not None) == (similarity == "additive")
    q = (x[:, None] @ module.before[0].query)[0]
    pairs = q[:, :, None] - q[:, None], q[:, :, None] + q[:, None]
    scores = {
        "dot_product": (q @ q.mT),
        "gaussian": -0.5 * pairs[0].square().sum(-1),
        "additive": (pairs[1].tanh() @ module.before[0].combine[:, None, :, None])[..., 0] if similarity == "additive" else None,
    }[similarity]
    weights = torch.zeros(1, 7), torch.full((1, 7), -torch.inf), torch.ones(1, 7, dtype=torch.bool)
    rows = RowTensors(x, torch.zeros(1, 7, 0, dtype=torch.long), None, torch.arange(7)[None], *weights)
    expected = scores.masked_fill(torch.eye(7, dtype=torch.bool), -torch.inf).softmax(-1)
    torch.testing.assert_close(module.weights(Batch(rows, rows, torch.ones(1, 7)), n_layers=0)[0], expected)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_a_frequency_weight_is_the_row_repeated_in_every_layer(n_layers, plant):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(40, 3)), rng.integers(1, 4, 40)
    y, new = X[:, 0] + X[:, 1] ** 2, rng.normal(size=(5, 3))
    options = STACKED | {"own": "curves", "n_layers": n_layers}
    weighted = PeerAttentionRegressor(**options).fit(X, y, sample_weight=weight)
    repeated = PeerAttentionRegressor(**options).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    for model in (weighted, repeated):
        plant(model, n_layers=n_layers)
    np.testing.assert_allclose(weighted.predict(new), repeated.predict(new), atol=1e-10)
