"""A real directed network: do small portfolios follow large ones, and is it found? Next day's returns of 25 portfolios.

Run: ``python benchmarks/lead_lag.py``. Three spans of ``ff25_daily`` (Lo and MacKinlay 1990), defaults, beside least squares on
own characteristics and a vector autoregression by ridge with 1,250 free coefficients. The network of each span is the
figure of docs/examples/lead-lag.md.
"""

from __future__ import annotations

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LinearRegression, RidgeCV

from peerattn.exceptions import PeerAttnWarning
from peerattn.models import PeerAttentionRegressor
from peerattn.render import PALETTE, figure_style, weight_colours
from report import SHARED, publish, save_figure

SPANS = [("1972", "1979", "1982"), ("1965", "1972", "1975"), ("1980", "1987", "1990")]
COLUMNS = ["ret_lag1", "ret_lag5", "size", "bm"]


def load(first: str, test: str, last: str) -> tuple[pd.DataFrame, pd.Series, np.ndarray]:
    """Return characteristics and next day's return (clipped, per cent), and which rows are training rows."""
    frame = pd.read_parquet(SHARED / "firm" / "ff25_daily_1963_1990.parquet")
    frame = frame.rename(columns={"date": "period"}).dropna(subset=[*COLUMNS, "ret_next"])
    frame = frame[(frame["period"] >= first) & (frame["period"] <= f"{last}-12-31")]
    frame = frame[frame.groupby("period")["firm"].transform("size") == frame["firm"].nunique()]
    frame[COLUMNS[:2]] = frame[COLUMNS[:2]].clip(-20, 20)
    frame = frame.set_index(["firm", "period"]).sort_index(level=[1, 0])
    train = np.asarray(frame.index.get_level_values("period") < np.datetime64(test))
    return frame[COLUMNS].astype(float), frame["ret_next"].clip(-6, 6).astype(float), train


def r2(y: pd.Series, predicted: np.ndarray, *, within: bool) -> float:
    """Return R² against the prevailing zero, or of differences within each day."""
    table = pd.DataFrame({"y": y, "f": np.asarray(predicted)})
    if within:
        table = table - table.groupby(level="period").transform("mean")
    return float(1 - ((table["y"] - table["f"]) ** 2).sum() / (table["y"] ** 2).sum())


def autoregression(X: pd.DataFrame, y: pd.Series, train: np.ndarray) -> np.ndarray:
    """Return the forecasts of a vector autoregression by ridge on all portfolios' past returns."""
    past = X[COLUMNS[:2]].unstack("firm")
    after = y.unstack("firm")
    days = np.unique(X.index.get_level_values("period")[train])
    known = past.index.isin(days)
    model = RidgeCV(np.logspace(0, 5, 20)).fit(past[known], after[known])
    table = pd.DataFrame(model.predict(past), past.index, after.columns)
    return table.stack().swaplevel().reindex(y.index).to_numpy()


def history() -> pd.DataFrame:
    """Correlations of today's mean return of one fifth with yesterday's of another, two years at a time."""
    frame = pd.read_parquet(SHARED / "firm" / "ff25_daily_1963_1990.parquet").dropna(subset=["ret_next"])
    frame[["ret_lag1", "ret_next"]] = frame[["ret_lag1", "ret_next"]].clip(-6, 6)
    mean = frame.groupby(["date", "size"])[["ret_lag1", "ret_next"]].mean().unstack()
    years = pd.DatetimeIndex(mean.index).year // 2 * 2

    def each(who: int, whom: int) -> pd.Series:
        return mean.groupby(years + 1).apply(lambda days: days["ret_next", who].corr(days["ret_lag1", whom]))

    found = pd.DataFrame({"small on large, a day before": each(1, 5), "large on small": each(5, 1)})
    return found.loc[1965:]


def draw(rows: list[dict[str, str | float]], networks: list[np.ndarray]) -> None:
    """Draw the weights between fifths by size in each span, in order of time, and the lead by year."""
    order = np.argsort([str(row["tested"]) for row in rows])
    with figure_style():
        figure, axes = plt.subplots(1, 4, figsize=(11.0, 3.1), width_ratios=(1, 1, 1, 1.4), layout="constrained")
        top = max(network.max() for network in networks)
        for ax, k in zip(axes, order):
            ax.imshow(networks[k], cmap=weight_colours(), vmin=0, vmax=top)
            for (i, j), weight in np.ndenumerate(networks[k]):
                ink = "white" if weight > 0.6 * top else "#23262b"
                ax.text(j, i, f"{weight:.2f}", ha="center", va="center", fontsize=8, color=ink)
            ends = ["small", "2", "3", "4", "large"]
            ax.set(
                title=str(rows[k]["tested"]).replace(" to ", "–"),
                xlabel="attended to",
                xticks=range(5),
                yticks=range(5),
            )
            ax.set_xticklabels(ends)
            ax.set_yticklabels(ends if ax is axes[0] else [])
            ax.tick_params(length=0)
        axes[0].set_ylabel("attends")
        found = history()
        for column, color in zip(found, PALETTE):
            axes[3].plot(found.index, found[column], color=color, label=column)
        for k in order:
            first, last = (int(year) for year in str(rows[k]["tested"]).split(" to "))
            axes[3].axvspan(first, last + 1, color="#8b9096", alpha=0.15, lw=0)
        axes[3].axhline(0, color="#8b9096", lw=0.7)
        axes[3].set(title="Correlation, two years at a time", ylim=(-0.35, 0.7))
        axes[3].legend(loc="upper right")
        save_figure(figure, "lead_lag")


def main() -> None:
    """Fit, forecast, publish."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", PeerAttnWarning)
    rows: list[dict[str, str | float]] = []
    networks: list[np.ndarray] = []
    for first, test, last in SPANS:
        X, y, train = load(first, test, last)
        start = time.process_time()
        model = PeerAttentionRegressor(random_state=0).fit(X[train], y[train])
        seconds = time.process_time() - start
        forecasts = {
            "own": LinearRegression().fit(X[train], y[train]).predict(X[~train]),
            "VAR": autoregression(X, y, train)[~train],
            "attention": np.asarray(model.predict(X[~train])),
        }
        row: dict[str, str | float] = {
            "trained": f"{first} to {int(test) - 1}",
            "tested": f"{test} to {last}",
        }
        for name, forecast in forecasts.items():
            row |= {f"{name}, within": r2(y[~train], forecast, within=True)}
            row |= {f"{name}, total": r2(y[~train], forecast, within=False)}
        row["attention / VAR"] = float(row["attention, within"]) / float(row["VAR, within"])
        row["selected"], row["CPU seconds"] = str(model.evidence_.loc["peers", "selected"]), seconds
        if len(model.heads_):
            days = np.unique(X.index.get_level_values("period")[~train])[-60:]
            network = model.peer_network(X[X.index.get_level_values("period").isin(days)], part="heads")
            W = np.mean([network.matrix(day).to_numpy() for day in network.periods], axis=0)
            size = np.array([int(str(firm)[1]) for firm in network.matrix(network.periods[0]).columns])
            row |= {f"to fifth {k}": float(W[:, size == k].sum(1).mean()) for k in range(1, 6)}
            networks.append(np.array([[W[size == i][:, size == j].sum(1).mean() for j in range(1, 6)] for i in range(1, 6)]))
        rows.append(row)
        print(row, flush=True)
    if len(networks) == len(rows):
        draw(rows, networks)
    publish(
        "lead_lag",
        "The lead of large stocks: within-period R² of next day's returns, 25 portfolios",
        rows,
        ["to fifth k: mean weight that portfolios give to those of the k-th fifth by size, 1 small, last 60 tested days."],
    )


if __name__ == "__main__":
    main()
