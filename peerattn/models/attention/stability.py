"""One network, whoever fits: fits from other starts and other periods are compared, and averaged where they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from peerattn.models.attention.parts import Part
from peerattn.models.pools import Section, of_each

RELIABLE = 0.9  # correlation that the networks of two fits must reach, or of two averages of fits
MOST_STARTS = 4  # that are averaged
SECTIONS, FIRMS = 3, 500  # last training periods, and firms of each, on which networks are compared
TOP = 5


def stable(
    fit: Callable[[int], Part], trials: Sequence[Part], sections: Sequence[Section]
) -> tuple[tuple[Part, ...], pd.DataFrame]:
    r"""Fit a part as often as its network needs to be the same whoever fits.

    One fit suffices where its weights correlate with those of the last trial (fitted to fewer periods, from another start) by
    at least .9. Otherwise up to four starts are made, and those k of the least squared error in training are averaged whose
    average another one would match by .9, :math:`k \bar r / (1 + (k - 1) \bar r) \ge .9` (Spearman 1910, Brown 1910), k as
    large as can be, at least two: a start that ended in a poor optimum is left out.

    Returns
    -------
    parts : tuple of Part
        Fits to be averaged; empty where no two of four starts suffice: the network is not identified.
    agreement : DataFrame
        Columns comparison ("folds" or "seeds", of the fits that are averaged, of all where none are), correlation, common_top5.
    """
    seen = [_few(section) for section in sections[-SECTIONS:]]
    parts = [fit(0)]
    found = [_weights(parts[0], seen)]
    rows = [("folds", *agreement(found[0], _weights(trial, seen))) for trial in trials]
    kept = [0] if rows and rows[-1][1] >= RELIABLE else []
    pairs: dict[tuple[int, int], tuple[float, float]] = {}
    errors = [] if kept else [_squared_error(parts[0], sections)]
    while not kept and len(parts) < MOST_STARTS:
        parts.append(fit(new := len(parts)))
        found.append(_weights(parts[-1], seen))
        errors.append(_squared_error(parts[-1], sections))
        pairs |= {(old, new): agreement(found[old], found[new]) for old in range(new)}
        best = np.argsort(errors, kind="stable").tolist()
        enough = (best[:k] for k in range(len(best), 1, -1) if _reliability(best[:k], pairs) >= RELIABLE)
        kept = next(enough, [])
    shown = sorted(kept) or range(len(parts))
    rows += [("seeds", *pairs[pair]) for pair in combinations(shown, 2)]
    frame = pd.DataFrame(rows, columns=["comparison", "correlation", "common_top5"])
    return tuple(parts[k] for k in sorted(kept)), frame


def _reliability(fits: Sequence[int], pairs: Mapping[tuple[int, int], tuple[float, float]]) -> float:
    """Return the correlation that the average of these fits is expected to have with another such average."""
    k, r = len(fits), float(np.mean([pairs[pair][0] for pair in combinations(sorted(fits), 2)]))
    return k * r / max(1 + (k - 1) * r, 1e-12)


def _squared_error(part: Part, sections: Sequence[Section]) -> float:
    """Return what a part leaves of the rows it was fitted to."""
    left = 0.0
    for section, added in zip(sections, part.additions(sections), strict=True):
        y = section.focal.y
        if y is not None and len(y):
            weight = 1.0 if section.focal.loss_weight is None else section.focal.loss_weight.reshape(-1, 1)
            left += float(np.sum(weight * (y.reshape(added.shape) - added) ** 2))
    return left


def _few(section: Section) -> Section:
    focal = section.focal.take(slice(0, FIRMS))
    return replace(section, focal=focal)


def _weights(part: Part, sections: Sequence[Section]) -> list[np.ndarray]:
    return of_each(sections, lambda section: part.weights(section, slice(0, len(section.focal))))


def agreement(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return the mean correlation of two networks' weights over periods, and the mean share of common top-5 peers."""
    pairs = list(zip(a, b, strict=True))
    return float(np.mean([_correlation(*pair) for pair in pairs])), float(
        np.mean([_common(*pair) for pair in pairs])
    )


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    admissible = (a != 0) | (b != 0)  # neither firms themselves nor pairs that a prior excludes
    x, y = a[admissible], b[admissible]
    vary = len(x) > 1 and all(np.ptp(w) > 1e-9 * np.abs(w).max() for w in (x, y))
    return float(np.corrcoef(x, y)[0, 1]) if vary else 0.0


def _common(a: np.ndarray, b: np.ndarray) -> float:
    k = min(TOP, a.shape[1])
    if not (k and len(a)):
        return 0.0
    tops = [np.argpartition(-w, k - 1, axis=1)[:, :k] for w in (a, b)]
    return float(np.mean([len(np.intersect1d(x, y)) / k for x, y in zip(*tops, strict=True)]))
