"""The same seed gives the same bits, however many threads there are and however many rows a call has."""

import numpy as np
import pytest
import torch

from peerattn import (
    CrossSectionalRidge,
    NadarayaWatsonRegressor,
    PeerAttentionClassifier,
    PeerAttentionRegressor,
    simulate_panel,
)
from peerattn.models.attention.base import PanelStack

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point

PANEL = simulate_panel(20, 8, 3, n_industries=3, random_state=0)
X, CODED, Y = PANEL.X.select_dtypes("number"), PANEL.X, PANEL.y
FEW = {"random_state": 0, "n_heads": 1, "own": "linear"}
PATHS = {
    "forecast": (PeerAttentionRegressor(**FEW), X, Y),
    "nowcast": (PeerAttentionRegressor(task="nowcast", **FEW), X, Y),
    "cross": (PeerAttentionRegressor(attention="cross", kappa=None, **FEW), X, Y),
    "classifier": (PeerAttentionClassifier(kappa=None, **FEW), X, Y > 0),
    "prior": (PeerAttentionRegressor(prior="industry", kappa=None, **FEW), CODED, Y),
    "network prior": (PeerAttentionRegressor(prior=PANEL.network, kappa=None, **FEW), X, Y),
    "kernel": (NadarayaWatsonRegressor(), X, Y),
    "ridge": (CrossSectionalRidge(), X, Y),
}


def predictions(name):
    model, x, y = PATHS[name]
    model.fit(x, y, **({"reference": x} if name == "cross" else {}))
    shown = {"outcomes": y} if name in ("nowcast", "ridge") else {}
    called = model.predict_proba if name == "classifier" else model.predict
    return np.asarray(called(x, **shown)), np.asarray(model.peer_network(x, **shown).edges()["weight"])


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", PATHS)
def test_the_same_bits_on_one_and_two_threads(name, threads):
    found = []
    for n in (1, 2):
        threads(n)
        found.append(predictions(name))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_attention_computes_on_one_thread(threads, monkeypatch):
    """Small panels are not split among threads, so that equal bits on them say little: the number itself is looked at."""
    seen = []
    for owner, method in (
        (PanelStack, "_learn"),
        (PanelStack, "_outputs"),
        (PanelStack, "_network"),
    ):
        usual = getattr(owner, method)

        def counted(*arguments, usual=usual, method=method, **options):
            seen.append((method, torch.get_num_threads()))
            return usual(*arguments, **options)

        monkeypatch.setattr(owner, method, counted)
    threads(2)
    for name in ("nowcast", "classifier"):
        predictions(name)
    assert set(seen) == {("_learn", 1), ("_outputs", 1), ("_network", 1)}
    assert torch.get_num_threads() == 2


def test_the_ridge_computes_on_one_thread(threads, monkeypatch):
    from threadpoolctl import threadpool_info

    from peerattn.models import ridge

    seen, usual = [], ridge.cho_factor

    def counted(*arguments, **options):
        seen.append({lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"})
        return usual(*arguments, **options)

    monkeypatch.setattr(ridge, "cho_factor", counted)
    predictions("ridge")
    assert seen and all(each == {1} for each in seen)


def test_the_kernel_has_the_same_bits_on_many_rows(threads):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 3))
    y = x[:, 0] + rng.normal(size=1500)
    found = []
    for n in (1, 2):
        threads(n)
        found.append(NadarayaWatsonRegressor(bandwidth=0.5).fit(x, y).predict(x))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("name", ["network prior", "nowcast", "ridge", "kernel"])
def test_a_period_by_itself_has_the_bits_of_the_whole_call(name):
    model, x, y = PATHS[name]
    whole, _ = predictions(name)
    last = x.index.get_level_values("period") == x.index.get_level_values("period").max()
    shown = {"outcomes": y[last]} if name in ("nowcast", "ridge") else {}
    np.testing.assert_array_equal(model.predict(x[last], **shown), whole[last])
