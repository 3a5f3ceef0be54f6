"""
The strongest links of large US firms
=====================================

The first picture of this site. Profitability in 2016 is predicted from firms' own accounts and from the profitability of other
firms of that year (a nowcast); which firms help is learned in 2013 to 2015. An arrow leads from a firm to the peer whose
outcome is used in its prediction.
"""

import matplotlib.pyplot as plt

from peerattn import load_russell
from peerattn.models import CovariancePeerRegressor
from peerattn.network import ties_plot
from peerattn.render import figure_style

panel = load_russell()  # 500 large US firms, fiscal years 2013 to 2016
past, last = panel.before(2016), panel.since(2016)
model = CovariancePeerRegressor(random_state=0).fit(past)
network = model.peer_network(last.X, outcomes=last.y)

with figure_style():
    figure, ax = plt.subplots(figsize=(4.4, 6.2), layout="constrained")
    ties_plot(network, 2016, firms=20, k=1, groups=panel.X["sector"], ax=ax)
    ax.legend(ncols=2, loc="upper left", bbox_to_anchor=(0, 0), handletextpad=0.2)  # sectors
    for name in ax.texts:
        name.set_fontsize(8.5)  # readable on a phone
    ax.set_title("Profitability of large US firms, 2016", fontsize=12, pad=32)
    note = "An arrow leads from a firm to the peer\nwith most weight in its prediction"
    ax.annotate(note, (0, 1), xytext=(0, 6), xycoords="axes fraction", textcoords="offset points", fontsize=9)
