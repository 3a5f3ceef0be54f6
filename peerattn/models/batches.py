"""From cross-sections to padded batches of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from peerattn.models.peer_module import PairTensors, RowTensors
from peerattn.models.pools import Rows, Section
from peerattn.models.priors import PairTerms

ROWS_PER_STEP = 1024  # small cross-sections are batched up to this many focal rows ...
CELLS_PER_STEP = 2**19  # ... and this many pairs of focal row and peer
FEW_PAIRS = 0.01  # share of pairs that a prior allows, below which attention along edges is faster than over all pairs


@dataclass(frozen=True)
class Batch:
    """Some cross-sections, padded: focal rows with their targets ``y`` and loss weights, and their pools."""

    focal: RowTensors
    peers: RowTensors
    y: Tensor  # (B, n_focal)
    weight: Tensor  # (B, n_focal); 0 where padded
    pairs: PairTensors


def row_tensors(
    rows: Sequence[Rows],
    dtype: torch.dtype,
    device: str | torch.device = "cpu",
    answering: Sequence[np.ndarray | None] | None = None,
) -> RowTensors:
    """Return rows of several cross-sections as padded tensors; ``answering`` says which of them may be looked to."""

    def pad(values: list[np.ndarray], kind: torch.dtype, fill: float = 0) -> Tensor:
        tensors = [torch.as_tensor(v, dtype=kind) for v in values]
        stacked = tensors[0][None] if len(tensors) == 1 else pad_sequence(tensors, True, fill)
        return stacked.to(device)

    known = [np.nan_to_num(r.y) for r in rows if r.y is not None]
    y = pad(known, dtype) if known else None
    present = [np.ones(len(r), dtype=bool) for r in rows]
    answers = [None] * len(rows) if answering is None else answering
    return RowTensors(
        pad([r.x for r in rows], dtype),
        pad([r.codes for r in rows], torch.int64),
        y,
        pad([r.identity for r in rows], torch.int64, -1),
        pad(present, torch.bool),
        pad([known if a is None else a for known, a in zip(present, answers, strict=True)], torch.bool),
    )


def make_batch(
    sections: Sequence[Section],
    terms: PairTerms,
    dtype: torch.dtype,
    device: str | torch.device = "cpu",
    chosen: Sequence[np.ndarray] | None = None,
) -> Batch:
    """Return sections as one batch; ``chosen`` picks focal rows of each."""
    at: Sequence[Any] = [slice(None)] * len(sections) if chosen is None else chosen
    focal = [section.focal.take(rows) for section, rows in zip(sections, at, strict=True)]
    targets = row_tensors(focal, dtype, device)
    weights = [np.ones(len(f)) if f.loss_weight is None else f.loss_weight for f in focal]
    weight = pad_sequence([torch.as_tensor(w, dtype=dtype) for w in weights], True).to(device)
    pairs = pair_tensors(sections, at, terms, dtype, device)
    assert targets.y is not None
    return Batch(targets, peer_tensors(sections, dtype, device), targets.y, weight, pairs)


def peer_tensors(
    sections: Sequence[Section], dtype: torch.dtype, device: str | torch.device = "cpu"
) -> RowTensors:
    """Return the pools of several cross-sections as padded tensors."""
    return row_tensors([s.peers for s in sections], dtype, device, [s.answering for s in sections])


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
    return PairTensors(_pad_pairs(bias, dtype, device), _pad_pairs(prior, dtype, device), sparse)


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


def sections_per_step(sections: Sequence[Section], queries: int) -> int:
    """Return how many cross-sections a step takes: one large one, several small ones."""
    n_focal = float(np.median([min(len(s.focal), queries) for s in sections]))
    n_peers = float(np.median([len(s.peers) for s in sections]))
    return int(
        max(1, min(ROWS_PER_STEP / n_focal, CELLS_PER_STEP / max(1.0, n_focal * n_peers), len(sections)))
    )


def batches(
    sections: Sequence[Section],
    terms: PairTerms,
    generator: torch.Generator,
    *,
    queries: int,
    dtype: torch.dtype,
    device: str | torch.device = "cpu",
) -> Iterator[Batch]:
    """Yield batches without end: cross-sections in random order, at most ``queries`` focal rows of each.

    Keys are always the full pool, so that the gradient is unbiased and no firm loses its peers.
    """
    per_step = sections_per_step(sections, queries)
    small = all(len(s.focal) <= queries for s in sections)
    if small and per_step == len(sections):  # the whole sample fits into one step
        whole = make_batch(sections, terms, dtype, device)
        while True:
            yield whole
    for group, chosen in drawn(sections, generator, per_step, queries):
        yield make_batch([sections[k] for k in group], terms, dtype, device, chosen)


def drawn(
    sections: Sequence[Section], generator: torch.Generator, per_step: int, queries: int
) -> Iterator[tuple[list[int], list[np.ndarray]]]:
    """Yield which cross-sections make up each step, and at most ``queries`` focal rows of each, without end."""
    while True:
        order = torch.randperm(len(sections), generator=generator).tolist()
        for start in range(0, len(order) - per_step + 1, per_step):
            group = order[start : start + per_step]
            focal = [len(sections[k].focal) for k in group]
            yield group, [torch.randperm(n, generator=generator)[:queries].numpy() for n in focal]
