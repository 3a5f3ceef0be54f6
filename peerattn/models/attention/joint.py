"""All heads trained together by gradient steps: heads that are not selected, and linear attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from peerattn.models.attention.batches import Batch, batches
from peerattn.models.attention.heads import AnyModule, Settings, average_unseen_codes, make_module
from peerattn.models.attention.linear_attention import LinearAttention
from peerattn.models.attention.peer_module import PeerSpec
from peerattn.models.attention.projection import solve
from peerattn.models.attention.samples import Sample
from peerattn.models.pools import Section
from peerattn.processes import all_sum
from peerattn.training import train

ROWS_PER_COLUMN = 10  # below which what is linear is not solved for: it would be learned by heart


def train_heads(spec: PeerSpec, sections: Sequence[Section], settings: Settings, seed: int) -> AnyModule:
    """Return a module of ``spec.n_heads`` heads, trained together on the targets of the sections by squared error."""
    generator = torch.Generator().manual_seed(seed)
    module = make_module(spec, generator, settings.dtype).to(settings.device)
    optimise(module, sections, settings, generator)
    average_unseen_codes(module, sections)
    module = module.double()
    if settings.n_rows >= ROWS_PER_COLUMN * spec.n_columns:
        settings = replace(settings, dtype=torch.float64)
        if isinstance(module, LinearAttention):
            module.solve(Sample(sections, settings).whole())
        else:
            solve(module, Sample(sections, settings))
    return module


def optimise(
    module: AnyModule, sections: Sequence[Section], settings: Settings, generator: torch.Generator
) -> None:
    """Minimise the mean squared error by ``settings.max_steps`` steps of AdamW on a one-cycle schedule."""
    if not any(parameter.numel() for parameter in module.parameters()):
        return
    stream = batches(
        sections,
        settings.terms,
        generator,
        queries=settings.queries_per_step,
        dtype=settings.dtype,
        device=settings.device,
    )
    train(
        module,
        lambda batch: mean_squared_error(module, batch),
        stream,
        max_steps=settings.max_steps,
        learning_rate=settings.learning_rate,
        progress=None if settings.progress is None else f"{settings.progress}, heads: {module.spec.n_heads}",
        checkpoint=settings.checkpoint,
        generators=[generator],
    )


def mean_squared_error(module: AnyModule, batch: Batch) -> Tensor:
    """Return the weighted mean squared error over the focal rows of a batch, and of the other processes'."""
    errors = squared_errors(module(batch.focal, batch.peers, batch.pairs)[0], batch)
    return all_sum(errors.sum()) / all_sum(batch.weight.sum())


def squared_errors(predicted: Tensor, batch: Batch) -> Tensor:
    """Return the weighted squared error of every focal row, (B, n), summed over outputs."""
    return ((predicted - batch.y.view_as(predicted)) ** 2).sum(-1) * batch.weight
