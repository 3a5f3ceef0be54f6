"""
4. Encoder, decoder, both
=========================

Three ways to stack blocks, by the rows that may attend to each other:

=================  ====================================  =====================  ====================
stack              attends to                             task                   here
=================  ====================================  =====================  ====================
encoder            all rows                              what is there          firms of a period
decoder            itself and what came before           writing on             ``LanguageModel``
encoder, decoder   the same, and the encoder             rewriting              ``Translator``
=================  ====================================  =====================  ====================

Attention from one stack to the other is **cross-attention**: queries from one set, keys and values from
another. Firms use it, too: focal firms attend to a separate reference universe
(:doc:`/guide/cross-attention`).
"""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

from peerattn.nn import EncoderDecoder, TokenEmbedding, sinusoidal_positions
from peerattn.render import PALETTE, figure_style, weight_colours
from peerattn.training import train

LENGTH, SYMBOLS, START, WIDTH = 6, 10, 10, 32

# %%
# The task: read six symbols and write them backwards. The decoder sees what it has written, one symbol late
# (it starts from a start sign), and the whole source.


class Reverser(torch.nn.Module):
    def __init__(self, generator):
        super().__init__()
        self.embed = TokenEmbedding(SYMBOLS + 1, WIDTH, generator=generator)
        self.stacks = EncoderDecoder(1, 1, WIDTH, 2, generator=generator)

    def forward(self, source, target, **options):
        places = 0.3 * sinusoidal_positions(LENGTH, WIDTH)
        rows = [self.embed(symbols) + places for symbols in (source, target)]
        return self.stacks(*rows, **options)


def sources(n, generator):
    return torch.randint(SYMBOLS, (n, LENGTH), generator=generator)


def shifted(source):
    """What the decoder has before it writes each symbol."""
    return torch.cat([torch.full((len(source), 1), START), source.flip(1)[:, :-1]], 1)


def accuracy(model, generator):
    """Share of symbols written right when the model has only its own words to go on."""
    source = sources(300, generator)
    written = torch.full((300, 1), START)
    with torch.no_grad():
        for _ in range(LENGTH):
            padded = F.pad(written, (0, LENGTH - written.shape[1]), value=START)  # what comes later is masked
            rows = model(source, padded)[:, written.shape[1] - 1]
            written = torch.cat([written, model.embed.logits(rows)[:, :SYMBOLS].argmax(1, keepdim=True)], 1)
    return (written[:, 1:] == source.flip(1)).float().mean().item()


# %%
# Training shows all positions at once (the causal mask hides the answer), by the package's one training
# loop:

generator = torch.Generator().manual_seed(0)
model = Reverser(generator)


def loss(source):
    rows = model(source, shifted(source))
    return F.cross_entropy(model.embed.logits(rows).flatten(0, 1), source.flip(1).flatten())


record = train(model, loss, (sources(64, generator) for _ in range(500)), max_steps=500, learning_rate=0.01)
share = accuracy(model, generator)
print(record, f"{share:.1%} of new symbols right (chance: {1 / SYMBOLS:.0%})")
assert share > 0.95

# %%
# **The cross-attention shows what it learned**: writing position t it attends to source position 7 − t,
# the falling diagonal. The decoder's self-attention is lower triangular, because of its mask.

source = sources(1, generator)
_, [(own, across)] = model(source, shifted(source), return_weights=True)
with figure_style():
    figure, axes = plt.subplots(1, 3, figsize=(8.6, 2.9))
    for ax, weights, title in zip(
        axes,
        (own[0].mean(0), *across[0]),
        ("self-attention", "cross-attention, head 1", "cross-attention, head 2"),
    ):
        ax.imshow(weights.detach().numpy(), cmap=weight_colours(), vmin=0, vmax=1)
        ax.set(title=title, xlabel="source position" if "cross" in title else "written before")
        ax.set_xticks(range(LENGTH), range(1, LENGTH + 1))
        ax.set_yticks(range(LENGTH), range(1, LENGTH + 1))
    axes[0].set_ylabel("position being written")

# %%
# The loss in training, beside that of guessing:

with figure_style():
    figure, ax = plt.subplots(figsize=(5.6, 2.8))
    ax.plot(record.losses, color=PALETTE[0])
    ax.axhline(
        torch.log(torch.tensor(float(SYMBOLS))), color=PALETTE[1], linestyle="--", label="guessing: log 10"
    )
    ax.set(xlabel="step", ylabel="cross-entropy (nats a symbol)", title="Training")
    ax.legend()
