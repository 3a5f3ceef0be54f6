"""The Grunfeld investment panel: eleven real firms, twenty years."""

from __future__ import annotations

import json
from pathlib import Path

from peerattn.datasets.embedded import value_after
from peerattn.exceptions import checked
from peerattn.panel import Panel, read_panel

#: SIC codes of the firms' main line of business.
SIC = Path(__file__).with_suffix(".json")


@checked
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
    frame["sic"] = frame["firm"].map(json.loads(SIC.read_text(encoding="utf-8")))
    # the outcome of a year is known in the next: a forecast
    frame["invest_next"] = value_after(frame["invest"], frame["firm"], frame["year"])
    wording = "Grunfeld (1958): investment of eleven US firms, 1935-54, millions of 1947 dollars"
    return read_panel(
        frame, outcome="invest_next", firm="firm", period="year", industry="sic", description=wording
    )
