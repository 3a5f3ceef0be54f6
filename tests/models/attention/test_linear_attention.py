"""Linear attention is a ridge on learned features: exact leave-one-out, signed weights that reproduce the prediction."""

import numpy as np
import pandas as pd
import pytest
import torch

from peerattn.datasets import simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import PeerAttentionRegressor
from peerattn.models.attention.batches import row_tensors
from peerattn.models.attention.linear_attention import BOUND

OPTIONS = {"values": "outcomes", "similarity": "linear", "max_steps": 15, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    panel = simulate_panel(30, 9, 3, n_industries=4, random_state=1)
    model = PeerAttentionRegressor(own="none", prune=False, codes=["industry"], **OPTIONS)
    return model.fit(panel.X, panel.y), panel.X, panel.y


def test_prediction_is_the_ridge_without_the_own_row(fitted):
    model, X, y = fitted
    panel, sections = model._gate_call(X, y)
    section = list(sections)[4]
    module = model.members_[0].module()
    z = module.features(row_tensors(section.peers, torch.float64))[0].numpy()
    penalty, known = float(module.log_penalty.exp()), section.peers.y
    precision = np.exp(BOUND * np.tanh(section.peers.x @ module.log_precision.numpy() / BOUND))
    precision /= precision.mean()
    assert precision.std() > 0.01
    expected = []
    for i in range(len(z)):
        others = np.arange(len(z)) != i
        weighted = z[others].T * precision[others]
        gram = weighted @ z[others] + penalty * np.eye(z.shape[1])
        expected.append(z[i] @ np.linalg.solve(gram, weighted @ known[others]))
    expected = np.array(expected) * float(module.slope[0]) * model.y_scale_ + model.y_center_
    predicted = model.predict(X, outcomes=y).to_numpy()[panel.order][section.at]
    np.testing.assert_allclose(predicted, expected, atol=1e-10)


def test_signed_network_reproduces_the_prediction(fitted):
    model, X, y = fitted
    network = model.peer_network(X, outcomes=y)
    assert network.signed
    W = network.matrix("2000-05")
    month = y.xs(network.periods[4], level="period").loc[W.columns]
    expected = W.to_numpy() @ (month.to_numpy() - model.y_center_) + model.y_center_
    predicted = model.predict(X, outcomes=y).xs(network.periods[4], level="period").loc[W.index]
    np.testing.assert_allclose(predicted, expected, atol=1e-10)
    assert np.abs(np.diag(W)).max() == 0


def test_noisy_firms_count_less():
    """Outcomes of firms with a high first characteristic are noise: the precision falls in it, and predictions gain."""
    panel = simulate_panel(80, 24, 2, n_industries=4, random_state=2)
    rng = np.random.default_rng(0)
    month = panel.X.index.get_level_values("period")
    common = pd.Series(rng.normal(size=len(month.unique())), index=month.unique())
    x = panel.X.select_dtypes("number").to_numpy()
    y = common.reindex(month).to_numpy() * x[:, 1] + np.exp(1.5 * x[:, 0]) * rng.normal(size=len(x))
    model = PeerAttentionRegressor(
        own="none", prune=False, **{**OPTIONS, "max_steps": 300}, learning_rate=0.02
    )
    model.fit(panel.X, pd.Series(y, index=panel.X.index), loss_weight=np.exp(-3 * x[:, 0]))
    gamma = model.members_[0].module().log_precision.numpy()
    assert gamma[0] < -0.5 and abs(gamma[1]) < abs(gamma[0]) / 2


def test_own_outcome_does_not_count(fitted):
    model, X, y = fitted
    changed = y.copy()
    changed.iloc[7] += 5
    before, after = model.predict(X, outcomes=y), model.predict(X, outcomes=changed)
    assert abs(before.iloc[7] - after.iloc[7]) < 1e-12
    assert (before - after).abs().max() > 1e-3


@pytest.mark.parametrize(
    "option",
    [
        {"values": "characteristics"},
        {"n_layers": 2},
        {"symmetric_scores": True},
        {"loss": "huber"},
        {"own_group": "industry"},
    ],
)
def test_options_that_do_not_go_together(fitted, option):
    _, X, y = fitted
    with pytest.raises(InputError, match=f'similarity="linear" and {next(iter(option))}='):
        PeerAttentionRegressor(**{**OPTIONS, **option}).fit(X, y)


def test_takes_no_frequency_weights(fitted):
    _, X, y = fitted
    with pytest.raises(InputError, match="takes no sample_weight"):
        PeerAttentionRegressor(**OPTIONS).fit(X, y, sample_weight=np.ones(len(y)))


def test_whether_the_own_outcome_is_known_does_not_count(fitted):
    model, X, y = fitted
    unknown = y.copy()
    unknown.iloc[7] = np.nan
    before, after = model.predict(X, outcomes=y), model.predict(X, outcomes=unknown)
    assert abs(before.iloc[7] - after.iloc[7]) < 1e-10
    assert (before - after).abs().max() > 1e-4


def test_outcomes_that_do_not_vary(fitted):
    _, X, y = fitted
    model = PeerAttentionRegressor(own="none", prune=False, **OPTIONS).fit(X, y * 0 + 2.5)
    np.testing.assert_allclose(model.predict(X, outcomes=y * 0 + 2.5), 2.5, atol=1e-8)
