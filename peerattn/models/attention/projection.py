"""Variable projection: given the scores of heads, all else is a ridge regression, which is solved exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from peerattn.models.attention.batches import Batch
from peerattn.models.attention.peer_module import PeerModule
from peerattn.models.attention.samples import Sample
from peerattn.processes import all_sum

RIDGE = 1.0  # on each coefficient, in rows of unit variance
#: Pairs times heads up to which all focal rows of a sample rank heads; of larger samples every so many-th row does.
THINNED = 2**25


def score_parameters(module: PeerModule) -> dict[str, torch.nn.Parameter]:
    """Return what scores depend on: all parameters but those in which predictions are linear."""
    linear = ("value.weight", "slope", "own_slope", "intercept")
    return {name: parameter for name, parameter in module.named_parameters() if name not in linear}


def shared_parameters(module: PeerModule) -> dict[str, torch.nn.Parameter]:
    """Return what all heads share: embeddings of codes."""
    of_heads = module.per_head()
    return {name: parameter for name, parameter in score_parameters(module).items() if name not in of_heads}


def columns(module: PeerModule, batch: Batch) -> Tensor:
    """Return the columns in which each head's contribution is linear, (B, n_focal, H, width)."""
    if not module.spec.n_heads:
        width = module.spec.n_outputs if module.spec.values == "outcomes" else module.spec.width
        return batch.focal.x.new_zeros(*batch.focal.x.shape[:2], 0, width)
    looking, shown = module.features(batch.focal, batch.peers, batch.pairs)
    if module.spec.values == "outcomes":
        value = module._value(shown, batch.peers)
    else:
        value = module.per_head_features(shown)
    return module.mean(looking, shown, batch.bars, batch.pairs, value).transpose(1, 2)


def parts(
    module: PeerModule, found: PeerModule | None, batch: Batch, size: int, common: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what is partialled out (B, n, q), heads' columns (H, B, n, width), and targets (B, n, K) of a batch.

    With an own term, all are net of θ times their period's mean, generalised least squares with random effects of periods whose
    variance is ``common`` times that of a row; for outcomes as values, only a constant is partialled out. Rows are multiplied by
    the root of their weight. The columns of ``size`` heads after each other make up one regression, of which
    there are H. A head has one slope on outcomes for all K targets, which then make up n K rows.
    """
    mixed = columns(module, batch)
    with torch.no_grad():
        known = mixed[:, :, :0] if found is None else columns(found, batch)
    return _net(module, batch, mixed, known, size, common)


def _net(
    module: PeerModule, batch: Batch, mixed: Tensor, known: Tensor, size: int, common: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what :func:`parts` does, of the heads' columns and those partialled out, (B, n, H, width)."""
    y = _targets(batch)
    K, outcomes = y.shape[-1], module.spec.values == "outcomes"
    linear = module.spec.own == "linear"
    inputs = module.inputs(batch.focal).detach()
    own = torch.cat([inputs, torch.ones_like(inputs[..., :1])], dim=-1) if linear else inputs[..., :0]
    weight = batch.weight[..., None]  # (B, n, 1)
    if outcomes and K > 1:
        each = torch.eye(K, dtype=y.dtype, device=y.device)
        own = (own[:, :, None, :, None] * each[:, None]).flatten(3).flatten(1, 2)
        known, mixed = (z.transpose(2, 3).flatten(1, 2)[..., None] for z in (known, mixed))
        y, weight = y.flatten(1)[..., None], weight.repeat_interleave(K, dim=1)
    together = mixed.unflatten(2, (-1, size)) if mixed.shape[2] else mixed[:, :, None]
    mixed = together.flatten(3).permute(2, 0, 1, 3)  # without heads, one regression on own columns
    root, total = weight.sqrt(), weight.sum(1, keepdim=True).clamp(min=1e-12)

    theta = 1 - (1 + common * total).rsqrt()

    def net(z: Tensor) -> Tensor:
        if linear and not outcomes:
            z = z - theta * (z * weight).sum(-2, keepdim=True) / total
        return z * root

    return net(torch.cat([own, known.flatten(2)], dim=-1)), net(mixed), net(y)


def _targets(batch: Batch) -> Tensor:
    return batch.y if batch.y.ndim == 3 else batch.y[..., None]  # (B, n, K)


def ridge_solution(gram: Tensor, n_targets: int, ridge: float) -> Tensor:
    """Return ridge coefficients (..., columns, K), given products of columns and targets, the targets last."""
    n = gram.shape[-1] - n_targets
    identity = torch.eye(n, dtype=gram.dtype, device=gram.device)
    return torch.linalg.solve(gram[..., :n, :n] + ridge * identity, gram[..., :n, n:])


def squared_errors(gram: Tensor, b: Tensor) -> Tensor:
    """Return squared errors (...,) of the coefficients b, given products of columns and targets."""
    K = b.shape[-1]
    minus_one = -torch.eye(K, dtype=b.dtype, device=b.device).expand(*b.shape[:-2], K, K)
    full = torch.cat([b, minus_one], dim=-2)
    return (full * (gram @ full)).sum((-2, -1))


def _products(own: Tensor, mixed: Tensor, y: Tensor) -> Tensor:
    """Return products of own columns, each head's columns and targets over rows, (H, ..., c, c)."""
    H = len(mixed)
    rows = torch.cat([own.expand(H, *own.shape), mixed, y.expand(H, *y.shape)], dim=-1)
    return rows.mT @ rows


def penalty(module: PeerModule, sample: Sample) -> Tensor:
    """Return ``λ ‖θ‖² / N`` of the scores of each head, (H,); what heads share counts in equal parts."""
    scores, H = score_parameters(module), module.spec.n_heads
    of_heads = [scores[name].reshape(H, -1) for name in module.per_head() if name in scores]
    squares = torch.stack([parameter.square().sum(1) for parameter in of_heads]).sum(0)
    for parameter in shared_parameters(module).values():
        squares = squares + parameter.square().sum() / len(squares)
    return sample.settings.score_ridge / sample.n_rows * squares


def projected_loss(
    module: PeerModule, found: PeerModule | None, batch: Batch, size: int, sample: Sample
) -> Tensor:
    """Return the log of each regression's squared error over all processes, plus the penalty of its heads, (H,).

    At the solution the coefficients' own derivative vanishes, so that they count as constants.
    """
    own, mixed, y = (z.flatten(-3, -2) for z in parts(module, found, batch, size, sample.common))
    with torch.no_grad():
        ridge = RIDGE * all_sum(float(batch.weight.sum())) / sample.n_rows
        b = ridge_solution(all_sum(_products(own, mixed, y)), y.shape[-1], ridge)
        rest = y - own @ b[:, : own.shape[-1]]
    rest = rest - mixed @ b[:, own.shape[-1] :]
    squares = all_sum(rest.square().sum((1, 2))) + ridge * b.square().sum((1, 2))
    total = all_sum(y.square().sum()).clamp(min=1e-30)
    return (squares / total).clamp(min=1e-12).log() + penalty(module, sample).view(len(squares), -1).sum(1)


@torch.no_grad()
def products(
    module: PeerModule, found: PeerModule | None, sample: Sample, size: int = 1
) -> Iterator[tuple[Tensor, tuple[int, int]]]:
    """Yield products of some sections (H, B, c, c), in float64, and the numbers of own columns and of targets."""
    for batch in sample.whole(THINNED / max(1, module.spec.n_heads)):
        own, mixed, y = (z.double() for z in parts(module, found, batch, size, sample.common))
        yield _products(own, mixed, y), (own.shape[-1], y.shape[-1])


def summed(found: Iterator[tuple[Tensor, tuple[int, int]]]) -> tuple[Tensor, tuple[int, int]]:
    """Return the sum over sections of all processes, (H, c, c), and the numbers of own columns and of targets."""
    grams, shapes = zip(*((gram.sum(1), shape) for gram, shape in found), strict=True)
    return all_sum(torch.stack(grams).sum(0)), shapes[0]


@torch.no_grad()
def solve(modules: Sequence[PeerModule], sample: Sample) -> None:
    """Set own terms and value vectors (or slopes), in float64, by ridge regression over all sections.

    Residuals have the mean zero.
    """
    found = [[_moments(module, batch, sample.common) for module in modules] for batch in sample.whole()]
    for module, of in zip(modules, zip(*found, strict=True), strict=True):
        spec = module.double().spec
        n_targets, width = (1, 1) if spec.values == "outcomes" else (spec.n_outputs, spec.width)
        gram, totals = (all_sum(torch.stack(each).sum(0)) for each in zip(*of, strict=True))
        b = ridge_solution(gram, n_targets, RIDGE)
        n_own = len(b) - spec.n_heads * width
        if spec.n_heads:
            module.head_values.copy_(b[n_own:].reshape(module.head_values.shape))
        if spec.own == "linear":
            module.own_slope.copy_(b[:n_own].reshape(spec.n_inputs + 1, -1)[:-1])
            module.intercept.copy_(_mean_residual(module, totals))


def _mean_residual(module: PeerModule, totals: Tensor) -> Tensor:
    """Return the mean of what own slopes and heads leave of the targets, (K,)."""
    spec = module.spec
    n, y, inputs, heads = totals.tensor_split(np.cumsum([1, spec.n_outputs, spec.n_inputs]).tolist())
    rest = y - inputs @ module.own_slope
    if spec.n_heads:
        heads, values = heads.view(spec.n_heads, -1), module.head_values
        outcomes = spec.values == "outcomes"
        rest = rest - ((heads * values).sum(0) if outcomes else torch.einsum("hw,hwk->k", heads, values))
    return rest / n


def _moments(module: PeerModule, batch: Batch, common: float) -> tuple[Tensor, Tensor]:
    """Return products of own columns, heads' columns and targets (c, c), and totals of 1, targets, inputs and heads' columns."""
    heads = columns(module, batch)
    rows = _net(module, batch, heads, heads[:, :, :0], module.spec.n_heads, common)
    weight, y = batch.weight[..., None], _targets(batch)
    plain = torch.cat([torch.ones_like(weight), y, module.inputs(batch.focal), heads.flatten(2)], dim=-1)
    return _products(*(z.double() for z in rows)).sum((0, 1)), (plain * weight).double().sum((0, 1))
