"""Windows of series as patches in time, with attention within each column."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from peerattn.nn import Encoder, LearnedPositions, linear


class PatchEncoder(nn.Module):
    r"""Encode windows: neighbouring values form a patch, patches attend to each other.

    .. math:: z_{cp} = W x_{c,\,pk+1..pk+k} + b + t_p, \qquad h = \text{blocks}(z)

    Parameters
    ----------
    lookback : int
        Length of a window.
    patch : int
        Values in a patch, k. A window that is no multiple is filled up on the left with its first value.
    d_model, n_heads, n_layers : int
        Sizes of the blocks, which attend within each column.
    generator : torch.Generator, default None
    **options
        Further options of the blocks, ``dropout`` and ``attend`` among them; see `Encoder`.

    References
    ----------
    Nie et al. (2023), A time series is worth 64 words, ICLR.

    Examples
    --------
    >>> PatchEncoder(lookback=10, patch=4, d_model=8, n_heads=2, n_layers=1)(torch.zeros(5, 3, 10)).shape
    torch.Size([5, 3, 3, 8])
    """

    def __init__(
        self, lookback: int, patch: int, d_model: int, n_heads: int, n_layers: int, *,
        generator: torch.Generator | None = None, **options: Any,
    ):  # fmt: skip
        super().__init__()
        generator = torch.Generator() if generator is None else generator
        self.patch, self.n_patches = patch, math.ceil(lookback / patch)
        self.embed = linear(patch, d_model, generator=generator)
        self.positions = LearnedPositions(self.n_patches, d_model, generator=generator)
        self.blocks = Encoder(n_layers, d_model, n_heads, generator=generator, **options)

    def patches(self, windows: Tensor) -> Tensor:
        """Cut windows (..., lookback) into patches (..., n_patches, patch)."""
        missing = self.n_patches * self.patch - windows.shape[-1]
        first = windows[..., :1].expand(*windows.shape[:-1], missing)
        return torch.cat([first, windows], dim=-1).unflatten(-1, (self.n_patches, self.patch))

    def forward(self, windows: Tensor, *, hidden: Tensor | None = None) -> Tensor:
        """Return the rows of all patches, (batch, columns, n_patches, d_model), of windows (batch, columns, lookback).

        ``hidden``, vectors that broadcast to the result, with ``nan`` where a patch shows itself, replace patches. The
        weights of each layer are (batch, columns, heads, n_patches, n_patches).
        """
        rows = self.embed(self.patches(windows))
        if hidden is not None:
            rows = torch.where(hidden.isnan(), rows, hidden)
        return self.blocks(rows + self.positions(self.n_patches))


class PatchForecast(nn.Module):
    r"""The forecast of windows.

    .. math:: \hat x_{t+h} = x_t + \sum_l (x_{t-l} - x_t)\, \beta_{lh} + s_t\, u_h' \operatorname{vec}(\text{patches}(z_t)),
              \qquad z_t = (x_{t-L+1..t} - x_t) / s_t

    with s the standard deviation of the window. The line β is given and stays; u starts at zero.
    """

    line: Tensor

    def __init__(self, encoder: PatchEncoder, lookback: int, horizon: int, generator: torch.Generator):
        super().__init__()
        self.encoder = encoder
        self.register_buffer("line", torch.zeros(lookback, horizon))
        width = encoder.n_patches * encoder.embed.out_features
        self.head = linear(width, horizon, generator=generator)
        nn.init.zeros_(self.head.weight)

    def forward(self, windows: Tensor) -> Tensor:
        """Return (batch, columns, horizon) of windows (batch, columns, lookback)."""
        last = windows[..., -1:]
        centred = windows - last
        spread = (windows.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()  # kept off zero
        rows = self.encoder(centred / spread)
        return last + centred @ self.line + spread * self.head(rows.flatten(-2))
