"""Outcomes of one period predicted from the other firms' by the exact leave-one-out of a learned covariance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from peerattn.models.attention.history import History
from peerattn.models.pools import NOBODY, Rows, Section

RANK = 6  # columns of A, the learned low-rank part
ROWS_OF_PERIOD = 1000  # firms of a period drawn in a step, at most
ROWS_OF_STEP = 4000  # firms of all periods drawn in a step
STEPS = 60
LEARNING_RATE = 0.12  # at the top of the cycle, in logarithms of variances
BOUND = 4.0  # of the log noise: no firm counts e⁸ times another
POWER = 0.5  # errors count by their predicted variance to minus this power
FLOOR = 6.0  # observations below which a firm's own history is shrunk to zero
EXACT = 5000  # known firms beyond which the covariance is that of inducing firms
INDUCING = 1000
SPARE = 1e-4  # added to the diagonal, in variances of the outcome

Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class Features:
    """What the covariance reads of B cross-sections: ``x`` (B, n, p), ``codes`` (B, n, c), ``past`` (B, n, L) or L = 0."""

    x: Tensor
    codes: Tensor
    past: Tensor

    def take(self, at: Any) -> Features:
        """Return these rows."""
        return Features(self.x[:, at], self.codes[:, at], self.past[:, at])


def ranked(x: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Return the mid-rank of each value among the pool's, from −1 to 1; a constant column is zero.

    >>> import numpy as np
    >>> ranked(np.array([[1.0], [3.0]]), np.array([[1.0], [2.0], [3.0]])).round(2).tolist()
    [[-0.67], [0.67]]
    """
    found = np.zeros(x.shape, dtype=np.float32)
    for k in range(x.shape[1] if len(pool) else 0):
        ordered = np.sort(pool[:, k])
        sides = ordered.searchsorted(x[:, k], "left") + ordered.searchsorted(x[:, k], "right")
        found[:, k] = sides / len(ordered) - 1
    return found


def shared(parameters: Parameters, a: Features, b: Features) -> Tensor:
    """Return the covariance of firms a and b without noise, (B, n_a, n_b)."""
    p = {name: value.exp() for name, value in parameters.items() if name not in ("low_rank", "noise")}
    weighed = torch.cat([a.x * p["linear"], a.x @ parameters["low_rank"]], dim=-1)
    K = weighed @ torch.cat([b.x, b.x @ parameters["low_rank"]], dim=-1).mT + p["constant"]
    near = _gaussian(a.x * p["inverse_length"], b.x * p["inverse_length"])
    K = K + p["gaussian"] * near
    for c in range(a.codes.shape[-1]):
        same = (a.codes[..., :, None, c] == b.codes[..., None, :, c]) & (a.codes[..., :, None, c] > 0)
        K = K + (p["code"][c] + p["near_in_code"][c] * near) * same
    if a.past.shape[-1]:
        together = _past(parameters, a.past) @ _past(parameters, b.past).mT
        K = K + p["past"] * together + p["past_squared"] * together**2
    return K


def _gaussian(a: Tensor, b: Tensor) -> Tensor:
    height = (a**2).sum(-1)[..., :, None] + (b**2).sum(-1)[..., None, :]
    return torch.exp(-0.5 * (height - 2 * a @ b.mT).clamp(min=0))


def _past(parameters: Parameters, past: Tensor) -> Tensor:
    """Return past outcomes of length one; a firm of few known ones is shorter."""
    return past / (past**2).sum(-1, keepdim=True).clamp(min=FLOOR).sqrt()


def noise(parameters: Parameters, a: Features) -> Tensor:
    """Return the variance of what a firm shares with nobody, (B, n)."""
    log_variance = a.x @ parameters["noise"]
    return (BOUND * torch.tanh(log_variance / BOUND)).exp() + SPARE


class _LeaveOneOut(torch.autograd.Function):
    """``(K, y) -> (r, v)``: leave-one-out errors ``r = (K⁻¹y) / diag K⁻¹`` and their variances ``v = 1 / diag K⁻¹``."""

    @staticmethod
    def forward(ctx: Any, K: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        P = inverse(K)
        solved, diagonal = (P @ y[..., None])[..., 0], P.diagonal(dim1=-2, dim2=-1)
        ctx.save_for_backward(P, solved, diagonal)
        return solved / diagonal, 1 / diagonal

    @staticmethod
    def backward(ctx: Any, of_error: Tensor, of_variance: Tensor) -> tuple[Tensor, Tensor]:
        P, solved, diagonal = ctx.saved_tensors
        of_solved = (P @ (of_error / diagonal)[..., None])[..., 0]
        of_diagonal = -(of_error * solved + of_variance) / diagonal**2
        of_K = -(P * of_diagonal[..., None, :]) @ P - of_solved[..., :, None] * solved[..., None, :]
        return of_K, of_solved


def inverse(K: Tensor) -> Tensor:
    """Return the inverse of a covariance; in float64 where float32 does not suffice."""
    L, failed = torch.linalg.cholesky_ex(K)
    if failed.any():
        wide = K.double()
        wide = wide + 1e-6 * wide.diagonal(dim1=-2, dim2=-1).mean() * torch.eye(
            K.shape[-1], dtype=wide.dtype, device=K.device
        )
        return torch.cholesky_inverse(torch.linalg.cholesky(wide)).to(K.dtype)
    return torch.cholesky_inverse(L)


@dataclass(frozen=True)
class Covariance:
    r"""A learned covariance of the outcomes of a period, and the predictions it gives.

    .. math::

        K_{ij} = s + x_i' (\Lambda + A A') x_j + \sum_c 1[c_i = c_j] (v_c + w_c g_{ij}) + r g_{ij} + h\, m_{ij} + h_2 m_{ij}^2
        + 1[i = j] e^{x_i' \gamma}

    x are the characteristics' ranks in the pool, g a Gaussian kernel with a length for each characteristic, m the inner product
    of the firms' own past outcomes (standardised within their periods, length at most one). Firm i is predicted from the
    others, :math:`\hat y_i = y_i - (K^{-1} y)_i / (K^{-1})_{ii}`: weights :math:`-P_{ij} / P_{ii}`, partial correlations with
    :math:`P = K^{-1}`. Where several rows have one identity, all of them are left out.

    Attributes
    ----------
    parameters : dict of ndarray
        Logarithms of variances and of inverse lengths; ``low_rank`` A (p, rank) and ``noise`` γ (p,).
    history : History or None
        Past outcomes of the training periods; None where the firms' past is not used.

    References
    ----------
    Rasmussen, C. E. and Williams, C. K. I. (2006). Gaussian Processes for Machine Learning. MIT Press, section 5.4.2.
    """

    parameters: dict[str, np.ndarray]
    history: History | None = None

    def solved(
        self, section: Section, past: History | None = None, dtype: torch.dtype = torch.float64
    ) -> Solved:
        """Return the cross-section with its covariance inverted; ``past`` is the history that replaces the training one."""
        history = None if self.history is None else past or self.history
        parameters = {name: torch.as_tensor(value, dtype=dtype) for name, value in self.parameters.items()}
        return Solved.of(parameters, section, history)

    def predict(self, section: Section, past: History | None = None) -> np.ndarray:
        """Return the prediction of every focal firm from the known outcomes of the others, (n_focal,)."""
        return self.solved(section, past).predict()

    def weights(self, section: Section, rows: slice = slice(None), past: History | None = None) -> np.ndarray:
        """Return signed weights, (n_rows, n_peers), whose product with the known outcomes is the prediction."""
        return self.solved(section, past).weights(rows)


@dataclass(frozen=True)
class Solved:
    """One cross-section: the inverse covariance of its known peers, and who of them is the focal firm itself."""

    parameters: Parameters
    section: Section
    focal: Features
    known: np.ndarray  # positions of the peers of known outcome
    firms: Features  # those peers
    inverse: Tensor

    @classmethod
    def of(cls, parameters: Parameters, section: Section, history: History | None) -> Solved:
        """Invert the covariance of the peers of known outcome."""
        dtype = parameters["noise"].dtype
        known = np.flatnonzero(_known(section))
        focal, firms = (
            features(rows, section, history, dtype) for rows in (section.focal, section.peers.take(known))
        )
        K = shared(parameters, firms, firms)[0] + noise(parameters, firms)[0].diag()
        return cls(parameters, section, focal, known, firms, inverse(K))

    def predict(self) -> np.ndarray:
        """Return the prediction of every focal firm, (n_focal,)."""
        if not len(self.section.focal):
            return np.zeros(0)
        y = self.section.peers.y[self.known]  # type: ignore[index]
        chunks = [self._among_known(rows).numpy() @ y for rows in self.section.chunks()]
        return np.concatenate(chunks)

    def weights(self, rows: slice = slice(None)) -> np.ndarray:
        """Return signed weights, (n_rows, n_peers)."""
        found = self._among_known(rows)
        W = np.zeros((len(found), len(self.section.peers)))
        W[:, self.known] = found.numpy()
        return W

    def _among_known(self, rows: slice) -> Tensor:
        """Return weights on the known peers: ``u − P_·B P_BB⁻¹ u_B`` with B the focal firm's own rows.

        u is the unit vector of its row where that row is in the pool, and ``P k`` otherwise, k the covariances with the pool.
        """
        mine = self.section.focal.identity[rows]
        own = (mine[:, None] == self.section.peers.identity[self.known][None, :]) & (mine[:, None] != NOBODY)
        at = _same_row(self.focal.take(rows), self.firms, own)
        own_rows = torch.as_tensor(own)
        u = self.inverse.new_zeros(own.shape)
        new = np.flatnonzero(at < 0)
        if len(new):
            K = shared(self.parameters, self.focal.take(rows).take(new), self.firms)[0]
            u[new] = K.masked_fill(own_rows[new], 0.0) @ self.inverse
        inside = np.flatnonzero(at >= 0)
        u[inside, at[inside]] = 1.0
        n_own = own.sum(1)
        one = np.flatnonzero(n_own == 1)
        B = own[one].argmax(1)
        u[one] -= self.inverse[B] * (u[one, B] / self.inverse[B, B])[:, None]
        for i in np.flatnonzero(n_own > 1):
            B = np.flatnonzero(own[i])
            P = self.inverse[B]
            u[i] -= torch.linalg.solve(P[:, B], u[i, B]) @ P
        return u.masked_fill(own_rows, 0.0)


def _same_row(focal: Features, firms: Features, own: np.ndarray) -> np.ndarray:
    """Return the position of each focal firm's own row among the pool's firms, −1 where there is none, (n_focal,)."""
    at = np.where(own.any(1), own.argmax(1), 0) if own.shape[1] else np.zeros(len(own), int)
    if not own.shape[1]:
        return at - 1
    same = own.any(1)
    for mine, theirs in ((focal.x, firms.x), (focal.codes, firms.codes), (focal.past, firms.past)):
        same &= (mine[0] == theirs[0][at]).all(-1).numpy()
    return np.where(same, at, -1)


def _known(section: Section) -> np.ndarray:
    assert section.peers.y is not None
    known = np.isfinite(section.peers.y)
    return known if section.answering is None else known & section.answering


def features(rows: Rows, section: Section, history: History | None, dtype: torch.dtype) -> Features:
    """Return what the covariance reads of these rows of a cross-section."""
    past = np.zeros((len(rows), 0)) if history is None else history.before(section.period, rows.label)
    return Features(
        torch.as_tensor(ranked(rows.x, section.peers.x), dtype=dtype)[None],
        torch.as_tensor(rows.codes.astype(np.int64))[None],
        torch.as_tensor(past, dtype=dtype)[None],
    )


# ---------------------------------------------------------------------- learning


@dataclass(frozen=True)
class _Period:
    """One training period: distinct firms of known outcome and their loss weights."""

    firms: Features
    y: Tensor
    weight: Tensor

    @classmethod
    def of(cls, section: Section, history: History | None, dtype: torch.dtype) -> _Period:
        new = ~section.focal.label.isin(section.peers.label)
        rows = section.peers.take(_known(section)).joined(section.focal.take(new).known())
        counts = (
            np.ones(len(section.focal)) if section.focal.loss_weight is None else section.focal.loss_weight
        )
        weight = np.where(rows.label.isin(section.focal.label), 1.0, 0.0)
        if section.focal.loss_weight is not None:
            by_label = dict(zip(section.focal.label, counts, strict=True))
            weight = np.array([by_label.get(label, 0.0) for label in rows.label])
        found = features(rows, section, history, dtype)
        return cls(found, torch.as_tensor(rows.y, dtype=dtype), torch.as_tensor(weight, dtype=dtype))


def fit_covariance(
    sections: Sequence[Section],
    *,
    history: bool = True,
    steps: int = STEPS,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    power: float = POWER,
    verbose: bool = False,
) -> Covariance:
    """Learn a covariance by its leave-one-out errors, each divided by a power of the variance it is predicted to have.

    Parameters
    ----------
    sections : sequence of Section
        Training periods, with outcomes.
    history : bool
        Whether firms that moved together in the past may do so again (dated panels only).
    steps : int
        Steps of Adam on a one-cycle learning rate; each draws some periods and at most 1,000 firms of each.
    seed : int
        Seed of the draws.

    Returns
    -------
    Covariance
    """
    past = History.of(sections) if history else None
    if past is not None and len(past.periods) < 2:
        past = None
    periods = [_Period.of(section, past, dtype) for section in sections]
    periods = [period for period in periods if len(period.y) > 1 and period.weight.sum() > 0]
    p, c = sections[0].peers.x.shape[1], sections[0].peers.codes.shape[1]
    parameters = _start(p, c, past is not None, torch.Generator().manual_seed(seed))
    if not periods:
        return Covariance({name: value.numpy() for name, value in parameters.items()}, past)
    spread = math.sqrt(float(torch.cat([q.y**2 for q in periods]).mean())) or 1.0
    parameters = {name: value.to(dtype).to(device).requires_grad_() for name, value in parameters.items()}
    optimiser = torch.optim.Adam(parameters.values(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=max(steps, 2))
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        optimiser.zero_grad()
        firms, y, weight, present = _drawn(periods, generator, device)
        loss = _loss(parameters, firms, y / spread, weight, present, power)
        loss.backward()
        optimiser.step()
        schedule.step()
        if verbose and step % 10 == 9:
            print(step + 1, round(float(loss), 4), flush=True)
    learned = {name: value.detach().double().cpu().numpy() for name, value in parameters.items()}
    return Covariance(learned, past)


def _start(p: int, c: int, past: bool, generator: torch.Generator) -> Parameters:
    """Return parameters in which noise is the larger part and every kernel has a small one."""
    every = max(p, 1)
    start = {
        "constant": torch.tensor(0.0),
        "linear": torch.full((p,), math.log(0.3 / every)),
        "low_rank": 0.2 / math.sqrt(every) * torch.randn(p, RANK, generator=generator),
        "inverse_length": torch.full((p,), 0.5 * math.log(4.5 / every)),
        "gaussian": torch.tensor(-3.0),
        "code": torch.full((c,), -3.5),
        "near_in_code": torch.full((c,), -3.5),
        "noise": torch.zeros(p),
    }
    if past:
        start |= {"past": torch.tensor(-3.0), "past_squared": torch.tensor(-3.0)}
    return start


def _drawn(
    periods: Sequence[_Period], generator: torch.Generator, device: str | torch.device
) -> tuple[Features, Tensor, Tensor, Tensor]:
    """Draw periods and firms of each, padded to equal length."""
    usual = float(np.median([min(len(q.y), ROWS_OF_PERIOD) for q in periods]))
    n = min(len(periods), max(1, round(ROWS_OF_STEP / usual)))
    drawn = [periods[k] for k in torch.randperm(len(periods), generator=generator)[:n].tolist()]
    at = [torch.randperm(len(q.y), generator=generator)[:ROWS_OF_PERIOD] for q in drawn]

    def padded(values: list[Tensor]) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence(values, batch_first=True).to(device)

    pairs = list(zip(drawn, at, strict=True))
    firms = Features(
        padded([q.firms.x[0, k] for q, k in pairs]),
        padded([q.firms.codes[0, k] for q, k in pairs]),
        padded([q.firms.past[0, k] for q, k in pairs]),
    )
    y, weight = padded([q.y[k] for q, k in pairs]), padded([q.weight[k] for q, k in pairs])
    return firms, y, weight, padded([torch.ones(len(k), dtype=torch.bool) for k in at])


def _loss(
    parameters: Parameters, firms: Features, y: Tensor, weight: Tensor, present: Tensor, power: float
) -> Tensor:
    """Return the leave-one-out errors of each period over its outcomes, both weighed alike, on average over periods."""
    pairs = present[:, :, None] & present[:, None, :]
    K = shared(parameters, firms, firms) * pairs
    diagonal = torch.where(present, noise(parameters, firms), 1.0)
    error, variance = _LeaveOneOut.apply(K + diagonal.diag_embed(), y)
    precise = (weight * present) * variance.detach() ** -power
    share = (precise * error**2).sum(-1) / (precise * y**2).sum(-1).clamp(min=1e-12)
    return share.mean()
