"""
5. Training: warm-up, clipping, label smoothing
================================================

Three habits of the transformer literature, each with the problem that it solves.
"""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

from peerattn.nn import Encoder, linear
from peerattn.render import PALETTE, figure_style
from peerattn.sequence import LanguageModel
from peerattn.training import SCHEDULES, make_schedule, train

# %%
# **Warm-up.** Adam divides a step by the size of past gradients, which are unknown at first, and
# the last blocks of post-norm stacks have large gradients (page 2). The learning rate therefore rises
# first. The schedules of :func:`peerattn.training.train`, as shares of the peak:


def shares(schedule, steps=200):
    rate = make_schedule(schedule, 1.0, steps)
    return [rate(step) for step in range(steps)]


with figure_style():
    figure, ax = plt.subplots(figsize=(6.0, 2.8))
    for schedule, color in zip(SCHEDULES, PALETTE):
        ax.plot([100 * t / 200 for t in range(200)], shares(schedule), color=color, label=schedule)
    ax.set(xlabel="share of the steps done (%)", ylabel="share of the peak learning rate")
    ax.legend(ncols=2)

# %%
# A post-norm stack of eight blocks, trained to predict which of two symbols occurs more often in a row of 15,
# with one learning rate, with and without warm-up. Everything else is equal, the batches too. Lines are
# means of ten steps.


def count_task(n, generator):
    symbols = torch.randint(2, (n, 15), generator=generator)
    return F.one_hot(symbols, 2).float(), (symbols.sum(1) > 7).long()


class Counter(torch.nn.Module):
    def __init__(self, generator):
        super().__init__()
        self.start = linear(2, 16, generator=generator)
        self.stack = Encoder(8, 16, 2, norm="post", generator=generator)
        self.end = linear(16, 2, generator=generator)

    def forward(self, rows):
        return self.end(self.stack(self.start(rows)).mean(1))


def losses(schedule, clip=None):
    generator = torch.Generator().manual_seed(0)
    model = Counter(generator)
    batches = (count_task(32, generator) for _ in range(150))
    record = train(model, lambda batch: F.cross_entropy(model(batch[0]), batch[1]), batches,
                   max_steps=150, learning_rate=0.004, schedule=schedule, clip=clip)  # fmt: skip
    return torch.tensor(record.losses)


runs = {"constant": losses("constant"), "warm-up, then cosine": losses("cosine")}
with figure_style():
    figure, ax = plt.subplots(figsize=(6.0, 2.8))
    for (name, path), color in zip(runs.items(), (PALETTE[1], PALETTE[0])):
        ax.plot(path.unfold(0, 10, 1).mean(1), color=color, label=name)
    ax.axhline(torch.log(torch.tensor(2.0)), color="#8b9096", linestyle=":", label="guessing: log 2")
    ax.set(xlabel="step", ylabel="cross-entropy (nats)")
    ax.legend()
print({name: round(path[-20:].mean().item(), 3) for name, path in runs.items()})

# %%
# **Clipping.** One odd batch can throw the parameters far away. ``clip=1.0`` shortens a gradient to norm 1
# and keeps its direction. Below, one outcome of one batch is 1,000 times too large; the slope that is
# sought is 2.


def paths(clip):
    slope = torch.zeros(1, requires_grad=True)
    generator, path = torch.Generator().manual_seed(0), []

    def batches():
        for step in range(120):
            x = torch.randn(20, generator=generator)
            y = 2 * x
            y[0] *= 1000 if step == 60 else 1
            path.append(slope.item())
            yield x, y

    def loss(batch):
        return (batch[1] - slope * batch[0]).square().mean()

    train([slope], loss, batches(), max_steps=120, learning_rate=0.1, schedule="constant", clip=clip)
    return path


with figure_style():
    figure, ax = plt.subplots(figsize=(6.0, 2.8))
    for clip, color in ((None, PALETTE[1]), (1.0, PALETTE[0])):
        ax.plot(paths(clip), color=color, label="no clipping" if clip is None else f"clip = {clip:g}")
    ax.axhline(2, color="#8b9096", linestyle=":")
    ax.set(xlabel="step (the odd batch is step 60)", ylabel="slope")
    ax.legend()

# %%
# **Label smoothing.** Cross-entropy is smallest at probability 1 on the right class, which needs scores without bound. With
# smoothing ε the target is :math:`1 - \epsilon + \epsilon / C` on the right one of C classes and
# :math:`\epsilon / C` on each other, and the best score is finite. ``TextClassifier`` and ``Translator``
# take ``label_smoothing=0.1``.

score = torch.linspace(-2, 10, 200)
logits = torch.stack([score, torch.zeros(200)], 1)
right = torch.zeros(200, dtype=torch.long)
with figure_style():
    figure, ax = plt.subplots(figsize=(6.0, 2.8))
    for epsilon, color in ((0.0, PALETTE[1]), (0.1, PALETTE[0]), (0.3, PALETTE[2])):
        path = F.cross_entropy(logits, right, label_smoothing=epsilon, reduction="none")
        ax.plot(score, path, color=color, label=f"ε = {epsilon:g}")
        if epsilon:
            ax.plot(score[path.argmin()], path.min(), marker="o", color=color)
    ax.set(xlabel="score of the right class less that of the other", ylabel="loss (nats)", ylim=(0, 2))
    ax.legend()

# %%
# **Nats and perplexity.** A language model's loss is the mean of :math:`-\log p` of what came next, in nats. Its
# exponential, the perplexity, is the number of symbols that the model chooses among in effect: guessing among C
# symbols has perplexity C.

text = "the cat sat on the mat. the dog sat on the log. " * 20
model = LanguageModel(n_layers=1, n_heads=2, d_model=32, max_steps=60, random_state=0).fit(text)
print(f"{model.loss(text):.2f} nats: perplexity {model.perplexity(text):.1f} of {len(set(text))} symbols")

# %%
# **Is it worth it?** Trained transformers beside cheap controls, with standard errors: :doc:`/core/domains`.
