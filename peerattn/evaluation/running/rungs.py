"""The rungs of the ladder: which one a model stands on."""

from __future__ import annotations

from typing import Any

from peerattn.evaluation.running.contestants import OWN_CHARACTERISTICS, last_step
from peerattn.models import (
    CrossSectionalRidge,
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
)

OWN, INDUSTRY_MEAN, KERNEL_WEIGHTS, LINEAR_ATTENTION, SOFTMAX_ATTENTION, STACKED_ATTENTION = range(6)


def rung_of(name: str, model: Any, control: bool) -> int | None:
    """Return the rung of a model, from 0 (own characteristics) to 5 (stacked attention); None for what is no rung."""
    if name == OWN_CHARACTERISTICS:
        return OWN
    final = last_step(model)
    if control:
        return None
    if isinstance(final, PeerAttentionRegressor):
        return STACKED_ATTENTION if final.n_layers > 1 else SOFTMAX_ATTENTION
    kinds = {
        IndustryPeerRegressor: INDUSTRY_MEAN,
        NadarayaWatsonRegressor: KERNEL_WEIGHTS,
        CrossSectionalRidge: LINEAR_ATTENTION,
    }
    return next((rung for kind, rung in kinds.items() if isinstance(final, kind)), None)
