"""One process and two that fit the same model: CPU seconds and peak memory of each, the work they exchange, and equal figures.

python benchmarks/processes.py [--firms 400] [--periods 60 120 240] [--columns 60]

Each fit runs in processes of its own; two are started by torchrun, and each reads its periods of the file.
"""

from __future__ import annotations

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

from peerattn import PeerAttentionRegressor
from peerattn.panel import scan_panel
from peerattn.processes import data_parallel
from report import Row, options, publish

HERE, CPU = Path(__file__), "CPU seconds of a process"


def fit(panel: Path, out: Path) -> None:
    """Fit in this process, with others where torchrun started some, and write what it took."""
    many = int(os.environ.get("WORLD_SIZE", "1")) > 1
    torch.set_num_threads(1)
    stored = scan_panel(panel, outcome="y_next")
    start = time.perf_counter(), time.process_time()
    with data_parallel() if many else nullcontext():
        model = PeerAttentionRegressor(own="linear", n_heads=2, random_state=0).fit(stored)
    took = {
        CPU: time.process_time() - start[1],
        "seconds": time.perf_counter() - start[0],
        "peak memory of a process, MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "weight of the heads": float(model.evidence_["factor"].iloc[0]),
        "heads": len(model.heads_),
        "predicted": model.predict(next(iter(stored)).X).tolist(),
    }
    (out / f"{os.environ.get('RANK', '0')}.json").write_text(json.dumps(took))


def run(panel: Path, n_processes: int) -> list[dict[str, float | list[float]]]:
    """Return what each process took."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n_processes}"]
    command = [sys.executable, *(launch if n_processes > 1 else []), HERE, "fit", panel]
    with tempfile.TemporaryDirectory() as out:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([*map(str, command), out], env=environment, check=True)
        return [json.loads(path.read_text()) for path in sorted(Path(out).iterdir())]


def ratios(rows: list[Row]) -> list[float]:
    """Return CPU seconds of one process over those of each of two."""
    return [float(one[CPU]) / float(two[CPU]) for one, two in zip(rows[::2], rows[1::2], strict=True)]


def main() -> None:
    if sys.argv[1:2] == ["fit"]:  # in a process of its own
        fit(*map(Path, sys.argv[2:]))
        return
    arguments = options(__doc__, firms=400, periods=[60, 120, 240], columns=60)
    rows: list[Row] = []
    apart = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for T in arguments.periods:
            panel = Path(folder, f"{T}.parquet")
            generate(panel, arguments.firms, T, arguments.columns)
            alone = run(panel, 1)
            for n, took in ((1, alone), (2, run(panel, 2))):
                one, other = (np.array(each["predicted"]) for each in (alone[0], took[0]))
                apart = max(apart, float(np.abs(one - other).max() / one.std()))
                most = {name: max(each[name] for each in took) for name in took[0] if name != "predicted"}
                length = len(scan_panel(panel, outcome="y_next"))
                rows.append({"periods": T, "rows": length, "processes": n} | most)
                print(rows[-1], flush=True)
    publish(
        "processes",
        f"One process and two: {arguments.firms} firms, {arguments.columns} characteristics, own model linear, heads",
        rows,
        [
            "Of two processes the larger figure. One thread each, gloo, torch "
            + torch.__version__
            + f", {os.cpu_count()} cores that other "
            "work shared: CPU seconds are what free cores would take, seconds are not.",
            "Steps are of a few periods and their number is fixed; where heads are selected, further seeds may be drawn. CPU "
            f"seconds of one process over those of each of two: {', '.join(f'{each:.2f}' for each in ratios(rows))}.",
            f"Predictions of the first period differ by at most {apart:.1e} standard deviations (float32 training).",
        ],
    )


if __name__ == "__main__":
    main()
