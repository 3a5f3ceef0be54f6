"""Linear attention: a ridge on learned features, trained through its exact leave-one-out prediction."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from peerattn.models.attention.batches import Batch
from peerattn.models.attention.peer_module import PairTensors, PeerSpec, RowTensors, admissible
from peerattn.processes import all_sum

START_PENALTY = 30.0  # λ at the start, in numbers of firms
INTERCEPT_SCALE = 100.0  # a constant so large that the ridge leaves it free
FEATURES, INTERACTIONS, HIDDEN = 8, 8, 32
BOUND = 3.0  # of log precision: an outlier in characteristics must not decide alone


class LinearAttention(torch.nn.Module):
    r"""Signed weights :math:`\alpha_{ij} = z_i (Z'PZ + \lambda I)^{-1} z_j' p_j`, own outcome left out exactly.

    .. math:: \hat y_i = \frac{\sum_{j \ne i} \alpha_{ij} y_j}{1 - \alpha_{ii}}

    The features z are a constant, the characteristics and one-hot codes with learned scales, ``FEATURES`` learned functions
    of the characteristics, and ``INTERACTIONS`` learned products of codes and characteristics. The precision
    :math:`p_j \propto \exp(x_j'\gamma)`, with mean one in the pool and learned γ, lets noisy firms count less (weighted least
    squares). Costs O(n p²), never n².
    """

    def __init__(
        self, spec: PeerSpec, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64
    ):
        super().__init__()
        self.spec = spec
        generator = torch.Generator() if generator is None else generator
        p = spec.n_characteristics

        def normal(*shape: int, sd: float) -> torch.nn.Parameter:
            draw = torch.randn(*shape, generator=generator, dtype=torch.float64) * sd
            return torch.nn.Parameter(draw.to(dtype))

        def constant(*shape: int, value: float = 0.0) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.full(shape, value, dtype=dtype))

        self.log_scale = constant(p)
        self.log_code_scale = constant(len(spec.code_levels))
        self.log_penalty = constant(value=math.log(START_PENALTY))
        self.hidden, self.hidden_shift = normal(p, HIDDEN, sd=1 / math.sqrt(p)), constant(HIDDEN)
        self.functions = normal(HIDDEN, FEATURES, sd=0.3 / math.sqrt(HIDDEN))
        self.tables = torch.nn.ParameterList([normal(n + 1, INTERACTIONS, sd=0.1) for n in spec.code_levels])
        self.directions = normal(p, INTERACTIONS, sd=1 / math.sqrt(p))
        self.log_precision = constant(p)
        self.slope = constant(spec.n_heads, value=1.0)
        if spec.own == "linear":
            self.own_slope, self.intercept = constant(p, 1), constant(1)

    @property
    def code_tables(self) -> torch.nn.ParameterList:
        """Embeddings of each code's levels, the unknown one first."""
        return self.tables

    def features(self, rows: RowTensors) -> Tensor:
        """Return z of every row, (B, n, P); rows that do not answer are zero."""
        x = rows.x
        parts = [torch.full_like(x[..., :1], INTERCEPT_SCALE), x * self.log_scale.exp()]
        parts.append(torch.nn.functional.gelu(x @ self.hidden + self.hidden_shift) @ self.functions)
        for c, levels in enumerate(self.spec.code_levels):
            one_hot = torch.nn.functional.one_hot(rows.codes[..., c], levels + 1)[
                ..., 1:
            ]  # unknown codes share nothing
            parts.append(one_hot.to(x.dtype) * self.log_code_scale[c].exp())
        if len(self.tables):
            embedded = sum(
                (table[rows.codes[..., c]] for c, table in enumerate(self.tables)), torch.zeros(())
            )
            parts.append(embedded * (x @ self.directions))
        return torch.cat(parts, dim=-1) * rows.answers[..., None]

    def _solved(self, peers: RowTensors) -> Tensor:
        """Return ``(Z'PZ + λI)⁻¹ Z'P`` for a pool, (B, P, n)."""
        z = self.features(peers)
        # the mean is over all firms, so that whether the own outcome is known changes nothing
        precision = (BOUND * torch.tanh(peers.x @ self.log_precision / BOUND)).exp() * peers.present
        mean = precision.sum(-1, keepdim=True) / peers.present.sum(-1, keepdim=True).clamp(min=1)
        weighted = (z * (precision / mean.clamp(min=1e-12))[..., None]).mT
        identity = torch.eye(z.shape[-1], dtype=torch.float64)
        gram = (weighted @ z).double() + self.log_penalty.double().exp() * identity
        return torch.cholesky_solve(weighted.double(), torch.linalg.cholesky(gram)).to(z.dtype)

    def forward(
        self,
        focal: RowTensors,
        peers: RowTensors,
        pairs: PairTensors = PairTensors(),  # noqa: B008
    ) -> tuple[Tensor, Tensor]:
        """Return predictions (B, n_focal, 1) and the contribution of the head (B, H, n_focal, 1)."""
        heads = self._ridge(focal, peers) * self.slope[:, None, None]
        predicted = heads.sum(1)
        if self.spec.own == "linear":
            predicted = predicted + focal.x @ self.own_slope + self.intercept
        return predicted, heads

    def _ridge(self, focal: RowTensors, peers: RowTensors) -> Tensor:
        """Return the ridge's prediction of every focal row, its own outcome left out, (B, H, n_focal, 1)."""
        assert peers.y is not None
        z_focal, solved = self.features(focal), self._solved(peers)  # (B, n_focal, P), (B, P, n_peers)
        y = (peers.y * peers.answers)[..., None]
        fitted = z_focal @ (solved @ y)  # (B, n_focal, 1), own outcome still in
        own_y, own_h = self._own(focal, peers, z_focal, solved, y)
        without: Tensor = (fitted - own_h * own_y) / (1 - own_h)
        return without[:, None]

    @staticmethod
    def _own(
        focal: RowTensors, peers: RowTensors, z_focal: Tensor, solved: Tensor, y: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return each focal row's own outcome and leverage among the peers; zero where it is not one of them."""
        match = (focal.identity[:, :, None] == peers.identity[:, None, :]) & (focal.identity[:, :, None] >= 0)
        match &= peers.answers[:, None, :]
        found, at = match.any(-1, keepdim=True), match.float().argmax(-1, keepdim=True)  # (B, n_focal, 1)
        own_y = torch.gather(y, 1, at) * found
        column = torch.gather(solved, 2, at.mT.expand(-1, solved.shape[1], -1))  # (B, P, n_focal)
        return own_y, (z_focal * column.mT).sum(-1, keepdim=True) * found

    @torch.no_grad()
    def solve(self, batches: Iterable[Batch]) -> None:
        """Set own term and slope by least squares, given the weights."""
        total = torch.zeros((), dtype=torch.float64)
        for batch in batches:
            x, ridge = batch.focal.x, self._ridge(batch.focal, batch.peers)[:, 0]
            own = [x, torch.ones_like(x[..., :1])] if self.spec.own == "linear" else []
            rows = torch.cat([*own, ridge, batch.y[..., None]], dim=-1) * batch.weight.sqrt()[..., None]
            total = total + (rows.mT @ rows).sum(0)
        total = all_sum(total)
        solution = torch.linalg.pinv(total[:-1, :-1], hermitian=True) @ total[:-1, -1:]
        if self.spec.own == "linear":
            self.own_slope.copy_(solution[:-2])
            self.intercept.copy_(solution[-2])
        self.slope.copy_(solution[-1])

    def weights(self, focal: RowTensors, peers: RowTensors, pairs: PairTensors = PairTensors()) -> Tensor:  # noqa: B008
        """Return the signed weights, (B, H, n_focal, n_peers); rows need not sum to one."""
        hat = self.features(focal) @ self._solved(peers)
        may = admissible(focal, peers)
        own = (hat * ~may).sum(-1, keepdim=True)
        signed = hat * may / (1 - own)
        return signed[:, None] * self.slope[:, None, None]
