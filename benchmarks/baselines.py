"""Every baseline on two real panels: same-month co-movement of US stocks, and next year's profitability of US firms.

Run: ``python benchmarks/baselines.py [--only monthly|annual] [--threads 2]``. Monthly: train 2000-09, test 2010-12; peer models
are shown the outcomes of the peers, never the own; the others see none. Annual: train FY2013-14, test FY2015, a forecast.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from comovement import load as load_monthly
from comovement import years
from profitability import SHARED
from profitability import load as load_annual

from peerattn.evaluation.measures.metrics import r2_within_period
from peerattn.exceptions import PeerAttnWarning
from peerattn.models import (
    CrossSectionalRidge,
    IndustryPeerRegressor,
    LinearInMeansRegressor,
    NadarayaWatsonRegressor,
    PeerModel,
    make_model,
)
from peerattn.panel import PanelEncoder
from report import Row, publish

FORECASTERS = (
    "zero mean firm_mean last_value ols ridge elastic_net fama_macbeth boosting neighbors industry_characteristics"
).split()
SCHEMES = {"SIC": ("sic", "sic"), "FF12": ("sic", "ff12"), "FF48": ("sic", "ff48"), "FF49": ("sic", "ff49")}


def same_code(X: pd.DataFrame, code: str) -> pd.DataFrame:
    """Return the network of firms with one code, which does not change over time."""
    codes = X[code].groupby(level="firm").first()
    same = codes.to_numpy()[:, None] == codes.to_numpy()
    return pd.DataFrame(
        same & ~np.eye(len(codes), dtype=bool), index=codes.index, columns=codes.index, dtype=float
    )


def peer_models(characteristics: list[str]) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield name, model and columns of every peer baseline."""
    yield "All other firms", IndustryPeerRegressor(scheme="plain"), ["sic"]
    for title, (column, scheme) in SCHEMES.items():
        options: dict[str, Any] = {"industry": column, "scheme": scheme}
        yield f"{title} peers", IndustryPeerRegressor(**options), [column]
        yield f"{title} peers, shrunk", IndustryPeerRegressor(**options, shrinkage="leave_one_out"), [column]
    ranks = [name for name in characteristics if name.endswith("_rank")] or characteristics
    both, codes = [*ranks, "ff49"], ["ff49"]
    yield "Kernel, normal reference", NadarayaWatsonRegressor(), ranks
    yield "Kernel with FF49, normal reference", NadarayaWatsonRegressor(codes=codes), both
    yield (
        "Kernel with FF49, cross-validated",
        NadarayaWatsonRegressor(codes=codes, bandwidth="cv_ls", n_starts=1),
        both,
    )
    yield "Kernel, 50 nearest, FF49", NadarayaWatsonRegressor(codes=codes, neighbors=50), both
    yield (
        "Cross-sectional ridge",
        CrossSectionalRidge(scale=None, codes=["ff49", "sic3"]),
        [*characteristics, "ff49", "sic3"],
    )
    yield (
        "Cross-sectional ridge, λ = 30",
        CrossSectionalRidge(scale=None, codes=["ff49", "sic3"], alpha=30.0),
        [*characteristics, "ff49", "sic3"],
    )


def rows_of(
    X: pd.DataFrame, y: pd.Series, train: np.ndarray, test: np.ndarray, characteristics: list[str], told: bool
) -> list[Row]:
    """Fit and score every baseline; a model that fails has its error as its row."""
    scored = y[test]
    period = scored.index.get_level_values("period")
    known = scored.notna().to_numpy()
    base = [*characteristics, "ff49"]
    encoder = PanelEncoder(codes=["ff49"]).fit(X.loc[train, base])
    encoded = encoder.transform(X[base])
    learn = train & y.notna().to_numpy()
    models: list[tuple[str, Any, list[str]]] = [
        (name, make_model(name, industry="ff49"), []) for name in FORECASTERS
    ]
    models += list(peer_models(characteristics))
    network = same_code(X, "ff49")
    models.append(
        (
            "Linear in means, FF49 network",
            LinearInMeansRegressor(network=network, cluster="period"),
            characteristics,
        )
    )
    rows: list[Row] = []
    for name, model, columns in models:
        start = time.perf_counter()
        try:
            if isinstance(model, PeerModel):
                fitted = model.fit(X.loc[train, columns], y[train])
                shown = {"outcomes": scored} if told else {}
                predicted = np.asarray(fitted.predict(X.loc[test, columns], **shown))
            else:
                predicted = model.fit(encoded[learn], y[learn].to_numpy()).predict(encoded[test])
            r2: str | float = r2_within_period(scored.to_numpy()[known], predicted[known], period[known])
        except ValueError as error:
            r2 = str(error)[:60]
        sees = "peers' outcomes" if told and isinstance(model, PeerModel) else "no outcome of the period"
        rows.append({"model": name, "sees": sees, "within R²": r2 if isinstance(r2, str) else f"{r2:.4f}",
                     "seconds": time.perf_counter() - start})  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def annual() -> tuple[pd.DataFrame, pd.Series, list[str]]:
    """Return ranks and winsorised characteristics, with codes, and the clipped profitability."""
    X, y = load_annual()
    names = list(map(str, X.columns))
    frame = pd.read_parquet(SHARED / "firm" / "us_annual_r3000.parquet").set_index(["firm", "year"])
    frame.index.names = ["firm", "period"]
    frame = frame.loc[X.index]
    sic = frame["sic"].astype("Int64").astype("str").str.zfill(4).where(frame["sic"].notna())
    return (
        X.assign(sic=sic, sic3=sic.str[:3], ff49=frame["ff49"].astype("str").where(frame["ff49"].notna())),
        y,
        names,
    )


def main() -> None:
    """Run the panels asked for and publish their tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["monthly", "annual"])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore", PeerAttnWarning)
    if options.only != "annual":
        X, y = load_monthly()
        names = [str(name) for name in X.columns if name not in ("ff12", "ff49", "sic3", "sic")]
        rows = rows_of(X, y, years(X, ("2000", "2009")), years(X, ("2010", "2012")), names, told=True)
        title = "Baselines: same-month co-movement, US stocks, train 2000-09, test 2010-12"
        publish(
            "baselines_monthly",
            title,
            rows,
            ["R² within month; characteristics are ranks; seconds of fit and prediction."],
        )
    if options.only != "monthly":
        X, y, names = annual()
        year = X.index.get_level_values("period")
        rows = rows_of(X, y, np.asarray(year <= 2014), np.asarray(year == 2015), names, told=False)
        title = "Baselines: next year's EBIT over assets, US firms, train FY2013-14, test FY2015"
        publish(
            "baselines_annual",
            title,
            rows,
            ["R² within the test year; characteristics as ranks and winsorised at 1 %."],
        )


if __name__ == "__main__":
    main()
