"""Importance of heads beside finite differences, and pruned models beside models whose heads are silenced."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from peerattn import PeerAttentionClassifier, PeerAttentionRegressor, nn, simulate_panel
from peerattn.evaluation import head_importance, prune, pruning_curve
from peerattn.exceptions import InputError
from peerattn.models.stacking.weights import Column, Scope
from peerattn.sequence import (
    AttentionAnomalyDetector,
    AttentionForecaster,
    LanguageModel,
    MaskedLanguageModel,
    TextClassifier,
    Translator,
    VisionTransformerClassifier,
)

pytestmark = pytest.mark.usefixtures(
    "fewest_steps", "heads_in_full"
)  # eight periods show too little for heads of a size of their own

HEADS = {"n_heads": 2, "kappa": None, "similarity": "gaussian", "random_state": 0}


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(14, 8, 3, random_state=0)


@pytest.fixture(scope="module")
def model(panel):
    return PeerAttentionRegressor(**HEADS).fit(panel.X, panel.y)


def test_importance_counts_the_weights_of_the_stack(panel, model):
    """Means of a period and differences within it have a weight each; a head is worth what its absence changes."""
    model = copy.deepcopy(model)
    weights = {Column("heads", Scope.WITHIN): 0.5, Column("heads", Scope.MEAN): 0.2}
    peers = replace(model.stack_.stages["peers"], weights=weights)
    model.stack_ = replace(model.stack_, stages=model.stack_.stages | {"peers": peers})
    found, before = head_importance(model, panel.X, panel.y), model.predict(panel.X)
    for name in found.index:
        without = prune(model, [other for other in found.index if other != name]).predict(panel.X)
        each = 2 * (panel.y - before) * (before - without) / model.y_scale_**2
        assert found[name] == pytest.approx(each.groupby(level="period").mean().abs().mean(), rel=1e-6)


@pytest.mark.parametrize("kind", ["characteristics", "outcomes", "classes"])
def test_importance_is_the_derivative_of_the_loss_by_a_factor_on_the_head(panel, kind):
    y = (panel.y > 0).astype(int) if kind == "classes" else panel.y
    make = PeerAttentionClassifier if kind == "classes" else PeerAttentionRegressor
    model = make(task="nowcast" if kind == "outcomes" else "forecast", **HEADS).fit(panel.X, y)
    told = {"outcomes": y} if kind == "outcomes" else {}
    found = head_importance(model, panel.X, y, **told)
    scaled = "value"

    def losses(start, head, size):
        state = model.members_[start].state
        kept = state[scaled].copy()
        state[scaled][head] *= size  # one output: a row a head
        if kind == "classes":
            p = model.predict_proba(panel.X)[:, 1]
            loss = -np.where(y == 1, np.log(p), np.log(1 - p))
        else:
            loss = ((y - model.predict(panel.X, **told)) / model.y_scale_) ** 2
        state[scaled][:] = kept
        return pd.Series(loss, index=y.index).groupby(level="period").mean()

    starts = range(len(model.members_))
    assert list(found.index) == list(itertools.product(starts, range(2))) and (found > 0).all()
    for start, head in found.index:
        slope = (losses(start, head, 1 + 1e-5) - losses(start, head, 1 - 1e-5)) / 2e-5
        assert found[(start, head)] == pytest.approx(slope.abs().mean(), rel=1e-4)


def test_a_pruned_panel_model_lacks_what_its_heads_added(panel, model, tmp_path):
    n_heads = 2 * len(model.members_)
    assert len(model.heads_) == n_heads
    keep = head_importance(model, panel.X, panel.y).nlargest(1).index
    pruned = prune(model, keep)
    assert len(pruned.heads_) == 1
    silenced = copy.deepcopy(model)
    for start, member in enumerate(silenced.members_):
        for head in range(2):
            if (start, head) not in keep:
                member.state["value"][head] = 0
    np.testing.assert_allclose(pruned.predict(panel.X), silenced.predict(panel.X), atol=1e-12)
    assert len(model.heads_) == n_heads  # as it was
    pruned.save(tmp_path / "pruned.safetensors")
    loaded = PeerAttentionRegressor.load(tmp_path / "pruned.safetensors")
    np.testing.assert_array_equal(loaded.predict(panel.X), pruned.predict(panel.X))
    nobody = prune(model, [])
    assert len(nobody.peer_network(panel.X).isolates) == len(panel.X)


def test_the_curve_goes_from_all_heads_to_none(panel, model):
    importance = head_importance(model, panel.X, panel.y)
    curve = pruning_curve(model, importance, panel.X, panel.y)
    assert curve["heads"].tolist() == list(range(2 * len(model.members_), -1, -1))
    assert curve["score"].iloc[0] == pytest.approx(model.score(panel.X, panel.y))
    assert curve["importance"].iloc[1] == importance.min() and curve["importance"].iloc[-1] == importance.max()


TEXTS = ["a fine film", "a dull film", "fine and warm", "dull and cold"] * 6
IMAGES = np.random.default_rng(0).random((20, 4, 4))
WAVE = np.sin(np.arange(140) / 3)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(140, 1))
SMALL = {"n_layers": 2, "n_heads": 2, "d_model": 8, "random_state": 0}
FEW = SMALL | {"max_steps": 20}  # what is pruned need not be good
SEQUENCES = {
    "language": (LanguageModel(**FEW, block_size=8), "abcd " * 40, None),
    "masked": (MaskedLanguageModel(**FEW), TEXTS, None),
    "texts": (TextClassifier(**SMALL, n_epochs=1, line=False), TEXTS, ["good", "bad"] * 12),
    "translation": (Translator(**FEW, average=1), TEXTS, TEXTS[::-1]),
    "images": (VisionTransformerClassifier(**SMALL, patch=2, n_epochs=1), IMAGES, [0, 1] * 10),
    "series": (
        AttentionForecaster(**FEW, horizon=4, lookback=32, patch=8, line=False),
        WAVE,
        None,
    ),
    "anomalies": (AttentionAnomalyDetector(**FEW, window=32, patch=8), WAVE, None),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_pruned_sequence_model_is_the_model_with_silenced_heads(name, tmp_path):
    model, X, y = SEQUENCES[name]
    told = (X,) if y is None else (X, y)
    model = model.fit(*told)
    importance = head_importance(model, *told)
    assert (importance >= 0).all() and importance.sum() > 0
    keep = importance.nlargest(len(importance) // 2).index
    pruned = prune(model, keep)
    module = model._module()
    layers = {n: layer for n, layer in module.named_modules() if isinstance(layer, nn.MultiheadAttention)}
    gates = {layer: torch.tensor([float((n, h) in keep) for h in range(layer.n_heads)]) for n, layer in layers.items()}

    def loss(one, module):
        sums = [(float(total.detach()), n) for total, n in one._loss_sums(module, X, y)]
        return sum(total for total, _ in sums) / sum(n for _, n in sums)

    with nn.head_gates(gates):
        silenced = loss(model, module)
    assert loss(pruned, pruned._module()) == pytest.approx(silenced, rel=1e-5)
    assert silenced != loss(model, module)
    curve = pruning_curve(model, importance, *told) if name == "translation" else None
    if curve is not None:  # down to no head at all, the pointer's among them
        assert curve["heads"].tolist() == list(range(len(importance), -1, -1))
        assert np.isfinite(curve["score"]).all()
    pruned.save(tmp_path / "pruned.safetensors")
    loaded = type(model).load(tmp_path / "pruned.safetensors")
    assert loss(loaded, loaded._module()) == pytest.approx(silenced, rel=1e-5)
    assert loaded.n_heads_by_layer() == pruned.n_heads_by_layer() != model.n_heads_by_layer()
    again = prune(pruned, [next(iter(head_importance(pruned, *told).index))])
    assert sum(again.n_heads_by_layer().values()) == 1


def test_attention_of_unequal_layers_is_filled_with_zeros():
    model = LanguageModel(**FEW, block_size=8).fit("abcd " * 20)
    first, second = model.n_heads_by_layer()
    seen = prune(model, [(first, 1), (second, 0), (second, 1)]).attention("abcd").weights
    assert seen.shape == (2, 2, 4, 4) and (seen[0, 1] == 0).all()
    np.testing.assert_allclose(seen[0, 0], model.attention("abcd").weights[0, 1], atol=1e-6)


def test_what_cannot_be_pruned_is_refused(panel, model):
    with pytest.raises(InputError, match=r"keep: the model has no head \(0, 9\)"):
        prune(model, [(0, 9)])
    with pytest.raises(InputError, match="model: expected an attention estimator of panels or sequences, got str"):
        head_importance("model", panel.X, panel.y)
    with pytest.raises(InputError, match="known outcomes, got none"):
        head_importance(model, panel.X, None)
    with pytest.raises(InputError, match="y: expected classes of fit"):
        TextClassifier(**SMALL, n_epochs=1, line=False).fit(TEXTS, ["good", "bad"] * 12).head_importance(["a film"], ["poor"])


def test_a_translator_without_its_pointer_writes_and_copies_nothing(tmp_path):
    model, X, y = SEQUENCES["translation"]
    model = model.fit(X, y)
    importance = head_importance(model, X, y)
    assert ("pointer", 0) in importance.index
    without = prune(model, [name for name in importance.index if name != ("pointer", 0)])
    module = model._module()
    gates = {module.pointer: torch.zeros(1)}
    with nn.head_gates(gates), torch.inference_mode():
        sums = [(float(total), n) for total, n in model._loss_sums(module, X, y)]
    silenced = sum(total for total, _ in sums) / sum(n for _, n in sums)
    assert without.loss(X, y) == pytest.approx(silenced, rel=1e-5)
    assert silenced != pytest.approx(model.loss(X, y), rel=1e-5)
    without.save(tmp_path / "without.safetensors")
    loaded = Translator.load(tmp_path / "without.safetensors")
    assert loaded.predict(["a new word"]) == without.predict(["a new word"])
    assert "word" not in without.predict(["word word word"])[0]  # no training text has it
    assert loaded.attention("a film").keys[-1] == "<end>"
