from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LinearRegression

from peerattn import NadarayaWatsonRegressor, PeerAttentionRegressor, simulate_panel
from peerattn.evaluation import bootstrap_network
from peerattn.evaluation.inference import network_bootstrap
from peerattn.evaluation.inference.network_bootstrap import block_counts
from peerattn.exceptions import InputError
from peerattn.models import CovariancePeerRegressor
from peerattn.models.attention import warm_start
from peerattn.models.attention.warm_start import WarmStart
from peerattn.models.learners.heads import learner
from peerattn.models.learners.heads.training import REFIT_RIDGE, make_objective
from peerattn.models.learners.losses import squared_error

OPTIONS = {"n_heads": 1, "d_head": 2, "kappa": None, "random_state": 0}


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(12, 16, 2, sharpness=2.0, signal_share=0.7, random_state=0)


@pytest.fixture(scope="module")
def model(panel, full_search):
    with full_search(n_seeds=2, max_steps=200), pytest.MonkeyPatch.context() as patched:
        patched.setattr(learner, "DEFAULT", replace(learner.DEFAULT, max_draws=1))
        return PeerAttentionRegressor(**OPTIONS).fit(panel.X, panel.y)


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch):
    """Refits stop after their second round: whether they have settled has a test of its own."""
    monkeypatch.setattr(network_bootstrap, "SETTLED", 100.0)


def test_each_refit_fits_its_own_draw_best(panel, model):
    """By the criterion of fit on the periods that were drawn, as often as they were."""
    start = WarmStart(model, panel.X, panel.y)
    counts = block_counts(np.random.default_rng(0), start.n_periods, 3, 3)
    *_, settled = islice(start.refits(counts), 10)
    refits = [draw[0].module() for draw in settled]
    fitted = model.members_[0].module()
    objective = make_objective(start.sample, squared_error, fitted.spec)

    @torch.no_grad()
    def loss(module, count):
        seed = module.take(range(module.spec.n_heads)).rescale(1 / objective.unit).to(start.sample.dtype)
        times = torch.as_tensor(count, dtype=start.sample.dtype)[:, None]
        batch = start.sample.batch(range(len(count)))
        error = objective(seed(batch)[0], batch, times) / (times[:, 0] @ batch.weight.sum(1))
        penalty = sum(each.square().sum() for each in seed.parameters()) / batch.weight.sum()
        return float(error + REFIT_RIDGE * penalty)

    for k, count in enumerate(counts):
        losses = [loss(module, count) for module in [*refits, fitted]]
        assert np.argmin(losses) == k and losses[k] < losses[-1]


def test_a_refit_changes_neither_model_nor_the_global_generator(panel, model):
    before = model.peer_network(panel.X)
    state = torch.get_rng_state()
    found = bootstrap_network(model, panel.X, panel.y, n_draws=2, random_state=3)
    assert model.peer_network(panel.X).equals(before) and found.network.equals(before)
    assert torch.equal(torch.get_rng_state(), state)
    again = bootstrap_network(model, panel.X, panel.y, n_draws=2, random_state=3)
    np.testing.assert_array_equal(again.draws, found.draws)
    pd.testing.assert_frame_equal(again.direction, found.direction)


def test_the_spread_holds_the_estimate_and_widens_with_the_share(panel, model):
    last = panel.X[panel.X.index.get_level_values("period") == panel.network.periods[-1]]
    found = bootstrap_network(model, panel.X, panel.y, at=last, n_draws=19, top_k=None)
    wide, narrow = found.spread(0.95), found.spread(0.5)
    assert list(wide.columns) == ["period", "firm", "peer", "weight", "settled", "lower", "upper"]
    assert len(wide) == 12 * 11 and wide["period"].unique().tolist() == [panel.network.periods[-1]]
    assert ((wide["upper"] - wide["lower"]) >= (narrow["upper"] - narrow["lower"])).all()
    assert (wide["lower"] > 0).all() and (wide["upper"] < 1).all()
    assert ((wide["lower"] <= wide["settled"]) & (wide["settled"] <= wide["upper"])).mean() > 0.95
    assert np.corrcoef(wide["settled"], wide["weight"])[0, 1] > 0.95
    assert (np.median(found.draws, axis=0) - wide["settled"]).abs().max() < 0.1
    assert not hasattr(found, "intervals") and "no confidence interval" in type(found).spread.__doc__
    assert found.p_value <= 0.1  # the truth is directed
    assert "refits on blocks" in str(found) and "direction p=" in repr(found)


def test_the_length_of_a_round_does_not_decide(panel, model, monkeypatch):
    """Whatever the number of steps in a round, the spread is nearly the same."""
    monkeypatch.setattr(network_bootstrap, "SETTLED", 0.05)
    last = panel.X[panel.X.index.get_level_values("period") == panel.network.periods[-1]]
    found = []
    for steps in (40, 80):
        monkeypatch.setattr(warm_start, "REFIT", steps)
        found.append(bootstrap_network(model, panel.X, panel.y, at=last, n_draws=3, top_k=3).draws)
    spread = [draws.std(axis=0).mean() for draws in found]
    assert spread[0] == pytest.approx(spread[1], rel=0.25)


def test_refits_that_do_not_converge_are_refused(panel, model, monkeypatch):
    monkeypatch.setattr(network_bootstrap, "MOST_ROUNDS", 2)
    monkeypatch.setattr(network_bootstrap, "SETTLED", 1e-9)
    with pytest.raises(InputError, match="refits have not settled after 2 rounds"):
        bootstrap_network(model, panel.X, panel.y, n_draws=3)


def test_few_edges_of_many(panel, model):
    found = bootstrap_network(model, panel.X, panel.y, n_draws=3, top_k=2)
    assert len(found.edges) == 12 * 16 * 2
    assert "The least possible p is 0.250." in " ".join(str(found).split())
    assert found.least_p == 0.25 and ("the least possible" in repr(found)) == (found.p_value == 0.25)
    network = model.peer_network(panel.X)
    pd.testing.assert_frame_equal(found.edges.drop(columns="settled"), network.edges(top_k=2))
    start = WarmStart(model, panel.X, panel.y)  # what is settled is the refit on the periods as they are
    _, (alone,) = islice(start.refits(np.ones((1, start.n_periods), dtype=int)), 2)  # two rounds, as in ``found``
    pairs = zip(network.sections(), start.weights([alone], panel.X, None), strict=True)
    settled = [weights[0][section.entries(2)[:2]] for (_, section), weights in pairs]
    np.testing.assert_allclose(found.edges["settled"], np.concatenate(settled), rtol=1e-4)


@pytest.mark.usefixtures("heads_in_full")
def test_a_tied_head_has_no_direction(panel, monkeypatch):
    """One head of one seed: a mixture of reversible heads need not be reversible."""
    monkeypatch.setattr(learner, "DEFAULT", replace(learner.DEFAULT, window=1.0, max_steps=3, max_draws=1))
    tied = PeerAttentionRegressor(**OPTIONS, similarity="symmetric").fit(panel.X, panel.y)
    found = bootstrap_network(tied, panel.X, panel.y, n_draws=3)
    assert (found.direction["statistic"] < 1e-10).all()


@pytest.mark.usefixtures("heads_in_full")
def test_refits_learn_beside_least_squares(panel, fewest):
    """Targets are outcomes; the own part is least squares, and peers show their residuals from it."""
    with fewest():
        model = PeerAttentionRegressor(**OPTIONS | {"task": "nowcast"}).fit(panel.X, panel.y)
    start = WarmStart(model, panel.X, panel.y)
    periods, z = panel.X.index.get_level_values("period"), (panel.y - model.y_center_) / model.y_scale_
    own = LinearRegression().fit(panel.X, z)
    left = (z - own.predict(panel.X))[periods == panel.network.periods[0]]
    np.testing.assert_allclose(start.sections[0].focal.y - start.sections[0].own[0][:, 0], left, atol=1e-10)
    np.testing.assert_allclose(start.sections[0].peers.y, left, atol=1e-10)
    found = bootstrap_network(model, panel.X, panel.y, n_draws=3)
    assert np.isfinite(found.draws).all() and found.draws.std(axis=0).max() > 0


def test_a_model_without_heads_has_no_edges(panel):
    noise = pd.Series(np.random.default_rng(0).normal(size=len(panel.X)), index=panel.X.index)
    model = PeerAttentionRegressor(**OPTIONS | {"n_heads": 0}).fit(panel.X, noise)
    assert not model.members_
    found = bootstrap_network(model, panel.X, noise, n_draws=3)
    assert not len(found.edges) and np.isnan(found.p_value)


def test_block_counts_cover_the_circle():
    counts = block_counts(np.random.default_rng(0), 7, 7, 50)
    assert (counts == 1).all()  # one block of all periods is the sample itself
    single = block_counts(np.random.default_rng(0), 200, 1, 400)
    assert single.mean() == 1.0 and single.var() == pytest.approx(1.0, abs=0.05)


def test_bad_arguments_are_named(panel, model):
    with pytest.raises(InputError, match="NadarayaWatsonRegressor"):
        bootstrap_network(NadarayaWatsonRegressor().fit(panel.X, panel.y), panel.X, panel.y)
    early = panel.X.index.get_level_values("period") <= panel.network.periods[2]
    signed = CovariancePeerRegressor().fit(panel.X[early], panel.y[early])
    with pytest.raises(InputError, match="learned softmax weights, got CovariancePeerRegressor"):
        bootstrap_network(signed, panel.X[early], panel.y[early])
    with pytest.raises(InputError, match="block_length: expected 1 to 16"):
        bootstrap_network(model, panel.X, panel.y, block_length=17)
    with pytest.raises(InputError, match="n_draws: expected at least 1"):
        bootstrap_network(model, panel.X, panel.y, n_draws=0)
    with pytest.raises(InputError, match="four periods"):
        bootstrap_network(model, panel.X[early], panel.y[early])
    with pytest.raises(InputError, match="share"):
        bootstrap_network(model, panel.X, panel.y, n_draws=1).spread(1.0)


def test_heads_that_add_nothing_have_no_bootstrap(panel, monkeypatch):
    noise = pd.Series(np.random.default_rng(0).normal(size=len(panel.y)), panel.y.index, name="y")
    with monkeypatch.context() as patch:
        patch.setattr("peerattn.models.learners.heads.selection.LaterRows.factor", lambda *_: 0.0)
        model = PeerAttentionRegressor(**OPTIONS).fit(panel.X, noise)
    assert not model.heads_["importance"].any()
    with pytest.raises(InputError, match="its heads add nothing"):
        bootstrap_network(model, panel.X, noise)


@pytest.mark.usefixtures("heads_in_full")
@pytest.mark.parametrize("name", ["sample_weight", "loss_weight"])
def test_a_model_of_weighed_rows_is_not_refitted_without_their_weights(panel, fewest, name):
    weight = pd.Series(np.arange(len(panel.X)) % 4, panel.X.index)
    with fewest():
        model = PeerAttentionRegressor(**OPTIONS).fit(panel.X, panel.y, **{name: weight})
    with pytest.raises(InputError, match="sample_weight= or loss_weight=, which refits do not support"):
        bootstrap_network(model, panel.X, panel.y, n_draws=3)
