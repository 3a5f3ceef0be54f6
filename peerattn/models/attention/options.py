"""Checks of the attention estimators' options: each alone, then the pairs that exclude each other."""

from __future__ import annotations

import math
from collections.abc import Hashable
from numbers import Integral, Real
from typing import Any

import torch
from sklearn.base import is_classifier

from peerattn.exceptions import InputError, did_you_mean

NAMES = ("flexible", "linear", "none")  # own models that have a name
CHOICES: dict[str, tuple[Any, ...]] = {
    "attention": ("self", "cross"),
    "task": ("forecast", "explain"),
    "similarity": ("scaled_dot_product", "symmetric", "dot_product", "additive", "gaussian"),
    "scale": ("standard", "rank", None),
}
WHOLE_NUMBERS = {"n_layers": (1, ""), "d_head": (1, ""), "n_heads": (0, " (0 = no peers)"), "purge": (0, "")}
MOST = 10**6


def check_options(estimator: Any) -> None:
    """Raise for an option that is out of range, or a pair that does not go together (naming both)."""
    for name, allowed in CHOICES.items():
        value = getattr(estimator, name)
        if not isinstance(value, Hashable) or value not in allowed:
            near = did_you_mean(value, map(str, allowed))
            raise InputError(f"{name} must be one of {list(allowed)}, got {value!r}.{near}")
    if isinstance(estimator.codes, str):
        raise InputError(
            f"codes must be a sequence of column names, got {estimator.codes!r}: write [{estimator.codes!r}]."
        )
    estimator._check_kinds()
    for name, (least, more) in WHOLE_NUMBERS.items():
        value = getattr(estimator, name)
        if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= MOST:
            raise InputError(f"{name} must be a whole number from {least} to {MOST:,}{more}, got {value!r}.")
    _check_own(estimator)
    if estimator.kappa is not None and not (_number(estimator.kappa) and 0 <= estimator.kappa < math.inf):
        raise InputError(
            f"kappa must be a number of standard errors of at least 0, or None (heads enter in full), got {estimator.kappa!r}."
        )
    loss, classes = estimator.loss, is_classifier(estimator)
    losses = ("auto", "cross_entropy") if classes else ("auto", "squared_error", "huber")
    if loss not in losses and (classes or not _number(loss) or not 0 < loss < 1):
        more = "" if classes else ", or a number between 0 and 1 (the quantile of a pinball loss)"
        raise InputError(
            f"loss must be one of {list(losses)}{more}, got {loss!r}.{did_you_mean(loss, losses)}"
        )


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_device(device: Any) -> None:
    """Raise for a device that torch cannot use."""
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
            f'own must be "flexible", "linear", "none" or a scikit-learn estimator, got {own!r}.{did_you_mean(own, NAMES)}'
        )
    if is_classifier(estimator) and not hasattr(own, "predict_proba"):
        raise InputError(f"own: a classifier with predict_proba is needed for classes, got {own!r}.")
