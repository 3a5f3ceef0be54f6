"""Wild cluster bootstrap, Anderson–Rubin, Hansen's J, effective F: against plain code and linearmodels."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from linearmodels.iv import IV2SLS, IVGMM
from scipy import stats

from peerattn.exceptions import InputError
from peerattn.models import LinearInMeansRegressor
from peerattn.models.two_stage import two_stage
from peerattn.models.wild_bootstrap import signs, wild_cluster_p


def data(n_clusters=8, each=9, seed=0, n_instruments=2):
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(n_clusters), each)
    n = len(g)
    Z = rng.normal(size=(n, n_instruments)) + rng.normal(size=(n_clusters, n_instruments))[g]
    e = rng.normal(size=n_clusters)[g] + rng.normal(size=n)
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    w = Z.sum(axis=1) + 0.5 * e + rng.normal(size=n)
    return g, X, Z, w, X[:, 1] + 0.3 * w + e


def cluster_t(y, X, k, g):
    fit = sm.OLS(y, X).fit(cov_type="cluster", cov_kwds={"groups": g})
    return fit.tvalues[k]


def test_units_of_regressors_do_not_move_the_wild_bootstrap():
    g, X, Z, _, y = data()
    p, same = (wild_cluster_p(y, X * [1.0, 1 / unit], Z * [unit, 1 / unit], g, n_draws=49) for unit in (1.0, 1e8))
    assert p == same


@pytest.mark.parametrize("n_clusters", [8, 14])
def test_wild_bootstrap_is_the_plain_loop(n_clusters):
    """Restricted residuals, one sign a cluster, the clustered t of each sample by statsmodels."""
    g, X, Z, _, y = data(n_clusters)
    R = np.column_stack([X, Z[:, :1]])
    restricted = sm.OLS(y, X).fit()
    eta = signs(np.random.default_rng(3), n_clusters, 99)
    observed = abs(cluster_t(y, R, 2, g))
    drawn = [abs(cluster_t(restricted.fittedvalues + restricted.resid * eta[g, b], R, 2, g)) for b in range(99)]
    expected = (1 + sum(t >= observed * (1 - 1e-10) for t in drawn)) / 100
    assert wild_cluster_p(y, X, Z[:, :1], g, n_draws=99, random_state=3) == expected


def test_wild_bootstrap_makes_each_draw_net_of_effects_again():
    g, X, Z, _, y = data(9, 10)
    period = np.tile(np.arange(10), 9)
    D = pd.get_dummies(period).to_numpy(float)
    net = lambda v: v - D @ np.linalg.lstsq(D, v, rcond=None)[0]  # noqa: E731
    x, z, target = net(X[:, 1:]), net(Z[:, :1]), net(y)
    R, eta = np.column_stack([x, z]), signs(np.random.default_rng(0), 9, 49)
    e = target - x[:, 0] * (x[:, 0] @ target) / (x[:, 0] @ x[:, 0])
    observed = abs(cluster_t(target, R, 1, g))
    drawn = [abs(cluster_t(net(e * eta[g, b]), R, 1, g)) for b in range(49)]
    expected = (1 + sum(t >= observed * (1 - 1e-10) for t in drawn)) / 50
    assert wild_cluster_p(target, x, z, g, effects=pd.DataFrame({"period": period}), n_draws=49) == expected


def test_webb_s_six_points_have_mean_zero_and_variance_one():
    drawn = signs(np.random.default_rng(0), 5, 20_000)
    assert len(np.unique(drawn)) == 6 and abs(drawn.mean()) < 0.02 and drawn.var() == pytest.approx(1.0, abs=0.02)
    assert set(np.unique(signs(np.random.default_rng(0), 12, 50))) == {-1.0, 1.0}


def test_the_bootstrap_takes_vectors_and_no_missing_values():
    rng = np.random.default_rng(0)
    x, y, cluster = rng.normal(size=60), rng.normal(size=60), np.repeat(np.arange(10), 6)
    p = wild_cluster_p(y, np.ones((60, 1)), x[:, None], cluster, n_draws=99)
    assert wild_cluster_p(y, np.ones(60), x, cluster, n_draws=99) == p
    with pytest.raises(InputError, match="y, X, Z: expected a number in every row, got missing ones"):
        wild_cluster_p(np.where(y > 0, y, np.nan), np.ones(60), x, cluster)
    for given, message in (
        ({"X": np.full(60, "x")}, "y, X, Z, weight: expected numbers"),
        ({"cluster": cluster[:3]}, "y, X, Z, cluster, weight: expected one row for each of y"),
        ({"cluster": 3}, "y, X, Z, cluster, weight: expected one row for each of y"),
        ({"effects": 3}, "effects: expected a frame or None, got int"),
        ({"n_draws": 0}, "n_bootstrap: expected an integer of at least 1, got 0"),
    ):
        with pytest.raises(InputError, match=message):
            wild_cluster_p(**{"y": y, "X": np.ones(60), "Z": x, "cluster": cluster} | given)


def test_linear_in_means_with_few_clusters():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(6), range(20)], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=120), "lev": rng.normal(size=120)}, index)
    y = X["size"] + rng.normal(size=6)[index.get_level_values(0)] + rng.normal(size=120)
    model = LinearInMeansRegressor(n_bootstrap=199).fit(X, y)
    groups = pd.DataFrame({"period": index.get_level_values(1)})
    net = lambda v: v - v.groupby("period").transform("mean")  # noqa: E731
    x = net(X).to_numpy()
    p = wild_cluster_p(net(y).to_numpy(), x[:, 1:], x[:, :1], index.get_level_values(0), effects=groups, n_draws=199)
    assert model.results_.pvalues["size"] == pytest.approx(p) and "wild cluster bootstrap" in str(model.summary())
    # beside an instrumented column only that one has a test by the bootstrap
    ring = pd.DataFrame(np.roll(np.eye(6), 1, axis=1) / 2 + np.roll(np.eye(6), 2, axis=1) / 2, range(6), range(6))
    plain, drawn = (LinearInMeansRegressor(network=ring, n_bootstrap=n).fit(X, y).results_ for n in (0, 99))
    others = ["size", "lev"]
    pd.testing.assert_series_equal(drawn.pvalues[others], plain.pvalues[others])
    assert drawn.pvalues["peers' outcome"] != plain.pvalues["peers' outcome"]
    assert "Other p values: Student's t" in " ".join(str(drawn).split())
    with pytest.raises(InputError, match="clusters of one kind"):
        LinearInMeansRegressor(n_bootstrap=9, cluster=("firm", "period")).fit(X, y)


@pytest.mark.parametrize("clustered", [False, True])
def test_identification_against_linearmodels(clustered):
    g, X, Z, w, y = data(60, 5)
    frame = pd.DataFrame(X, columns=["one", "x"])
    clusters = pd.DataFrame({"firm": g}) if clustered else None
    found = two_stage(y, frame, w, pd.DataFrame(Z, columns=["a", "b"]), clusters=clusters).identification
    config = {"cov_type": "clustered", "clusters": g} if clustered else {"cov_type": "robust"}
    options = {"weight_type": "clustered", "clusters": g} if clustered else {"weight_type": "robust"}
    theirs = IVGMM(y, X, w, Z, **options).fit().j_stat
    assert (found.j, found.j_p) == pytest.approx((theirs.stat, theirs.pval), rel=1e-6)

    # with clusters Hotelling's T²: the covariance of two coefficients is itself estimated from 60 clusters
    freedom = 58 if clustered else len(y) - 4
    shrunk = 58 / 59 if clustered else 1.0

    def ar(b):
        fit = IV2SLS(y - b * w, np.column_stack([X, Z]), None, None).fit(**config, debiased=True)
        slopes, cov = np.asarray(fit.params)[2:], np.asarray(fit.cov)[2:, 2:]
        return stats.f.sf(slopes @ np.linalg.solve(cov, slopes) / 2 * shrunk, 2, freedom)

    assert found.ar_p == pytest.approx(ar(0.0), rel=1e-6)
    ((low, high),) = found.ar_set
    assert [ar(low), ar(high)] == pytest.approx([0.05, 0.05], rel=1e-6)  # the ends are exact
    assert low < 0.3 < high and "Hansen J" in found.wording()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clusters", [("firm",), ("firm", "period")])
@pytest.mark.parametrize("effects", [(), ("period",), ("firm",), ("firm", "period")])
def test_errors_are_those_of_iv2sls_with_dummies_and_its_small_sample_factor(effects, clusters, weighted):
    """Unbalanced, labels that are text, frequency weights; effects nested in clusters take no degrees of freedom."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(np.indices((60, 55)).reshape(2, -1).T[rng.random(3300) < 0.7], columns=["firm", "period"])
    rows = rows.map("L{:02d}".format)
    g, n = pd.factorize(rows["firm"])[0], len(rows)
    Z, e = rng.normal(size=(n, 2)), rng.normal(size=60)[g] + rng.normal(size=n)
    x, w = rng.normal(size=60)[g] + rng.normal(size=n), Z.sum(axis=1) + 0.5 * e + rng.normal(size=n)
    weight = rng.integers(1, 4, n).astype(float) if weighted else None
    names = ["x"] if effects else ["intercept", "x"]
    X = pd.DataFrame({"intercept": 1.0, "x": x})[names]
    options = {"weight": weight, "effects": rows[list(effects)], "clusters": rows[list(clusters)]}
    found = two_stage(x + 0.3 * w + e, X, w, pd.DataFrame(Z, columns=["a", "b"]), **options)
    order = sorted(effects, key=clusters.__contains__)  # those nested in clusters last
    dummies = [pd.get_dummies(rows[name], dtype=float).to_numpy()[:, int(k > 0) :] for k, name in enumerate(order)]
    design = np.column_stack([X, *dummies])
    groups = np.column_stack([pd.factorize(rows[name])[0] for name in clusters])
    fit = IV2SLS(x + 0.3 * w + e, design, w, Z, weights=weight).fit(cov_type="clustered", clusters=groups, debiased=True)
    at = [*range(len(names)), -1]
    np.testing.assert_allclose(found.params, fit.params.iloc[at], rtol=1e-8)
    nested = sum(block.shape[1] for name, block in zip(order, dummies) if name in clusters)
    k = design.shape[1] + 1
    factor = np.sqrt((n - k) / (n - k + nested))
    np.testing.assert_allclose(found.std_errors, fit.std_errors.iloc[at] * factor, rtol=1e-7)


@pytest.mark.parametrize("instrumented", [False, True])
def test_the_jackknife_of_few_clusters_absorbs_effects_anew(instrumented):
    """An estimate without a firm is one of other period effects: of the net columns as they are shifts are too small."""
    rng = np.random.default_rng(2)
    rows = pd.DataFrame(np.indices((6, 10)).reshape(2, -1).T[rng.random(60) < 0.9], columns=["firm", "period"])
    x, z, e = rng.normal(size=6)[rows["firm"]] + rng.normal(size=(3, len(rows)))
    w = z + 0.5 * e + x
    exogenous, instruments = pd.DataFrame({"x": x}), pd.DataFrame({"z": z})
    given = (w, instruments) if instrumented else ()
    found = two_stage(x + e, exogenous, *given, effects=rows[["period"]], clusters=rows[["firm"]])
    D = pd.get_dummies(rows["period"], dtype=float).to_numpy()

    def estimate(kept):
        R, Q = np.column_stack([x, w, D])[kept], np.column_stack([x, z, D])[kept]
        if not instrumented:
            R = Q = np.column_stack([x, D])[kept]
        projected = Q @ np.linalg.lstsq(Q, R, rcond=None)[0]
        return np.linalg.lstsq(projected, (x + e)[kept], rcond=None)[0][: 1 + instrumented]

    firm = rows["firm"].to_numpy()
    shift = [estimate(firm != g) - estimate(firm >= 0) for g in range(6)]
    np.testing.assert_allclose(found.std_errors, np.sqrt(5 / 6 * np.square(shift).sum(axis=0)), rtol=1e-6)


def test_a_negative_variance_of_two_kinds_of_clusters_is_nan():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = pd.DataFrame(np.indices((4, 4)).reshape(2, -1).T, columns=["firm", "period"])
        with np.errstate(invalid="raise"):
            found = two_stage(rng.normal(size=16), pd.DataFrame({"a": 1.0, "x": rng.normal(size=16)}), clusters=rows)
        assert np.isnan(found.std_errors).equals(pd.Series(np.diag(found.cov) < 0, found.cov.index))
    assert found.freedom == 3


@pytest.mark.parametrize("n", [300, 50_000])
def test_with_one_strong_instrument_the_set_is_the_interval_of_two_stage_least_squares(n):
    """However precise the estimate is: a set on a fixed grid would miss it, and be empty."""
    rng = np.random.default_rng(1)
    z, e = rng.normal(size=(2, n))
    w = 3 * z + e
    found = two_stage(0.4025 * w + 0.3 * e, pd.DataFrame({"one": np.ones(n)}), w, pd.DataFrame({"z": z}))
    ((low, high),) = found.identification.ar_set
    interval = found.conf_int().loc["peers' outcome"]
    np.testing.assert_allclose([low, high], interval, atol=0.05 * np.ptp(interval))


def test_weak_instruments_do_not_bound_the_effect():
    g, X, Z, _, _ = data(60, 5, n_instruments=1)
    rng = np.random.default_rng(4)
    e = rng.normal(size=len(g))
    w = 0.02 * Z[:, 0] + e
    found = two_stage(0.3 * w + e, pd.DataFrame(X, columns=["one", "x"]), w, pd.DataFrame(Z, columns=["z"])).identification
    assert found.effective_f < 10 and found.j is None and any(np.isinf(end) for ends in found.ar_set for end in ends)
    assert "weak: below 10" in found.wording()


def small(n_clusters, n_instruments, seed, strength=0.3):
    """Outcome that the instrumented column does not move, of few clusters."""
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(n_clusters), 10)
    Z = rng.normal(size=(len(g), n_instruments)) + 0.7 * rng.normal(size=(n_clusters, n_instruments))[g]
    e = rng.normal(size=len(g)) + 0.7 * rng.normal(size=n_clusters)[g]
    w = strength * Z.sum(axis=1) + 0.8 * e + rng.normal(size=len(g))
    return g, np.ones((len(g), 1)), Z, w, e


def identified(g, X, Z, w, y):
    exogenous = pd.DataFrame(X).add_prefix("x")
    return two_stage(y, exogenous, w, pd.DataFrame(Z).add_prefix("z"), clusters=pd.DataFrame({"firm": g}))


def plain_ar(g, X, Z, w, y):
    """Return Hotelling's p of each coefficient, in plain code."""
    n, k, q, n_clusters = len(y), X.shape[1], Z.shape[1], g.max() + 1
    R = np.column_stack([X, Z])
    bread = np.linalg.inv(R.T @ R)
    members = np.equal.outer(np.arange(n_clusters), g) * 1.0

    def p(b):
        target = y - b * w
        beta = bread @ R.T @ target
        scores = members @ (R * (target - R @ beta)[:, None])
        V = bread @ scores.T @ scores @ bread * n_clusters / (n_clusters - 1) * (n - 1) / (n - k - q)
        wald = beta[k:] @ np.linalg.solve(V[k:, k:], beta[k:])
        return stats.f.sf(wald * (n_clusters - q) / (q * (n_clusters - 1)), q, n_clusters - q)

    return p


def test_the_anderson_rubin_test_is_hotelling_s():
    """F(q, G − 1) of Wald / q rejects a true null in a third of such samples at 5 %."""
    found = np.array([identified(*small(8, 4, seed)).identification.ar_p for seed in range(60)])
    assert [found[seed] for seed in range(3)] == pytest.approx([plain_ar(*small(8, 4, seed))(0.0) for seed in range(3)])
    assert np.mean(found < 0.05) < 0.2


@pytest.mark.parametrize("n_instruments", [6, 7, 12])
def test_with_no_more_clusters_than_instruments_there_is_no_test(n_instruments):
    sample = small(6, n_instruments, 0)
    found = identified(*sample)
    assert np.isfinite(found.params).all() and np.isnan(found.identification.ar_p) and found.identification.ar_set is None
    assert "no Anderson–Rubin test or set (no more clusters than instruments)" in " ".join(str(found.summary()).split())


def test_dependent_scores_leave_no_test():
    """An instrument of one cluster alone, with that cluster's constant: its score is zero there and everywhere."""
    g, X, Z, w, y = small(8, 2, 0)
    Z[:, 1] = np.where(g < 1, Z[:, 1], 0.0)
    D = np.column_stack([X, (g < 1) * 1.0, np.where(g < 1, Z[:, 0], 0.0)])
    found = identified(g, D, Z, w, y).identification
    assert np.isnan(found.ar_p) and found.ar_set is None and "singular" in found.untested


@pytest.mark.parametrize("unit", [1.0, 1e-3, -1e3])
@pytest.mark.parametrize("n_instruments", [1, 3])
def test_ends_of_the_set_are_where_the_test_begins_to_reject(n_instruments, unit):
    """Whatever the units of the coefficient: on a fixed grid far ends became infinite, and far pieces were missed."""
    ends = 0
    for seed in range(12):
        g, X, Z, w, y = small(30, n_instruments, seed, strength=0.1)
        sample = (g, X, Z, w * unit, y + 2 * w)
        p = plain_ar(*sample)
        found = identified(*sample).identification.ar_set
        finite = [end for piece in found for end in piece if np.isfinite(end)]
        ends += len(finite)
        assert [p(end) for end in finite] == pytest.approx([0.05] * len(finite), rel=1e-5)
        grid = np.tan(np.linspace(-1.57, 1.57, 401)) / unit
        inside = [any(low <= b <= high for low, high in found) for b in grid]
        assert inside == [p(b) >= 0.05 for b in grid]
    assert ends > 6


def test_the_bootstrap_of_no_more_clusters_than_regressors_has_no_p_value():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 60))
    assert np.isnan(wild_cluster_p(y, np.ones(60), x, np.zeros(60), n_draws=19))
    assert np.isnan(wild_cluster_p(y, np.ones(60), rng.normal(size=(60, 3)), np.repeat([0, 1, 2], 20), n_draws=19))
    # a regressor of one cluster alone, net of the other's constant: each score is zero
    first = np.repeat([1.0, 0.0, 0.0], 20)
    others = np.column_stack([np.roll(first, 20), np.roll(first, 40)])
    assert np.isnan(wild_cluster_p(y, others, first, np.repeat([0, 1, 2], 20), n_draws=19))


def test_the_bootstrap_takes_clusters_of_any_label():
    rng = np.random.default_rng(0)
    x, y, cluster = rng.normal(size=60), rng.normal(size=60), np.repeat(np.arange(10), 6)
    p = wild_cluster_p(y, np.ones(60), x, cluster, n_draws=99)
    labels = np.array([None, 3, ("a", 1), *"bcdefgh"], dtype=object)
    assert wild_cluster_p(y, np.ones(60), x, labels[cluster], n_draws=99) == p
