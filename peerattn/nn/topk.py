"""The strongest peers of many rows, without ever holding all pairs."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from peerattn.exceptions import InputError

_CHUNK = 32  # keys whose largest score stands for all of them in the first round


@torch.no_grad()
def top_k_weights(
    query: Tensor,
    key: Tensor,
    k: int,
    *,
    exclude: tuple[Tensor, Tensor] | None = None,
    scale: float | None = None,
    block_size: int = 2**21,
) -> tuple[Tensor, Tensor]:
    r"""Return every query's k largest attention weights and the keys they belong to, for one head.

    .. math:: \alpha_{ij} = \frac{\exp(s\, q_i' k_j)}{\sum_{l \in \text{pool}(i)} \exp(s\, q_i' k_l)}

    Parameters
    ----------
    query : Tensor, shape (n_queries, d)
        What each row looks for.
    key : Tensor, shape (n_keys, d)
        How each row presents itself.
    k : int
        How many keys to return per query.
    exclude : (Tensor, Tensor) of int, shapes (n_queries,) and (n_keys,), default None
        Own ids of queries and keys: a query never looks at a key with its own id. None: the pool is all keys.
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
    Takes O(n_queries n_keys d) time and O(block_size + n_queries k) memory. No gradient flows. The k largest of a
    row are found among the k chunks of 32 keys with the largest maxima, which must contain them.

    Examples
    --------
    >>> x = torch.tensor([[0.0], [1.0], [2.0]])
    >>> own = torch.arange(3)
    >>> weights, keys = top_k_weights(x, x, 1, exclude=(own, own), scale=1.0)
    >>> keys.flatten(), weights.flatten()
    (tensor([1, 2, 1]), tensor([0.5000, 0.8808, 0.8808]))
    """
    _check(query, key, k, exclude)
    scale = 1 / math.sqrt(query.shape[1]) if scale is None else scale
    dtype = torch.promote_types(query.dtype, torch.float32)
    n_queries, n_keys = len(query), len(key)
    k = min(k, n_keys)
    query = query.to(dtype) * scale
    columns = F.pad(key.to(dtype), (0, 0, 0, -n_keys % _CHUNK)).T.contiguous()  # (d, Nk rounded up to chunks)
    pairs = None if exclude is None else _OwnPairs(*exclude)
    weights = query.new_zeros(n_queries, k)
    keys = torch.full((n_queries, k), -1, device=query.device)
    step = max(1, block_size // max(n_keys, 1))
    for start in range(0, n_queries, step):
        block = slice(start, start + step)
        scores = query[block] @ columns  # (b, Nk rounded up)
        scores[:, n_keys:] = -math.inf
        if pairs is not None:
            scores[pairs.of(block)] = -math.inf
        best, found = _top_k(scores, k)
        largest = best[:, :1].clamp_min(torch.finfo(dtype).min)  # finite where the pool is empty
        total = scores.sub_(largest).exp_().sum(1, keepdim=True)
        weights[block] = (best - largest).exp() / total.clamp_min(torch.finfo(dtype).tiny)
        keys[block] = found.where(best > -math.inf, -1)
    return weights, keys


def _top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest of each row and their columns, in falling order."""
    n_chunks = scores.shape[1] // _CHUNK
    if n_chunks <= 4 * k:
        best, found = scores.topk(k)
        return best, found
    chunks = scores.unflatten(1, (n_chunks, _CHUNK))  # (b, C, 32)
    chosen = chunks.amax(2).topk(k, sorted=False).indices  # (b, k)
    candidates = chunks.gather(1, chosen[..., None].expand(-1, -1, _CHUNK)).flatten(1)  # (b, 32 k)
    best, place = candidates.topk(k)
    return best, chosen.gather(1, place // _CHUNK) * _CHUNK + place % _CHUNK


class _OwnPairs:
    """Finds, for a block of queries, the (query, key) pairs of equal ids in time linear in their number."""

    def __init__(self, query_ids: Tensor, key_ids: Tensor):
        sorted_ids, self.order = key_ids.sort()
        self.first = torch.searchsorted(sorted_ids, query_ids)  # (Nq,)
        self.count = torch.searchsorted(sorted_ids, query_ids, right=True) - self.first  # (Nq,)

    def of(self, block: slice) -> tuple[Tensor, Tensor]:
        first, count = self.first[block], self.count[block]
        rows = torch.arange(len(count), device=count.device).repeat_interleave(count)
        within = torch.arange(len(rows), device=count.device) - (count.cumsum(0) - count)[rows]
        return rows, self.order[first[rows] + within]


def _check(query: Tensor, key: Tensor, k: int, exclude: tuple[Tensor, Tensor] | None) -> None:
    if query.ndim != 2 or key.ndim != 2 or query.shape[1] != key.shape[1]:
        raise InputError(
            f"query and key: expected two matrices of one width, got {tuple(query.shape)} and {tuple(key.shape)}. "
            "Pass one head at a time."
        )
    if k < 1:
        raise InputError(f"k: expected an integer of at least 1, got {k}.")
    if exclude is not None and (exclude[0].shape != query.shape[:1] or exclude[1].shape != key.shape[:1]):
        raise InputError(
            f"exclude: expected one id per query ({len(query)}) and per key ({len(key)}), "
            f"got shapes {tuple(exclude[0].shape)} and {tuple(exclude[1].shape)}."
        )
