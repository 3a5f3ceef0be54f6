"""The prediction equation as a torch module: own term plus the weighted information of the peers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from peerattn import nn
from peerattn.models.attention.row_tensors import PairTensors, RowTensors, admissible, barred, others
from peerattn.models.pools import NOBODY

WITHIN = 2.0  # size of queries and keys of a head that starts from the firms of its own code
SHARP = 2.5  # size of the first queries and keys: from flatter weights fewer heads find a network


@dataclass(frozen=True)
class PeerSpec:
    """What shape a :class:`PeerModule` has; with its arrays it is a fitted model."""

    n_characteristics: int
    code_levels: tuple[int, ...] = ()
    d_code: int = 4
    n_heads: int = 16
    d_head: int = 8
    n_layers: int = 1
    values: str = "characteristics"
    own: str = "linear"
    similarity: str = "scaled_dot_product"
    symmetric: bool = False
    n_priors: int = 0
    n_outputs: int = 1
    nobody: bool = True  # a null peer: a firm may look to nobody

    @property
    def n_inputs(self) -> int:
        """Number of characteristics and code embeddings."""
        return self.n_characteristics + self.d_code * len(self.code_levels)

    @property
    def width(self) -> int:
        """Number of features that the last layer sees: inputs, and what each layer before it adds."""
        return self.n_inputs * self.n_layers


class Projection(torch.nn.Module):
    """``weight`` (H d, width) and, of queries, ``bias`` (H d,): nothing is drawn from the global generator."""

    weight: torch.nn.Parameter
    bias: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("bias", None)


class Layer(torch.nn.Module):
    """Scores of the heads of one layer: whom each looks for, among rows of this many features.

    The constant in the query lets scores have a term of the peer alone (popularity), so that nothing depends on where
    characteristics are centred. All draws are made in float64 from ``generator``, so that the start does not depend on
    ``dtype``. At the start scores depend on the inputs alone, not on what layers before add to them.
    """

    def __init__(self, spec: PeerSpec, width: int, generator: torch.Generator, dtype: torch.dtype):
        super().__init__()
        self.spec = spec
        if not spec.n_heads:
            return
        H, d = spec.n_heads, spec.d_head
        self.query = self._projection(width, d, generator, dtype, size=SHARP)
        self.query.bias = torch.nn.Parameter(torch.zeros(H * d, dtype=dtype))
        if not spec.symmetric:
            self.key = self._projection(width, d, generator, dtype, size=SHARP)
            of_codes = slice(spec.n_characteristics, spec.n_inputs)
            with torch.no_grad():  # firms first look to those of their own codes
                self.key.weight[:, of_codes] = self.query.weight[:, of_codes]
        if spec.similarity == "additive":
            self.combine = torch.nn.Parameter(uniform(generator, H, d, width=spec.n_inputs).to(dtype))
        if spec.nobody:  # the profile of the null peer, whose information is zero
            self.nobody = torch.nn.Parameter(torch.zeros(H, 1, d, dtype=dtype))
        if spec.n_priors:  # a relation that was named is first leaned on
            self.prior_strength = torch.nn.Parameter(torch.ones(H, spec.n_priors, dtype=dtype))

    def _projection(
        self, width: int, d: int, generator: torch.Generator, dtype: torch.dtype, size: float = 1.0
    ) -> Projection:
        """Return a projection of ``width`` features on d columns of every head, zero but for the inputs."""
        H, p = self.spec.n_heads, self.spec.n_inputs  # at the start; later heads may be fewer
        layer = Projection()
        weight = torch.zeros(H * d, width, dtype=dtype)
        weight[:, :p] = size * uniform(generator, H, p, d, width=p).mT.reshape(H * d, p)
        layer.weight = torch.nn.Parameter(weight)
        return layer

    @torch.no_grad()
    def look_within(self, head: int, code: int) -> None:
        """Let a head start from the firms of its own level of a code, whatever their characteristics."""
        d, first = self.spec.d_head, self.spec.n_characteristics + code * self.spec.d_code
        size = min(d, self.spec.d_code)
        for projection in (self.query,) if self.spec.symmetric else (self.query, self.key):
            rows = projection.weight[head * d : (head + 1) * d]
            rows.zero_()
            rows[:size, first : first + size] = WITHIN * torch.eye(size, dtype=rows.dtype, device=rows.device)

    @property
    def n_heads(self) -> int:
        """Number of heads, which share the first dimension of all parameters."""
        return len(self.query.weight) // self.spec.d_head

    def scores(
        self, looking: Tensor, shown: Tensor, pairs: PairTensors, nobody: bool = True
    ) -> dict[str, Any]:
        """Return query, key, scale and bias whose scores are the similarity of the specification; the null peer comes last."""
        query = self._projected(looking, self.query)
        key = self._projected(shown, self.query if self.spec.symmetric else self.key, bias=False)
        bias = pairs.terms(self.prior_strength if self.spec.n_priors else None)
        combine = self.combine if self.spec.similarity == "additive" else None
        if self.spec.nobody and nobody:
            key = torch.cat([key, self.nobody.expand(len(key), -1, -1, -1)], dim=2)
            bias = None if bias is None else F.pad(bias, (0, 1))
        return nn.score_terms(query, key, self.spec.similarity, combine=combine, bias=bias)

    def mean(
        self, looking: Tensor, shown: Tensor, bars: Tensor, pairs: PairTensors, value: Tensor | None = None
    ) -> Tensor:
        """Return every head's weighted mean (B, H, n_focal, ...) of values, by default of what the peers show."""
        value = self.per_head_features(shown) if value is None else value
        scores = self.scores(looking, shown, pairs)
        if self.spec.nobody:  # its information is zero
            return attend(F.pad(value, (0, 0, 0, 1)), scores, bars, pairs)
        return attend(value, scores, bars[..., :-1], pairs)

    def per_head_features(self, features: Tensor) -> Tensor:
        """Return features as (B, H, n, width)."""
        return features if features.dim() == 4 else features[:, None].expand(-1, self.n_heads, -1, -1)

    def _projected(self, features: Tensor, projection: Projection, bias: bool = True) -> Tensor:
        """Return (B, H, n, d) of features that all heads share, (B, n, width), or of each head's, (B, H, n, width)."""
        offset, d = projection.bias if bias else None, len(projection.weight) // self.n_heads
        if features.dim() == 3:
            return nn.split_heads(F.linear(features, projection.weight, offset), d)
        found = features @ self._matrices(projection)
        return found if offset is None else found + offset.view(-1, 1, d)

    def _matrices(self, projection: Projection) -> Tensor:  # (H d, width) -> (H, width, d)
        return projection.weight.unflatten(0, (self.n_heads, -1)).mT


def uniform(generator: torch.Generator, *shape: int, width: int) -> Tensor:
    """Return draws between plus and minus ``1 / √width``, in float64."""
    return (2 * torch.rand(*shape, generator=generator, dtype=torch.float64) - 1) / math.sqrt(width)


class PeerModule(Layer):
    r"""``ŷ_i = own_i + Σ_h ρ_h Σ_j α^h_ij v^h_j`` with learned weights α: the last layer, and what its heads add.

    With ``values="characteristics"`` the information is ``v^h_j = V_h'x_j`` (the slope ρ_h is the length of the value
    vector); with ``"outcomes"`` it is the peer's outcome and ρ_h is a parameter.

    With several layers a head is a chain i ← j ← k of scores of its own in every layer: where one layer sees x, the next sees

    .. math:: h_j = \Big(x_j,\; \sum_k \beta^h_{jk} x_k\Big),

    in its scores and as values, so that a head adds ``A x v_1 + A B x v_2 + ...``: what peers have, what their peers have, and
    so on. The model of fewer layers is the special case of zeros. No outcome enters before the last layer.
    """

    def __init__(
        self, spec: PeerSpec, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64
    ):
        generator = torch.Generator() if generator is None else generator
        H, K = spec.n_heads, spec.n_outputs
        draws = [
            torch.randn(n + 1, spec.d_code, generator=generator, dtype=torch.float64)
            for n in spec.code_levels
        ]
        # of one length, so that no level is nearer to another one than to itself
        tables = [math.sqrt(spec.d_code) * each / each.norm(dim=1, keepdim=True) for each in draws]
        super().__init__(spec, spec.width, generator, dtype)
        self.embeddings = torch.nn.ParameterList([torch.nn.Parameter(table.to(dtype)) for table in tables])

        def zeros(*shape: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.zeros(*shape, dtype=dtype))

        if H and spec.values == "characteristics":
            self.value = self._projection(spec.width, K, generator, dtype)
        elif H:
            self.slope = torch.nn.Parameter(torch.full((H,), 1.0 / H, dtype=dtype))
        if spec.own == "linear":
            self.own_slope, self.intercept = zeros(spec.n_inputs, K), zeros(K)
        self.before = torch.nn.ModuleList(
            Layer(spec, (k + 1) * spec.n_inputs, generator, dtype) for k in range(spec.n_layers - 1)
        )

    def earlier(self) -> list[Layer]:
        """Return the layers before the last."""
        return [layer for layer in self.before if isinstance(layer, Layer)]

    def per_head(self) -> dict[str, torch.nn.Parameter]:
        """Return the parameters that belong to single heads, head after head along the first dimension."""
        names = ("query.", "key.", "combine", "value.", "slope", "prior_strength", "nobody", "before.")
        return {name: parameter for name, parameter in self.named_parameters() if name.startswith(names)}

    def replace(self, parameters: dict[str, Tensor]) -> None:
        """Put other tensors in the place of these parameters."""
        for name, value in parameters.items():
            owner, _, last = name.rpartition(".")
            setattr(self.get_submodule(owner), last, torch.nn.Parameter(value.detach()))

    @property
    def code_tables(self) -> torch.nn.ParameterList:
        """Embeddings of each code's levels, the unknown one first."""
        return self.embeddings

    @property
    def head_values(self) -> Tensor:
        """Value vectors of the heads (H, width, K), or their slopes on the peers' outcomes (H, 1)."""
        return self._matrices(self.value) if self.spec.values == "characteristics" else self.slope[:, None]

    @property
    def query_matrices(self) -> Tensor:
        """``W_Q`` of the heads, (H, width, d_head)."""
        return self._matrices(self.query)

    @property
    def key_matrices(self) -> Tensor:
        """``W_K`` of the heads, (H, width, d_head)."""
        return self._matrices(self.query if self.spec.symmetric else self.key)

    # ------------------------------------------------------------------ features

    def inputs(self, rows: RowTensors) -> Tensor:
        """Return characteristics and code embeddings, (B, n, n_inputs)."""
        codes = [table[rows.codes[..., c]] for c, table in enumerate(self.embeddings)]
        return torch.cat([rows.x, *codes], dim=-1)

    def features(
        self, focal: RowTensors, peers: RowTensors, pairs: PairTensors, n_layers: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return what a layer (by default the last) sees of focal rows and of peers.

        (B, n, n_inputs) where no layer comes before, else (B, H, n, width). Only characteristics enter, no outcome; earlier
        layers keep to the priors as the last one does.
        """
        own, pool = h_focal, h_pool = self.inputs(focal), self.inputs(peers)
        layers = self.earlier()[:n_layers]
        if not layers:
            return own, pool
        among = PairTensors() if pairs.among is None else pairs.among
        looking = replace(peers, identity=torch.full_like(peers.identity, NOBODY)) if among.copies else peers
        alike = ((focal.identity, peers.identity), (focal.x, peers.x), (focal.codes, peers.codes))
        same = not among.copies and all(torch.equal(mine, theirs) for mine, theirs in alike)
        of_pool = barred(others(looking, peers), pool.dtype)
        of_focal = of_pool if same else barred(others(focal, peers), pool.dtype)
        for layer in layers:
            told = layer.mean(h_pool, h_pool, of_pool, among)
            h_own = told if same else layer.mean(h_focal, h_pool, of_focal, pairs)
            h_focal = torch.cat([layer.per_head_features(own), h_own], dim=-1)
            h_pool = h_focal if same else torch.cat([layer.per_head_features(pool), told], dim=-1)
        return h_focal, h_pool

    # ------------------------------------------------------------------ prediction and weights

    def forward(
        self,
        focal: RowTensors,
        peers: RowTensors,
        pairs: PairTensors = PairTensors(),  # noqa: B008
        bars: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return predictions (B, n_focal, K) and the contribution of every head (B, H, n_focal, K).

        ``bars`` says who may not look to whom (:func:`~.row_tensors.barred`), where the caller has it already.
        """
        bars = barred(admissible(focal, peers), focal.x.dtype) if bars is None else bars
        heads = self._contributions(focal, peers, pairs, bars)
        predicted = heads.sum(1)
        if self.spec.own == "linear":
            predicted = predicted + self.inputs(focal) @ self.own_slope + self.intercept
        return predicted, heads

    def _contributions(
        self, focal: RowTensors, peers: RowTensors, pairs: PairTensors, bars: Tensor
    ) -> Tensor:
        if not self.spec.n_heads:
            return focal.x.new_zeros(*focal.x.shape[:1], 0, focal.x.shape[1], self.spec.n_outputs)
        looking, shown = self.features(focal, peers, pairs)
        heads = self.mean(looking, shown, bars, pairs, self._value(shown, peers))
        return heads * self.slope[:, None, None] if self.spec.values == "outcomes" else heads

    def weights(
        self,
        focal: RowTensors,
        peers: RowTensors,
        pairs: PairTensors = PairTensors(),  # noqa: B008
        n_layers: int | None = None,
    ) -> Tensor:
        """Return the weights of every head, (B, H, n_focal, n_peers): in the last layer, or in the one after so many layers."""
        looking, shown = self.features(focal, peers, pairs, n_layers)
        last = n_layers is None or n_layers == len(self.before)
        layer = self if last else self.earlier()[n_layers or 0]
        may = admissible(focal, peers) if last else others(focal, peers)
        scores = layer.scores(looking, shown, pairs)
        if not self.spec.nobody:
            return nn.attention_weights(mask=may[:, None], **scores)
        return nn.attention_weights(mask=F.pad(may, (0, 1), value=True)[:, None], **scores)[..., :-1]

    def _value(self, shown: Tensor, peers: RowTensors) -> Tensor:
        """Return the information of the peers, (B, H, n_peers, K)."""
        if self.spec.values == "characteristics":
            return self._projected(shown, self.value)
        assert peers.y is not None
        outcome = peers.y[..., None] if peers.y.dim() == 2 else peers.y
        return outcome[:, None].expand(-1, self.spec.n_heads, -1, -1)


def attend(value: Tensor, scores: dict[str, Any], bars: Tensor, pairs: PairTensors) -> Tensor:
    """Return every head's weighted mean of the values, (B, H, n_focal, width): over all pairs, or along the few allowed."""
    if not pairs.sparse or pairs.bias is None:
        bias = bars[:, None] if scores["bias"] is None else bars[:, None] + scores["bias"]
        return nn.attention(value=value, **scores | {"bias": bias})
    section, row, peer = (bars + pairs.bias > -math.inf).nonzero().T
    n_sections, n_focal, n_peers = bars.shape

    def laid_out(x: Tensor) -> Tensor:  # (B, H, n, d) -> (H, B n, d): sections one after the other
        return x.transpose(0, 1).flatten(1, 2)

    query, key = laid_out(scores["query"]), laid_out(scores["key"])
    edges = torch.stack([section * n_focal + row, section * n_peers + peer])
    bias = scores["bias"][section, :, row, peer].T  # (1 or H, E)
    found = nn.edge_attention(query, key, laid_out(value), edges, bias=bias, scale=scores["scale"])
    return found.unflatten(1, (n_sections, n_focal)).transpose(0, 1)
