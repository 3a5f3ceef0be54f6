"""
9. The progression on real firms
=================================

Peers by code, peers in a universe that is searched, peers among all: the steps of this course, on the oldest peer
problem there is. What is a firm worth, given what the market pays for others? The data are the S&P 500's, embedded; a
quarter of the firms is set aside as *private*: their prices are never shown, in no quarter, to any model.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

from peerattn import (
    CrossSectionalRidge,
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
    Reference,
    load_multiples,
)
from peerattn.models import IndustryMedianRegressor
from peerattn.network import search_map
from peerattn.render import PALETTE, figure_style

panel = load_multiples().before("2018")  # log price to book
kept = panel.y.notna()
X, y = panel.X[kept], panel.y[kept]
X["sub_industry"] = X["sub_industry"].astype(object).fillna(X["sector"].astype(object))  # where it is unknown
X[["sector", "sub_industry"]] = X[["sector", "sub_industry"]].astype("category")
firm, period = (X.index.get_level_values(level) for level in ("firm", "period"))

rng = np.random.default_rng(0)
private = np.asarray(firm.isin(rng.choice(firm.unique(), firm.nunique() // 4, replace=False)))
later = np.asarray(period >= "2015")
train, asked = ~later & ~private, later & private
listed = later & ~private
shown = y.where(~private)[later]  # prices of the listed firms, in the quarter that is asked about
print(
    f"fitted on {train.sum():,} rows of listed firms to 2014; asked for {asked.sum()} private and {listed.sum():,} listed"
)

# %%
# **Equal information.** All rungs read the same six ratios and two codes of a firm, the same rows of training, and the
# same prices of listed firms in the quarter. Only the weights differ:
#
# - codes: the median of the firm's GICS sector, of its sub-industry;
# - a kernel over characteristics (page 2), and its linear relative, the ridge across firms;
# - cross-attention: private firms search the listed ones (page 6);
# - self-attention: all firms of the quarter search each other.
#
# Boosting reads a firm's own characteristics and nobody else's price: what it predicts needs no peers.

universe = Reference(X[train], y[train]), Reference(X[listed], y[listed])
fixed = {
    "Sector median": IndustryMedianRegressor(industry="sector"),
    "Sub-industry median": IndustryMedianRegressor(industry="sub_industry", min_peers=3),
    "Kernel": NadarayaWatsonRegressor(),
    "Ridge across firms": CrossSectionalRidge(),
}
predicted = {
    name: model.fit(X[train], y[train]).predict(X[later], outcomes=shown) for name, model in fixed.items()
}
cross = PeerAttentionRegressor(attention="cross", task="nowcast", random_state=0)
cross.fit(X[train], y[train], reference=universe[0])
predicted["Cross-attention"] = cross.predict(X[later], reference=universe[1])
attention = PeerAttentionRegressor(task="nowcast", random_state=0).fit(X[train], y[train])
predicted["Self-attention"] = attention.predict(X[later], outcomes=shown)

coded = X.assign(sector=X["sector"].cat.codes, sub_industry=X["sub_industry"].cat.codes)
boosting = HistGradientBoostingRegressor(
    learning_rate=0.05, max_iter=150, max_leaf_nodes=15, categorical_features=[6, 7], random_state=0
)
boosting.fit(coded[train], y[train])
predicted["No peers: boosting"] = pd.Series(boosting.predict(coded[later]), y[later].index)

# %%
# **What each step gains.** Median absolute error of the value, in per cent of it. Firms that were trained on, in later
# quarters, stand beside firms that no model has seen.

truth = y[later]
error = pd.DataFrame({name: (np.exp(found - truth) - 1).abs() for name, found in predicted.items()})
who = pd.Series(np.where(private[later], "private", "listed"), truth.index, name="firms")
table = 100 * error.groupby(who).median().T[["private", "listed"]]
print(table.round(1))

# How sure is a difference? Firms are drawn, with all their quarters.
ours = error[private[later]]
firms = ours.index.get_level_values("firm")
rows_of = {name: np.flatnonzero(firms == name) for name in firms.unique()}
names = list(rows_of)


def drawn_gains(other, one, n_draws=300):
    """The fall of the median error from one rung to another, over drawn private firms."""
    values, gains = ours[[other, one]].to_numpy(), []
    for _ in range(n_draws):
        at = np.concatenate([rows_of[names[k]] for k in rng.integers(len(names), size=len(names))])
        gains.append(np.subtract(*np.median(values[at], axis=0)))
    return 100 * np.quantile(gains, [0.05, 0.95])


steps = [
    ("Sector median", "Sub-industry median"),
    ("Sub-industry median", "Kernel"),
    ("Kernel", "Cross-attention"),
    ("Cross-attention", "Self-attention"),
    ("No peers: boosting", "Cross-attention"),
]
for before, after in steps:
    low, high = drawn_gains(before, after)
    gain = table.loc[before, "private"] - table.loc[after, "private"]
    print(f"{before} → {after}: {gain:+.1f} points (90 % interval {low:+.1f} to {high:+.1f})")

with figure_style():
    figure, ax = plt.subplots(figsize=(7.4, 3.6))
    place = np.arange(len(table))
    for k, (name, color) in enumerate(zip(table, PALETTE)):
        ax.barh(
            place + 0.38 * k,
            table[name],
            height=0.36,
            color=color,
            label=("private firms, never seen", "listed firms")[k],
        )
    ax.set(
        yticks=place + 0.19,
        yticklabels=table.index,
        xlabel="median error of the value (per cent)",
        title="Price to book, 2015 to 2017",
    )
    ax.invert_yaxis()
    ax.legend(loc="lower right")

# %%
# Codes miss by nearly half, and the finer code gains nothing: most sub-industries hold a handful of firms. The large step
# is from codes to *characteristics*, by a kernel; what a metric that is learned adds to it is hardly more than its
# error. From cross- to self-attention nothing is shown for private firms, and **boosting, which looks at nobody, does as
# well as either**: what the market pays for these ratios is learned from the past as well as it is read from others'
# prices of the day.
#
# Self-attention wins for listed firms, and hardly by peers: it may read a firm's own past multiples, which say more than
# any other firm. The tables of evidence say what entered, first for self-, then for cross-attention. A private firm has
# no such past; for it the last rung is what own characteristics say.

print(attention.evidence_[["factor", "t", "gain", "entered"]].round(2).to_string())
print(cross.evidence_[["factor", "t", "gain", "entered"]].round(2).to_string())

# %%
# **Which characteristic looks for which?** On page 4 a startup and its matrix were invented. Beside trees of own
# characteristics no head of cross-attention enters; with ``kappa=None`` heads enter in full, unjudged. Here is the matrix of the
# first one, in scores per standard deviation of each (codes are left out). A row is what the private firm has, a column what it
# then looks for among the listed.

unjudged = PeerAttentionRegressor(attention="cross", task="nowcast", kappa=None, random_state=0)
unjudged.fit(X[train], y[train], reference=universe[0])
ratios = list(X.columns[:6])
profile = unjudged.search_profile().matrices[0].loc[ratios, ratios]
with figure_style():
    figure, ax = plt.subplots(figsize=(5.4, 4.0))
    search_map(profile, ax=ax, title="What firms look for")

# %%
# The profitable look for the large. Most other cells should not be read: with other random starts several had another sign,
# and no prediction was better for them. A matrix of one head is a description, no law; scores are made of the codes, too. What it
# implies is easier to read in the network: whom private firms look to, and how much more often to firms of their own code
# than a draw at random would.

quarter = np.asarray(period == period[later].max())
network = unjudged.peer_network(
    X[quarter & private], reference=Reference(X[quarter & ~private], y[quarter & ~private])
)
edges = network.edges()
codes = X[quarter].droplevel("period")
for code in ("sector", "sub_industry"):
    own, peer = (codes[code].astype(str).reindex(edges[side]).to_numpy() for side in ("firm", "peer"))
    weight = edges["weight"].abs()
    share, chance = weight[own == peer].sum() / weight.sum(), np.mean(own == peer)
    print(f"weight on peers of the same {code}: {share:.0%}, at random {chance:.0%}")
for name in ("AAPL", "AMZN", "BA", "SBUX", "DE"):
    print(name, "→", ", ".join(network.peers(name, k=4)["peer"]))

# %%
# Sector and sub-industry do not matter for whom the learned rule looks to: it looks to large firms that earn well, in any
# industry. That is what a list of peers by code misses, and why the kernel of page 2 was already ahead of it.
#
# The same on a panel of your own, with tests and without a line of this page: ``compare(..., task="nowcast",
# reference=..., cv=NewFirms(...))``; :doc:`/examples/valuation` has the whole question.
assert table.loc["Cross-attention", "private"] < table.loc["Sector median", "private"] - 5
