"""From the options that were given to the panel and the split."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerattn.cli.options import COLUMNS, Dataset
from peerattn.cli.panels import take_panel, walk_forward

if TYPE_CHECKING:
    from peerattn.evaluation import WalkForward
    from peerattn.panel import Panel


def panel_asked(asked: dict[str, Any]) -> Panel:
    """Return the panel that the options name."""
    path = Path(asked["panel"]) if "panel" in asked else None
    dataset = Dataset(asked["dataset"]) if "dataset" in asked else None
    columns = {name: asked.get(name) for name in COLUMNS}
    return take_panel(path, dataset, asked.get("preset"), columns, asked.get("seed", 0))


def split_asked(panel: Panel, asked: dict[str, Any]) -> WalkForward:
    """Return the split that the options describe."""
    split = {key: asked.get(key) for key in ("test_periods", "refit_every", "train_periods")}
    window, horizon = asked.get("window", "expanding"), asked.get("horizon", 1)
    return walk_forward(panel, **split, window=window, horizon=horizon)
