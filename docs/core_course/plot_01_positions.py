"""
1. Positions
============

Attention works on a set. Firms of a cross-section have no order, so this suits panels. Words have one.
Their positions are added to the rows, turned into queries and keys, or added to the scores.
"""

import matplotlib.pyplot as plt
import torch

from peerattn.nn import attention, relative_distance, rotary, sinusoidal_positions
from peerattn.render import PALETTE, figure_style

# %%
# **Without positions, order means nothing.** Shuffled rows give the same output, shuffled:

generator = torch.Generator().manual_seed(0)
x = torch.randn(6, 8, generator=generator)
order = torch.randperm(6, generator=generator)
assert torch.allclose(attention(x, x, x)[order], attention(x[order], x[order], x[order]), atol=1e-6)

# %%
# **Added to the rows**: sines and cosines of falling frequency (Vaswani et al. 2017). Left: one row a
# position. Right: the inner product of two positions falls with their distance and depends on nothing else.

P = sinusoidal_positions(64, 32)
with figure_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.0))
    image = left.imshow(P.T.numpy(), cmap="RdBu_r", aspect="auto", vmin=-1, vmax=1)
    left.set(xlabel="position t", ylabel="column of the vector", title="Sinusoidal positions")
    figure.colorbar(image, ax=left, label="value")
    for at, color in zip((10, 30, 50), PALETTE):
        right.plot(torch.arange(64) - at, P @ P[at], color=color, label=f"t = {at}")
    right.set(xlabel="distance from t (positions)", ylabel="inner product", title="Nearness")
    right.legend()

# %%
# **Turned into queries and keys**: ``rotary`` turns each pair of columns by an angle that grows with the
# position, so that the score of t and s depends on t − s only. Every diagonal of the scores of one vector
# with itself is constant, and for a vector of ones it is the curve on the right above: the angles are the
# same.

same = torch.ones(64, 32)
scores = rotary(same) @ rotary(same).T / 32
for lag in (1, 5):
    assert scores.diagonal(lag).std() < 1e-5
assert torch.allclose(scores[0], P @ P[0] / 16, atol=1e-5)

# %%
# **Added to the scores**: a number for each distance, learned (``PairBias``) or given. The bias of a window
# of the next three is attention by position alone, which is a convolution (:doc:`/core/transformer`).

distance = relative_distance(64, longest=8)
print(distance[:4, :6])
