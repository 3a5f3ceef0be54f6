"""Make the extract behind ``load_russell`` from the panel of the R package ExPanDaR.

python data/make_russell.py us_annual_r3000.parquet [peerattn/datasets/russell.parquet]
"""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path

import pandas as pd

from peerattn.render.files import atomic_path

FIRMS, FIRST_YEAR = 500, 2013
CHARACTERISTICS = ["size", "lev", "cash_ta", "ppe_ta", "gw_ta", "turn", "cogs_sales", "ebit_ta"]
OUTCOMES = ["ebit_ta_next", "sales_growth_next"]
_FORM = re.compile(
    r"(?:(?<! of),? (?:Inc|Incorporated|Corp|Corporation|Co|Company|Companies|Ltd|Limited|plc|N\.?V|L\.?L\.?C|L\.?P)\.?"
    r"|,? (?:&|and) Co(?:mpany)?\.?| (?:Group|Holdings?)| \(.*\))$",
    re.IGNORECASE,
)


def short_name(name: str) -> str:
    """Return a firm's name without its legal form.

    >>> short_name("The AES Corporation"), short_name("McDonald&#39;s Corporation"), short_name("Deere & Company")
    ('AES', "McDonald's", 'Deere')
    """
    name = html.unescape(name).removeprefix("The ").strip()
    while (shorter := _FORM.sub("", name).strip()) not in (name, ""):
        name = shorter
    return name


def extract(source: pd.DataFrame) -> pd.DataFrame:
    """Return all years of the 500 firms outside finance with the largest sales in fiscal year 2013."""
    outside = source[source["sector"].astype("str") != "Finance"]
    largest = outside[outside["year"] == FIRST_YEAR].nlargest(FIRMS, "sales")["firm"]
    rows = outside[outside["firm"].isin(largest)].sort_values(["firm", "year"])
    labels = pd.DataFrame({"firm": rows["name"].astype("str").map(short_name), "period": rows["year"]})
    codes = rows[["sector", "industry"]].astype("str").map(html.unescape)
    numbers = rows[CHARACTERISTICS + OUTCOMES].astype("float32")
    found = pd.concat([labels, codes, numbers], axis=1).reset_index(drop=True)
    if found.duplicated(["firm", "period"]).any():
        raise ValueError("two firms have one short name")
    return found


def main() -> None:
    """Write the extract."""
    path = Path(sys.argv[2] if len(sys.argv) > 2 else "peerattn/datasets/russell.parquet")
    with atomic_path(path) as temporary:
        extract(pd.read_parquet(sys.argv[1])).to_parquet(temporary, index=False, compression="zstd")
    print(path)


if __name__ == "__main__":
    main()
