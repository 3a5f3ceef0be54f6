"""
9. Why there is a feed-forward part
====================================

Attention is a weighted mean. A mean of means is a mean: stacked without anything in between, layers of attention average
again and again, until all rows are the same. The feed-forward part works on each row alone, and what it adds is no mean.
"""

import matplotlib.pyplot as plt
import torch

from peerattn import nn
from peerattn.render import PALETTE, figure_style
from peerattn.training import train

generator = torch.Generator().manual_seed(0)
DEPTH, N, WIDTH = 12, 24, 32

# %%
# **Stacked means.** The product of matrices whose rows sum to one is again one, and closer to a matrix of equal
# rows. Shown is how much rows still differ, as a share of their size, after each layer: for attention alone, with
# the residual, and with residual and feed-forward part (all at their random start).


def differ(x):
    return ((x - x.mean(0)).norm() / x.norm()).item()


def layers(residual, feed_forward):
    rows, found = torch.randn(N, WIDTH, generator=torch.Generator().manual_seed(1)), []
    start = torch.Generator().manual_seed(2)
    for _ in range(DEPTH):
        attend = nn.MultiheadAttention(WIDTH, 4, generator=start)
        think = nn.FeedForward(WIDTH, 4 * WIDTH, generator=start)
        norm = torch.nn.LayerNorm(WIDTH)
        rows = residual * rows + attend(norm(rows))
        if feed_forward:
            rows = residual * rows + think(norm(rows))
        found.append(differ(rows))
    return found


ways = {
    "attention alone": layers(0.0, False),
    "with feed-forward part": layers(0.0, True),
    "with residual": layers(1.0, False),
    "with both": layers(1.0, True),
}
with torch.no_grad():
    x = 0.7 * torch.randn(N, 8, generator=generator)
    products, weights = [], torch.eye(N)
    for _ in range(DEPTH):
        weights = nn.attention_weights(x, x) @ weights
        products.append(weights.std(0).mean().item())
print(f"entries of a column of the product of {DEPTH} weight matrices differ by {products[-1]:.1e}")
assert products[-1] < 1e-2 * products[0]

# %%
# **And what it can compute.** Each row shall return the *square* of its peers' mean. Attention finds the mean; a
# part that is not linear in it makes the square. Weights depend on the rows, so that several layers of attention
# bend a little, too, at the price of more parameters.


def drawn(n):
    x = torch.randn(n, 8, 2, generator=generator)
    others = (x[..., :1].sum(1, keepdim=True) - x[..., :1]) / 7
    return x, 7 * others.square()


class Attentions(torch.nn.Module):
    """Layers of attention with residual: the block of page 2, without its feed-forward part."""

    def __init__(self, n_layers):
        super().__init__()
        start = torch.Generator().manual_seed(3)
        self.embed, self.read = nn.linear(2, 16, generator=start), nn.linear(16, 1, generator=start)
        self.layers = torch.nn.ModuleList(
            nn.MultiheadAttention(16, 2, generator=start) for _ in range(n_layers)
        )

    def forward(self, x):
        rows = self.embed(x)
        for layer in self.layers:
            rows = rows + layer(rows, mask=~torch.eye(8, dtype=torch.bool))
        return self.read(rows)


class Block(Attentions):
    """One layer, and one feed-forward part."""

    def __init__(self):
        super().__init__(1)
        self.think = nn.FeedForward(16, 64, generator=torch.Generator().manual_seed(4))

    def forward(self, x):
        rows = self.embed(x)
        rows = rows + self.layers[0](rows, mask=~torch.eye(8, dtype=torch.bool))
        return self.read(rows + self.think(rows))


errors = {}
for name, model in {
    "1 layer of attention": Attentions(1), "4 layers of attention": Attentions(4), "1 layer and feed-forward": Block(),
}.items():  # fmt: skip
    batches = (drawn(64) for _ in range(300))
    train(
        model, lambda b, m=model: (m(b[0]) - b[1]).square().mean(), batches, max_steps=300, learning_rate=1e-2
    )
    x, y = drawn(2000)
    with torch.no_grad():
        errors[name] = ((model(x) - y).square().mean() / y.var()).item()
    size = sum(p.numel() for p in model.parameters())
    print(f"{name:26} {size:6,} parameters, squared error {errors[name]:.2f} of the variance")

with figure_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.0), width_ratios=(3, 2))
    for (name, values), color in zip(ways.items(), PALETTE):
        style = "--" if name == "with both" else "-"
        left.semilogy(range(1, DEPTH + 1), values, style, marker="o", markersize=4, color=color, label=name)
    left.set(xlabel="layer", ylabel="difference of rows / size", title="Rows become the same")
    left.legend()
    bars = right.barh(list(errors), list(errors.values()), color=PALETTE[0])
    right.bar_label(bars, fmt="%.2f", padding=3)
    right.invert_yaxis()
    right.set(xlabel="squared error / variance", title="The square of a mean", xlim=(0, 1.2))

# %%
# Without residual the rows' differences are gone after four layers, down to rounding (Dong, Cordonnier and Loukas
# 2021: faster than at a constant rate). The feed-forward part cannot bring them back, since it makes equal rows of
# equal rows: the residual keeps rows apart, the feed-forward part makes more of them than means. In the panel
# models this is the reason why a peer-of-peers term needs the firm's own characteristics beside it.
assert ways["attention alone"][-1] < 0.1 * ways["with both"][-1]
assert errors["1 layer and feed-forward"] < 0.5 * errors["4 layers of attention"]
