"""
7. Why the scores are divided by √d
====================================

The score :math:`q'k` is a sum of d products. If the entries are independent with mean 0 and variance 1, its
variance is d: the wider the head, the larger the scores, and the softmax ends up on one key. Divided by
:math:`\\sqrt d` the variance is 1 whatever the width (Vaswani et al. 2017, section 3.2.1).
"""

import matplotlib.pyplot as plt
import torch

from peerattn.nn import attention_weights
from peerattn.render import PALETTE, figure_style

generator = torch.Generator().manual_seed(0)
WIDTHS, N = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512], 64

# %%
# **What saturates, and what it does to learning.** The gradient of a weight in its scores is :math:`\partial
# \alpha_i / \partial e_j = \alpha_i (1[i = j] - \alpha_j)`: where one weight is 1 and all others are 0, it is zero
# in every direction. The row attends to one key, and cannot learn to attend to others.


def slope(weights):
    """The norm of the matrix of derivatives of a row's weights in its scores, median over rows."""
    squares = weights.square()
    total = squares.sum(-1) - 2 * (weights**3).sum(-1) + squares.sum(-1).square()
    return total.clamp_min(0).sqrt().median().item()


by_hand = torch.tensor([0.7, 0.2, 0.1])
jacobian = torch.autograd.functional.jacobian(lambda e: e.softmax(0), by_hand.log())
assert abs(slope(by_hand[None]) - jacobian.norm().item()) < 1e-6

scales = {"divided by √d": None, "not divided": 1.0}
largest, slopes = {name: [] for name in scales}, {name: [] for name in scales}
for d in WIDTHS:
    q, k = torch.randn(256, d, generator=generator), torch.randn(N, d, generator=generator)
    for name, scale in scales.items():
        weights = attention_weights(q, k, scale=scale)
        largest[name].append(weights.amax(-1).median().item())
        slopes[name].append(slope(weights))

for d, one, other in zip(WIDTHS, *largest.values()):
    print(f"d = {d:3}: largest of {N} weights (median row) {one:.2f} divided, {other:.2f} not")

# %%
with figure_style():
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9.4, 2.9))
    for (name, values), color in zip(largest.items(), PALETTE):
        left.plot(WIDTHS, values, marker="o", color=color, label=name)
        middle.plot(WIDTHS, slopes[name], marker="o", color=color)
    left.set(ylabel="largest weight of a row", title="Saturation", ylim=(0, 1.03))
    middle.set(ylabel="norm of the gradient", title="Gradient in the scores", ylim=(0, None))
    for ax in (left, middle):
        ax.set_xscale("log", base=2)
        ax.set_xticks([1, 8, 64, 512], [1, 8, 64, 512])
        ax.set_xlabel("width d (log scale)")
    q, k = torch.randn(1, 256, generator=generator), torch.randn(N, 256, generator=generator)
    for scale, color in zip((None, 1.0), PALETTE):
        weights = attention_weights(q, k, scale=scale)[0].sort(descending=True).values
        right.plot(range(1, N + 1), weights, color=color)
    right.set(xlabel="rank of the key", ylabel="weight", title="One row, d = 256", ylim=(0, 1.03))
    left.legend()

# %%
# With one product (d = 1) both are the same. Undivided scores first gain in slope, as rows begin to choose, and
# then lose it: at d = 512 the row puts nearly all of its weight on one of 64 keys before anything was learned, and
# hardly any gradient is left to change that. Divided, both stay where they are. The same number has another name
# where attention is kernel regression: it is the **bandwidth**. A learned :math:`W_Q` could make up for it; the
# division only makes sure that training starts where there is a gradient. ``score="dot_product"`` leaves it out,
# and ``temperature=`` sets it by hand.
assert largest["not divided"][0] == largest["divided by √d"][0]
assert largest["not divided"][-1] > 0.8 > 0.2 > largest["divided by √d"][-1]
assert slopes["not divided"][-1] < max(slopes["not divided"]) / 2
