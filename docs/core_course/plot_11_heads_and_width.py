"""
11. Many narrow heads, or one wide one
======================================

Four heads of width D / 4 have the same parameters and cost the same operations as one head of width D. What do they
buy? A head has *one* distribution over rows. A row that has to attend to two places and treat them differently needs two.
"""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

from peerattn import nn
from peerattn.render import PALETTE, figure_style, weight_colours
from peerattn.training import train

# %%
# **The task.** Eight rows, each with a value and two pointers to other rows. A row shall return the value at its
# first pointer minus the value at its second. One layer of attention, no feed-forward part.

N, WIDTH, STEPS = 8, 32, 250


def drawn(n, generator):
    value = torch.randn(n, N, 1, generator=generator)
    first, second = (torch.randint(N, (n, N), generator=generator) for _ in range(2))
    name = F.one_hot(torch.arange(N), N).float().expand(n, N, N)
    x = torch.cat([name, F.one_hot(first, N), F.one_hot(second, N), value], -1)
    return x, value.gather(1, first[..., None]) - value.gather(1, second[..., None])


def fitted(n_heads):
    start, generator = torch.Generator().manual_seed(0), torch.Generator().manual_seed(1)
    embed = nn.linear(3 * N + 1, WIDTH, generator=start)
    layer = nn.MultiheadAttention(WIDTH, n_heads, generator=start)
    read = nn.linear(WIDTH, 1, generator=start)
    model = torch.nn.Sequential(embed, layer, read)
    batches = (drawn(64, generator) for _ in range(STEPS))
    record = train(
        model, lambda b: (model(b[0]) - b[1]).square().mean(), batches, max_steps=STEPS, learning_rate=1e-2
    )
    x, y = drawn(500, torch.Generator().manual_seed(2))
    with torch.no_grad():
        error = ((model(x) - y).square().mean() / y.var()).item()
        _, weights = layer(embed(x), return_weights=True)
    size = sum(p.numel() for p in model.parameters())
    return {"losses": record.losses, "error": error, "size": size, "weights": weights[0], "x": x[0]}


found = {n_heads: fitted(n_heads) for n_heads in (1, 2, 4, 8)}
for n_heads, one in found.items():
    print(
        f"heads: {n_heads} of width {WIDTH // n_heads:2}: {one['size']:,} parameters, error {one['error']:.2f} of the variance"
    )
assert len({one["size"] for one in found.values()}) == 1


# %%
with figure_style():
    figure, axes = plt.subplots(1, 4, figsize=(10.5, 2.9), width_ratios=(2.2, 1, 1, 1))
    for (n_heads, one), color in zip(found.items(), PALETTE):
        smooth = torch.tensor(one["losses"]).unfold(0, 15, 1).mean(1)
        axes[0].plot(smooth, color=color, label=f"{n_heads} × {WIDTH // n_heads}")
    axes[0].set(xlabel="step", ylabel="squared error", ylim=(0, None), title="Training")
    axes[0].legend(title="heads × width")
    four, x = found[4]["weights"], found[4]["x"]
    at = [x[:, offset : offset + N].bool() for offset in (N, 2 * N)]  # first and second pointers
    best = [int(four[:, pointed].mean(1).argmax()) for pointed in at]
    maps = {"one head": found[1]["weights"][0]} | {f"head {k + 1} of four": four[k] for k in best}
    for ax, (name, weights) in zip(axes[1:], maps.items()):
        ax.imshow(weights, cmap=weight_colours(), vmin=0, vmax=1)
        for offset, color in ((N, "#2a7f62"), (2 * N, "#b3423a")):
            pointed = x[:, offset : offset + N].argmax(1)
            ax.scatter(pointed, range(N), s=18, facecolors="none", edgecolors=color)
        ax.set(title=name, xticks=[], yticks=[], xlabel="attended to")
    axes[1].set_ylabel("attends")

# %%
# Circles: where the row's first (green) and second pointer (red) lead. One head can attend to both places, but has to
# mix what it finds there with weights of one sign, and a difference has two. Of four heads, those that most weigh
# the first and the second pointer are shown. Two heads would do, and in so few steps do not always find a pointer
# each: more heads are more starts. Their width bounds the rank of their scores, so that they must not become too
# narrow for what they distinguish (Bhojanapalli et al. 2020). Pruning measures which heads were needed
# afterwards (Michel et al. 2019).
assert found[4]["error"] < 0.3 * found[1]["error"]
