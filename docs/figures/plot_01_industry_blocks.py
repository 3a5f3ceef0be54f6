"""
A large network by industry
===========================

494 large US firms make 244,000 weights. Ordered by sector, with borders and names, they show what a list cannot.
A kernel compares the firms' accounts and knows no industry, yet much of the weight falls into the blocks.
"""

from peerattn import NadarayaWatsonRegressor, load_russell
from peerattn.network import heat_map, overlap
from peerattn.render import figure_style

panel = load_russell()  # or your own
X, y = panel.X.drop(columns=["sector", "industry"]), panel.y  # accounts only
past = X.index.get_level_values("period") < 2016
model = NadarayaWatsonRegressor().fit(X[past], y[past])  # or any other model
network = model.peer_network(X[~past], outcomes=y[~past])
sector = panel.X["sector"].groupby(level="firm").last()

with figure_style():
    heat_map(network, order=sector).set_title("Kernel weights from accounts, 2016")

# %%
# In one number: the share of weight within the sector, against what random peers would give.

print(overlap(network, sector).T.round(3))
