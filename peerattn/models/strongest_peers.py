"""The strongest peers of very many firms: one head, by its blocked kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from scipy import sparse

from peerattn import nn
from peerattn.models.batches import peer_tensors, row_tensors
from peerattn.models.members import Member
from peerattn.models.peer_module import PairTensors, PeerModule
from peerattn.models.pools import Section
from peerattn.models.priors import PairTerms


def strongest_of_one_head(
    section: Section, members: Sequence[Member], terms: PairTerms, top_k: int
) -> sparse.csr_array | None:
    """Return the ``top_k`` largest weights of each focal row, (n_focal, n_peers), computed in float32.

    None where the network is not one head's inner products: several heads, priors, or peers that may not answer.
    """
    used = [member for member in members if len(member.kept)]
    heads = np.flatnonzero(used[0].share) if len(used) == 1 else np.empty(0)
    if len(heads) != 1 or terms.priors or section.answering is not None or section.own_copies:
        return None
    module = used[0].module()
    if not isinstance(module, PeerModule) or module.spec.similarity == "additive":
        return None
    if section.peers.weight is not None:
        return None
    focal = row_tensors([replace(section.focal, y=None)], torch.float64)
    peers = peer_tensors([section], torch.float64)
    scores = module._scores(*module.features(focal, peers), PairTensors())
    query, key = (scores[side][0, int(heads[0])].float() for side in ("query", "key"))
    own = tuple(torch.as_tensor(rows.identity) for rows in (section.focal, section.peers))
    weights, found = nn.top_k_weights(
        query, key, top_k, exclude=(own[0], own[1]), scale=float(scores["scale"])
    )
    row = np.repeat(np.arange(len(weights)), weights.shape[1])
    column, value = found.numpy().ravel(), weights.double().numpy().ravel()
    there = (column >= 0) & (value > 0)
    shape = (len(section.focal), len(section.peers))
    return sparse.csr_array((value[there], (row[there], column[there])), shape=shape)
