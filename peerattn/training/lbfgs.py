"""L-BFGS on all rows at once, for losses of which each of several processes may have a part."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from peerattn.training.adam import gradients


def minimise_by_lbfgs(parameters: Iterable[Tensor], loss: Callable[[], Tensor], steps: int) -> None:
    """Minimise a loss in place by at most so many steps of L-BFGS (Liu and Nocedal 1989)."""
    free = [parameter for parameter in parameters if parameter.requires_grad]
    shapes = [parameter.numel() for parameter in free]

    def place(flat: np.ndarray) -> None:
        parts = torch.as_tensor(flat, dtype=free[0].dtype).split(shapes)
        with torch.no_grad():
            for parameter, part in zip(free, parts, strict=True):
                parameter.copy_(part.view_as(parameter))

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        place(flat)
        now = loss()
        slope = torch.cat([g.flatten() for g in gradients(now, free)])
        return float(now.detach()), slope.double().cpu().numpy()

    start = torch.cat([parameter.detach().flatten() for parameter in free]).double().cpu().numpy()
    options = {"maxiter": steps, "maxcor": 20}
    place(minimize(value, start, jac=True, method="L-BFGS-B", options=options).x)
