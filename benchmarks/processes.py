"""One process and two that fit the same model: CPU seconds and peak memory of each, the work they exchange, and equal figures.

python benchmarks/processes.py [--firms 400] [--periods 60 120 240] [--columns 60]

Each fit runs in processes of its own; two are started by torchrun, and each reads its periods of the file.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from streaming import generate

from report import Row, publish

HERE = Path(__file__)


def fit(panel: Path, out: Path) -> None:
    """Fit in this process, with others where torchrun started some, and write what it took."""
    from peerattn import PeerAttentionRegressor
    from peerattn.panel import scan_panel
    from peerattn.processes import data_parallel

    many = int(os.environ.get("WORLD_SIZE", "1")) > 1
    torch.set_num_threads(1)
    stored = scan_panel(panel, outcome="y_next")
    start = time.perf_counter(), time.process_time()
    with data_parallel() if many else nullcontext():
        model = PeerAttentionRegressor(own="linear", n_heads=2, random_state=0).fit(stored)
    took = {
        "seconds": time.perf_counter() - start[0],
        "cpu": time.process_time() - start[1],
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "factor": float(model.evidence_["factor"].iloc[0]),
        "heads": len(model.heads_),
        "predicted": model.predict(next(iter(stored)).X).tolist(),
    }
    (out / f"{os.environ.get('RANK', '0')}.json").write_text(json.dumps(took))


def run(panel: Path, n_processes: int) -> list[dict[str, float | list[float]]]:
    """Return what each process took."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n_processes}"]
    command = [sys.executable, *(launch if n_processes > 1 else []), HERE, "--fit", panel]
    with tempfile.TemporaryDirectory() as out:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([*map(str, command), out], env=environment, check=True)
        return [json.loads(path.read_text()) for path in sorted(Path(out).iterdir())]


def ratios(rows: list[Row]) -> list[float]:
    """Return CPU seconds of one process over those of each of two."""
    return [float(one["cpu"]) / float(two["cpu"]) for one, two in zip(rows[::2], rows[1::2], strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--firms", type=int, default=400)
    parser.add_argument("--periods", type=int, nargs="+", default=[60, 120, 240])
    parser.add_argument("--columns", type=int, default=60)
    parser.add_argument("--fit", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        fit(*map(Path, options.fit))
        return
    from peerattn.panel import scan_panel

    rows: list[Row] = []
    apart = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for T in options.periods:
            panel = Path(folder, f"{T}.parquet")
            generate(panel, options.firms, T, options.columns)
            alone = run(panel, 1)
            for n, took in ((1, alone), (2, run(panel, 2))):
                one, other = (np.array(each["predicted"]) for each in (alone[0], took[0]))
                apart = max(apart, float(np.abs(one - other).max() / one.std()))
                rows.append(
                    {
                        "periods": T,
                        "rows": len(scan_panel(panel, outcome="y_next")),
                        "processes": n,
                        "cpu": max(float(each["cpu"]) for each in took),
                        "seconds": max(float(each["seconds"]) for each in took),
                        "peak": max(float(each["peak"]) for each in took),
                        "factor": float(took[0]["factor"]),
                        "heads": int(took[0]["heads"]),
                    }
                )
                print(rows[-1], flush=True)
    names = {
        "cpu": "CPU seconds of a process",
        "peak": "peak memory of a process, MiB",
        "factor": "factor of the heads",
    }
    publish(
        "processes",
        f"One process and two: {options.firms} firms, {options.columns} characteristics, own model linear, heads searched",
        [{names.get(name, name): value for name, value in row.items()} for row in rows],
        [
            "Of two processes the larger figure. One thread each, gloo, torch "
            + torch.__version__
            + f", {os.cpu_count()} cores that other "
            "work shared: CPU seconds are what free cores would take, seconds are not.",
            "A search takes steps of a few periods, however many there are: CPU seconds depend on when it stops, not on rows. "
            f"Those of one process over those of each of two: {', '.join(f'{each:.2f}' for each in ratios(rows))}.",
            f"Predictions of the first period differ by at most {apart:.1e} standard deviations (float32 training).",
        ],
    )


if __name__ == "__main__":
    main()
