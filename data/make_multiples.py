"""Make the panel behind ``load_multiples`` from the S&P 500 multiples of a public repository's history.

python data/make_multiples.py sp500_multiples.parquet [peerattn/datasets/multiples.parquet]

The first file has one row for each firm and quarter-end, made of the version history of
``datasets/s-and-p-500-companies-financials``. Kept are the quarters whose prices and fundamentals belong together, and of
each row the multiples, the market value, and ratios in which the price cancels.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

QUARTERS = (
    "2013-03-31 2013-06-30 2013-12-31 2014-03-31 2014-06-30 2014-09-30 2014-12-31 2015-09-30 2016-03-31 2016-06-30 "
    "2017-03-31 2024-12-31 2026-06-30 2026-09-30"
).split()
MULTIPLES = ["log_pb", "log_ps", "log_pe", "log_cap_ebitda"]


def ratios(source: pd.DataFrame) -> pd.DataFrame:
    """Return the characteristics: ratios of fundamentals, the firm's price in none of them."""
    eps, sales = source["eps"], source["sales"]
    book = source["book_per_share"].fillna(source["price"] / np.exp(source["log_pb"]))
    return pd.DataFrame(
        {
            "roe": (eps / book).clip(-0.5, 1),
            "net_margin": (eps / source["price"] * source["ps"]).clip(-0.5, 0.6),
            "ebitda_margin": (source["ebitda"] / sales).clip(-0.5, 0.9),
            "turnover": np.log(sales / source["book_equity"]).clip(-4, 4),
            "log_sales": np.log(sales),
            "payout": (source["dividend_yield"] / 100 * source["price"] / eps).clip(0, 3),
        }
    )


def extract(source: pd.DataFrame) -> pd.DataFrame:
    """Return the rows and columns of the embedded panel."""
    source = source[source["period"].astype("str").str[:10].isin(QUARTERS)]
    made = pd.concat([source[["firm", "period", "sector", "sub_industry"]], ratios(source)], axis=1)
    made = pd.concat([made, source[[*MULTIPLES, "market_cap"]]], axis=1)
    numbers = made.columns[4:]
    made[numbers] = made[numbers].replace([np.inf, -np.inf], np.nan).round(4).astype("float32")
    return made.sort_values(["period", "firm"]).reset_index(drop=True)


if __name__ == "__main__":
    path = Path(sys.argv[2] if len(sys.argv) > 2 else "peerattn/datasets/multiples.parquet")
    frame = extract(pd.read_parquet(sys.argv[1]))
    frame.to_parquet(path, index=False, compression="zstd", compression_level=19)
    print(f"{path}: {len(frame):,} rows, {path.stat().st_size:,} bytes")
