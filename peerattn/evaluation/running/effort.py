"""How long a fit takes, roughly, before it is made."""

from __future__ import annotations

import numpy as np

from peerattn.evaluation.running.entries import Entry
from peerattn.panel import Panel


def expected_seconds(entry: Entry, panel: Panel, train: np.ndarray) -> float:
    return 1.0
