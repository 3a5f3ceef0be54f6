"""From cross-sections to padded batches of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from peerattn.models.attention.bounds import CLIP
from peerattn.models.attention.priors import PairTerms
from peerattn.models.attention.row_tensors import PairTensors, RowTensors, admissible, barred
from peerattn.models.pools import Rows, Section

CELLS_PER_STEP = 2**21  # pairs of focal row and peer in a step, times heads, at most
# times the rows (or pairs), up to which cross-sections are padded to one length
MOST_PADDED = 1.5
FEW_PAIRS = 0.01  # share of pairs that a prior allows, below which attention along edges is faster than over all pairs


@dataclass(frozen=True)
class Batch:
    """Some cross-sections, padded: focal rows with their targets ``y`` and loss weights, and their pools."""

    focal: RowTensors
    peers: RowTensors
    y: Tensor  # (B, n_focal)
    weight: Tensor  # (B, n_focal); 0 where padded
    pairs: PairTensors

    @cached_property
    def bars(self) -> Tensor:
        """Who may not look to whom, as what is added to scores: made once for all modules, dearer than a head's attention."""
        return barred(admissible(self.focal, self.peers), self.focal.x.dtype)

    def take(self, sections: Tensor) -> Batch:
        """Return these cross-sections of a batch without pair terms."""
        focal, peers = self.focal.of(sections), self.peers.of(sections)
        return Batch(focal, peers, self.y[sections], self.weight[sections], self.pairs)


def row_tensors(
    rows: Rows, dtype: torch.dtype, device: str | torch.device = "cpu", answering: np.ndarray | None = None
) -> RowTensors:
    """Return the rows of one cross-section as tensors, (1, n, ...); ``answering`` says which of them may be looked to.

    Characteristics are at most ``CLIP`` standard deviations: no outlier may carry a head alone.
    """
    present = np.ones(len(rows), dtype=bool)

    def one(values: np.ndarray, kind: torch.dtype) -> Tensor:
        return torch.as_tensor(values, dtype=kind).to(device)[None]

    return RowTensors(
        one(rows.x.clip(-CLIP, CLIP), dtype),
        one(rows.codes, torch.int64),
        None if rows.y is None else one(np.nan_to_num(rows.y), dtype),
        one(rows.identity, torch.int32),
        one(present, torch.bool),
        one(present if answering is None else answering, torch.bool),
    )


def peer_tensors(section: Section, dtype: torch.dtype, device: str | torch.device = "cpu") -> RowTensors:
    """Return the pool of a cross-section as tensors."""
    return row_tensors(section.peers, dtype, device, section.answering)


class SectionTensors:
    """Cross-sections as tensors, made once, to draw batches from."""

    def __init__(
        self,
        sections: Sequence[Section],
        terms: PairTerms,
        dtype: torch.dtype,
        device: str | torch.device = "cpu",
    ):
        self.sections, self.terms, self.dtype, self.device = sections, terms, dtype, device
        self.focal = [row_tensors(section.focal, dtype, device) for section in sections]
        self.peers = [peer_tensors(section, dtype, device) for section in sections]
        self.weight = [_loss_weight(section.focal, dtype).to(device) for section in sections]
        self._together: Batch | None = None
        rows = [max(len(s.focal), len(s.peers)) for s in sections]
        plain = not terms.priors and all(s.here and s.peers.weight is None for s in sections)
        if plain and len(rows) > 1 and len(rows) * max(rows) <= MOST_PADDED * sum(rows):
            self._together = self.batch(range(len(sections)))

    def batch(self, group: Sequence[int], chosen: Sequence[np.ndarray] | None = None) -> Batch:
        """Return some of the cross-sections, padded; ``chosen`` picks focal rows of each.

        Of several processes each has those that it holds; where it holds none, no focal row of another one.
        """
        if self._together is not None and chosen is None and len(group):
            return self._together.take(torch.as_tensor(list(group), device=self.device))
        if not group or not all(self.sections[k].here for k in group):
            mine = [at for at, k in enumerate(group) if self.sections[k].here]
            chosen = None if chosen is None else [chosen[at] for at in mine]
            group = [group[at] for at in mine]
            if not group:
                held = next(k for k, section in enumerate(self.sections) if section.here)
                group, chosen = [held], [np.zeros(0, dtype=np.int64)]
        focal = [self.focal[k] for k in group]
        weight = [self.weight[k] for k in group]
        at: Sequence[Any] = [slice(None)] * len(group) if chosen is None else chosen
        if chosen is not None:
            places = [torch.as_tensor(rows, device=self.device) for rows in chosen]
            focal = [rows.take(place) for rows, place in zip(focal, places, strict=True)]
            weight = [values[place] for values, place in zip(weight, places, strict=True)]
        sections = [self.sections[k] for k in group]
        pairs = pair_tensors(sections, at, self.terms, self.dtype, self.device)
        targets = RowTensors.joined(focal)
        assert targets.y is not None
        peers = RowTensors.joined([self.peers[k] for k in group])
        return Batch(targets, peers, targets.y, pad_sequence(weight, True), pairs)


def _loss_weight(rows: Rows, dtype: torch.dtype) -> Tensor:
    weight = np.ones(len(rows)) if rows.loss_weight is None else rows.loss_weight
    return torch.as_tensor(weight, dtype=dtype)


def make_batch(
    sections: Sequence[Section],
    terms: PairTerms,
    dtype: torch.dtype,
    device: str | torch.device = "cpu",
) -> Batch:
    """Return whole cross-sections as one batch."""
    return SectionTensors(sections, terms, dtype, device).batch(range(len(sections)))


def pair_tensors(
    sections: Sequence[Section],
    rows: Sequence[Any],
    terms: PairTerms,
    dtype: torch.dtype,
    device: str | torch.device = "cpu",
) -> PairTensors:
    """Return the pair terms of these focal rows of each section."""
    bias = [terms.bias(section, at) for section, at in zip(sections, rows, strict=True)]
    prior = [terms.prior(section, at) for section, at in zip(sections, rows, strict=True)]
    sparse = any(p.only for p in terms.priors) and _share_allowed(bias) < FEW_PAIRS
    among = None
    if terms.stacked:
        pools = [section.pool() for section in sections]
        everyone, one_layer = [slice(None)] * len(pools), replace(terms, stacked=False)
        among = pair_tensors(pools, everyone, one_layer, dtype, device)
        among = replace(among, copies=any(pool.own_copies for pool in pools))
    return PairTensors(_pad_pairs(bias, dtype, device), _pad_pairs(prior, dtype, device), sparse, among)


def _share_allowed(blocks: Sequence[np.ndarray | None]) -> float:
    allowed = sum(int(np.count_nonzero(block > -np.inf)) for block in blocks if block is not None)
    return allowed / max(1, sum(block.size for block in blocks if block is not None))


def _pad_pairs(
    blocks: Sequence[np.ndarray | None], dtype: torch.dtype, device: str | torch.device
) -> Tensor | None:
    """Stack (n_focal, n_peers, ...) blocks, padded with zeros; None where there are none."""
    known = [block for block in blocks if block is not None]
    if len(known) < len(blocks):
        return None
    shape = (len(known), max(b.shape[0] for b in known), max(b.shape[1] for b in known), *known[0].shape[2:])
    stacked = torch.zeros(shape, dtype=dtype)
    for k, block in enumerate(known):
        stacked[k, : block.shape[0], : block.shape[1]] = torch.as_tensor(block, dtype=dtype)
    return stacked.to(device)


def drawn(
    sections: Sequence[Section], generator: torch.Generator, per_step: int, queries: int
) -> Iterator[tuple[list[int], list[np.ndarray] | None]]:
    """Yield which cross-sections make up each step, and at most ``queries`` focal rows of each, without end."""
    small = all(len(section.focal) <= queries for section in sections)
    while True:
        order = torch.randperm(len(sections), generator=generator).tolist()
        for start in range(0, len(order) - per_step + 1, per_step):
            group = order[start : start + per_step]
            focal = [len(sections[k].focal) for k in group]
            rows = [torch.randperm(n, generator=generator)[:queries].numpy() for n in focal if not small]
            yield group, None if small else rows
