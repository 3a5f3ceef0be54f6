"""Images, series and their anomalies: each model beside its cheap controls, on real data; sequence.py has graphs.

Run: ``python benchmarks/domains.py [ROW ...] [--again] [--threads 2]``. Rows: digits, mnist, etth1-96, etth1-192,
etth1-336, etth1-720, exchange-96, nab; none named: all that are not there yet. A row that was measured is kept in
results/domains/; ``--again`` measures it anew. Seconds are those of the processor, summed over threads (the machine may be
shared). Three seeds where a run takes at most two minutes, else one.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from peerattn.sequence import (
    AttentionAnomalyDetector,
    AttentionForecaster,
    VisionTransformerClassifier,
)
from peerattn.sequence.window_ridge import WindowMoments
from report import kept_rows, publish

SHARED = (
    Path(os.environ.get("PEERATTN_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data")) / "sequence"
)
LOOKBACK = 336

Rows = list[dict[str, Any]]


def timed(run: Callable[[], float | dict[str, float]]) -> tuple[Any, float]:
    """Return what a run gives, and its processor seconds."""
    start = time.process_time()
    found = run()
    return found, time.process_time() - start


def row(
    task: str,
    model: str,
    measure: str,
    values: list[float],
    goal: str = "",
    seconds: float = 0.0,
    note: str = "",
) -> dict[str, Any]:
    """Return one row of the table: the mean over seeds, and their spread."""
    spread = f" ± {np.std(values):.2g}" if len(values) > 1 else ""
    return {
        "task": task, "model": model, "measure": measure, "value": f"{np.mean(values):.4f}{spread}", "goal": goal,
        "seeds": len(values), "CPU s a run": round(seconds / len(values), 1), "note": note,
    }  # fmt: skip


# ---------------------------------------------------------------------- images


def images(
    task: str, X: np.ndarray, y: np.ndarray, split: Callable[[int], Any], n_seeds: int, **options: Any
) -> Rows:
    """Measure the classifier and logistic regression on pixels."""
    found, linear, seconds = [], [], 0.0
    for seed in range(n_seeds):
        train, test = split(seed)
        model = VisionTransformerClassifier(random_state=seed, **options)
        _, spent = timed(lambda: model.fit(X[train], y[train]))  # noqa: B023
        seconds += spent
        found.append(model.score(X[test], y[test]))
        pixels = X.reshape(len(X), -1)
        few = train[:10_000]
        control = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)).fit(pixels[few], y[few])
        linear.append(control.score(pixels[test], y[test]))
    note = "on 10,000 of the training images" if len(X) > 20_000 else ""
    return [
        row(task, "VisionTransformerClassifier", "accuracy", found, "≥ 0.97", seconds, str(options)),
        row(task, "logistic regression on pixels", "accuracy", linear, note=note),
    ]


def digits() -> Rows:
    """The 1,797 digits of scikit-learn, a quarter held out, stratified."""
    X, y = load_digits(return_X_y=True)

    def split(seed: int) -> Any:
        return train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)

    return images("digits", X.reshape(-1, 8, 8), y, split, 3, patch=2, n_epochs=60)


def mnist() -> Rows:
    """60,000 digits for training, 10,000 for testing."""
    stored = np.load(SHARED / "mnist" / "mnist.npz")
    X, y = (np.concatenate([stored[f"{part}_train"], stored[f"{part}_test"]]) for part in "xy")
    options = {
        "patch": 7,
        "n_layers": 2,
        "n_epochs": 5,
        "batch_size": 128,
        "learning_rate": 2e-3,
        "dropout": 0.0,
    }
    return images("MNIST", X, y, lambda _: (np.arange(60_000), np.arange(60_000, 70_000)), 3, **options)


# ---------------------------------------------------------------------- series


def forecasts(task: str, series: pd.DataFrame, sizes: tuple[int, int, int], horizon: int, goal: str) -> Rows:
    """Measure mean squared errors on standardised columns, all windows of the test rows, which start a lookback early."""
    n_train, n_held, n_test = sizes
    values = series.to_numpy()[: sum(sizes)]
    values = (values - values[:n_train].mean(0)) / values[:n_train].std(0)
    known, later = values[: n_train + n_held], values[n_train + n_held - LOOKBACK :]
    share = n_held / (n_train + n_held)
    errors: dict[str, list[float]] = {}
    gains: dict[str, list[str]] = {}
    seconds: dict[str, float] = {}
    ways: dict[str, dict[str, Any]] = {
        "line and attention": {"learning_rate": 2e-4, "dropout": 0.3, "max_steps": 240}
    }
    if horizon == 96:
        ways["attention alone"] = {"line": False, "max_steps": 600}
    for name, options in ways.items():
        errors[name], gains[name], seconds[name] = [], [], 0.0
        for seed in range(3):
            model = AttentionForecaster(
                horizon, LOOKBACK, validation_share=share, random_state=seed, **options
            )
            _, spent = timed(lambda: model.fit(known))  # noqa: B023
            seconds[name] += spent
            errors[name].append(-model.score(later))
            gains[name].append(f"{model.gain_:+.2%} ± {model.gain_error_:.2%}")
        if name == "line and attention":
            moments = WindowMoments.of(later, LOOKBACK, horizon)
            ridge = moments.mean_squared_error(model.state_["line"].astype(float))
            last = moments.mean_squared_error(np.zeros((LOOKBACK, horizon)))
    measure = f"MSE, horizon {horizon}"
    rows = [
        row(task, f"AttentionForecaster, {name}", measure, errors[name], goal, seconds[name],
            f"{np.mean(errors[name]) / ridge:.3f} of the ridge")
        for name in ways
    ]  # fmt: skip
    rows[0]["note"] += f"; gain in validation {', '.join(gains['line and attention'])}"
    return [
        *rows,
        row(task, "closed-form ridge", measure, [ridge]),
        row(task, "repeat the last value", measure, [last]),
    ]


def etth1(horizon: int) -> Rows:
    """Hourly electricity transformer, seven columns."""
    goal = {96: "≤ 0.385", 192: "≤ 0.42", 336: "≤ 0.44", 720: "≤ 0.46"}[horizon]
    series = pd.read_csv(SHARED / "ett" / "ETTh1.csv", index_col="date")
    return forecasts("ETTh1", series, (8640, 2880, 2880), horizon, goal)


def exchange() -> Rows:
    """Daily exchange rates of eight countries."""
    series = pd.read_csv(SHARED / "exchange" / "exchange_rate.csv", index_col="date")
    return forecasts("Exchange", series, (5311, 760, 1517), 96, "≤ 0.09")


# ---------------------------------------------------------------------- anomalies


def nab_series() -> Iterator[tuple[str, np.ndarray, np.ndarray, int]]:
    """Yield name, values, labels and the number of first rows that are learned from and not scored."""
    folder = SHARED / "nab"
    for path, spans in json.loads((folder / "combined_windows.json").read_text(encoding="utf-8")).items():
        table = pd.read_csv(folder / path, parse_dates=["timestamp"])
        labels = np.zeros(len(table), dtype=bool)
        for first, last in spans:
            labels |= table["timestamp"].between(pd.Timestamp(first), pd.Timestamp(last)).to_numpy()
        yield Path(path).stem, table["value"].to_numpy(float), labels, min(int(0.15 * len(table)), 750)


def rolling_z(values: np.ndarray, window: int = 96) -> np.ndarray:
    """Return how far each value is from the mean of those before it, in their standard deviations."""
    past = pd.Series(values).shift(1).rolling(window, min_periods=2)
    found = (pd.Series(values) - past.mean()).abs() / (past.std() + 1e-9)
    return found.fillna(0.0).to_numpy()


def detection(labels: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """Return area under the ROC curve, average precision, and the best plain F1 (never point-adjusted)."""
    precision, recall, _ = precision_recall_curve(labels, scores)
    best = np.max(2 * precision * recall / np.maximum(precision + recall, 1e-12))
    return {
        "AUROC": roc_auc_score(labels, scores), "AP": average_precision_score(labels, scores), "best F1": float(best)
    }  # fmt: skip


def nab() -> Rows:
    """Five series with labelled spans; learned on the first 15 % (at most 750 rows), scored on the rest."""
    names = ("AttentionAnomalyDetector", "rolling z-score (96)", "rolling z-score, mean of 24 rows",
             "distance from the first rows' mean", "the same, mean of 24 rows", "random score")  # fmt: skip
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    by_series, seconds = [], 0.0
    for series, values, labels, n_first in nab_series():
        rest, each = slice(n_first, None), []
        for seed in range(3):
            model = AttentionAnomalyDetector(random_state=seed)
            scores, spent = timed(lambda: -model.fit(values[:n_first, None]).score_samples(values[:, None]))  # noqa: B023
            seconds += spent
            each.append(detection(labels[rest], scores[rest]))
        found[names[0]].append({key: float(np.mean([run[key] for run in each])) for key in each[0]})
        by_series.append(f"{series}: AUROC {found[names[0]][-1]['AUROC']:.3f}")
        far = np.abs(values - values[:n_first].mean()) / values[:n_first].std()
        smooth = {key: pd.Series(x).rolling(24, min_periods=1).mean().to_numpy()
                  for key, x in (("z", rolling_z(values)), ("far", far))}  # fmt: skip
        random = np.random.default_rng(0).random(len(values))
        for name, scores in zip(names[1:], (rolling_z(values), smooth["z"], far, smooth["far"], random)):
            found[name].append(detection(labels[rest], scores[rest]))
        by_series[-1] += f" against {found[names[1]][-1]['AUROC']:.3f}"
    rows = []
    for name in names:
        for key in ("AUROC", "AP", "best F1"):
            goal = "> z-score" if name == names[0] and key != "best F1" else ""
            mean = float(np.mean([one[key] for one in found[name]]))
            rows.append(
                row("NAB, mean of 5 series", name, key, [mean], goal, seconds / 15 if name == names[0] else 0)
            )
    rows[0]["note"], rows[0]["seeds"] = "; ".join(by_series), 3
    return rows


TASKS: dict[str, Callable[[], Rows]] = {
    "digits": digits,
    "mnist": mnist,
    **{f"etth1-{horizon}": lambda horizon=horizon: etth1(horizon) for horizon in (96, 192, 336, 720)},
    "exchange-96": exchange,
    "nab": nab,
}


def main() -> None:
    """Measure what is asked for or missing, publish all rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", choices=[*TASKS, []], metavar="ROW")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows, _ = kept_rows("domains", TASKS, options.rows or list(TASKS), again=options.again)
    notes = [
        "Processor seconds of fit, all threads. Controls beside each model; a control that wins stays in the table."
    ]
    publish("domains", "Images, series, anomalies", rows, notes)


if __name__ == "__main__":
    main()
