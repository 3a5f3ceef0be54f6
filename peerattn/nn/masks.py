"""Which rows may attend to which: boolean masks, True = may attend. Combine them with ``&``."""

import torch
from torch import Tensor

from peerattn.exceptions import check_at_least, expect


def causal_mask(n_queries: int, n_keys: int | None = None, *, device: torch.device | None = None) -> Tensor:
    """Return a mask under which a row attends to itself and to what came before.

    Parameters
    ----------
    n_queries : int
        Rows that attend: the last ``n_queries`` of the keys.
    n_keys : int, default None
        Rows that are attended to; None: ``n_queries``. More keys than queries is what a cache of earlier rows needs.
    device : torch.device, default None

    Returns
    -------
    bool Tensor, shape (n_queries, n_keys)

    Raises
    ------
    InputError
        When there are fewer keys than queries.

    Examples
    --------
    >>> causal_mask(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    n_keys = _keys_of(n_queries, n_keys)
    return torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(n_keys - n_queries)


def padding_mask(lengths: Tensor, n_keys: int | None = None) -> Tensor:
    """Return a mask that leaves out what only fills a batch up to its longest sequence.

    Parameters
    ----------
    lengths : Tensor of int, shape (batch,)
        True lengths; what follows is padding.
    n_keys : int, default None
        Padded length; None: the longest.

    Returns
    -------
    bool Tensor, shape (batch, 1, 1, n_keys)
        Broadcasts over heads and queries.

    Examples
    --------
    >>> padding_mask(torch.tensor([1, 3]))[:, 0, 0]
    tensor([[ True, False, False],
            [ True,  True,  True]])
    """
    whole = lengths.dtype in (torch.int64, torch.int32)
    expect(whole and lengths.ndim == 1, "lengths", "whole numbers in one dimension", f"{lengths.dtype}, {tuple(lengths.shape)}")
    if n_keys is None:
        n_keys = max(lengths.tolist(), default=0)
    return (torch.arange(n_keys, device=lengths.device) < lengths[:, None])[:, None, None, :]


def local_mask(n_queries: int, window: int, n_keys: int | None = None, *, device: torch.device | None = None) -> Tensor:
    """Return a mask under which a row attends to at most ``window`` rows on either side, and to itself.

    Parameters
    ----------
    n_queries, window : int
    n_keys : int, default None
        As in `causal_mask`.
    device : torch.device, default None

    Returns
    -------
    bool Tensor, shape (n_queries, n_keys)

    Raises
    ------
    InputError
        When the window is negative, or there are fewer keys than queries.

    Examples
    --------
    >>> (local_mask(4, 1) & causal_mask(4)).int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [0, 1, 1, 0],
            [0, 0, 1, 1]], dtype=torch.int32)
    """
    check_at_least(0, window=window)
    n_keys = _keys_of(n_queries, n_keys)
    place = torch.arange(n_keys, device=device)
    return (place[n_keys - n_queries :, None] - place).abs() <= window


def block_mask(groups: Tensor) -> Tensor:
    """Return a mask under which a row attends to the rows of its own group.

    Parameters
    ----------
    groups : Tensor, shape (..., n)
        The group of every row, for example which of several packed texts a token belongs to.

    Returns
    -------
    bool Tensor, shape (..., n, n)

    Examples
    --------
    >>> block_mask(torch.tensor([0, 0, 1])).int()
    tensor([[1, 1, 0],
            [1, 1, 0],
            [0, 0, 1]], dtype=torch.int32)
    """
    return groups[..., :, None] == groups[..., None, :]


def _keys_of(n_queries: int, n_keys: int | None) -> int:
    """Return the number of keys, by default that of the queries, which are the last of them."""
    if n_keys is None:
        n_keys = n_queries
    check_at_least(0, n_queries=n_queries)
    expect(n_keys >= n_queries, "n_keys", f"at least n_queries={n_queries}", n_keys)
    return n_keys
