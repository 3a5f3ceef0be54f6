"""What is common to a period: leave-own-out means by plain loops, with identity groups, weights and unknown outcomes."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from peerattn.models.cross_section import NOBODY, CrossSection, Rows
from peerattn.models.learners.common import Common, fit_common
from peerattn.models.learners.losses import squared_error
from peerattn.models.learners.training import Problem, Training

N = 24


def rows(seed=0, identity=None, weight=None, missing=0.2, level=1.0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, size=(N, 1))
    y = level * np.array([0, 1.0, -1.0, 3.0])[codes[:, 0]] + rng.normal() + rng.normal(size=N)
    y[rng.uniform(size=N) < missing] = np.nan
    label = pd.Index(range(N))
    identity = np.arange(N) if identity is None else identity
    return Rows(rng.normal(size=(N, 2)), codes, y, weight, identity, label, label)


WEIGHT = np.random.default_rng(1).uniform(0.5, 2, N)
CASES = {
    "each firm its own": {},
    "groups of one identity": {"identity": np.arange(N) // 3},
    "weights": {"weight": WEIGHT, "identity": np.arange(N) // 2},
    "identity unknown": {"identity": np.full(N, NOBODY)},
}


@pytest.mark.parametrize("answering", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_means_are_those_of_plain_loops(name, answering):
    given = rows(**CASES[name])
    may = np.arange(N) % 5 != 0 if answering else None
    section = CrossSection(1, slice(0, N), given, given, True, answering=may)
    known = np.isfinite(given.y) & (True if may is None else may)
    weight = np.ones(N) if given.weight is None else given.weight

    def mean(i, group):
        others = known & group & ((given.identity != given.identity[i]) | (given.identity[i] == NOBODY))
        total = weight[others].sum()
        named = given.identity[others]
        n = len(np.unique(named[named != NOBODY])) + (named == NOBODY).sum()
        return (float(weight[others] @ given.y[others] / total) if total else 0.0), n

    for code, shrink in ((None, 0.0), (0, 2.5)):
        (found,) = Common(code, shrink).predict([section])
        for i in range(N):
            expected, _ = mean(i, np.ones(N, bool))
            if code is not None and given.codes[i, 0] > 0:
                own, n = mean(i, given.codes[:, 0] == given.codes[i, 0])
                expected += (own - expected) * n / (n + shrink)
            assert found[i, 0] == pytest.approx(expected, abs=1e-10)


def test_the_own_outcome_and_those_of_the_own_identity_do_not_count():
    given = rows(identity=np.arange(N) // 3, missing=0.0)
    before = Common(0, 1.0).predict([CrossSection(1, slice(0, N), given, given, True)])[0]
    moved = given.y.copy()
    moved[4] += 10.0
    other = Rows(given.x, given.codes, moved, None, given.identity, given.label, given.owner)
    after = Common(0, 1.0).predict([CrossSection(1, slice(0, N), other, other, True)])[0]
    np.testing.assert_allclose(after[3:6], before[3:6], atol=1e-12)
    assert (np.abs(after - before)[[0, 1, 2, *range(6, N)]] > 1e-3).all()


def test_nobody_else_is_zero():
    one = rows(missing=0.0).take([0])
    (found,) = Common(None).predict([CrossSection(1, slice(0, 1), one, one.take([]), True)])
    assert found.tolist() == [[0.0]]


def test_cells_are_shrunk_by_variance_components_and_noise_has_no_cells():
    def training(level):
        given = [
            CrossSection(t, slice(0, N), r, r, True)
            for t in range(40)
            for r in [rows(seed=t, missing=0.0, level=level)]
        ]
        return Training.of(given, Problem(squared_error, 1, (3,), True, True))

    clear = fit_common(training(2.0), 0)
    assert clear.shrink == pytest.approx(1 / (4 * np.var([1.0, -1.0, 3.0])), rel=0.6)
    noise = fit_common(training(0.0), 0)
    assert noise is None or noise.shrink > 10
    assert fit_common(training(0.0), None) == Common(None)


def test_variances_are_unbiased_and_periods_of_one_firm_say_nothing():
    """Of a random effect of variance 1 in noise of variance 4, λ is 4; rows of one firm a period change nothing."""
    rng = np.random.default_rng(0)

    def section(period, n):
        code = rng.integers(1, 13, n)
        effect = rng.normal(size=13)
        y = effect[code] + 2 * rng.normal(size=n)
        label = pd.Index(range(n))
        rows = Rows(np.zeros((n, 1)), code[:, None], y, None, np.arange(n), label, label)
        return CrossSection(period, slice(0, n), rows, rows)

    def shrink(sections):
        return fit_common(SimpleNamespace(residuals=sections), 0).shrink

    many = [section(t, 60) for t in range(400)]
    assert shrink(many) == pytest.approx(4.0, rel=0.15)
    stray = [section(-t, 1) for t in range(1, 100)]
    assert shrink([*stray, *many]) == pytest.approx(shrink(many), rel=1e-12)
