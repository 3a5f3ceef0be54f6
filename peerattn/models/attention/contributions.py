"""What peers and heads contribute to the predictions of a fitted attention model, and the model without some of its heads."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from peerattn.exceptions import InputError, expect, validate_arguments
from peerattn.models.attention.base import PanelStack
from peerattn.models.attention.options import AttentionOptions
from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.batches import Sample
from peerattn.models.learners.covariance.covariance import Covariance
from peerattn.models.learners.heads.heads import Heads, Member
from peerattn.models.learners.losses import gradient
from peerattn.models.networks import RowWeights, network_of_sections
from peerattn.models.stacking.fit import Stack
from peerattn.network import PeerNetwork
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike


def contributions(
    model: BaseEstimator, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None
) -> PeerNetwork:
    r"""Return how much every peer contributes to every prediction, in units of the outcome.

    .. math:: C_{ij} = c \sum_h | \alpha^h_{ij} v^h_j |

    with the weights, the values and the weight c of the heads in the prediction (:class:`PeerAttentionRegressor`). A covariance
    contributes ``c |w_ij v_j|`` likewise, w its signed weights.

    Parameters
    ----------
    model : PeerAttentionRegressor or PeerAttentionClassifier
        Fitted.
    X, outcomes, reference
        As in ``predict``.

    Returns
    -------
    PeerNetwork
        Rows do not sum to one: their sums show how much a firm's prediction rests on its peers;
        :func:`peerattn.network.connectedness` gives to, from and net.

    Raises
    ------
    InputError
        When the model is of another kind.

    Notes
    -----
    Information counts with its level: softmax rows sum to one, so that a constant in all v adds the same to every firm. In a
    forecast c is the weight of differences within periods; what heads add to a period's mean has another. With
    outcomes as values it is what the peer's own model leaves of its outcome. A classifier's contributions are lengths over the
    classes.

    Examples
    --------
    >>> from peerattn import PeerAttentionRegressor, simulate_panel
    >>> panel = simulate_panel(12, 16, 2, random_state=0)
    >>> model = PeerAttentionRegressor(n_heads=2, random_state=0).fit(panel.X, panel.y)
    >>> contributions(model, panel.X).row_normalized
    False
    """
    wanted = "a fitted attention model of softmax weights or a covariance"
    expect(isinstance(model, AttentionOptions), "model", wanted, type(model).__name__)
    _, sections = model._gate_call(X, outcomes, reference)

    def of_section(section: CrossSection) -> RowWeights:
        contributed = model.stack_.summed(model._as_seen(section), _of_part)
        return lambda rows: contributed(rows) * model.y_scale_

    name = f"contributions in {type(model).__name__}"
    return network_of_sections(sections, of_section, name=name, signed=False, row_normalized=False)


def _of_part(part: Any, prepared: CrossSection) -> Callable[[slice], np.ndarray]:
    """Return what gives, for focal rows, what a part contributes, (n_rows, n_peers), in units of training."""
    if isinstance(part, Heads):
        return lambda rows: np.tensordot(part.mix, [_of_member(m, part, prepared, rows) for m in part.members], axes=1)
    if not isinstance(part, Covariance):
        raise InputError(f"model: contributions are of heads and covariances, and {type(part).__name__} was selected.")
    observed = part.observed(prepared).peers.outcomes
    weights = part.derivative(prepared)
    return lambda rows: np.abs(weights(rows) * np.nan_to_num(observed))


def _of_member(member: Member, part: Heads, prepared: CrossSection, rows: slice) -> np.ndarray:
    module = member.module()
    batch = Sample([prepared], part.terms).rows(rows)
    sizes = module.head_values(module.features(batch)[1], batch.peers)[0].norm(dim=-1)  # (H, n_peers)
    return np.asarray((module.weights(batch)[0] * sizes[:, None, :]).sum(0).numpy())


@validate_arguments
def panel_head_importance(
    model: PanelStack, X: PanelLike, y: OutcomesLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None
) -> pd.Series:
    """Return the importance of every head of a fitted attention model, by member and head.

    See :func:`~peerattn.evaluation.head_importance`; a batch is a cross-section.
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
    start = 0
    parts = {}
    for name, part in sorted(model.stack_.with_heads().fitted.items()):  # seeds are numbered in this order
        if isinstance(part, Heads):
            kept = [m.take(keep.get(start + k, range(m.spec.n_heads))) for k, m in enumerate(part.members)]
            parts[name] = replace(part, members=tuple(kept))
            start = start + len(kept)
    pruned = copy.copy(model)
    pruned.stack_ = _with_parts(model.stack_, parts)
    pruned._set_heads()
    return pruned


def _with_parts(stack: Stack, parts: Mapping[str, Heads]) -> Stack:
    """Return a stack with these parts in the place of those of the same names, for firms with a past and without."""
    fitted = {name: parts.get(name, part) for name, part in stack.fitted.items()}
    others = stack.without_history
    if others is not None:
        others = _with_parts(others, parts)
    return replace(stack, fitted=fitted, without_history=others)
