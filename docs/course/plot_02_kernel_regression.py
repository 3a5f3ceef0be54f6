"""
2. Kernel regression is attention
=================================

Nadaraya (1964) and Watson (1964) predict by a weighted mean of the outcomes of similar firms,

.. math:: \\hat y(x) = \\sum_j \\alpha_j(x) y_j, \\qquad \\alpha_j(x) = \\frac{K((x - x_j)/h)}{\\sum_l K((x - x_l)/h)}.

K is the kernel, h its bandwidth. With a Gaussian K the weights are a softmax of :math:`-(x - x_j)^2 / 2h^2`. That is the
look-up of page 1, with x for the query and :math:`x_j` for the keys.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from peerattn import CrossSectionalRidge, NadarayaWatsonRegressor
from peerattn.nn import attention, kernel_weights
from peerattn.render import INK, PALETTE, figure_style

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 80))
y = np.sin(x) + 0.1 * x + rng.normal(scale=0.3, size=80)
grid = np.linspace(0, 10, 200)
h = 0.5

# %%
# The estimator, and the same numbers from an attention layer: queries and keys are x/h, the values are the
# outcomes. A product of query and key is all that attention knows, and :math:`-\frac12 (q - k)^2 = qk -
# \frac12 k^2 - \frac12 q^2`: the second term is a bias of the key, and the last is the same for all keys,
# so the softmax drops it.

kernel = NadarayaWatsonRegressor(bandwidth=h).fit(x[:, None], y)
by_kernel = kernel.predict(grid[:, None])
q, k, v = (torch.from_numpy(a)[:, None] for a in (grid / h, x / h, y))
by_attention, alpha = attention(q, k, v, bias=-0.5 * k.T**2, scale=1.0, return_weights=True)
print("largest difference:", np.abs(by_kernel - by_attention[:, 0].numpy()).max())
assert np.allclose(by_kernel, by_attention[:, 0].numpy(), atol=1e-10)

# %%
# At each point the prediction is the mean of its neighbours, the more weight (area of the dots) the closer
# they are:

at = 85
with figure_style():
    figure, ax = plt.subplots(figsize=(6.4, 3.4))
    ax.scatter(x, y, s=6, color=INK, alpha=0.35, label="firms")
    ax.scatter(
        x, y, s=700 * alpha[at].numpy(), color=PALETTE[0], alpha=0.45, linewidth=0, label=r"weight $\alpha_j$"
    )
    ax.plot(grid, by_kernel, color=PALETTE[1], label="prediction")
    ax.axvline(grid[at], color=PALETTE[1], linewidth=0.8, linestyle=":")
    ax.set(xlabel="characteristic x (units of x)", ylabel="outcome y (units of y)")
    ax.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), markerscale=0.8)

# %%
# **No exponential is needed.** Any score that is not negative makes weights, :math:`\alpha_j = s_j / \sum_l s_l`
# (:func:`peerattn.nn.kernel_weights`). The kernel itself as the score gives the same prediction; so would counts
# of shared patents, or trade. Not divided by their sum, scores are *kernel sums*: they also measure how much there is
# nearby, which shares do not.

s = torch.exp(-0.5 * (q - k.T) ** 2)
assert np.allclose((kernel_weights(s) @ v)[:, 0], by_kernel, atol=1e-10)
nearby = kernel_weights(s, normalise=False).sum(1)
print(f"neighbours by kernel weight: {nearby[at]:.1f} at x = {grid[at]:.1f}, {nearby[-1]:.1f} at the edge")

# %%
# **Scores may be negative**, too, if they are not divided by their sum, which may then be near zero. The plainest score is the
# inner product: :math:`\sum_j (x_i x_j') y_j`. The estimator with these weights is the cross-sectional ridge,
# :math:`\alpha_{ij} = z_i (Z'Z + \lambda I)^{-1} z_j'`, where z are standardised. With a large penalty λ the inverse is about
# :math:`1/\lambda`: the weights are inner products divided by λ. With a small penalty the inverse divides by the number of
# firms instead, so that the sum over firms becomes a mean. The network of a ridge is signed.

X = rng.normal(size=(80, 2))
z = torch.from_numpy((X - X.mean(0)) / X.std(0))
literal = kernel_weights(z @ z.T, normalise=False) @ (v - v.mean())
penalty = 1e9
ridge = CrossSectionalRidge(alpha=penalty).fit(X, y)
assert np.allclose(penalty * (ridge.predict(X) - y.mean()), literal[:, 0], atol=1e-4)
print(f"{(z @ z.T < 0).double().mean():.0%} of the scores are negative")

# %%
# What the kernel cannot do: its distance is given, not learned, each characteristic counts alike in both
# directions, and a firm far from all others has no good peer. The next pages relax this step by step. The
# fixed kernel is a baseline in every comparison of this course.
