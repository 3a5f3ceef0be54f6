"""L-BFGS in place, beside the solution of least squares."""

import numpy as np
import pytest
import torch

from peerattn.training.lbfgs import minimise_by_lbfgs


@pytest.fixture
def problem():
    generator = torch.Generator().manual_seed(0)
    X, y = (torch.randn(40, k, generator=generator, dtype=torch.float64) for k in (5, 2))
    return X, y, torch.zeros(5, 2, dtype=torch.float64, requires_grad=True)


def test_least_squares_are_solved_in_place(problem):
    X, y, b = problem
    first, second = b[:3].detach().requires_grad_(), b[3:].detach().requires_grad_()
    minimise_by_lbfgs([first, second], lambda: (y - X[:, :3] @ first - X[:, 3:] @ second).square().sum(), 100)
    want = np.linalg.lstsq(X.numpy(), y.numpy(), rcond=None)[0]
    np.testing.assert_allclose(torch.cat([first, second]).detach().numpy(), want, atol=1e-4)


def test_what_takes_no_gradient_stays_and_steps_are_counted(problem):
    X, y, b = problem
    fixed = torch.ones(2, dtype=torch.float64)
    loss = lambda: (y - X @ b - fixed).square().sum()  # noqa: E731
    errors = [float(loss().detach())]
    for _ in range(3):
        minimise_by_lbfgs([b, fixed], loss, 1)
        errors.append(float(loss().detach()))
    assert fixed.tolist() == [1, 1]
    assert errors[0] > errors[1] > errors[2] > errors[3]
    few, many = b.detach().clone(), b.detach().clone().requires_grad_()
    minimise_by_lbfgs([many], lambda: (y - X @ many - fixed).square().sum(), 100)
    assert not torch.equal(few, many.detach())
