"""All heads trained together by gradient steps: heads that are not selected, and linear attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from peerattn.models.attention.batches import Batch, SectionTensors, batches
from peerattn.models.attention.heads import AnyModule, Settings, average_unseen_codes, make_module
from peerattn.models.attention.peer_module import PeerSpec
from peerattn.models.pools import Section
from peerattn.training import train

ROWS_PER_COLUMN = 10  # that least squares on heads asks for


def train_heads(spec: PeerSpec, sections: Sequence[Section], settings: Settings, seed: int) -> AnyModule:
    """Return a module of ``spec.n_heads`` heads, trained together on the targets of the sections by squared error."""
    generator = torch.Generator().manual_seed(seed)
    module = make_module(spec, generator, settings.dtype).to(settings.device)
    optimise(module, sections, settings, generator)
    average_unseen_codes(module, sections)
    module = module.double()
    solve_linear(module, sections, replace(settings, dtype=torch.float64))
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
    )


def mean_squared_error(module: AnyModule, batch: Batch) -> Tensor:
    """Return the weighted mean squared error over the focal rows of a batch."""
    return squared_errors(module(batch.focal, batch.peers, batch.pairs)[0], batch).sum() / batch.weight.sum()


def squared_errors(predicted: Tensor, batch: Batch) -> Tensor:
    """Return the weighted squared error of every focal row, (B, n), summed over outputs."""
    return ((predicted - batch.y.view_as(predicted)) ** 2).sum(-1) * batch.weight


@torch.no_grad()
def solve_linear(module: AnyModule, sections: Sequence[Section], settings: Settings) -> None:
    """Set what is linear, own term and value vectors (or slopes), by least squares given the weights, where rows are enough."""
    gram, moment = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for section in sections:
        batch = SectionTensors([section], settings.terms, settings.dtype, settings.device).batch([0])
        design = module.design(batch.focal, batch.peers, batch.pairs)[0].double().cpu()  # (n, columns)
        weighted = design * batch.weight[0].double().cpu()[:, None]
        y = batch.y[0].double().cpu()
        gram, moment = gram + weighted.T @ design, moment + weighted.T @ y.reshape(len(y), -1)
    few_rows = module.spec.n_heads and settings.n_rows < ROWS_PER_COLUMN * len(gram)
    if gram.numel() > 1 and not few_rows:
        module.set_linear(torch.linalg.pinv(gram, hermitian=True) @ moment)
