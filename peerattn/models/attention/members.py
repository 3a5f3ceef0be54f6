"""Fitted models of an ensemble, as arrays, and what is told of their heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch

from peerattn.models.attention.estimation import Estimate
from peerattn.models.attention.heads import AnyModule, make_module
from peerattn.models.attention.peer_module import PeerSpec
from peerattn.models.attention.priors import Prior


@dataclass(frozen=True)
class Member:
    """One fitted model: a specification and arrays, never a live module.

    Attributes
    ----------
    spec : PeerSpec
    state : dict of ndarray
        Parameters, in float64.
    kept : tuple of int
        The heads that were kept.
    share : ndarray (n_kept,)
        Share of each kept head in the network: its part of the contributions' standard deviations.
    """

    spec: PeerSpec
    state: dict[str, np.ndarray]
    kept: tuple[int, ...]
    share: np.ndarray

    @classmethod
    def of(cls, result: Estimate) -> Member:
        """Return the arrays of a trained module."""
        parameters = result.module.state_dict().items()
        state = {name: value.detach().double().cpu().numpy() for name, value in parameters}
        total = result.kept_importance.sum()
        uniform = np.full(len(result.kept), 1 / max(1, len(result.kept)))
        share = result.kept_importance / total if total > 0 else uniform
        return cls(result.module.spec, state, result.kept, share)

    def module(self) -> AnyModule:
        """Rebuild the module, in float64."""
        module = make_module(self.spec)
        module.load_state_dict({name: torch.tensor(value) for name, value in self.state.items()})
        return module.requires_grad_(False)

    def with_one_head(self, head: int) -> Member:
        """Return the member with all of the network's weight on one kept head."""
        return replace(self, share=np.eye(len(self.kept))[self.kept.index(head)])


def heads_table(fitted: Sequence[Estimate], scale: float) -> pd.DataFrame:
    """Return every head of every member: importance (in units of the outcome) and whether it was kept."""
    frames = []
    for k, result in enumerate(fitted):
        numbers = np.arange(len(result.importance))
        columns = {"member": k, "head": numbers, "importance": result.importance * scale}
        frames.append(pd.DataFrame({**columns, "kept": np.isin(numbers, result.kept)}))
    return pd.concat(frames, ignore_index=True)


def pruning_path(fitted: Sequence[Estimate]) -> pd.DataFrame:
    """Return start and number of heads against the loss that decided."""
    paths = [
        pd.DataFrame(result.path, columns=["start", "heads", "loss"]).assign(member=k)
        for k, result in enumerate(fitted)
    ]
    return pd.concat(paths, ignore_index=True)


def prior_strengths(members: Sequence[Member], priors: Sequence[Prior]) -> pd.DataFrame:
    """Return λ of every kept head and soft prior."""
    rows = [
        {"member": k, "head": head, "prior": prior.name, "strength": member.state["prior_strength"][at, c]}
        for k, member in enumerate(members)
        for at, head in enumerate(member.kept)
        for c, prior in enumerate(priors)
    ]
    return pd.DataFrame(rows, columns=["member", "head", "prior", "strength"])
