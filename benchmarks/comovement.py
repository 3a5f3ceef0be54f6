"""Same-month co-movement of US stocks: peers' outcomes known, own excluded; train 2000-08, choose on 2009, test 2010-12.

Run: ``python benchmarks/comovement.py [--only NAME ...]``. Finished models are stored in ``benchmarks/results/comovement/``.
Within-period R² beside leave-one-out means, the leave-one-out ridge and plain attention; paired monthly t against the ridge.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from peerattn.evaluation.measures.metrics import r2_within_period
from peerattn.exceptions import PeerAttnWarning
from peerattn.models import (
    Comovement,
    CovariancePeerRegressor,
    CrossSectionalRidge,
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PanelEstimator,
    PeerAttentionRegressor,
    StackedPeerRegressor,
)
from report import RESULTS, SHARED, options, publish

CHARACTERISTICS = "rev1 mom12_2 mom6_2 vol1 vol12 maxret beta ivol ldolvol12 volchg lamihud hi52".split()
CODES = ["ff49", "sic3", "sic"]
TRAIN, VALIDATION, TEST = ("2000", "2008"), ("2009", "2009"), ("2010", "2012")


def load() -> tuple[pd.DataFrame, pd.Series]:
    """Return ranked characteristics with codes, and the clipped return, of rows whose SIC code is known."""
    frame = pd.read_parquet(SHARED / "firm" / "us_monthly_2000_2012.parquet")
    frame = frame[frame["sic"].notna()].rename(columns={"date": "period"}).set_index(["firm", "period"])
    sic = frame["sic"].astype(int).astype(str).str.zfill(4)
    ranks = frame.groupby(level="period")[CHARACTERISTICS].rank(pct=True).fillna(0.5) * 2 - 1
    codes = {
        "ff12": frame["ff12"].astype("str"),
        "ff49": frame["ff49"].astype("str"),
        "sic3": sic.str[:3],
        "sic": sic,
    }
    return ranks.astype(float).assign(**codes), frame["ret_next"].clip(-0.5, 1.0).astype(float)


def years(X: pd.DataFrame, span: tuple[str, str]) -> np.ndarray:
    """Return which rows lie in these years."""
    year = X.index.get_level_values("period").year
    return np.asarray((year >= int(span[0])) & (year <= int(span[1])))


def attention(**options: object) -> StackedPeerRegressor:
    """Return an attention model that is shown the peers' outcomes, otherwise at its defaults."""
    return StackedPeerRegressor(task="nowcast", random_state=0, **options)  # type: ignore[arg-type]


def heads(**options: object) -> PeerAttentionRegressor:
    """Return attention heads, otherwise at their defaults."""
    return PeerAttentionRegressor(task="nowcast", random_state=0, **options)  # type: ignore[arg-type]


MODELS: dict[str, tuple[Callable[[], PanelEstimator], list[str]]] = {
    "mean of SIC-4": (lambda: IndustryPeerRegressor(industry="sic"), ["sic"]),
    "mean of SIC-3": (lambda: IndustryPeerRegressor(industry="sic3"), ["sic3"]),
    "mean of FF12": (lambda: IndustryPeerRegressor(industry="ff12"), ["ff12"]),
    "mean of FF49": (lambda: IndustryPeerRegressor(industry="ff49"), ["ff49"]),
    "Nadaraya-Watson": (lambda: NadarayaWatsonRegressor(bandwidth=0.7), []),
    "ridge, λ = 30": (lambda: CrossSectionalRidge(alpha=30.0, scale=None), ["ff49", "sic3"]),
    "attention, defaults": (attention, CODES),
    "heads": (heads, ["ff49", "sic3"]),
    "heads that know past co-movement": (lambda: heads(prior=Comovement(60)), ["ff49", "sic3"]),
    "covariance alone": (lambda: CovariancePeerRegressor(random_state=0), CODES),
}


def predictions(name: str, X: pd.DataFrame, y: pd.Series) -> tuple[pd.Series, float]:
    """Fit on 2000-08 and predict 2009-12 from the peers' outcomes; stored under the model's name."""
    store = RESULTS / "comovement" / f"{name.replace(' ', '_').replace(',', '')}.parquet"
    store.parent.mkdir(parents=True, exist_ok=True)
    if store.exists():
        stored = pd.read_parquet(store)
        return stored["predicted"], float(stored["seconds"].iloc[0])
    make, codes = MODELS[name]
    rows, later = years(X, TRAIN), ~years(X, TRAIN)
    inputs = X[[*CHARACTERISTICS, *codes]] if not isinstance(make(), IndustryPeerRegressor) else X[codes]
    start = time.process_time()
    model = make()
    model.fit(inputs[rows], y[rows])
    predicted = pd.Series(model.predict(inputs[later], outcomes=y[later]), y[later].index)
    seconds = time.process_time() - start
    pd.DataFrame({"predicted": predicted, "seconds": seconds}).to_parquet(store)
    return predicted, seconds


def monthly_r2(y: pd.Series, predicted: pd.Series) -> pd.Series:
    """Return the within-period R² of every month."""
    table = pd.DataFrame({"y": y, "f": predicted})
    deviation = table - table.groupby(level="period").transform("mean")
    error = ((deviation["y"] - deviation["f"]) ** 2).groupby(level="period").sum()
    return 1 - error / (deviation["y"] ** 2).groupby(level="period").sum()


def main() -> None:
    """Fit, predict, compare, publish."""
    arguments = options(__doc__, only=MODELS, threads=2)
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore", PeerAttnWarning)
    X, y = load()
    names = list(dict.fromkeys(["ridge, λ = 30", *arguments.only]))
    found = {name: predictions(name, X, y) for name in names}
    chosen, test = years(X, VALIDATION), years(X, TEST)
    base = monthly_r2(y[test], found["ridge, λ = 30"][0].reindex(y[test].index))
    rows = []
    for name, (predicted, seconds) in found.items():
        gain = monthly_r2(y[test], predicted.reindex(y[test].index)) - base
        scores = {
            label: r2_within_period(y[at], predicted.reindex(y[at].index), y[at].index.get_level_values("period"))
            for label, at in (("2009", chosen), ("test", test))
        }
        t = float(gain.mean() / gain.std() * np.sqrt(len(gain))) if gain.std() > 0 else float("nan")
        scores = {label: round(float(score), 4) for label, score in scores.items()}
        rows.append({"model": name, **scores, "paired t": t, "CPU seconds": seconds})
    publish("comovement", "Within-period R² of same-month co-movement, test 2010-01 to 2012-11", rows,
            ["paired t: monthly R² less the ridge's, 35 months."])  # fmt: skip


if __name__ == "__main__":
    main()
