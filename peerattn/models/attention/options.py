"""Checks of the attention estimators' options: each alone, then the pairs that exclude each other."""

from __future__ import annotations

import math
from typing import Any

import torch
from sklearn.base import is_classifier

from peerattn.exceptions import InputError, check_at_least, check_one_of, did_you_mean, expect

CHOICES: dict[str, tuple[Any, ...]] = {
    "attention": ("self", "cross"),
    "task": ("forecast", "nowcast"),
    "similarity": ("scaled_dot_product", "symmetric", "dot_product", "additive", "gaussian"),
    "scale": ("standard", "rank", None),
}


def check_options(estimator: Any) -> None:
    """Raise for an option that is out of range, or a pair that does not go together (naming both); kinds are checked first."""
    check_one_of(**{name: (getattr(estimator, name), allowed) for name, allowed in CHOICES.items()})
    codes = estimator.codes
    wanted = "a sequence of column names"
    expect(not isinstance(codes, str), "codes", wanted, repr(codes), f"Write [{codes!r}].")
    check_at_least(1, n_layers=estimator.n_layers, d_head=estimator.d_head)
    check_at_least(0, n_heads=estimator.n_heads, purge=estimator.purge)
    estimator._check_kinds()
    check_own(estimator)
    kappa = estimator.kappa
    wanted = "standard errors, of at least 0, or None (heads enter in full)"
    expect(kappa is None or 0 <= kappa < math.inf, "kappa", wanted, repr(kappa))
    loss = estimator.loss
    classes = is_classifier(estimator)
    losses = ("auto", "cross_entropy") if classes else ("auto", "squared_error", "huber")
    if loss not in losses and (classes or isinstance(loss, str) or not 0 < loss < 1):
        more = "" if classes else ", or a number between 0 and 1 (the quantile of a pinball loss)"
        near = did_you_mean(loss, losses)
        raise InputError(f"loss must be one of {list(losses)}{more}, got {loss!r}.{near}")


def check_device(device: Any) -> None:
    """Raise for a device that torch cannot use."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f'device={device!r} cannot be used ({reason}). Use device="cpu".') from error


def check_own(estimator: Any) -> None:
    """Raise for an own model that has no such name and is no estimator."""
    own = estimator.own
    names = estimator._own_names
    if isinstance(own, str) and own in names:
        return
    if isinstance(own, str) or not (hasattr(own, "fit") and hasattr(own, "predict")):
        listed = ", ".join(f'"{name}"' for name in names)
        near = did_you_mean(own, names)
        raise InputError(f"own must be {listed} or a scikit-learn estimator, got {own!r}.{near}")
    plain = is_classifier(estimator) and not hasattr(own, "predict_proba")
    if plain:
        raise InputError(f"own: a classifier with predict_proba is needed for classes, got {own!r}.")
