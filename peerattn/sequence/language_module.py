"""The module of a language model, and how it reads a growing sequence."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from peerattn import nn


class LanguageModule(torch.nn.Module):
    """Embedding, a stack that looks back only, and the embedding again as output."""

    def __init__(
        self,
        n_symbols: int,
        n_positions: int,
        n_layers: int,
        d_model: int,
        n_heads: int,
        *,
        positions: nn.embedding.Positions,
        dropout: float,
        generator: torch.Generator,
    ):
        super().__init__()
        self.embedding = nn.InputEmbedding(
            n_symbols, d_model, n_positions,
            positions=positions, dropout=dropout, std=0.02, generator=generator,
        )  # fmt: skip
        self.stack = nn.Encoder(
            n_layers, d_model, n_heads, dropout=dropout, rotary=positions == "rotary", generator=generator
        )

    def forward(
        self, symbols: Tensor, cache: nn.StackCache | None = None, return_weights: bool = False
    ) -> Any:
        """Return the logits (B, n, n_symbols) of what follows each of the symbols (B, n), and weights if asked for."""
        start = 0 if cache is None else cache.length
        n = symbols.shape[-1]
        mask = None if n == 1 else nn.causal_mask(n, start + n, device=symbols.device)
        x = self.embedding(symbols, start=start)
        if return_weights:
            x, weights = self.stack(x, mask=mask, cache=cache, return_weights=True)
            return self.embedding.tokens.logits(x), weights
        return self.embedding.tokens.logits(self.stack(x, mask=mask, cache=cache))


class CausalReader:
    """Reads growing sequences, each symbol once where it keeps a cache."""

    def __init__(self, module: LanguageModule, block_size: int, cache: bool, never: list[int]):
        self.module, self.block_size, self.cached, self.never = module, block_size, cache, never
        self.start = 0
        self.cache = nn.StackCache(len(module.stack.blocks))

    def next_log_probabilities(self, sequences: Tensor) -> Tensor:
        """Return the log probabilities of what follows: (n_sequences, n_symbols)."""
        length = sequences.shape[1]
        half = max(1, self.block_size // 2)
        start = max(0, math.ceil((length - self.block_size) / half) * half)
        if not self.cached:
            logits = self.module(sequences[:, start:])[:, -1]
        else:
            if start != self.start:
                self.start, self.cache = start, nn.StackCache(len(self.module.stack.blocks))
            logits = self.module(sequences[:, start + self.cache.length :], cache=self.cache)[:, -1]
        logits[:, self.never] = -torch.inf
        return logits.log_softmax(-1)

    def reorder(self, sequences: Tensor) -> None:
        """Follow the beams."""
        self.cache.reorder(sequences)
