"""
1. A look-up that is soft
=========================

A dictionary answers a **query** with the **value** stored under the equal **key**. Attention is the same
with degrees: the answer is a mean of all values, weighted by how well each key fits the query.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from peerattn.nn import attention_weights
from peerattn.render import PALETTE, figure_style

# %%
# Four firms are stored under one number, their log size. The value is their return on assets, in per cent.

firms = ["Small", "Medium", "Large", "Giant"]
key = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
value = torch.tensor([2.0, 4.0, 5.0, 9.0])

# %%
# A hard look-up for "size 3" scores 0 where the key is equal and −∞ elsewhere. The softmax turns scores into weights that sum
# to one, :math:`e^{s_j} / \sum_l e^{s_l}`; of these scores it is 1 for one firm:

query = torch.tensor([[3.0]])
hard = torch.where(query == key.T, 0.0, -torch.inf).softmax(-1)
print(hard.numpy(), "->", (hard @ value).item())

# %%
# Industry peers are this look-up with n firms under one key: the softmax of 0 and −∞ is then the equal
# weight 1/n. A soft look-up lets the score fall with the distance, :math:`s_j = -(q - k_j)^2 / 2h^2`, and the
# *bandwidth* h determines how strict it is:

weights = {h: (-((query - key.T) ** 2) / (2 * h**2)).softmax(-1)[0] for h in (0.1, 0.7, 2.0, 100.0)}
with figure_style():
    figure, axes = plt.subplots(1, 4, figsize=(9.2, 2.4), sharey=True)
    for ax, (h, w), color in zip(axes, weights.items(), PALETTE):
        ax.bar(firms, w.numpy(), color=color)
        ax.set_title(f"h = {h:g}: answer {w @ value:.1f} %")
        ax.tick_params(axis="x", labelrotation=40)
    axes[0].set_ylabel("weight")

# %%
# A small h gives the dictionary, a large one the mean of all firms. Nothing was lost: both are attention. A
# product of query and key makes a score, too, and this is the one that transformers use
# (:func:`peerattn.nn.attention_weights`; ``scale=1`` leaves the scores undivided, page 3 explains the usual division):

w = attention_weights(torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 2.0]]), scale=1.0)
assert np.allclose(w, np.exp([2, 0]) / np.exp([2, 0]).sum())
print(w.numpy().round(3))
