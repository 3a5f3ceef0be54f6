"""Size and power of the forecast tests: how often each rejects where nothing is there, and where something is.

python benchmarks/evaluation.py [--simulations 1000]
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

import numpy as np
import pandas as pd

from peerattn.evaluation import (
    clark_west,
    diebold_mariano,
    encompassing,
    giacomini_white,
    model_confidence_set,
    paired_test,
    superior_ability,
)
from report import Row, publish

PERIODS, FIRMS, TRAINING = 120, 20, 60
MODELS = 6
LEVEL, SET_SIZE = 0.05, 0.10


def panel(rng: np.random.Generator, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return k predictors (T, n, k), noise with a common shock (T, n), and the period of each row."""
    x = rng.normal(size=(TRAINING + PERIODS, FIRMS, k))
    noise = 0.5 * rng.normal(size=(TRAINING + PERIODS, 1)) + rng.normal(size=(TRAINING + PERIODS, FIRMS))
    return x, noise, np.repeat(np.arange(PERIODS), FIRMS)


def two_forecasts(rng: np.random.Generator, gap: float) -> dict[str, bool]:
    """Two fixed linear forecasts that are not nested; the first uses a predictor that is stronger by ``gap``."""
    x, noise, period = panel(rng, 2)
    slopes = np.array([0.3 + gap, 0.3])
    y = (x @ slopes + noise)[TRAINING:].ravel()
    ours, theirs = ((x[TRAINING:, :, k] * slopes[k]).ravel() for k in range(2))
    losses = (y - ours) ** 2, (y - theirs) ** 2
    firm = np.tile(np.arange(FIRMS), PERIODS)
    few = period < 4
    return {
        "Diebold–Mariano": diebold_mariano(*losses, period).p_value < LEVEL,
        "Giacomini–White, conditional": giacomini_white(*losses, period).p_value < LEVEL,
        "Giacomini–White, on average": giacomini_white(*losses, period, conditional=False).p_value < LEVEL,
        "paired by firm, 4 periods": paired_test(
            *(loss[few] for loss in losses), firm[few], period[few]
        ).p_value
        < LEVEL,
    }


def nested(rng: np.random.Generator, slope: float) -> dict[str, bool]:
    """A forecast by the least-squares slope of a training window against zero, and against its own true part."""
    x, noise, period = panel(rng, 2)
    y = slope * x[..., 0] + noise
    fitted = np.sum(x[:TRAINING, :, 0] * y[:TRAINING]) / np.sum(x[:TRAINING, :, 0] ** 2)
    ours, outcome = (fitted * x[TRAINING:, :, 0]).ravel(), y[TRAINING:].ravel()
    useful = (0.1 * x[TRAINING:, :, 0]).ravel()  # part of the outcome that the baseline leaves out
    known, useless = (0.3 * x[TRAINING:, :, 1]).ravel(), (0.3 * x[TRAINING:, :, 0]).ravel()
    both = known + noise[TRAINING:].ravel() + (useful if slope else 0.0)
    return {
        "Clark–West": clark_west(outcome, ours, np.zeros_like(ours), period).p_value < LEVEL,
        "encompassing": encompassing(both, useless, known, period).p_value < LEVEL,
    }


def many(rng: np.random.Generator, gap: float) -> dict[str, bool]:
    """Six fixed linear forecasts, a predictor each; the first is stronger by ``gap``, the second is the benchmark."""
    x, noise, _ = panel(rng, MODELS)
    slopes = np.full(MODELS, 0.3)
    slopes[0] += gap
    y = (x @ slopes + noise)[TRAINING:]
    losses = pd.DataFrame(
        {f"M{k}": ((y - slopes[k] * x[TRAINING:, :, k]) ** 2).mean(axis=1) for k in range(MODELS)}
    )
    better = superior_ability(losses, "M1")
    kept = model_confidence_set(losses, size=SET_SIZE)
    return {
        "any superior": better.p_value < LEVEL,
        "superior ones": bool(better.superior) if gap == 0 else "M0" in better.superior,
        "confidence set keeps the best": "M0" in kept.included,
        "confidence set drops another": len(kept.excluded) > 0,
    }


def shares(draw: object, simulations: int, seed: int) -> dict[str, float]:
    """Return the share of simulations in which each thing happened."""
    found: dict[str, list[bool]] = defaultdict(list)
    for child in np.random.SeedSequence(seed).spawn(simulations):
        for name, happened in draw(np.random.default_rng(child)).items():  # type: ignore[operator]
            found[name].append(bool(happened))
    return {name: float(np.mean(happened)) for name, happened in found.items()}


TO_REACH = {
    "Diebold–Mariano": "0.03 to 0.07",
    "Giacomini–White, conditional": "0.03 to 0.07",
    "Giacomini–White, on average": "0.03 to 0.07",
    "paired by firm, 4 periods": "",
    "Clark–West": "at most 0.07",
    "encompassing": "",
    "any superior": "at most 0.07",
    "superior ones": "at most 0.07",
    "confidence set keeps the best": f"at least {1 - SET_SIZE - 0.02:.2f}",
    "confidence set drops another": "",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=1000)
    options = parser.parse_args()
    start, n = time.perf_counter(), options.simulations
    null = shares(lambda rng: two_forecasts(rng, 0.0), 4 * n, 1)
    null |= shares(lambda rng: nested(rng, 0.0), 4 * n, 2)
    null |= shares(lambda rng: many(rng, 0.0), n, 3)
    skill = shares(lambda rng: two_forecasts(rng, 0.15), n, 4) | shares(lambda rng: nested(rng, 0.1), n, 5)
    skill |= shares(lambda rng: many(rng, 0.15), n, 6)
    rows: list[Row] = [
        {"test": name, "nothing there": null[name], "to reach": TO_REACH[name], "planted skill": skill[name]}
        for name in TO_REACH
    ]
    publish(
        "evaluation",
        f"Rejections at {LEVEL:.0%}, {n} simulations, T = {PERIODS}, {FIRMS} firms, fixed linear forecasts",
        rows,
        [
            f"Tests of two forecasts: {4 * n} simulations where nothing is there. Of {MODELS} at once: any superior to the "
            f"second, the superior ones by step-down, confidence set at {1 - SET_SIZE:.0%}.",
            "Nothing there: equal forecasts (slope 0 for Clark–West; the baseline encompasses). Planted skill: a slope of 0.45 "
            "against 0.30 (0.1 for Clark–West).",
            f"{time.perf_counter() - start:.0f} s.",
        ],
    )


if __name__ == "__main__":
    main()
