"""Coefficients of least penalised loss where the loss has no closed form: Newton's method, or L-BFGS where they are many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from peerattn.models.attention.losses import Loss, Pinball, curvature, gradient
from peerattn.processes import all_sum

CONSTANT = 1e-3  # penalty on the constant where losses have no closed form: rows may lack a class
MOST_ITERATIONS = 500
SMOOTH = (0.3, 0.03, 3e-3, 3e-4)  # of the pinball loss, in standard deviations of the outcome
MOST_NEWTON = 200  # coefficients of Newton's method; L-BFGS takes more of them


def minimised(
    z: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    loss: Loss,
    n_outputs: int,
    penalty: float = 0.0,
    offset: np.ndarray | None = None,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Return the coefficients (p, K) of least penalised loss, ``Σ w loss(offset + z'b, y) + c b_0² + λ Σ_{k>0} b_k²``.

    The sum runs over the rows of all processes. By Newton's method from ``start``, or L-BFGS where coefficients are many; a loss
    with a kink is made smooth, less and less.
    """
    width = 1 if np.isinf(penalty) else z.shape[1]
    Z, at = z[:, :width], np.zeros((len(y), n_outputs)) if offset is None else offset
    b = np.zeros((width, n_outputs)) if start is None else start[:width]
    shrink = np.r_[CONSTANT, np.full(width - 1, penalty)][:, None]
    target = torch.as_tensor(y)
    for each in [replace(loss, smooth=h) for h in SMOOTH] if isinstance(loss, Pinball) else [loss]:

        def value(b: np.ndarray, loss: Loss = each) -> float:
            total = float(weight @ loss(torch.as_tensor(at + Z @ b), target).numpy())
            return float(all_sum(total) + (shrink * b**2).sum())

        def slope(b: np.ndarray, loss: Loss = each) -> np.ndarray:
            down: np.ndarray = (
                all_sum(Z.T @ (weight[:, None] * gradient(loss, at + Z @ b, y))) + 2 * shrink * b
            )
            return down

        def hessian(b: np.ndarray, loss: Loss = each) -> np.ndarray:
            return _hessian(Z, weight, curvature(loss, at + Z @ b, y), shrink)

        if width * n_outputs <= MOST_NEWTON:
            b = newton(b, value, slope, hessian)
        else:
            b = _limited_memory(b, value, slope, all_sum(weight.sum()))
    found = np.zeros((z.shape[1], n_outputs))
    found[:width] = b
    return found


def _hessian(z: np.ndarray, weight: np.ndarray, bend: np.ndarray, shrink: np.ndarray) -> np.ndarray:
    """Return ``Σ w z z' ⊗ bend + 2 diag(shrink)``, (p K, p K)."""
    p, K = z.shape[1], bend.shape[-1]
    found = np.empty((p, K, p, K))
    for k in range(K):
        for m in range(k, K):
            found[:, k, :, m] = found[:, m, :, k] = z.T @ (z * (weight * bend[:, k, m])[:, None])
    total: np.ndarray = all_sum(found.reshape(p * K, p * K))
    return total + np.diag(np.repeat(2 * shrink[:, 0], K))


def newton(
    b: np.ndarray,
    value: Callable[[np.ndarray], float],
    slope: Callable[[np.ndarray], np.ndarray],
    hessian: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Return the minimum of a convex function: Newton steps, halved until the value falls enough (Armijo 1966)."""
    least = value(b)
    for _ in range(MOST_ITERATIONS):
        down = slope(b)
        step = np.linalg.solve(hessian(b), down.ravel()).reshape(b.shape)
        fall, size = float((down * step).sum()), 1.0
        if fall <= 1e-12 * abs(least):  # the values no longer tell; one more step is exact
            return b - step
        while (tried := value(b - size * step)) > least - 1e-4 * size * fall and size > 1e-8:
            size /= 2
        b, least = (b - size * step, tried) if tried <= least else (b, least)
        if size <= 1e-8:
            break
    return b


def _limited_memory(
    b: np.ndarray,
    value: Callable[[np.ndarray], float],
    slope: Callable[[np.ndarray], np.ndarray],
    size: float,
) -> np.ndarray:
    """Return the minimum by L-BFGS; ``size`` scales the function."""
    found = torch.tensor(b, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [found],
        max_iter=MOST_ITERATIONS,
        tolerance_grad=1e-12,
        tolerance_change=1e-15,
        line_search_fn="strong_wolfe",
    )

    def closure() -> torch.Tensor:
        at = found.detach().numpy()
        found.grad = torch.as_tensor(slope(at) / size)
        return torch.tensor(value(at) / size, dtype=found.dtype)

    optimizer.step(closure)
    return found.detach().numpy()
