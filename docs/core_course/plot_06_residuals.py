"""
6. Why residuals, and the place of the normalisation
====================================================

Every block *adds* to its input, :math:`x + F(x)`. Without the addition a deep stack hardly trains: each
layer has to hand on all that later layers need, and the gradient of the first layers passes through all
others. This page trains the same stack of six blocks with and without residuals, and with the
normalisation before ("pre") or after ("post") each step.
"""

import matplotlib.pyplot as plt
import torch

from peerattn import nn
from peerattn.render import PALETTE, figure_style
from peerattn.training import train

# %%
# **The task.** Twelve rows, each with one of three codes and a value. Every row has to return the mean value of the
# rows of its own code (itself included), times two.

N, DEPTH, WIDTH, STEPS = 12, 6, 16, 120


def draw(n, generator):
    code = torch.nn.functional.one_hot(torch.randint(3, (n, N), generator=generator), 3).float()
    value = torch.randn(n, N, 1, generator=generator)
    same = code @ code.mT
    return torch.cat([code, value], -1), 2 * same @ value / same.sum(-1, keepdim=True)


class WithoutResidual(nn.TransformerBlock):
    def _step(self, x, norm, update):
        return update(norm(x))


class LookUp(torch.nn.Module):
    def __init__(self, make, **options):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.embed = nn.linear(4, WIDTH, generator=generator)
        self.blocks = torch.nn.ModuleList(
            make(WIDTH, 2, 2 * WIDTH, generator=generator, **options) for _ in range(DEPTH)
        )
        self.read = nn.linear(WIDTH, 1, generator=generator)

    def forward(self, x):
        rows = self.embed(x)
        for block in self.blocks:
            rows = block(rows)
        return self.read(rows)


def curve(make, rate, schedule, **options):
    """Train, and return the loss of every step and each block's gradient before the first."""
    model, generator = LookUp(make, **options), torch.Generator().manual_seed(2)

    def loss(batch):
        return (model(batch[0]) - batch[1]).square().mean()

    loss(draw(64, generator)).backward()
    slopes = [sum(p.grad.square().sum() for p in b.parameters()).sqrt().item() for b in model.blocks]
    batches = (draw(16, generator) for _ in range(STEPS))
    return train(model, loss, batches, max_steps=STEPS, learning_rate=rate, schedule=schedule).losses, slopes


found = {
    "residual, pre": curve(nn.TransformerBlock, 3e-3, "one_cycle", norm="pre"),
    "residual, post": curve(nn.TransformerBlock, 3e-3, "one_cycle", norm="post"),
    "residual, post, no warm-up": curve(nn.TransformerBlock, 3e-3, "constant", norm="post"),
    "no residual": curve(WithoutResidual, 3e-3, "one_cycle"),
}
last = {name: sum(losses[-30:]) / 30 for name, (losses, _) in found.items()}
for name, value in last.items():
    print(f"{name:28} loss of the last 30 steps {value:.2f}")

# %%
# The dotted line is the variance of the target: the loss of a model that predicts its mean. Before the first step "post" is
# the same network with and without warm-up.


def smooth(losses, window=15):
    return torch.tensor(losses).unfold(0, window, 1).mean(1)


with figure_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.2))
    for (name, (losses, slopes)), color in zip(found.items(), PALETTE):
        left.plot(smooth(losses), color=color, label=name)
        if name != "residual, post, no warm-up":  # the same network before training
            right.semilogy(range(1, DEPTH + 1), slopes, marker="o", color=color)
    left.axhline(draw(2000, torch.Generator().manual_seed(3))[1].var(), color="#8b9096", linestyle=":")
    left.set(xlabel="step", ylabel="mean squared error", title="Training", ylim=(0, 1.6))
    right.set(xlabel="block", ylabel="norm of the gradient", title="Before the first step")
    left.legend()

# %%
# Without residuals the stack stops early, far above the others. With them the input, and what every block found,
# reaches the end as it is, and the gradient reaches the first block the same way: the sum of six small changes is
# learned, not the product of six maps (He et al. 2016). Between "pre" and "post" the order depends on the learning
# rate and its warm-up: "pre" starts with the larger gradients and rows that grow, and is the less sensitive in deep
# stacks, which is why it is the default here (Xiong et al. 2020); page 2 shows sizes and gradients of twelve
# blocks.
assert last["residual, pre"] < 0.6 * last["no residual"]
assert last["residual, post"] < 0.8 * last["no residual"]
