"""Attention heads as fitted arrays: what they predict, their weights, the strongest of very many, and tables about them."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pandas as pd
import torch
from scipy import sparse

from peerattn import nn
from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.batches import RowTensors, Sample
from peerattn.models.learners.heads.nuisance import Nuisance
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec
from peerattn.models.learners.priors import PairTerms, Prior
from peerattn.models.learners.protocol import OfRows

SPREAD_SECTIONS = 24  # cross-sections over which contributions are measured


@dataclass(frozen=True)
class Member:
    """The heads of one start: a specification and arrays, never a live module.

    Attributes
    ----------
    spec : PeerSpec
    state : dict of ndarray
        Parameters, in float64.
    importance : ndarray (n_heads,)
        Standard deviation of each head's contribution within a cross-section, in units of training.
    share : ndarray (n_heads,)
        Share of each head in the network: its part of the summed importances.
    """

    spec: PeerSpec
    state: dict[str, np.ndarray]
    importance: np.ndarray
    share: np.ndarray

    @classmethod
    def from_module(cls, module: PeerModule, importance: np.ndarray) -> Self:
        """Return the arrays of a trained module."""
        state = {name: value.detach().double().cpu().numpy() for name, value in module.state_dict().items()}
        return cls(module.spec, state, importance, shares(importance))

    @property
    def slopes(self) -> np.ndarray:
        """By how much each head's weighted mean of outcomes counts; of characteristics its share in the network."""
        if self.spec.values == "outcomes":
            return self.state["value"][:, 0]
        return self.share

    def module(self) -> PeerModule:
        """Rebuild the module, in float64."""
        with torch.device("cpu"):  # fitted heads predict there, wherever they were trained
            module = PeerModule(self.spec)
            module.load_state_dict({name: torch.tensor(value) for name, value in self.state.items()})
        return module.requires_grad_(False)

    def take(self, heads: Sequence[int]) -> "Member":
        """Return the member with only these heads."""
        return Member.from_module(self.module().take(list(heads)), self.importance[list(heads)])


@dataclass(frozen=True)
class Heads:
    """A candidate: heads from one or more starts; ``mix`` is the share of each start (member) in the prediction.

    Heads that were trained beside a ``nuisance`` function of own characteristics predict with it. Where heads are used in full,
    ``size`` is the weight of what they add to the own part, and that of what they add to a period's mean is ``size`` times
    ``mean_factor``.
    """

    members: tuple[Member, ...]
    terms: PairTerms
    mix: tuple[float, ...]
    size: float = 1.0
    mean_factor: float = 1.0
    nuisance: Nuisance | None = None

    @property
    def reads_past(self) -> bool:
        """Whether past outcomes are used."""
        return self.terms.reads_past

    def modules(self) -> list[PeerModule]:
        """Return the modules of all starts, in float64."""
        return [member.module() for member in self.members]

    def predict(self, sections: Sequence[CrossSection], dtype: torch.dtype = torch.float64) -> list[np.ndarray]:
        """Return the linear own part plus the heads for every focal row, (n_focal, K) a cross-section, in training units."""
        modules = [module.to(dtype) for module in self.modules()]
        found = [section.own_term + self._added(section, modules, dtype) for section in sections]
        if self.nuisance is None:
            return found
        return [heads + each for heads, each in zip(found, self.nuisance.predict(sections), strict=True)]

    def _added(self, section: CrossSection, modules: Sequence[PeerModule], dtype: torch.dtype) -> np.ndarray:
        sample = Sample([section], self.terms, dtype)
        blocks = [np.zeros((0, self.members[0].spec.n_outputs if self.members else 1))]
        for rows in section.chunks():
            batch = sample.rows(rows)
            blocks.append(np.tensordot(self.mix, [module(batch)[0][0, 0].numpy() for module in modules], axes=1))
        return np.concatenate(blocks)

    def derivative(self, section: CrossSection) -> OfRows:
        """Return what gives the derivative of predictions by the peers' outcomes: heads added up by their slopes."""
        sloped = tuple(replace(member, share=member.slopes) for member in self.members)
        return replace(self, members=sloped).weights(section)

    def network(self, section: CrossSection, layer: int | None = None) -> OfRows:
        """Return what gives weights whose rows sum to one: what a firm gives to the null peer is divided among the others."""
        weights = self.weights(section, layer)

        def of_rows(rows: slice) -> np.ndarray:
            W = weights(rows)
            total = W.sum(axis=1, keepdims=True)
            return np.divide(W, total, out=np.zeros_like(W), where=total > 1e-300)

        return of_rows

    def weights(self, section: CrossSection, layer: int | None = None) -> OfRows:
        """Return what gives weights averaged over heads by their shares; of an earlier layer, if one is named.

        Nobody has a peer in a layer that no start has.
        """
        # made once: a large cross-section is asked for some rows at a time
        sample = Sample([section], self.terms)
        starts = [each for each in zip(self.members, self.modules(), self.mix, strict=True) if each[0].spec.n_heads]
        starts = [each for each in starts if layer is None or layer < each[0].spec.n_layers - 1]

        def of_rows(rows: slice) -> np.ndarray:
            batch = sample.rows(rows)
            W = np.zeros((batch.focal.x.shape[1], len(section.peers)))
            for member, module, share in starts:
                W += share * np.tensordot(member.share, module.weights(batch, layer)[0].numpy(), axes=1)
            return W

        return of_rows

    @torch.no_grad()
    def vectors(self, section: CrossSection, which: str) -> np.ndarray:
        """Return queries of the focal rows, or keys or values of the peers, of the last layer: (n_rows, heads, width)."""
        batch = Sample([section], self.terms).batch([0])
        found = []
        for module in self.modules():
            of_focal, of_peers = module.features(batch)
            if which == "queries":
                each = module.queries(of_focal)
            elif which == "keys":
                each = module.keys(of_peers)
            else:
                each = module.head_values(of_peers, batch.peers)
            found.append(each[0].transpose(0, 1).numpy())
        return np.concatenate(found, axis=1)


@dataclass(frozen=True)
class OwnSlopes:
    """The linear own part, and slopes on own characteristics and codes: members that were trained without heads."""

    fitted: Heads

    @torch.no_grad()
    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return the prediction of every focal row of each cross-section, (n_focal, K), in training units."""
        modules = self.fitted.modules()
        found = []
        for section in sections:
            rows = RowTensors.of_focal([section], torch.float64)
            added = [module.own(rows)[0, 0].numpy() for module in modules]
            found.append(section.own_term + np.tensordot(self.fitted.mix, added, axes=1))
        return found


def shares(sizes: np.ndarray) -> np.ndarray:
    """Return sizes over their sum, (n,); equal shares where all are zero."""
    if not sizes.sum() > 0:
        sizes = np.ones(len(sizes))
    return sizes / sizes.sum()


@torch.no_grad()
def average_unseen_codes(module: PeerModule, sections: Sequence[CrossSection]) -> None:
    """Let codes that no training row has (the unknown code, as a rule) stand where the average training row does."""
    for c, table in enumerate(module.embeddings):
        codes = np.concatenate([section.focal.levels[:, c] for section in sections])
        times = np.bincount(codes, minlength=len(table))
        count = torch.as_tensor(times, dtype=table.dtype, device=table.device)
        table[count == 0] = (count @ table) / count.sum()


@torch.no_grad()
def contribution_spreads(
    modules: Sequence[PeerModule], sections: Sequence[CrossSection], terms: PairTerms, dtype: torch.dtype
) -> list[np.ndarray]:
    """Return the standard deviation of each head's contribution within some cross-sections, (H,) for each module."""
    modules = [copy.deepcopy(module).to(dtype) for module in modules]
    at = np.unique(np.linspace(0, len(sections) - 1, SPREAD_SECTIONS).astype(int))
    variances = []
    for section in (sections[k] for k in at):
        batch = Sample([section], terms, dtype).batch([0])
        share = (batch.weight / batch.weight.sum())[0, :, None]
        each = [module(batch)[1][0] for module in modules]  # (H, n, K)
        moved = [heads - (heads * share).sum(-2, keepdim=True) for heads in each]
        variances.append([(d.square() * share).sum((-2, -1)).double().cpu().numpy() for d in moved])
    return [np.sqrt(np.mean(of, axis=0)) for of in zip(*variances, strict=True)]


def heads_table(members: Sequence[Member], scales: Sequence[float]) -> pd.DataFrame:
    """Return every head of every start: importance (in units of the outcome) and share in its start's network.

    ``scales`` are the weight of each start in the prediction, in these units.
    """
    rows = [
        (k, head, member.importance[head] * scales[k], member.share[head])
        for k, member in enumerate(members)
        for head in range(member.spec.n_heads)
    ]
    return pd.DataFrame(rows, columns=["seed", "head", "importance", "share"])


def prior_strengths(members: Sequence[Member], priors: Sequence[Prior]) -> pd.DataFrame:
    """Return λ of every head and soft prior; heads of equal weights have none."""
    rows = [
        (k, head, prior.name, member.state["prior_strength"][head, c])
        for k, member in enumerate(members)
        for head in range(member.spec.n_heads)
        for c, prior in enumerate(priors[: member.spec.n_priors])
    ]
    return pd.DataFrame(rows, columns=["seed", "head", "prior", "strength"])


def strongest_peers(section: CrossSection, heads: Heads, top_k: int) -> sparse.csr_array | None:
    """Return the ``top_k`` largest weights of each focal row, (n_focal, n_peers), computed in float32.

    None where scores are not inner products alone (priors, peer weights, or peers that may not answer), and of several heads
    with a null peer.
    """
    used = [(m, share) for m, share in zip(heads.members, heads.mix, strict=True) if m.spec.n_heads]
    plain = section.attendable is None and not section.own_copies and section.peers.weight is None
    if not (used and plain) or heads.terms.priors or any(m.spec.similarity == "additive" for m, _ in used):
        return None
    if sum(m.spec.n_heads for m, _ in used) > 1 and any(m.spec.null_peer for m, _ in used):
        return None  # heads leave different shares to the null peer: their weights are divided after they are added up
    batch = Sample([section], heads.terms).batch([0])
    modules = [member.module() for member, _ in used]
    scores = [module.scores(*module.features(batch), batch.pairs, null_peer=False) for module in modules]
    share = torch.as_tensor(np.concatenate([mix * m.share for m, mix in used]))
    counts = share.nonzero()[:, 0]
    query, key = (torch.cat([one[side][0] for one in scores])[counts].float() for side in ("query", "key"))
    own = tuple(torch.as_tensor(rows.identity) for rows in (section.focal, section.peers))
    weights, found = nn.top_k_weights(
        query, key, top_k, exclude=(own[0], own[1]), head_share=share[counts], scale=float(scores[0]["scale"])
    )
    row = np.repeat(np.arange(len(weights)), weights.shape[1])
    column = found.numpy().ravel()
    value = weights.double().numpy().ravel()
    there = (column >= 0) & (value > 0)
    shape = (len(section.focal), len(section.peers))
    return sparse.csr_array((value[there], (row[there], column[there])), shape=shape)
