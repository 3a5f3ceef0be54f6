"""
7. From industry codes to a transformer, on real firms
======================================================

The steps of this course on one problem: what is a firm worth, given what the market pays for other firms? The outcome is
log price to book of the 80 largest firms of the S&P 500, by median market value to 2015. Every fifth firm is treated as
*private*: its price is never observed, in no quarter, by any model. Each model is fitted on the quarters to 2015 and values
the private firms in 2016 and 2017.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from peerattn import (
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
    PeerTransformerRegressor,
    Reference,
    load_multiples,
)
from peerattn.datasets import load_market_values
from peerattn.models import IndustryMedianRegressor
from peerattn.network import heat_map
from peerattn.render import PALETTE, figure_style

panel = load_multiples().before("2018")
market_value = load_market_values()  # to 2015: later values must not decide which firms are in the sample
market_value = market_value[market_value.index.get_level_values("period") < "2016"]
largest = market_value.groupby("firm").median().nlargest(80).index.sort_values()
kept = panel.X.index.get_level_values("firm").isin(largest)
X, y = panel.X[kept].drop(columns="sub_industry"), panel.y[kept]
firm, period = (X.index.get_level_values(level) for level in ("firm", "period"))
private = firm.isin(largest[::5])
past = period < "2016"
X_past, y_past = X[past & ~private], y[past & ~private]
X_now, observed = X[~past], y.where(~private)[~past]  # listed firms' prices of the quarter are observed
priced = private[~past] & y[~past].notna()
quarter = period.max()
errors: dict[str, float] = {}


def value(name, model, predicted, network):
    """Keep the median error for private firms, and draw the weights of the last quarter, ordered by sector."""
    miss = np.abs(np.exp(predicted[priced] - y[~past][priced]) - 1)
    errors[name] = float(np.median(miss))
    with figure_style():
        figure, ax = plt.subplots(figsize=(4.2, 3.6))
        heat_map(network, quarter, order=X_now["sector"], ax=ax)
        ax.set(xticks=[], yticks=[], title=f"{name}: median error {errors[name]:.0%}")


# %%
# **Industry peers.** The value is the sector's median, as practitioners take it. The map shows equal weights within the
# sector and zero elsewhere: scores of 0 and −∞. In all maps private firms have white columns: they have no price, and so are
# nobody's peers.

industry = IndustryMedianRegressor(industry="sector").fit(X_past, y_past)
value(
    "Industry",
    industry,
    industry.predict(X_now, outcomes=observed),
    industry.peer_network(X_now, outcomes=observed),
)

# %%
# **Kernel.** The weights fall with the distance in five ratios and log sales, and are smaller for firms of another sector; the
# bandwidths are fixed by a rule.

kernel = NadarayaWatsonRegressor().fit(X_past, y_past)
value("Kernel", kernel, kernel.predict(X_now, outcomes=observed), kernel.peer_network(X_now, outcomes=observed))

# %%
# **Cross-attention.** Private firms attend to the listed ones, and queries and keys are learned. ``kappa=None`` shows the
# heads in full, as in a lecture; without it heads that do not help in held-out quarters get no weight.

heads = {"task": "nowcast", "n_heads": 1, "d_head": 4, "kappa": None, "random_state": 0}
cross = PeerAttentionRegressor(attention="cross", **heads)
cross.fit(X_past, y_past, reference=Reference(X_past, y_past))
listed = Reference(X_now[~private[~past]], observed[~private[~past]])
value(
    "Cross-attention",
    cross,
    cross.predict(X_now, reference=listed),
    cross.peer_network(X_now, reference=listed),
)

# %%
# **Self-attention.** All firms of a quarter attend to each other.

attention = PeerAttentionRegressor(**heads).fit(X_past, y_past)
value(
    "Self-attention",
    attention,
    attention.predict(X_now, outcomes=observed),
    attention.peer_network(X_now, outcomes=observed),
)

# %%
# **Transformer.** Whole blocks: attention, then a feed-forward network for each firm, both with residuals and normalisation
# (:doc:`/learn_core/plot_02_block`, and page 8). In training a share of the prices is
# hidden and predicted, as words are in a masked language model.

blocks = {"task": "nowcast", "kappa": None, "d_model": 16, "max_steps": 100, "random_state": 0}
transformer = PeerTransformerRegressor(**blocks)
transformer.fit(X_past, y_past)
value(
    "Transformer",
    transformer,
    transformer.predict(X_now, outcomes=observed),
    transformer.peer_network(X_now, outcomes=observed),
)

# %%
# **The control.** A transformer is nonlinear in a firm's own characteristics, too. The same network without attention shows
# how much of its gain has nothing to do with peers.

alone = PeerTransformerRegressor(attention=False, **blocks).fit(X_past, y_past)
miss = np.abs(np.exp(alone.predict(X_now, outcomes=observed)[priced] - y[~past][priced]) - 1)
errors["No attention"] = float(np.median(miss))

# %%
# **Side by side.** All models are fitted on the same rows and see the same prices. The industry median uses the sector alone.
# With so few private firms, differences of a few points are noise.

n_private = firm[~past][priced].nunique()
print(f"{n_private} private firms with a price in 2016 or 2017")
print(pd.Series(errors, name="median error, private firms").round(3).to_string())
with figure_style():
    figure, ax = plt.subplots(figsize=(6.4, 2.4))
    ax.barh(list(errors), [100 * error for error in errors.values()], color=PALETTE[0])
    ax.set(xlabel="median error of the value, private firms (per cent)")
    ax.invert_yaxis()

# %%
# A network of one fit is a description: other seeds give other weights where predictions hardly differ. Whether the learned
# steps improve on the fixed ones is tested by ``compare``, with controls that use the same information and no peers;
# :doc:`/examples/valuation` does so on all firms.
