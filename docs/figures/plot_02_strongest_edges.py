"""
The strongest edges, laid out
=============================

A drawing of all edges of a large network cannot be read. Keep the three strongest edges of each firm,
let springs place the firms, and name the firm of each sector with the most weight on it.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke

from peerattn import NadarayaWatsonRegressor, load_russell
from peerattn.network import in_strength
from peerattn.render import PALETTE, figure_style

panel = load_russell()  # or your own
X, y = panel.X, panel.y  # accounts, sector and industry
past = X.index.get_level_values("period") < 2016
model = NadarayaWatsonRegressor().fit(X[past], y[past])  # or any other model
network = model.peer_network(X[~past], outcomes=y[~past])
sector = X["sector"].groupby(level="firm").last()

edges = network.edges(top_k=3)
graph = nx.from_pandas_edgelist(edges, "firm", "peer", "weight", create_using=nx.DiGraph)
place = nx.spring_layout(graph.to_undirected(), k=0.12, iterations=60, seed=0)
received = in_strength(network).set_index("firm")["in_strength"]
named = sector.value_counts().index[: len(PALETTE)]  # the largest sectors; the others are grey
color = dict(zip(named, PALETTE))

with figure_style():
    figure, ax = plt.subplots(figsize=(8.6, 6.4))
    lines = [(place[a], place[b]) for a, b in graph.edges]
    shades = np.array([graph.edges[edge]["weight"] for edge in graph.edges])
    ax.add_collection(LineCollection(lines, colors="#23262b", linewidths=0.3 + 1.5 * shades, alpha=0.2))
    for name in [*named, "other"]:
        firms = [
            firm for firm in graph if sector[firm] == name or (name == "other" and sector[firm] not in named)
        ]
        ax.scatter(*np.array([place[f] for f in firms]).T, s=8 + 14 * received[firms], label=name,
                   color=color.get(name, "#b8bcc2"), edgecolor="white", linewidth=0.4, zorder=2)  # fmt: skip
    for firm in received.groupby(sector[received.index]).idxmax()[named]:
        side = "left" if place[firm][0] > 0.4 else "center"
        label = ax.annotate(
            firm, place[firm], xytext=(0, 7), textcoords="offset points", ha=side, fontsize=8.5
        )
        label.set(fontweight="bold", path_effects=[withStroke(linewidth=2, foreground="white")])
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), title="area: weight received")
    ax.set(title="Large US firms, three strongest peers of each, 2016")
    ax.axis("off")
