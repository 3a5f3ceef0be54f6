"""Variable projection: given the scores of heads, all else is a ridge regression, which is solved exactly."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from peerattn.models.attention.samples import PAIRS, Sample
from peerattn.models.learners.heads.batches import Batch
from peerattn.models.learners.heads.peer_module import PeerModule
from peerattn.processes import all_sum

RIDGE = 1.0  # on each coefficient, in rows of unit variance


def regression(
    module: PeerModule, heads: Tensor, known: Tensor, batch: Batch, size: int, common: float
) -> tuple[Tensor, Tensor]:
    """Return the columns of G regressions: of ``size`` heads each, (G, N, q), and those of all, the targets last, (N, c + K).

    All have own inputs and the columns ``known`` of heads found before; ``heads`` are the columns of the module's heads, both
    (B, n, H, width). With an own term, all are net of θ times their period's mean, generalised least squares with random effects
    of periods whose variance is ``common`` times that of a row; for outcomes as values, only a constant is partialled out. Rows
    are multiplied by the root of their weight. A head has one slope on outcomes for all K targets, which then make up N K rows.
    """
    y = batch.y
    weight = batch.weight[..., None]
    K = y.shape[-1]
    outcomes = module.spec.values == "outcomes"
    linear = module.spec.own == "linear"
    inputs = module.inputs(batch.focal).detach()
    own = torch.cat([inputs, torch.ones_like(inputs[..., :1])], dim=-1) if linear else inputs[..., :0]
    if outcomes and K > 1:
        each = torch.eye(K, dtype=y.dtype, device=y.device)
        own = (own[:, :, None, :, None] * each[:, None]).flatten(3).flatten(1, 2)
        known, heads = (z.transpose(2, 3).flatten(1, 2)[..., None] for z in (known, heads))
        y = y.flatten(1)[..., None]
        weight = weight.repeat_interleave(K, dim=1)
    mixed = heads.unflatten(2, (-1, size)) if heads.shape[2] else heads[:, :, None]
    mixed = mixed.flatten(3).permute(2, 0, 1, 3)  # without heads, one regression on own columns
    total = weight.sum(1, keepdim=True).clamp(min=1e-12)
    theta = 1 - (1 + common * total).rsqrt()

    def net(z: Tensor) -> Tensor:
        if linear and not outcomes:
            z = z - theta * (z * weight).sum(-2, keepdim=True) / total
        return (z * weight.sqrt()).flatten(-3, -2)

    return net(mixed), net(torch.cat([own, known.flatten(2), y], dim=-1))


def of_batch(
    module: PeerModule, found: PeerModule | None, batch: Batch, size: int, common: float
) -> tuple[Tensor, Tensor]:
    """Return the regressions of a batch beside the heads ``found`` before."""
    heads = module.columns(batch)
    with torch.no_grad():
        known = heads[:, :, :0] if found is None else found.columns(batch)
    return regression(module, heads, known, batch, size, common)


def gram_of(mixed: Tensor, of_all: Tensor) -> Tensor:
    """Return products over rows of the columns of each regression, those of all last, (G, q + c + K, q + c + K)."""
    mixed = mixed.double()
    of_all = of_all.double()
    across = mixed.mT @ of_all
    same = (of_all.mT @ of_all).expand(len(mixed), -1, -1)
    return torch.cat([torch.cat([mixed.mT @ mixed, across], 2), torch.cat([across.mT, same], 2)], 1)


def ridge_solution(gram: Tensor, n_targets: int, ridge: float) -> Tensor:
    """Return ridge coefficients (G, columns, K) and, as rows of the targets, minus one: products with them are what is left."""
    n = gram.shape[-1] - n_targets
    identity, targets = (torch.eye(k, dtype=gram.dtype, device=gram.device) for k in (n, n_targets))
    b = torch.linalg.solve(gram[..., :n, :n] + ridge * identity, gram[..., :n, n:])
    return torch.cat([b, -targets.expand(len(b), -1, -1)], dim=1)


def penalty(module: PeerModule, sample: Sample) -> Tensor:
    """Return ``λ ‖θ‖² / N`` of the scores of each head, (H,); what heads share counts in equal parts."""
    H = module.spec.n_heads
    of_heads = module.per_head()
    squares = torch.zeros(H, dtype=module.query.dtype, device=module.query.device)
    for name, parameter in module.score_parameters().items():
        square = parameter.square()
        squares = squares + (square.flatten(1).sum(1) if name in of_heads else square.sum() / max(H, 1))
    return sample.settings.score_ridge / sample.n_rows * squares


def projected_loss(
    module: PeerModule, found: PeerModule | None, batch: Batch, size: int, sample: Sample
) -> Tensor:
    """Return the log of each regression's squared error over all processes, plus the penalty of its heads, (G,).

    At the solution the coefficients' own derivative vanishes, so that they count as constants.
    """
    mixed, of_all = (z.double() for z in of_batch(module, found, batch, size, sample.common))
    q = mixed.shape[-1]
    K = module.spec.n_targets
    with torch.no_grad():
        ridge = RIDGE * all_sum(float(batch.weight.sum())) / sample.n_rows
        b = ridge_solution(all_sum(gram_of(mixed, of_all)), K, ridge)
    left = mixed @ b[:, :q] + of_all @ b[:, q:]
    squares = all_sum(left.square().sum((1, 2))) + ridge * b[:, :-K].square().sum((1, 2))
    total = all_sum(of_all[:, -K:].square().sum()).clamp(min=1e-30)
    return (squares / total).clamp(min=1e-12).log() + penalty(module, sample).view(len(squares), -1).sum(1)


@torch.no_grad()
def errors(module: PeerModule, found: PeerModule | None, sample: Sample, size: int = 1) -> Tensor:
    """Return the squared error of each regression over a sample, (G,), times the exponential of its heads' penalty.

    Of large samples every k-th row counts.
    """
    gram = torch.zeros(())
    for batch in sample.whole(16 * PAIRS / max(1, module.spec.n_heads)):
        gram = gram + gram_of(*of_batch(module, found, batch, size, sample.common)).cpu()
    gram = all_sum(gram)
    b = ridge_solution(gram, module.spec.n_targets, RIDGE)
    squares = (b * (gram @ b)).sum((1, 2))
    return squares * penalty(module, sample).double().cpu().view(len(squares), -1).sum(1).exp()


@torch.no_grad()
def solve(modules: Sequence[PeerModule], sample: Sample) -> None:
    """Set own terms and value vectors (or slopes), in float64, by ridge regression over all sections.

    Residuals have the mean zero.
    """
    found = [[_moments(module, batch, sample.common) for module in modules] for batch in sample.whole()]
    for module, of in zip(modules, zip(*found, strict=True), strict=True):
        spec = module.double().spec
        gram, totals = (all_sum(torch.stack(each).sum(0)) for each in zip(*of, strict=True))
        b = ridge_solution(gram, spec.n_targets, RIDGE)[0, : -spec.n_targets]
        n_heads = module.value.numel() // b.shape[1]
        module.value.copy_(b[:n_heads].reshape(module.value.shape))
        if spec.own == "linear":
            module.own_slope.copy_(b[n_heads:].reshape(spec.n_inputs + 1, -1)[:-1])
            n, y, inputs, heads = totals.tensor_split(
                [1, 1 + spec.n_outputs, 1 + spec.n_outputs + spec.n_inputs]
            )
            module.intercept.copy_((y - inputs @ module.own_slope - _added(module, heads)) / n)


def _added(module: PeerModule, totals: Tensor) -> Tensor:
    """Return the sum of what heads add, (K,), given the sums of their columns."""
    if module.spec.values == "outcomes":
        return (totals.view(module.spec.n_heads, -1) * module.value).sum(0)
    return torch.einsum("hw,hwk->k", totals.view(module.spec.n_heads, -1), module.value)


def _moments(module: PeerModule, batch: Batch, common: float) -> tuple[Tensor, Tensor]:
    """Return products of columns of heads, own ones and targets (1, c, c), and totals of 1, targets, inputs, columns of heads."""
    heads = module.columns(batch)
    columns = regression(module, heads, heads[:, :, :0], batch, max(module.spec.n_heads, 1), common)
    weight = batch.weight[..., None]
    plain = torch.cat(
        [torch.ones_like(weight), batch.y, module.inputs(batch.focal), heads.flatten(2)], dim=-1
    )
    return gram_of(*columns), (plain * weight).double().sum((0, 1))
