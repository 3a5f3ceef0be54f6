"""The least penalised loss of own models, by Newton's method, beside moves away from it and beside statsmodels."""

import numpy as np
import pytest
import torch
from statsmodels.regression.quantile_regression import QuantReg

from peerattn.models.attention import convex
from peerattn.models.attention.convex import minimised
from peerattn.models.attention.losses import Pinball, cross_entropy, huber


@pytest.mark.parametrize("loss, n_outputs", [(cross_entropy, 1), (cross_entropy, 3), (huber, 1)])
@pytest.mark.parametrize("penalty", [1.0, np.inf])
def test_the_minimum_is_one(loss, n_outputs, penalty):
    """No direction leads down from it, and neither the start nor the way there matters."""
    rng = np.random.default_rng(0)
    z, weight = np.c_[np.ones(60), rng.normal(size=(60, 3))], rng.uniform(size=60)
    y = rng.integers(0, n_outputs + (n_outputs == 1), 60) + (
        0.0 if loss is cross_entropy else rng.standard_t(2, 60)
    )
    offset, far = 0.3 * rng.normal(size=(60, n_outputs)), rng.normal(size=(4, n_outputs))

    def value(b):
        losses = loss(torch.as_tensor(offset + z @ b), torch.as_tensor(y)).numpy()
        return (
            weight @ losses
            + 1e-3 * (b[0] ** 2).sum()
            + (0 if np.isinf(penalty) else penalty * (b[1:] ** 2).sum())
        )

    found = [minimised(z, y, weight, loss, n_outputs, penalty, offset, start) for start in (None, far)]
    moves = rng.normal(size=(200, 4, n_outputs)) * np.logspace(-4, 0, 200)[:, None, None]
    moves[:, 1:] *= np.isfinite(penalty)
    assert all(value(found[0]) <= value(found[0] + move) + 1e-12 for move in moves)
    assert value(found[1]) == pytest.approx(value(found[0]), abs=1e-11)
    assert (found[0][1:] == 0).all() == np.isinf(penalty)


def test_many_coefficients_reach_the_same_minimum(monkeypatch):
    rng = np.random.default_rng(0)
    z, y = np.c_[np.ones(80), rng.normal(size=(80, 4))], rng.integers(0, 3, 80).astype(float)
    newton = minimised(z, y, np.ones(80), cross_entropy, 3, 1.0)
    monkeypatch.setattr(convex, "MOST_NEWTON", 0)
    np.testing.assert_allclose(minimised(z, y, np.ones(80), cross_entropy, 3, 1.0), newton, atol=1e-6)


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
def test_a_quantile_regression_is_that_of_statsmodels(quantile):
    rng = np.random.default_rng(0)
    z = np.c_[np.ones(300), rng.normal(size=(300, 2))]
    y = z @ [0.3, 1.0, -0.5] + rng.standard_t(3, 300)
    expected = QuantReg(y, z).fit(q=quantile, max_iter=5000, p_tol=1e-9).params
    found = minimised(z, y, np.ones(300), Pinball(quantile), 1, 1e-3)[:, 0]
    np.testing.assert_allclose(found, expected, atol=0.01)

    def loss(b):
        return float(Pinball(quantile)(torch.as_tensor(z @ b[:, None]), torch.as_tensor(y)).sum())

    assert loss(found) == pytest.approx(loss(expected), rel=1e-5)
    errors = torch.tensor([[-0.5], [-0.05], [0.0], [0.08], [2.0]], dtype=torch.float64)
    smooth, exact = (Pinball(quantile, h)(-errors, torch.zeros(5, dtype=torch.float64)) for h in (0.1, 0.0))
    assert ((smooth - exact >= 0) & (smooth - exact <= 0.1 / 4 + 1e-15)).all() and smooth[0] == exact[0]
