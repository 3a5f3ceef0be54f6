"""peerattn: cross-sectional attention for panels of firms.

Whom does each firm learn from, and does it help to predict? Public names and subpackages are loaded when first used, so
that ``import peerattn`` costs next to nothing.

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
    from peerattn.datasets import SimulatedPanel, load_grunfeld, load_multiples, load_russell, simulate_panel
    from peerattn.evaluation import (
        Comparison,
        NewFirms,
        PurgedKFold,
        WalkForward,
        audit,
        describe_panel,
        explain_score,
        head_importance,
        prune,
        pruning_curve,
    )  # fmt: skip
    from peerattn.evaluation.compare import compare
    from peerattn.evaluation.ladder import ladder
    from peerattn.exceptions import InputError, PeerAttnWarning
    from peerattn.loading import load
    from peerattn.models import (
        CrossSectionalRidge,
        IndustryPeerRegressor,
        LinearInMeansRegressor,
        NadarayaWatsonRegressor,
        PeerAttentionClassifier,
        PeerAttentionRegressor,
        PrecomputedPeerRegressor,
        Prior,
        Reference,
        make_model,
    )
    from peerattn.network import PeerNetwork
    from peerattn.panel import (
        Panel,
        PanelEncoder,
        StoredPanel,
        as_panel,
        read_panel,
        scan_panel,
        sic_to_fama_french,
    )
    from peerattn.processes import data_parallel
    from peerattn.render import regression_table
    from peerattn.sequence import (
        AttentionAnomalyDetector,
        AttentionForecaster,
        BytePairTokenizer,
        GraphAttentionClassifier,
        LanguageModel,
        MaskedLanguageModel,
        TextClassifier,
        Translator,
        VisionTransformerClassifier,
    )

__version__ = "0.1.0"

_HOMES = {
    "AttentionAnomalyDetector": "peerattn.sequence",
    "AttentionForecaster": "peerattn.sequence",
    "BytePairTokenizer": "peerattn.sequence",
    "Comparison": "peerattn.evaluation",
    "CrossSectionalRidge": "peerattn.models",
    "GraphAttentionClassifier": "peerattn.sequence",
    "IndustryPeerRegressor": "peerattn.models",
    "InputError": "peerattn.exceptions",
    "LanguageModel": "peerattn.sequence",
    "LinearInMeansRegressor": "peerattn.models",
    "MaskedLanguageModel": "peerattn.sequence",
    "NadarayaWatsonRegressor": "peerattn.models",
    "NewFirms": "peerattn.evaluation",
    "Panel": "peerattn.panel",
    "PanelEncoder": "peerattn.panel",
    "PeerAttentionClassifier": "peerattn.models",
    "PeerAttentionRegressor": "peerattn.models",
    "PeerAttnWarning": "peerattn.exceptions",
    "PeerNetwork": "peerattn.network",
    "PrecomputedPeerRegressor": "peerattn.models",
    "Prior": "peerattn.models",
    "PurgedKFold": "peerattn.evaluation",
    "Reference": "peerattn.models",
    "SimulatedPanel": "peerattn.datasets",
    "StoredPanel": "peerattn.panel",
    "VisionTransformerClassifier": "peerattn.sequence",
    "TextClassifier": "peerattn.sequence",
    "Translator": "peerattn.sequence",
    "WalkForward": "peerattn.evaluation",
    "as_panel": "peerattn.panel",
    "audit": "peerattn.evaluation",
    "compare": "peerattn.evaluation",
    "data_parallel": "peerattn.processes",
    "describe_panel": "peerattn.evaluation",
    "explain_score": "peerattn.evaluation",
    "head_importance": "peerattn.evaluation",
    "ladder": "peerattn.evaluation",
    "load": "peerattn.loading",
    "load_grunfeld": "peerattn.datasets",
    "load_multiples": "peerattn.datasets",
    "load_russell": "peerattn.datasets",
    "make_model": "peerattn.models",
    "prune": "peerattn.evaluation",
    "pruning_curve": "peerattn.evaluation",
    "read_panel": "peerattn.panel",
    "regression_table": "peerattn.render",
    "scan_panel": "peerattn.panel",
    "sic_to_fama_french": "peerattn.panel",
    "simulate_panel": "peerattn.datasets",
}
_SUBPACKAGES = (
    "datasets",
    "evaluation",
    "exceptions",
    "models",
    "network",
    "nn",
    "panel",
    "render",
    "sequence",
    "training",
)

__all__ = [  # noqa: F822 - loaded by __getattr__
    "AttentionAnomalyDetector",
    "AttentionForecaster",
    "BytePairTokenizer",
    "Comparison",
    "CrossSectionalRidge",
    "GraphAttentionClassifier",
    "IndustryPeerRegressor",
    "InputError",
    "LanguageModel",
    "LinearInMeansRegressor",
    "MaskedLanguageModel",
    "NadarayaWatsonRegressor",
    "NewFirms",
    "Panel",
    "PanelEncoder",
    "PeerAttentionClassifier",
    "PeerAttentionRegressor",
    "PeerAttnWarning",
    "PeerNetwork",
    "PrecomputedPeerRegressor",
    "Prior",
    "PurgedKFold",
    "Reference",
    "SimulatedPanel",
    "StoredPanel",
    "VisionTransformerClassifier",
    "TextClassifier",
    "Translator",
    "WalkForward",
    "__version__",
    "as_panel",
    "audit",
    "compare",
    "data_parallel",
    "describe_panel",
    "explain_score",
    "head_importance",
    "ladder",
    "load",
    "load_grunfeld",
    "load_multiples",
    "load_russell",
    "make_model",
    "prune",
    "pruning_curve",
    "read_panel",
    "regression_table",
    "scan_panel",
    "sic_to_fama_french",
    "simulate_panel",
]


def __getattr__(name: str) -> Any:
    """Load a public name or a subpackage on first use (PEP 562)."""
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _SUBPACKAGES:
        value = importlib.import_module(f"peerattn.{name}")
    else:
        raise AttributeError(f"module 'peerattn' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBPACKAGES})
