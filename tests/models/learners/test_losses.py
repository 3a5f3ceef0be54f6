"""Losses are their formulas; heads learn on minus half their gradient."""

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from sklearn.metrics import mean_pinball_loss

from peerattn.datasets import simulate_panel
from peerattn.models import PeerAttentionRegressor
from peerattn.models.learners.losses import (
    HUBER_THRESHOLD,
    Pinball,
    cross_entropy,
    huber,
    observed,
    squared_error,
    working_residual,
)


def test_losses_are_their_formulas():
    y = torch.tensor([[0.0, 1.0, -3.0]], dtype=torch.float64)
    f = torch.tensor([[[0.5], [1.0], [1.0]]], dtype=torch.float64)
    c = HUBER_THRESHOLD
    assert torch.allclose(squared_error(f, y), torch.tensor([[0.25, 0.0, 16.0]], dtype=torch.float64))
    assert torch.allclose(huber(f, y), torch.tensor([[0.25, 0.0, c * (2 * 4 - c)]], dtype=torch.float64))
    assert torch.allclose(Pinball(0.9)(f, y), torch.tensor([[0.05, 0.0, 0.4]], dtype=torch.float64))
    labels, logits = torch.tensor([[1.0]]), torch.tensor([[[0.3]]])
    assert cross_entropy(logits, labels).item() == pytest.approx(np.log1p(np.exp(-0.3)), abs=1e-6)


@pytest.mark.parametrize("shape", [(7,), (2, 5)])
def test_cross_entropy_of_several_classes(shape):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(*shape, 3)), rng.integers(0, 3, size=shape)
    expected = -np.log(np.take_along_axis(softmax(logits, -1), labels[..., None], -1))[..., 0]
    found = cross_entropy(torch.tensor(logits), torch.tensor(labels, dtype=torch.float64))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_working_residuals_are_what_is_left():
    rng = np.random.default_rng(0)
    offset, y = rng.normal(size=(6, 1)), rng.normal(size=6)
    y[2] = np.nan
    rest = y - offset[:, 0]
    np.testing.assert_allclose(working_residual(squared_error, offset, y), rest)
    np.testing.assert_allclose(
        working_residual(huber, 9 * offset, y),
        np.clip(y - 9 * offset[:, 0], -HUBER_THRESHOLD, HUBER_THRESHOLD),
    )
    np.testing.assert_allclose(
        working_residual(Pinball(0.2), offset, y)[~np.isnan(y)],
        np.where(rest[~np.isnan(y)] > 0, 0.1, -0.4),
    )
    np.testing.assert_allclose(observed(huber, offset, y), rest)  # peers show outcomes, not gradients
    up = np.array([1.0, 0.0, np.nan])
    np.testing.assert_allclose(observed(cross_entropy, offset[:3], up), up - expit(offset[:3, 0]))
    three, label = rng.normal(size=(3, 3)), np.array([2.0, np.nan, 0.0])
    expected = np.eye(3)[[2, 1, 0]] - softmax(three, 1)
    expected[1] = np.nan
    np.testing.assert_allclose(observed(cross_entropy, three, label), expected)


def test_pinball_predicts_the_quantile(train_heads):
    """In its sample, whether heads enter or not; heads are added as far as they lower the loss."""
    train_heads(3, 100)
    quantile = 0.1
    panel, losses = simulate_panel(40, 30, 3, signal_share=0.8, d_head=2, random_state=3), []
    for n_heads in (0, 1):
        model = PeerAttentionRegressor(loss=quantile, n_heads=n_heads, kappa=None, random_state=0)
        predicted = model.fit(panel.X, panel.y).predict(panel.X)
        losses.append(mean_pinball_loss(panel.y, predicted, alpha=quantile))
        assert (panel.y <= predicted).mean() == pytest.approx(quantile, abs=0.01)
    assert losses[1] < 0.97 * losses[0]
