"""Loss by size and by data, beside a recurrent network: docs/course/plot_20_size.py, for longer and with larger networks.

Run: ``python benchmarks/size_and_data.py``. The figure goes to docs/_static.
"""

from __future__ import annotations

import runpy
import time
from pathlib import Path

import matplotlib
import numpy as np
import torch

from report import Row, publish, save_figure

PAGE = Path(__file__).parents[1] / "docs" / "course" / "plot_20_size.py"
STEPS, BATCH, BLOCK, RATE = 2000, 24, 64, 5e-3
WIDTHS, WIDTH, SHARES = (16, 32, 64, 128), 64, (1 / 64, 1 / 16, 1 / 4, 1)


def main() -> None:
    """Run the page with more steps and larger networks; publish its losses and its figure."""
    matplotlib.use("agg")
    torch.set_num_threads(1)
    start = time.process_time()
    given = {"TRAINING": (STEPS, BATCH, BLOCK, RATE), "WIDTHS": WIDTHS, "WIDTH": WIDTH, "SHARES": SHARES}
    page = runpy.run_path(str(PAGE), given)
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


if __name__ == "__main__":
    main()
