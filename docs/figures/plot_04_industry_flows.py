"""
Which industry attends to which
===============================

The weight that the firms of a row's sector put on the firms of a column's: rows sum to 100 %. By their
accounts, public utilities attend to each other; consumer services attend everywhere.
"""

from peerattn import NadarayaWatsonRegressor, load_russell
from peerattn.network import flow_map
from peerattn.render import figure_style

panel = load_russell()  # or your own
X, y = panel.X.drop(columns=["sector", "industry"]), panel.y  # accounts only
past = X.index.get_level_values("period") < 2016
model = NadarayaWatsonRegressor().fit(X[past], y[past])  # or any other model
network = model.peer_network(X[~past], outcomes=y[~past])
sector = panel.X["sector"].groupby(level="firm").last()

with figure_style():
    flow_map(network, sector).set_title("Kernel weights from accounts, 2016")
