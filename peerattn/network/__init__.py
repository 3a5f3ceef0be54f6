"""The directed peer network and what can be said of it."""

from peerattn.network.figures.heat_map import heat_map
from peerattn.network.measures.asymmetry import Asymmetry, asymmetry
from peerattn.network.measures.comparison import agreement, overlap, turnover
from peerattn.network.measures.concentration import concentration, effective_peers, gini, in_strength
from peerattn.network.measures.structure import assortativity, communities, page_rank, reciprocity
from peerattn.network.paths import attention_flow, paths, rollout
from peerattn.network.peer_network import PeerNetwork

__all__ = [
    "Asymmetry",
    "PeerNetwork",
    "agreement",
    "assortativity",
    "asymmetry",
    "attention_flow",
    "communities",
    "concentration",
    "effective_peers",
    "gini",
    "heat_map",
    "in_strength",
    "overlap",
    "page_rank",
    "paths",
    "reciprocity",
    "rollout",
    "turnover",
]
