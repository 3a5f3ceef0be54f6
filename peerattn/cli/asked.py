"""From the options that were given to the panel and the split."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerattn.cli.options import COLUMNS, Dataset
from peerattn.cli.panels import take_panel, walk_forward
from peerattn.exceptions import unknown_name

if TYPE_CHECKING:
    from peerattn.evaluation import NewFirms, WalkForward
    from peerattn.models.attention.reference import Reference
    from peerattn.panel import Panel


def panel_asked(asked: dict[str, Any]) -> Panel:
    """Return the panel that the options name."""
    path = Path(asked["panel"]) if "panel" in asked else None
    dataset = Dataset(asked["dataset"]) if "dataset" in asked else None
    columns = {name: asked.get(name) for name in COLUMNS}
    rows = asked.get("training_rows")
    return take_panel(path, dataset, asked.get("preset"), columns, asked.get("seed", 0), rows)


def reference_asked(asked: dict[str, Any], panel: Panel, task: str) -> Reference | None:
    """Return the firms that --reference names: the panel's columns, and its outcome where it is to be explained."""
    if "reference" not in asked:
        return None
    import pandas as pd

    from peerattn.models.attention.reference import Reference
    from peerattn.panel.frames import read_frame

    frame = read_frame(Path(asked["reference"])).rename(columns=str)
    labels = {asked.get(name, name): name for name in ("firm", "period")}
    frame = frame.reset_index() if frame.index.names != [None] else frame
    frame = frame.rename(columns=labels)
    wanted = [*panel.columns, *([panel.outcome] if task == "explain" else [])]
    for name in ["firm", *wanted]:
        if name not in frame:
            raise unknown_name("--reference", "column", name, frame.columns)
    if "period" in frame and isinstance(panel.period, pd.DatetimeIndex):  # of a CSV file they are text
        frame["period"] = pd.to_datetime(frame["period"])
    frame = frame.set_index([name for name in ("firm", "period") if name in frame])
    return Reference(frame[list(panel.columns)], frame[panel.outcome] if task == "explain" else None)


def split_asked(panel: Panel, asked: dict[str, Any]) -> WalkForward | NewFirms:
    """Return the split that the options describe."""
    split = {key: asked.get(key) for key in ("test_periods", "refit_every", "train_periods")}
    window, horizon = asked.get("window", "expanding"), asked.get("horizon", 1)
    walk = walk_forward(panel, **split, window=window, horizon=horizon)
    if asked.get("new_firms") is None:
        return walk
    from peerattn.evaluation import NewFirms

    return NewFirms(walk, n_splits=asked["new_firms"], random_state=asked.get("seed", 0))
