"""Variable projection: given the scores of heads, all else is a ridge regression, which is solved exactly."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from peerattn.models.attention.batches import Batch
from peerattn.models.attention.peer_module import PeerModule
from peerattn.models.attention.samples import PAIRS, Sample
from peerattn.processes import all_sum

RIDGE = 1.0  # on each coefficient, in rows of unit variance


def regression(
    module: PeerModule, heads: Tensor, known: Tensor, batch: Batch, size: int, common: float
) -> tuple[Tensor, Tensor]:
    """Return the columns (G, N, q) and targets (N, K) of G regressions: each of own inputs and the columns of ``size`` heads.

    ``heads`` are the columns of the module's heads, ``known`` those of heads found before, which all regressions have; both
    (B, n, H, width). With an own term, all are net of θ times their period's mean, generalised least squares with random effects
    of periods whose variance is ``common`` times that of a row; for outcomes as values, only a constant is partialled out. Rows
    are multiplied by the root of their weight. A head has one slope on outcomes for all K targets, which then make up N K rows.
    """
    y, weight = batch.y, batch.weight[..., None]
    K, outcomes, linear = y.shape[-1], module.spec.values == "outcomes", module.spec.own == "linear"
    inputs = module.inputs(batch.focal).detach()
    own = torch.cat([inputs, torch.ones_like(inputs[..., :1])], dim=-1) if linear else inputs[..., :0]
    if outcomes and K > 1:
        each = torch.eye(K, dtype=y.dtype, device=y.device)
        own = (own[:, :, None, :, None] * each[:, None]).flatten(3).flatten(1, 2)
        known, heads = (z.transpose(2, 3).flatten(1, 2)[..., None] for z in (known, heads))
        y, weight = y.flatten(1)[..., None], weight.repeat_interleave(K, dim=1)
    mixed = heads.unflatten(2, (-1, size)) if heads.shape[2] else heads[:, :, None]
    mixed = mixed.flatten(3).permute(2, 0, 1, 3)  # without heads, one regression on own columns
    total = weight.sum(1, keepdim=True).clamp(min=1e-12)
    theta = 1 - (1 + common * total).rsqrt()

    def net(z: Tensor) -> Tensor:
        if linear and not outcomes:
            z = z - theta * (z * weight).sum(-2, keepdim=True) / total
        return (z * weight.sqrt()).flatten(-3, -2)

    mixed, before = net(mixed), net(torch.cat([own, known.flatten(2)], dim=-1))
    return torch.cat([before.expand(len(mixed), -1, -1), mixed], dim=-1), net(y)


def of_batch(
    module: PeerModule, found: PeerModule | None, batch: Batch, size: int, common: float
) -> tuple[Tensor, Tensor]:
    """Return the regressions of a batch beside the heads ``found`` before."""
    heads = module.columns(batch)
    with torch.no_grad():
        known = heads[:, :, :0] if found is None else found.columns(batch)
    return regression(module, heads, known, batch, size, common)


def gram_of(Z: Tensor, y: Tensor) -> Tensor:
    """Return products of columns and targets over rows, the targets last, (G, c, c)."""
    rows = torch.cat([Z, y.expand(len(Z), *y.shape)], dim=-1)
    return rows.mT @ rows


def ridge_solution(gram: Tensor, n_targets: int, ridge: float) -> Tensor:
    """Return ridge coefficients (..., columns, K), given products of columns and targets, the targets last."""
    n = gram.shape[-1] - n_targets
    identity = torch.eye(n, dtype=gram.dtype, device=gram.device)
    return torch.linalg.solve(gram[..., :n, :n] + ridge * identity, gram[..., :n, n:])


def penalty(module: PeerModule, sample: Sample) -> Tensor:
    """Return ``λ ‖θ‖² / N`` of the scores of each head, (H,); what heads share counts in equal parts."""
    H, of_heads = module.spec.n_heads, module.per_head()
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
    Z, y = (z.double() for z in of_batch(module, found, batch, size, sample.common))
    with torch.no_grad():
        ridge = RIDGE * all_sum(float(batch.weight.sum())) / sample.n_rows
        b = ridge_solution(all_sum(gram_of(Z, y)), y.shape[-1], ridge)
    squares = all_sum((y - Z @ b).square().sum((1, 2))) + ridge * b.square().sum((1, 2))
    total = all_sum(y.square().sum()).clamp(min=1e-30)
    return (squares / total).clamp(min=1e-12).log() + penalty(module, sample).view(len(squares), -1).sum(1)


@torch.no_grad()
def errors(module: PeerModule, found: PeerModule | None, sample: Sample, size: int = 1) -> Tensor:
    """Return the squared error of each regression over a sample, (G,), times the exponential of its heads' penalty.

    Of large samples every k-th row counts.
    """
    gram, n_targets = torch.zeros(()), 1
    for batch in sample.whole(16 * PAIRS / max(1, module.spec.n_heads)):
        Z, y = of_batch(module, found, batch, size, sample.common)
        gram, n_targets = gram + gram_of(Z.double(), y.double()).cpu(), y.shape[-1]
    gram = all_sum(gram)
    b = ridge_solution(gram, n_targets, RIDGE)
    full = torch.cat([b, -torch.eye(n_targets, dtype=b.dtype).expand(len(b), -1, -1)], dim=1)
    squares = (full * (gram @ full)).sum((1, 2))
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
        b = ridge_solution(gram, 1 if spec.values == "outcomes" else spec.n_outputs, RIDGE)
        n_own = len(b) - spec.n_heads * (1 if spec.values == "outcomes" else spec.width)
        module.value.copy_(b[n_own:].reshape(module.value.shape))
        if spec.own == "linear":
            module.own_slope.copy_(b[:n_own].reshape(spec.n_inputs + 1, -1)[:-1])
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
    """Return products of own columns, heads' columns and targets (c, c), and totals of 1, targets, inputs and heads' columns."""
    heads = module.columns(batch)
    Z, y = regression(module, heads, heads[:, :, :0], batch, max(module.spec.n_heads, 1), common)
    weight = batch.weight[..., None]
    plain = torch.cat(
        [torch.ones_like(weight), batch.y, module.inputs(batch.focal), heads.flatten(2)], dim=-1
    )
    return gram_of(Z.double(), y.double())[0], (plain * weight).double().sum((0, 1))
