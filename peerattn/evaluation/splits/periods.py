"""How a fold learns from what is not known by its first tested period, in words."""

from typing import Any

from peerattn.panel.knowledge import Knowledge
from peerattn.render import show_label


def too_late(fold: Any, knowledge: Knowledge, ahead: int) -> str:
    """Describe how a fold learns from outcomes that are not known at the first period it tests; empty where it does not."""
    train, test = fold
    if not len(train):
        return ""
    periods = knowledge.periods
    last = knowledge.row[train].max()
    origin = knowledge.row[test].min()
    if last > origin - ahead:
        return f"learns from {show_label(periods[last])} to predict {show_label(periods[origin])} at horizon {ahead}"
    late = int((~knowledge.by(periods[origin])[train]).sum())
    wording = f"whose outcome is not yet known (known_at) in {show_label(periods[origin])}, which it predicts"
    return f"learns from {late:,} rows {wording}: outcomes that are known after the origin" if late else ""
