"""Another device than the CPU: batches are sent to it, and no module makes a tensor elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from peerattn.exceptions import InputError
from peerattn.sequence import (
    AttentionAnomalyDetector,
    AttentionForecaster,
    GraphAttentionClassifier,
    LanguageModel,
    MaskedLanguageModel,
    TextClassifier,
    Translator,
    VisionTransformerClassifier,
)
from peerattn.sequence.base import SequenceEstimator

SMALL = {"n_layers": 2, "n_heads": 2, "d_model": 8, "dropout": 0.0, "random_state": 0}
TEXT = "the cat sat on the mat. " * 9
TEXTS = ["a fine film", "a dull film", "fine and warm", "dull and cold"] * 5
WAVE = np.sin(np.arange(200) / 5)[:, None]
EDGES = np.array([[0, 0, 1, 3, 3, 4], [1, 2, 2, 4, 5, 5]])
IMAGES = np.random.default_rng(0).random((12, 8, 8))
FITS = {
    "language": (LanguageModel(**SMALL, block_size=16), (TEXT,)),
    "sinusoidal": (LanguageModel(**SMALL, block_size=16, positions="sinusoidal"), (TEXT,)),
    "learned": (LanguageModel(**SMALL, block_size=16, positions="learned"), (TEXT,)),
    "masked": (MaskedLanguageModel(**SMALL), (TEXTS,)),
    "classifier": (TextClassifier(**SMALL), (TEXTS, [0, 1, 0, 1] * 5)),
    "translator": (Translator(**SMALL, copy=False), (TEXTS, TEXTS)),
    "copying translator": (Translator(**SMALL, copy=True), (TEXTS, TEXTS)),
    "images": (VisionTransformerClassifier(**SMALL, patch=2, shift=1), (IMAGES, [0, 1] * 6)),
    "graph": (GraphAttentionClassifier(dropout=0.0, random_state=0), (np.eye(6), np.array([0, -1, -1, 1, -1, -1]))),
    "forecaster": (AttentionForecaster(4, 16, patch=4, **SMALL), (WAVE,)),
    "detector": (AttentionAnomalyDetector(window=32, **SMALL), (WAVE,)),
}
#: Shapes of their steps depend on values, which the device "meta" has not.
DEPEND_ON_VALUES = {"masked", "graph", "translator", "copying translator"}


class Stopped(Exception):
    """A fit that has come to its training."""


@pytest.fixture
def stopped(monkeypatch):
    """Return what a fit trains: its module, the examples and the generator."""

    def learn(self, module, examples, generator, **options):
        raise Stopped(module, examples, generator)

    def until_training(model, data):
        monkeypatch.setattr(SequenceEstimator, "_learn", learn)
        options = {"edges": EDGES} if isinstance(model, GraphAttentionClassifier) else {}
        with pytest.raises(Stopped) as caught:
            model.fit(*data, **options)
        return caught.value.args

    return until_training


FACTORIES = {
    getattr(torch, name)
    for name in "arange as_tensor empty empty_strided eye full linspace normal ones rand randint randn randperm scalar_tensor "
    "tensor tril_indices triu_indices zeros".split()
}


class Placed(TorchFunctionMode):
    """Every tensor made within names its device."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        made_anywhere = function in FACTORIES and kwargs.get("device") is None
        assert not made_anywhere, f"{function.__name__} names no device"
        return function(*args, **kwargs)


def one_step(model, data, place, stopped):
    """Return a step's module and batch, the batch made on a device."""
    model.device = "cpu" if isinstance(model, AttentionForecaster) else place  # that computes losses before it trains
    module, examples, generator = stopped(model, data)
    model.device = place
    return module.to(place).train(), next(iter(model._batches(examples, generator)))


@pytest.mark.parametrize("place", ["cpu", "meta"])
@pytest.mark.parametrize("name", FITS)
def test_no_tensor_of_a_step_is_made_on_another_device(name, place, stopped):
    # the second device that torch has everywhere: tensors of shapes without values
    model, data = FITS[name]
    model = type(model)(**model.get_params(deep=False))
    module, batch = one_step(model, data, place, stopped)
    tensors = [part for part in tree_leaves(batch) if isinstance(part, torch.Tensor)]
    # a translator's batch is lists of numbers, which its loss sends to the device
    assert "translator" in name or {part.device.type for part in tensors} == {place}
    if place == "meta" and name in DEPEND_ON_VALUES:
        return
    with Placed():
        loss = model._loss(module, batch)
    assert loss.device.type == place and loss.ndim == 0


@pytest.mark.parametrize("wrong", [torch.ones, torch.zeros, lambda n: torch.arange(float(n))])
def test_a_tensor_that_is_made_elsewhere_is_noticed(wrong, stopped):
    """The check itself."""
    model, data = FITS["language"]
    module, batch = one_step(type(model)(**model.get_params(deep=False)), data, "meta", stopped)
    module.register_forward_pre_hook(lambda module, inputs: (wrong(3), None)[1])
    with pytest.raises(AssertionError, match="names no device"), Placed():
        model._loss(module, batch)


def test_auto_is_the_cpu_where_there_is_no_gpu_and_other_devices_are_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    options = SMALL | {"block_size": 16, "max_steps": 2}
    auto = LanguageModel(**options, device="auto", precision="auto").fit(TEXT)
    assert auto.loss(TEXT) == LanguageModel(**options).fit(TEXT).loss(TEXT)
    for wrong, words in (({"device": "cuda:99"}, "device='cuda:99' cannot be used"), ({"precision": "tf32"}, "needs a CUDA GPU")):
        with pytest.raises(InputError, match=words):
            LanguageModel(**options, **wrong).fit(TEXT)


def test_bfloat16_learns_nearly_what_float32_learns():
    options = SMALL | {"block_size": 16, "max_steps": 60, "learning_rate": 1e-2}
    narrow, wide = (LanguageModel(**options, precision=p).fit(TEXT) for p in ("bfloat16", "float32"))
    assert narrow.record_.losses != wide.record_.losses
    assert abs(narrow.loss(TEXT) - wide.loss(TEXT)) < 0.1 * wide.record_.losses[0]
    assert {value.dtype for value in narrow.state_.values()} == {np.dtype("float32")}


def test_compile_is_torchs_and_changes_nothing_else(monkeypatch):
    compiled = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module: compiled.append(type(module).__name__))
    options = SMALL | {"block_size": 16, "max_steps": 2}
    found = LanguageModel(**options, compile=True).fit(TEXT)
    assert compiled == ["LanguageModule"] and found.loss(TEXT) == LanguageModel(**options).fit(TEXT).loss(TEXT)


@pytest.mark.gpu
@pytest.mark.parametrize(("model", "data"), FITS.values(), ids=FITS)
def test_a_gpu_learns_what_the_cpu_learns(model, data):
    options = {"edges": EDGES} if isinstance(model, GraphAttentionClassifier) else {}
    steps = {"n_epochs": 2} if hasattr(model, "n_epochs") else {"max_steps": 5}
    losses = []
    for place in ("cpu", "cuda"):
        found = type(model)(**model.get_params(deep=False) | steps | {"device": place, "precision": "float32"})
        losses.append(found.fit(*data, **options).record_.losses)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{"precision": "tf32"}, {"precision": "auto"}, {"compile": True}], ids=str)
def test_faster_options_of_a_gpu_learn_nearly_the_same(options):
    common = SMALL | {"block_size": 16, "max_steps": 60, "learning_rate": 1e-2, "device": "auto"}
    fast, plain = LanguageModel(**common, **options).fit(TEXT), LanguageModel(**common, precision="float32").fit(TEXT)
    assert abs(fast.loss(TEXT) - plain.loss(TEXT)) < 0.1 * plain.record_.losses[0]
