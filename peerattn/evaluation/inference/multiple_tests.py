"""Tests of many models at once: which are among the best, and does any beat the benchmark? By ``arch``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import MIN_PERIODS, p_words
from peerattn.exceptions import InputError, did_you_mean


@dataclass(frozen=True)
class ConfidenceSet:
    """Models that cannot be told from the best.

    Attributes
    ----------
    included, excluded : tuple of str
    p_values : Series
        MCS p-value by model; a model is included where it exceeds ``size``.
    size : float
    n_periods, block_length : int
    """

    included: tuple[str, ...]
    excluded: tuple[str, ...]
    p_values: pd.Series
    size: float
    n_periods: int
    block_length: int

    def __repr__(self) -> str:
        return (
            f"ConfidenceSet({1 - self.size:.0%}: {', '.join(self.included)}; {len(self.excluded)} excluded)"
        )


@dataclass(frozen=True)
class SuperiorAbility:
    """Whether any model beats the benchmark, the search among them accounted for.

    Attributes
    ----------
    benchmark : str
    p_value : float
        Hansen's consistent p-value of no model being better.
    superior : tuple of str
        Models that beat the benchmark, by Romano and Wolf's step-down at ``size``.
    gains : Series
        Mean gain on the benchmark by model.
    size : float
    n_periods, block_length : int
    """

    benchmark: str
    p_value: float
    superior: tuple[str, ...]
    gains: pd.Series
    size: float
    n_periods: int
    block_length: int

    def __repr__(self) -> str:
        found = ", ".join(self.superior) or "none"
        return f"SuperiorAbility(against {self.benchmark!r}: {p_words(self.p_value)}, superior: {found})"


def model_confidence_set(
    losses: pd.DataFrame,
    *,
    size: float = 0.1,
    horizon: int = 1,
    reps: int = 1000,
    random_state: int = 0,
) -> ConfidenceSet:
    r"""Return the models that hold the best one with probability 1 − size.

    Models are dropped one by one while equal expected loss of those left is rejected, with the range statistic

    .. math:: T_R = \max_{k,l} \Big| \frac{\bar d_{kl}}{\sqrt{\widehat V(\bar d_{kl})}} \Big|

    under a stationary bootstrap of periods.

    Parameters
    ----------
    losses : DataFrame (T, n_models)
        Mean loss of each period (rows, in time order) and model (columns), as ``Comparison.losses``.
    size : float, default 0.1
    horizon : int, default 1
        The mean block length is max(h, ⌈T^{1/3}⌉) periods.
    reps : int, default 1000
        Bootstrap draws.
    random_state : int, default 0

    Returns
    -------
    ConfidenceSet
        Models whose losses are the same in every period share one verdict.

    Raises
    ------
    InputError
        For fewer than twelve periods, fewer than two models, or missing losses.

    References
    ----------
    Hansen, P., Lunde, A. and Nason, J. (2011), The model confidence set, Econometrica 79(2), 453–497.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> common = rng.chisquare(3, size=(60, 1))
    >>> losses = pd.DataFrame(common + [0, 0, 1] + 0.3 * rng.normal(size=(60, 3)), columns=["A", "B", "C"])
    >>> model_confidence_set(losses)
    ConfidenceSet(90%: A, B; 1 excluded)
    """
    values = _checked(losses, size)
    first = _first_of_its_kind(values)
    block = _block_length(len(values), horizon)
    distinct = sorted(set(first))
    if len(distinct) == 1:
        p = pd.Series(1.0, index=losses.columns)
    else:
        from arch.bootstrap import MCS

        found = MCS(
            values[:, distinct],
            size,
            reps=reps,
            block_size=block,
            method="R",
            bootstrap="stationary",
            seed=random_state,
        )
        found.compute()
        of_distinct = found.pvalues["Pvalue"]
        p = pd.Series([float(of_distinct[distinct.index(k)]) for k in first], index=losses.columns)
    kept = p > size
    return ConfidenceSet(
        tuple(map(str, p.index[kept])), tuple(map(str, p.index[~kept])), p, size, len(values), block
    )


def superior_ability(
    losses: pd.DataFrame,
    benchmark: str,
    *,
    size: float = 0.05,
    horizon: int = 1,
    reps: int = 1000,
    random_state: int = 0,
) -> SuperiorAbility:
    r"""Test whether any model beats the benchmark (SPA), and say which ones do (StepM).

    .. math:: T = \max_k \max\Big( \frac{\sqrt T\, \bar d_k}{\hat\omega_k},\ 0 \Big), \qquad
              d_{kt} = L^{bench}_t - L^k_t

    with Hansen's consistent recentring and a stationary bootstrap of periods; StepM repeats the test with the models
    found superior taken out, which keeps the chance of any false one below ``size``.

    Parameters
    ----------
    losses : DataFrame (T, n_models)
        As in :func:`model_confidence_set`.
    benchmark : str
        A column of ``losses``.
    size : float, default 0.05
    horizon : int, default 1
    reps : int, default 1000
    random_state : int, default 0

    Returns
    -------
    SuperiorAbility
        A model whose losses equal the benchmark's is never superior.

    Raises
    ------
    InputError
        As in :func:`model_confidence_set`, and for an unknown benchmark.

    References
    ----------
    Hansen, P. (2005), A test for superior predictive ability, Journal of Business & Economic Statistics 23(4),
    365–380. Romano, J. and Wolf, M. (2005), Stepwise multiple testing as formalized data snooping, Econometrica
    73(4), 1237–1282.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> common = rng.chisquare(3, size=(60, 1))
    >>> losses = pd.DataFrame(common + [0, 0, -1] + 0.3 * rng.normal(size=(60, 3)), columns=["A", "B", "C"])
    >>> superior_ability(losses, "A").superior
    ('C',)
    """
    values = _checked(losses, size)
    columns = list(map(str, losses.columns))
    if benchmark not in columns:
        raise InputError(f"benchmark: there is no model {benchmark!r}.{did_you_mean(benchmark, columns)}")
    at = columns.index(benchmark)
    block = _block_length(len(values), horizon)
    gains = pd.Series((values[:, [at]] - values).mean(axis=0), index=columns).drop(benchmark)
    first = _first_of_its_kind(values)
    others = [k for k in range(len(columns)) if k != at and first[k] != first[at]]
    if not others:
        return SuperiorAbility(benchmark, 1.0, (), gains, size, len(values), block)
    from arch.bootstrap import SPA

    spa = SPA(
        values[:, at],
        values[:, others],
        block_size=block,
        reps=reps,
        bootstrap="stationary",
        seed=random_state,
    )
    spa.compute()
    p = float(spa.pvalues["consistent"])
    superior = tuple(columns[others[k]] for k in _step_down(spa, len(others), size))
    return SuperiorAbility(benchmark, p, superior, gains, size, len(values), block)


def _step_down(spa: Any, n: int, size: float) -> list[int]:
    """Return the superior models: those found are taken out and the test repeated, until none is found or left.

    This is arch's ``StepM``, which fails where all models are found.
    """
    left = np.ones(n, dtype=np.bool_)
    found = spa.better_models(size)
    while len(found):
        left[found] = False
        if not left.any():
            break
        spa.subset(left.copy())
        spa.compute()
        found = spa.better_models(size)
    return np.flatnonzero(~left).tolist()


def _checked(losses: pd.DataFrame, size: float) -> np.ndarray:
    values = losses.to_numpy(dtype=float)
    if not 0 < size < 1:
        raise InputError(f"size must lie between 0 and 1, got {size!r}.")
    if values.ndim != 2 or values.shape[1] < 2:
        raise InputError("losses: at least two models are needed, one column each.")
    if len(values) < MIN_PERIODS:
        raise InputError(
            f"losses: {len(values)} periods are too few for a test over time; {MIN_PERIODS} are needed. Use paired_by_firm."
        )
    if not np.isfinite(values).all():
        raise InputError("losses: some are missing; all models must be scored in the same periods.")
    return values


def _block_length(n: int, horizon: int) -> int:
    """Return max(h, ⌈T^{1/3}⌉): the rate of Hall, Horowitz and Jing (1995, Biometrika 82(3)) for a variance."""
    return min(max(horizon, math.ceil(n ** (1 / 3) - 1e-9)), n - 1)


def _first_of_its_kind(values: np.ndarray) -> list[int]:
    """Return for each column the first column that equals it up to rounding."""
    size = 1e-12 * np.max(np.abs(values))
    return [
        next(k for k in range(j + 1) if np.max(np.abs(values[:, k] - values[:, j])) <= size)
        for j in range(values.shape[1])
    ]
