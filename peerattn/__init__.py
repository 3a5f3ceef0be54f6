"""peerattn: cross-sectional attention for panels of firms.

Whom does each firm look to, and does it help to predict? Here is what a researcher with a panel needs first; the rest is one
level down: ``peerattn.models``, ``peerattn.evaluation``, ``peerattn.network``, ``peerattn.panel``, ``peerattn.datasets``, and
``peerattn.sequence`` for language, images, graphs and time series. Everything is loaded when first used, so that
``import peerattn`` costs next to nothing.

Examples
--------
>>> import peerattn
>>> peerattn.load_grunfeld()
Panel(220 rows, 11 firms, 20 periods, outcome='invest_next')
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peerattn.datasets import load_grunfeld, load_multiples, load_russell, simulate_panel
    from peerattn.evaluation import NewFirms, WalkForward, audit, describe_panel, explain_score
    from peerattn.evaluation.compare import compare
    from peerattn.evaluation.ladder import ladder
    from peerattn.exceptions import InputError
    from peerattn.models import (
        CovariancePeerRegressor,
        CrossSectionalRidge,
        IndustryPeerRegressor,
        LinearInMeansRegressor,
        NadarayaWatsonRegressor,
        PeerAttentionClassifier,
        PeerAttentionRegressor,
        PrecomputedPeerRegressor,
        Reference,
    )
    from peerattn.network import PeerNetwork
    from peerattn.panel import read_panel
    from peerattn.render import regression_table
    from peerattn.store.objects import load

__version__ = "0.1.0"

_HOMES = {
    "CovariancePeerRegressor": "peerattn.models",
    "CrossSectionalRidge": "peerattn.models",
    "IndustryPeerRegressor": "peerattn.models",
    "InputError": "peerattn.exceptions",
    "LinearInMeansRegressor": "peerattn.models",
    "NadarayaWatsonRegressor": "peerattn.models",
    "NewFirms": "peerattn.evaluation",
    "PeerAttentionClassifier": "peerattn.models",
    "PeerAttentionRegressor": "peerattn.models",
    "PeerNetwork": "peerattn.network",
    "PrecomputedPeerRegressor": "peerattn.models",
    "Reference": "peerattn.models",
    "WalkForward": "peerattn.evaluation",
    "audit": "peerattn.evaluation",
    "compare": "peerattn.evaluation",
    "describe_panel": "peerattn.evaluation",
    "explain_score": "peerattn.evaluation",
    "ladder": "peerattn.evaluation",
    "load": "peerattn.store.objects",
    "load_grunfeld": "peerattn.datasets",
    "load_multiples": "peerattn.datasets",
    "load_russell": "peerattn.datasets",
    "read_panel": "peerattn.panel",
    "regression_table": "peerattn.render",
    "simulate_panel": "peerattn.datasets",
}
#: Names that were here before 0.2 and live one level down now; see "Names that move" in CONTRIBUTING.
_MOVED = {
    "AttentionAnomalyDetector": "peerattn.sequence",
    "AttentionForecaster": "peerattn.sequence",
    "BytePairTokenizer": "peerattn.sequence",
    "Comparison": "peerattn.evaluation",
    "GraphAttentionClassifier": "peerattn.sequence",
    "LanguageModel": "peerattn.sequence",
    "MaskedLanguageModel": "peerattn.sequence",
    "Panel": "peerattn.panel",
    "PanelEncoder": "peerattn.panel",
    "PeerAttnWarning": "peerattn.exceptions",
    "Prior": "peerattn.models",
    "PurgedKFold": "peerattn.evaluation",
    "SimulatedPanel": "peerattn.datasets",
    "StoredPanel": "peerattn.panel",
    "TextClassifier": "peerattn.sequence",
    "Translator": "peerattn.sequence",
    "VisionTransformerClassifier": "peerattn.sequence",
    "as_panel": "peerattn.panel",
    "data_parallel": "peerattn.processes",
    "head_importance": "peerattn.evaluation",
    "make_model": "peerattn.models",
    "prune": "peerattn.evaluation",
    "pruning_curve": "peerattn.evaluation",
    "scan_panel": "peerattn.panel",
    "sic_to_fama_french": "peerattn.panel",
}
_SUBPACKAGES = ("datasets", "evaluation", "models", "network", "nn", "panel", "sequence")
_LOADED_ON_USE = (*_SUBPACKAGES, "exceptions", "render", "training")

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604 - loaded by __getattr__


def __getattr__(name: str) -> Any:
    """Load a public name or a subpackage on first use (PEP 562); say where a name lives that has moved."""
    if name in _MOVED:
        warnings.warn(
            f"peerattn.{name} has moved: write `from {_MOVED[name]} import {name}`. The old place goes in version 0.3.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(importlib.import_module(_MOVED[name]), name)
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _LOADED_ON_USE:
        value = importlib.import_module(f"peerattn.{name}")
    else:
        raise AttributeError(f"module 'peerattn' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBPACKAGES})
