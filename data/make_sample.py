"""Make the sample panel beside this script, the same bytes each time.

python data/make_sample.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from peerattn.datasets import simulate_panel
from peerattn.render import write_atomic

NAME = "sample_panel.csv"
SIC = {"I01": "0100", "I02": "2911", "I03": "3570", "I04": "3711", "I05": ""}


def sample() -> pd.DataFrame:
    """Return a panel as one meets them: some firms come and go, some figures and one industry's codes are missing.

    Examples
    --------
    >>> sample().columns.tolist()
    ['firm', 'year', 'sic', 'size', 'leverage', 'rnd', 'momentum', 'roa_next']
    """
    panel = simulate_panel(24, 12, 4, n_industries=5, missing_share=0.08, signal_share=0.6, random_state=1958)
    rows = panel.X.rename(
        columns={"x1": "size", "x2": "leverage", "x3": "rnd", "x4": "momentum"}
    ).reset_index()
    rows["roa_next"] = 0.05 * panel.y.to_numpy()
    rows.insert(1, "year", 2001 + pd.factorize(rows["period"], sort=True)[0])
    rows.insert(2, "sic", rows["industry"].map(SIC))
    rows = rows.drop(columns=["period", "industry"])
    rng = np.random.RandomState(1934)
    rows.loc[rng.uniform(size=len(rows)) < 0.05, "rnd"] = np.nan
    rows.loc[rows["year"] == rows["year"].max(), "roa_next"] = np.nan  # not known yet
    return rows


def main(folder: str | Path = Path(__file__).parent) -> Path:
    """Write the sample into a folder; return its path."""
    return write_atomic(
        Path(folder) / NAME, sample().to_csv(index=False, float_format="%.4f", lineterminator="\n")
    )


if __name__ == "__main__":
    print(main(*sys.argv[1:2]))
