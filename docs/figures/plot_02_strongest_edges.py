"""
The strongest edges, laid out
=============================

A drawing of all edges of a large network is a ball of wool. Keep the three strongest edges of each firm,
let springs place the firms, and name the firm of each sector that is looked to most.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke

from peerattn import PeerNetwork
from peerattn.network import in_strength
from peerattn.render import PALETTE, figure_style

rng = np.random.default_rng(0)
sectors = [
    "Energy",
    "Materials",
    "Industrials",
    "Consumer",
    "Health care",
    "Finance",
    "Technology",
    "Utilities",
]
sector = pd.Series(rng.choice(sectors, 400, p=[0.08, 0.09, 0.17, 0.15, 0.14, 0.16, 0.15, 0.06]))
sector.index = [f"{name[:4]} {k:03d}" for k, name in enumerate(sector)]
size = rng.normal(size=400)
same = sector.to_numpy()[:, None] == sector.to_numpy()
serves = np.isin(sector, ["Technology", "Finance"])  # every sector looks to these two
scores = 2.5 * same + 1.5 * size + 1.0 * serves + rng.normal(size=(400, 400))
np.fill_diagonal(scores, -np.inf)
weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
network = PeerNetwork.from_matrices({2012: (sector.index, None, weights)}, name="400 firms")

edges = network.edges(top_k=3)
graph = nx.from_pandas_edgelist(edges, "firm", "peer", "weight", create_using=nx.DiGraph)
place = nx.spring_layout(graph.to_undirected(), k=0.12, iterations=60, seed=0)
received = in_strength(network).set_index("firm")["in_strength"]
color = dict(zip(sectors, PALETTE))

with figure_style():
    figure, ax = plt.subplots(figsize=(8.6, 6.4))
    lines = [(place[a], place[b]) for a, b in graph.edges]
    shades = np.array([graph.edges[edge]["weight"] for edge in graph.edges])
    ax.add_collection(LineCollection(lines, colors="#23262b", linewidths=0.5 + 2 * shades, alpha=0.16))
    for name in sectors:
        firms = [firm for firm in graph if sector[firm] == name]
        ax.scatter(*np.array([place[f] for f in firms]).T, s=8 + 14 * received[firms], color=color[name],
                   label=name, edgecolor="white", linewidth=0.4, zorder=2)  # fmt: skip
    for firm in received.groupby(sector[received.index]).idxmax():
        label = ax.annotate(
            firm, place[firm], xytext=(0, 8), textcoords="offset points", ha="center", fontsize=9
        )
        label.set(fontweight="bold", path_effects=[withStroke(linewidth=2, foreground="white")])
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), title="area: weight received")
    ax.set(title="400 firms, three strongest peers of each")
    ax.axis("off")
