"""Real panels that are embedded in the package, and how their files are read."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from peerattn.exceptions import validate_arguments
from peerattn.panel import Panel, read_panel

Outcome = Literal["ebit_ta", "ebit_ta_next", "sales_growth_next"]
Multiple = Literal["log_pb", "log_ps", "log_pe", "log_cap_ebitda"]


@validate_arguments
def load_grunfeld() -> Panel:
    """Load the Grunfeld panel: next year's investment of eleven US firms, 1935 to 1954.

    ``invest_next[i, t] = invest[i, t + 1]``: what firm i invests in the year after the row's.

    Returns
    -------
    Panel
        220 rows, indexed by (firm, period), the period being the year. Characteristics, in millions of 1947
        dollars: ``invest`` (gross investment in plant and equipment), ``value`` (market value of the firm at the
        end of the preceding year), ``capital`` (stock of plant and equipment at the end of the preceding year).
        Code: ``sic``, which is the industry. Outcome: ``invest_next``; the 11 rows of 1954 are unknown (NaN).

    Notes
    -----
    The figures are those that statsmodels carries (``statsmodels.datasets.grunfeld``), SIC codes are ours.
    A firm that has no row for the next year would get NaN, not the row after.

    References
    ----------
    Grunfeld, Y. (1958). *The Determinants of Corporate Investment*. PhD thesis, University of Chicago.

    Kleiber, C. and Zeileis, A. (2010). The Grunfeld Data at 50. *German Economic Review* 11(4), 404-417.

    Examples
    --------
    >>> panel = load_grunfeld()
    >>> print(panel)
    Panel(220 rows, 11 firms, 20 periods, outcome='invest_next')
    outcome: invest_next (known in 209 of 220 rows)
    characteristics (3): invest, value, capital
    codes (1): sic
    >>> panel.y["General Motors"].head(2)
    period
    1935    391.8
    1936    410.6
    Name: invest_next, dtype: float64
    """
    from statsmodels.datasets import grunfeld

    frame = grunfeld.load_pandas().data.astype({"firm": "str", "year": int})
    # SIC codes of the firms' main line of business
    frame["sic"] = frame["firm"].map(json.loads(Path(__file__).with_name("grunfeld.json").read_text(encoding="utf-8")))
    # the outcome of a year is known in the next: a forecast
    frame["invest_next"] = value_after(frame["invest"], frame["firm"], frame["year"])
    wording = "Grunfeld (1958): investment of eleven US firms, 1935-54, millions of 1947 dollars"
    return read_panel(frame, outcome="invest_next", firm="firm", period="year", industry="sic", description=wording)


@validate_arguments
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


@validate_arguments
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
    multiple is an identity. A firm's own multiple of the panel's quarter before misses by 9 per cent in the median to 2017;
    where it is used, persistence explains most.

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


@validate_arguments
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


def stored_frame(name: str) -> pd.DataFrame:
    """Return the table of this name, which lies beside this file."""
    return pd.read_parquet(Path(__file__).with_name(f"{name}.parquet"))


def embedded_panel(name: str, outcome: str) -> Panel:
    """Return an embedded panel with the code ``sector``, an industry, and one of its outcomes, as in the data file beside.

    ``known`` there names outcomes of the row's own period, which are characteristics where another one is predicted.
    """
    facts = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))[name]
    characteristics = [*facts["characteristics"], *(known for known in facts["known"] if known != outcome)]
    frame = stored_frame(name)[["firm", "period", "sector", facts["industry"], *characteristics, outcome]]
    # stored as float32, which saves half of the file; figures are computed in float64
    frame = frame.astype(dict.fromkeys([*characteristics, outcome], float))
    informed = {part: facts[part] for part in ("industry", "description")}
    panel = read_panel(frame, outcome=outcome, characteristics=characteristics, codes=["sector"], **informed)
    return replace(panel, caution=facts["caution"].get(outcome, ""))


def value_after(values: pd.Series, firm: pd.Series, number: pd.Series, steps: int = 1) -> np.ndarray:
    """Return each row's value of the same firm some periods later (earlier for negative ``steps``); NaN without that row."""
    # by label: a firm may miss the year between
    table = pd.Series(values.to_numpy(dtype=float), index=pd.MultiIndex.from_arrays([firm, number]))
    return table.reindex(pd.MultiIndex.from_arrays([firm, number + steps])).to_numpy()
