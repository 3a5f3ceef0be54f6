"""Killed at random moments by a signal that cannot be caught: do fits and comparisons go on, and end with the same bits?

Run: ``python benchmarks/kills.py [--kills 10] [--only fit compare]``. Each command is started in a fresh folder, killed after a
random time, and run again to its end, ten times. What it writes is compared, byte by byte, with what one run that nobody stopped
writes. A run that ends before its kill does not count.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import multiprocessing
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import peerattn
import peerattn.models  # before the forks
from peerattn import cli
from report import publish

FORK = multiprocessing.get_context("fork")  # packages are imported once, so that kills land in the work


@dataclass(frozen=True)
class Task:
    """A command, what it writes its state into, and the figures it ends with."""

    name: str
    command: Callable[[Path, Path], list[str]]  # of the panel's file and a folder for all else
    state: str
    results: Callable[[Path], bytes]


def fit(*options: str) -> Callable[[Path, Path], list[str]]:
    """Return the command that fits a model with a checkpoint."""

    def command(panel: Path, folder: Path) -> list[str]:
        kept = ["--checkpoint", str(folder / "state"), "--out", str(folder / "a.model")]
        return ["fit", str(panel), "--outcome", "y", *options, *kept, "--quiet"]

    return command


def compare(panel: Path, folder: Path) -> list[str]:
    """Return the command that compares two models and the controls in four folds."""
    models = ["--models", "kernel,attention", "--set", "attention.n_heads=1"]
    folds = ["--test-periods", "4", "--refit-every", "1", "--out", str(folder / "state"), "--quiet"]
    return ["compare", str(panel), "--outcome", "y", *models, *folds]


def model(folder: Path) -> bytes:
    """Return the bytes of the saved model."""
    return (folder / "a.model").read_bytes()


def predictions(folder: Path) -> bytes:
    """Return the bytes of a comparison's predictions and of its network."""
    return b"".join((folder / "state" / f"{name}.parquet").read_bytes() for name in ("predictions", "edges"))


#: A streaming ``predict`` joins here: its command, its folder, and the bytes it writes.
TASKS = (
    Task("fit", fit("--task", "explain", "--set", "attention.n_heads=2"), "state", model),
    Task("compare", compare, "state/fits", predictions),
)


def seconds_of(command: list[str], moments: float | None) -> tuple[int | None, float]:
    """Run a command in a process of its own, killed after so many seconds if given; return its exit code and its seconds."""
    start = time.perf_counter()
    process = FORK.Process(target=quietly, args=(command,))
    process.start()
    process.join(moments)
    if process.is_alive():
        process.kill()
        process.join()
    elif process.exitcode:
        raise SystemExit(f"{command}: exit {process.exitcode}")
    return process.exitcode, time.perf_counter() - start


def quietly(command: list[str]) -> None:
    """Run the command line and leave with its exit code; only errors are shown."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        code = cli.run(command)
    os._exit(code)


def killed(task: Task, panel: Path, kills: int, chance: random.Random) -> dict[str, str | float]:
    """Return how many kills landed, and whether the figures are those of a run that was not stopped."""
    with tempfile.TemporaryDirectory() as parent:
        unbroken = Path(parent, "unbroken")
        unbroken.mkdir()
        _, usual = seconds_of(task.command(panel, unbroken), None)
        expected, folder = task.results(unbroken), Path(parent, "killed")
        folder.mkdir()
        landed, same, files = 0, 0, []
        while landed < kills:
            shutil.rmtree(folder)
            folder.mkdir()
            code, _ = seconds_of(task.command(panel, folder), chance.uniform(0.05, 0.95) * usual)
            if code == 0:  # it ended before the signal
                continue
            landed += 1
            files.append(sum(1 for path in (folder / task.state).rglob("*") if path.is_file()))
            seconds_of(task.command(panel, folder), None)
            same += task.results(folder) == expected
    return {
        "task": task.name,
        "seconds unbroken": round(usual, 1),
        "kills": landed,
        "same bytes at the end": same,
        "files of the state at the kills": " ".join(map(str, sorted(files))),
        "sha256": hashlib.sha256(expected).hexdigest()[:12],
    }


def main() -> None:
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=[task.name for task in TASKS])
    options = parser.parse_args()
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        panel = Path(folder, "panel.parquet")
        simulated = peerattn.simulate_panel(24, 12, 3, random_state=0)
        simulated.X.assign(y=simulated.y).reset_index().to_parquet(panel)
        for task in TASKS:
            if task.name in options.only:
                publish(
                    f"kills_{task.name}",
                    f"{options.kills} kills of {task.name} by SIGKILL, at random moments",
                    [killed(task, panel, options.kills, chance)],
                    [
                        "Panel: 24 firms, 12 periods, 3 characteristics, simulated.",
                        f"{os.cpu_count()} cores, other work beside; torch {torch.__version__}.",
                    ],
                )


if __name__ == "__main__":
    main()
