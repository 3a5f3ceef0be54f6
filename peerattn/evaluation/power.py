"""How small a network a comparison could have shown."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pandas as pd
from scipy.stats import t as student

from peerattn.evaluation.compared import Compared
from peerattn.evaluation.gains import LEVEL
from peerattn.evaluation.inference.forecast_tests import mean_test, periods_needed

SHARES = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5)


def smallest_gain(
    compared: Compared, control: str, *, power: float = 0.8, n_networks: int = 40
) -> float | None:
    """Return the share of the outcome's variance that a network would have to explain to be found with this probability.

    Networks are planted in the tested rows: scores are products of two random directions of the characteristics, weights their
    softmax over the other firms of the period, and what a peer contributes a third direction. The noise is what the best control
    leaves of the outcome. The peer model is taken to recover all of the planted part, so that the figure is a lower bound: what
    is smaller would have been missed by any model. None where there are no characteristics, one period, or no test.
    """
    numbers, periods = compared.panel.numbers, len(compared.periods)
    if numbers is None or not numbers.shape[1] or periods < 2:
        return None
    there = compared.predictions["outcome"].notna().to_numpy()
    known, X = compared.known, numbers[there]
    noise = (known["outcome"] - known[control]).to_numpy(dtype=float)
    base = float(((known["outcome"] - known["training_mean"]) ** 2).mean())
    over_time = periods >= periods_needed(compared.horizon)
    unit = pd.factorize(known["period" if over_time else "firm"], sort=True)[0]
    limit = None if over_time else float(student.ppf(1 - LEVEL, max(unit.max(), 1)))
    rng = np.random.default_rng(0)
    when = pd.factorize(known["period"], sort=True)[0]
    least = []
    for _ in range(n_networks):
        planted = _planted(X, when, rng)
        spread = float(np.mean(planted**2))
        if spread <= 0:
            return None
        planted *= np.sqrt(base / spread)
        cross, square = (np.bincount(unit, part) for part in (2 * noise * planted, planted**2))
        gains = [np.sqrt(share) * cross + share * square for share in SHARES]
        least.append(bisect_left(gains, True, key=lambda g: _would_be_found(g, compared.horizon, limit)))
    enough = int(np.quantile(least, power, method="inverted_cdf"))
    return SHARES[enough] if enough < len(SHARES) else np.inf


def _would_be_found(gains: np.ndarray, horizon: int, limit: float | None) -> bool:
    if limit is None:
        p = mean_test(gains, horizon).upper_p
        return p is not None and p < LEVEL
    spread = float(gains.std(ddof=1))
    return spread > 0 and float(gains.mean()) / (spread / np.sqrt(len(gains))) > limit


def _planted(X: np.ndarray, when: np.ndarray, rng: np.random.Generator, most: int = 100) -> np.ndarray:
    """Return the peer term of a random network in each row, net of its linear projection on the characteristics."""
    looks, shows, gives = (v / np.linalg.norm(v) for v in rng.normal(size=(3, X.shape[1])))
    term = np.zeros(len(X))
    for period in range(when.max() + 1):
        here = np.flatnonzero(when == period)
        pool = here if len(here) <= most else rng.choice(here, most, replace=False)
        if len(here) < 2:
            continue
        scores = 2 * np.outer(X[here] @ looks, X[pool] @ shows)
        scores[here[:, None] == pool] = -np.inf
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        term[here] = weights @ (X[pool] @ gives) / weights.sum(axis=1)
    design = np.column_stack([np.ones(len(X)), X])
    return term - design @ np.linalg.lstsq(design, term, rcond=None)[0]
