"""Which heads of a fitted attention model matter, and the model without those that do not."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from peerattn.exceptions import InputError
from peerattn.models.attention.base import AttentionModel
from peerattn.models.attention.batches import pair_tensors, peer_tensors, row_tensors
from peerattn.models.attention.losses import gradient
from peerattn.models.attention.members import heads_table, prior_strengths
from peerattn.models.attention.peers import HEADS
from peerattn.models.pools import Section


def panel_head_importance(
    model: AttentionModel, X: Any, y: Any, *, outcomes: Any = None, reference: Any = None
) -> pd.Series:
    """Return the importance of every head of a fitted attention model, by member and head.

    See :func:`peerattn.head_importance`; a batch is a cross-section.
    """
    _, sections = model._gate_call(X, outcomes, reference)
    truth = model._check(X, model._encode_outcomes(y), fitting=False).outcomes
    if truth is None:
        raise InputError("y: the importance of heads is measured on known outcomes, got none.")
    target = (truth - model.y_center_) / model.y_scale_
    found = []
    for section in sections:  # of the panel's rows, in its order
        known = np.isfinite(target[section.at])
        if known.any():
            predicted = model._outputs(section)[0][known]
            slope = gradient(model._loss(), predicted, target[section.at][known])  # (n, K)
            added = _contributions(model, model._as_seen(section))
            found.append([np.abs((one[:, known] * slope).sum((1, 2))) / known.sum() for one in added])
    if not found:
        raise InputError("y: the importance of heads is measured on known outcomes, got none.")
    rows = {
        (member, head): value
        for member, heads in enumerate(zip(*found, strict=True))
        for head, value in enumerate(np.mean(heads, axis=0))
    }
    index = pd.MultiIndex.from_tuples(rows, names=["start", "head"]) if rows else model.heads_.index
    return pd.Series(list(rows.values()), index=index, name="importance", dtype=float)


def _contributions(model: AttentionModel, seen: Section) -> list[np.ndarray]:
    """Return what each head of each member adds to the predictions of a cross-section, (H, n_focal, K)."""
    heads = model.stack_.heads()
    if heads is None:
        return []
    focal, peers = row_tensors(seen.focal, torch.float64), peer_tensors(seen, torch.float64)
    pairs = pair_tensors([seen], [slice(None)], model.pair_terms_, torch.float64)
    whole = model.stack_.weight(HEADS)
    each = zip(heads.mix, heads.members, strict=True)
    return [whole * mix * member.module()(focal, peers, pairs)[1][0].numpy() for mix, member in each]


def panel_with_heads(model: AttentionModel, keep: Mapping[int, Sequence[int]]) -> AttentionModel:
    """Return a copy of a fitted attention model with only these heads of its members; nothing is fitted again."""
    pruned, fitted = copy.copy(model), model.stack_.fitted.get(HEADS)
    if fitted is None:
        return pruned
    pruned.members_ = tuple(
        m.take(keep.get(number, range(len(m.kept)))) for number, m in enumerate(model.members_)
    )
    heads = replace(fitted, part=replace(fitted.part, members=pruned.members_))
    pruned.stack_ = replace(model.stack_, fitted=model.stack_.fitted | {HEADS: heads})
    pruned.heads_ = heads_table(pruned.members_, model.y_scale_)
    pruned.prior_strength_ = prior_strengths(pruned.members_, model.pair_terms_.soft)
    return pruned
