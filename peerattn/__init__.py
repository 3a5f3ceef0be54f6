"""peerattn: cross-sectional attention for panels of firms.

Which peers does each firm attend to, and do they improve prediction? Here is what a researcher with a panel needs
first; the rest is one level down: ``peerattn.models``, ``peerattn.evaluation``, ``peerattn.network``, ``peerattn.panel``,
``peerattn.datasets``, and ``peerattn.sequence`` for language, images, graphs and time series. Everything is loaded when
first used, so that ``import peerattn`` costs next to nothing.

Examples
--------
>>> import peerattn
>>> peerattn.load_grunfeld()
Panel(220 rows, 11 firms, 20 periods, outcome='invest_next')
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peerattn.datasets import load_grunfeld, load_multiples, load_russell, simulate_panel
    from peerattn.evaluation import NewFirms, WalkForward, audit, describe_panel, nowcast_score
    from peerattn.evaluation.compare import compare
    from peerattn.exceptions import InputError
    from peerattn.models import (
        CovariancePeerRegressor,
        CrossSectionalRidge,
        IndustryPeerRegressor,
        LinearInMeansRegressor,
        NadarayaWatsonRegressor,
        PeerAttentionClassifier,
        PeerAttentionRegressor,
        PeerTransformerRegressor,
        PrecomputedPeerRegressor,
        Reference,
        StackedPeerRegressor,
    )
    from peerattn.network import PeerNetwork
    from peerattn.panel import read_panel
    from peerattn.render import regression_table
    from peerattn.store.objects import load

__version__ = "0.1.0"


_NAMES = {
    "peerattn.datasets": "load_grunfeld load_multiples load_russell simulate_panel",
    "peerattn.evaluation": "NewFirms WalkForward audit compare describe_panel nowcast_score",
    "peerattn.exceptions": "InputError",
    "peerattn.models": (
        "CovariancePeerRegressor CrossSectionalRidge IndustryPeerRegressor LinearInMeansRegressor "
        "NadarayaWatsonRegressor PeerAttentionClassifier PeerAttentionRegressor PeerTransformerRegressor "
        "PrecomputedPeerRegressor Reference StackedPeerRegressor"
    ),
    "peerattn.network": "PeerNetwork",
    "peerattn.panel": "read_panel",
    "peerattn.render": "regression_table",
    "peerattn.store.objects": "load",
}  # fmt: skip
_HOMES = {name: home for home, listed in _NAMES.items() for name in listed.split()}
_SUBPACKAGES = ("datasets", "evaluation", "models", "network", "nn", "panel", "sequence")
_LOADED_ON_USE = (*_SUBPACKAGES, "exceptions", "render", "training")

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604 - loaded by __getattr__


def __getattr__(name: str) -> Any:
    """Load a public name or a subpackage on first use (PEP 562)."""
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
