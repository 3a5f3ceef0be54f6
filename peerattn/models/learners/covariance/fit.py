"""How a covariance is learned: by its leave-one-out errors, period by period."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from peerattn.models.cross_section import NO_IDENTITY, CrossSection, Rows
from peerattn.models.learners.covariance.covariance import Covariance, features
from peerattn.models.learners.covariance.kernel import Features, Parameters, inverse, noise, shared
from peerattn.models.learners.linear import Bounds
from peerattn.models.learners.past_outcomes import History
from peerattn.processes import n_processes, share
from peerattn.training import train

RANK = 6  # columns of A, the learned low-rank part
FIRMS_TOGETHER = 500  # at most: larger periods are split at random, anew in every step
ROWS_OF_STEP = 4000  # firms of all periods drawn in a step
FEWEST_STEPS = 30
MOST_STEPS = 60
LEARNING_RATE = 0.06  # at the top of the cycle, in logarithms of variances: few slow steps stay near the start
EASIER = 3  # times fewer and smaller steps from a fit to earlier periods
NOTHING = 1e12  # variance of what predicts nothing
POWER = 0.5  # errors count by their predicted variance to minus this power


class _LeaveOneOut(torch.autograd.Function):
    """``(K, y) -> (r, v)``: leave-one-out errors ``r = (K⁻¹y) / diag K⁻¹`` and their variances ``v = 1 / diag K⁻¹``."""

    @staticmethod
    def forward(ctx: Any, K: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        P = inverse(K)
        solved = (P @ y[..., None])[..., 0]
        diagonal = P.diagonal(dim1=-2, dim2=-1)
        ctx.save_for_backward(P, solved, diagonal)
        return solved / diagonal, 1 / diagonal

    @staticmethod
    def backward(ctx: Any, of_error: Tensor, of_variance: Tensor) -> tuple[Tensor, Tensor]:
        P, solved, diagonal = ctx.saved_tensors
        of_solved = (P @ (of_error / diagonal)[..., None])[..., 0]
        of_diagonal = -(of_error * solved + of_variance) / diagonal**2
        outer = -of_solved[..., :, None] * solved[..., None, :]
        return torch.baddbmm(outer, P * -of_diagonal[..., None, :], P), of_solved


@dataclass(frozen=True)
class _Period:
    """One training period: the firms of known outcome, their loss weights, and numbers that rows of one identity share."""

    firms: Features
    y: Tensor
    weight: Tensor
    identity: np.ndarray

    @classmethod
    def of(cls, section: CrossSection, history: History | None, dtype: torch.dtype) -> Self:
        new = ~section.focal.label.isin(section.peers.label)
        rows = Rows.stacked([section.peers.take(section.known_peers()), section.focal.take(new).known()])
        by_label = dict(zip(section.focal.label, section.focal.loss_weights, strict=True))
        weight = np.array([by_label.get(label, 0.0) for label in rows.label])
        if history is not None:
            history = section.past or history
        found = features(rows, section, history, dtype)
        standalone = np.where(rows.identity == NO_IDENTITY, -1 - np.arange(len(rows)), rows.identity)
        return cls(found, torch.as_tensor(rows.y, dtype=dtype), torch.as_tensor(weight, dtype=dtype), standalone)

    def draw(self, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Return positions of firms, split at random; one row of each identity: what a call leaves out teaches nothing."""
        order = torch.randperm(len(self.y), generator=generator)
        first = np.unique(self.identity[order.numpy()], return_index=True)[1]
        order = order[torch.as_tensor(np.sort(first))]
        return order.tensor_split(math.ceil(len(order) / FIRMS_TOGETHER))[: ROWS_OF_STEP // FIRMS_TOGETHER]


def fit_covariance(
    sections: Sequence[CrossSection],
    *,
    past: History | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    start: Covariance | None = None,
) -> Covariance:
    """Learn a covariance by its leave-one-out errors, each divided by a power of the variance it is predicted to have.

    By Adam on a one-cycle learning rate: 30 steps and as many as draw every training row twice, at most 60. A step draws periods
    of 4,000 rows in all and splits those of more than 500 firms at random.

    Parameters
    ----------
    sections : sequence of CrossSection
        Training periods, with outcomes.
    past : History, optional
        By which firms that moved together in the past may do so again; a cross-section that has a past of its own reads that.
    seed : int
        Seed of the draws; the start is always the same.
    start : Covariance, optional
        Where to start from: one learned on earlier periods needs a third of the steps.

    Returns
    -------
    Covariance
    """
    if past is not None and past.table.shape[1] < 2:
        past = None
    periods = [_Period.of(section, past, dtype) for section in sections]
    # a firm by itself has nobody to be predicted from
    periods = [period for period in periods if len(period.y) > 1 and period.weight.sum() > 0]
    p = sections[0].peers.x.shape[1]
    c = sections[0].peers.codes.shape[1]
    bounds = Bounds.of(section.peers.x for section in sections)
    generator = torch.Generator().manual_seed(seed)
    parameters = start_parameters(p, c, past is not None)
    steps = min(MOST_STEPS, FEWEST_STEPS + 2 * sum(len(q.y) for q in periods) // ROWS_OF_STEP)
    rate = LEARNING_RATE
    if start is not None and start.parameters.keys() == parameters.keys():
        parameters = {name: torch.as_tensor(value) for name, value in start.parameters.items()}
        steps //= EASIER
        rate /= EASIER
    if not periods:
        return Covariance({n: value.numpy() for n, value in parameters.items()}, bounds, past is not None)
    spread = math.sqrt(float(torch.cat([q.y**2 for q in periods]).mean())) or 1.0
    parameters = {name: value.to(dtype).to(device).requires_grad_() for name, value in parameters.items()}

    def loss(pairs: list[tuple[_Period, Tensor]]) -> Tensor:
        mine = [(q.firms, q.y, q.weight, at) for q, at in pairs[share()]]
        if not mine:  # of several processes one may have nothing to do: its gradient is zero
            return torch.stack([value.sum() for value in parameters.values()]).sum() * 0.0
        firms, y, weight, present = _padded(mine, device)
        return n_processes() * _losses(parameters, firms, y / spread, weight, present).sum() / len(pairs)

    draws = iter(lambda: _drawn(periods, generator), None)
    train(parameters.values(), loss, draws, max_steps=steps, learning_rate=rate, clip=None)
    learned = {name: value.detach().double().cpu().numpy() for name, value in parameters.items()}
    return Covariance(learned, bounds, past is not None)


def start_parameters(p: int, c: int, past: bool) -> Parameters:
    """Return parameters in which noise is the larger part, every kernel has a small one, and the product of two less."""
    every = max(p, 1)
    generator = torch.Generator().manual_seed(0)
    small = -3.0
    start = {
        "level": torch.tensor([0.0, *[small] * c]),
        "near": torch.full((1 + c,), small),
        "linear": torch.full((p,), math.log(0.3 / every)),
        "slope": torch.full((p,), math.log(0.1 / every)),
        "low_rank": 0.2 / math.sqrt(every) * torch.randn(p, RANK, generator=generator),
        "inverse_length": torch.full((p,), 0.5 * math.log(4.5 / every)),
        "scale": torch.zeros(p),
        "noise": torch.zeros(p),
    }
    if past:
        start |= {"past": torch.full((1 + c,), small), "past_squared": torch.tensor(small)}
        start |= {"past_near": torch.tensor(small - 0.5), "emphasis": torch.tensor(0.5)}
    return start


def _drawn(periods: Sequence[_Period], generator: torch.Generator) -> list[tuple[_Period, Tensor]]:
    """Draw periods, and split large ones: each part with the positions of its firms."""
    usual = float(np.median([len(q.y) for q in periods]))
    n = min(len(periods), max(1, round(ROWS_OF_STEP / usual)))
    drawn = [periods[k] for k in torch.randperm(len(periods), generator=generator)[:n].tolist()]
    return [(q, at) for q in drawn for at in q.draw(generator)]


def _padded(
    parts: Sequence[tuple[Features, Tensor, Tensor, Tensor]], device: str | torch.device
) -> tuple[Features, Tensor, Tensor, Tensor]:
    """Return the features, outcomes and weights of these firms of periods, padded to equal length, and which are no padding."""

    def padded(values: list[Tensor]) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence(values, batch_first=True).to(device)

    names = ("x", "z", "codes", "past")
    read = {name: padded([getattr(q, name)[0, k] for q, *_, k in parts]) for name in names}
    firms = Features(**read, strength=torch.cat([q.strength for q, *_ in parts]).to(device))
    y = padded([y[k] for _, y, _, k in parts])
    weight = padded([w[k] for *_, w, k in parts])
    return firms, y, weight, padded([torch.ones(len(k), dtype=torch.bool) for *_, k in parts])


def _losses(parameters: Parameters, firms: Features, y: Tensor, weight: Tensor, present: Tensor) -> Tensor:
    """Return the leave-one-out errors of each period over its outcomes, both weighed alike, (B,)."""
    K = shared(parameters, firms, firms)
    diagonal = torch.where(present, noise(parameters, firms), NOTHING)  # padding predicts nothing
    error, variance = _LeaveOneOut.apply(K + diagonal.diag_embed(), y)
    # without a gradient, since else large variances would excuse errors
    precise = (weight * present) * variance.detach() ** -POWER
    return (precise * error**2).sum(-1) / (precise * y**2).sum(-1).clamp(min=1e-12)
