"""The own model beside scikit-learn's, its penalty beside brute force, and cross-fitting beside a plain loop."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from statsmodels.regression.linear_model import OLS

from peerattn.exceptions import InputError
from peerattn.models.attention.batches import CLIP, row_tensors
from peerattn.models.attention.cross_fitting import count_rows, cross_fit, folds_of
from peerattn.models.attention.curves import Curves
from peerattn.models.attention.losses import cross_entropy, squared_error
from peerattn.models.attention.own_model import OwnSettings, Shrinkage, fit_own, with_levels
from peerattn.models.attention.shrinkage import ERRORS, PENALTIES, best_shrinkage
from peerattn.models.pools import Rows, Section

SETTINGS = OwnSettings("linear", squared_error, 1, (), True)
LINES = Shrinkage(0.0), Shrinkage(np.inf)  # least squares, no curves


def rows(x, y, weight=None, codes=None, labels=None):
    label = pd.RangeIndex(len(x)) if labels is None else pd.Index(labels)
    codes = np.zeros((len(x), 0), dtype=int) if codes is None else codes
    return Rows(x, codes, y, None, np.arange(len(x)), label, label, weight)


def panel(n=20, T=13, p=4, seed=0, noise=1.0):
    """Return one section a period; the pool holds one firm more, of unknown outcome."""
    rng = np.random.default_rng(seed)
    sections = []
    for t in range(T):
        x = rng.normal(size=(n, p))
        pool = rows(x, np.r_[(x[:, 0] - x[:, 1] + noise * rng.normal(size=n))[:-1], np.nan])
        sections.append(Section(t, slice(None), pool.take(slice(0, n - 1)), pool, True))
    return sections


@pytest.mark.parametrize("weighed", [False, True])
def test_the_linear_own_model_is_ridge_regression(weighed):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4)) * [1, 5, 0.1, 1] + [0, 3, 0, 0]
    x[:, 3] = 7.0  # a constant column
    y, weight = x[:, 0] + 2 * x[:, 2] + rng.normal(size=60), rng.uniform(size=60) if weighed else None
    scaler = StandardScaler().fit(x[:, :3], sample_weight=weight)
    for penalty in (1e-9, 1.0, 300.0):
        expected = Ridge(alpha=penalty).fit(scaler.transform(x[:, :3]), y, sample_weight=weight)
        found = fit_own(rows(x, y, weight), SETTINGS, (Shrinkage(penalty), LINES[1]))
        np.testing.assert_allclose(found.slope[:3, 0], expected.coef_, atol=1e-7)
        new = rng.uniform(-2, 2, size=(5, 4)) * [1, 5, 0.1, 1] + [0, 3, 0, 0]
        np.testing.assert_allclose(
            found.predict(rows(new, None))[:, 0], expected.predict(scaler.transform(new[:, :3])), atol=1e-7
        )
    ols = LinearRegression().fit(x, y, sample_weight=weight).predict(x)
    np.testing.assert_allclose(fit_own(rows(x, y, weight), SETTINGS, LINES).predict(rows(x, y))[:, 0], ols)
    mean = fit_own(rows(x, y, weight), SETTINGS, (LINES[1], LINES[1])).predict(rows(x, y))
    np.testing.assert_allclose(mean, np.average(y, weights=weight))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_own_model_of_classes_is_logistic_regression(n_classes):
    """scikit-learn's C multiplies the loss, beside half the squares: C = 1 / (2 λ)."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    y = (x[:, 0] + rng.normal(size=80) > 0) + (x[:, 1] > 1.0) * (n_classes - 2.0)
    settings = replace(SETTINGS, loss=cross_entropy, n_outputs=1 if n_classes == 2 else 3)
    found = fit_own(rows(x, y), settings, (Shrinkage(3.0), LINES[1])).predict(rows(x, y))
    z = StandardScaler().fit_transform(x)
    expected = LogisticRegression(C=1 / 6, tol=1e-10, max_iter=1000).fit(z, y).decision_function(z)
    centred = found if n_classes == 2 else found - found.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(centred.squeeze(), expected, atol=2e-3)


def held_out_losses(x, y, fold, penalties, fitted):
    losses = np.empty((len(y), len(penalties)))
    for f in np.unique(fold):
        a, b = fold != f, fold == f
        for k, penalty in enumerate(penalties):
            losses[b, k] = (y[b] - fitted(a, penalty)[b]) ** 2
    return losses


def brute_force(losses, penalties, firm, period):
    """Return what the rule says: errors by firm, and for the factor by firm and period, which statsmodels gives."""
    excess = pd.DataFrame(losses - losses[:, [losses.sum(axis=0).argmin()]]).groupby(firm).sum()
    total, error = excess.sum(), excess.std() * np.sqrt(len(excess))
    if total[0] <= ERRORS * error[0]:
        return Shrinkage(penalties[0])
    near = (total <= error).to_numpy().argmax()  # the first within one error of the least
    gain = losses[:, 0] - losses[:, near]
    ols = OLS(gain, np.ones(len(gain)))
    ways = [np.c_[firm, period], firm, period]  # cov_kwds of one way take (n,)
    errors = [ols.fit(cov_type="cluster", cov_kwds={"groups": way}).bse[0] for way in ways]
    return Shrinkage(penalties[0], penalties[near], max(0.0, 1 - (max(errors) / gain.mean()) ** 2))


def same(found, expected):
    return (found.first, found.penalty) == (
        expected.first,
        expected.penalty,
    ) and found.factor == pytest.approx(expected.factor, abs=1e-6)


@pytest.mark.parametrize("p, signal", [(2, 1.0), (30, 0.0), (30, 0.05)])
def test_ridge_replaces_least_squares_where_held_out_rows_clearly_say_so(p, signal):
    rng = np.random.default_rng(p)
    x, firm, period = rng.normal(size=(100, p)), np.tile(np.arange(20), 5), np.repeat(np.arange(5), 20)
    y = signal * x.sum(axis=1) + rng.normal(size=100)
    z = (x - x.mean(axis=0)) / x.std(axis=0)

    def fitted(a, penalty):
        if np.isinf(penalty):
            return np.full(100, y[a].mean())
        model = LinearRegression() if penalty == 0 else Ridge(alpha=penalty)
        return model.fit(z[a], y[a]).predict(z)

    lines, curves = best_shrinkage(rows(x, y, labels=firm), period, SETTINGS, period)
    assert same(lines, brute_force(held_out_losses(x, y, period, PENALTIES, fitted), PENALTIES, firm, period))
    assert (lines.factor == 0) == (p == 2) and curves.factor == 0


def test_a_shock_that_all_firms_share_counts_once():
    """The outcome follows the period's mean, and so does x: 40 firms, but 8 observations of it."""
    rng = np.random.default_rng(1)
    firm, period = np.tile(np.arange(40), 8), np.repeat(np.arange(8), 40)
    x = rng.normal(size=8)[period][:, None] * np.ones((1, 3)) + 0.1 * rng.normal(size=(320, 3))
    y = 2 * rng.normal(size=8)[period] + rng.normal(size=320)
    by_both, by_firm = (
        best_shrinkage(rows(x, y, labels=firm), period // 2, SETTINGS, each)[0] for each in (period, None)
    )
    assert by_both.further == by_firm.further > 0
    assert by_firm.factor > 0.9 and by_both.factor < 0.75


def test_a_factor_mixes_least_squares_and_ridge():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    y = x[:, 0] + x[:, 1] ** 2 + rng.normal(size=50)
    given, additive = rows(x, y), replace(SETTINGS, own="additive")

    def predicted(lines, bends):
        return fit_own(given, additive, (lines, bends)).predict(given)

    corners = [
        [predicted(Shrinkage(a), Shrinkage(b)) for b in (np.inf, 20.0)] for a in (0.0, 300.0)
    ]  # lines; curves
    both = predicted(Shrinkage(0.0, 300.0, 0.25), Shrinkage(np.inf, 20.0, 0.6))
    expected = sum(
        a * b * corners[i][j] for i, a in enumerate((0.75, 0.25)) for j, b in enumerate((0.4, 0.6))
    )
    np.testing.assert_allclose(both, expected, atol=1e-10)


# ---------------------------------------------------------------- curves


@pytest.mark.parametrize("bent", [0.0, 0.4])
def test_curves_replace_lines_where_held_out_rows_clearly_say_so(bent):
    rng = np.random.default_rng(1)
    x, firm, period = rng.normal(size=(300, 2)), np.tile(np.arange(60), 5), np.repeat(np.arange(5), 60)
    y = x[:, 0] + bent * x[:, 1] ** 2 + rng.normal(size=300)
    z, curves = np.c_[np.ones(300), StandardScaler().fit_transform(x)], Curves.of(x, np.ones(300)).columns(x)

    def fitted(a, penalty):
        light = np.r_[np.zeros(3), np.full(curves.shape[1], min(penalty, 1e12))]
        columns = np.c_[z, curves]
        gram = columns[a].T @ columns[a] + np.diag(light)
        return columns @ np.linalg.lstsq(gram, columns[a].T @ y[a], rcond=1e-13)[0]

    additive, given = replace(SETTINGS, own="additive"), rows(x, y, labels=firm)
    lines, bends = best_shrinkage(given, period, additive, period)
    assert lines == Shrinkage(0.0)
    penalties = PENALTIES[:0:-1]  # from ∞ down
    assert same(bends, brute_force(held_out_losses(x, y, period, penalties, fitted), penalties, firm, period))
    assert (bends.factor == 0) == (bent == 0)
    model = fit_own(given, additive, (LINES[0], Shrinkage(10.0)))
    np.testing.assert_allclose(model.predict(given)[:, 0], fitted(np.full(300, True), 10.0), atol=1e-7)
    straight = fit_own(given, additive, (LINES[0], Shrinkage(1e12)))
    np.testing.assert_allclose(
        straight.predict(given)[:, 0], LinearRegression().fit(x, y).predict(x), atol=1e-6
    )


def test_a_curve_is_linear_in_ranks_between_their_quartiles_and_bounded():
    x = np.arange(1.0, 102.0)[:, None]
    curves = Curves.of(x, np.ones(101))
    unscaled = curves.columns(x) * curves.spread + curves.center
    r = (x[:, 0] - 0.5) / 101
    expected = np.column_stack([r, *((r - knot).clip(0) for knot in (0.25, 0.5, 0.75))])
    np.testing.assert_allclose(unscaled, expected, atol=1e-12)
    np.testing.assert_array_equal(curves.columns(np.array([[1e9], [101.0]])), curves.columns(x[[-1, -1]]))
    assert (
        not Curves.of(np.ones((9, 1)), np.ones(9)).columns(np.zeros((2, 1))).any()
    )  # a constant has no curve


def test_in_curves_a_weight_of_two_is_a_repeated_row():
    rng = np.random.default_rng(0)
    x, weight = rng.integers(0, 9, size=(40, 2)) * 1.0, rng.integers(1, 4, size=40)
    weighed, repeated = Curves.of(x, weight * 1.0), Curves.of(x.repeat(weight, axis=0), np.ones(weight.sum()))
    np.testing.assert_allclose(weighed.columns(x), repeated.columns(x), atol=1e-12)


def test_classes_have_curves_too():
    rng = np.random.default_rng(0)
    x, fold = rng.normal(size=(400, 1)), np.repeat(np.arange(5), 80)
    y = (x[:, 0] ** 2 > 1) * 1.0
    settings = OwnSettings("additive", cross_entropy, 1, (), False)
    shrinkage = best_shrinkage(rows(x, y), fold, settings)
    assert shrinkage[1].factor > 0.9
    right = (fit_own(rows(x, y), settings, shrinkage).predict(rows(x, y))[:, 0] > 0) == y
    assert right.mean() > 0.85  # lines alone: two thirds


@pytest.mark.parametrize("own", ["linear", KNeighborsRegressor(3)])
def test_cross_fitting_is_a_plain_loop(own):
    sections = panel()
    whole, block = cross_fit(sections, replace(SETTINGS, own=own))
    blocks = np.array_split(np.arange(len(sections)), 5)
    x, y = (np.concatenate([getattr(s.focal, name) for s in sections]) for name in ("x", "y"))
    plain = (lambda: LinearRegression()) if own == "linear" else (lambda: KNeighborsRegressor(3))
    for held_out in blocks:
        rest = [s for t, s in enumerate(sections) if t not in held_out]
        model = plain().fit(
            np.concatenate([s.focal.x for s in rest]), np.concatenate([s.focal.y for s in rest])
        )
        for t in held_out:
            np.testing.assert_allclose(block.offset[t][:, 0], model.predict(sections[t].focal.x), atol=1e-10)
            np.testing.assert_allclose(block.pool[t][:, 0], model.predict(sections[t].peers.x), atol=1e-10)
    np.testing.assert_allclose(
        whole.predict(sections[0].peers)[:, 0], plain().fit(x, y).predict(sections[0].peers.x), atol=1e-10
    )
    left = block.residuals(squared_error, outcomes=True)[3]
    np.testing.assert_allclose(left.focal.y, sections[3].focal.y - block.offset[3][:, 0])
    np.testing.assert_allclose(left.peers.y, sections[3].peers.y - block.pool[3][:, 0])
    assert np.isnan(left.peers.y[-1])
    assert block.residuals(squared_error, outcomes=False)[3].peers.y is None


def test_heads_see_values_of_at_most_four_standard_deviations():
    assert row_tensors(rows(np.array([[9.0], [-1.0]]), None), torch.float64).x.tolist() == [[[CLIP], [-1.0]]]


def arrays(x, y, weight=None):
    everyone = rows(x, y, weight)
    return Section(None, slice(None), everyone, everyone, own_copies=weight is not None)


def test_on_arrays_the_peers_of_a_held_out_row_are_held_out_with_it():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = x[:, 0] + 0.1 * rng.normal(size=60)
    _, block = cross_fit([arrays(x, y)], replace(SETTINGS, dated=False))
    np.testing.assert_array_equal(block.offset[0], block.pool[0])
    (fold,) = folds_of([arrays(x, y)])
    for f in np.unique(fold):
        expected = LinearRegression().fit(x[fold != f], y[fold != f]).predict(x[fold == f])
        np.testing.assert_allclose(block.offset[0][fold == f, 0], expected, atol=1e-10)


def test_folds_follow_content_so_that_weights_count_rows():
    rng = np.random.default_rng(0)
    x, y, weight = rng.normal(size=(40, 2)), rng.normal(size=40), rng.integers(1, 4, size=40)
    (once,) = folds_of([arrays(x, y, weight.astype(float))])
    copies = np.repeat(np.arange(40), weight)
    order = rng.permutation(len(copies))
    (repeated,) = folds_of([arrays(x[copies][order] * (1 + 1e-14), y[copies][order])])
    np.testing.assert_array_equal(repeated, once[copies][order])
    assert len(np.unique(once)) == 5
    assert count_rows([arrays(x, y, weight.astype(float))]) == weight.sum()
    assert count_rows(panel(T=3)) == 57


def test_an_estimator_sees_a_column_for_each_level():
    rng = np.random.default_rng(0)
    x, codes = rng.normal(size=(90, 1)), rng.integers(0, 4, size=(90, 1))
    levels = with_levels(rows(x, None, codes=codes), (3,))
    assert levels.shape == (90, 4)
    np.testing.assert_array_equal(levels[:, 1:].sum(axis=1), codes[:, 0] > 0)  # the unknown code has none
    y, weight = codes[:, 0] + 0.1 * rng.normal(size=90), rng.uniform(size=90)
    given = rows(x, y, weight, codes)
    model = fit_own(given, replace(SETTINGS, own=HistGradientBoostingRegressor(), code_levels=(3,)), LINES)
    expected = HistGradientBoostingRegressor().fit(levels, y, sample_weight=weight).predict(levels)
    np.testing.assert_array_equal(model.predict(given)[:, 0], expected)
    assert model.predict(given.take(slice(0, 0))).shape == (0, 1)
    with pytest.raises(InputError, match="own: KNeighborsRegressor takes no sample_weight"):
        fit_own(given, replace(SETTINGS, own=KNeighborsRegressor()), LINES)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_classifier_gives_log_odds(n_classes):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(90, 2)), rng.integers(0, n_classes, size=90).astype(float)
    own = HistGradientBoostingClassifier(max_iter=5)
    settings = replace(SETTINGS, own=own, loss=cross_entropy, n_outputs=1 if n_classes == 2 else 3)
    model = fit_own(rows(x, y), settings, LINES)
    probability = model.estimator.predict_proba(x)
    found = model.predict(rows(x, y))
    if n_classes == 2:
        np.testing.assert_allclose(1 / (1 + np.exp(-found[:, 0])), probability[:, 1], atol=1e-12)
    else:
        np.testing.assert_allclose(np.exp(found), probability, atol=1e-12)
        without = fit_own(rows(x, y).take(y != 1), settings, LINES).predict(rows(x, y))
        assert without.shape == (90, 3) and (without[:, 1] == np.log(1e-6)).all()
