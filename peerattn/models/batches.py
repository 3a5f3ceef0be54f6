"""From cross-sections to padded batches of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from peerattn.models.peer_module import RowTensors
from peerattn.models.pools import Rows, Section

ROWS_PER_STEP = 1024  # small cross-sections are batched up to this many focal rows ...
CELLS_PER_STEP = 2**19  # ... and this many pairs of focal row and peer


@dataclass(frozen=True)
class Batch:
    """Some cross-sections, padded: focal rows with their targets ``y`` and loss weights, and their pools."""

    focal: RowTensors
    peers: RowTensors
    y: Tensor  # (B, n_focal)
    weight: Tensor  # (B, n_focal); 0 where padded
    bias: Tensor | None  # (B, n_focal, n_peers), log frequency weights


def row_tensors(rows: Sequence[Rows], dtype: torch.dtype, device: str | torch.device = "cpu") -> RowTensors:
    """Return rows of several cross-sections as padded tensors."""

    def pad(values: list[np.ndarray], kind: torch.dtype, fill: float = 0) -> Tensor:
        tensors = [torch.as_tensor(v, dtype=kind) for v in values]
        stacked = tensors[0][None] if len(tensors) == 1 else pad_sequence(tensors, True, fill)
        return stacked.to(device)

    y = None if rows[0].y is None else pad([np.nan_to_num(r.y) for r in rows], dtype)  # type: ignore[call-overload]
    return RowTensors(
        pad([r.x for r in rows], dtype),
        pad([r.codes for r in rows], torch.int64),
        y,
        pad([r.identity for r in rows], torch.int64, -1),
        pad([np.ones(len(r), dtype=bool) for r in rows], torch.bool),
    )


def score_bias(section: Section, rows: np.ndarray | slice = slice(None)) -> np.ndarray | None:
    """Return log frequency weights of the peers, (n_focal, n_peers); None where all are one."""
    weight = section.peers.weight
    if weight is None:
        return None
    bias = np.repeat(np.log(weight)[None, :], len(section.focal), axis=0)
    if section.own_copies:  # a row counted w times has w − 1 copies of itself for peers
        with np.errstate(divide="ignore"):
            np.fill_diagonal(bias, np.log(np.maximum(weight - 1, 0)))
    return bias[rows]


def make_batch(
    sections: Sequence[Section],
    dtype: torch.dtype,
    device: str | torch.device = "cpu",
    chosen: Sequence[np.ndarray] | None = None,
) -> Batch:
    """Return sections as one batch; ``chosen`` picks focal rows of each."""
    focal = [s.focal if chosen is None else s.focal.take(at) for s, at in zip(sections, chosen or sections, strict=True)]
    targets = row_tensors(focal, dtype, device)
    weights = [np.ones(len(f)) if f.weight is None else f.weight for f in focal]
    weight = pad_sequence([torch.as_tensor(w, dtype=dtype) for w in weights], True).to(device)
    biases = [score_bias(s, slice(None) if chosen is None else chosen[k]) for k, s in enumerate(sections)]
    bias = None
    if biases[0] is not None:
        shape = (len(sections), targets.x.shape[1], max(len(s.peers) for s in sections))
        bias = torch.zeros(shape, dtype=dtype, device=device)
        for k, block in enumerate(biases):
            assert block is not None
            bias[k, : block.shape[0], : block.shape[1]] = torch.as_tensor(block, dtype=dtype)
    assert targets.y is not None
    return Batch(targets, row_tensors([s.peers for s in sections], dtype, device), targets.y, weight, bias)


def sections_per_step(sections: Sequence[Section], queries: int) -> int:
    """Return how many cross-sections a step takes: one large one, several small ones."""
    n_focal = float(np.median([min(len(s.focal), queries) for s in sections]))
    n_peers = float(np.median([len(s.peers) for s in sections]))
    return int(max(1, min(ROWS_PER_STEP / n_focal, CELLS_PER_STEP / max(1.0, n_focal * n_peers), len(sections))))


def batches(
    sections: Sequence[Section],
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
        whole = make_batch(sections, dtype, device)
        while True:
            yield whole
    while True:
        order = torch.randperm(len(sections), generator=generator).tolist()
        for start in range(0, len(order) - per_step + 1, per_step):
            group = [sections[k] for k in order[start : start + per_step]]
            chosen = [torch.randperm(len(s.focal), generator=generator)[:queries].numpy() for s in group]
            yield make_batch(group, dtype, device, chosen)
