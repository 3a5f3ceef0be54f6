"""
20. How loss falls with size, beside a recurrent network
========================================================

What a language model gains from being larger follows a smooth curve over many orders of magnitude (Kaplan et al. 2020). Two cores
cover the first of them. The text is what every installation has: the docstrings of numpy. The control is a recurrent
network (GRU, Cho et al. 2014) of about the same number of parameters, trained alike.
"""

import inspect

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F

from peerattn import nn
from peerattn.render import PALETTE, figure_style
from peerattn.training import train

text = "\n".join(inspect.getdoc(getattr(np, name)) or "" for name in sorted(np.__all__) if name != "test")
symbols = sorted(set(text))
numbers = torch.tensor(np.searchsorted(symbols, list(text)))
held, shown = numbers[:20_000], numbers[20_000:]
BLOCK, STEPS, BATCH = 48, 120, 12
print(f"{len(shown):,} characters for training, {len(symbols)} different ones")


class Transformer(torch.nn.Module):
    def __init__(self, width, generator):
        super().__init__()
        self.embed = nn.TokenEmbedding(len(symbols), width, std=0.02, generator=generator)
        self.stack = nn.Encoder(2, width, max(1, width // 16), rotary=True, generator=generator)

    def forward(self, s):
        return self.embed.logits(self.stack(self.embed(s), mask=nn.causal_mask(s.shape[1])))


class Recurrent(torch.nn.Module):
    def __init__(self, width, generator):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
            self.embed = torch.nn.Embedding(len(symbols), width)
            self.stack = torch.nn.GRU(width, width, 2, batch_first=True)
        self.read = nn.linear(width, width, generator=generator)

    def forward(self, s):
        return F.linear(self.read(self.stack(self.embed(s))[0]), self.embed.weight)


def fitted(make, width):
    """Return parameters and the loss, in nats a character, on text that was not trained on."""
    generator = torch.Generator().manual_seed(0)
    model = make(width, generator)

    def loss(batch):
        return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())

    def batches():
        while True:
            at = torch.randint(len(shown) - BLOCK, (BATCH, 1), generator=generator)
            yield shown[at + torch.arange(BLOCK + 1)]

    train(model, loss, batches(), max_steps=STEPS, learning_rate=1e-2, schedule="cosine")
    with torch.no_grad():
        left = loss(held[: len(held) // (BLOCK + 1) * (BLOCK + 1)].view(-1, BLOCK + 1)).item()
    return sum(p.numel() for p in model.parameters()), left


# %%
# **Size.** Widths 8 to 32, two layers, all from the same blocks of text. A recurrent layer of width D has about 6
# D² parameters, a block 12 D²: the recurrent network is made wider, by √2, to have as many.

found = {
    "transformer": [fitted(Transformer, width) for width in (8, 16, 32)],
    "recurrent, as many parameters": [fitted(Recurrent, width) for width in (12, 22, 46)],
}
counts = np.bincount(shown, minlength=len(symbols)) + 1
frequency = -np.log(counts / counts.sum())[held].mean()
for name, points in found.items():
    print(f"{name:30}", "  ".join(f"{n:,}: {loss:.2f}" for n, loss in points))
print(f"{'frequency of characters alone':30} {frequency:.2f}")

with figure_style():
    figure, ax = plt.subplots(figsize=(5.6, 3.2))
    for (name, points), color in zip(found.items(), PALETTE):
        ax.semilogx(*zip(*points), marker="o", color=color, label=name)
    ax.axhline(frequency, color="#8b9096", linestyle=":", label="frequency of characters alone")
    ax.set(xlabel="parameters", ylabel="nats a character, held-out text")
    ax.legend()

# %%
# In so few steps and at these sizes the recurrent network wins: it reads in order, which a short context rewards.
# What attention has over it is that no step waits for the one before, so that a larger one trains in the same time
# on hardware made for it, and that no distance is too long. Both count at sizes and lengths that a page cannot
# reach; nor can it show what more text gains, since in so few steps hardly any text is read twice.
# ``benchmarks/sequence.py`` has figures on real text after ten minutes, beside an n-gram.
assert found["transformer"][-1][1] < found["transformer"][0][1] < frequency
