"""The level of an industry is a firm's own: without it in the own part it would pass for peers of the same code."""

import numpy as np
import pandas as pd
import pytest

from peerattn.models import PeerAttentionClassifier, PeerAttentionRegressor

N = 30
T = 16


def industries(seed):
    """No firm affects another: the outcome is a characteristic, a constant of the industry, and noise."""
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(N), range(T)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(N * T, 2)), index=index, columns=["size", "leverage"])
    industry = rng.integers(0, 8, N).repeat(T)
    X["industry"] = pd.Categorical([f"i{k}" for k in industry])
    return X, X["size"] + rng.normal(size=8)[industry] + rng.normal(size=N * T)


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_levels_of_industries_are_no_peers(task, train_heads):
    train_heads(3, 60)
    selected = []
    for seed in range(2):
        X, y = industries(seed)
        model = PeerAttentionRegressor(task=task, random_state=seed).fit(X, y)
        assert model.evidence_.loc["nonlinear", "selected"].startswith("own codes")
        assert model.explain_gain().loc["nonlinear", "gain"] > 0.05
        selected.append(model.evidence_.loc["peers", "factor"] > 0)
    assert not any(selected)


def test_in_full_what_heads_add_is_beyond_own_codes():
    X, y = industries(0)
    model = PeerAttentionRegressor(own="linear", kappa=None, random_state=0).fit(X, y)
    without = PeerAttentionRegressor(own="linear", kappa=None, n_heads=0, random_state=0).fit(X, y)
    steps = model.predict_steps(X)
    before_peers = steps["firm history"].to_numpy()
    linear = steps["own characteristics (linear)"].to_numpy()
    assert set(without.stack_.fitted) == {"own codes"}
    # in full the mean of a period has one weight for both
    assert np.corrcoef(before_peers - linear, without.predict(X) - linear)[0, 1] > 0.99
    known = y.to_numpy()
    assert np.mean((known - before_peers) ** 2) < 0.95 * np.mean((known - linear) ** 2)


def test_the_own_part_reads_neither_peers_nor_outcomes_of_the_call():
    X, y = industries(1)
    model = PeerAttentionRegressor(task="nowcast", kappa=None, n_heads=0, random_state=0).fit(X, y)
    before = model.predict(X, outcomes=y)
    others = np.asarray(X.index.get_level_values("firm") > 0)
    changed = X.copy()
    changed.loc[others, "size"] += 5.0
    np.testing.assert_array_equal(model.predict(changed, outcomes=y + 3.0)[~others], before[~others])


def test_without_codes_and_without_an_own_part_there_are_none():
    X, y = industries(0)
    without = PeerAttentionRegressor(kappa=None, random_state=0).fit(X.drop(columns="industry"), y)
    assert "own codes" not in without.stack_.fitted
    assert "own codes" not in PeerAttentionRegressor(kappa=None, own="none", random_state=0).fit(X, y).stack_.fitted


def test_classes_have_own_codes_too():
    X, y = industries(0)
    model = PeerAttentionClassifier(kappa=None, random_state=0).fit(X, (y > 0).astype(int))
    assert {"own codes", "curves", "heads"} == set(model.stack_.fitted)
    assert model.score(X, (y > 0).astype(int)) > 0.6
