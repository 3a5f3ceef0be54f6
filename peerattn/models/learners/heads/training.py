"""Ordinary training of heads: many seeds at once as a batch dimension, AdamW on one cycle, those that fit averaged."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
import torch
from torch import Tensor

from peerattn.models.learners.batches import Batch, Sample
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec
from peerattn.models.learners.heads.sampling import all_batches, own_share, random_batches, residuals
from peerattn.models.learners.losses import Loss, net_of_common, slope, squared_error
from peerattn.models.learners.variance_components import common_variance
from peerattn.processes import all_sum, n_processes
from peerattn.training import train


@dataclass(frozen=True)
class TrainingOptions:
    """How heads are trained.

    Attributes
    ----------
    n_seeds : int
        Seeds that are trained at once.
    window : float
        Seeds are averaged whose fall of the log training loss is at least this share of that of the best.
    max_steps : int
        Steps of AdamW in a cycle; a quarter as many follow without weight decay.
    n_combined : int
        Starts of a second cycle where nearly all seeds are stuck.
    learning_rate : float
        At the top of the cycle.
    weight_decays : tuple of float
        Decoupled decay of all parameters: the first, or where heads are used in full those that predict held-out periods best.
    max_draws : int
        Draws of seeds that are averaged at most.
    stable : float
        Expected correlation with the network of other seeds from which no more are drawn.
    """

    n_seeds: int = 12
    window: float = 0.85
    max_steps: int = 300
    n_combined: int = 4
    learning_rate: float = 0.04
    weight_decays: tuple[float, ...] = (0.3, 1.5)
    max_draws: int = 5
    stable: float = 0.85


DEFAULT = TrainingOptions()
FEW = 1 / 4  # share of the seeds: where fewer are in Occam's window, the others are stuck
REFIT = 60  # steps of a round of refits
REFIT_RATE = 0.01
# inverse variance of the parameters' normal prior, which keeps refits where the data are not informative
REFIT_RIDGE = 10.0


@dataclass(frozen=True)
class Objective:
    """The loss of a batch for every seed.

    Squared errors are of rows net of a share of their period's mean: generalised least squares with common shocks, whose
    variance is ``common`` times that of a row. ``unit`` is the standard deviation of what the own part leaves.
    """

    loss: Loss
    common: float
    unit: float

    def __call__(self, added: Tensor, batch: Batch, times: Tensor | float = 1.0, nuisance: Tensor | float = 0.0) -> Tensor:
        """Return the summed loss of each seed, (seeds,); ``times`` (B, seeds): how often each seed draws a cross-section.

        ``nuisance`` (B, seeds, n, K) is added to the own part.
        """
        weight = batch.weight[:, None]
        own = batch.own[:, None] + nuisance
        if self.loss is not squared_error:
            predicted = own + added
            y = batch.focal.outcomes[..., 0][:, None].expand(predicted.shape[:-1])
            return ((self.loss(predicted, y) * weight).sum(2) * times).sum(0)
        error = (batch.focal.outcomes[:, None] - own) / self.unit - added  # (B, seeds, n, K)
        return ((net_of_common(error, weight, self.common).square() * weight[..., None]).sum((2, 3)) * times).sum(0)

    def residuals(self, batch: Batch) -> Tensor:
        """Return what the own part leaves, (B, n, K): minus the derivative of the loss by predictions, up to a factor."""
        if self.loss is squared_error:
            return batch.focal.outcomes - batch.own
        return -slope(self.loss, batch.own, batch.focal.outcomes[..., 0])


def make_objective(sample: Sample, loss: Loss, spec: PeerSpec) -> Objective:
    """Return the loss of these rows.

    In a forecast the mean of a period counts less, by generalised least squares. Not in a nowcast: there the mean of all others
    is the period's mean less the own outcome.
    """
    if loss is not squared_error:
        return Objective(loss, 0.0, 1.0)
    common = 0.0
    if spec.values == "characteristics" and spec.own == "linear":
        common = common_variance(residuals(sample.sections))
    error = (sample.focal.outcomes[0] - sample.own).double()
    if sample.nuisance is not None:
        error = error - sample.nuisance
    squares = (error.square().sum(-1) * sample.weight.double()).sum()
    unit = float((squares / sample.weight.double().sum()).sqrt()) or 1.0
    return Objective(loss, common, unit)


@dataclass(frozen=True)
class Trained:
    """Seeds that find most, the best one first; ``combined``: whether their starts were of the same heads."""

    seeds: PeerModule
    combined: bool


def train_seeds(
    spec: PeerSpec, sample: Sample, objective: Objective, options: TrainingOptions, generator: torch.Generator
) -> Trained:
    """Train seeds from random starts and return those that find most.

    Where nearly all are stuck, as with several networks, of which each finds one at most, there is a second cycle whose starts
    are combined of the heads of all seeds. The last steps are without weight decay.
    """
    with torch.device("cpu"):  # the start does not depend on the device
        seeds = PeerModule(replace(spec, n_seeds=options.n_seeds), generator, sample.dtype)
    seeds = seeds.to(sample.device)
    _cycle(seeds, sample, objective, options, generator)
    kept = in_window(loss_reductions(seeds, sample, objective), options.window)
    combined = len(kept) < FEW * options.n_seeds
    if combined:
        seeds = combine_heads(seeds, head_products(seeds, sample, objective), options.n_combined)
        _cycle(seeds, sample, objective, options, generator)
        kept = in_window(loss_reductions(seeds, sample, objective), options.window)
    # decay keeps scores from growing sharp on noise before a network is found, and blurs one that is
    seeds = PeerModule.together([seeds.seed(number) for number in kept])
    steps = math.ceil(options.max_steps / 4)
    last = replace(options, max_steps=steps, learning_rate=options.learning_rate / 2, weight_decays=(0.0,))
    _cycle(seeds, sample, objective, last, generator)
    return Trained(seeds, combined)


def _cycle(seeds: PeerModule, sample: Sample, objective: Objective, options: TrainingOptions, generator: torch.Generator) -> None:
    """Train seeds in place, on one cycle of the learning rate."""

    def loss(batch: Batch) -> Tensor:
        # the mean over rows of all processes, summed over seeds, which share only the embeddings of codes
        total = all_sum(float(batch.weight.sum())) / n_processes()
        return objective(seeds(batch)[0], batch, nuisance=seeds.nuisance(batch)).sum() / max(total, 1e-12)

    train(
        seeds,
        loss,
        random_batches(sample, generator, seeds.spec.n_all_heads),
        max_steps=options.max_steps,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decays[0],
        clip=None,
    )


@torch.no_grad()
def head_products(seeds: PeerModule, sample: Sample, objective: Objective, most: int = 20_000) -> Tensor:
    """Return sums over rows of the products of what heads add and, last, what the own part leaves: (H + 1, H + 1).

    Both are net of own slopes; of large samples over about ``most`` rows.
    """
    n = seeds.spec.n_all_heads + 1

    def columns(batch: Batch) -> Tensor:
        found = [torch.cat([seeds(batch)[1], objective.residuals(batch)[:, None]], dim=1).permute(0, 3, 2, 1)]
        if seeds.spec.own == "linear":
            own = seeds.inputs(batch.focal)[:, None].expand(-1, seeds.spec.n_outputs, -1, -1)
            found += [own, torch.ones_like(own[..., :1])]
        if batch.nuisance is not None:
            found.append(batch.nuisance.mT[..., None])
        return torch.cat(found, dim=-1)

    total = _moments(columns, sample, objective, n, most)
    of_own = torch.linalg.pinv(total[:, n:, n:], rtol=1e-10, hermitian=True)
    return (total[:, :n, :n] - total[:, :n, n:] @ of_own @ total[:, n:, :n]).sum(0)


def _moments(columns: Callable[[Batch], Tensor], sample: Sample, objective: Objective, n_heads: int, most: int) -> Tensor:
    """Return the sums over rows of products of columns (B, K, n, m), net of common shocks and weighted: (K, m, m)."""
    total = torch.zeros((), dtype=torch.float64, device=sample.device)
    for batch in all_batches(sample, n_heads, most):
        weight = batch.weight[:, None].double()
        net = net_of_common(columns(batch).double(), weight, objective.common)
        total = total + torch.einsum("bkni,bknj,bkn->kij", net, net, weight.expand(net.shape[:-1]))
    return all_sum(total)


def combine_heads(seeds: PeerModule, products: Tensor, n_starts: int) -> PeerModule:
    """Return starts whose heads together explain what the own part leaves, whichever seeds they are of.

    Each begins with one of the heads that explain most of it alone, and goes on by orthogonal matching pursuit (Pati, Rezaiifar
    and Krishnaprasad 1993).
    """
    starts: list[list[int]] = []
    for first in explained_squares(products, []).argsort(descending=True).tolist():
        chosen = [first]
        while len(chosen) < seeds.spec.n_heads:
            chosen.append(int(explained_squares(products, chosen).argmax()))
        if sorted(chosen) not in starts:
            starts.append(sorted(chosen))
        if len(starts) == n_starts:
            break
    return PeerModule.together([seeds.take(chosen, chosen[0] // seeds.spec.n_heads) for chosen in starts])


def explained_squares(products: Tensor, chosen: Sequence[int]) -> Tensor:
    """Return the squares that each head explains beyond the chosen ones, (H,); −1 of these."""
    left = products.clone()
    for head in chosen:
        row = left[head]
        left = left - torch.outer(row, row) / row[head].clamp(min=1e-300)
    squares = left.diagonal()[:-1]
    # what is left of a head that others span is rounding
    found = torch.where(squares > 1e-9 * products.diagonal()[:-1], left[:-1, -1].square() / squares, 0.0)
    found[list(chosen)] = -1.0
    return found


@torch.no_grad()
def equal_weights(spec: PeerSpec, sample: Sample, objective: Objective) -> PeerModule:
    """Return one head whose scores are zero; its values and all slopes have the least squared error, exactly."""
    with torch.device("cpu"):
        module = PeerModule(spec, dtype=sample.dtype)
    module = module.to(sample.device)
    for scores in (module.query, module.key_projection, module.offset):
        scores.zero_()

    def columns(batch: Batch) -> Tensor:
        of_focal, of_peers = module.features(batch)
        values = of_peers
        if spec.values == "outcomes":
            values = batch.peers.outcomes
        found = [module.mean(of_focal, of_peers, values, batch.blocked, batch.pairs)[:, 0]]
        if batch.nuisance is not None:
            found.append(batch.nuisance / objective.unit)
        if spec.own == "linear":
            own = module.inputs(batch.focal)
            found += [own, torch.ones_like(own[..., :1])]
        return torch.cat([*found, objective.residuals(batch) / objective.unit], dim=-1)[:, None]

    moments = _moments(columns, sample, objective, 1, sample.n_rows)[0]
    # columns of one size, since characteristics may have any unit
    squares = moments.diagonal()[:-1, None]
    size = torch.where(squares > 0, squares, 1.0).sqrt()
    inverse = torch.linalg.pinv(moments[:-1, :-1] / size / size.mT, rtol=1e-10, hermitian=True)
    found = (inverse @ (moments[:-1, -1:] / size) / size).to(sample.dtype)
    n_values = module.value.numel()
    module.value.copy_(found[:n_values].view_as(module.value))
    if spec.nuisance:
        module.nuisance_slope.copy_(found[n_values])
        n_values += 1
    if spec.own == "linear":
        module.own_slope.copy_(found[None, n_values:-1])
        module.intercept.copy_(found[-1:])
    return module.rescale(objective.unit)


@torch.no_grad()
def loss_reductions(seeds: PeerModule, sample: Sample, objective: Objective, most: int = 20_000) -> Tensor:
    """Return the log loss of the own part (and nuisance) alone less that of each seed, (seeds,).

    Of large samples it is over about ``most`` rows.
    """
    total = torch.zeros(1 + seeds.spec.n_seeds, dtype=torch.float64, device="cpu")
    for batch in all_batches(sample, seeds.spec.n_all_heads, most):
        added = seeds(batch)[0]
        nothing = torch.zeros_like(added[:, :1])
        nuisance = seeds.nuisance(batch)
        if batch.nuisance is not None:
            nuisance = torch.cat([batch.nuisance[:, None], nuisance], dim=1)
        total += objective(torch.cat([nothing, added], dim=1), batch, nuisance=nuisance).double().cpu()
    log = all_sum(total).clamp(min=1e-300).log()
    return log[0] - log[1:]


def in_window(fall: Tensor, window: float) -> list[int]:
    """Return the seeds in Occam's window, those whose fall is at least this share of the largest; the best comes first."""
    order = fall.argsort(descending=True)
    largest = fall[order[0]]
    return order[fall[order] >= largest - (1 - window) * largest.abs()].tolist()


def refit_modules(modules: Sequence[PeerModule], sample: Sample, loss: Loss, counts: np.ndarray, steps: int) -> list[PeerModule]:
    """Train modules from where they stand, each on a draw of the cross-sections: ``counts`` is (draws, cross-sections).

    The loss plus a ridge penalty on all parameters, on all rows in every step.
    """
    objective = make_objective(sample, loss, modules[0].spec)
    seeds = PeerModule.together(modules).rescale(1 / objective.unit).to(sample.dtype)
    batch = own_share(sample, range(len(sample.sections)))
    times = torch.as_tensor(counts.T, dtype=batch.weight.dtype, device=batch.weight.device)
    rows = (times * batch.weight.sum(1, keepdim=True)).sum(0)

    def value(batch: Batch) -> Tensor:
        penalty = torch.stack([each.square().sum() for each in seeds.parameters()]).sum()
        errors = objective(seeds(batch)[0], batch, times, seeds.nuisance(batch)) / rows
        return errors.sum() + REFIT_RIDGE * penalty / rows.mean()

    train(seeds, value, repeat(batch), max_steps=steps, learning_rate=REFIT_RATE, schedule="cosine", clip=None)
    return [seeds.seed(draw).double().rescale(objective.unit) for draw in range(len(modules))]
