"""A transformer over the firms of a cross-section, as a torch module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from peerattn import nn
from peerattn.models.learners.firm_tokens import ALL, Batch, Tokens
from peerattn.nn.recording import recorded_weights

CELLS = (
    2**24
)  # pairs of query and key at a time, so that no array of all pairs of a large cross-section is ever held


@dataclass(frozen=True)
class TransformerSpec:
    """What shape a :class:`FirmTransformer` has; with its arrays it is a fitted model.

    ``attends=False`` is the same network without attention: every attention layer adds its constant alone.
    """

    n_characteristics: int
    code_levels: tuple[int, ...] = ()
    n_outputs: int = 1
    outcomes: bool = False
    attends: bool = True
    d_model: int = 32
    n_heads: int = 2
    n_layers: int = 1
    d_feedforward: int = 64


def no_attention(query: Tensor, key: Tensor, value: Tensor, *, return_weights: bool = False, **_: Any) -> Any:
    """Return zeros in place of what peers add: what an attention layer is without peers.

    Examples
    --------
    >>> no_attention(torch.ones(3, 2), torch.ones(5, 2), torch.ones(5, 4)).shape
    torch.Size([3, 4])
    """
    added = value.new_zeros(*query.shape[:-1], value.shape[-1])
    return (added, query.new_zeros(*query.shape[:-1], key.shape[-2])) if return_weights else added


class FirmTransformer(torch.nn.Module):
    r"""Blocks over the firms of a period: :math:`h_i = x_i W_E + \text{embeddings of codes}`, L blocks, a linear head.

    Focal rows i attend to their pool j; the pool's own rows go through the blocks before the last, too, so that firms read
    what their peers have from theirs. Outcomes that are inputs are added to the tokens of the pool, never to a focal row.
    """

    def __init__(self, spec: TransformerSpec, generator: torch.Generator):
        super().__init__()
        self.spec, d = spec, spec.d_model
        self.inputs = nn.linear(max(spec.n_characteristics, 1), d, generator=generator)
        # small: codes without rows in training stay near zero
        embeddings = (nn.TokenEmbedding(n + 1, d, std=0.1, generator=generator) for n in spec.code_levels)
        self.codes = torch.nn.ModuleList(embeddings)
        if spec.outcomes:
            self.outcomes = nn.linear(spec.n_outputs, d, generator=generator, bias=False)
        attend = nn.attention if spec.attends else no_attention
        self.blocks = torch.nn.ModuleList(
            nn.TransformerBlock(
                d,
                spec.n_heads,
                spec.d_feedforward,
                norm="post",
                activation="relu",
                generator=generator,
                attend=attend,
            )
            for _ in range(spec.n_layers)
        )
        self.output = nn.linear(d, spec.n_outputs, generator=generator)

    def embedded(self, tokens: Tokens) -> Tensor:
        """Return the tokens' first state, (B, n, d_model)."""
        h = self.inputs(tokens.x)
        for c, embedding in enumerate(self.codes):
            h = h + embedding(tokens.codes[..., c])
        return h if tokens.y is None else h + self.outcomes(tokens.y)

    def forward(self, batch: Batch) -> Tensor:
        """Return what is added to the own part of every focal row, (B, n_focal, K); zero where a row has no peer."""
        rows, pool = self.embedded(batch.focal), self.embedded(batch.peers)
        for k, block in enumerate(self.blocks):
            if not self.spec.attends:
                # one key is enough, since nothing is read of it
                rows = block(rows, memory=pool[:, :1])
                continue
            before = pool
            if k + 1 < len(self.blocks):
                pool = _attended(block, before, batch.peers, before, batch.peers)
            rows = _attended(block, rows, batch.focal, before, batch.peers)
        found = self.output(rows)
        return found * _has_peers(batch)[..., None] if self.spec.attends else found

    def weights(self, batch: Batch, layer: int) -> Tensor:
        """Return the weights of every head of a layer on the peers, (B, H, n_focal, n_peers)."""
        with recorded_weights(self.blocks[layer]) as prepared:
            self(batch)
        # those of the pool on itself come first
        return torch.cat(prepared[-len(_slices(batch.focal, batch.peers)) :], dim=2)


def _has_peers(batch: Batch) -> Tensor:
    """Return which focal rows may attend to somebody, (B, n_focal)."""
    found = [
        (batch.peers.bias_for(batch.focal.take(ALL, at)) > -torch.inf).any(-1)
        for at in _slices(batch.focal, batch.peers)
    ]
    return torch.cat(found, dim=1)


def _attended(
    block: Callable[..., Tensor], rows: Tensor, queries: Tokens, pool: Tensor, keys: Tokens
) -> Tensor:
    """Return rows after a block, by blocks of queries with all keys."""
    parts = [
        block(rows[:, at], memory=pool, bias=keys.bias_for(queries.take(ALL, at))[:, None])
        for at in _slices(queries, keys)
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _slices(queries: Tokens, keys: Tokens) -> list[slice]:
    B, n = queries.identity.shape
    step = max(1, CELLS // max(1, B * keys.identity.shape[1]))
    return [slice(start, start + step) for start in range(0, max(n, 1), step)]
