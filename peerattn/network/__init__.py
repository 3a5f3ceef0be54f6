"""The directed peer network: its measures, tests, figures and files."""

from peerattn.network.algebra import rollout
from peerattn.network.explorer import write_explorer
from peerattn.network.figures.matrices import flow_map, heat_map, search_map
from peerattn.network.figures.ties import ego_plot, ties_plot
from peerattn.network.inference.dyadic import Difference, DyadicRegression, SameCode, dyadic_regression
from peerattn.network.inference.permutation import PermutationRegression, mrqap, placebo
from peerattn.network.measures.asymmetry import Asymmetry, asymmetry, reciprocity
from peerattn.network.measures.comparison import common_peers, group_flows, network_correlation, overlap, turnover
from peerattn.network.measures.concentration import concentration, connectedness, effective_peers, in_strength
from peerattn.network.measures.validation import Validation, validate
from peerattn.network.peer_network import PeerNetwork
from peerattn.network.peers import paths

__all__ = [
    "Asymmetry", "Difference", "DyadicRegression", "PeerNetwork", "PermutationRegression", "SameCode", "Validation", "asymmetry",
    "common_peers", "concentration", "connectedness", "dyadic_regression", "effective_peers", "ego_plot", "flow_map",
    "group_flows", "heat_map", "in_strength", "mrqap", "network_correlation", "overlap", "paths", "placebo", "reciprocity",
    "rollout", "search_map", "ties_plot", "turnover", "validate", "write_explorer",
]  # fmt: skip
