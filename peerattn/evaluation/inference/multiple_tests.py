"""Tests of many models at once: which may be the best, and does any beat the benchmark?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import mean_test, p_words, periods_needed
from peerattn.exceptions import InputError, checked, unknown_name


@dataclass(frozen=True)
class ConfidenceSet:
    """Models that may be the best.

    Attributes
    ----------
    included, excluded : tuple of str
    p_values : Series
        Of no other model being better, by model; a model is included where it exceeds ``size``.
    size : float
    n_periods : int
    """

    included: tuple[str, ...]
    excluded: tuple[str, ...]
    p_values: pd.Series
    size: float
    n_periods: int

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
        Of no model being better. NaN where no gain can be tested.
    superior : tuple of str
        Models that beat the benchmark, by Holm's step-down at ``size``.
    gains, p_values : Series
        Mean gain on the benchmark by model, and its p-value, adjusted for the search.
    causes : dict of str to str
        Models whose gain cannot be tested, and why; they are never superior.
    size : float
    n_periods : int
    """

    benchmark: str
    p_value: float
    superior: tuple[str, ...]
    gains: pd.Series
    p_values: pd.Series
    causes: dict[str, str]
    size: float
    n_periods: int

    @property
    def untested(self) -> dict[str, str]:
        """Models whose gain cannot be tested, and why, as a table shows it."""
        return {name: f"n/a ({cause})" for name, cause in self.causes.items()}

    def __repr__(self) -> str:
        if np.isnan(self.p_value):
            return f"SuperiorAbility(against {self.benchmark!r}: no gain can be tested)"
        found = ", ".join(self.superior) or "none"
        return f"SuperiorAbility(against {self.benchmark!r}: {p_words(self.p_value)}, superior: {found})"


@checked
def model_confidence_set(losses: pd.DataFrame, *, size: float = 0.1, horizon: int = 1) -> ConfidenceSet:
    r"""Return the models that hold the best one with probability 1 − size at least.

    A model k is left out where another one is significantly better (multiple comparisons with the best):

    .. math:: p_k = \min\Big(1,\ (K - 1) \min_{l \ne k} P\big(t_\nu > t_{kl}\big)\Big) \le size,

    :math:`t_{kl}` the statistic of :func:`mean_test` for the mean of :math:`L^k_t - L^l_t`.

    Parameters
    ----------
    losses : DataFrame (T, K)
        Mean loss of each period (rows, in time order) and model (columns), as ``Comparison.losses``.
    size : float, default 0.1
    horizon : int, default 1
        Forecast horizon in periods.

    Returns
    -------
    ConfidenceSet
        Models whose losses are the same in every period share one verdict.

    Raises
    ------
    InputError
        For fewer than ``max(12, 4 (h + 1))`` periods, fewer than two models, or missing losses.

    Notes
    -----
    The model confidence set of Hansen, Lunde and Nason (2011) takes its critical values from a bootstrap of blocks, which
    leaves best models out too often in short or persistent series (``benchmarks/results/sizes.md``).

    References
    ----------
    Hsu, J. (1981), Simultaneous confidence intervals for all distances from the "best", Annals of Statistics 9(5), 1026–1034.
    Horrace, W. and Schmidt, P. (2000), Multiple comparisons with the best, with economic applications, Journal of Applied
    Econometrics 15(1), 1–26.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> common = rng.chisquare(3, size=(60, 1))
    >>> losses = pd.DataFrame(common + [0, 0, 1] + 0.3 * rng.normal(size=(60, 3)), columns=["A", "B", "C"])
    >>> model_confidence_set(losses)
    ConfidenceSet(90%: A, B; 1 excluded)
    """
    _check(losses, horizon)
    p = pd.Series({name: _superior(losses, name, horizon)[0].min() for name in losses.columns})
    p = p.fillna(1.0)  # nothing better that can be tested
    kept = p > size
    return ConfidenceSet(
        tuple(map(str, p.index[kept])), tuple(map(str, p.index[~kept])), p, size, len(losses)
    )


@checked
def superior_ability(
    losses: pd.DataFrame, benchmark: str, *, size: float = 0.05, horizon: int = 1
) -> SuperiorAbility:
    r"""Test whether any model beats the benchmark, and say which ones do.

    .. math:: H_0: \mathrm E\, d_{kt} \le 0 \text{ for all } k, \qquad d_{kt} = L^{bench}_t - L^k_t,

    the hypothesis of White (2000) and Hansen (2005). Each gain has the one-sided p-value of :func:`mean_test`; Holm's
    step-down keeps the chance of any false finding below ``size``, however the gains depend on each other.

    Parameters
    ----------
    losses : DataFrame (T, K)
        As in :func:`model_confidence_set`.
    benchmark : str
        A column of ``losses``.
    size : float, default 0.05
    horizon : int, default 1

    Returns
    -------
    SuperiorAbility
        A model whose losses equal the benchmark's is never superior.

    Raises
    ------
    InputError
        As in :func:`model_confidence_set`, and for an unknown benchmark.

    Notes
    -----
    Hansen's test takes its critical values from a bootstrap of blocks and rejects a true null too often in short or persistent
    series: at T = 120 and AR(.9) in a third of them (``benchmarks/results/sizes.md``).

    References
    ----------
    White, H. (2000), A reality check for data snooping, Econometrica 68(5), 1097–1126. Hansen, P. (2005), A test for superior
    predictive ability, Journal of Business & Economic Statistics 23(4), 365–380. Holm, S. (1979), A simple sequentially
    rejective multiple test procedure, Scandinavian Journal of Statistics 6(2), 65–70.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> common = rng.chisquare(3, size=(60, 1))
    >>> losses = pd.DataFrame(common + [0, 0, -1] + 0.3 * rng.normal(size=(60, 3)), columns=["A", "B", "C"])
    >>> superior_ability(losses, "A").superior
    ('C',)
    """
    _check(losses, horizon)
    columns = list(map(str, losses.columns))
    if benchmark not in columns:
        raise unknown_name("benchmark", "model", benchmark, columns)
    p, causes = _superior(losses, benchmark, horizon)
    gains = losses[benchmark].mean() - losses.mean().drop(benchmark)
    joint = float(p.min()) if len(p) else 1.0  # NaN where nothing can be tested
    superior = tuple(p.index[p <= size])
    return SuperiorAbility(benchmark, joint, superior, gains, p, causes, size, len(losses))


def _superior(losses: pd.DataFrame, benchmark: str, horizon: int) -> tuple[pd.Series, dict[str, str]]:
    """Return Holm's p-value of each model that differs from the benchmark (NaN: untested), and why some are not tested.

    Models with the same losses are one in the count.
    """
    size = 1e-12 * float(np.abs(losses.to_numpy()).max())
    table = {str(name): (losses[benchmark] - losses[name]).to_numpy() for name in losses.columns}
    gains = {name: gain for name, gain in table.items() if np.abs(gain).max() > size}
    kinds = {
        name: next(other for other in gains if np.max(np.abs(gains[other] - gain)) <= size)
        for name, gain in gains.items()
    }
    tests = {name: mean_test(gains[name], horizon) for name in dict.fromkeys(kinds.values())}
    p = pd.Series({name: test.upper_p for name, test in tests.items()}, dtype=float).sort_values()
    adjusted = (p * np.arange(len(p), 0, -1)).cummax().clip(upper=1.0)
    causes = {name: tests[kind].cause for name, kind in kinds.items() if tests[kind].cause}
    return pd.Series({name: adjusted[kind] for name, kind in kinds.items()}, dtype=float), causes


def _check(losses: pd.DataFrame, horizon: int) -> None:
    values, needed = losses.to_numpy(dtype=float), periods_needed(horizon)
    if values.ndim != 2 or values.shape[1] < 2:
        raise InputError("losses: at least two models are needed, one column each.")
    if len(values) < needed:
        raise InputError(
            f"losses: {len(values)} periods are too few for a test over time; {needed} are needed. Use paired_test."
        )
    if not np.isfinite(values).all():
        raise InputError("losses: some are NaN; all models must be scored in the same periods.")
