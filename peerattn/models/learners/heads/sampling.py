"""Batches of training rows: focal rows are drawn, their pools are always whole."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.heads.batches import Batch, PairTensors, RowTensors
from peerattn.models.learners.heads.priors import PairTerms
from peerattn.models.learners.linear import stacked_rows
from peerattn.models.learners.variance_components import common_variance
from peerattn.processes import n_processes, process

PAIRS = 2**21  # of focal row and peer, times heads, in a step
ROWS = 640  # focal rows in a step at most ...
PERIODS = 4  # ... of so many cross-sections at least, ...
SHARE = 15  # ... or of one in so many where there are many: each is then seen some 40 times in training ...
FEWEST = 128  # ... and at least so many rows, however small a cross-section or large a pool is


class Sample:
    """Cross-sections as tensors on one device, of which batches are made.

    The targets are the outcomes of the focal rows, and ``own`` is what the own part predicts of them.
    """

    def __init__(
        self, sections: Sequence[CrossSection], terms: PairTerms, dtype: torch.dtype, device: str | torch.device
    ) -> None:
        self.sections, self.terms, self.dtype, self.device = sections, terms, dtype, device
        may_be_attended = np.concatenate([section.may_be_attended for section in sections])
        self.focal = RowTensors.of(stacked_rows(sections), None, dtype, device)
        self.peers = RowTensors.of(Rows.stacked([section.peers for section in sections]), may_be_attended, dtype, device)
        self.weight = self._on_device(np.concatenate([section.focal.loss_weights for section in sections]))
        self.own = self._on_device(np.concatenate([section.own_term for section in sections]))
        self.n_focal = np.array([len(section.focal) for section in sections])
        self.n_peers = np.array([len(section.peers) for section in sections])

    def _on_device(self, values: np.ndarray) -> Tensor:
        return torch.as_tensor(values, dtype=self.dtype, device=self.device)

    @property
    def n_rows(self) -> int:
        """Number of focal rows."""
        return int(self.n_focal.sum())

    @property
    def n_cells(self) -> int:
        """Number of pairs of focal row and peer."""
        return int(self.n_focal @ self.n_peers)

    def batch(self, group: Sequence[int], focal: Sequence[np.ndarray] | None = None) -> Batch:
        """Return some of the cross-sections, padded: these ``focal`` rows of each (by default all), and all peers.

        Of several processes each has its share of them; where it has none, a cross-section without a focal row.
        """
        rows = list(focal or map(np.arange, self.n_focal[list(group)]))
        if n_processes() > 1:
            mine = [z for z in zip(group, rows, strict=True) if z[0] % n_processes() == process()]
            group = [k for k, _ in mine] or [group[0]]
            rows = [at for _, at in mine] or [rows[0][:0]]
        # pools are whole: weights are a softmax over all candidate peers
        pools = [np.arange(self.n_peers[k]) for k in group]
        sections = [self.sections[k] for k in group]
        at = _places(self.n_focal, group, rows, self.device)
        there = at >= 0
        weight = torch.where(there, self.weight[at.clamp(min=0)], 0.0)
        own = torch.where(there[..., None], self.own[at.clamp(min=0)], 0.0)
        pairs = PairTensors.of(sections, rows, self.terms, self.dtype, self.device)
        peers = self.peers.at(_places(self.n_peers, group, pools, self.device))
        return Batch(self.focal.at(at), peers, weight, pairs, own)

    def all_batches(self, n_heads: int, most: int) -> Iterator[Batch]:
        """Yield all cross-sections in batches; where they have more than ``most`` rows, with every k-th row only."""
        every = max(1, -(-self.n_rows // most))
        limit = max(1, PAIRS // max(1, n_heads)) * every
        group = list[int]()
        widest = 0
        for k, cells in enumerate(self.n_focal * self.n_peers):
            widest = max(widest, int(cells))
            if group and (len(group) + 1) * widest > limit:
                yield self._thinned(group, every)
                group = []
                widest = int(cells)
            group.append(k)
        yield self._thinned(group, every)

    def _thinned(self, group: Sequence[int], every: int) -> Batch:
        return self.batch(group, [np.arange(k % every % self.n_focal[k], self.n_focal[k], every) for k in group])

    def random_batches(self, generator: torch.Generator, n_heads: int) -> Iterator[Batch]:
        """Yield batches without end, of a few cross-sections: fewer rows where these times peers times heads are too many.

        Samples that are hardly larger than a step come whole. Periods are drawn in random order; of large ones, some focal rows.
        A pool is never drawn from, so that the gradient is unbiased.
        """
        cells = PAIRS / max(1, n_heads)
        n_sections = max(PERIODS, len(self.sections) / SHARE)
        most = min(ROWS, n_sections * _size_around_a_row(self.n_focal), cells / _size_around_a_row(self.n_peers))
        rows = max(FEWEST, round(most))
        if self.n_rows <= 1.5 * rows and self.n_cells <= 1.5 * cells:
            yield from itertools.repeat(self.batch(range(len(self.sections))))
        # rows of one period share its peers: those of several show a network with less noise
        queries = -(-rows // min(PERIODS, len(self.sections)))
        per_step = max(1, min(round(rows / _size_around_a_row(self.n_focal.clip(max=queries))), len(self.sections)))
        while True:
            order = _order(len(self.sections), generator).tolist()
            for start in range(0, len(order) - per_step + 1, per_step):
                group = order[start : start + per_step]
                picked = [_order(self.n_focal[k], generator)[:queries] for k in group]
                yield self.batch(group, picked)

    @property
    def common(self) -> float:
        """Variance that what the own part leaves of a period's outcomes has in common, over that of a single one."""
        return common_variance(residuals(self.sections))


def _order(n: int, generator: torch.Generator) -> np.ndarray:
    """Return the numbers below n in random order; the generator is the CPU's, whatever the device of the rows."""
    return np.asarray(torch.randperm(int(n), generator=generator, device="cpu"))


def residuals(sections: Sequence[CrossSection]) -> list[CrossSection]:
    """Return cross-sections whose targets are what the own part leaves."""
    left = [replace(s.focal, y=s.focal.outcomes - s.own_term[:, 0]) for s in sections]
    return [replace(section, focal=rows) for section, rows in zip(sections, left, strict=True)]


def _places(sizes: np.ndarray, group: Sequence[int], rows: Sequence[np.ndarray], device: str | torch.device) -> Tensor:
    """Return the numbers of these rows of each cross-section among all rows, (B, n); −1 is padding."""
    first = np.cumsum(sizes) - sizes
    at = [torch.as_tensor(first[k] + some, device=device) for k, some in zip(group, rows, strict=True)]
    return pad_sequence(at, batch_first=True, padding_value=-1)


def _size_around_a_row(sizes: np.ndarray) -> float:
    """Return the size of the cross-section that the average row is in: tiny ones hardly count."""
    return float((sizes**2).sum() / max(sizes.sum(), 1))
