"""The ingredients of a ratio among its own explanations: price and book value beside price to book."""

from __future__ import annotations

import numpy as np
import pandas as pd

_IDENTITY, _ALONE = (
    0.995,
    0.95,
)  # share of variance explained by all ingredients together, and at most by one of them
_LEAST = 30


def ingredients(numbers: pd.DataFrame, y: np.ndarray) -> dict[str, str]:
    """Return columns whose product or quotient is the outcome, or its exponential.

    The outcome, and its log where it is positive, is regressed on the logs of all positive columns, and on columns that are
    logs already. Where they explain it exactly together, and none does alone, those without which they do not are returned.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame(rng.lognormal(size=(200, 3)), columns=["price", "book", "sales"])
    >>> sorted(ingredients(frame, (frame["price"] / frame["book"]).to_numpy()))
    ['book', 'price']
    """
    columns = {name: values.to_numpy() for name, values in numbers.items()}
    logs = {n: np.log(x) for n, x in columns.items() if (x[np.isfinite(x)] > 0).all()}
    targets = [y, *([np.log(y)] if (y[np.isfinite(y)] > 0).all() else [])]
    for target in targets:
        for given in (logs, columns):
            found = _identity({str(name): x for name, x in given.items()}, target)
            if found:
                others = {name: [other for other in found if other != name] for name in found}
                return {
                    name: f"makes up the outcome with {' and '.join(map(repr, others[name]))}: it is its ingredient"
                    for name in found
                }
    return {}


def _identity(columns: dict[str, np.ndarray], target: np.ndarray) -> list[str]:
    """Return the fewest columns that explain the target exactly together, and not alone."""
    names = [name for name, x in columns.items() if np.isfinite(x).mean() > 0.5]
    rows = np.isfinite(target) & np.all([np.isfinite(columns[name]) for name in names], axis=0)
    if len(names) < 2 or rows.sum() < max(_LEAST, 5 * len(names)) or target[rows].std() == 0:
        return []
    x, y = np.column_stack([columns[name][rows] for name in names]), target[rows]
    if _share(x, y) < _IDENTITY or max(_share(x[:, [k]], y) for k in range(x.shape[1])) > _ALONE:
        return []
    kept = list(range(x.shape[1]))
    for k in range(x.shape[1]):
        rest = [j for j in kept if j != k]
        if len(rest) > 1 and _share(x[:, rest], y) >= _IDENTITY:
            kept = rest
    return [names[k] for k in kept]


def _share(x: np.ndarray, y: np.ndarray) -> float:
    """Return R² of y on x and a constant."""
    x, y = x - x.mean(axis=0), y - y.mean()
    rest = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    return float(1 - rest @ rest / (y @ y))
