"""Batches of training rows for heads: focal rows are drawn, their pools are always whole."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.batches import Batch, Sample
from peerattn.processes import n_processes, process

PAIRS = 2**21  # of focal row and peer, times heads, in a step
ROWS = 640  # focal rows in a step at most ...
PERIODS = 4  # ... of so many cross-sections at least, ...
SHARE = 15  # ... or of one in so many where there are many: each is then seen some 40 times in training ...
FEWEST = 192  # ... and at least so many rows, however small a cross-section or large a pool is


def own_share(sample: Sample, group: Sequence[int], rows: Sequence[np.ndarray] | None = None) -> Batch:
    """Return these focal rows of some cross-sections; of several processes each has its share of the cross-sections.

    Where a process has none, it has a cross-section without a focal row.
    """
    rows = list(rows or map(np.arange, sample.n_focal[list(group)]))
    mine = [k for k, number in enumerate(group) if number % n_processes() == process()]
    if not mine:
        return sample.batch([group[0]], [rows[0][:0]])
    return sample.batch([group[k] for k in mine], [rows[k] for k in mine])


def all_batches(sample: Sample, n_heads: int, most: int) -> Iterator[Batch]:
    """Yield all cross-sections in batches; where they have more than ``most`` rows, with every k-th row only."""
    every = max(1, -(-sample.n_rows // most))
    limit = max(1, PAIRS // max(1, n_heads)) * every
    group = list[int]()
    widest = 0
    for k, cells in enumerate(sample.n_focal * sample.n_peers):
        widest = max(widest, int(cells))
        if group and (len(group) + 1) * widest > limit:
            yield _thinned(sample, group, every)
            group = []
            widest = int(cells)
        group.append(k)
    yield _thinned(sample, group, every)


def _thinned(sample: Sample, group: Sequence[int], every: int) -> Batch:
    return own_share(sample, group, [np.arange(k % every % sample.n_focal[k], sample.n_focal[k], every) for k in group])


def random_batches(sample: Sample, generator: torch.Generator, n_heads: int) -> Iterator[Batch]:
    """Yield batches without end, of a few cross-sections: fewer rows where these times peers times heads are too many.

    Samples that are hardly larger than a step come whole. Periods are drawn in random order; of large ones, some focal rows.
    A pool is never drawn from, so that the gradient is unbiased.
    """
    cells = PAIRS / max(1, n_heads)
    n_sections = len(sample.sections)
    periods = max(PERIODS, n_sections / SHARE)
    most = min(ROWS, periods * _size_around_a_row(sample.n_focal), cells / _size_around_a_row(sample.n_peers))
    rows = max(FEWEST, round(most))
    if sample.n_rows <= 1.5 * rows and int(sample.n_focal @ sample.n_peers) <= 1.5 * cells:
        yield from itertools.repeat(own_share(sample, range(n_sections)))
    # rows of one period share its peers: those of several show a network with less noise
    queries = -(-rows // min(PERIODS, n_sections))
    per_step = max(1, min(round(rows / _size_around_a_row(sample.n_focal.clip(max=queries))), n_sections))
    while True:
        order = _order(n_sections, generator).tolist()
        for start in range(0, len(order) - per_step + 1, per_step):
            group = order[start : start + per_step]
            picked = [_order(sample.n_focal[k], generator)[:queries] for k in group]
            yield own_share(sample, group, picked)


def _order(n: int, generator: torch.Generator) -> np.ndarray:
    """Return the numbers below n in random order; the generator is the CPU's, whatever the device of the rows."""
    return np.asarray(torch.randperm(int(n), generator=generator, device="cpu"))


def residuals(sections: Sequence[CrossSection]) -> list[CrossSection]:
    """Return cross-sections whose targets are what the own part leaves."""
    left = [replace(s.focal, y=s.focal.outcomes - s.own_term[:, 0]) for s in sections]
    return [replace(section, focal=rows) for section, rows in zip(sections, left, strict=True)]


def _size_around_a_row(sizes: np.ndarray) -> float:
    """Return the size of the cross-section that the average row is in: tiny ones hardly count."""
    return float((sizes**2).sum() / max(sizes.sum(), 1))
