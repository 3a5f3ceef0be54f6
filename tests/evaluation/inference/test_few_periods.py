"""Paired tests of few periods against statsmodels, the wild bootstrap of regressions, and counts."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS

from peerattn.evaluation import paired_test
from peerattn.exceptions import InputError
from peerattn.models.wild_bootstrap import WildMeans, wild_cluster_p


def losses(n_firms=60):
    rng = np.random.default_rng(1)
    firm, period = np.repeat(np.arange(n_firms), 3), np.tile([2013, 2014, 2015], n_firms)
    base = rng.chisquare(1, 3 * n_firms)
    loss = base - 0.1 + 0.3 * rng.normal(size=n_firms)[firm] + 0.1 * rng.normal(size=3 * n_firms)
    base[5] = loss[5] = np.nan
    return loss, base, firm, period


def test_the_statistic_is_that_of_statsmodels_and_p_that_of_the_wild_bootstrap_of_a_constant():
    loss, base, firm, period = losses()
    found, known = paired_test(loss, base, firm, period), ~np.isnan(base)
    d = (base - loss)[known]
    fit = OLS(d, np.ones(len(d))).fit(cov_type="cluster", cov_kwds={"groups": firm[known]}, use_t=True)
    # statsmodels multiplies by (N − 1) / (N − k) besides, which is 1 for a constant
    assert found.gain == pytest.approx(d.mean()) and found.statistic == pytest.approx(fit.tvalues[0])
    p = wild_cluster_p(d, np.zeros((len(d), 0)), np.ones((len(d), 1)), firm[known], n_draws=9_999)
    assert found.p_value == p == pytest.approx(fit.pvalues[0], abs=0.02)
    assert found.n_periods == 3 and found.clustered_by == "firm" and found.upper_p == p / 2
    assert (
        "60 clusters" in found.convention
        and "symmetric sums" in found.convention
        and "sign test" not in str(found)
    )
    assert found.outcome.startswith(f"t = {found.statistic:.2f}, p")
    worse = paired_test(base, loss, firm, period)
    assert worse.p_value == p and worse.upper_p == 1 - p / 2
    assert paired_test(loss, base, firm % 12, period, clustered_by="sector").test == "paired by sector"
    with pytest.raises(InputError, match="expected at least two clusters, got 1"):
        paired_test(loss, base, np.zeros(180), period)
    assert paired_test(base, base, firm, period).outcome == "same losses"
    assert paired_test(base - 1, base, firm, period).outcome == "n/a (no variance)"


def test_the_interval_holds_what_the_test_does_not_reject():
    rng = np.random.default_rng(0)
    for n_clusters in (10, 40):
        size = rng.integers(3, 30, n_clusters)
        cluster = np.repeat(np.arange(n_clusters), size)
        y = rng.standard_t(3, size=n_clusters)[cluster] + rng.normal(size=len(cluster))
        total = np.bincount(cluster, y)
        found = WildMeans(np.column_stack([total, 2 * total + 3 * size]), size, n_draws=999)
        p, interval = found.p, found.intervals()

        def reject(mean, y=y, cluster=cluster):
            none, one = np.zeros((len(y), 0)), np.ones((len(y), 1))
            return wild_cluster_p(y - mean, none, one, cluster, n_draws=999)

        assert p[0] == reject(0.0) and p[1] == reject(-1.5)
        for side, bound in zip((-1, 1), interval[0], strict=True):
            assert reject(bound - side * 1e-4) >= 0.05 > reject(bound + side * 0.1)
        assert interval[1] == pytest.approx(2 * interval[0] + 3)


def test_two_clusters_reject_nothing():
    found = WildMeans(np.array([[1.0], [1.1]]), np.ones(2), n_draws=399)
    assert found.p[0] > 0.05 and np.isinf(found.intervals()).all()


def test_one_cluster_with_most_of_the_variance_keeps_the_size():
    """Student's t with G − 1 degrees of freedom rejects 2 % there; see benchmarks/sizes.py."""
    rng, size = np.random.default_rng(0), np.full(11, 20)
    sd = np.where(np.arange(11) == 3, 10.0, 1.0)
    shocks = rng.normal(size=(11, 800)) * sd[:, None]
    p = WildMeans(shocks, size, n_draws=399).p
    assert 0.03 < np.mean(p < 0.05) < 0.08


def test_sums_that_merely_share_a_sign_are_a_sign_test():
    """Eleven industries of which one has nearly all: t is 1, p that of eleven signs, and the page must not hide which it is."""
    cluster, gain = np.repeat(np.arange(11), 8), np.repeat(np.r_[np.full(10, 0.01), 5.0], 8)
    found = paired_test(9.0 - gain, np.full(88, 9.0), cluster, np.zeros(88), clustered_by="industry")
    assert found.statistic < 1.2 and found.p_value < 0.05 and "all 11 sums share a sign" in found.convention
    other = paired_test(9.0 - gain + 0.02 * (cluster == 0), np.full(88, 9.0), cluster, np.zeros(88))
    assert "sign test" not in other.convention
