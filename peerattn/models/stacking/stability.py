"""How alike the networks of a candidate are that was fitted to other periods: reported beside the network, no condition of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from peerattn.models.cross_section import CrossSection
from peerattn.models.networks import peer_columns
from peerattn.models.stacking.fit import Stack
from peerattn.network import PeerNetwork, common_peers, network_correlation

SECTIONS = 3
FIRMS = 500  # last training periods, and firms of each, on which networks are compared


def stability(stack: Stack, prepared: Sequence[CrossSection]) -> pd.DataFrame:
    """Compare the final network of each part that was selected with those of its origins, on the last training periods.

    Returns
    -------
    DataFrame
        Columns part, comparison ("folds"), correlation of the weights, and share of common top-5 peers.
    """
    first = slice(0, FIRMS)
    few = [replace(s.take(first, first), past=stack.view.history) for s in prepared]
    rows = []
    for name, part in stack.peers().items():
        own = _network(part, few)
        for other in (_network(each.parts[name], few) for each in stack.held_out if name in each.parts):
            correlation = np.nan_to_num(network_correlation(own, other))
            rows.append((name, "folds", float(correlation), common_peers(own, other)))
    return pd.DataFrame(rows, columns=["part", "comparison", "correlation", "common_top5"])


def _network(part: Any, sections: Sequence[CrossSection]) -> PeerNetwork:
    matrices = {}
    for section in sections:
        labels, group = peer_columns(section)
        W = part.derivative(section)(slice(0, len(section.focal))) @ group
        matrices[section.period] = (section.focal.label, labels, W)
    return PeerNetwork.from_matrices(matrices, signed=True, row_normalized=False)
