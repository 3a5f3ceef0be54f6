"""Heads of more seeds are averaged as long as other seeds would give another network."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

from peerattn import PeerAttentionRegressor, simulate_panel
from peerattn.models.learners.heads import learner, training
from peerattn.models.learners.heads.learner import HeadsLearner, Seeds, modules_in_window, reliability
from peerattn.models.learners.heads.selection import Selection

FALLS = {"a": [0.5, 0.45], "b": [0.1, 0.05], "c": [0.48, 0.2]}


@pytest.mark.parametrize(("k", "share"), [(2, 0.5), (5, 0.3), (3, 0.9)])
def test_reliability_is_the_correlation_with_the_mean_of_as_many_others(k, share):
    rng = np.random.default_rng(0)
    networks = np.sqrt(share) * rng.normal(size=100_000) + np.sqrt(1 - share) * rng.normal(size=(2 * k, 100_000))
    expected = np.corrcoef(networks[:k].mean(0), networks[k:].mean(0))[0, 1]
    assert reliability(list(networks[:k])) == pytest.approx(expected, abs=0.01)


def test_reliability_of_one_network_is_unknown_and_of_flat_ones_perfect():
    one = np.array([0.0, 0.2, 0.8])
    assert reliability([]) == reliability([one]) == 0
    assert reliability([one, one]) == pytest.approx(1)
    assert reliability([np.ones(3), np.ones(3)]) == reliability([np.zeros(3), np.zeros(3)]) == 1


@pytest.fixture
def draws(monkeypatch):
    """Return the seeds of the draws that are trained on all periods."""
    trained = []
    plain = HeadsLearner._draw

    def noted(self, sample):
        if len(sample.sections) == 24:
            trained.append(self.seed)
        return plain(self, sample)

    monkeypatch.setattr(HeadsLearner, "_draw", noted)
    return trained


@pytest.mark.usefixtures("heads_in_full")
def test_noise_has_the_most_draws(draws):
    panel = simulate_panel(20, 24, 3, random_state=0)
    noise = pd.Series(np.random.default_rng(0).normal(size=len(panel.y)), panel.y.index)
    PeerAttentionRegressor(kappa=None, random_state=0).fit(panel.X, noise)
    assert len(set(draws)) == len(draws) == learner.DEFAULT.max_draws


def test_seeds_are_averaged_that_are_in_the_window_of_all_draws():
    """A draw in which no seed found a network has no part."""
    one, two, three = (Seeds([f"{name}{k}" for k in range(2)], partial(torch.tensor, fall)) for name, fall in FALLS.items())
    assert modules_in_window([one, two, three], 0.85) == [["a0", "a1"], [], ["c0"]]
    assert modules_in_window([three], 0.85) == [["c0", "c1"]], "the seeds of one draw were chosen in training"


def test_only_the_final_fit_has_more_draws(draws, monkeypatch):
    """At an earlier origin one draw shows whether heads predict; the network that is kept is averaged."""
    plain, most = HeadsLearner._drawn, {}

    def noted(self, sample, most_draws):
        most.setdefault(len(sample.sections), []).append(most_draws)
        return plain(self, sample, most_draws)

    monkeypatch.setattr(HeadsLearner, "_drawn", noted)
    monkeypatch.setattr(learner, "DEFAULT", replace(learner.DEFAULT, stable=2.0))
    panel = simulate_panel(20, 24, 3, sharpness=2.0, signal_share=0.9, random_state=0)
    PeerAttentionRegressor(own="linear", random_state=0).fit(panel.X, panel.y)
    assert most.pop(24) == [learner.DEFAULT.max_draws]
    assert {number for numbers in most.values() for number in numbers} == {1}
    assert len(set(draws)) == len(draws) == learner.DEFAULT.max_draws


@pytest.mark.usefixtures("heads_in_full")
def test_there_are_no_more_draws_than_a_stable_network_needs(draws, monkeypatch):
    monkeypatch.setattr(learner, "DEFAULT", replace(learner.DEFAULT, stable=0.0))
    panel = simulate_panel(20, 24, 3, random_state=0)
    PeerAttentionRegressor(kappa=None, random_state=0).fit(panel.X, panel.y)
    assert len(draws) == 1


@pytest.mark.parametrize(("of_seeds", "of_draws", "expected"), [(0.9, 0.0, 1), (0.1, 0.9, 3), (0.1, 0.0, 4)])
@pytest.mark.usefixtures("heads_in_full")
def test_draws_end_where_their_networks_agree(draws, monkeypatch, of_seeds, of_draws, expected):
    monkeypatch.setattr(learner, "mean_correlation", lambda networks: of_seeds)
    monkeypatch.setattr(learner, "reliability", lambda networks: of_draws)
    monkeypatch.setattr(learner, "DEFAULT", replace(learner.DEFAULT, max_draws=4))
    panel = simulate_panel(20, 24, 3, random_state=0)
    PeerAttentionRegressor(kappa=None, random_state=0).fit(panel.X, panel.y)
    assert len(draws) == expected


@pytest.mark.usefixtures("heads_in_full")
def test_seeds_of_combined_heads_do_not_vouch_for_each_other(draws, monkeypatch):
    """Their starts are of the same heads, so that they agree where all of them lack a network."""
    monkeypatch.setattr(learner, "mean_correlation", lambda networks: 0.9)
    monkeypatch.setattr(learner, "reliability", lambda networks: 0.9)
    monkeypatch.setattr(training, "FEW", 2)
    monkeypatch.setattr(learner, "DEFAULT", replace(learner.DEFAULT, max_draws=4))
    panel = simulate_panel(20, 24, 3, random_state=0)
    PeerAttentionRegressor(kappa=None, random_state=0).fit(panel.X, panel.y)
    assert len(draws) == 3


@pytest.mark.usefixtures("heads_in_full")
@pytest.mark.parametrize("fits", [(0,), (1,), (0, 1)])
def test_weight_decays_that_are_averaged_count_alike(monkeypatch, fits):
    """The mean over weight decays of the mean of their seeds, however many of these are in the window."""
    options = replace(learner.DEFAULT, n_seeds=6, weight_decays=(0.3, 1.5), max_draws=1)
    monkeypatch.setattr(learner, "DEFAULT", options)
    monkeypatch.setattr(learner, "selected", lambda *_: Selection(fits=fits))
    trained = []
    plain = learner.train_seeds

    def noted(spec, sample, objective, options, generator):
        found = plain(spec, sample, objective, options, generator)
        if not trained:  # of the first weight decay one seed is in the window
            found = replace(found, seeds=learner.PeerModule.together([found.seeds.seed(0)]))
        trained.append((options.n_seeds, *options.weight_decays, found.seeds.spec.n_seeds))
        return found

    monkeypatch.setattr(learner, "train_seeds", noted)
    panel = simulate_panel(20, 24, 3, random_state=0)
    model = PeerAttentionRegressor(kappa=None, random_state=0).fit(panel.X, panel.y)
    assert [each[:2] for each in trained] == [(6, options.weight_decays[k]) for k in fits]
    expected = [1 / len(fits) / n_kept for *_, n_kept in trained for _ in range(n_kept)]
    assert model.stack_.fitted["heads"].mix == pytest.approx(expected)
