"""Kernel regression beside statsmodels' KernelReg and scikit-learn: same data, same bandwidth, same answer, then time and memory.

python benchmarks/kernel.py [--sizes 500,4000,20000,100000] [--select 250,1000] [--threads 2]
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KNeighborsRegressor
from statsmodels.nonparametric.kernel_regression import KernelReg

from peerattn import NadarayaWatsonRegressor
from report import Row, median_ratio, publish, side_by_side

P = 5
KERNEL_REG_MOST, KERNEL_RIDGE_MOST = 4000, 4000  # rows above which they take minutes, or an n × n array


def sample(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return five characteristics, of which three matter, and an outcome."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, P))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + 0.5 * X[:, 2] + 0.5 * rng.normal(size=n)


def runs_at(n: int) -> dict[str, Callable[[], Any]]:
    """Return the estimators at one bandwidth, each predicting its n training rows."""
    X, y = sample(n)
    h = np.full(P, 0.5)
    ours = NadarayaWatsonRegressor(bandwidth=h).fit(X, y)
    single = NadarayaWatsonRegressor(bandwidth=h, dtype="float32").fit(X, y)
    q = torch.from_numpy(np.hstack([X / h, np.ones((n, 1))]))[None, None].contiguous()
    neighbors = KNeighborsRegressor(50).fit(X, y)
    runs = {
        "one bare SDPA call": lambda: F.scaled_dot_product_attention(q, q, q, scale=1.0),
        "ours": lambda: ours.predict(X),
        "ours, float32": lambda: single.predict(X),
        "scikit-learn KNeighborsRegressor(50)": lambda: neighbors.predict(X),
    }
    if n <= KERNEL_REG_MOST:
        theirs = KernelReg(y, X, "c" * P, "lc", bw=h, rng=0)
        runs["statsmodels KernelReg.fit"] = lambda: theirs.fit()[0]
    if n <= KERNEL_RIDGE_MOST:
        ridge = KernelRidge(kernel="rbf", gamma=2.0)
        runs["scikit-learn KernelRidge (fit, predict)"] = lambda: ridge.fit(X, y).predict(X)
    if importlib.util.find_spec("pykeops") is not None:
        runs["KeOps"] = _keops(X, y, h)
    return runs


def _keops(X: np.ndarray, y: np.ndarray, h: np.ndarray) -> Callable[[], Any]:
    from pykeops.torch import LazyTensor

    z, v = torch.from_numpy(X / h), torch.from_numpy(y)[:, None]

    def run() -> Any:
        K = (-0.5 * ((LazyTensor(z[:, None]) - LazyTensor(z[None])) ** 2).sum(-1)).exp()
        return (K @ v) / K.sum(1)

    return run


def prediction_rows(n: int, repeats: int, threads: int) -> list[Row]:
    """Time and memory of predicting n rows from n rows."""
    runs = runs_at(n)
    error = (
        float(np.abs(runs["ours"]() - runs["statsmodels KernelReg.fit"]()).max())
        if n <= KERNEL_REG_MOST
        else None
    )
    seconds = side_by_side(runs, repeats)
    rows: list[Row] = []
    for name, times in seconds.items():
        same = "" if name != "ours" or error is None else f"{error:.1e}"
        rows.append(
            {
                "rows": f"{n:,}",
                "estimator": name,
                "seconds": float(np.median(times)),
                "of ours": median_ratio(times, seconds["ours"]),
                "MB more": peak_memory(n, name, threads),
                "largest difference to KernelReg": same,
            }
        )
    return rows


def peak_memory(n: int, name: str, threads: int) -> float:
    """Return by how many MB the peak memory of a fresh process grows in one run."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_grown, (n, name, threads))


def _grown(n: int, name: str, threads: int) -> float:
    torch.set_num_threads(threads)
    run, small = runs_at(n)[name], runs_at(100)[name]
    small()
    with open("/proc/self/clear_refs", "w") as control:  # Linux: forget the peak so far
        control.write("5")
    before = _peak()
    run()
    return _peak() - before


def _peak() -> float:
    """Return this process's peak memory in MB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def selection_rows(n: int, repeats: int) -> list[Row]:
    """Bandwidths by least-squares cross-validation: criterion and time; KernelReg runs once."""
    X, y = sample(n)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        ours = NadarayaWatsonRegressor(bandwidth="cv_ls").fit(X, y)
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    theirs = KernelReg(y, X, "c" * P, "lc", bw="cv_ls", rng=0)
    theirs_seconds = time.perf_counter() - start
    least = float(np.squeeze(theirs.cv_loo(theirs.bw, theirs._est_loc_constant)))
    seconds = float(np.median(times))
    found = [("ours", ours.criterion_, seconds), ("statsmodels KernelReg", least, theirs_seconds)]
    return [
        {
            "rows": f"{n:,}",
            "estimator": name,
            "criterion": f"{value:.8f}",
            "seconds": t,
            "of ours": t / seconds,
        }
        for name, value, t in found
    ]


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=numbers, default=[500, 4000, 20_000, 100_000])
    parser.add_argument("--select", type=numbers, default=[250, 1000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.sizes:
        rows = [
            row
            for n in options.sizes
            for row in prediction_rows(n, options.repeats if n < 50_000 else 1, options.threads)
        ]
        notes = [
            f"{P} characteristics, Gaussian kernel, one bandwidth, float64 unless said; {options.threads} threads; median of "
            f"{options.repeats} (one from 50,000 rows on).",
            "KernelReg's fit also computes marginal effects, and is left out above 4,000 rows; kernel ridge is another "
            "estimator, shown for its time. MB more: growth of a fresh process's peak memory.",
        ]
        publish("kernel", "Kernel regression at a given bandwidth: n rows predicted from n rows", rows, notes)
    if options.select:
        rows = [row for n in options.select for row in selection_rows(n, options.repeats)]
        note = f"{P} characteristics, two irrelevant; {options.threads} threads. Ours: median of {options.repeats}."
        publish("kernel_bandwidth", "Bandwidths by least-squares cross-validation", rows, [note])


if __name__ == "__main__":
    main()
