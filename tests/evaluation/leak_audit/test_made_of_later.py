"""How far an outcome reaches, told from its lags."""

import numpy as np
import pandas as pd
import pytest

from peerattn.evaluation.leak_audit.labels import labels_of
from peerattn.evaluation.leak_audit.made_of_later import made_of_later, reach_of_outcome

INDEX = pd.MultiIndex.from_product(
    [[f"F{k:02d}" for k in range(40)], range(2000, 2015)], names=["firm", "period"]
)
LABELS = labels_of(INDEX.get_level_values(0), INDEX.get_level_values(1))


def of_firm(values):
    return values.groupby(level="firm")


@pytest.mark.parametrize("periods", [1, 4])
def test_the_reach_of_an_outcome_is_the_periods_it_is_made_of(periods):
    rng = np.random.default_rng(0)
    r = pd.Series(rng.normal(size=600), INDEX)
    y = sum(of_firm(r).shift(-k) for k in range(1, periods + 1))
    X = pd.DataFrame({"month": r, "other": rng.normal(size=600)})
    assert reach_of_outcome(X, y.to_numpy(), *LABELS) == (periods, "month")
    assert reach_of_outcome(X[["other"]], y.to_numpy(), *LABELS) == (0, "")


@pytest.mark.parametrize("periods", [3, 6])
def test_overlapping_returns_are_told_from_outcomes_that_smoothed_columns_go_along_with(periods):
    """Compounded, clipped and noisy sums of later returns; a persistent outcome beside its moving average of three periods."""
    rng = np.random.default_rng(1)
    index = pd.MultiIndex.from_product([range(60), range(40)], names=["firm", "period"])
    labels = labels_of(index.get_level_values(0), index.get_level_values(1))
    r = pd.Series(0.08 * rng.normal(size=2400), index)
    gross = np.exp(sum(of_firm(np.log1p(r.clip(-0.5))).shift(-k) for k in range(1, periods + 1)))
    y = (gross - 1).clip(-0.25, 0.4) + 0.02 * rng.normal(size=2400)
    X = pd.DataFrame({"month": r, "momentum": of_firm(r).transform(lambda v: v.rolling(5).sum())})
    assert reach_of_outcome(X, y.to_numpy(), *labels) == (periods, "month")
    level = of_firm(pd.Series(rng.normal(size=2400), index)).transform(lambda v: v.ewm(alpha=0.1).mean())
    following = (of_firm(level).shift(-1) + 0.1 * level.std() * rng.normal(size=2400)).to_numpy()
    for column in (level, of_firm(level).transform(lambda v: v.rolling(3).mean()), of_firm(level).shift(2)):
        assert reach_of_outcome(pd.DataFrame({"level": column}), following, *labels)[0] <= 1


def test_lags_of_the_outcome_are_known():
    """The second lag alone could be of an outcome known two periods later; beside the first it is a lag."""
    y = pd.Series(np.random.default_rng(0).normal(size=600), INDEX)
    lags = pd.DataFrame({f"lag {k}": of_firm(y).shift(k) for k in (1, 2, 5)})
    assert reach_of_outcome(lags, y.to_numpy(), *LABELS) == (1, "lag 1")
    assert reach_of_outcome(lags[["lag 2", "lag 5"]], y.to_numpy(), *LABELS) == (0, "")
    long = sum(of_firm(y).shift(-k) for k in range(3))  # known two periods after the row's own
    assert reach_of_outcome(lags[["lag 1"]], long.to_numpy(), *LABELS)[0] == 3


def test_made_of_later_needs_rows():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 3.0]})
    assert made_of_later(frame, np.zeros(2, dtype=int), np.arange(2)) == {}
