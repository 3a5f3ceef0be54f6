"""Does ``compare`` at defaults say that peers help where no firm affects any other, and where they do?

Panels of 40 firms × 24 periods without peers (firm effects, an interaction, AR(.9) own dynamics, a curve of the own past), and
simulated ones with a true directed network of half of the variance. Run in parts; every finished panel is kept in
``benchmarks/results/nulls_compare/`` and a run that was stopped goes on:

    python benchmarks/nulls_compare.py [--kinds firm_effect,network] [--tasks forecast,explain] [--panels 40] [--minutes 9]
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas as pd

from peerattn import simulate_panel
from peerattn.evaluation import compare
from report import RESULTS, Row, publish

FIRMS, PERIODS = 40, 24
FOLDER = RESULTS / "nulls_compare"
Made = tuple[pd.DataFrame, pd.Series]


def _frame(rng: np.random.Generator, y: Callable[[np.ndarray], np.ndarray]) -> Made:
    x = rng.normal(size=(FIRMS, PERIODS, 3))
    periods = pd.period_range("2000Q1", periods=PERIODS, freq="Q")
    index = pd.MultiIndex.from_product(
        [[f"F{k:02d}" for k in range(FIRMS)], periods], names=["firm", "period"]
    )
    X = pd.DataFrame(x.reshape(-1, 3), index, ["size", "leverage", "growth"])
    return X, pd.Series(y(x).ravel(), index, name="outcome")


def firm_effect(rng: np.random.Generator) -> Made:
    """Every firm has a level of its own."""
    return _frame(rng, lambda x: x[..., 0] + rng.normal(size=(FIRMS, 1)) + rng.normal(size=x.shape[:2]))


def interaction(rng: np.random.Generator) -> Made:
    """The product of two own characteristics."""
    return _frame(rng, lambda x: x[..., 0] + 1.5 * x[..., 0] * x[..., 1] + rng.normal(size=x.shape[:2]))


def persistence(rng: np.random.Generator) -> Made:
    """Own shocks that last: AR(.9)."""

    def y(x: np.ndarray) -> np.ndarray:
        u = rng.normal(size=x.shape[:2])
        u[:, 0] /= np.sqrt(1 - 0.81)
        for t in range(1, PERIODS):
            u[:, t] += 0.9 * u[:, t - 1]
        return x[..., 0] + u

    return _frame(rng, y)


def history(rng: np.random.Generator) -> Made:
    """Own lags of outcome and characteristic, and a firm's own slope."""

    def y(x: np.ndarray) -> np.ndarray:
        out, slope = np.zeros(x.shape[:2]), 1 + 0.5 * rng.normal(size=FIRMS)
        for t in range(PERIODS):
            before, further = (out[:, t - k] if t >= k else 0.0 for k in (1, 2))
            lag = x[:, t - 1, 1] if t else 0.0
            out[:, t] = 0.4 * before + 0.3 * further + slope * x[:, t, 0] + 0.5 * lag + rng.normal(size=FIRMS)
        return out

    return _frame(rng, y)


def network(rng: np.random.Generator) -> Made:
    """A true directed network that makes half of the variance."""
    panel = simulate_panel(FIRMS, PERIODS, 3, signal_share=0.5, random_state=int(rng.integers(2**31)))
    return panel.X, panel.y


KINDS = {f.__name__: f for f in (firm_effect, interaction, persistence, history, network)}


def one(kind: str, task: str, seed: int) -> dict[str, object]:
    """Return what ``compare`` at defaults says of one panel."""
    X, y = KINDS[kind](np.random.default_rng([seed, list(KINDS).index(kind)]))
    start = time.process_time()
    result = compare(["attention"], X, y, task=task, verbose=False)
    claims, gain = result.claims, result.claims.gain
    entered = result.note(claims.peer or "").fits_with_peers if claims.peer else 0
    return {
        "answer": claims.answer,
        "why": claims.why,
        "gain": None if gain is None else round(gain.gain, 4),
        "p": claims.p,
        "fits with peers": entered,
        "control": claims.control,
        "seconds": round(time.process_time() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--tasks", default="forecast,explain")
    parser.add_argument("--panels", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=600, help="stop after so many minutes")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    cells = [
        (k, t)
        for k in options.kinds.split(",")
        for t in options.tasks.split(",")
        if (k, t) != ("network", "explain")
    ]
    for seed in range(options.panels):
        for kind, task in cells:
            path = FOLDER / f"{kind}_{task}.json"
            kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            if str(seed) not in kept and time.monotonic() < end:
                kept[str(seed)] = one(kind, task, seed)
                path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    rows: list[Row] = []
    for path in sorted(FOLDER.glob("*.json")):
        kind, _, task = path.stem.rpartition("_")
        kept = list(json.loads(path.read_text(encoding="utf-8")).values())
        answers = Counter(found["answer"] for found in kept)
        shares = {
            name: f"{answers[name]} of {len(kept)}"
            for name in ("Yes", "Not shown", "No", "Could not be judged")
        }
        entered = sum(bool(found["fits with peers"]) for found in kept)
        seconds = float(np.median([found["seconds"] for found in kept]))
        rows.append(
            {
                "panel": kind.replace("_", " "),
                "task": task,
                **shares,
                "peers entered": entered,
                "CPU s": seconds,
            }
        )
    notes = [
        "compare(['attention'], X, y, task=...) at its defaults: eight tested periods, refitted each; 40 firms × 24 periods.",
        "'Yes' is wrong everywhere but in the panels with a network. 'peers entered': panels in which any fit kept peers.",
    ]
    publish("nulls_compare", "Do peers help? What is said where none affects any other", rows, notes)


if __name__ == "__main__":
    main()
