"""Which heads of a fitted attention model matter, and the model without those that do not."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.models.attention.base import PanelStack
from peerattn.models.learners.heads.heads import Heads
from peerattn.models.learners.losses import gradient
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike


def panel_head_importance(
    model: PanelStack, X: PanelLike, y: OutcomesLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None
) -> pd.Series:
    """Return the importance of every head of a fitted attention model, by member and head.

    See :func:`peerattn.head_importance`; a batch is a cross-section.
    """
    _, sections = model._gate_call(X, outcomes, reference)
    truth = model._check(X, model._encode_outcomes(y), fitting=False).outcomes
    unknown = "y: the importance of heads is measured on known outcomes, got none."
    if truth is None:
        raise InputError(unknown)
    target = (truth - model.y_center_) / model.y_scale_
    # to first order a head is worth the gradient of the loss times what it adds
    without = {
        (seed, head): panel_with_heads(model, {seed: [k for k in range(member.spec.n_heads) if k != head]})
        for seed, member in enumerate(model.members_)
        for head in range(member.spec.n_heads)
    }
    found = []
    for section in sections:  # of the panel's rows, in its order
        known = np.isfinite(target[section.at])
        if known.any():
            predicted = model._outputs(section)[0][known]
            slope = gradient(model._loss(), predicted, target[section.at][known])  # (n, K)
            added = (predicted - one._outputs(section)[0][known] for one in without.values())  # linear in each
            found.append([abs((each * slope).sum()) / known.sum() for each in added])
    if not found:
        raise InputError(unknown)
    rows = dict(zip(without, np.mean(found, axis=0), strict=True))
    index = model.heads_.index  # of no heads
    if rows:
        index = pd.MultiIndex.from_tuples(rows, names=["seed", "head"])
    return pd.Series(list(rows.values()), index=index, name="importance", dtype=float)


def panel_with_heads(model: PanelStack, keep: Mapping[int, Sequence[int]]) -> PanelStack:
    """Return a copy of a fitted attention model with only these heads of its members; nothing is fitted again."""
    pruned = copy.copy(model)
    start = 0
    fitted = dict(model.stack_.fitted)
    for name, part in sorted(fitted.items()):  # seeds are numbered in this order
        if isinstance(part, Heads):
            kept = [m.take(keep.get(start + k, range(m.spec.n_heads))) for k, m in enumerate(part.members)]
            fitted[name] = replace(part, members=tuple(kept))
            start = start + len(kept)
    pruned.stack_ = replace(model.stack_, fitted=fitted)
    pruned._set_heads()
    return pruned
