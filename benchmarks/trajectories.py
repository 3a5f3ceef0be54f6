"""A trajectory model beside behaviour cloning: the task of docs/course/plot_13_trajectories.py, five seeds.

Run: ``python benchmarks/trajectories.py [--seeds 5]``.
"""

from __future__ import annotations

import runpy
import time
from pathlib import Path

import matplotlib
import numpy as np

from report import options, publish

PAGE = Path(__file__).parents[1] / "docs" / "course" / "plot_13_trajectories.py"


def main() -> None:
    """Run the page with several seeds and publish the mean returns."""
    seeds = options(__doc__, seeds=5).seeds
    matplotlib.use("agg")
    start = time.process_time()
    runs = [runpy.run_path(str(PAGE), {"SEED": seed})["found"] for seed in range(seeds)]
    seconds = (time.process_time() - start) / seeds
    rows: list[dict[str, str | float]] = []
    for name in runs[0]:
        row: dict[str, str | float] = {"policy": name}
        for how in ("drawn", "most likely"):
            values = [run[name][how] for run in runs]
            row[how] = (
                "" if np.isnan(values).any() else f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"
            )
        rows.append(row)
    notes = [
        f"Mean return of 500 episodes of at most 12, mean and standard deviation over {seeds} seeds "
        f"(records, model and episodes); {seconds:.0f} CPU seconds a seed for three models and the page's figure.",
        "drawn: actions drawn from the predicted distribution; most likely: the most likely action. The trajectory model is "
        "asked for the return that a twentieth of the records reach.",
    ]
    publish("trajectories", "Acting by sequence prediction, and its controls", rows, notes)


if __name__ == "__main__":
    main()
