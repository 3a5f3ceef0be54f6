"""Cross-sections as tensors of tokens, one token a firm, and a transformer over them as a torch module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from peerattn import nn
from peerattn.models.cross_section import NO_IDENTITY, CrossSection, Rows
from peerattn.models.learners.bounds import CLIP
from peerattn.nn.recording import recorded_weights

NO_KEY = -np.inf
Picked = Tensor | slice  # positions
ALL = slice(None)


@dataclass(frozen=True)
class Tokens:
    """Firms of B cross-sections, padded to n rows.

    Attributes
    ----------
    x : Tensor (B, n, p)
        Characteristics.
    codes : Tensor (B, n, c)
        Codes; 0 is unknown.
    y : Tensor (B, n, K) or None
        Observed outcomes that are inputs; None in a forecast, and of focal rows.
    identity : Tensor (B, n)
        Rows of one identity do not attend to each other; NO_IDENTITY equals no other.
    log_weight : Tensor (B, n)
        Added to the scores of this row as a key; −∞ where it is no key (padding, an unknown outcome, a hidden one).
    own_weight : Tensor (B, n)
        The same for a query of its own identity: −∞, but for the further copies of a row with a frequency weight.
    """

    x: Tensor
    codes: Tensor
    y: Tensor | None
    identity: Tensor
    log_weight: Tensor
    own_weight: Tensor

    def take(self, sections: Picked, rows: Picked) -> Tokens:
        """Return these rows of these cross-sections."""
        kept = {n: value[sections][:, rows] for n, value in vars(self).items() if value is not None}
        return replace(self, **kept)

    def hide(self, hidden: Tensor) -> Tokens:
        """Return the tokens, of which these (B, n) are no keys: nothing uses their outcomes."""
        return replace(self, log_weight=self.log_weight.masked_fill(hidden, NO_KEY))

    def bias_for(self, queries: Tokens) -> Tensor:
        """Return what is added to the scores of these queries, (B, n_queries, n); −∞ where one may not attend."""
        mine = queries.identity.masked_fill(queries.identity == NO_IDENTITY, NO_IDENTITY - 1)
        own = mine[:, :, None] == self.identity[:, None, :]
        return torch.where(own, self.own_weight[:, None, :], self.log_weight[:, None, :])


@dataclass(frozen=True)
class Batch:
    """Some cross-sections: focal rows with targets (B, n, K) and loss weights (B, n), and the pool of each."""

    focal: Tokens
    peers: Tokens
    y: Tensor | None
    weight: Tensor

    @classmethod
    def of(cls, sections: Sequence[CrossSection], *, outcomes: bool, dtype: torch.dtype, device: str = "cpu") -> Batch:
        """Return cross-sections as tensors; with ``outcomes`` those of the peers are inputs."""

        def padded(values: Iterable[np.ndarray], fill: float = 0.0, kind: torch.dtype = dtype) -> Tensor:
            rows = [torch.tensor(each, dtype=kind) for each in values]
            return pad_sequence(rows, batch_first=True, padding_value=fill).to(device)

        def targets(rows: Sequence[Rows]) -> Tensor | None:
            if any(each.y is None for each in rows):
                return None
            return padded(np.column_stack([np.nan_to_num(each.outcomes)]) for each in rows)

        def tokens(rows: Sequence[Rows], identity: Iterable[np.ndarray], bias: Sequence[Tensor]) -> Tokens:
            numbers = padded(map(_inputs, rows))
            codes = padded((each.codes for each in rows), kind=torch.int64)
            return Tokens(numbers, codes, None, padded(identity, NO_IDENTITY, torch.int64), *bias)

        pool = [section.peers for section in sections]
        keys = [padded(of_kind, NO_KEY) for of_kind in zip(*map(_log_weights, sections), strict=True)]
        peers = tokens(pool, (rows.identity for rows in pool), keys)
        if outcomes:
            peers = replace(peers, y=targets(pool))
        rows = [section.focal for section in sections]
        weight = padded(each.loss_weights for each in rows)
        focal = tokens(rows, map(_own_identity, sections), [torch.zeros_like(weight)] * 2)
        return cls(focal, peers, targets(rows), weight)

    def take(self, sections: Picked = ALL, rows: Picked = ALL) -> Batch:
        """Return these focal rows of these cross-sections, with all peers."""
        y = None if self.y is None else self.y[sections][:, rows]
        weight = self.weight[sections][:, rows]
        return Batch(self.focal.take(sections, rows), self.peers.take(sections, ALL), y, weight)


def hidden_folds(section: CrossSection, n_folds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the fold of every focal row and of every peer; a focal row that is no peer is in none (−1).

    Rows of one identity share a fold. Firms are dealt out in the order of a checksum of their characteristics, so that folds
    depend neither on outcomes nor on the order of rows.
    """
    identity, first = np.unique(section.peers.identity, return_index=True)
    place = np.searchsorted(identity, section.peers.identity)
    least = np.full(len(identity), np.iinfo(np.int64).max)
    np.minimum.at(least, place, section.peers.checksums())
    # dealt out in turn, so that folds are of nearly equal size
    fold = np.empty(len(identity), dtype=int)
    fold[np.lexsort((first, least))] = np.arange(len(identity)) % n_folds
    of_firm = dict(zip(identity.tolist(), fold.tolist(), strict=True)) | {NO_IDENTITY: -1}
    own = _own_identity(section).tolist()
    return np.array([of_firm.get(each, -1) for each in own], dtype=int), fold[place]


def _own_identity(section: CrossSection) -> np.ndarray:
    """Return the identity of focal rows, though on arrays with frequency weights they are anonymous: copies are peers."""
    return section.peers.identity if section.own_copies else section.focal.identity


def _log_weights(section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
    """Return the log weights of peers as keys, and as keys of a query of their own identity, (n_peers,) each."""
    counts = section.peers.counts
    # a row counted w times has w − 1 copies of itself for peers
    copies = np.maximum(counts - 1, 0) * section.own_copies
    with np.errstate(divide="ignore"):
        return np.log(counts * section.may_be_attended), np.log(copies)


def _inputs(rows: Rows) -> np.ndarray:
    """Return bounded characteristics, so that no outlier carries a prediction; a column of zeros where there are none."""
    if not rows.x.shape[1]:
        return np.zeros((len(rows), 1))
    return rows.x.clip(-CLIP, CLIP)


CELLS = 2**24  # pairs of query and key at a time: no array of all pairs of a large cross-section is ever held


@dataclass(frozen=True)
class TransformerSpec:
    """What shape a :class:`FirmTransformer` has; with its arrays it is a fitted model.

    ``attends=False`` is the same network without attention: no row may attend to any other.
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


class FirmTransformer(torch.nn.Module):
    r"""Blocks over the firms of a period: :math:`h_i = x_i W_E + \text{embeddings of codes}`, L blocks, a linear head.

    Focal rows i attend to their pool j; the pool's own rows go through the blocks before the last, too, so that firms use
    what their peers have from theirs. Outcomes that are inputs are added to the tokens of the pool, never to a focal row.
    """

    def __init__(self, spec: TransformerSpec, generator: torch.Generator):
        super().__init__()
        self.spec = spec
        d = spec.d_model
        self.inputs = nn.linear(max(spec.n_characteristics, 1), d, generator=generator)
        # small: codes without rows in training stay near zero
        embeddings = (nn.TokenEmbedding(n + 1, d, std=0.1, generator=generator) for n in spec.code_levels)
        self.codes = torch.nn.ModuleList(embeddings)
        if spec.outcomes:
            self.outcomes = nn.linear(spec.n_outputs, d, generator=generator, bias=False)
        shape = (d, spec.n_heads, spec.d_feedforward)
        blocks = (nn.TransformerBlock(*shape, norm="post", activation="relu", generator=generator) for _ in range(spec.n_layers))
        self.blocks = torch.nn.ModuleList(blocks)
        self.output = nn.linear(d, spec.n_outputs, generator=generator)

    def embedded(self, tokens: Tokens) -> Tensor:
        """Return the tokens' first state, (B, n, d_model)."""
        h = self.inputs(tokens.x)
        for c, embedding in enumerate(self.codes):
            h = h + embedding(tokens.codes[..., c])
        return h if tokens.y is None else h + self.outcomes(tokens.y)

    def forward(self, batch: Batch) -> Tensor:
        """Return what is added to the own part of every focal row, (B, n_focal, K); zero where a row has no peer."""
        rows = self.embedded(batch.focal)
        pool = self.embedded(batch.peers)
        for k, block in enumerate(self.blocks):
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
    biases = (batch.peers.bias_for(batch.focal.take(ALL, at)) for at in _slices(batch.focal, batch.peers))
    return torch.cat([(bias > -torch.inf).any(-1) for bias in biases], dim=1)


def _attended(block: torch.nn.Module, rows: Tensor, queries: Tokens, pool: Tensor, keys: Tokens) -> Tensor:
    """Return rows after a block, by blocks of queries with all keys."""
    parts = [block(rows[:, at], memory=pool, bias=keys.bias_for(queries.take(ALL, at))[:, None]) for at in _slices(queries, keys)]
    return torch.cat(parts, dim=1)


def _slices(queries: Tokens, keys: Tokens) -> list[slice]:
    B, n = queries.identity.shape
    step = max(1, CELLS // max(1, B * keys.identity.shape[1]))
    return [slice(start, start + step) for start in range(0, max(n, 1), step)]
