"""How alike the networks of other seeds are, and of fits to other periods: reported beside the network, no condition of it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.heads.heads import Heads, shares
from peerattn.models.learners.heads.learner import FIRMS
from peerattn.models.learners.protocol import PeerPart
from peerattn.models.networks import network_of_sections
from peerattn.models.stacking.fit import Stack
from peerattn.network import PeerNetwork, common_peers, network_correlation

SECTIONS = 3  # last training periods, of which networks are compared


def stability(stack: Stack, prepared: Sequence[CrossSection]) -> pd.DataFrame:
    """Compare the final network of each part that was selected with those of its origins, on the last training periods.

    Of heads, the networks of two halves of the seeds that are averaged are compared with each other, too.

    Returns
    -------
    DataFrame
        Columns part, comparison ("folds" or "seeds"), correlation of the weights, and share of common top-5 peers.
    """
    first = slice(0, FIRMS)
    few = [replace(s.take(first, first), past=stack.view.history) for s in prepared]
    rows = []
    for name, part in stack.peers().items():
        own = _network(part, few)
        for each in stack.held_out:
            earlier = each.parts.get(name)
            if isinstance(earlier, PeerPart):
                rows.append((name, "folds", *_similarity(own, _network(earlier, few))))
        if isinstance(part, Heads) and len(part.members) > 1:
            halves = [Heads(part.members[k::2], part.terms, tuple(shares(np.array(part.mix[k::2])))) for k in (0, 1)]
            rows.append((name, "seeds", *_similarity(*(_network(half, few) for half in halves))))
    return pd.DataFrame(rows, columns=["part", "comparison", "correlation", "common_top5"])


def _similarity(one: PeerNetwork, other: PeerNetwork) -> tuple[float, float]:
    """Return the correlation of the weights of two networks, 0 for a flat one, and their share of common top-5 peers."""
    return float(np.nan_to_num(network_correlation(one, other))), common_peers(one, other)


def _network(part: PeerPart, sections: Sequence[CrossSection]) -> PeerNetwork:
    return network_of_sections(sections, part.derivative, name="", signed=True, row_normalized=False)
