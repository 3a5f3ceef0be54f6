"""The ladder on real panels: own characteristics, industry, kernel, linear, softmax and stacked attention.

python benchmarks/ladder.py annual|monthly forecast|explain [--steps 400]

The panels are those of the shared data folder (environment variable PEERATTN_SHARED_DATA, else ../shared/data).
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from report import Row, publish

from peerattn.evaluation import Ladder, WalkForward, ladder, rungs_for
from peerattn.evaluation.ladder import INDUSTRY, RIDGE, SOFTMAX, STACKED

HERE = Path(__file__).resolve().parents[1]
FIRM_DATA = Path(os.environ.get("PEERATTN_SHARED_DATA", HERE.parent / "shared" / "data")) / "firm"
CODES = ("ff49",)


def annual() -> tuple[pd.DataFrame, pd.Series, WalkForward]:
    """Next year's EBIT over assets, clipped to ±0.6; learned from FY2013-14, tested on FY2015."""
    frame = pd.read_parquet(FIRM_DATA / "us_annual_r3000.parquet")
    return (
        prepared(frame, "ebit_ta_next", (-0.6, 0.6)),
        outcome(frame, "ebit_ta_next", (-0.6, 0.6)),
        WalkForward(1, 1),
    )


def monthly() -> tuple[pd.DataFrame, pd.Series, WalkForward]:
    """Next month's return, clipped to [-0.5, 1], firms with a SIC code; tested from 2010-01, learned once from before."""
    frame = pd.read_parquet(FIRM_DATA / "us_monthly_2000_2012.parquet")
    frame = frame[frame["sic"].notna()]
    known = frame.loc[frame["ret_next"].notna(), "period"]
    tested = known[known >= pd.Timestamp("2010-01-01")].nunique()
    limits = (-0.5, 1.0)
    return (
        prepared(frame, "ret_next", limits),
        outcome(frame, "ret_next", limits),
        WalkForward(tested, tested),
    )


def prepared(frame: pd.DataFrame, target: str, limits: tuple[float, float]) -> pd.DataFrame:
    """Return characteristics as ranks within their period from -1 to 1 (missing ones 0), and the industry."""
    numbers = frame.select_dtypes("number").columns
    names = [
        n
        for n in numbers
        if not n.endswith("_next") and n not in {"firm", "period", *CODES, "sic", "sic2", "ff12"}
    ]
    ranks = frame.groupby("period")[names].rank(pct=True).mul(2).sub(1).fillna(0.0)
    X = ranks.assign(ff49=frame["ff49"].astype("string"))
    return X.set_axis(pd.MultiIndex.from_frame(frame[["firm", "period"]]))


def outcome(frame: pd.DataFrame, target: str, limits: tuple[float, float]) -> pd.Series:
    values = frame[target].clip(*limits).to_numpy(dtype=float)
    return pd.Series(values, index=pd.MultiIndex.from_frame(frame[["firm", "period"]]), name=target)


def climb(panel: str, task: str, steps: int) -> Ladder:
    X, y, cv = {"annual": annual, "monthly": monthly}[panel]()
    rungs = rungs_for(task, industry="ff49")  # type: ignore[arg-type]
    rungs[INDUSTRY].set_params(min_peers=5)
    rungs[RIDGE].set_params(codes=CODES, scale=None)
    rungs[SOFTMAX].set_params(max_steps=steps)
    rungs[STACKED].set_params(max_steps=steps)
    return ladder(X, y, industry="ff49", task=task, rungs=rungs, cv=cv, verbose=False)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("panel", choices=("annual", "monthly"))
    parser.add_argument("task", choices=("forecast", "explain"))
    parser.add_argument("--steps", type=int, default=400, help="training steps of attention with all heads")
    options = parser.parse_args()
    start = time.perf_counter()
    found = climb(options.panel, options.task, options.steps)
    print(found.comparison, found, sep="\n\n", flush=True)
    if len(found.comparison.periods) >= 10:
        print(found.comparison.confidence_set(), found.comparison.superior(), sep="\n")
    rows: list[Row] = [
        {name: value if isinstance(value, str) else float(np.round(value, 5)) for name, value in row.items()}
        for row in found.to_frame().to_dict("records")
    ]
    notes = [found.summary(), found.comparison.sample, f"{time.perf_counter() - start:.0f} s."]
    publish(
        f"ladder_{options.panel}_{options.task}", f"The ladder: {options.panel}, {options.task}", rows, notes
    )


if __name__ == "__main__":
    main()
