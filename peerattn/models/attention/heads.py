"""Heads of a peer module: made, taken, and measured."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from peerattn import nn
from peerattn.models.attention.batches import make_batch
from peerattn.models.attention.peer_module import PeerModule
from peerattn.models.attention.priors import PairTerms
from peerattn.models.pools import Section, of_each

SPREAD_SECTIONS = 24  # cross-sections over which contributions are measured


@dataclass(frozen=True)
class Settings:
    """How a peer module is learned."""

    terms: PairTerms
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    score_ridge: float = 10.0  # on each parameter of the scores: the inverse variance of its normal prior


@torch.no_grad()
def average_unseen_codes(module: PeerModule, sections: Sequence[Section]) -> None:
    """Let codes that no training row has (the unknown code, as a rule) stand where the average training row does."""
    for c, table in enumerate(module.code_tables):
        codes = np.concatenate([section.focal.codes[:, c] for section in sections])
        count = torch.as_tensor(np.bincount(codes, minlength=len(table)), dtype=table.dtype)
        table[count.to(table.device) == 0] = (count.to(table.device) @ table) / count.sum()


def with_heads(module: PeerModule, keep: Tensor) -> PeerModule:
    """Return a copy of the module with only these heads."""
    pruned = copy.deepcopy(module)
    pruned.spec = replace(module.spec, n_heads=len(keep))
    heads = module.per_head().items()
    pruned.replace({name: nn.take_heads(each, 0, module.spec.n_heads, keep) for name, each in heads})
    return pruned


@torch.no_grad()
def contribution_spreads(
    modules: Sequence[PeerModule], sections: Sequence[Section], settings: Settings
) -> list[np.ndarray]:
    """Return the standard deviation of each head's contribution within some cross-sections, (H,) for each module."""
    modules = [copy.deepcopy(module).to(settings.dtype) for module in modules]
    at = np.unique(np.linspace(0, len(sections) - 1, SPREAD_SECTIONS).astype(int))

    def variances(section: Section) -> list[np.ndarray]:
        batch = make_batch([section], settings.terms, settings.dtype, settings.device)
        share = (batch.weight / batch.weight.sum())[0, :, None]

        def variance(module: PeerModule) -> np.ndarray:
            heads = module(batch.focal, batch.peers, batch.pairs, batch.bars)[1][0]
            mean = (heads * share).sum(-2, keepdim=True)
            return np.asarray(((heads - mean) ** 2 * share).sum((-2, -1)).double().cpu().numpy())

        return [variance(module) for module in modules]

    found = of_each([sections[k] for k in at], variances)
    return [np.sqrt(np.mean(of, axis=0)) for of in zip(*found, strict=True)]
