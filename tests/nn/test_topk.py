"""Blocked top-k weights against the dense softmax."""

from __future__ import annotations

import pytest
import torch

from peerattn.exceptions import InputError
from peerattn.nn import attention_weights, top_k_weights


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def integers(high: int, n: int, seed: int = 5) -> torch.Tensor:
    return torch.randint(high, (n,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("n_keys", [7, 300, 1000])
@pytest.mark.parametrize("block_size", [1, 3000, 2**21])
@pytest.mark.parametrize("excluding", [None, "own row", "groups"])
def test_equals_the_dense_softmax(n_keys, block_size, excluding):
    query, key, k = draw(40, 5), draw(n_keys, 5, seed=1), 5
    exclude, mask = None, None
    if excluding is not None:
        high = n_keys if excluding == "own row" else 4
        query_ids = integers(high, 40)
        key_ids = torch.randperm(n_keys, generator=torch.Generator().manual_seed(6)) % high
        exclude, mask = (query_ids, key_ids), query_ids[:, None] != key_ids
    weights, keys = top_k_weights(query, key, k, exclude=exclude, scale=0.8, block_size=block_size)
    dense = attention_weights(query, key, mask=mask, scale=0.8)
    want = dense.topk(k).values
    torch.testing.assert_close(weights, want, rtol=0, atol=1e-14)
    positive = want > 0
    torch.testing.assert_close(dense.gather(1, keys.clamp_min(0))[positive], want[positive], rtol=0, atol=1e-14)
    assert (keys[~positive] == -1).all()
    if excluding is not None:
        assert mask.gather(1, keys.clamp_min(0))[positive].all()


@pytest.mark.parametrize("n_keys", [9, 1000])
def test_heads_are_averaged_by_their_share(n_keys):
    query, key, ids = draw(2, 40, 5), draw(2, n_keys, 5, seed=1), torch.arange(40)
    mask, share = ids[:, None] != torch.arange(n_keys), torch.tensor([0.7, 0.3], dtype=torch.float64)
    dense = (attention_weights(query, key, mask=mask) * share[:, None, None]).sum(0)
    weights, keys = top_k_weights(query, key, 5, exclude=(ids, torch.arange(n_keys)), head_share=share, block_size=3000)
    torch.testing.assert_close(weights, dense.topk(5).values, rtol=0, atol=1e-14)
    torch.testing.assert_close(dense.gather(1, keys), weights, rtol=0, atol=1e-14)
    alike, _ = top_k_weights(query[:1].expand(2, -1, -1), key[:1].expand(2, -1, -1), 5)
    torch.testing.assert_close(alike, top_k_weights(query[0], key[0], 5)[0])
    half, _ = top_k_weights(query[0], key[0], 5, head_share=torch.tensor([0.5]))
    torch.testing.assert_close(half * 2, top_k_weights(query[0], key[0], 5)[0])


def test_an_empty_pool_gives_no_keys_with_several_heads():
    ids = torch.zeros(3, dtype=torch.int64)
    weights, keys = top_k_weights(draw(2, 3, 2), draw(2, 3, 2), 2, exclude=(ids, ids))
    assert (weights == 0).all() and (keys == -1).all()


def test_the_largest_keys_may_be_neighbours():
    key = torch.zeros(2000, 1, dtype=torch.float64)
    key[640:650, 0] = torch.arange(1.0, 11.0, dtype=torch.float64)
    _, keys = top_k_weights(torch.ones(1, 1, dtype=torch.float64), key, 10, scale=1.0)
    assert keys.tolist() == [list(range(649, 639, -1))]


def test_default_scale_is_that_of_attention():
    query, key = draw(4, 9), draw(6, 9, seed=1)
    want = attention_weights(query, key).sort(descending=True)
    weights, keys = top_k_weights(query, key, 100)
    torch.testing.assert_close(weights, want.values)
    assert torch.equal(keys, want.indices)


def test_an_empty_pool_gives_zeros():
    x, ids = draw(3, 2), torch.tensor([1, 1, 2])
    weights, keys = top_k_weights(x, x, 2, exclude=(ids, torch.ones(3, dtype=torch.int64)))
    assert (weights[:2] == 0).all() and (keys[:2] == -1).all()
    assert (weights[2] > 0).all() and (keys[2] >= 0).all()


def test_no_keys_and_no_queries_give_empty_tables():
    x = draw(3, 2)
    assert [each.shape for each in top_k_weights(x, x[:0], 2)] == [(3, 0), (3, 0)]
    assert [each.shape for each in top_k_weights(x[:0], x, 2)] == [(0, 2), (0, 2)]


def test_large_scores_and_single_precision_stay_finite():
    x = draw(200, 4).float() * 1e4
    weights, _ = top_k_weights(x, x, 3)
    assert weights.dtype == torch.float32 and weights.isfinite().all()
    assert (weights.sum(1) <= 1 + 1e-6).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": draw(2, 4, 3)}, "query and key: expected two matrices of one width"),
        ({"key": draw(5, 2)}, r"got \(4, 3\) and \(5, 2\)"),
        ({"k": 0}, "k: expected an integer of at least 1, got 0"),
        (
            {"exclude": (torch.arange(4), torch.arange(4))},
            r"exclude: expected one id per query \(4\) and per key \(5\)",
        ),
        ({"head_share": torch.ones(2)}, r"head_share: expected one number per head \(1\)"),
        ({"query": draw(2, 4, 3), "key": draw(3, 5, 3)}, r"got \(2, 4, 3\) and \(3, 5, 3\)"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        top_k_weights(**{"query": draw(4, 3), "key": draw(5, 3), "k": 2, **arguments})
