"""
8. LayerNorm beside BatchNorm
==============================

Both bring numbers to mean 0 and variance 1. LayerNorm does so **within a row**, over its features; BatchNorm **within a
feature**, over the rows of the batch. In a transformer rows are words, or firms of one period, and there are
sometimes many and sometimes few: what a row becomes must not depend on who else is in the batch.
"""

import matplotlib.pyplot as plt
import torch

from peerattn.nn import linear
from peerattn.render import PALETTE, figure_style, weight_colours
from peerattn.training import train

generator = torch.Generator().manual_seed(0)
rows = torch.randn(8, 6, generator=generator) * torch.linspace(0.5, 3, 6) + torch.linspace(-2, 2, 6)
layer, batch = torch.nn.LayerNorm(6), torch.nn.BatchNorm1d(6)
with figure_style():
    figure, axes = plt.subplots(1, 3, figsize=(8.6, 2.8), sharey=True)
    shown = {
        "As drawn": rows,
        "LayerNorm: along a row": layer(rows),
        "BatchNorm: along a column": batch(rows),
    }
    for ax, (name, values) in zip(axes, shown.items()):
        colours = ax.imshow(values.detach(), cmap=weight_colours(signed=True), vmin=-4, vmax=4)
        ax.set(title=name, xticks=[], yticks=[], xlabel="feature")
    axes[0].set_ylabel("row")
    figure.colorbar(colours, ax=axes, shrink=0.9, label="value")

# %%
# **A row and its neighbours.** The same row among others of its batch: LayerNorm does not see them.

others = rows.clone()
others[1:] += 3
print("LayerNorm, change of row 0:", (layer(others)[0] - layer(rows)[0]).abs().max().item())
print(f"BatchNorm, change of row 0: {(batch(others)[0] - batch(rows)[0]).abs().max().item():.2f}")
assert torch.equal(layer(others)[0], layer(rows)[0])

# %%
# **What that costs.** A network with one hidden layer learns :math:`|x_1| + x_2 x_3` from batches of few or many
# rows. BatchNorm uses the batch's own mean and variance in training and remembered ones afterwards. With few rows
# these are noise, and where later rows come from elsewhere (another period), the remembered ones are wrong.


def drawn(n, shift=0.0):
    x = torch.randn(n, 3, generator=generator) + shift
    return x, (x[:, :1].abs() + x[:, 1:2] * x[:, 2:])


def error(make, batch_size):
    """Train for equally many steps in batches of this size, and return the test error, here and shifted."""
    start = torch.Generator().manual_seed(1)
    model = torch.nn.Sequential(
        linear(3, 32, generator=start), make(32), torch.nn.ReLU(), linear(32, 1, generator=start)
    )
    batches = (drawn(batch_size) for _ in range(STEPS))
    train(model, lambda b: (model(b[0]) - b[1]).square().mean(), batches, max_steps=STEPS, learning_rate=1e-2)
    model.eval()
    with torch.no_grad():
        return [(model(x) - y).square().mean().item() for x, y in (drawn(4000), drawn(4000, shift=1.0))]


SIZES, STEPS = [2, 4, 8, 32, 128], 600
found = {
    name: [error(make, size) for size in SIZES]
    for name, make in {"LayerNorm": torch.nn.LayerNorm, "BatchNorm": torch.nn.BatchNorm1d}.items()
}
with figure_style():
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 2.9))
    for k, (ax, title) in enumerate(zip(axes, ("Rows like those of training", "Shifted by one"))):
        for (name, errors), color in zip(found.items(), PALETTE):
            ax.plot(SIZES, [each[k] for each in errors], marker="o", color=color, label=name)
        ax.set_xscale("log")
        ax.set_xticks(SIZES, SIZES)
        ax.minorticks_off()
        ax.set(xlabel="rows in a batch (log scale)", ylabel="mean squared error", title=title, ylim=(0, None))
    axes[0].legend()
for size, one, other in zip(SIZES, *found.values()):
    print(f"{size:4} rows: LayerNorm {one[0]:.2f}, BatchNorm {other[0]:.2f}")

# %%
# In batches of two BatchNorm's error is four times as large; the difference falls from 0.8 to 0.05 as batches grow. For
# cross-sections there is a graver reason: statistics over a batch of several periods let a row see rows of other
# periods, later ones too. That is a leak by construction, and the reason why this package has LayerNorm only (Ba, Kiros
# and Hinton 2016; Ioffe and Szegedy 2015).
assert found["BatchNorm"][0][0] > 1.5 * found["LayerNorm"][0][0]
