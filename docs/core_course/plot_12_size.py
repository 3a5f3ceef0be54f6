"""
12. How loss falls with size and with data, beside a recurrent network
======================================================================

What a language model gains from being larger, and from reading more, follows smooth curves over many orders of magnitude
(Kaplan et al. 2020). Two cores cover the first of them. The text is what every installation has: the docstrings of
numpy. The control is a recurrent network (GRU, Cho et al. 2014) of about the same number of parameters, trained alike.
"""

import inspect

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F

from peerattn import nn
from peerattn.render import PALETTE, figure_style
from peerattn.training import train

# benchmarks/course_pages.py runs this page with more steps and sizes
STEPS, BATCH, BLOCK, RATE = globals().get("TRAINING", (120, 12, 48, 1e-2))
WIDTHS, WIDTH = globals().get("WIDTHS", (8, 16, 32)), globals().get("WIDTH", 16)
SHARES = globals().get("SHARES", (1 / 256, 1 / 64, 1 / 16, 1))

text = "\n".join(inspect.getdoc(getattr(np, name)) or "" for name in sorted(np.__all__) if name != "test")
symbols = sorted(set(text))
numbers = torch.tensor(np.searchsorted(symbols, list(text)))
tested, chosen_by, shown = numbers[:20_000], numbers[20_000:40_000], numbers[40_000:]
print(f"{len(shown):,} characters for training, {len(symbols)} different ones")


class Transformer(torch.nn.Module):
    def __init__(self, width, generator):
        super().__init__()
        self.embed = nn.TokenEmbedding(len(symbols), width, std=0.02, generator=generator)
        self.stack = nn.Encoder(2, width, max(1, width // 16), rotary=True, generator=generator)

    def forward(self, s):
        return self.embed.logits(self.stack(self.embed(s), mask=nn.causal_mask(s.shape[1])))


class Recurrent(torch.nn.Module):
    """A recurrent layer of width D has 6 D² parameters, a block 12 D²: this one is wider by √2."""

    def __init__(self, width, generator):
        super().__init__()
        width = round(2**0.5 * width)
        with torch.random.fork_rng():
            torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
            self.embed = torch.nn.Embedding(len(symbols), width)
            self.stack = torch.nn.GRU(width, width, 2, batch_first=True)
        self.read = nn.linear(width, width, generator=generator)

    def forward(self, s):
        return F.linear(self.read(self.stack(self.embed(s))[0]), self.embed.weight)


def fitted(make, width, read=shown):
    """Return the number of parameters and the loss, in nats a character, on text that was not trained on."""
    generator = torch.Generator().manual_seed(0)
    model = make(width, generator)

    def loss(batch):
        return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())

    def batches():
        while True:
            at = torch.randint(len(read) - BLOCK, (BATCH, 1), generator=generator)
            yield read[at + torch.arange(BLOCK + 1)]

    def held(text):
        with torch.no_grad():
            return loss(text[: len(text) // (BLOCK + 1) * (BLOCK + 1)].view(-1, BLOCK + 1)).item()

    train(
        model, loss, batches(), max_steps=STEPS, learning_rate=RATE, schedule="cosine",
        validate=lambda: held(chosen_by), validate_every=max(40, STEPS // 20),
    )  # fmt: skip
    return sum(p.numel() for p in model.parameters()), held(tested)


# %%
# **Size.** Two layers, all from the whole text, in the same number of steps. **Data.** One width, from the first part of the
# text. A short text is read many times: the step of least loss on other text is kept.

kinds = {"transformer": Transformer, "recurrent, as many parameters": Recurrent}
by_size = {name: [fitted(make, width) for width in WIDTHS] for name, make in kinds.items()}
texts = [shown[: int(share * len(shown))] for share in SHARES]
by_data = {
    name: [(len(read), fitted(make, WIDTH, read)[1]) for read in texts] for name, make in kinds.items()
}
counts = np.bincount(shown, minlength=len(symbols)) + 1
frequency = -np.log(counts / counts.sum())[tested].mean()
for title, found in {"parameters": by_size, "characters": by_data}.items():
    for name, points in found.items():
        print(f"{title}, {name:30}", "  ".join(f"{n:,}: {loss:.2f}" for n, loss in points))
print(f"frequency of characters alone {frequency:.2f}")


def drawn(by_size, by_data, frequency):
    with figure_style():
        figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.2), sharey=True)
        for ax, found, unit in zip(axes, (by_size, by_data), ("parameters", "characters to learn from")):
            for (name, points), color in zip(found.items(), PALETTE):
                ax.plot(*zip(*points), marker="o", color=color, label=name)
            ax.axhline(frequency, color="#8b9096", linestyle=":", label="frequency of characters alone")
            ax.set(xscale="log", xlabel=f"thousand {unit} (log scale)")
            at = [n for n, _ in found["transformer"]]
            ax.set_xticks(at, [f"{n / 1000:.3g}" for n in at])
            ax.minorticks_off()
        axes[0].set(ylabel="nats a character, other text", title="By size")
        axes[1].set(title="By data")
        axes[0].legend()
    return figure


figure = drawn(by_size, by_data, frequency)

# %%
# In so few steps the recurrent network is far ahead: it reads in order, which a short context rewards, while attention has to
# find out first that the characters just before matter. **With 2,000 steps**, larger networks and sixteen minutes of one core
# (``python benchmarks/course_pages.py --pages size``) the curves are those of the literature:
#
# .. image:: /_static/size_and_data.svg
#    :alt: Loss on other text against parameters and against characters to learn from, for a transformer and a recurrent network
#
# Each step in size lowers the loss, by less each time: 1.91, 1.40, 1.08 and 0.92 nats for 8 thousand to 409 thousand
# parameters. More text does so as long as text is what is missing, from 1.98 nats with 14 thousand characters to 1.11
# with 230 thousand; four times as many change little in as many steps. (Docstrings repeat each other's phrases; prose is
# harder.) The recurrent network stays ahead by a tenth of a nat where text is plenty, and falls behind where it is scarce.
# What attention has over it is that no step waits for the one before, so that a larger one trains in the same time on
# hardware made for it, and that no distance is too long: both count at sizes that two cores do not reach.
# ``benchmarks/sequence.py`` has a language model beside an n-gram.
assert by_size["transformer"][-1][1] < by_size["transformer"][0][1] < frequency
