"""Softmax heads (or linear attention) as fitted arrays: what they add, their weights, and tables about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import torch

from peerattn.models.attention.batches import pair_tensors, peer_tensors, row_tensors
from peerattn.models.attention.heads import with_heads
from peerattn.models.attention.peer_module import PeerModule, PeerSpec
from peerattn.models.attention.priors import PairTerms, Prior
from peerattn.models.attention.row_tensors import admissible, barred
from peerattn.models.pools import Section, of_each


@dataclass(frozen=True)
class Member:
    """One fitted model: a specification and arrays, never a live module.

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
    def of(cls, module: PeerModule, importance: np.ndarray) -> Member:
        """Return the arrays of a trained module."""
        state = {name: value.detach().double().cpu().numpy() for name, value in module.state_dict().items()}
        total = importance.sum()
        share = importance / total if total > 0 else np.full(len(importance), 1 / max(1, len(importance)))
        return cls(module.spec, state, importance, share)

    @property
    def kept(self) -> tuple[int, ...]:
        """Numbers of the heads."""
        return tuple(range(self.spec.n_heads))

    def module(self) -> PeerModule:
        """Rebuild the module, in float64."""
        module = PeerModule(self.spec)
        module.load_state_dict({name: torch.tensor(value) for name, value in self.state.items()})
        return module.requires_grad_(False)

    def take(self, heads: Sequence[int]) -> Member:
        """Return the member with only these heads."""
        module = self.module()
        pruned = with_heads(module, torch.tensor(list(heads), dtype=torch.int64))
        member = Member.of(pruned, self.importance[list(heads)])
        lacking = PeerModule(member.spec).state_dict()  # without heads, there are no parameters of heads
        return replace(member, state={name: member.state[name] for name in lacking})

    def with_one_head(self, head: int) -> Member:
        """Return the member with all of the network's weight on one kept head."""
        return replace(self, share=np.eye(self.spec.n_heads)[head])


@dataclass(frozen=True)
class Heads:
    """Heads from one or more starts; ``mix`` is the share of each start (member)."""

    members: tuple[Member, ...]
    terms: PairTerms
    mix: tuple[float, ...] = ()

    def additions(self, sections: Sequence[Section]) -> list[np.ndarray]:
        """Return what the heads add to every focal row, (n_focal, K) a cross-section, in units of training."""
        return [np.tensordot(self.mix, each, axes=1) for each in self.by_start(sections)]

    def by_start(self, sections: Sequence[Section], dtype: torch.dtype = torch.float64) -> list[np.ndarray]:
        """Return what each start adds to every focal row, (n_starts, n_focal, K) a cross-section."""
        modules = [member.module().to(dtype) for member in self.members]
        return of_each(sections, lambda section: self._added(section, modules, dtype))

    def _added(self, section: Section, modules: Sequence[PeerModule], dtype: torch.dtype) -> np.ndarray:
        peers = peer_tensors(section, dtype)
        blocks = [np.zeros((len(modules), 0, self.members[0].spec.n_outputs))]
        for rows in section.chunks():
            focal = row_tensors(replace(section.focal.take(rows), y=None), dtype)
            pairs = pair_tensors([section], [rows], self.terms, dtype)
            bars = barred(admissible(focal, peers), dtype)
            blocks.append(np.stack([module(focal, peers, pairs, bars)[0][0].numpy() for module in modules]))
        return np.concatenate(blocks, axis=1)

    def derivative(self, section: Section) -> Callable[[slice], np.ndarray]:
        """Return what gives the derivative of additions by the peers' outcomes: heads added up by their slopes."""
        slopes = [replace(m, share=m.state["slope"]) if "slope" in m.state else m for m in self.members]
        return partial(Heads(tuple(slopes), self.terms, self.mix).weights, section)

    def network(self, section: Section, rows: slice, layer: int | None = None) -> np.ndarray:
        """Return weights whose rows sum to one: what a firm gives to the null peer is divided among the others."""
        W = self.weights(section, rows, layer)
        total = W.sum(axis=1, keepdims=True)
        return np.divide(W, total, out=np.zeros_like(W), where=total > 1e-300)

    def weights(self, section: Section, rows: slice, layer: int | None = None) -> np.ndarray:
        """Return weights averaged over heads by their shares, (n_rows, n_peers); of an earlier layer, if one is named.

        Nobody has a peer in a layer that no start has.
        """
        focal = row_tensors(replace(section.focal.take(rows), y=None), torch.float64)
        peers = peer_tensors(section, torch.float64)
        pairs = pair_tensors([section], [rows], self.terms, torch.float64)
        W = np.zeros((rows.stop - rows.start, len(section.peers)))
        for member, share in zip(self.members, self.mix, strict=True):
            if not len(member.kept) or (layer is not None and layer >= member.spec.n_layers - 1):
                continue  # heads of one layer have no layer before it
            weights = member.module().weights(focal, peers, pairs, *([] if layer is None else [layer]))
            W += share * np.tensordot(member.share, weights[0].numpy(), axes=1)
        return W


def heads_table(members: Sequence[Member], scale: float) -> pd.DataFrame:
    """Return every head of every start: importance (in units of the outcome) and share in its start's network."""
    rows = [
        {
            "start": k,
            "head": head,
            "importance": member.importance[head] * scale,
            "share": member.share[head],
        }
        for k, member in enumerate(members)
        for head in member.kept
    ]
    return pd.DataFrame(rows, columns=["start", "head", "importance", "share"])


def prior_strengths(members: Sequence[Member], priors: Sequence[Prior]) -> pd.DataFrame:
    """Return λ of every kept head and soft prior."""
    rows = [
        {"start": k, "head": head, "prior": prior.name, "strength": member.state["prior_strength"][at, c]}
        for k, member in enumerate(members)
        for at, head in enumerate(member.kept)
        for c, prior in enumerate(priors)
    ]
    return pd.DataFrame(rows, columns=["start", "head", "prior", "strength"])
