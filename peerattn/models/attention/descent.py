"""How scores of heads are learned: by L-BFGS on all rows, or by Adam on drawn ones."""

from __future__ import annotations

from functools import partial

import torch

from peerattn.models.attention.projection import projected_loss
from peerattn.models.attention.samples import Sample
from peerattn.models.learners.heads.batches import Batch
from peerattn.models.learners.heads.peer_module import PeerModule
from peerattn.training.adam import minimise
from peerattn.training.lbfgs import minimise_by_lbfgs

STEPS = 40  # of Adam in a first rung, of L-BFGS
RATE = 0.5  # peak learning rate of Adam in a first rung: at small rates starts stay where they are
FINE_RATE = 0.15  # after it: at high rates what was found is lost in the noise of drawn rows


def explore(module: PeerModule, found: PeerModule | None, sample: Sample, generator: torch.Generator) -> None:
    """Optimise the scores of every head by itself, from random starts, by Adam at high rates on drawn rows."""
    scores = module.score_parameters().values()
    loss = partial(_loss, module, found, 1, sample)
    minimise(scores, loss, sample.drawn(generator, module.spec.n_heads, first=True), STEPS, RATE)


def descend(
    module: PeerModule,
    found: PeerModule | None,
    sample: Sample,
    generator: torch.Generator,
    size: int = 1,
    times: int = 2,
    cycles: int = 1,
) -> None:
    """Optimise the scores of every ``size`` heads jointly, from where they stand.

    By STEPS steps of L-BFGS where it can read all rows at once, which comes as far as Adam in four times as many; else by
    ``cycles`` times STEPS of Adam on so many times ROWS.
    """
    scores = module.score_parameters().values()
    n_heads = module.spec.n_heads
    loss = partial(_loss, module, found, size, sample)
    if sample.at_once(n_heads):
        batch = sample.batch(range(len(sample.sections)))
        return minimise_by_lbfgs(scores, lambda: loss(batch), STEPS)
    minimise(scores, loss, sample.drawn(generator, n_heads, times), cycles * STEPS, FINE_RATE)


def finish(module: PeerModule, sample: Sample, generator: torch.Generator) -> None:
    """Optimise the scores of all heads jointly, and what heads share."""
    if module.spec.n_heads:
        module.requires_grad_(True)
        descend(module, None, sample, generator, module.spec.n_heads, times=4)


def _loss(
    module: PeerModule, found: PeerModule | None, size: int, sample: Sample, batch: Batch
) -> torch.Tensor:
    return projected_loss(module, found, batch, size, sample).sum()
