import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.labels import at_later, labels_of


def test_values_of_other_periods_are_those_of_the_firm_whatever_rows_are_missing():
    rng = np.random.default_rng(0)
    full = pd.MultiIndex.from_product([list("CAB"), range(2000, 2008)], names=["firm", "period"])
    rows = [*range(8), *8 + rng.permutation(16)[:10]]  # the first firm has all periods
    index = full[rng.permutation(rows)]
    x = pd.Series(rng.normal(size=len(index)), index)
    known, labels = x.to_dict(), labels_of(*(index.get_level_values(k) for k in (0, 1)))
    for k in (-9, -2, -1, 0, 1, 3, 9):
        moved = [known.get((firm, period + k), np.nan) for firm, period in index]
        np.testing.assert_array_equal(at_later(x.to_numpy(), *labels, k), moved)
