"""What is common to a period: leave-own-out means by plain loops, with identity groups, weights and unknown outcomes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from peerattn.models.cross_section import NO_IDENTITY, CrossSection, Rows
from peerattn.models.learners.common import CodeShocks, PeriodMean, effect_levels, fit_code_shocks

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
    "identity unknown": {"identity": np.full(N, NO_IDENTITY)},
}


@pytest.mark.parametrize("attendable", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_means_are_those_of_plain_loops(name, attendable):
    given = rows(**CASES[name])
    may = np.arange(N) % 5 != 0 if attendable else None
    section = CrossSection(1, slice(0, N), given, given, True, attendable=may)
    known = np.isfinite(given.y) & (True if may is None else may)
    weight = np.ones(N) if given.weight is None else given.weight

    (found,) = PeriodMean().predict([section])
    for i in range(N):
        others = known & ((given.identity != given.identity[i]) | (given.identity[i] == NO_IDENTITY))
        total = weight[others].sum()
        expected = weight[others] @ given.y[others] / total if total else 0.0
        assert found[i, 0] == pytest.approx(expected, abs=1e-10)


def crossed(seed, n=60, variances=(1.0, 0.5, 0.25), noise=2.0, level=3.0):
    """One period: effects of two codes and of their pairs, a level, and noise."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, 5, n), rng.integers(1, 7, n)])
    y = level * rng.normal() + np.sqrt(noise) * rng.normal(size=n)
    y += np.where(codes[:, 0] > 0, (np.sqrt(variances[0]) * rng.normal(size=5))[codes[:, 0]], 0)
    y += (np.sqrt(variances[1]) * rng.normal(size=7))[codes[:, 1]]
    pairs = np.sqrt(variances[2]) * rng.normal(size=(5, 7))
    y += np.where(codes[:, 0] > 0, pairs[codes[:, 0], codes[:, 1]], 0)
    label = pd.Index(range(n))
    given = Rows(rng.normal(size=(n, 2)), codes, y, None, np.arange(n), label, label)
    return CrossSection(seed, slice(0, n), given, given, True)


def fitted(sections, codes=(0, 1), levels=(4, 6)) -> CodeShocks | None:
    problem = SimpleNamespace(code_levels=levels)
    return fit_code_shocks(SimpleNamespace(residuals=sections, problem=problem), codes)


def test_variances_of_crossed_effects_are_those_of_the_design():
    """A row's is 1: of 1, .5 and .25 in noise of 2, the code, the other one, and their pair have .5, .25 and .125."""
    found = fitted([crossed(seed, n=200) for seed in range(400)])
    assert found.effects == ((0,), (1,), (0, 1))
    of_effects = np.exp(found.covariance.parameters["level"][1:])
    np.testing.assert_allclose(of_effects, [0.5, 0.25, 0.125], rtol=0.2)


def test_they_are_predicted_as_by_their_covariance_written_out():
    sections = [crossed(seed) for seed in range(40)]
    found = fitted(sections)
    section = sections[0]
    at = effect_levels(section.focal, found.effects, found.bases)
    y = section.focal.y
    K = np.full((60, 60), np.exp(7.0)) + 1.0001 * np.eye(60)
    for column, log in zip(at.T, found.covariance.parameters["level"][1:], strict=True):
        K += np.exp(log) * ((column[:, None] == column) & (column > 0))
    P = np.linalg.inv(K)
    expected = y - P @ y / P.diagonal()
    np.testing.assert_allclose(found.predict([section])[0][:, 0], expected, atol=1e-6)


def test_a_code_within_another_and_noise_need_no_variance():
    nested = [replace(s, focal=with_codes(s.focal), peers=with_codes(s.peers)) for s in map(crossed, range(40))]
    assert np.isfinite(fitted(nested).predict(nested[:1])[0]).all()
    noise = fitted([crossed(seed, variances=(0.0, 0.0, 0.0)) for seed in range(40)])
    assert noise is None or np.exp(noise.covariance.parameters["level"][1:]).sum() < 0.03
    assert fitted([crossed(0)], codes=()) is None


def with_codes(rows):
    """The second code, and its halves as the first."""
    return replace(rows, codes=np.column_stack([(rows.codes[:, 1] + 1) // 2, rows.codes[:, 1]]))


@pytest.mark.parametrize("part", [PeriodMean(), "codes"])
def test_the_own_outcome_and_those_of_the_own_identity_do_not_count(part):
    given = rows(identity=np.arange(N) // 3, missing=0.0)
    if part == "codes":
        several = [rows(seed, missing=0.0) for seed in range(20)]
        part = fitted([CrossSection(1, slice(0, N), r, r, True) for r in several], codes=(0,), levels=(3,))
    before = part.predict([CrossSection(1, slice(0, N), given, given, True)])[0]
    moved = given.y.copy()
    moved[4] += 10.0
    other = Rows(given.x, given.codes, moved, None, given.identity, given.label, given.owner)
    after = part.predict([CrossSection(1, slice(0, N), other, other, True)])[0]
    np.testing.assert_array_equal(after[3:6], before[3:6])
    assert (np.abs(after - before)[[0, 1, 2, *range(6, N)]] > 1e-3).all()


def test_nobody_else_is_zero():
    one = rows(missing=0.0).take([0])
    (found,) = PeriodMean().predict([CrossSection(1, slice(0, 1), one, one.take([]), True)])
    assert found.tolist() == [[0.0]]


def test_one_code_is_shrunk_by_its_variance_and_periods_of_one_firm_change_nothing():
    """Of a random effect of variance 1 in noise of variance 4; rows of one firm a period have no part in it."""
    rng = np.random.default_rng(0)

    def section(period, n):
        code = rng.integers(1, 13, n)
        y = rng.normal(size=13)[code] + 2 * rng.normal(size=n)
        label = pd.Index(range(n))
        rows = Rows(np.zeros((n, 1)), code[:, None], y, None, np.arange(n), label, label)
        return CrossSection(period, slice(0, n), rows, rows)

    def variance(sections):
        return np.exp(fitted(sections, codes=(0,), levels=(12,)).covariance.parameters["level"][1])

    many = [section(t, 60) for t in range(400)]
    assert variance(many) == pytest.approx(0.25, rel=0.15)
    stray = [section(-t, 1) for t in range(1, 100)]
    assert variance([*stray, *many]) == pytest.approx(variance(many), rel=1e-12)
