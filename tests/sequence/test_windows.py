"""Sequence models whose attention costs less: within a window, to few symbols, by random features."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from peerattn.exceptions import InputError
from peerattn.sequence import (
    AttentionAnomalyDetector,
    AttentionForecaster,
    LanguageModel,
    MaskedLanguageModel,
    TextClassifier,
    Translator,
    VisionTransformerClassifier,
)

TEXT = "the cat sat on the mat. " * 30
SMALL = {"n_heads": 2, "d_model": 16, "random_state": 0}


def test_a_language_model_of_one_layer_forgets_what_lies_beyond_the_window():
    model = LanguageModel(**SMALL, n_layers=1, window=3, block_size=32, max_steps=5, positions="rotary").fit(
        TEXT
    )
    near, far = model.predict_proba(["cat sat on the", "dog eat on the"])
    np.testing.assert_allclose(near, far, atol=1e-6)
    assert np.abs(near - model.predict_proba(["cat sat on a th"])[0]).max() > 1e-4
    whole = LanguageModel(**SMALL, n_layers=1, block_size=32, max_steps=5, positions="rotary").fit(TEXT)
    assert np.abs(np.subtract(*whole.predict_proba(["cat sat on the", "dog eat on the"]))).max() > 1e-4


@pytest.mark.parametrize("n_layers", [1, 2])
def test_generation_with_a_cache_equals_generation_without(n_layers):
    model = LanguageModel(**SMALL, n_layers=n_layers, window=4, block_size=24, max_steps=40).fit(TEXT)
    cached, plain = (model.generate("the cat", 40, temperature=0, cache=cache) for cache in (True, False))
    assert cached == plain
    seen = model.attention("the cat sat").weights
    at = np.arange(11)
    beyond = (at[:, None] - at > 4) | (at > at[:, None])
    assert (seen[..., beyond] == 0).all() and (seen[..., ~beyond] > 0).all()


def test_a_window_as_long_as_the_text_changes_nothing():
    texts = ["a fine film", "a dull film", "fine and warm and long"] * 4
    for make, told in [(MaskedLanguageModel, (texts,)), (TextClassifier, (texts, [0, 1, 2] * 4))]:
        options = SMALL | ({"n_epochs": 2, "line": False} if make is TextClassifier else {"max_steps": 3})
        narrow, wide, whole = (make(**options, window=window).fit(*told) for window in (1, 50, None))
        compute = "transform" if make is MaskedLanguageModel else "predict_proba"
        found = [getattr(model, compute)(texts) for model in (narrow, wide, whole)]
        np.testing.assert_allclose(found[1], found[2], atol=1e-5)
        assert np.abs(found[0] - found[2]).max() > 1e-5


CHEAPER = {"sparse": {"keep": 3}, "linear": {"n_features": 32}}


@pytest.mark.parametrize("cheaper", CHEAPER.values(), ids=CHEAPER)
def test_sparse_and_linear_attention_where_users_are(cheaper, tmp_path):
    model = LanguageModel(**SMALL, **cheaper, n_layers=2, block_size=24, max_steps=40).fit(TEXT)
    cached, plain = (model.generate("the cat", 40, temperature=0, cache=cache) for cache in (True, False))
    assert cached == plain
    seen = model.attention("the cat sat").weights
    future = np.triu(np.ones((11, 11), dtype=bool), 1)
    assert (seen[..., future] == 0).all()
    n_seen = (seen > 0).sum(-1)
    assert (n_seen == np.minimum(np.arange(1, 12), cheaper.get("keep", 11))).all()
    model.save(tmp_path / "model.safetensors")
    assert LanguageModel.load(tmp_path / "model.safetensors").loss(TEXT) == model.loss(TEXT)

    wave = np.sin(np.arange(200) / 5)[:, None]
    options = SMALL | {"horizon": 4, "lookback": 64, "patch": 8, "line": False, "max_steps": 3}
    seen = AttentionForecaster(**options, **cheaper).fit(wave).attention(wave).weights
    assert ((seen > 0).sum(-1) == cheaper.get("keep", 8)).all()


def read(model, texts, **cheaper):
    """What a fitted model says of texts, with other attention than it was fitted with."""
    cheaper = {"keep": None, "n_features": None} | cheaper
    told = model.set_params(**cheaper)
    return told.predict_proba(texts) if hasattr(told, "predict_proba") else told.transform(texts)


def test_what_a_fitted_model_loses_by_cheaper_attention_shrinks_with_its_cost():
    texts = ["a fine film", "a dull film", "fine and warm and long"] * 4
    told = {MaskedLanguageModel: (texts,), TextClassifier: (texts, [0, 1, 2] * 4), LanguageModel: (TEXT,)}
    for make, data in told.items():
        options = SMALL | ({"n_epochs": 2, "line": False} if make is TextClassifier else {"max_steps": 3})
        model = make(**options).fit(*data)
        exact = read(model, texts)
        for name, few, many, least in (("keep", 1, 60, 1e-5), ("n_features", 4, 4096, np.inf)):
            errors = [np.abs(read(model, texts, **{name: n}) - exact).mean() for n in (few, many)]
            assert errors[1] < min(errors[0], least), (make, name)


def test_a_forecaster_looks_at_neighbouring_patches():
    wave = np.sin(np.arange(200) / 5)[:, None]
    options = SMALL | {"horizon": 4, "lookback": 64, "patch": 8, "line": False, "max_steps": 3, "n_layers": 1}
    seen = AttentionForecaster(**options, window=1).fit(wave).attention(wave).weights
    at = np.arange(8)
    assert (seen[..., np.abs(at[:, None] - at) > 1] == 0).all()


def test_a_translator_looks_at_neighbours_in_each_of_its_texts_and_at_the_whole_source():
    texts = ["one two three four five six", "six five four three two one"] * 4
    told = {"n_layers": 1, "max_steps": 3, "average": 1, **SMALL}
    whole = Translator(**told).fit(texts, texts[::-1])
    for cheaper in ({"window": 50}, {"keep": 50}):
        found = Translator(**told, **cheaper).fit(texts, texts[::-1])
        assert found.loss(texts, texts) == pytest.approx(whole.loss(texts, texts), rel=1e-4)
    near = Translator(**told, window=1).fit(texts, texts[::-1])
    assert near.loss(texts, texts) != pytest.approx(whole.loss(texts, texts), rel=1e-4)
    assert near.attention(texts[0], texts[1]).weights.min() > 0
    module = near._module()
    block = module.stacks.decoder.blocks[0]
    rows = torch.randn(1, 6, 16, generator=torch.Generator().manual_seed(0))
    _, weights = block.attention(rows, return_weights=True)
    at = torch.arange(6)
    beyond = (at[:, None] - at > 1) | (at > at[:, None])
    assert (weights[..., beyond] == 0).all() and (weights[..., ~beyond] > 0).all()


def test_patches_of_an_image_look_at_those_near_on_the_grid_and_at_the_summary():
    images, y = np.random.default_rng(0).random((12, 8, 6)), [0, 1] * 6
    told = {"patch": 2, "n_layers": 1, "n_epochs": 1, "shift": 0, **SMALL}
    weights = VisionTransformerClassifier(**told, window=1).fit(images, y).attention(images[0]).weights[0, 0]
    row, column = np.divmod(np.arange(12), 3)
    near = (abs(row[:, None] - row) <= 1) & (abs(column[:, None] - column) <= 1)
    assert ((weights[1:, 1:] > 0) == near).all()
    assert (weights[0] > 0).all() and (weights[:, 0] > 0).all()
    kept = VisionTransformerClassifier(**told, keep=3).fit(images, y).attention(images[0]).weights
    assert ((kept > 0).sum(-1) == 3).all()
    with pytest.raises(InputError, match="window"):
        VisionTransformerClassifier(**told, window=1, keep=2).fit(images, y)


def test_an_anomaly_detector_looks_at_neighbouring_patches():
    wave = np.sin(np.arange(200) / 5)[:, None]
    told = {"window": 32, "patch": 4, "n_layers": 1, "max_steps": 3, **SMALL}
    seen = AttentionAnomalyDetector(**told, attention_window=1).fit(wave).attention(wave).weights
    at = np.arange(8)
    assert ((seen[0, 0] > 0) == (np.abs(at[:, None] - at) <= 1)).all()


COST = """
import resource, torch
from peerattn import nn
torch.set_num_threads(1)
layer = nn.TransformerBlock(64, 4, 128, attend=nn.cheaper_attention(window=64, causal=True), rotary=True)
x = torch.randn(1, 8000, 64, generator=torch.Generator().manual_seed(0))
layer(x[:, :100]).sum().backward()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with torch.no_grad():
    layer(x)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is measured in Linux's units")
def test_eight_thousand_positions_cost_less_than_100_mb():
    found = subprocess.run([sys.executable, "-c", COST], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 100  # all pairs of one head alone would take 256 MB
