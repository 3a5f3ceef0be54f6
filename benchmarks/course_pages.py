"""Two pages of the course for longer: docs/core_course/plot_12_size.py and docs/core_course/plot_13_trajectories.py.

Run: ``python benchmarks/course_pages.py [--pages size trajectories] [--seeds 5]``.

size: loss by size and by data beside a recurrent network, more steps and larger networks; its figure goes to docs/_static.
trajectories: a trajectory model beside behaviour cloning, five seeds.
"""

from __future__ import annotations

import runpy
import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch

from report import Row, options, publish, save_figure

COURSE = Path(__file__).parents[1] / "docs" / "core_course"
STEPS, BATCH, BLOCK, RATE = 2000, 24, 64, 5e-3
WIDTHS, WIDTH, SHARES = (16, 32, 64, 128), 64, (1 / 64, 1 / 16, 1 / 4, 1)


def run(page: str, **given: Any) -> dict[str, Any]:
    """Return what a page computes with other settings than its own."""
    return runpy.run_path(str(COURSE / f"plot_{page}.py"), given)


def size() -> None:
    """Publish the losses and the figure."""
    start, training = time.process_time(), (STEPS, BATCH, BLOCK, RATE)
    page = run("12_size", TRAINING=training, WIDTHS=WIDTHS, WIDTH=WIDTH, SHARES=SHARES)
    minutes = (time.process_time() - start) / 60
    save_figure(page["figure"], "size_and_data")
    rows: list[Row] = [
        {"by": by, "network": name, "number": f"{n:,}", "loss": round(loss, 3)}
        for by, found in (("size", page["by_size"]), ("data", page["by_data"]))
        for name, points in found.items()
        for n, loss in points
    ]
    notes = [
        "Loss in nats a character on the first 20,000 characters of numpy's docstrings, which no network learned from; "
        f"frequency of characters alone {page['frequency']:.2f}.",
        f"size: number of parameters, all {len(page['shown']):,} characters; data: number of characters to learn from, "
        f"width {WIDTH}. {STEPS:,} steps of {BATCH} × {BLOCK} characters; the step of least loss on another 20,000 is kept. One "
        "seed.",
        f"{minutes:.0f} CPU minutes in all on one thread; torch {torch.__version__}, numpy {np.__version__}.",
    ]
    publish("size_and_data", "Loss by size and by data", rows, notes)


def trajectories(seeds: int) -> None:
    """Publish the mean returns."""
    start = time.process_time()
    runs = [run("13_trajectories", SEED=seed)["found"] for seed in range(seeds)]
    seconds = (time.process_time() - start) / seeds
    rows: list[dict[str, str | float]] = []
    for name in runs[0]:
        row: dict[str, str | float] = {"policy": name}
        for how in ("drawn", "most likely"):
            values = [one[name].get(how, np.nan) for one in runs]
            mean = f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"
            row[how] = "" if np.isnan(values).any() else mean
        rows.append(row)
    notes = [
        f"Mean return of 500 episodes of at most 12, mean and standard deviation over {seeds} seeds "
        f"(records, model and episodes); {seconds:.0f} CPU seconds a seed for three models and the page's figure.",
        "drawn: actions drawn from the predicted distribution; most likely: the most likely action. The trajectory model is "
        "asked for the return that a twentieth of the records reach.",
    ]
    publish("trajectories", "Acting by sequence prediction, and its controls", rows, notes)


def main() -> None:
    arguments = options(__doc__, pages={"size": size, "trajectories": trajectories}, seeds=5)
    matplotlib.use("agg")
    if "size" in arguments.pages:
        torch.set_num_threads(1)
        size()
    if "trajectories" in arguments.pages:
        trajectories(arguments.seeds)


if __name__ == "__main__":
    main()
