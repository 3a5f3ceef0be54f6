"""Checks of the attention estimators' options: each alone, then the pairs that exclude each other."""

from __future__ import annotations

import math
from collections.abc import Hashable
from numbers import Integral, Real
from typing import Any

import torch
from sklearn.base import is_classifier

from peerattn.exceptions import InputError, did_you_mean
from peerattn.models.attention.own_model import NAMES
from peerattn.panel.effects import effect_parts

CHOICES: dict[str, tuple[Any, ...]] = {
    "attention": ("self", "cross"),
    "values": ("characteristics", "outcomes"),
    "similarity": (
        "auto",
        "scaled_dot_product",
        "dot_product",
        "additive",
        "gaussian",
        "linear",
        "covariance",
    ),
    "scale": ("standard", "rank", None),
    "dtype": ("auto", "float32", "float64"),
}
WHOLE_NUMBERS = ("n_layers", "d_head", "max_steps", "queries_per_step", "n_ensemble")


MOST = 1_000_000  # steps, starts, members


def check_options(estimator: Any, *, sample_weight: Any = None, peer_weight: Any = None) -> None:
    """Raise for an option that is out of range, or a pair that does not go together (naming both)."""
    for name, allowed in CHOICES.items():
        value = getattr(estimator, name)
        if not isinstance(value, Hashable) or value not in allowed:
            raise InputError(
                f"{name} must be one of {list(allowed)}, got {value!r}.{did_you_mean(value, map(str, allowed))}"
            )
    for name in WHOLE_NUMBERS:
        value = getattr(estimator, name)
        if not _whole(value) or not 1 <= value <= MOST:
            raise InputError(f"{name} must be a whole number from 1 to {MOST:,}, got {value!r}.")
    if isinstance(estimator.codes, str):
        raise InputError(
            f"codes must be a sequence of column names, got {estimator.codes!r}: write [{estimator.codes!r}]."
        )
    _check_effects_named(estimator.effects)
    estimator._check_kinds()
    if not _whole(estimator.n_heads) or estimator.n_heads < 0:
        raise InputError(
            f"n_heads must be a whole number of at least 0 (0 = no peers), got {estimator.n_heads!r}."
        )
    _check_own(estimator)
    if not (_number(estimator.learning_rate) and 0 < estimator.learning_rate < math.inf):
        raise InputError(f"learning_rate must be positive, got {estimator.learning_rate!r}.")
    loss = estimator.loss
    losses = (
        ("auto", "cross_entropy")
        if is_classifier(estimator)
        else ("auto", "squared_error", "huber", "pinball")
    )
    if loss not in losses:
        raise InputError(f"loss must be one of {list(losses)}, got {loss!r}.{did_you_mean(loss, losses)}")
    quantile = estimator.quantile
    if not (_number(quantile) and 0 < quantile < 1):
        raise InputError(f"quantile must be between 0 and 1, got {quantile!r}.")
    if quantile != 0.5 and loss != "pinball":
        raise InputError(f'quantile={quantile!r} and loss={loss!r} do not go together: use loss="pinball".')
    _check_device(estimator.device)
    if not _whole(estimator.purge) or estimator.purge < 0:
        raise InputError(f"purge must be a whole number of at least 0, got {estimator.purge!r}.")
    if estimator.values == "outcomes" and not estimator.exclude_self:
        raise InputError(
            'exclude_self=False and values="outcomes" do not go together: a firm would be predicted from its own outcome. '
            "Use exclude_self=True."
        )
    if estimator.similarity in ("linear", "covariance"):
        _check_linear(estimator, sample_weight=sample_weight, peer_weight=peer_weight)


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_device(device: Any) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f'device={device!r} cannot be used ({reason}). Use device="cpu".') from error


def _check_own(estimator: Any) -> None:
    own = estimator.own
    if isinstance(own, str) and own in NAMES:
        return
    if isinstance(own, str) or not (hasattr(own, "fit") and hasattr(own, "predict")):
        raise InputError(
            f'own must be "additive", "linear", "none" or a scikit-learn estimator, got {own!r}.{did_you_mean(own, NAMES)}'
        )
    if is_classifier(estimator) and not hasattr(own, "predict_proba"):
        raise InputError(f"own: a classifier with predict_proba is needed for classes, got {own!r}.")


def _check_effects_named(effects: Any) -> None:
    if isinstance(effects, str):
        raise InputError(f"effects must be a sequence of names, got {effects!r}: write [{effects!r}].")


def check_effects(estimator: Any) -> None:
    """Raise for effects that are not known where a prediction is made, or that the own model cannot absorb."""
    effects = estimator.effects
    if not effects:
        return
    own, period = estimator.own, [name for name, parts in effect_parts(effects).items() if "period" in parts]
    if not isinstance(own, str) or own == "none":
        raise InputError(
            f'effects={effects!r} and own={own!r} do not go together: use own="linear" or "additive".'
        )
    if is_classifier(estimator) or estimator.loss not in ("auto", "squared_error"):
        raise InputError("effects are absorbed by least squares: leave them out, or use squared errors.")
    if period and not estimator.reads_outcomes:
        raise InputError(
            f"effects: {period[0]!r} is not known before the period is over, so that no forecast can have it. Leave it out, "
            'or show the outcomes of the period\'s other firms: values="outcomes", attention="self".'
        )
    if sum(len(effect_parts(effects)[name]) > 1 for name in period) > 1:
        raise InputError(
            f"effects: {period!r} overlap within a period, where only the finest group of a firm is read. Name one beside "
            "'period'."
        )


def _check_linear(estimator: Any, **weights: Any) -> None:
    """Linear attention and a learned covariance read the peers' outcomes, with one layer and no scores of pairs."""
    similarity = estimator.similarity
    for name, given in weights.items():
        if given is not None:
            raise InputError(
                f'similarity="{similarity}" weighs peers by itself and takes no {name}=: use loss_weight=.'
            )
    needed = {"values": "outcomes", "n_layers": 1, "prior": None, "symmetric_scores": False}
    if similarity == "linear":
        needed |= {"attention": "self", "own_group": None}
    if estimator.loss not in ("auto", "squared_error") or is_classifier(estimator):
        loss = "cross_entropy" if is_classifier(estimator) else estimator.loss
        raise InputError(
            f'similarity="{similarity}" and loss="{loss}" do not go together: it minimises squared errors.'
        )
    for name, value in needed.items():
        given = getattr(estimator, name)
        if given is not value and given != value:
            raise InputError(
                f'similarity="{similarity}" and {name}={given!r} do not go together: use {name}={value!r}.'
            )
