"""The search for attention heads: many random starts at once, successively halved, their linear part solved exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from peerattn.models.attention.batches import Batch, SectionTensors, batches
from peerattn.models.attention.heads import Settings, average_unseen_codes, with_heads
from peerattn.models.attention.peer_module import PeerModule, PeerSpec, admissible, attend
from peerattn.models.pools import Section
from peerattn.training import train

STARTS, SURVIVORS = 32, 4  # how many heads start, and how many of them finish
ETA = 2  # of the starts that are left, one in so many goes on from each rung, with as many times the steps
STEPS = 40  # of the first rung
RATE = 0.1  # peak learning rate
RIDGE = 1.0  # on each column, in rows
HELD_OUT = 0.2  # share of the periods on which another head must show what it adds
MIN_CLUSTERS = (
    5  # held-out periods from which a standard error by period can be taken; of fewer, blocks of firms are
)
ERRORS = 2.0  # standard errors that another head must add


@dataclass(frozen=True)
class Search:
    """Heads that were found, and how.

    Attributes
    ----------
    module : PeerModule
        The found heads (at least one unless ``spec.n_heads`` is 0), optimised together on all sections, in float64, with own
        term and value vectors (or slopes) by least squares.
    gains : tuple of (float, float)
        For each found head, and for the one refused last: the fall of the held-out loss, as a share of the loss without
        heads, and its standard error (clustered by period).
    rivals : PeerModule
        The best starts of the first head, one head each, best on held-out periods first. Their value vectors are not set.
    rival_losses : ndarray
        Their held-out losses, as shares of the loss without heads.
    """

    module: PeerModule
    gains: tuple[tuple[float, float], ...]
    rivals: PeerModule
    rival_losses: np.ndarray


def find_heads(spec: PeerSpec, sections: Sequence[Section], settings: Settings, seed: int) -> Search:
    r"""Return up to ``spec.n_heads`` heads that lower the squared error of the targets ``focal.y`` of the sections.

    Given weights, the loss is a ridge regression in value vectors (or slopes), which is solved exactly; only scores are
    optimised (variable projection):

    .. math:: \min_\theta\; \min_{a, b} \sum_t \| M_t (y_t - X_t a - V_t(\theta) b) \|^2 + \lambda (\|a\|^2 + \|b\|^2)

    V are the columns of a head, the weighted means of its peers' features (or outcomes); X are own inputs and the columns of
    heads found before; M takes out the period's mean (``values="characteristics"``; else one constant).

    References
    ----------
    Golub and Pereyra (1973), SIAM Journal on Numerical Analysis 10.
    Jamieson and Talwalkar (2016), Non-stochastic best arm identification, AISTATS.
    """
    generator = torch.Generator().manual_seed(seed)
    training, held_out = split(sections)
    found = rivals = _start(spec, 0, generator, settings)
    without = before = held_out_losses(found, None, training, held_out, settings)[0]
    gains: list[tuple[float, float]] = []
    rival_losses = np.zeros(0)
    while found.spec.n_heads < spec.n_heads:
        starts = halved(spec, found, training, settings, generator)
        losses = held_out_losses(starts, found, training, held_out, settings).sum(1)
        order = losses.argsort()
        if not gains:
            rivals, rival_losses = with_heads(starts, order), (losses[order] / without.sum()).cpu().numpy()
        grown = beside(found, with_heads(starts, order[:1]))
        if found.spec.n_heads:
            optimise(grown, None, training, settings, generator, STEPS, joint=True)
        after = held_out_losses(grown, None, training, held_out, settings, joint=True)[0]
        gains.append(_gain(before - after, without))
        if found.spec.n_heads and gains[-1][0] <= ERRORS * gains[-1][1]:
            break
        found, before = grown, after
    optimise(found, None, sections, settings, generator, STEPS, joint=True)
    average_unseen_codes(found, sections)
    solve(found.double(), sections, replace(settings, dtype=torch.float64))
    return Search(found, tuple(gains), rivals.double(), rival_losses)


def _start(spec: PeerSpec, n_heads: int, generator: torch.Generator, settings: Settings) -> PeerModule:
    return PeerModule(replace(spec, n_heads=n_heads), generator, settings.dtype).to(settings.device)


def _gain(difference: Tensor, without: Tensor) -> tuple[float, float]:
    """Return the sum over clusters of a fall in loss, as a share, and its standard error."""
    share = difference / without.sum()
    return float(share.sum()), float(share.std() * len(share) ** 0.5)


def split(sections: Sequence[Section]) -> tuple[list[Section], list[Section]]:
    """Return training and held-out sections: the last periods are held out; where periods are few, a fifth of the firms."""
    n = round(len(sections) * HELD_OUT)
    if n >= MIN_CLUSTERS:
        return list(sections[:-n]), list(sections[-n:])
    one_in, n_blocks = round(1 / HELD_OUT), -(-MIN_CLUSTERS // len(sections))
    training, held_out = [], []
    for section in sections:
        identity = section.focal.identity
        number = np.where(identity < 0, np.arange(len(identity)), identity)
        chosen = number % one_in == 0
        training.append(_focal(section, ~chosen))
        held_out += [_focal(section, chosen & (number // one_in % n_blocks == k)) for k in range(n_blocks)]
    return [s for s in training if len(s.focal)], [s for s in held_out if len(s.focal)]


def _focal(section: Section, chosen: np.ndarray) -> Section:
    at = np.flatnonzero(chosen)
    return replace(section, at=at, focal=section.focal.take(at))


def beside(found: PeerModule, more: PeerModule) -> PeerModule:
    """Return one module with the heads of both; what heads share is the second's."""
    both = with_heads(more, torch.arange(more.spec.n_heads))
    both.spec = replace(more.spec, n_heads=found.spec.n_heads + more.spec.n_heads)
    for name, parameter in found.per_head().items():
        joined = torch.cat([parameter.detach(), getattr(more, name).detach()])
        setattr(both, name, torch.nn.Parameter(joined))
    return both


def halved(
    spec: PeerSpec,
    found: PeerModule,
    training: Sequence[Section],
    settings: Settings,
    generator: torch.Generator,
) -> PeerModule:
    """Return the best of many starts, beside the heads found before, each optimised by itself."""
    module, steps = _start(spec, STARTS, generator, settings), STEPS
    while True:
        optimise(module, found, training, settings, generator, steps)
        if module.spec.n_heads <= SURVIVORS:
            return module
        loss = training_losses(module, found, training, settings)
        module = with_heads(module, loss.argsort()[: max(SURVIVORS, module.spec.n_heads // ETA)].cpu())
        steps *= ETA


def optimise(
    module: PeerModule,
    found: PeerModule | None,
    sections: Sequence[Section],
    settings: Settings,
    generator: torch.Generator,
    steps: int,
    joint: bool = False,
) -> None:
    """Optimise the scores of every head by itself, or of all jointly."""
    linear = ("value", "slope", "own_slope", "intercept")
    scores = [parameter for name, parameter in module.named_parameters() if name not in linear]
    if not module.spec.n_heads:
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
        scores,
        lambda batch: projected_loss(module, found, batch, settings, joint).sum(),
        stream,
        max_steps=steps,
        learning_rate=RATE,
        clip=None,
    )


# ---------------------------------------------------------------------- least squares given the weights


def columns(module: PeerModule, batch: Batch) -> Tensor:
    """Return the columns in which each head's contribution is linear, (B, n_focal, H, width)."""
    if not module.spec.n_heads:
        return batch.focal.x.new_zeros(*batch.focal.x.shape[:2], 0, 1)
    looking, shown = module.features(batch.focal, batch.peers)
    if module.spec.values == "outcomes":
        value = module._value(shown, batch.peers)
    else:
        value = shown[:, None].expand(-1, module.spec.n_heads, -1, -1)
    scores = module._scores(looking, shown, batch.pairs)
    return attend(value, scores, admissible(batch.focal, batch.peers), batch.pairs).transpose(1, 2)


def parts(
    module: PeerModule, found: PeerModule | None, batch: Batch, joint: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what is partialled out (R, q), heads' columns (H, R, width), and targets (R, K) of the R rows of a batch.

    All are net of their period's mean (of outcomes as values, the constant is a column) and times the root of the row's
    weight. ``joint``: the columns of all heads are one regression, H = 1.
    """
    own = [module.inputs(batch.focal).detach()]
    if found is not None:
        with torch.no_grad():
            own.append(columns(found, batch).flatten(2))
    mixed = columns(module, batch)
    mixed = mixed.flatten(2)[None] if joint else mixed.permute(2, 0, 1, 3)  # (H, B, n, width)
    weight = batch.weight[..., None]  # (B, n, 1)
    root, total = weight.sqrt(), weight.sum(1, keepdim=True).clamp(min=1e-12)
    by_period = module.spec.values == "characteristics"
    if not by_period:
        own.append(torch.ones_like(weight))

    def net(z: Tensor) -> Tensor:  # (..., B, n, k) -> (..., R, k)
        if by_period:
            z = z - (z * weight).sum(-2, keepdim=True) / total
        return (z * root).flatten(-3, -2)

    return net(torch.cat(own, dim=-1)), net(mixed), net(batch.y.view(*batch.y.shape[:2], -1))


def ridge_solution(gram: Tensor, n_targets: int, penalty: float) -> Tensor:
    """Return the ridge coefficients (..., columns, K), given products of columns and targets, the targets last."""
    n = gram.shape[-1] - n_targets
    ridge = penalty * torch.eye(n, dtype=gram.dtype, device=gram.device)
    return torch.linalg.solve(gram[..., :n, :n] + ridge, gram[..., :n, n:])


def _products(own: Tensor, mixed: Tensor, y: Tensor) -> Tensor:
    """Return products of own columns, each head's columns and targets, (H, c, c)."""
    H = mixed.shape[0]
    rows = torch.cat([own.expand(H, *own.shape), mixed, y.expand(H, *y.shape)], dim=-1)
    return rows.mT @ rows


def projected_loss(
    module: PeerModule, found: PeerModule | None, batch: Batch, settings: Settings, joint: bool
) -> Tensor:
    """Return each head's squared error after least squares, as a share of the targets' variance, (H,).

    At the solution the coefficients' own derivative vanishes, so that they count as constants.
    """
    own, mixed, y = parts(module, found, batch, joint)
    with torch.no_grad():
        penalty = RIDGE * float(batch.weight.sum()) / settings.n_rows
        b = ridge_solution(_products(own, mixed, y), y.shape[-1], penalty)
        rest = y - own @ b[:, : own.shape[-1]]
    rest = rest - mixed @ b[:, own.shape[-1] :]
    return rest.square().sum((1, 2)) / y.square().sum().clamp(min=1e-30)


@torch.no_grad()
def products(
    module: PeerModule,
    found: PeerModule | None,
    sections: Sequence[Section],
    settings: Settings,
    joint: bool = False,
) -> Iterator[tuple[Tensor, int]]:
    """Yield each section's products (H, c, c), in float64, and the number of targets."""
    for section in sections:
        tensors = SectionTensors([section], settings.terms, settings.dtype, settings.device)
        own, mixed, y = (z.double() for z in parts(module, found, tensors.batch([0]), joint))
        yield _products(own, mixed, y), y.shape[-1]


def _total(found_products: Iterator[tuple[Tensor, int]]) -> tuple[Tensor, int]:
    total, K = next(found_products)
    for gram, _ in found_products:
        total = total + gram
    return total, K


def _losses(gram: Tensor, b: Tensor) -> Tensor:
    """Return squared errors (...,) of the coefficients b, given products of columns and targets."""
    n, K = b.shape[-2:]
    full = torch.cat([-b, torch.eye(K, dtype=b.dtype, device=b.device).expand(*b.shape[:-2], K, K)], dim=-2)
    return (full * (gram @ full)).sum((-2, -1))


def training_losses(
    module: PeerModule, found: PeerModule | None, sections: Sequence[Section], settings: Settings
) -> Tensor:
    """Return each head's squared error over the sections it was optimised on, (H,)."""
    gram, K = _total(products(module, found, sections, settings))
    return _losses(gram, ridge_solution(gram, K, RIDGE))


def held_out_losses(
    module: PeerModule,
    found: PeerModule | None,
    training: Sequence[Section],
    held_out: Sequence[Section],
    settings: Settings,
    joint: bool = False,
) -> Tensor:
    """Return each head's squared error in every held-out section, (H, T): least squares are of the training sections."""
    joint = joint or not module.spec.n_heads
    gram, K = _total(products(module, found, training, settings, joint))
    b = ridge_solution(gram, K, RIDGE)
    losses = [_losses(gram, b) for gram, _ in products(module, found, held_out, settings, joint)]
    return torch.stack(losses, dim=1)


@torch.no_grad()
def solve(module: PeerModule, sections: Sequence[Section], settings: Settings) -> None:
    """Set own term and value vectors (or slopes) by least squares over all sections."""
    total, K = torch.zeros((), dtype=torch.float64), 1
    for section in sections:
        batch = SectionTensors([section], settings.terms, settings.dtype, settings.device).batch([0])
        design = module.design(batch.focal, batch.peers, batch.pairs)[0].double()
        y = batch.y[0].double().view(len(design), -1)
        rows = torch.cat([design, y], dim=1) * batch.weight[0].double().sqrt()[:, None]
        total, K = total + rows.T @ rows, y.shape[1]
    if total.numel() > K * K:
        module.set_linear(ridge_solution(total, K, RIDGE))
