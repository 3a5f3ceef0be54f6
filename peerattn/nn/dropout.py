"""Dropout from its own generator."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from peerattn.exceptions import InputError


class Dropout(nn.Module):
    r"""Set a share p of the entries to zero in training, and divide the others by 1 − p.

    Parameters
    ----------
    p : float
        Share, in [0, 1).
    generator : torch.Generator, default None
        Gives the seed of the layer's own generator, only if p > 0; None: seed 0.

    Raises
    ------
    InputError
        When p is outside [0, 1).

    Notes
    -----
    `torch.nn.Dropout` draws from torch's global generator; this does not, so that a fit repeats itself.

    References
    ----------
    Srivastava et al. (2014), Dropout: a simple way to prevent neural networks from overfitting, JMLR 15.

    Examples
    --------
    >>> dropout = Dropout(0.5)
    >>> sorted({round(x, 1) for x in dropout(torch.ones(100)).tolist()})
    [0.0, 2.0]
    >>> dropout.eval()(torch.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, p: float, *, generator: torch.Generator | None = None):
        super().__init__()
        if not 0 <= p < 1:
            raise InputError(f"dropout: expected a share of at least 0 and below 1, got {p}.")
        self.p = p
        drawn = p > 0 and generator is not None
        self.seed = int(torch.randint(2**31, (), generator=generator, device="cpu")) if drawn else 0
        self._generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return x with entries dropped in training mode, x itself otherwise."""
        if not self.training or self.p == 0:
            return x
        if self._generator is None or self._generator.device != x.device:
            self._generator = torch.Generator(x.device).manual_seed(self.seed)
        keep = torch.empty_like(x).bernoulli_(1 - self.p, generator=self._generator)
        return x * keep.div_(1 - self.p)
