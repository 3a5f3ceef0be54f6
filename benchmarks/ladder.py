"""The ladder on real panels: own characteristics, industry, kernel, linear, softmax and stacked attention.

python benchmarks/ladder.py annual|monthly forecast|explain [--jobs 2]

Finished fits are kept in results/ladder_pieces/: killed and started again, it goes on. The whole report is written beside
the table, as a page.

The panels are those of the shared data folder (environment variable PEERATTN_SHARED_DATA, else ../shared/data).
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import pandas as pd

from peerattn.evaluation import Comparison, WalkForward, ladder, rungs_for
from peerattn.evaluation.ladder import INDUSTRY, RIDGE
from report import RESULTS, Row, publish

HERE = Path(__file__).resolve().parents[1]
FIRM_DATA = Path(os.environ.get("PEERATTN_SHARED_DATA", HERE.parent / "shared" / "data")) / "firm"
CODES = ("ff49",)


def annual() -> tuple[pd.DataFrame, pd.Series, WalkForward]:
    """Next year's EBIT over assets, clipped to ±0.6; learned from FY2013-14, tested on FY2015."""
    frame = pd.read_parquet(FIRM_DATA / "us_annual_r3000.parquet").rename(columns={"year": "period"})
    y = outcome(frame, "ebit_ta_next", (-0.6, 0.6))
    return prepared(frame, winsorised=True), y, WalkForward(1, 1)


def monthly() -> tuple[pd.DataFrame, pd.Series, WalkForward]:
    """Next month's return, clipped to [-0.5, 1], firms with a SIC code; tested from 2010-01, learned once from before."""
    frame = pd.read_parquet(FIRM_DATA / "us_monthly_2000_2012.parquet").rename(columns={"date": "period"})
    frame = frame[frame["sic"].notna()]
    y = outcome(frame, "ret_next", (-0.5, 1.0))
    tested = frame.loc[frame["ret_next"].notna() & (frame["period"] >= "2010-01-01"), "period"].nunique()
    return prepared(frame, winsorised=False), y, WalkForward(tested, tested)


def prepared(frame: pd.DataFrame, *, winsorised: bool) -> pd.DataFrame:
    """Return characteristics within their period: ranks from -1 to 1 and, if asked, winsorised z-scores; missing ones 0."""
    left = {"period", "sic", "sic2", "ff12", "ff49"}
    numbers = frame.select_dtypes("number").columns
    names = [name for name in numbers if not name.endswith("_next") and name not in left]
    by_period = frame.astype({name: float for name in names}).groupby("period")[names]
    X = by_period.rank(pct=True).mul(2).sub(1)
    if winsorised:
        clipped = by_period.transform(lambda v: v.clip(v.quantile(0.01), v.quantile(0.99)))
        scores = clipped.groupby(frame["period"]).transform(lambda v: (v - v.mean()) / v.std())
        X = X.join(scores.add_suffix(" level"))
    X = X.fillna(0.0).assign(ff49=frame["ff49"].astype("string"))
    return X.set_axis(pd.MultiIndex.from_frame(frame[["firm", "period"]].astype({"firm": str})))


def outcome(frame: pd.DataFrame, target: str, limits: tuple[float, float]) -> pd.Series:
    values = frame[target].clip(*limits).to_numpy(dtype=float)
    index = pd.MultiIndex.from_frame(frame[["firm", "period"]].astype({"firm": str}))
    return pd.Series(values, index=index, name=target)


def climb(panel: str, task: str, options: argparse.Namespace) -> Comparison:
    X, y, cv = {"annual": annual, "monthly": monthly}[panel]()
    if options.train_periods is not None:
        cv.window, cv.train_periods = "rolling", options.train_periods
    rungs = rungs_for(task, industry="ff49")  # type: ignore[arg-type]
    rungs[INDUSTRY].set_params(min_peers=5)
    rungs[RIDGE].set_params(codes=CODES, scale=None)
    store = RESULTS / "ladder_pieces" / f"{panel}_{task}"
    shared = {"n_jobs": options.jobs, "store": store, "verbose": True}
    return ladder(X, y, industry="ff49", task=task, rungs=rungs, cv=cv, **shared)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("panel", choices=("annual", "monthly"))
    parser.add_argument("task", choices=("forecast", "explain"))
    parser.add_argument("--jobs", type=int, default=2, help="fits at once, each on one thread")
    parser.add_argument(
        "--train-periods", type=int, help="learn from the last so many periods; by default from all"
    )
    options = parser.parse_args()
    start = time.perf_counter()
    found = climb(options.panel, options.task, options)
    print(found, flush=True)
    if len(found.periods) >= 10:
        print(found.confidence_set(), found.superior(), sep="\n", flush=True)
    shown = {"model": "model", "r2_mean": "R² mean", "r2_se": "s.e.", "r2_within": "R² within"}
    scores = found.scores.reset_index()[list(shown)].rename(columns=shown)
    rows: list[Row] = scores.round(5).to_dict("records")
    made = f"learned from {options.train_periods or 'all past'} periods, "
    notes = [
        *found.summary(),
        found.sample,
        f"{made}{time.perf_counter() - start:.0f} s, finished pieces aside.",
    ]
    name = f"ladder_{options.panel}_{options.task}"
    publish(name, f"The ladder: {options.panel}, {options.task}", rows, notes)
    print(found.to_html(RESULTS / f"{name}.html"))


if __name__ == "__main__":
    main()
