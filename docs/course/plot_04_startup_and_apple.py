"""
4. A startup looks to Apple: W_Q, W_K, W_V
==========================================

On page 3 scores were symmetric: *i* scored *j* as *j* scored *i*. Peers are not like that. A young
technology firm studies the established one; the established one does not study the startup. Attention gives
every firm three faces:

- the **search criterion** :math:`q_i = x_i W_Q`: what i looks for,
- the **profile** :math:`k_j = x_j W_K`: how j presents itself,
- the **information** :math:`v_j = x_j W_V`: what j contributes.
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
# **The kernel's answer.** By distance in characteristics the startups look to each other, and there is
# nobody that Apple resembles.

x = torch.tensor(X.to_numpy())
others = ~torch.eye(len(X), dtype=torch.bool)
by_distance = attention_weights(x, x, mask=others, bias=-0.5 * (x**2).sum(1), scale=1.0)

# %%
# **Search by criterion.** M = W_Q W_K′ says which characteristic of i looks for which of j: technology
# looks for technology, and for size; the large look for the large; the old do not. An intercept b is what
# everybody looks for, whatever it is itself: here, size. W_Q and W_K apart do not matter, only their
# product does.

M = pd.DataFrame([[0.3, 0.0, 0.0], [0.5, 0.8, 0.0], [-0.3, 0.0, 0.0]], index=X.columns, columns=X.columns)
W_Q, W_K, b = torch.tensor(M.to_numpy()), torch.eye(3, dtype=torch.float64), torch.tensor([1.0, 0.0, 0.0])
by_search = attention_weights(x @ W_Q + b, x @ W_K, mask=others, scale=1.0)

with figure_style():
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.4), sharey=True)
    for ax, weights, title in zip(axes, (by_distance, by_search), ("By distance", "By search criterion")):
        ax.imshow(weights.numpy(), cmap=weight_colours(), vmin=0, vmax=1)
        for (i, j), w in np.ndenumerate(weights.numpy()):
            if i != j:
                ax.text(j, i, f"{w:.2f}", ha="center", va="center", color="white" if w > 0.6 else "#23262b")
        ax.set_xticks(range(5), X.index, rotation=40, ha="right")
        ax.set(title=title, xlabel="peer")
    axes[0].set_yticks(range(5), X.index)
    axes[0].set_ylabel("focal firm")

network = PeerNetwork.from_matrices({None: (X.index, X.index, by_search.numpy())}, name="By search criterion")
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
# Whom the startup looks to (right), and who looks to Apple (left):

ego_plot(network, "Apple", k=5)

# %%
# **A caution.** Rows that sum to one make even a symmetric kernel's weights asymmetric: a firm in a crowd
# spreads its weight thin. ``asymmetry`` splits the asymmetry into popularity, which every kernel has, and
# direction, which only different search criteria and profiles have
# (:doc:`/background/decisions/0005-direction-net-of-popularity`).

for name, weights in (("by distance", by_distance), ("by search criterion", by_search)):
    net = PeerNetwork.from_matrices({None: (X.index, X.index, weights.numpy())}, name=name)
    measured = asymmetry(net).to_frame().iloc[0]
    print(f"{name}: raw asymmetry {measured['raw']:.2f}, direction {measured['direction']:.2f}")
