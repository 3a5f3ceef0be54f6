"""Frames in, checked cross-sections out.

Names are loaded when first used, so that a part which needs labels alone (the network) does not load scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peerattn.panel.codes import canonical_codes, code_scheme
    from peerattn.panel.design import Design
    from peerattn.panel.encoding import PanelEncoder
    from peerattn.panel.fama_french import sic_to_fama_french
    from peerattn.panel.formula import from_formula
    from peerattn.panel.gate import check_panel
    from peerattn.panel.labels import find_firm, find_period
    from peerattn.panel.panel import Panel
    from peerattn.panel.reading import as_panel, read_panel
    from peerattn.panel.stored import StoredPanel, scan_panel

_HOMES = {
    "Design": "design",
    "Panel": "panel",
    "PanelEncoder": "encoding",
    "StoredPanel": "stored",
    "as_panel": "reading",
    "canonical_codes": "codes",
    "check_panel": "gate",
    "code_scheme": "codes",
    "find_firm": "labels",
    "find_period": "labels",
    "from_formula": "formula",
    "read_panel": "reading",
    "scan_panel": "stored",
    "sic_to_fama_french": "fama_french",
}

__all__ = [*_HOMES]  # noqa: PLE0604 - loaded by __getattr__


def __getattr__(name: str) -> Any:
    """Load a name on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
