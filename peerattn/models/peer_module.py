"""The prediction equation as a torch module: own term plus the weighted information of the peers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from peerattn import nn

D_ENCODER, ENCODER_HEADS = 16, 2  # width of what stacked layers add to the characteristics


@dataclass(frozen=True)
class PeerSpec:
    """What shape a :class:`PeerModule` has; with its arrays it is a fitted model."""

    n_characteristics: int
    code_levels: tuple[int, ...]
    d_code: int
    n_heads: int
    d_head: int
    n_layers: int
    values: str
    own: str

    @property
    def width(self) -> int:
        """Number of features that heads see: characteristics, code embeddings, encoder features."""
        return self.n_inputs + (D_ENCODER if self.n_layers > 1 else 0)

    @property
    def n_inputs(self) -> int:
        """Number of characteristics and code embeddings."""
        return self.n_characteristics + self.d_code * len(self.code_levels)


@dataclass(frozen=True)
class RowTensors:
    """Rows of a batch of cross-sections, padded to equal length.

    ``x`` (B, n, p), ``codes`` (B, n, c), ``y`` (B, n) or None, ``identity`` (B, n) with −1 = equal to no other,
    ``present`` (B, n): False where padded.
    """

    x: Tensor
    codes: Tensor
    y: Tensor | None
    identity: Tensor
    present: Tensor


class PeerModule(torch.nn.Module):
    """``ŷ_i = own_i + Σ_h ρ_h Σ_j α^h_ij v^h_j`` with learned weights α.

    With ``values="characteristics"`` the information is ``v^h_j = w_h'x_j`` (the slope ρ_h is the length of the value
    vector); with ``"outcomes"`` it is the peer's outcome and ρ_h is a parameter.
    """

    def __init__(self, spec: PeerSpec, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64):
        super().__init__()
        self.spec = spec
        generator = torch.Generator() if generator is None else generator
        H, p, d = spec.n_heads, spec.width, spec.d_head

        def uniform(*shape: int) -> torch.nn.Parameter:
            draw = torch.rand(*shape, generator=generator, dtype=torch.float64)
            return torch.nn.Parameter(((2 * draw - 1) / math.sqrt(p)).to(dtype))

        self.embeddings = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.randn(n + 1, spec.d_code, generator=generator, dtype=torch.float64).to(dtype))
             for n in spec.code_levels]
        )  # fmt: skip
        self.query, self.key = uniform(H, p, d), uniform(H, p, d)
        if spec.values == "characteristics":
            self.value = uniform(H, p)
        else:
            self.slope = torch.nn.Parameter(torch.full((H,), 1.0 / H, dtype=dtype))
        if spec.own == "linear":
            self.own_slope = torch.nn.Parameter(torch.zeros(spec.n_inputs, dtype=dtype))
            self.intercept = torch.nn.Parameter(torch.zeros((), dtype=dtype))
        if spec.n_layers > 1:
            self.embed = torch.nn.utils.skip_init(torch.nn.Linear, spec.n_inputs, D_ENCODER, dtype=dtype)
            with torch.no_grad():
                self.embed.weight.copy_(uniform(D_ENCODER, spec.n_inputs))
                self.embed.bias.zero_()
            blocks = [
                nn.TransformerBlock(D_ENCODER, ENCODER_HEADS, generator=generator) for _ in range(spec.n_layers - 1)
            ]
            self.blocks = torch.nn.ModuleList(blocks).to(dtype)

    # ------------------------------------------------------------------ features

    def inputs(self, rows: RowTensors) -> Tensor:
        """Return characteristics and code embeddings, (B, n, n_inputs)."""
        codes = [table[rows.codes[..., c]] for c, table in enumerate(self.embeddings)]
        return torch.cat([rows.x, *codes], dim=-1)

    def features(self, focal: RowTensors, peers: RowTensors) -> tuple[Tensor, Tensor, Tensor]:
        """Return the own inputs of the focal rows, and what heads see of focal rows and of peers.

        Stacked layers encode characteristics only: no outcome enters here.
        """
        own, pool = self.inputs(focal), self.inputs(peers)
        if self.spec.n_layers == 1:
            return own, own, pool
        h_focal, h_pool = self.embed(own), self.embed(pool)
        to_pool, within_pool = (admissible(rows, peers)[:, None] for rows in (focal, peers))
        for block in self.blocks:
            h_focal, h_pool = block(h_focal, h_pool, mask=to_pool), block(h_pool, mask=within_pool)
        return own, torch.cat([own, h_focal], dim=-1), torch.cat([pool, h_pool], dim=-1)

    # ------------------------------------------------------------------ prediction and weights

    def forward(self, focal: RowTensors, peers: RowTensors, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return predictions (B, n_focal) and the contribution of every head (B, H, n_focal).

        ``bias`` (B, n_focal, n_peers) is added to the scores: log frequency weights.
        """
        own, looking, shown = self.features(focal, peers)
        heads = self._contributions(looking, shown, focal, peers, bias)
        predicted = heads.sum(1)
        if self.spec.own == "linear":
            predicted = predicted + own @ self.own_slope + self.intercept
        return predicted, heads

    def _contributions(
        self, looking: Tensor, shown: Tensor, focal: RowTensors, peers: RowTensors, bias: Tensor | None
    ) -> Tensor:
        if not self.spec.n_heads:
            return looking.new_zeros(looking.shape[0], 0, looking.shape[1])
        mask = admissible(focal, peers)[:, None]  # (B, 1, n_focal, n_peers)
        bias = None if bias is None else bias[:, None]
        query, key, value = self._query(looking), self._key(shown), self._value(shown, peers)
        heads = nn.attention(query, key, value, mask=mask, bias=bias)[..., 0]
        return heads * self.slope[:, None] if self.spec.values == "outcomes" else heads

    def weights(self, focal: RowTensors, peers: RowTensors, bias: Tensor | None = None) -> Tensor:
        """Return the weights of every head, (B, H, n_focal, n_peers)."""
        _, looking, shown = self.features(focal, peers)
        mask = admissible(focal, peers)[:, None]
        bias = None if bias is None else bias[:, None]
        return nn.attention_weights(self._query(looking), self._key(shown), mask=mask, bias=bias)

    def _query(self, features: Tensor) -> Tensor:
        return torch.einsum("bnp,hpd->bhnd", features, self.query)

    def _key(self, features: Tensor) -> Tensor:
        return torch.einsum("bnp,hpd->bhnd", features, self.key)

    def _value(self, features: Tensor, peers: RowTensors) -> Tensor:
        if self.spec.values == "characteristics":
            return torch.einsum("bnp,hp->bhn", features, self.value)[..., None]
        assert peers.y is not None
        return peers.y[:, None, :, None].expand(-1, self.spec.n_heads, -1, -1)  # (B, H, n_peers, 1)

    def per_head(self) -> list[torch.nn.Parameter]:
        """Return the parameters whose first dimension is the head."""
        return [self.query, self.key, self.value if self.spec.values == "characteristics" else self.slope]


def admissible(focal: RowTensors, peers: RowTensors) -> Tensor:
    """Return who may attend to whom, (B, n_focal, n_peers): another identity, and not padding."""
    mine, theirs = focal.identity[:, :, None], peers.identity[:, None, :]
    return ((mine < 0) | (mine != theirs)) & peers.present[:, None, :]
