"""The rows that a search for heads learns from: batches of all of them, or drawn without end."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.heads.batches import Batch, PairTensors, RowTensors
from peerattn.models.learners.heads.heads import Settings
from peerattn.models.learners.variance_components import common_variance
from peerattn.processes import n_processes, process

PAIRS = 2**21  # of focal row and peer, times heads, in a step at most ...
FIRST = 8  # ... and times as many in a first rung: a weak network does not show in few rows
ETA = 4  # of so many starts of a first rung one goes on, with so many times the steps
ROWS = 2048  # focal rows of a step of Adam; in the second rung twice as many, where large samples finish four times
#: Focal firms of a period drawn in a step, at most. Of large pools a first rung has as many rows a step, and ETA times as many
#: peers; later ones ETA times as many rows, and all peers.
QUERIES = 256
Picked = Sequence[np.ndarray]  # positions in each of some cross-sections


class Sample:
    """Cross-sections as tensors, of which batches are made."""

    def __init__(self, sections: Sequence[CrossSection], settings: Settings) -> None:
        self.sections = sections
        self.settings = settings
        self.common = common_variance(sections)
        self.focal = self._rows([section.focal for section in sections])
        self.peers = self._rows([section.peers for section in sections], sections)
        weight = np.concatenate([section.focal.loss_weights for section in sections])
        self.weight = torch.as_tensor(weight, dtype=settings.dtype).to(settings.device)
        self.n_rows = float(weight.sum())
        self.n_focal = np.array([len(section.focal) for section in sections])
        self.n_peers = np.array([len(section.peers) for section in sections])
        self.n_cells = int(self.n_focal @ self.n_peers)
        self._whole: list[Batch] = []

    def _rows(self, rows: Sequence[Rows], of: Sequence[CrossSection] = ()) -> RowTensors:
        answering = [np.ones(len(s.peers), bool) if s.answering is None else s.answering for s in of]
        known = np.concatenate(answering) if answering else None
        return RowTensors.of(Rows.stacked(rows), known, self.settings.dtype, self.settings.device)

    def batch(self, group: Sequence[int], focal: Picked | None = None, pool: Picked | None = None) -> Batch:
        """Return some of the cross-sections, padded: these ``focal`` rows of each and these peers, by default all.

        Of several processes each has its share of them; where it has none, a cross-section without a focal row.
        """
        rows = [np.arange(self.n_focal[k]) for k in group] if focal is None else focal
        pools = [np.arange(self.n_peers[k]) for k in group] if pool is None else pool
        if n_processes() > 1:
            mine = [z for z in zip(group, rows, pools, strict=True) if z[0] % n_processes() == process()]
            group, rows, pools = zip(*(mine or [(group[0], rows[0][:0], pools[0])]), strict=True)
        settings = self.settings
        sections = [self.sections[k] for k in group]
        if pool is not None:
            sections = [section.take(slice(None), at) for section, at in zip(sections, pools, strict=True)]
        at = _places(self.n_focal, group, rows, settings.device)
        weight = torch.where(at >= 0, self.weight[at.clamp(min=0)], 0.0)
        pairs = PairTensors.of(sections, rows, settings.terms, settings.dtype, settings.device)
        peers = self.peers.at(_places(self.n_peers, group, pools, settings.device))
        return Batch(self.focal.at(at), peers, weight, pairs)

    def at_once(self, n_heads: int) -> bool:
        """Whether L-BFGS can read all rows: no more of them, and of pairs, times heads than four steps of Adam on six heads."""
        return n_heads * max(self.n_rows / (12 * ROWS), self.n_cells / PAIRS) <= ETA

    def whole(self, most: float = math.inf) -> Iterator[Batch]:
        """Return all sections, in batches; where they have more than ``most`` pairs, with every k-th focal row only."""
        if self.n_cells > min(most, 2 * PAIRS):
            return self._batches(max(1, math.ceil(self.n_cells / most)))
        self._whole = self._whole or list(self._batches(1))
        return iter(self._whole)

    def _batches(self, every: int) -> Iterator[Batch]:
        group = list[int]()
        longest = 0
        for k, cells in enumerate(self.n_focal * self.n_peers):
            longest = max(longest, cells)
            if group and (len(group) + 1) * longest / every > PAIRS:
                yield self._thinned(group, every)
                group = []
                longest = cells
            group.append(k)
        yield self._thinned(group, every)

    def _thinned(self, group: Sequence[int], every: int) -> Batch:
        return self.batch(group, [np.arange(0, self.n_focal[k], every) for k in group])

    def drawn(
        self, generator: torch.Generator, n_heads: int, times: int = 1, *, first: bool = False
    ) -> Iterator[Batch]:
        """Yield batches of about so many times ROWS focal rows without end, fewer where pairs times heads would be too many.

        Keys are the full pool, so that the gradient is unbiased and no firm loses its peers. A ``first`` rung only has to show
        where to search: of more than ETA times QUERIES peers so many are drawn anew in every step, and FIRST times as many
        pairs are read: a weak network does not show in few rows.
        """
        cells = PAIRS // max(1, n_heads // FIRST if first else n_heads)
        if self.n_rows <= 1.5 * times * ROWS and self.n_cells <= 1.5 * cells:
            yield from itertools.repeat(self.batch(range(len(self.sections))))
        fewest, most = (QUERIES, ETA * QUERIES) if first else (ETA * QUERIES, int(self.n_peers.max()))
        rows = max(fewest, min(times * ROWS, round(cells / _of_a_row(self.n_peers.clip(max=most)))))
        per_step = max(1, min(round(rows / _of_a_row(self.n_focal.clip(max=QUERIES))), len(self.sections)))
        limits = (self.n_focal, QUERIES), (self.n_peers, most)
        while True:
            order = torch.randperm(len(self.sections), generator=generator).tolist()
            for start in range(0, len(order) - per_step + 1, per_step):
                group = order[start : start + per_step]
                yield self.batch(group, *(_picked(*limit, group, generator) for limit in limits))


def _picked(sizes: np.ndarray, most: int, group: Sequence[int], generator: torch.Generator) -> Picked | None:
    """Return at most so many positions of each of these cross-sections, at random; None (all) where none is larger."""
    if (sizes <= most).all():
        return None
    return [torch.randperm(int(sizes[k]), generator=generator)[:most].numpy() for k in group]


def _places(sizes: np.ndarray, group: Sequence[int], rows: Sequence[np.ndarray], device: str) -> Tensor:
    """Return the numbers of these rows of each cross-section among all rows, (B, n); −1 is padding."""
    first = np.cumsum(sizes) - sizes
    at = [torch.as_tensor(first[k] + some) for k, some in zip(group, rows, strict=True)]
    return pad_sequence(at, batch_first=True, padding_value=-1).to(device)


def _of_a_row(sizes: np.ndarray) -> float:
    """Return the size of the cross-section that the average row is in: tiny ones hardly count."""
    return float((sizes**2).sum() / max(sizes.sum(), 1))
