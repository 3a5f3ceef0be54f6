"""A test of many models at once: which may be the best?"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import mean_test, periods_needed
from peerattn.exceptions import expect, reworded, validate_arguments


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
        included = ", ".join(self.included)
        return f"ConfidenceSet({1 - self.size:.0%}: {included}; {len(self.excluded)} excluded)"


@validate_arguments
def model_confidence_set(losses: pd.DataFrame, *, size: float = 0.1, horizon: int = 1) -> ConfidenceSet:
    r"""Return the models that hold the best one with probability 1 − size at least.

    A model k is left out where another one is significantly better (multiple comparisons with the best):

    .. math:: p_k = \min\Big(1,\ (K - 1) \min_{l \ne k} P\big(t_\nu > t_{kl}\big)\Big) \le size,

    :math:`t_{kl}` the statistic of :func:`diebold_mariano` for the mean of :math:`L^k_t - L^l_t`; infinite where the difference
    is the same in every period.

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
    How often a best model is left out is in ``benchmarks/results/sizes.md``. The model confidence set of Hansen, Lunde and Nason
    (2011) takes its critical values from a bootstrap of blocks, which leaves it out too often in short or persistent series.

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
    expect(0 < size < 1, "size", "a number between 0 and 1", size)
    with reworded("losses: expected numbers, one column for each model", kinds=(TypeError, ValueError)):
        values = losses.to_numpy(dtype=float)
    needed = periods_needed(horizon)
    expect(values.shape[1] >= 2, "losses", "at least two models, one column each", values.shape[1])
    expect(len(values) >= needed, "confidence set", f"{needed} periods for a test over time", len(values), "Use Comparison.test.")
    expect(bool(np.isfinite(values).all()), "losses", "all models scored in the same periods", "some that are NaN")
    p = pd.Series({name: _least_p(losses, name, horizon) for name in losses.columns})
    included, excluded = (tuple(map(str, p.index[kept])) for kept in (p > size, p <= size))
    return ConfidenceSet(included, excluded, p, size, len(losses))


def _least_p(losses: pd.DataFrame, name: str, horizon: int) -> float:
    """Return the least p-value of another model being better, times the number of others that differ; 1 if none does."""
    size = 1e-12 * float(np.abs(losses.to_numpy()).max())
    gains = [np.zeros(len(losses))]  # models with the same losses are one in the count
    for other in losses.columns:
        gain = (losses[name] - losses[other]).to_numpy()
        if all(np.max(np.abs(gain - one)) > size for one in gains):
            gains.append(gain)
    tests = [mean_test(gain, horizon) for gain in gains[1:]]
    # a gain that is the same in every period has no variance, and no p: t is infinite
    p = [float(test.mean < 0) if test.upper_p is None else test.upper_p for test in tests]
    return min([1.0, *(len(tests) * each for each in p)])
