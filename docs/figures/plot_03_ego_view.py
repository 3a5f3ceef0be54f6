"""
One firm's view
===============

The peers of one firm (right) and the firms that attend to it (left); width and shade are weights. For a firm
with many small peers the figure shows how much it leaves out.
"""

from peerattn import NadarayaWatsonRegressor, load_russell
from peerattn.network import effective_peers, ego_plot
from peerattn.render import figure_style

panel = load_russell()  # or your own
X, y = panel.X, panel.y  # accounts, sector and industry
past = X.index.get_level_values("period") < 2016
model = NadarayaWatsonRegressor().fit(X[past], y[past])  # or any other model
network = model.peer_network(X[~past], outcomes=y[~past])

with figure_style():
    ego_plot(network, "Delta Air Lines", k=6).set_title("Kernel weights, 2016")

# %%
# The share of its weight on the six peers:

shown = network.peers("Delta Air Lines", k=6)["weight"].sum()
effective = effective_peers(network).set_index("firm")["effective_peers"]["Delta Air Lines"]
print(f"the six peers carry {shown:.0%} of its weight; {effective:.0f} effective peers (1 / Σ w²)")
