"""How scores of heads are learned: by L-BFGS on all rows, or by Adam on drawn ones."""

from __future__ import annotations

import torch

from peerattn.models.attention.batches import Batch
from peerattn.models.attention.peer_module import PeerModule
from peerattn.models.attention.projection import projected_loss
from peerattn.models.attention.samples import Sample
from peerattn.training.adam import minimise
from peerattn.training.lbfgs import minimise_by_lbfgs

STEPS = 40  # of Adam in a first rung, of L-BFGS
FINE_RATE = 0.15  # peak learning rate of Adam after a first rung: at high rates what was found is lost in the noise of rows


def descend(
    module: PeerModule,
    found: PeerModule | None,
    sample: Sample,
    generator: torch.Generator,
    times: int,
    rate: float,
    size: int = 1,
    cycles: int = 1,
) -> None:
    """Optimise the scores of every ``size`` heads jointly.

    A first rung (``times`` 1) explores, by STEPS steps of Adam at high rates. Whatever follows takes as many of L-BFGS where it
    can read all rows at once, and comes as far as Adam in four times as many; else Adam with so many times ROWS a step.
    """
    scores, n_heads = module.score_parameters().values(), module.spec.n_heads

    def loss(batch: Batch) -> torch.Tensor:
        return projected_loss(module, found, batch, size, sample).sum()

    if times > 1 and sample.at_once(n_heads):
        batch = sample.batch(range(len(sample.sections)))
        return minimise_by_lbfgs(scores, lambda: loss(batch), STEPS)
    minimise(scores, loss, sample.drawn(generator, times, n_heads), cycles * STEPS, rate)


def finish(module: PeerModule, sample: Sample, generator: torch.Generator) -> None:
    """Optimise the scores of all heads jointly, and what heads share."""
    if module.spec.n_heads:
        module.requires_grad_(True)
        descend(module, None, sample, generator, 4, FINE_RATE, module.spec.n_heads)
