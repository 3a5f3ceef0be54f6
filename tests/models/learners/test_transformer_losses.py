"""Losses of whole cross-sections against oracles."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from peerattn.models.learners.transformer_losses import (
    LEVERAGE,
    portfolio_returns,
    rank_correlation,
    sharpe_ratio,
    squared_error,
)


def draws(seed=0, B=4, n=30):
    g = torch.Generator().manual_seed(seed)
    y = torch.randn(B, n, 1, generator=g, dtype=torch.float64)
    f = y + torch.randn(B, n, 1, generator=g, dtype=torch.float64)
    weight = torch.ones(B, n, dtype=torch.float64)
    weight[0, 20:] = 0  # padding
    return f, y, weight


@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_the_softened_information_coefficient_is_near_the_exact_one(scale):
    f, y, weight = draws()
    exact = [spearmanr(a[w > 0, 0], b[w > 0, 0]).statistic for a, b, w in zip(f, y, weight, strict=True)]
    assert 1 - float(rank_correlation(scale * f, y, weight)) == pytest.approx(np.mean(exact), abs=0.02)


def test_the_information_coefficient_ignores_monotone_changes_of_outcomes_and_padding():
    f, y, weight = draws()
    found = rank_correlation(f, y, weight)
    torch.testing.assert_close(rank_correlation(f, y.exp() * 7, weight), found)
    f[0, 20:] = 99.0
    torch.testing.assert_close(rank_correlation(f, y, weight), found)
    one = rank_correlation(f[:, :1].requires_grad_(), y[:, :1], weight[:, :1])
    one.backward()
    assert torch.isfinite(one)


def test_the_least_sharpe_loss_is_the_tangency_portfolio():
    """Of fixed weights (one characteristic a firm): proportional to the inverse second moment times the mean."""
    returns = 0.2 + torch.randn(60, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([w], max_iter=100, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = sharpe_ratio(w.expand(60, 3)[..., None], returns[..., None], torch.ones(60, 3).double())
        value.backward()
        return value

    optimizer.step(loss)
    best = torch.linalg.solve(returns.T @ returns, returns.sum(0))
    torch.testing.assert_close(w.detach() / w.detach().norm(), best / best.norm(), atol=1e-4, rtol=1e-4)
    earned = portfolio_returns(w.detach().expand(60, 3)[..., None], returns[..., None], torch.ones(60, 3).double())
    torch.testing.assert_close(LEVERAGE * earned, returns @ best, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("common", [0.0, 0.4, 1e6])
def test_squared_errors_are_those_of_generalised_least_squares(common):
    f, y, weight = draws(B=1, n=6)
    error = (f - y)[0, :, 0].numpy()
    inverse = np.linalg.inv(np.eye(6) + common * np.ones((6, 6)))
    expected = error @ inverse @ error / 6
    assert float(squared_error(f, y, weight, common)) == pytest.approx(expected, rel=1e-5)
