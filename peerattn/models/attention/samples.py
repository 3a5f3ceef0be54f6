"""The rows that a search for heads learns from: batches of all of them, or drawn without end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from peerattn.models.attention.batches import CELLS_PER_STEP, MOST_PADDED, Batch, SectionTensors, drawn
from peerattn.models.attention.heads import Settings
from peerattn.models.attention.variance_components import common_variance
from peerattn.models.pools import Section

ROWS = 2048  # focal rows of a step in the first rung; in the second twice as many, where large samples finish four times
QUERIES = 256  # focal firms of a period drawn in a step, at most
#: Pairs of focal row and peer, times heads, up to which batches are kept, and L-BFGS sees the whole sample.
SMALL = 2**22


class Sample:
    """Cross-sections as tensors, in batches; small samples are made once."""

    def __init__(self, sections: Sequence[Section], settings: Settings) -> None:
        self.sections, self.settings = sections, settings
        self.tensors = SectionTensors(sections, settings.terms, settings.dtype, settings.device)
        self.common = common_variance(sections)
        self.n_rows = sum(float(weight.sum()) for weight in self.tensors.weight)
        self.cells = [len(s.focal) * len(s.peers) for s in sections]
        self.n_cells = sum(self.cells)
        self._whole: list[Batch] | None = None

    def whole(self, most: float = math.inf) -> Iterator[Batch]:
        """Yield all sections, in batches; where they have more than ``most`` pairs, with every so many-th focal row only."""
        if self.n_cells > min(most, SMALL):
            yield from self._batches(max(1, math.ceil(self.n_cells / most)))
            return
        if self._whole is None:
            self._whole = list(self._batches(1))
        yield from self._whole

    def _batches(self, every: int) -> Iterator[Batch]:
        group: list[int] = []
        total = largest = 0
        for k, cells in enumerate(self.cells):
            if not self.sections[k].here:
                continue
            padded = (len(group) + 1) * max(largest, cells)
            if group and (padded / every > CELLS_PER_STEP or padded > MOST_PADDED * (total + cells)):
                yield self._thinned(group, every)
                group, total, largest = [], 0, 0
            group.append(k)
            total, largest = total + cells, max(largest, cells)
        yield self._thinned(group, every)

    def _thinned(self, group: list[int], every: int) -> Batch:
        focal = [np.arange(0, len(self.sections[k].focal), every) for k in group]
        return self.tensors.batch(group, None if every == 1 else focal)

    def drawn(self, generator: torch.Generator, times: int, n_heads: int) -> Iterator[Batch]:
        """Yield batches of about so many times ROWS focal rows without end, fewer where pairs times heads would be too many.

        Keys are always the full pool, so that the gradient is unbiased and no firm loses its peers.
        """
        cells = CELLS_PER_STEP // max(1, n_heads)
        small = self.n_rows <= 1.5 * times * ROWS and self.n_cells <= 1.5 * cells
        if small and len(whole := list(self.whole())) == 1:
            while True:
                yield whole[0]
        n_peers = _of_a_row([len(s.peers) for s in self.sections])
        rows = max(QUERIES, min(times * ROWS, round(cells / n_peers)))
        n_focal = _of_a_row([min(len(s.focal), QUERIES) for s in self.sections])
        per_step = max(1, min(round(rows / n_focal), len(self.sections)))
        for group, chosen in drawn(self.sections, generator, per_step, QUERIES):
            yield self.tensors.batch(group, chosen)


def _of_a_row(sizes: list[int]) -> float:
    """Return the size of the cross-section that the average row is in: tiny ones hardly count."""
    return sum(size**2 for size in sizes) / max(sum(sizes), 1)
