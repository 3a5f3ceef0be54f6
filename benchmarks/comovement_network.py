"""The co-movement network learned on real monthly returns, held against SIC: tables, figures, explorer.

python benchmarks/comovement_network.py --out network-report      (needs the shared test data, see data/README.md)
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from peerattn import PeerAttentionRegressor, PeerNetwork
from peerattn.network import (
    Difference,
    SameCode,
    asymmetry,
    concentration,
    ego_plot,
    flow_map,
    heat_map,
    in_strength,
    mrqap,
    overlap,
)
from peerattn.render import show_label
from report import publish

SHARED = Path(os.environ.get("PEERATTN_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
RANKED = "rev1 mom12_2 mom6_2 vol1 vol12 maxret beta ivol ldolvol12 volchg lamihud hi52".split()


def read() -> pd.DataFrame:
    """Rows with a known SIC code, by firm and period; SIC-2 and SIC-3 as text."""
    frame = pd.read_parquet(SHARED / "firm" / "us_monthly_2000_2012.parquet").rename(
        columns={"date": "period"}
    )
    frame = frame[frame["sic"].notna()].assign(firm=lambda f: f["firm"].astype(str))
    text = frame["sic"].astype(str).str.zfill(4)
    frame = frame.assign(sic2=text.str[:2], sic3=text.str[:3], ff49=frame["ff49"].astype(str))
    return frame.set_index(["firm", "period"])


def learn(frame: pd.DataFrame) -> tuple[PeerNetwork, float]:
    """Fit on 2000–09, peers' outcomes known; the network of 2010–12 and the R² within periods there."""
    X, y = frame[[*RANKED, "ff49", "sic3"]], frame["ret_next"].clip(-0.5, 1.0)
    test = frame.index.get_level_values("period") >= "2010-01-01"
    model = PeerAttentionRegressor(task="explain", scale="rank", codes=("ff49", "sic3"), random_state=0)
    model.fit(X[~test], y[~test])
    both = pd.DataFrame({"y": y[test], "p": model.predict(X[test], outcomes=y[test])}).dropna()
    both -= both.groupby(level="period").transform("mean")
    r2 = 1 - ((both["y"] - both["p"]) ** 2).sum() / (both["y"] ** 2).sum()
    return model.peer_network(X[test], outcomes=y[test]), float(r2)


def against_codes(network: PeerNetwork, frame: pd.DataFrame) -> list[dict[str, str | float]]:
    """Share of weight within each code, against chance."""
    rows: list[dict[str, str | float]] = []
    for code in ("ff12", "ff49", "sic2", "sic3", "sic"):
        found = overlap(network, frame[code]).mean()
        figures = {"figure": found["share"], "chance": found["chance"], "lift": found["lift"]}
        rows.append({"what": f"share of weight within {code}"} | figures)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for figures, tables and the explorer")
    parser.add_argument("--network", type=Path, help="a learned network kept by an earlier run (Parquet)")
    parser.add_argument("--permutations", type=int, default=199)
    parser.add_argument(
        "--qap-firms", type=int, default=600, help="firms drawn at random for the MRQAP table"
    )
    parser.add_argument("--explorer-months", type=int, default=24)
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    options.out.mkdir(parents=True, exist_ok=True)
    frame, start = read(), time.perf_counter()
    kept = options.network or options.out / "network.parquet"
    notes = []
    if kept.exists():
        network = PeerNetwork.from_parquet(kept)
    else:
        network, r2 = learn(frame)
        network.to_parquet(kept)
        notes.append(
            f"Fit and network: {time.perf_counter() - start:.0f} s; R² within months 2010–12: {r2:.4f}."
        )
    last = network.periods[-1]
    size = frame["ldolvol12"]
    say(f"{network!r}\n{concentration(network).mean().round(3).to_string()}")

    rows = against_codes(network, frame)
    publish("comovement_network", "Learned co-movement network 2010–12 against industry codes", rows,
            [*notes, "Means over months; chance: every firm spreads its weight evenly."])  # fmt: skip
    months = [period for period in network.periods if period.month == 6]
    regressors = {
        "same SIC-3": SameCode(frame["sic3"]),
        "same FF49": SameCode(frame["ff49"]),
        "size of the peer − own": Difference(size, absolute=False),
        "difference in size": Difference(size),
        "difference in beta": Difference(frame["beta"]),
        "difference in volatility": Difference(frame["ivol"]),
    }
    june = network.subset(periods=months[-1:])
    drawn = np.random.default_rng(0).permutation(june.firms)[: options.qap_firms]
    say(str(mrqap(june.subset(firms=drawn), regressors, n_permutations=options.permutations)))
    split = asymmetry(network.subset(periods=months))
    say(str(split))
    for kind in ("direction", "difference"):
        say(f"Most one-sided pairs by {kind}, {show_label(months[-1])}\n"
            + split.most_one_sided(8, kind=kind, period=months[-1]).drop(columns="period").round(4).to_string())  # fmt: skip
    strength = (
        in_strength(network).groupby("firm")["in_strength"].mean().nlargest(12).rename("mean in-strength")
    )
    say(
        pd.concat([strength, frame.groupby(level="firm")[["ff49_name"]].first()], axis=1, join="inner")
        .round(2)
        .to_string()
    )
    pictures(network.subset(periods=months), months[-1], strength.index[0], frame, options.out)
    codes = frame["ff49_name"].astype(str).rename("Fama-French 49")
    recent = network.subset(periods=list(network.periods[-options.explorer_months :]))
    recent.to_explorer(
        options.out / "explorer.html", codes=codes, title="Learned co-movement network, US stocks"
    )
    size_mb = (options.out / "explorer.html").stat().st_size / 1e6
    say(
        f"explorer.html: {size_mb:.1f} MB, {len(recent.firms):,} firms × {len(recent.periods)} months up to {show_label(last)}"
    )


def pictures(network: PeerNetwork, month: pd.Timestamp, firm: str, frame: pd.DataFrame, out: Path) -> None:
    """One month's figures."""
    names = frame["ff12"].astype(str)
    here = frame.xs(month, level="period")
    drawn = {
        "heat_map": lambda: heat_map(network, month, order=here["ff12"].astype(str)),
        "ego": lambda: ego_plot(network, firm, month),
        "flows": lambda: flow_map(network, names, month),
    }
    for name, draw in drawn.items():
        draw().figure.savefig(out / f"{name}.png", dpi=110, bbox_inches="tight")


def say(text: str) -> None:
    print(f"\n{text}", flush=True)


if __name__ == "__main__":
    np.set_printoptions(linewidth=120)
    main()
