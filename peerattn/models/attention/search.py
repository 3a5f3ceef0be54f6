"""The search for attention heads: many random starts at once, successively halved, their linear part solved exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from peerattn.models.attention.batches import CELLS_PER_STEP, Batch, SectionTensors, drawn
from peerattn.models.attention.heads import Settings, average_unseen_codes, with_heads
from peerattn.models.attention.peer_module import PeerModule, PeerSpec, admissible, attend
from peerattn.models.pools import Section
from peerattn.training import train

STARTS, ETA = 16, 4  # heads that start in a bracket, and one in how many goes on to its second rung
STEPS = 40  # of a rung
ROWS = 2048  # focal rows of a step in the first rung; in the second twice as many
RATE = 0.1  # peak learning rate
BRACKETS = 2  # of starts, unless the two best of the first agree
AGREE = 0.05  # share of what the best start explains by which the second best may explain less
RIDGE = 1.0  # on each coefficient, in rows of unit variance
SCORE_RIDGE = 3.0  # on each parameter of the scores, likewise
HELD_OUT = 0.2  # share of the periods on which another head must show what it adds
MIN_CLUSTERS = (
    5  # held-out periods from which a standard error by period can be taken; of fewer, blocks of firms are
)
ERRORS = 2.0  # standard errors that another head must add
SMALL = 2**23  # pairs of focal row and peer up to which a sample is kept in memory, and optimised as a whole
LBFGS_STEPS = 40


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
        The best starts of the first head, one head each, best on training periods first. Their value vectors are not set.
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

    .. math:: \min_\theta\; \min_{a, b} \sum_t \| M_t (y_t - X_t a - V_t(\theta) b) \|^2
              + \lambda (\|a\|^2 + \|b\|^2 + s^2 \|\theta\|^2)

    V are the columns of a head, the weighted means of its peers' features (or outcomes); X are own inputs and the columns of
    heads found before; M takes out the period's mean (``values="characteristics"``; else one constant); s² is the variance
    of the targets.

    References
    ----------
    Golub and Pereyra (1973), SIAM Journal on Numerical Analysis 10.
    Jamieson and Talwalkar (2016), Non-stochastic best arm identification, AISTATS.
    """
    generator = torch.Generator().manual_seed(seed)
    training, held_out = (Sample(part, settings) for part in split(sections))
    found = rivals = _start(spec, 0, generator, settings)
    without = before = held_out_losses(found, None, training, held_out)[0]
    gains: list[tuple[float, float]] = []
    rival_losses = np.zeros(0)
    while found.spec.n_heads < spec.n_heads:
        starts = best_starts(spec, found, training, generator)
        losses = held_out_losses(starts, found, training, held_out).sum(1)
        if not gains:
            rivals, rival_losses = starts, (losses / without.sum()).cpu().numpy()
        grown = beside(found, with_heads(starts, torch.arange(1)))
        after = held_out_losses(grown, None, training, held_out, joint=True)[0]
        gains.append(_gain(before - after, without))
        worth = gains[-1][0] > ERRORS * gains[-1][1]
        if worth or not found.spec.n_heads:
            found = grown
        if not worth:
            break
        finish(found, training, generator)
        before = held_out_losses(found, None, training, held_out, joint=True)[0]
    finish(found, Sample(sections, settings), generator)
    average_unseen_codes(found, sections)
    solve(found.double(), Sample(sections, replace(settings, dtype=torch.float64)))
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


class Sample:
    """Cross-sections as tensors, in batches."""

    def __init__(self, sections: Sequence[Section], settings: Settings) -> None:
        self.sections, self.settings = sections, settings
        self.tensors = SectionTensors(sections, settings.terms, settings.dtype, settings.device)
        self.n_rows = sum(float(weight.sum()) for weight in self.tensors.weight)
        self.cells = [len(s.focal) * len(s.peers) for s in sections]
        self._kept: list[Batch] | None = None

    def whole(self) -> Iterator[Batch]:
        """Yield all sections, in batches of as many as make up CELLS_PER_STEP pairs; small samples are kept."""
        if self._kept is not None:
            yield from self._kept
            return
        groups: list[list[int]] = [[]]
        for k, cells in enumerate(self.cells):
            if groups[-1] and sum(self.cells[j] for j in groups[-1]) + cells > CELLS_PER_STEP:
                groups.append([])
            groups[-1].append(k)
        kept = []
        for group in groups:
            batch = self.tensors.batch(group)
            if sum(self.cells) <= SMALL:
                kept.append(batch)
            yield batch
        self._kept = kept or None

    def drawn(self, generator: torch.Generator, rows: int) -> Iterator[Batch]:
        """Yield batches of about so many rows without end: some of each cross-section in random order."""
        if self.n_rows <= 1.5 * rows and sum(self.cells) <= CELLS_PER_STEP:
            (whole,) = self.whole()
            while True:
                yield whole
        queries = self.settings.queries_per_step
        rows = min(
            rows, round(CELLS_PER_STEP / max(1.0, float(np.median([len(s.peers) for s in self.sections]))))
        )
        focal = float(np.median([min(len(s.focal), queries) for s in self.sections]))
        per_step = max(1, min(round(rows / focal), len(self.sections)))
        for group, chosen in drawn(self.sections, generator, per_step, queries):
            yield self.tensors.batch(group, chosen)


def best_starts(
    spec: PeerSpec, found: PeerModule, training: Sample, generator: torch.Generator
) -> PeerModule:
    """Return the best of many starts beside the heads found before, each optimised by itself, best first.

    A bracket of random starts is optimised and all but the best are dropped; a second bracket starts unless the two best of
    the first explain as much.
    """
    starts: PeerModule | None = None
    for _ in range(BRACKETS):
        module = _start(spec, STARTS, generator, training.settings)
        descend(module, found, training, generator, STEPS, ROWS)
        losses, _ = training_losses(module, found, training)
        module = with_heads(module, losses.argsort()[: STARTS // ETA].cpu())
        descend(module, found, training, generator, STEPS, 2 * ROWS)
        starts = module if starts is None else beside(starts, module)
        losses, without = training_losses(starts, found, training)
        order = losses.argsort()
        starts = with_heads(starts, order[: STARTS // ETA].cpu())
        explained = (without - losses[order])[:2]
        if explained[1] >= (1 - AGREE) * explained[0]:
            break
    assert starts is not None
    return starts


def scores(module: PeerModule) -> list[torch.nn.Parameter]:
    """Return what scores depend on: all parameters but those in which predictions are linear."""
    linear = ("value", "slope", "own_slope", "intercept")
    return [parameter for name, parameter in module.named_parameters() if name not in linear]


def descend(
    module: PeerModule,
    found: PeerModule | None,
    sample: Sample,
    generator: torch.Generator,
    steps: int,
    rows: int,
    joint: bool = False,
    rate: float | None = None,
) -> None:
    """Optimise the scores of every head by itself (or of all jointly) by Adam."""
    train(
        scores(module),
        lambda batch: projected_loss(module, found, batch, joint, sample.n_rows).sum(),
        sample.drawn(generator, rows),
        max_steps=steps,
        learning_rate=RATE if rate is None else rate,
        clip=None,
    )


def finish(module: PeerModule, sample: Sample, generator: torch.Generator) -> None:
    """Optimise the scores of all heads jointly: by L-BFGS on the whole sample, or, if it is large, by Adam on parts of it."""
    if not module.spec.n_heads:
        return
    if sum(sample.cells) * module.spec.n_heads > SMALL:
        return descend(module, None, sample, generator, STEPS, 4 * ROWS, joint=True)
    parameters = scores(module)
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=LBFGS_STEPS, line_search_fn="strong_wolfe", history_size=20
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        gram, K = _total(products(module, None, sample, joint=True))
        b = ridge_solution(gram, K, RIDGE)
        squares = _losses(gram, b)[0].clamp(min=1e-30)
        loss = penalty(module, sample.n_rows).sum()
        loss.backward()
        for batch in sample.whole():
            own, mixed, y = (z.flatten(-3, -2) for z in parts(module, None, batch, joint=True))
            rest = y - own @ b[:, : own.shape[-1]].to(y) - mixed @ b[:, own.shape[-1] :].to(y)
            (rest.square().sum() / squares).backward()
        return loss.detach() + squares.log()

    optimizer.step(closure)


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
    """Return what is partialled out (B, n, q), heads' columns (H, B, n, width), and targets (B, n, K) of a batch.

    All are net of their period's mean (of outcomes as values, the constant is a column) and times the root of the row's
    weight. ``joint``: the columns of all heads are one regression, H = 1.
    """
    own = [module.inputs(batch.focal).detach()]
    if found is not None:
        with torch.no_grad():
            own.append(columns(found, batch).flatten(2))
    mixed = columns(module, batch)
    mixed = mixed.flatten(2)[None] if joint else mixed.permute(2, 0, 1, 3)
    weight = batch.weight[..., None]  # (B, n, 1)
    root, total = weight.sqrt(), weight.sum(1, keepdim=True).clamp(min=1e-12)
    by_period = module.spec.values == "characteristics"
    if not by_period:
        own.append(torch.ones_like(weight))

    def net(z: Tensor) -> Tensor:
        if by_period:
            z = z - (z * weight).sum(-2, keepdim=True) / total
        return z * root

    return net(torch.cat(own, dim=-1)), net(mixed), net(batch.y.view(*batch.y.shape[:2], -1))


def ridge_solution(gram: Tensor, n_targets: int, penalty: float) -> Tensor:
    """Return the ridge coefficients (..., columns, K), given products of columns and targets, the targets last."""
    n = gram.shape[-1] - n_targets
    ridge = penalty * torch.eye(n, dtype=gram.dtype, device=gram.device)
    return torch.linalg.solve(gram[..., :n, :n] + ridge, gram[..., :n, n:])


def _products(own: Tensor, mixed: Tensor, y: Tensor) -> Tensor:
    """Return products of own columns, each head's columns and targets over rows, (H, ..., c, c)."""
    H = mixed.shape[0]
    rows = torch.cat([own.expand(H, *own.shape), mixed, y.expand(H, *y.shape)], dim=-1)
    return rows.mT @ rows


def penalty(module: PeerModule, n_rows: float) -> Tensor:
    """Return λ s² ‖θ‖² of each head over the squares of all targets, (H,)."""
    of_heads = [p for name, p in module.per_head().items() if name not in ("value", "slope")]
    return SCORE_RIDGE / n_rows * sum(parameter.square().flatten(1).sum(1) for parameter in of_heads)


def projected_loss(
    module: PeerModule, found: PeerModule | None, batch: Batch, joint: bool, n_rows: float
) -> Tensor:
    """Return each head's penalised squared error after least squares, as a share of the targets' squares, (H,).

    At the solution the coefficients' own derivative vanishes, so that they count as constants.
    """
    own, mixed, y = (z.flatten(-3, -2) for z in parts(module, found, batch, joint))
    with torch.no_grad():
        ridge = RIDGE * float(batch.weight.sum()) / n_rows
        b = ridge_solution(_products(own, mixed, y), y.shape[-1], ridge)
        rest = y - own @ b[:, : own.shape[-1]]
    rest = rest - mixed @ b[:, own.shape[-1] :]
    share = rest.square().sum((1, 2)) / y.square().sum().clamp(min=1e-30)
    return share.clamp(min=1e-12).log() + penalty(module, n_rows)


@torch.no_grad()
def products(
    module: PeerModule, found: PeerModule | None, sample: Sample, joint: bool = False
) -> Iterator[tuple[Tensor, int]]:
    """Yield products of some sections (H, B, c, c), in float64, and the number of targets."""
    for batch in sample.whole():
        own, mixed, y = (z.double() for z in parts(module, found, batch, joint))
        yield _products(own, mixed, y), y.shape[-1]


def _total(parts_: Iterator[tuple[Tensor, int]]) -> tuple[Tensor, int]:
    total, K = next(parts_)
    total = total.sum(1)
    for gram, _ in parts_:
        total = total + gram.sum(1)
    return total, K


def _losses(gram: Tensor, b: Tensor) -> Tensor:
    """Return squared errors (...,) of the coefficients b, given products of columns and targets."""
    n, K = b.shape[-2:]
    full = torch.cat([-b, torch.eye(K, dtype=b.dtype, device=b.device).expand(*b.shape[:-2], K, K)], dim=-2)
    return (full * (gram @ full)).sum((-2, -1))


def training_losses(module: PeerModule, found: PeerModule | None, sample: Sample) -> tuple[Tensor, Tensor]:
    """Return each head's squared error over the sections it was optimised on, (H,), and that without it."""
    gram, K = _total(products(module, found, sample))
    n_own = gram.shape[-1] - K - (1 if module.spec.values == "outcomes" else module.spec.width)
    own = torch.cat([gram[:1, :, :n_own], gram[:1, :, -K:]], dim=-1)
    own = torch.cat([own[:, :n_own], own[:, -K:]], dim=1)
    return _losses(gram, ridge_solution(gram, K, RIDGE)), _losses(own, ridge_solution(own, K, RIDGE))[0]


def held_out_losses(
    module: PeerModule, found: PeerModule | None, training: Sample, held_out: Sample, joint: bool = False
) -> Tensor:
    """Return each head's squared error in every held-out section, (H, T): least squares are of the training sections."""
    joint = joint or not module.spec.n_heads
    gram, K = _total(products(module, found, training, joint))
    b = ridge_solution(gram, K, RIDGE)[:, None]
    return torch.cat([_losses(gram, b) for gram, _ in products(module, found, held_out, joint)], dim=1)


@torch.no_grad()
def solve(module: PeerModule, sample: Sample) -> None:
    """Set own term and value vectors (or slopes) by least squares over all sections."""
    total, K = torch.zeros((), dtype=torch.float64), 1
    for batch in sample.whole():
        design = module.design(batch.focal, batch.peers, batch.pairs).double()
        y = batch.y.view(*batch.y.shape[:2], -1).double()
        rows = (torch.cat([design, y], dim=-1) * batch.weight.double().sqrt()[..., None]).flatten(0, 1)
        total, K = total + rows.T @ rows, y.shape[-1]
    if total.numel() > K * K:
        module.set_linear(ridge_solution(total, K, RIDGE))
