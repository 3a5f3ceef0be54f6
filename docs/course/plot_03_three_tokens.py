"""
3. Three tokens by hand
=======================

In self-attention every row of a table attends to every row of the same table. Three rows and two columns are
few enough to follow each number with a pencil.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from peerattn.nn import attention, attention_weights, score_terms
from peerattn.render import PALETTE, figure_style, weight_colours

X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # three tokens: "cat", "mat", "both"
tokens = ["cat", "mat", "both"]

# %%
# **Scores** are inner products divided by :math:`\sqrt d`, here :math:`\sqrt 2`: 1/√2 = 0.71 and 2/√2 =
# 1.41. Without the root they would grow with the number of columns, and the softmax would put all weight on
# one row.

scores = X @ X.T / np.sqrt(2)
print(scores.round(2))

# %%
# **Weights** are the softmax of each row. First row: exp(0.71) = 2.03, exp(0) = 1, exp(0.71) = 2.03; sum
# 5.06; weights 0.40, 0.20, 0.40.

weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
print(weights.round(2))
assert np.allclose(weights[0], [0.401, 0.198, 0.401], atol=1e-3)

# %%
# **Output**: each row becomes the weighted mean of all rows. "cat" is 0.40 (1, 0) + 0.20 (0, 1) + 0.40 (1,
# 1) = (0.80, 0.60): it now contains part of the other rows.

output = weights @ X
print(output.round(2))
rows = torch.from_numpy(X)
assert np.allclose(attention(rows, rows, rows), output)  # the layer gives the same

with figure_style():
    figure, axes = plt.subplots(1, 3, figsize=(8.2, 2.6))
    parts = [("scores  X X′ / √2", scores, tokens), ("weights  softmax of rows", weights, tokens),
             ("output  weights · X", output, ["column 1", "column 2"])]  # fmt: skip
    for ax, (title, matrix, columns) in zip(axes, parts):
        ax.imshow(matrix, cmap=weight_colours(), vmin=0, vmax=1.6, aspect="auto")
        for (i, j), number in np.ndenumerate(matrix):
            ax.text(j, i, f"{number:.2f}", ha="center", va="center")
        ax.set_xticks(range(len(columns)), columns)
        ax.set_yticks(range(3), tokens)
        ax.set_title(title)
        ax.tick_params(length=0)

# %%
# **Temperature** divides the scores before the softmax. As it rises all rows weigh the same; as it falls
# all weight goes to the highest scores, here those of "cat" and "both", which tie.
# :class:`peerattn.nn.MultiheadAttention` and the blocks take ``temperature=``, too.

temperatures = (0.1, 0.3, 1.0, 3.0, 10.0)
cat = [
    attention_weights(**score_terms(rows, rows, "scaled_dot_product", temperature=t))[0] for t in temperatures
]
with figure_style():
    figure, ax = plt.subplots(figsize=(5.0, 2.6))
    for weight, token, style, color in zip(torch.stack(cat, 1), tokens, ("-", "-", "--"), PALETTE):
        ax.plot(temperatures, weight, style, color=color, marker="o", label=token)
    ax.set(xscale="log", xlabel="temperature", ylabel="weight that cat puts on", ylim=(0, 0.6))
    ax.legend(ncols=3, loc="lower right")

# %%
# Read the weights by rows: row i holds the weights of token i on all tokens. "cat" and "mat" put equal weight on themselves
# and on "both". In a panel of firms the own row is left out: a firm is not its own
# peer, and least of all where outcomes are the values.
