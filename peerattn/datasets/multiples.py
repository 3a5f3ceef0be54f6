"""Valuation multiples of S&P 500 firms: price to book, sales, earnings and EBITDA, with the fundamentals behind them."""

from __future__ import annotations

from typing import Literal

import pandas as pd

from peerattn.datasets.embedded import embedded_panel, stored_frame
from peerattn.exceptions import checked
from peerattn.panel import Panel

Multiple = Literal["log_pb", "log_ps", "log_pe", "log_cap_ebitda"]


@checked
def load_multiples(outcome: Multiple = "log_pb") -> Panel:
    r"""Load a valuation multiple of the S&P 500 firms at fourteen quarter-ends, 2013 to 2026.

    The multiple of firm i is its price over a fundamental per share, in logs,

    .. math:: y_{it} = \log(P_{it} / B_{it}),

    to be explained by fundamentals and by the multiples of comparable firms in the same quarter (``task="nowcast"``).

    Parameters
    ----------
    outcome : {"log_pb", "log_ps", "log_pe", "log_cap_ebitda"}, default "log_pb"
        Log of price to book, price to sales, price to earnings, or market value to EBITDA. NaN where the denominator is not
        positive or not reported.

    Returns
    -------
    Panel
        6,940 rows, indexed by (firm, period): the ticker and the quarter-end. Characteristics, all ratios in which the price
        cancels: ``roe`` (earnings over book value), ``net_margin`` and ``ebitda_margin`` (over sales), ``turnover`` (log of
        sales over book value), ``log_sales`` (log of sales in billion dollars), ``payout`` (dividends over earnings). Codes:
        ``sector`` and, which is the industry, ``sub_industry`` (GICS; unknown in 843 rows).

    Raises
    ------
    InputError
        For another outcome.

    See Also
    --------
    load_market_values : Market values of the same rows, to turn a multiple into dollars.

    Notes
    -----
    The price, the market value and the book value or sales of the multiple itself are not in the panel: with them the
    multiple is an identity. A firm's own multiple of the quarter before misses by 9 per cent in the median to 2017; where it
    is used, persistence explains most.

    Kept are the quarters whose prices and fundamentals belong together; they are not equally spaced: 2013Q1, Q2, Q4;
    2014Q1–Q4; 2015Q3; 2016Q1, Q2; 2017Q1; 2024Q4; 2026Q2, Q3. From October 2024 the list of members is frozen, so that firms
    of 2026 are survivors. Sub-industries before 2018 are a later classification; Real Estate is a sector from 2017 on, and
    Communication Services changes in 2018. EBITDA of financial firms means little. There are no debt and no cash, hence no
    enterprise value.

    Made by ``data/make_multiples.py`` of the version history of ``datasets/s-and-p-500-companies-financials``, under the Open
    Data Commons Public Domain Dedication (``multiples_NOTICE.txt`` beside the data). Its values came from Yahoo Finance,
    whose terms the dedication does not cover.

    References
    ----------
    Bhojraj, S. and Lee, C. M. C. (2002), Who is my peer? A valuation-based approach to the selection of comparable firms,
    Journal of Accounting Research 40(2), 407–439.

    Liu, J., Nissim, D. and Thomas, J. (2002), Equity valuation using multiples, Journal of Accounting Research 40(1), 135–172.

    Examples
    --------
    >>> panel = load_multiples()
    >>> print(panel)
    Panel(6,940 rows, 716 firms, 14 periods, outcome='log_pb')
    outcome: log_pb (known in 6,660 of 6,940 rows)
    characteristics (6): roe, net_margin, ebitda_margin, turnover, log_sales, payout
    codes (2): sector, sub_industry
    >>> panel.X.loc[("AAPL", "2014-12-31"), "sub_industry"]
    'Technology Hardware, Storage & Peripherals'
    """
    return embedded_panel("multiples", outcome)


@checked
def load_market_values() -> pd.Series:
    """Load the market values of the rows of :func:`load_multiples`, in billion dollars.

    Returns
    -------
    Series
        Indexed by (firm, period); NaN where not reported. With a predicted log multiple ``ŷ`` the implied value is
        ``market_value * exp(ŷ − y)``.

    Examples
    --------
    >>> round(load_market_values()["AAPL", "2014-12-31"])
    674
    """
    values = stored_frame("multiples").set_index(["firm", "period"])["market_cap"]
    return values.astype(float).rename("market_value")
