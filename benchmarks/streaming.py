"""Panels larger than memory: peak memory and time against the number of periods, and predictions that were killed.

python benchmarks/streaming.py [--firms 2000] [--periods 100] [--times 1 2 4 32] [--columns 150] [--kills 10]

Panels of T, 2T, 4T and 32T periods are generated into a temporary folder (600 bytes a row at 150 columns). Each stage runs in its
own process, which reports its peak resident memory. Data are never kept.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__)
STAGES = ("import", "scan", "fit", "predict", "network")


def sections(n_firms: int, n_periods: int, n_columns: int) -> Iterator[pd.DataFrame]:
    """Yield periods of unequal size: an outcome of three characteristics, of peers alike in a fourth, and noise."""
    names, firms = [f"x{k:03}" for k in range(n_columns)], np.arange(n_firms)
    for t in range(n_periods):
        rng = np.random.default_rng([17, t])
        there = np.flatnonzero(rng.random(n_firms) < 0.9)
        x = rng.standard_normal((len(there), n_columns), dtype=np.float32)
        order = np.argsort(x[:, 3])
        neighbours = np.convolve(x[order, 4], np.ones(51) / 51, "same")
        y = x[:, :3].sum(1) / 3 + rng.standard_normal(len(there))
        y[order] += 5 * neighbours
        frame = pd.DataFrame(x, columns=names)
        frame.insert(0, "firm", firms[there])
        frame.insert(0, "period", 200_000 + t)
        yield frame.assign(y_next=y.astype(np.float32))


def generate(path: Path, n_firms: int, n_periods: int, n_columns: int) -> None:
    """Write the panel as one Parquet file sorted by period, in row groups that are no periods."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer, waiting = None, []
    for frame in sections(n_firms, n_periods, n_columns):
        waiting.append(pa.Table.from_pandas(frame, preserve_index=False))
        writer = writer or pq.ParquetWriter(path, waiting[0].schema, compression="none", use_dictionary=False)
        if len(waiting) == 16:
            writer.write_table(pa.concat_tables(waiting), row_group_size=25_000)
            waiting = []
    assert writer is not None
    if waiting:
        writer.write_table(pa.concat_tables(waiting), row_group_size=25_000)
    writer.close()


def stage(name: str, panel: Path, folder: Path, training_rows: int) -> dict[str, str]:
    """Run one stage in this process."""
    import peerattn
    from peerattn import PeerAttentionRegressor, PeerNetwork  # noqa: F401
    from peerattn.panel import scan_panel

    start = time.perf_counter(), time.process_time()
    if name != "import":
        stored = scan_panel(panel, outcome="y_next", training_rows=training_rows)
    if name == "fit":
        model = PeerAttentionRegressor(own="linear", kappa=None, n_heads=2, random_state=0)
        model.fit(stored).save(folder / "attention.model")
    if name in ("predict", "network"):
        model = peerattn.load(folder / "attention.model")
        if name == "predict":
            model.write_predictions(stored, folder / "predictions")
        else:
            model.write_networks(stored, folder / "edges", top_k=10)
    seconds, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took = {"peak memory, MiB": f"{peak:,.0f}", "seconds": f"{seconds:.1f}", "CPU seconds": f"{cpu:.1f}"}
    return {"stage": name} | took


def in_own_process(*arguments: object) -> dict[str, str]:
    """Run a stage in a process of its own."""
    command = [sys.executable, HERE, "stage", *map(str, arguments)]
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, str] = json.loads(out.splitlines()[-1])
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def predicting(panel: Path, folder: Path) -> None:
    import peerattn

    stored = peerattn.panel.scan_panel(panel, outcome="y_next")
    peerattn.load(folder / "attention.model").write_predictions(stored, folder / "predictions")


def kills(count: int, panel: Path, folder: Path) -> str:
    """Kill predictions (SIGKILL) at random moments and call again; compare what is there in the end."""
    stage("fit", panel, folder, 10_000)
    fork = multiprocessing.get_context("fork").Process  # the imports are made already
    done, killed, same = [], 0, 0
    rng = np.random.default_rng(0)
    predicting(panel, folder)
    expected = contents(folder / "predictions")
    for _ in range(count):
        shutil.rmtree(folder / "predictions")
        process = fork(target=predicting, args=(panel, folder))
        process.start()
        wanted = rng.integers(1, len(expected) - 2)
        while process.is_alive() and len(list((folder / "predictions").glob("*.parquet"))) < wanted:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.02))  # anywhere within a period
        process.kill()
        process.join()
        killed += process.exitcode == -signal.SIGKILL
        done.append(len(list((folder / "predictions").glob("*.parquet"))))
        predicting(panel, folder)
        same += contents(folder / "predictions") == expected
    return (
        f"{killed} of {count} calls of write_predictions were killed (SIGKILL), with {', '.join(map(str, done))} of "
        f"{len(expected) - 1} periods written, and called again: {same} of {count} folders hold the same bytes as one of a call "
        "that was not killed."
    )


def main() -> None:
    if sys.argv[1:2] == ["stage"]:  # in a process of its own
        name, panel, folder, rows = sys.argv[2:]
        print(json.dumps(stage(name, Path(panel), Path(folder), int(rows))))
        return
    from report import options, publish

    arguments = options(__doc__, firms=2000, periods=100, times=[1, 2, 4, 32], columns=150, training_rows=100_000, kills=10)
    rows: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for times in arguments.times:
            folder = Path(temporary) / str(times)
            folder.mkdir()
            panel, T = folder / "panel.parquet", times * arguments.periods
            generate(panel, arguments.firms, T, arguments.columns)
            size = panel.stat().st_size / 2**20
            for name in STAGES:
                row = in_own_process(name, panel, folder, arguments.training_rows)
                print(T, row, flush=True)
                rows.append({"periods": str(T), "file, MiB": f"{size:,.0f}"} | row)
            panel.unlink()
        small = Path(temporary) / "kills"
        small.mkdir()
        generate(small / "panel.parquet", 500, 40, 20)
        survived = kills(arguments.kills, small / "panel.parquet", small)
    note = "Peak memory is of a process of its own; what imports take is in it. CPU seconds of one thread."
    publish(
        "streaming",
        f"Panels in files: {arguments.firms:,} firms, {arguments.columns} columns, fit on {arguments.training_rows:,} rows",
        rows,
        [survived, note],
    )


if __name__ == "__main__":
    main()
