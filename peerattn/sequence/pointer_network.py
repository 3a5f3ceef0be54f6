"""The module of a translator: two stacks, one vocabulary, and a pointer into the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from peerattn import nn
from peerattn.sequence.tokenizers import UNKNOWN


@dataclass(frozen=True)
class Source:
    """What the decoder attends to.

    ``rows`` (B, n, d) of the encoder, ``mask`` (B, 1, 1, n), ``symbols`` (B, n): the source in extended numbers, in
    which words outside the vocabulary have numbers of their own from n_symbols on.
    """

    rows: Tensor
    mask: Tensor
    symbols: Tensor

    def take(self, sequences: Tensor) -> Source:
        """Return these sequences of the batch."""
        return Source(self.rows[sequences], self.mask[sequences], self.symbols[sequences])


class TranslatorModule(torch.nn.Module):
    r"""One vocabulary for source, target and output; the next symbol is written or copied.

    .. math:: p(s) = g\, \operatorname{softmax}(E x)_s + (1 - g) \sum_{j:\, \text{source}_j = s} \alpha_j
    """

    def __init__(
        self, embedding: nn.InputEmbedding, stacks: nn.EncoderDecoder, copy: bool, generator: torch.Generator
    ):
        super().__init__()
        self.n_symbols, d_model = embedding.tokens.weight.shape
        self.embedding, self.stacks = embedding, stacks
        if copy:
            self.pointer = nn.MultiheadAttention(d_model, 1, generator=generator)
            self.gate = nn.linear(2 * d_model, 1, generator=generator)

    def read(self, symbols: Tensor, lengths: Tensor, start: int = 0) -> Source:
        """Encode source symbols (B, n) in extended numbers, at positions start, start + 1, ..."""
        mask = nn.padding_mask(lengths, symbols.shape[1])
        rows = self.embedding(self._known(symbols), start=start)
        return Source(self.stacks.encoder(rows, mask=mask), mask, symbols)

    def write(
        self, target: Tensor, source: Source, *, start: int = 0, cache: nn.StackCache | None = None
    ) -> Any:
        """Return the decoder's rows (B, m, d) for target symbols (B, m)."""
        read = 0 if cache is None else cache.length
        m = target.shape[1]
        blocks: Any = self.stacks.decoder.blocks
        causal = m == 1 or all(block.attention.attend is not nn.attention for block in blocks)
        mask = None if causal else nn.causal_mask(m, read + m, device=target.device)
        rows = self.embedding(self._known(target), start=start + read)
        context = {"context": source.rows, "context_mask": source.mask}
        return self.stacks.decoder(rows, **context, cache=cache, mask=mask)

    def loss(self, rows: Tensor, source: Source, truth: Tensor, there: Tensor, smoothing: float) -> Tensor:
        r"""Return the mean of :math:`-(1-\epsilon) \log p(s) - \epsilon \text{ mean}_v \log \text{softmax}(Ex)_v`.

        Rows (B, m, d), truth (B, m) in extended numbers, there (B, m): which are not padding.
        """
        written = self.embedding.tokens.logits(rows).log_softmax(-1)  # (B, m, V)
        known = truth < self.n_symbols
        log_p = written.gather(-1, self._known(truth)[..., None])[..., 0]
        if hasattr(self, "pointer"):
            weights, gate = self._copy(rows, source)
            copied = (weights * (source.symbols[:, None, :] == truth[..., None])).sum(-1)  # (B, m)
            by_hand = (log_p + F.logsigmoid(gate)).masked_fill(~known & (copied > 0), -1e4)
            log_p = torch.logaddexp(by_hand, F.logsigmoid(-gate) + copied.clamp_min(1e-30).log())
        losses = -(1 - smoothing) * log_p - smoothing * written.mean(-1)
        return losses[there].mean()

    def log_probabilities(self, rows: Tensor, source: Source, n_extended: int) -> Tensor:
        """Return log p of every symbol, those outside the vocabulary too: rows (B, d) -> (B, n_extended)."""
        written = self.embedding.tokens.logits(rows).log_softmax(-1)
        if not hasattr(self, "pointer"):
            return F.pad(written, (0, n_extended - self.n_symbols), value=-torch.inf)
        weights, gate = self._copy(rows[:, None], source)
        p = F.pad(written.exp() * gate.sigmoid(), (0, n_extended - self.n_symbols))
        return p.scatter_add(1, source.symbols, weights[:, 0] * (-gate).sigmoid()).clamp_min(1e-30).log()

    def _copy(self, rows: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        """Return where the pointer points (B, m, n), and the logit of writing rather than copying (B, m).

        Without its head, which may be pruned, the pointer points nowhere and everything is written.
        """
        found, heads = self.pointer(rows, source.rows, mask=source.mask, return_weights=True)
        weights = heads.sum(1)
        share = weights.sum(-1, keepdim=True).clamp_min(1e-30)  # below 1 where the head is silenced
        gate = self.gate(torch.cat([rows, found], dim=-1)) - share.log()
        return weights / share, gate[..., 0]

    def _known(self, symbols: Tensor) -> Tensor:
        return symbols.masked_fill(symbols >= self.n_symbols, UNKNOWN)
