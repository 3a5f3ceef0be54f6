"""How alike the networks of a candidate are that was fitted to other periods: reported beside the network, no condition of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from peerattn.models.attention.fitting import Stack
from peerattn.models.attention.origins import rows_of
from peerattn.models.pools import Section

SECTIONS, FIRMS = 3, 500  # last training periods, and firms of each, on which networks are compared
TOP = 5


def stability(stack: Stack, seen: Sequence[Section]) -> pd.DataFrame:
    """Compare the final network of each part that entered with those of its origins, on the last training periods.

    Returns
    -------
    DataFrame
        Columns part, comparison ("folds"), correlation of the weights, and share of common top-5 peers.
    """
    rows = []
    first = slice(0, FIRMS)
    few = [replace(rows_of(s, first, first), past=stack.view.history) for s in seen]
    for name, part in stack.peers().items():
        own = _weights(part, few)
        rows += [
            (name, "folds", *agreement(own, _weights(trial, few))) for trial in stack.trials.get(name, [])
        ]
    return pd.DataFrame(rows, columns=["part", "comparison", "correlation", "common_top5"])


def _weights(part: Any, sections: Sequence[Section]) -> list[np.ndarray]:
    return [part.derivative(section)(slice(0, len(section.focal))) for section in sections]


def agreement(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return the mean correlation of two networks' weights over periods, and the mean share of common top-5 peers."""
    pairs = list(zip(a, b, strict=True))
    return float(np.mean([_correlation(*pair) for pair in pairs])), float(
        np.mean([_common(*pair) for pair in pairs])
    )


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    admissible = (a != 0) | (b != 0)  # neither firms themselves nor pairs that a prior excludes
    x, y = a[admissible], b[admissible]
    vary = len(x) > 1 and all(np.ptp(w) > 1e-9 * np.abs(w).max() for w in (x, y))
    return float(np.corrcoef(x, y)[0, 1]) if vary else 0.0


def _common(a: np.ndarray, b: np.ndarray) -> float:
    k = min(TOP, a.shape[1])
    if not (k and len(a)):
        return 0.0
    tops = [np.argpartition(-w, k - 1, axis=1)[:, :k] for w in (a, b)]
    return float(np.mean([len(np.intersect1d(x, y)) / k for x, y in zip(*tops, strict=True)]))
