"""The directed peer network and what can be said of it."""

from peerattn.network.figures.heat_map import heat_map
from peerattn.network.measures.asymmetry import Asymmetry, asymmetry
from peerattn.network.measures.concentration import concentration, effective_peers, gini, in_strength
from peerattn.network.peer_network import PeerNetwork

__all__ = [
    "Asymmetry",
    "PeerNetwork",
    "asymmetry",
    "concentration",
    "effective_peers",
    "gini",
    "heat_map",
    "in_strength",
]
