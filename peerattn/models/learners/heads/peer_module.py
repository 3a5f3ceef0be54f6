"""The prediction equation as a torch module: own term plus the weighted information of the peers."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter

from peerattn import nn
from peerattn.models.learners.batches import Batch, PairTensors, RowTensors, with_null_peer
from peerattn.models.learners.linear import CLIP

SHARP = 2.0  # size of the first queries and keys: from flatter weights fewer heads find a network
OWN = ("own_slope", "intercept")  # parameters of the own term
OF_SEEDS = (*OWN, "nuisance_slope")  # whose first dimension is that of seeds
SMALL = 0.1  # size of the first values: training starts near the own part


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
    null_peer: bool = True  # a null peer: a firm may attend to nobody
    clip: float = CLIP  # what characteristics count for at most in heads, so that no outlier carries one
    nuisance: bool = False  # trained beside a nuisance function, whose slope is a parameter
    n_seeds: int = 1  # in one module, while they are trained: each with ``n_heads`` heads and an own term

    @property
    def n_all_heads(self) -> int:
        """Number of heads of all seeds."""
        return self.n_seeds * self.n_heads

    @property
    def n_inputs(self) -> int:
        """Number of characteristics and code embeddings."""
        return self.n_characteristics + self.d_code * len(self.code_levels)

    @property
    def width(self) -> int:
        """Number of features that the last layer sees: inputs, and what each layer before it adds."""
        return self.n_inputs * self.n_layers


class Layer(torch.nn.Module):
    """Scores of the heads of one layer: what each looks for, among rows of this many features.

    Parameters of single heads have these along their first dimension: ``query`` and ``key`` (H, width, d), ``offset`` (H, 1, d).
    The constant in the query lets scores have a term of the peer alone (popularity), so that nothing depends on where
    characteristics are centred. All draws are made in float64 from ``generator``, so that the start does not depend on
    ``dtype``. At the start scores depend on the inputs alone, not on what layers before add to them.
    """

    def __init__(self, spec: PeerSpec, width: int, generator: torch.Generator, dtype: torch.dtype):
        super().__init__()
        self.spec = spec
        H = spec.n_all_heads
        d = spec.d_head
        self.query = self._start(width, d, generator, dtype, SHARP)
        self.offset = Parameter(torch.zeros(H, 1, d, dtype=dtype))
        self.combine: Parameter | None = None
        self.prior_strength: Parameter | None = None
        if not spec.symmetric:
            self.key = self._start(width, d, generator, dtype, SHARP)
            # firms first attend to those of their own codes
            of_codes = slice(spec.n_characteristics, spec.n_inputs)
            self.key.data[:, of_codes] = self.query.data[:, of_codes]
        if spec.similarity == "additive":
            drawn = 2 * torch.rand(H, d, generator=generator, dtype=torch.float64) - 1
            self.combine = Parameter((drawn / math.sqrt(spec.n_inputs)).to(dtype))
        if spec.null_peer:  # the profile of the null peer, whose information is zero
            self.null_key = Parameter(torch.zeros(H, 1, d, dtype=dtype))
        if spec.n_priors:  # a relation that was named is first leaned on
            self.prior_strength = Parameter(torch.ones(H, spec.n_priors, dtype=dtype))

    def _start(self, width: int, columns: int, generator: torch.Generator, dtype: torch.dtype, size: float) -> Parameter:
        """Return a projection of ``width`` features for every head, zero but for the inputs."""
        H = self.spec.n_all_heads
        p = self.spec.n_inputs
        weight = torch.zeros(H, width, columns, dtype=dtype)
        draws = torch.randn(H, p, columns, generator=generator, dtype=torch.float64)
        weight[:, :p] = size / math.sqrt(max(p, 1)) * draws
        return Parameter(weight)

    def queries(self, features: Tensor) -> Tensor:
        """Return what rows of these features look for, (B, H, n, d)."""
        return projected(features, self.query) + self.offset

    def keys(self, features: Tensor) -> Tensor:
        """Return by what rows of these features are found, (B, H, n, d)."""
        return projected(features, self.key_projection)

    @property
    def key_projection(self) -> Tensor:
        """The projection of keys, which is that of queries in a symmetric similarity."""
        if self.spec.symmetric:
            return self.query
        return self.key

    def scores(self, query_features: Tensor, key_features: Tensor, pairs: PairTensors, null_peer: bool = True) -> dict[str, Any]:
        """Return query, key, scale and bias whose scores are the similarity of the specification; the null peer comes last."""
        query = self.queries(query_features)
        key = self.keys(key_features)
        bias = pairs.terms(self.prior_strength)
        if self.spec.null_peer and null_peer:
            key = torch.cat([key, self.null_key.expand(len(key), -1, -1, -1)], dim=2)
            if bias is not None:
                bias = F.pad(bias, (0, 1))
        return nn.score_terms(query, key, self.spec.similarity, combine=self.combine, bias=bias)

    def mean(self, query_features: Tensor, key_features: Tensor, value: Tensor, blocked: Tensor, pairs: PairTensors) -> Tensor:
        """Return every head's weighted mean of values, (B, H, n_focal, ...)."""
        if value.dim() == 3:  # the same of all heads
            value = value[:, None]
        scores = self.blocked_scores(query_features, key_features, blocked, pairs)
        # the information of the null peer, where there is one, is zero
        value = F.pad(value, (0, 0, 0, scores["key"].shape[2] - value.shape[2]))
        return nn.attention(value=value, **scores)

    def blocked_scores(self, query_features: Tensor, key_features: Tensor, blocked: Tensor, pairs: PairTensors) -> dict[str, Any]:
        """Return the scores with ``blocked`` (B, n_focal, n_peers + 1), as :attr:`Batch.blocked`, in their bias."""
        scores = self.scores(query_features, key_features, pairs)
        bias = blocked[:, None, :, : scores["key"].shape[2]]
        if scores["bias"] is not None:
            bias = bias + scores["bias"]
        return scores | {"bias": bias}


def projected(features: Tensor, weight: Tensor) -> Tensor:
    """Return (B, H, n, d) of features that all heads share, (B, n, width), or of each head's, (B, H, n, width)."""
    if features.dim() == 4:
        return features @ weight
    together = features @ weight.transpose(0, 1).flatten(1)  # one product for all heads
    return together.unflatten(-1, (len(weight), -1)).transpose(1, 2)


class PeerModule(Layer):
    r"""``ŷ_i = own_i + Σ_h ρ_h Σ_j α^h_ij v^h_j`` with learned weights α: the last layer, and what its heads add.

    With ``values="characteristics"`` the information is ``v^h_j = V_h'x_j`` (the slope ρ_h is the length of the value
    vector); with ``"outcomes"`` it is the peer's outcome and ρ_h is a parameter.

    With several layers a head is a chain i ← j ← k of scores of its own in every layer: where one layer sees x, the next sees

    .. math:: h_j = \Big(x_j,\; \sum_k \beta^h_{jk} x_k\Big),

    in its scores and as values, so that a head adds ``A x v_1 + A B x v_2 + ...``: what peers have, what their peers have, and
    so on. The model of fewer layers is the special case of zeros. No outcome is used before the last layer.

    Several seeds, which are trained at once, are one module: their heads stand one seed after another, and each has an own term.
    """

    def __init__(self, spec: PeerSpec, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64):
        generator = generator or torch.Generator("cpu")
        draws = [torch.randn(n + 1, spec.d_code, generator=generator, dtype=torch.float64) for n in spec.code_levels]
        # of one length, so that no level is nearer to another one than to itself
        tables = [math.sqrt(spec.d_code) * each / each.norm(dim=1, keepdim=True) for each in draws]
        super().__init__(spec, spec.width, generator, dtype)
        self.embeddings = torch.nn.ParameterList([Parameter(table.to(dtype)) for table in tables])
        if spec.values == "characteristics":
            self.value = self._start(spec.width, spec.n_outputs, generator, dtype, SMALL)
        else:
            self.value = Parameter(torch.full((spec.n_all_heads, 1), SMALL, dtype=dtype))
        if spec.own == "linear":
            self.own_slope = Parameter(torch.zeros(spec.n_seeds, spec.n_inputs, spec.n_outputs, dtype=dtype))
            self.intercept = Parameter(torch.zeros(spec.n_seeds, spec.n_outputs, dtype=dtype))
        if spec.nuisance:
            self.nuisance_slope = Parameter(torch.ones(spec.n_seeds, dtype=dtype))
        self.before = torch.nn.ModuleList(
            Layer(spec, (k + 1) * spec.n_inputs, generator, dtype) for k in range(spec.n_layers - 1)
        )

    def layers(self) -> list[Layer]:
        """Return all layers, the last one last."""
        return [*(layer for layer in self.before if isinstance(layer, Layer)), self]

    def take(self, heads: Sequence[int], seed: int = 0) -> "PeerModule":
        """Return a copy with only these heads, of any seeds, and the own term of one seed."""
        values = {}
        for name, value in self._of_seeds().items():
            kept = torch.as_tensor([seed] if name in OF_SEEDS else list(heads), dtype=torch.int64, device=value.device)
            values[name] = value[kept]
        return self._with(replace(self.spec, n_heads=len(heads), n_seeds=1), values)

    def seed(self, number: int) -> "PeerModule":
        """Return a copy of one seed."""
        first = number * self.spec.n_heads
        return self.take(range(first, first + self.spec.n_heads), number)

    @staticmethod
    def together(modules: "Sequence[PeerModule]") -> "PeerModule":
        """Return modules of one seed each, and of one specification, as one; they share the code embeddings of the first."""
        every = [module._of_seeds() for module in modules]
        values = {name: torch.cat([each[name] for each in every]) for name in every[0]}
        return modules[0]._with(replace(modules[0].spec, n_seeds=len(modules)), values)

    def _of_seeds(self) -> dict[str, Tensor]:
        """Return the parameters whose first dimension is that of heads, or of seeds: all but embeddings of codes."""
        return {name: value.detach() for name, value in self.named_parameters() if not name.startswith("embeddings.")}

    def _with(self, spec: PeerSpec, values: Mapping[str, Tensor]) -> "PeerModule":
        """Return a copy of another specification with these parameters."""
        made = copy.deepcopy(self)
        for layer in made.layers():
            layer.spec = spec
        for name, value in values.items():
            owner, _, last = name.rpartition(".")
            setattr(made.get_submodule(owner), last, Parameter(value))
        return made

    @torch.no_grad()
    def rescale(self, factor: float) -> "PeerModule":
        """Multiply what the module predicts by a factor, in place; weights stay as they are."""
        for name, parameter in self.named_parameters(recurse=False):
            if name in ("value", *OWN):
                parameter.mul_(factor)
        return self

    # ------------------------------------------------------------------ features

    def inputs(self, rows: RowTensors, clip: float = CLIP) -> Tensor:
        """Return characteristics and code embeddings, (B, n, n_inputs)."""
        x = rows.x.clamp(-clip, clip)
        codes = [table[rows.codes[..., c]] for c, table in enumerate(self.embeddings)]
        return torch.cat([x, *codes], dim=-1)

    def features(self, batch: Batch, n_layers: int | None = None) -> tuple[Tensor, Tensor]:
        """Return what a layer (by default the last) sees of focal rows and of peers.

        (B, n, n_inputs) where no layer comes before, else (B, H, n, width). Only characteristics are used, no outcome; earlier
        layers keep to the priors as the last one does.
        """
        focal = batch.focal
        peers = batch.peers
        own, pool = h_focal, h_pool = self.inputs(focal, self.spec.clip), self.inputs(peers, self.spec.clip)
        layers = self.layers()[:-1][:n_layers]
        if not layers:
            return own, pool
        among = batch.pairs.among or PairTensors()
        own, pool = (rows[:, None].expand(-1, len(self.query), -1, -1) for rows in (own, pool))
        of_pool = with_null_peer(peers.bias_for(peers, of_unknown_outcome=True))
        of_focal = with_null_peer(peers.bias_for(focal, of_unknown_outcome=True))
        matching = ((focal.identity, peers.identity), (focal.x, peers.x), (focal.codes, peers.codes))
        same = all(torch.equal(mine, theirs) for mine, theirs in matching)
        for layer in layers:
            pool_before = h_pool
            h_pool = torch.cat([pool, layer.mean(pool_before, pool_before, pool_before, of_pool, among)], dim=-1)
            if same:  # as in most training: the rows need not be encoded twice
                h_focal = h_pool
            else:
                h_focal = torch.cat([own, layer.mean(h_focal, pool_before, pool_before, of_focal, batch.pairs)], dim=-1)
        return h_focal, h_pool

    def head_values(self, key_features: Tensor, peers: RowTensors) -> Tensor:
        """Return the information of the peers, (B, H, n_peers, K): ``V'x_j``, or slope times outcome."""
        if self.spec.values == "characteristics":
            return projected(key_features, self.value)
        return peers.outcomes[:, None] * self.value[:, None]

    # ------------------------------------------------------------------ prediction and weights

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return what every seed predicts (B, seeds, n_focal, K), and the contribution of every head (B, H, n_focal, K)."""
        heads = batch.focal.x.new_zeros(len(batch.focal.x), 0, batch.focal.x.shape[1], self.spec.n_outputs)
        if len(self.query):
            query_features, key_features = self.features(batch)
            value = self.head_values(key_features, batch.peers)
            heads = self.mean(query_features, key_features, value, batch.blocked, batch.pairs)
        of_seeds = heads.unflatten(1, (self.spec.n_seeds, self.spec.n_heads)).sum(2)
        return of_seeds + self.own(batch.focal), heads

    def own(self, rows: RowTensors) -> Tensor:
        """Return what slopes on own characteristics and codes, trained beside the heads, add to rows, (B, seeds, n, K)."""
        if self.spec.own != "linear":
            return rows.x.new_zeros(len(rows.x), self.spec.n_seeds, rows.x.shape[1], self.spec.n_outputs)
        return torch.einsum("bnp,epk->benk", self.inputs(rows), self.own_slope) + self.intercept[:, None]

    def nuisance(self, batch: Batch) -> Tensor:
        """Return the nuisance function of rows times the slope of each seed, (B, seeds, n, K), in units of the outcome."""
        if batch.nuisance is None:
            return torch.zeros_like(batch.own[:, None])
        return batch.nuisance[:, None] * self.nuisance_slope[:, None, None]

    def weights(self, batch: Batch, n_layers: int | None = None) -> Tensor:
        """Return the weights of every head, (B, H, n_focal, n_peers): in the last layer, or in the one after so many layers."""
        if n_layers is None:
            n_layers = len(self.before)
        query_features, key_features = self.features(batch, n_layers)
        blocked = batch.blocked
        if n_layers < len(self.before):  # no outcome is used there, so that all may be attended to
            blocked = with_null_peer(batch.peers.bias_for(batch.focal, of_unknown_outcome=True))
        scores = self.layers()[n_layers].blocked_scores(query_features, key_features, blocked, batch.pairs)
        return nn.attention_weights(**scores)[..., : len(batch.peers.x[0])]
