"""A transformer over firms: where peers enter nonlinearly, where there are none, and on real panels, with and without attention.

Run: ``python benchmarks/transformer.py [--draws 3] [--panels 20] [--stage nonlinear|no_peers|real]``. Every fit is stored at once
in ``benchmarks/results/transformer/``; a run that was stopped goes on where it stopped.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from functools import partial
from itertools import product

import lead_lag
import no_harm
import nulls
import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from peerattn import PeerTransformerRegressor
from peerattn.evaluation import diebold_mariano
from peerattn.exceptions import PeerAttnWarning
from peerattn.models import PeerFeatures
from report import RESULTS, options, publish, stored

N, P, TEST, NOISE = 40, 4, 60, 0.235  # noise variance over that of the signal: the truth has R² of about .81
SHAPES = {
    "mean": lambda m, own: m,
    "own x mean": lambda m, own: own * m,
    "max(mean - own/2, 0)": lambda m, own: np.maximum(m - own / 2, 0),
    "absolute mean": lambda m, own: np.abs(m),
}
TRANSFORMER, CONTROL, BOOSTING, LINEAR = "transformer", "without attention", "boosting", "least squares"
STAGES = {"nonlinear": "", "no_peers": "", "real": ""}
REAL = {
    "Grunfeld, investment": ("us_annual_grunfeld", "invest_next"),
    "EmplUK, employment growth": ("uk_annual_empluk", "dlemp_next"),
    "Tobin's q, investment rate": ("us_annual_tobinq", "ikn_next"),
    "Russell 3000, EBIT over assets": ("us_annual_r3000", "ebit_ta_next"),
}
DAILY = "25 portfolios, next day's return"


def simulated(shape: str, periods: int, seed: int) -> tuple[pd.DataFrame, pd.Series, np.ndarray]:
    """Return characteristics, outcome and signal; weights are softmax of a directed score of characteristics."""
    g = np.random.default_rng(seed)
    Q, K = g.normal(size=(2, P, 3))
    gamma = g.normal(size=P)
    x = g.normal(size=(N, P))
    rows = []
    means = []
    for _ in range(periods + TEST):
        x = 0.9 * x + np.sqrt(0.19) * g.normal(size=(N, P))
        score = 2 * (x @ Q) @ (x @ K).T / np.sqrt(3 * P)
        np.fill_diagonal(score, -np.inf)
        w = np.exp(score - score.max(1, keepdims=True))
        rows.append(x)
        means.append(w / w.sum(1, keepdims=True) @ (x @ gamma))
    m = np.array(means)
    signal = SHAPES[shape]((m - m.mean()) / m.std(), np.array(rows)[..., 0])
    signal = (signal - signal.mean()) / signal.std()
    index = pd.MultiIndex.from_product([range(periods + TEST), range(N)], names=["period", "firm"])
    X = pd.DataFrame(np.concatenate(rows), index, columns=["a", "b", "c", "d"])
    y = pd.Series((signal + np.sqrt(NOISE) * g.normal(size=signal.shape)).ravel(), index, name="y")
    return X, y, signal.ravel()


def predictions(X: pd.DataFrame, y: pd.Series, train: np.ndarray, seed: int) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Return what each model predicts for the later rows, and the transformer's CPU seconds and weight."""
    known = train & y.notna().to_numpy()
    start = time.process_time()
    model = PeerTransformerRegressor(random_state=seed).fit(X[train], y[train])
    facts = {"seconds": time.process_time() - start, "weight": float(model.evidence_.loc["peers", "factor"])}
    control = PeerTransformerRegressor(attention=False, random_state=seed).fit(X[train], y[train])
    found = {TRANSFORMER: model.predict(X[~train]), CONTROL: control.predict(X[~train])}
    numbers = X.select_dtypes("number")
    features = PeerFeatures().fit(numbers[known])
    Z = features.transform(numbers)
    boosting = HistGradientBoostingRegressor(early_stopping=False, random_state=0).fit(Z[known], y[known])
    filled = numbers.fillna(numbers[train].median())
    least_squares = LinearRegression().fit(filled[known], y[known])
    return found | {BOOSTING: boosting.predict(Z[~train]), LINEAR: least_squares.predict(filled[~train])}, facts


def scores(y: pd.Series, found: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return R² of each model, and t of the transformer beside the controls: squared errors, paired by period."""
    known = y.notna().to_numpy()
    true = y[known]
    error = {name: (true - predicted[known]) ** 2 for name, predicted in found.items()}
    rows = {name: 1 - float(e.sum() / ((true - true.mean()) ** 2).sum()) for name, e in error.items()}
    period = true.index.get_level_values("period")
    for name in (CONTROL, BOOSTING):
        test = diebold_mariano(error[TRANSFORMER], error[name], period)
        rows[f"t over {name}"] = float("nan") if test.t is None else float(test.t)
    return rows


def nonlinear(shape: str, periods: int, seed: int) -> dict[str, float]:
    """Return R² on the last periods of a simulated panel."""
    X, y, signal = simulated(shape, periods, seed)
    train = np.asarray(X.index.get_level_values("period") < periods)
    found, facts = predictions(X, y, train, seed)
    return scores(y[~train], {"truth": signal[~train], **found}) | facts


def no_peers(name: str, task: str, seed: int) -> dict[str, float]:
    """Return the weight of the transformer on a panel without peers (those of ``nulls.py``)."""
    start = time.process_time()
    model = PeerTransformerRegressor(task=task, random_state=seed).fit(*nulls.panel(name, seed))
    return {"weight": float(model.evidence_.loc["peers", "factor"]), "seconds": time.process_time() - start}


def real(name: str) -> dict[str, float]:
    """Return R² on the last periods of a real panel."""
    if name == DAILY:
        X, y, train = lead_lag.load(*lead_lag.SPANS[0])
    else:
        (task,) = (t for t in no_harm.TASKS if (t.file, t.outcome) == REAL[name])
        X, y, train = task.load()
    found, facts = predictions(X, y, train, seed=0)
    return {"test rows": float(y[~train].notna().sum())} | scores(y[~train], found) | facts


def table_nonlinear(draws: int) -> list[dict[str, str | float]]:
    """Return one row for each shape and number of periods: means over draws, of the tests the least."""
    rows: list[dict[str, str | float]] = []
    for periods in (240, 80):
        for shape in SHAPES:
            name = shape.replace("/", " over ")
            paths = [RESULTS / "transformer" / f"{name}-{periods}-{k}.json" for k in range(draws)]
            found = pd.DataFrame([stored(path, partial(nonlinear, shape, periods, k)) for k, path in enumerate(paths)])
            tests = [column for column in found if column.startswith("t over")]
            row = found.mean().to_dict() | {f"{column}, least": found[column].min() for column in tests}
            kept = {column: round(value, 3) for column, value in row.items() if column not in tests}
            rows.append({"outcome": shape, "periods": periods, "draws": draws, **kept})
            print(rows[-1], flush=True)
    return rows


def table_no_peers(panels: int) -> list[dict[str, str | float]]:
    """Return one row for each process without peers and task: how often the transformer gets weight."""
    rows: list[dict[str, str | float]] = []
    for name, task in product(nulls.NULLS, ("forecast", "nowcast")):
        paths = [RESULTS / "transformer" / f"no-peers-{name}-{task}-{k}.json" for k in range(panels)]
        found = pd.DataFrame([stored(path, partial(no_peers, name, task, k)) for k, path in enumerate(paths)])
        selected = {"selected": float((found["weight"] > 0).mean()), "largest weight": float(found["weight"].max())}
        seconds = float(found["seconds"].mean())
        rows.append({"no peers, but": name, "task": task, "panels": panels, **selected, "CPU seconds": seconds})
        print(rows[-1], flush=True)
    return rows


def table_real() -> list[dict[str, str | float]]:
    """Return one row for each real panel."""
    paths = {name: RESULTS / "transformer" / f"real-{k}.json" for k, name in enumerate([*REAL, DAILY])}
    rows: list[dict[str, str | float]] = []
    for name, path in paths.items():
        found = stored(path, partial(real, name))
        rows.append({"panel": name, **{column: round(value, 3) for column, value in found.items()}})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Fit all panels and publish the tables."""
    arguments = options(__doc__, draws=3, panels=20, stage=STAGES)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", PeerAttnWarning)
    defaults = (
        "Defaults, one thread; t: squared errors of the same rows, paired by period (Diebold and Mariano), positive: the "
        "transformer's are smaller."
    )
    boosting = (
        "Boosting has own characteristics and the means of all other firms (PeerFeatures). Seconds are CPU seconds of the "
        "transformer's fit; weight is its weight in the prediction."
    )
    if "nonlinear" in arguments.stage:
        notes = [f"R² on the last 60 periods, mean over draws. {defaults}", boosting]
        title = "A transformer over firms where peers enter nonlinearly"
        publish("transformer", title, table_nonlinear(arguments.draws), notes)
    if "no_peers" in arguments.stage:
        notes = ["Defaults; 40 firms, 24 periods; the processes of nulls.py."]
        title = "How often a transformer over firms is selected where there are no peers"
        publish("transformer_no_peers", title, table_no_peers(arguments.panels), notes)
    if "real" in arguments.stage:
        notes = [f"R² on the last periods, against the mean of the tested rows. {defaults}", boosting]
        title = "A transformer over firms on real panels, with and without attention"
        publish("transformer_real", title, table_real(), notes)


if __name__ == "__main__":
    main()
