"""Networks of single layers of stacked attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from peerattn import PeerAttentionRegressor, Prior, simulate_panel
from peerattn.exceptions import InputError
from peerattn.models.attention.peer_module import PeerModule, PeerSpec, RowTensors
from peerattn.network import rollout


@pytest.fixture(scope="module")
def stacked():
    panel = simulate_panel(12, 10, 3, random_state=0)
    options = {
        "n_layers": 3,
        "n_heads": 2,
        "n_ensemble": 2,
        "max_steps": 5,
        "prune": False,
        "random_state": 0,
    }
    return PeerAttentionRegressor(**options).fit(panel.X, panel.y), panel


def test_layers_are_networks_and_the_last_is_the_default(stacked):
    model, panel = stacked
    layers = [model.peer_network(panel.X, layer=k) for k in range(3)]
    assert layers[2].equals(model.peer_network(panel.X))
    for layer in layers:
        W = layer.matrix(panel.network.periods[0]).to_numpy()
        np.testing.assert_allclose(W.sum(1), 1)
        assert (np.diag(W) == 0).all()
    assert not np.allclose(layers[0].matrix("2000-01"), layers[1].matrix("2000-01"))


def test_a_layer_averages_its_heads_and_the_members(stacked):
    model, panel = stacked
    rows = panel.X.xs(panel.network.periods[0], level="period").to_numpy()
    x = ((rows - model.design_.center) / model.design_.spread).clip(-4, 4)
    found = []
    for member in model.members_:
        state = member.state
        h = x @ state["embed"]
        z = (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + 1e-5)
        block = {k.removeprefix("blocks.0."): v for k, v in state.items() if k.startswith("blocks.0.")}
        z = z * block["norm_attention.weight"] + block["norm_attention.bias"]
        q, k = (
            z @ block[f"attention.{side}.weight"].T + block[f"attention.{side}.bias"]
            for side in ("query", "key")
        )
        for part in range(2):
            at = slice(8 * part, 8 * part + 8)
            scores = np.where(np.eye(12, dtype=bool), -np.inf, q[:, at] @ k[:, at].T / np.sqrt(8))
            weights = np.exp(scores - scores.max(1, keepdims=True))
            found.append(weights / weights.sum(1, keepdims=True))
    mine = model.peer_network(panel.X, layer=0).matrix(panel.network.periods[0])
    np.testing.assert_allclose(mine, np.mean(found, 0), atol=1e-6)


def test_layers_multiply_to_a_rollout_and_keep_the_strongest(stacked):
    model, panel = stacked
    total = rollout([model.peer_network(panel.X, layer=k) for k in range(3)])
    np.testing.assert_allclose(total.matrix("2000-03").sum(axis=1), 1)
    few = model.peer_network(panel.X, layer=0, top_k=2)
    whole = model.peer_network(panel.X, layer=0)
    assert few.edges(top_k=2)["peer"].equals(whole.edges(top_k=2)["peer"])


def test_bad_layers_are_named(stacked):
    model, panel = stacked
    with pytest.raises(
        InputError, match="layer: 3 was asked for, but with n_layers=3 layers are numbered 0 to 2"
    ):
        model.peer_network(panel.X, layer=3)
    with pytest.raises(
        InputError, match="head: 1 and layer=0 were given, but kept heads are those of the last layer, 2"
    ):
        model.peer_network(panel.X, layer=0, head=1)


@pytest.mark.parametrize("values", ["characteristics", "outcomes"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_heads_start_as_those_of_one_layer_and_learn_to_use_the_others(values, symmetric):
    spec = PeerSpec(3, n_heads=2, n_layers=2, values=values, symmetric=symmetric)
    module = PeerModule(spec, torch.Generator().manual_seed(0))
    x = torch.tensor(np.random.default_rng(0).normal(size=(1, 9, 3)))
    everyone = torch.ones(1, 9, dtype=torch.bool)
    no_codes = torch.zeros(1, 9, 0, dtype=torch.long)
    focal = RowTensors(x, no_codes, x[..., 0] ** 2, torch.arange(9)[None], everyone, everyone)
    before, _ = module(focal, focal)
    with torch.no_grad():
        module.embed.mul_(3.0)
    after, _ = module(focal, focal)
    assert torch.equal(before, after)
    after.square().sum().backward()
    assert module.query.weight.grad[:, spec.n_inputs :].abs().sum() > 0


STACKED = {
    "n_layers": 2,
    "n_heads": 2,
    "max_steps": 20,
    "prune": False,
    "random_state": 0,
    "dtype": "float64",
}


@pytest.fixture(scope="module")
def industries():
    return simulate_panel(15, 6, 3, n_industries=3, random_state=0)


@pytest.mark.parametrize("values", ["characteristics", "outcomes"])
def test_every_layer_looks_within_the_industry_alone(industries, values):
    """Moving another industry moves no prediction, and no layer's network leaves the industry."""
    X, y = industries.X, industries.y
    options = STACKED | {"values": values, "own": "none", "scale": None}
    model = PeerAttentionRegressor(prior=Prior("industry", only=True), codes=["industry"], **options).fit(
        X, y
    )
    told = {"outcomes": y} if values == "outcomes" else {}
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


def test_earlier_layers_lean_on_a_soft_prior(industries):
    model = PeerAttentionRegressor(prior="industry", codes=["industry"], **STACKED).fit(
        industries.X, industries.y
    )
    period = industries.network.periods[0]
    codes = industries.X["industry"].xs(period, level="period")
    before = model.peer_network(industries.X, layer=0).matrix(period)
    same = codes.loc[before.index].to_numpy()[:, None] == codes.loc[before.columns].to_numpy()
    model.members_[0].state["encoder_strength"] += 3.0
    after = model.peer_network(industries.X, layer=0).matrix(period)
    assert after.to_numpy()[same].sum() > before.to_numpy()[same].sum() + 1


@pytest.mark.parametrize("similarity", ["dot_product", "gaussian", "additive"])
def test_earlier_layers_have_the_similarity_and_tied_scores(similarity):
    spec = PeerSpec(3, n_heads=2, n_layers=3, similarity=similarity, symmetric=True)
    for block in PeerModule(spec, torch.Generator().manual_seed(0)).blocks:
        assert block.attention.score == similarity and block.attention.key is None


@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_a_frequency_weight_is_the_row_repeated_in_every_layer(n_layers, exclude_self):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(40, 3)), rng.integers(1, 4, 40)
    y, new = X[:, 0] + X[:, 1] ** 2, rng.normal(size=(5, 3))
    options = STACKED | {"n_layers": n_layers, "exclude_self": exclude_self}
    weighted = PeerAttentionRegressor(**options).fit(X, y, sample_weight=weight)
    repeated = PeerAttentionRegressor(**options).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict(new), repeated.predict(new), atol=1e-10)
