"""Time side by side, and show the rows: a table in the terminal, JSON and Markdown in benchmarks/results/; figures of pages."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
SHARED = Path(os.environ.get("PEERATTN_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))

Row = Mapping[str, str | float]


def options(description: str, **defaults: Any) -> argparse.Namespace:
    """Read the command line: an option for each name, of its default's type; types have no default, mappings are choices."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=formatter)
    for name, value in defaults.items():
        kind: dict[str, Any] = {"type": type(value), "default": value}
        if isinstance(value, bool):
            kind = {"action": "store_true"}
        elif isinstance(value, type):
            kind = {"type": value}
        elif isinstance(value, Mapping):
            kind = {"nargs": "*", "choices": list(value), "default": list(value)}
        elif isinstance(value, list):
            kind = {"nargs": "+", "type": type(value[0]), "default": value}
        parser.add_argument(f"--{name.replace('_', '-')}", **kind)
    return parser.parse_args()


def side_by_side(
    runs: Mapping[str, Callable[[], object]], repeats: int = 9, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Return seconds per run and repeat; the runs take turns, so that all meet the same machine.

    On a machine that others use, too, ``clock=time.process_time`` counts what one thread computes.
    """
    for run in runs.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return seconds


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the paired ratios ours / theirs."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def kept_rows(
    name: str, tasks: Mapping[str, Callable[[], Sequence[Row]]], wanted: Sequence[str], *, again: bool
) -> tuple[list[Row], list[str]]:
    """Measure the wanted tasks that results/<name>/ does not keep, or all of them ``again``.

    Returns the rows of all that are kept, in the order of the tasks, and the names of those never run.
    """
    (RESULTS / name).mkdir(parents=True, exist_ok=True)
    kept = {task: RESULTS / name / f"{task}.json" for task in tasks}
    for task in wanted:
        if again or not kept[task].exists():
            rows = json.dumps(tasks[task](), ensure_ascii=False, indent=2)
            kept[task].write_text(rows + "\n", encoding="utf-8")
    there = [path for path in kept.values() if path.exists()]
    found = [row for path in there for row in json.loads(path.read_text(encoding="utf-8"))]
    return found, [task for task, path in kept.items() if not path.exists()]


def stored(path: Path, make: Callable[[], Any]) -> Any:
    """Return a result from its file; it is made and written where there is none, so that a run that was stopped goes on."""
    path = path.with_name(path.name.replace(" ", "_"))
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part")
        temporary.write_text(json.dumps(make()))
        temporary.replace(path)
        print(path.stem, path.read_text(), flush=True)
    return json.loads(path.read_text())


def logged(log: Path | None, tasks: Sequence[tuple[dict[str, Any], Callable[[], Row]]]) -> list[dict[str, Any]]:
    """Return the row of each task, which begins with its key; those in the log (JSON lines) are not made again."""
    lines = log.read_text(encoding="utf-8").splitlines() if log and log.exists() else []
    found = {tuple(row.values())[: len(tasks[0][0])]: row for row in map(json.loads, lines)}
    for key, make in tasks:
        if tuple(key.values()) not in found:
            row = found[tuple(key.values())] = {**key, **make()}
            print(*row.values(), sep=" | ", flush=True)
            if log:
                with log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    return [found[tuple(key.values())] for key, _ in tasks]


def publish(name: str, title: str, rows: Sequence[Row], notes: Sequence[str] = ()) -> None:
    """Print the rows and write results/<name>.json and results/<name>.md."""
    columns = list(rows[0])
    cells = [[_text(row[column]) for column in columns] for row in rows]
    table = Table(*columns, title=title, caption="\n".join(notes), title_justify="left", caption_justify="left")
    for row in cells:
        table.add_row(*row)
    Console().print(table)
    RESULTS.mkdir(exist_ok=True)
    content = {"title": title, "rows": [dict(row) for row in rows], "notes": list(notes)}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    lines = [f"# {title}", "", _line(columns), _line(["---"] * len(columns)), *map(_line, cells)]
    lines += ["", *[f"- {note}" for note in notes]]
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def save_figure(figure: Figure, name: str) -> None:
    """Write a figure of a page, docs/_static/<name>.svg: text as outlines, and the same bytes for the same numbers."""
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        figure.savefig(RESULTS.parents[1] / "docs" / "_static" / f"{name}.svg", metadata={"Date": None})


def _text(value: str | float) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
