"""
5. A startup attends to Apple: W_Q and W_K
==========================================

On page 3 scores were symmetric: *i* scored *j* as *j* scored *i*. Peers are not like that. A young
technology firm studies the established one, and not the reverse. Attention gives every firm three vectors:

- the **query** :math:`q_i = x_i W_Q + b` (search criterion): what i searches for; b is the same for all firms,
- the **key** :math:`k_j = x_j W_K` (profile): how j presents itself,
- the **value** :math:`v_j = x_j W_V` (information): what j contributes.

This page is about weights, which queries and keys determine.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch

from peerattn import PeerNetwork
from peerattn.network import asymmetry, ego_plot, search_map
from peerattn.nn import attention_weights
from peerattn.render import figure_style, weight_colours

# %%
# Five firms with made-up characteristics in standard deviations:

X = pd.DataFrame(
    {
        "size": [-1.5, -1.2, 2.0, 0.8, 1.0],
        "technology": [1.3, 1.1, 1.5, -1.0, -1.2],
        "age": [-1.5, -1.0, 0.8, 1.2, 1.5],
    },
    index=["Startup A", "Startup B", "Apple", "Utility", "Bank"],
)

# %%
# **The kernel.** By distance in characteristics the startups are each other's peers, and Apple
# resembles nobody.

x = torch.tensor(X.to_numpy())
others = ~torch.eye(len(X), dtype=torch.bool)
by_distance = attention_weights(x, x, mask=others, bias=-0.5 * (x**2).sum(1), scale=1.0)

# %%
# **Queries and keys.** M = W_Q W_K′ relates the characteristics of i to those of j: technology
# attends to technology (.8) and to size (.5), large firms to large ones (.3), and old firms attend less to large ones (−.3).
# The intercept b is what every firm attends to: here, size. Only the product of W_Q and W_K matters. Scores are not divided
# here (``scale=1``), so that they can be read off M.

M = pd.DataFrame([[0.3, 0.0, 0.0], [0.5, 0.8, 0.0], [-0.3, 0.0, 0.0]], index=X.columns, columns=X.columns)
W_Q, W_K, b = torch.tensor(M.to_numpy()), torch.eye(3, dtype=torch.float64), torch.tensor([1.0, 0.0, 0.0])
by_search = attention_weights(x @ W_Q + b, x @ W_K, mask=others, scale=1.0)

with figure_style():
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.4), sharey=True)
    for ax, weights, title in zip(axes, (by_distance, by_search), ("By distance", "By query and key")):
        ax.imshow(weights.numpy(), cmap=weight_colours(), vmin=0, vmax=1)
        for (i, j), w in np.ndenumerate(weights.numpy()):
            if i != j:
                ax.text(j, i, f"{w:.2f}", ha="center", va="center", color="white" if w > 0.6 else "#23262b")
        ax.set_xticks(range(5), X.index, rotation=40, ha="right")
        ax.set(title=title, xlabel="peer")
    axes[0].set_yticks(range(5), X.index)
    axes[0].set_ylabel("focal firm")

network = PeerNetwork.from_matrices({None: (X.index, X.index, by_search.numpy())}, name="By query and key")
matrix = network.matrix()
print(
    f"Startup A -> Apple {matrix.loc['Startup A', 'Apple']:.2f}, Apple -> Startup A {matrix.loc['Apple', 'Startup A']:.2f}"
)
assert matrix.loc["Startup A", "Apple"] > 0.5 > 5 * matrix.loc["Apple", "Startup A"]

# %%
# The matrix M is what a reader interprets. ``model.search_profile()`` gives it for every head of a fitted
# model, with the names of the characteristics:

search_map(M)

# %%
# The firms that attend to Apple (left), and its own peers (right):

ego_plot(network, "Apple", k=5)

# %%
# **A caution.** Rows that sum to one make even a symmetric kernel's weights asymmetric: a firm in a crowd
# spreads its weight thinly. ``asymmetry`` splits the asymmetry into popularity, which every kernel has, and
# direction, which only different search criteria and profiles have
# (:doc:`/background/weights`). The raw measure lies between 0 and 1; direction is in units of log weights, 0 where scores are
# symmetric.

for name, weights in (("by distance", by_distance), ("by query and key", by_search)):
    net = PeerNetwork.from_matrices({None: (X.index, X.index, weights.numpy())}, name=name)
    measured = asymmetry(net).to_frame().iloc[0]
    print(f"{name}: raw asymmetry {measured['raw']:.2f}, direction {measured['direction']:.2f}")
