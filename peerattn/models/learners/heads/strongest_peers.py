"""The strongest peers of very many firms, by a blocked kernel."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse

from peerattn import nn
from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.batches import Batch
from peerattn.models.learners.heads.heads import Heads


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
    batch = Batch.of(section, heads.terms)
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
