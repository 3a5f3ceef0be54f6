"""
13. Trajectories: acting by predicting the next action
======================================================

A record of what somebody did is a sequence too: what was still to be earned, the state, the action, and so
on for every step. A model that predicts the next action of such a record can act: given a *desired return*, it
predicts the actions that go with it (the decision transformer; Chen et al. 2021, *Decision Transformer:
Reinforcement Learning via Sequence Modeling*, NeurIPS). The trajectory transformer (Janner, Li and Levine 2021, *Offline
Reinforcement Learning as One Big Sequence Modeling Problem*, NeurIPS) predicts every part of the record, states and rewards too,
each number cut into classes, and *plans*: a beam search over predicted futures keeps those of largest predicted return.
"""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

from peerattn import nn
from peerattn.render import PALETTE, figure_style
from peerattn.training import train

SEED = globals().get("SEED", 0)  # benchmarks/course_pages.py runs this page with others
generator = torch.Generator().manual_seed(SEED)

# %%
# **The task.** A cart on a line shall stay near 0. An action pushes it left, not at all, or right; every
# step near 0 earns 1. The records are those of operators who mostly push right, whatever the state; an
# operator of skill q does the right thing in a share q of the steps, and nobody's q is above 0.7.

STEPS, PUSH, NOISE, NEAR = 12, 0.5, 0.15, 0.5


def right_action(x):  # 0: left, 1: none, 2: right
    return torch.where(x.abs() < PUSH / 2, 1, torch.where(x > 0, 0, 2))


def play(act, n):
    """Let a policy act for n episodes: states, actions and rewards, each (n, STEPS)."""
    x = 3 * torch.rand(n, generator=generator) - 1.5
    states, actions, rewards = torch.zeros(n, 0), torch.zeros(n, 0, dtype=torch.long), torch.zeros(n, 0)
    for _ in range(STEPS):
        states = torch.cat([states, x[:, None]], 1)
        action = act(states, actions, rewards)
        x = x + PUSH * (action - 1) + NOISE * torch.randn(n, generator=generator)
        actions = torch.cat([actions, action[:, None]], 1)
        rewards = torch.cat([rewards, (x.abs() < NEAR).float()[:, None]], 1)
    return states, actions, rewards


def operators(n):
    skill = 0.7 * torch.rand(n, generator=generator)

    def act(states, actions, rewards):
        skilled = torch.rand(n, generator=generator) < skill
        return torch.where(skilled, right_action(states[:, -1]), 2)

    return act


states, actions, rewards = play(operators(4000), 4000)
to_go = rewards.flip(1).cumsum(1).flip(1)  # what is still to be earned, before each action
earned = to_go[:, 0]
print(
    f"operators earn {earned.mean():.2f} of {STEPS}; the best twentieth {earned.quantile(0.95):.0f} or more"
)

# %%
# **The model.** Three rows a step (return to go, state, action), each by a linear map, the step's position
# added; a causal stack; the action is read off at the state's row. Behaviour cloning is the same model that
# is not shown the returns.


class Trajectories(torch.nn.Module):
    def __init__(self, sees_returns, d_model=32):
        super().__init__()
        self.sees_returns = sees_returns
        self.of_return, self.of_state, self.of_action = (
            nn.linear(width, d_model, generator=generator) for width in (1, 1, 3)
        )
        self.positions = nn.LearnedPositions(STEPS, d_model, generator=generator)
        self.blocks = nn.Encoder(2, d_model, 2, generator=generator)
        self.action = nn.linear(d_model, 3, generator=generator)

    def forward(self, to_go, states, actions):  # (n, t) each -> logits (n, t, 3)
        rows = [
            self.of_return(to_go[..., None] / STEPS * self.sees_returns),
            self.of_state(states[..., None]),
            self.of_action(F.one_hot(actions, 3).float()),
        ]
        n, t = states.shape
        rows = (torch.stack(rows, 2) + self.positions(t)[:, None]).flatten(1, 2)  # (n, 3 t, d_model)
        return self.action(self.blocks(rows, mask=nn.causal_mask(3 * t))[:, 1::3])


def fitted(sees_returns, chosen):
    model = Trajectories(sees_returns)
    draws = (chosen[torch.randint(len(chosen), (64,), generator=generator)] for _ in range(200))

    def loss(at):
        logits = model(to_go[at], states[at], actions[at])
        return F.cross_entropy(logits.flatten(0, 1), actions[at].flatten())

    train(model, loss, draws, max_steps=200, learning_rate=3e-3)
    return model


everyone = torch.arange(len(states))
best_tenth = earned.argsort(descending=True)[: len(states) // 10]
models = {
    "return, state, action": fitted(True, everyone),
    "behaviour cloning": fitted(False, everyone),
    "cloning of the best tenth": fitted(False, best_tenth),
}

# %%
# **Acting.** The first row holds the desired return, less what was earned after each step. Actions are
# drawn from the predicted distribution, or the most likely one is taken.


@torch.no_grad()
def returns(model, asked, most_likely, n=500):
    def act(states, actions, rewards):
        blank = torch.zeros(n, 1)
        seen = torch.cat([actions, blank.long()], 1)  # the action to come is behind the causal mask
        to_go = asked - torch.cat([blank, rewards.cumsum(1)], 1)
        logits = model(to_go, states, seen)[:, -1]
        if most_likely:
            return logits.argmax(1)
        return torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]

    return play(act, n)[2].sum(1).mean().item()


asked = earned.quantile(0.95).item()
found = {"operators (the records)": {"drawn": earned.mean().item()}}
for name, model in models.items():
    found[name] = {how: returns(model, asked, how == "most likely") for how in ("drawn", "most likely")}
rule = play(lambda states, actions, rewards: right_action(states[:, -1]), 500)[2].sum(1).mean().item()
found["the right action always"] = {"drawn": rule, "most likely": rule}
for name, row in found.items():
    print(f"{name:26}", "  ".join(f"{how} {value:5.2f}" for how, value in row.items()))

# %%
# **It earns more when the desired return is higher**; cloning does not depend on it. The best tenth of
# the records, cloned, is the stronger control: here it earns more than the model. It has to know
# beforehand what counts as good. The task was made so that most records push the wrong way; where records
# are good, cloning the most likely action is itself near the best.

wanted = torch.arange(0, STEPS + 1, 2)
with figure_style():
    figure, ax = plt.subplots(figsize=(6.0, 3.2))
    for (name, model), color in zip(models.items(), PALETTE):
        ax.plot(wanted, [returns(model, r, False, 200) for r in wanted], marker="o", color=color, label=name)
    ax.plot(wanted, wanted, color="#8b9096", linestyle=":", label="as asked")
    ax.set(
        xlabel="return asked for (steps near 0)", ylabel="mean return earned (steps near 0)", ylim=(0, STEPS)
    )
    ax.legend()

# %%
# **What an estimator would take.** Records as a panel: one row per episode and step with states, action and
# reward, as ``fit(X, actions, rewards=...)``, the desired return in ``predict``. Classes of equal counts
# would make numbers symbols, and ``LanguageModel(...).fit(numbers)`` with ``generate(..., n_beams=...)`` is
# then Janner's model but for its score, which adds predicted rewards to log probabilities. It is not in the
# package: such a model needs an environment to act in and to be scored by, and panels of firms have none.
