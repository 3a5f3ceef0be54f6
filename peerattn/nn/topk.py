"""The strongest peers of many rows, without ever holding all pairs."""

import math

import torch
from torch import Tensor

from peerattn.exceptions import check_at_least, expect
from peerattn.nn.attention import scale_of


@torch.no_grad()
def top_k_weights(
    query: Tensor,
    key: Tensor,
    k: int,
    *,
    exclude: tuple[Tensor, Tensor] | None = None,
    head_share: Tensor | None = None,
    scale: float | None = None,
    block_size: int = 2**21,
) -> tuple[Tensor, Tensor]:
    r"""Return every query's k largest attention weights, averaged over heads, and the keys they belong to.

    .. math:: \alpha_{ij} = \sum_h \pi_h
              \frac{\exp(s\, q^{h\prime}_i k^h_j)}{\sum_{l \in \text{pool}(i)} \exp(s\, q^{h\prime}_i k^h_l)}

    Parameters
    ----------
    query : Tensor, shape (n_queries, d) or (n_heads, n_queries, d)
        What each row looks for.
    key : Tensor, shape (n_keys, d) or (n_heads, n_keys, d)
        How each row presents itself.
    k : int
        How many keys to return per query.
    exclude : (Tensor, Tensor) of int, shapes (n_queries,) and (n_keys,), default None
        Own ids of queries and keys: a query never attends to a key with its own id. None: the pool is all keys.
    head_share : Tensor, shape (n_heads,), default None
        :math:`\pi`, what each head counts; None: all alike.
    scale : float, default None
        :math:`s`; None means :math:`1/\sqrt{d}`.
    block_size : int, default 2**21
        Number of scores held at once; queries are taken in blocks of ``block_size // n_keys`` (at least one).

    Returns
    -------
    weights : Tensor, shape (n_queries, min(k, n_keys))
        In falling order. Denominators are exact: they sum over the whole pool, not over the k.
    keys : Tensor of int64, shape (n_queries, min(k, n_keys))
        Row numbers in ``key``. Where a pool has fewer than k keys, the weight is 0 and the number -1.

    Raises
    ------
    InputError
        When shapes do not fit or k is less than one.

    Notes
    -----
    Takes O(n_heads n_queries n_keys d) time and O(block_size + n_queries k) memory. No gradient flows.

    Examples
    --------
    >>> x = torch.tensor([[0.0], [1.0], [2.0]])
    >>> own = torch.arange(3)
    >>> weights, keys = top_k_weights(x, x, 1, exclude=(own, own), scale=1.0)
    >>> keys.flatten(), weights.flatten()
    (tensor([1, 2, 1]), tensor([0.5000, 0.8808, 0.8808]))
    """
    _check(query, key, k, exclude, head_share, block_size)
    if query.ndim == 2:
        query = query[None]  # (H, N, d)
        key = key[None]
    scale = scale_of(query, scale)
    dtype = torch.promote_types(query.dtype, torch.float32)
    n_heads, n_queries, n_keys = *query.shape[:2], key.shape[1]
    if head_share is None:
        head_share = query.new_full((n_heads,), 1 / n_heads)
    query = query.to(dtype) * scale
    columns = key.to(dtype).mT.contiguous()  # (H, d, Nk)
    weights = query.new_zeros(n_queries, min(k, n_keys))
    keys = torch.full(weights.shape, -1, device=query.device)
    if n_keys == 0:
        return weights, keys
    if exclude is None:  # ids of nobody
        exclude = (query.new_empty(0), query.new_empty(0))
    known = exclude[1].sort()
    step = max(1, block_size // n_keys)
    for start in range(0, n_queries, step):
        block = slice(start, start + step)
        own = equal_ids(exclude[0][block], *known)
        mean = query.new_zeros(())
        for head, part in enumerate(head_share.tolist()):
            scores = query[head, block] @ columns[head]  # (b, Nk); changed in place
            scores[own] = -math.inf
            least = torch.finfo(dtype).min  # finite in an empty pool
            # the softmax needs its sum over all keys, though few are kept
            largest = scores.amax(1, keepdim=True).clamp_min(least)
            exps = scores.sub_(largest).exp_()
            factor = part / exps.sum(1, keepdim=True).clamp_min(torch.finfo(dtype).tiny)
            mean = exps.mul_(factor) if head == 0 else mean.addcmul_(exps, factor)
        best, found = mean.topk(weights.shape[1])
        weights[block] = best
        # fewer candidates than k: no key
        keys[block] = found.where(best > 0, -1)
    return weights, keys


def equal_ids(ids: Tensor, sorted_ids: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows and keys of equal ids, in time linear in their number."""
    first, last = (torch.searchsorted(sorted_ids, ids, right=right) for right in (False, True))
    rows = torch.arange(len(ids), device=ids.device).repeat_interleave(last - first)
    places = torch.arange(len(rows), device=ids.device) + (last - (last - first).cumsum(0))[rows]
    return rows, order[places]


def _check(query: Tensor, key: Tensor, k: int, exclude: tuple[Tensor, Tensor] | None, share: Tensor | None, size: int) -> None:
    heads = query.shape[:-2]
    matching = query.ndim in (2, 3) and key.shape[:-2] == heads and query.shape[-1] == key.shape[-1]
    came = f"{tuple(query.shape)} and {tuple(key.shape)}"
    expect(matching, "query and key", "two matrices of one width, or as many for each head", came)
    check_at_least(1, k=k, block_size=size)
    n_queries = query.shape[-2]
    n_keys = key.shape[-2]
    if exclude is not None:
        shapes = [tuple(ids.shape) for ids in exclude]
        wanted = f"one id per query ({n_queries}) and per key ({n_keys})"
        expect(shapes == [(n_queries,), (n_keys,)], "exclude", wanted, f"shapes {shapes[0]} and {shapes[1]}")
    if share is not None:
        n_heads = math.prod(heads)
        shape = tuple(share.shape)
        expect(shape == (n_heads,), "head_share", f"one number per head ({n_heads})", f"shape {shape}")
