"""A transformer over the firms of a period as a torch module: one token a firm."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from peerattn import nn
from peerattn.models.cross_section import NO_IDENTITY, CrossSection
from peerattn.models.learners.batches import NO_PEER, Batch, RowTensors
from peerattn.models.learners.linear import CLIP
from peerattn.nn.recording import recorded_weights


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
    own = section.peers.identity if section.own_copies else section.focal.identity
    return np.array([of_firm.get(each, -1) for each in own.tolist()], dtype=int), fold[place]


CELLS = 2**24  # pairs of query and key at a time: no array of all pairs of a large cross-section is ever held


@dataclass(frozen=True)
class TransformerSpec:
    """What shape a :class:`FirmTransformer` has; with its arrays it is a fitted model.

    ``attends=False`` is the same network without attention: no row may attend to any other.
    """

    n_characteristics: int = 0  # those of the rows are known in ``fit``
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

    def embedded(self, rows: RowTensors) -> Tensor:
        """Return the first state of the tokens of rows, (B, n, d_model), without outcomes."""
        x = rows.x.clamp(-CLIP, CLIP)
        if not x.shape[-1]:
            x = x.new_zeros(*x.shape[:2], 1)
        h = self.inputs(x)
        for c, embedding in enumerate(self.codes):
            h = h + embedding(rows.codes[..., c])
        return h

    def forward(self, batch: Batch) -> Tensor:
        """Return what is added to the own part of every focal row, (B, n_focal, K); zero where a row has no peer."""
        rows = self.embedded(batch.focal)
        pool = self.embedded(batch.peers)
        if self.spec.outcomes:
            pool = pool + self.outcomes(batch.peers.outcomes)
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
    biases = (batch.peers.bias_for(batch.focal.rows(at)) for at in _slices(batch.focal, batch.peers))
    return torch.cat([(bias > NO_PEER).any(-1) for bias in biases], dim=1)


def _attended(block: torch.nn.Module, rows: Tensor, queries: RowTensors, pool: Tensor, keys: RowTensors) -> Tensor:
    """Return rows after a block, by blocks of queries with all keys."""
    parts = [block(rows[:, at], memory=pool, bias=keys.bias_for(queries.rows(at))[:, None]) for at in _slices(queries, keys)]
    return torch.cat(parts, dim=1)


def _slices(queries: RowTensors, keys: RowTensors) -> list[slice]:
    B, n = queries.identity.shape
    step = max(1, CELLS // max(1, B * keys.identity.shape[1]))
    return [slice(start, start + step) for start in range(0, max(n, 1), step)]
