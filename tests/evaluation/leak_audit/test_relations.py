"""Functions, lines and marks of the outcome, told from chance."""

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.relations import function_of, one_sided, rows_on_a_line


def test_functions_in_small_groups_and_of_few_values_are_told_from_chance():
    rng = np.random.default_rng(0)
    y, group = rng.normal(size=400), np.repeat(np.arange(50), 8)
    rank = pd.Series(y).groupby(group).rank().to_numpy()
    assert function_of(rank, y, group) and function_of((y > 0).astype(float), y, group)
    assert not function_of(rng.permutation(rank), y, group)
    assert not function_of((rng.normal(size=400) > 0).astype(float), y, group)
    assert not function_of(y + rng.normal(size=400), y, group)


def test_rows_on_a_line_are_counted():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 300))
    assert rows_on_a_line(x, y) < 5
    x[:60] = 1 - 2 * y[:60]
    assert rows_on_a_line(x, y) == 60


def test_marks_on_one_side_of_the_outcome_are_told_from_those_of_a_period():
    rng, when = np.random.default_rng(3), np.tile(np.arange(15), 40)
    y = rng.normal(size=600) + when % 3
    low = pd.Series(y).groupby(when).rank(pct=True).to_numpy() < 0.3
    half = rng.random(600) > 0.5
    assert one_sided((low & half).astype(float), y, when)
    assert not one_sided(half.astype(float), y, when) and not one_sided((when == 0).astype(float), y, when)
    assert not one_sided((low & half & (np.cumsum(low & half) < 10)).astype(float), y, when)
