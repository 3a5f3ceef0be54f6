"""Attention within a window, in time and memory linear in the rows."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from peerattn.exceptions import InputError
from peerattn.nn.attention import attention


def local_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    window: int,
    *,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: None = None,
    scale: float | None = None,
) -> Tensor:
    r"""Return what `attention` does with `local_mask`, without that mask: exact, block by block.

    .. math:: o_i = \sum_{j : |i - j| \le w} \alpha_{ij} v_j, \qquad j \le i \text{ where causal}

    Parameters
    ----------
    query : Tensor, shape (..., n, d)
    key : Tensor, shape (..., n, d)
    value : Tensor, shape (..., n, d_value)
    window : int
        :math:`w`, rows on either side of a row's own that it may attend to.
    causal : bool, default False
        Whether a row attends to itself and to rows before it only.
    mask : bool Tensor broadcastable to (..., 1, n), default None
        Of keys: True = may be attended to.
    bias : None
        A bias of all pairs cannot be taken.
    scale : float, default None
        As in `attention`.

    Returns
    -------
    Tensor, shape (..., n, d_value)

    Raises
    ------
    InputError
        When the window is less than one, queries and keys are not the same rows, or there is a bias.

    Notes
    -----
    Takes O(n w d) time and O(n (w + d)) memory. Rows are cut into blocks of w, and each block attends to itself and its
    neighbours.

    References
    ----------
    Beltagy, Peters and Cohan (2020), Longformer: the long-document transformer, section 3.1.

    Examples
    --------
    >>> x = torch.arange(5.0)[:, None]
    >>> local_attention(0 * x, 0 * x, x, window=1).flatten()  # means of neighbours
    tensor([0.5000, 1.0000, 2.0000, 3.0000, 3.5000])
    """
    n = query.shape[-2]
    if window < 1:
        raise InputError(f"window: expected a number of rows of at least 1, got {window}.")
    if bias is not None:
        raise InputError("bias: attention within a window takes none; use attention with local_mask.")
    if key.shape[-2] != n:
        raise InputError(f"key: expected the rows of the queries ({n}), got {key.shape[-2]}.")
    w = min(window, n)
    n_blocks, n_near = math.ceil(n / w), 2 * w if causal else 3 * w
    lead = torch.broadcast_shapes(*(x.shape[:-2] for x in (query, key, value)))
    filled = n_blocks * w - n  # up to whole blocks
    around = (w, filled + n_near - 2 * w)

    def blocks(x: Tensor) -> Tensor:  # (n_blocks, all leading, rows, d)
        return x.movedim(-3, 0).reshape(n_blocks, math.prod(lead), *x.shape[-2:])

    def near(x: Tensor) -> Tensor:  # (..., n, d) -> (..., n_blocks, n_near, d)
        padded = F.pad(x.expand(*lead, *x.shape[-2:]), (0, 0, *around))
        return padded.unfold(-2, n_near, w).mT

    focal = F.pad(query.expand(*lead, *query.shape[-2:]), (0, 0, 0, filled)).unflatten(-2, (n_blocks, w))
    row, column = (torch.arange(size, device=query.device) for size in (w, n_near))
    distance = column - w - row[:, None]  # of key from query
    there = F.pad(torch.ones(n, dtype=torch.bool, device=query.device), around).unfold(0, n_near, w)
    may = ((distance.abs() <= w) & (distance <= (0 if causal else w))) & there[
        :, None
    ]  # (n_blocks, w, n_near)
    may = may[:, None]
    if mask is not None:
        allowed = F.pad(mask.expand(*lead, 1, n), around).unfold(-1, n_near, w)  # (..., 1, n_blocks, n_near)
        may = may & blocks(allowed.transpose(-2, -3))
    found = attention(blocks(focal), blocks(near(key)), blocks(near(value)), mask=may, scale=scale)
    found = found.reshape(n_blocks, *lead, w, -1).movedim(0, -3)
    return found.flatten(-3, -2)[..., :n, :]
