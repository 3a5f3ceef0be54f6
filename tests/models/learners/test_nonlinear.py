"""Own shape: interactions and curves of own characteristics are found by it, and by nothing that reads peers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge, RidgeCV

from peerattn import StackedPeerRegressor
from peerattn.exceptions import InputError
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.linear import fit_best_line, stacked_rows
from peerattn.models.learners.losses import squared_error
from peerattn.models.learners.nonlinear import (
    fit_curves,
    fit_estimator,
    fit_forest,
    fit_line_and_forest,
    fit_trees,
    forest,
    ridge,
    weighted_quantiles,
)
from peerattn.models.learners.training import Problem, Training
from peerattn.models.stacking.weights import Column


def training(outcome, n=60, T=5, p=3, seed=0, weights=False, n_codes=0):
    rng = np.random.default_rng(seed)
    found, label = [], pd.Index(range(n))
    for t in range(T):
        x, codes = rng.normal(size=(n, p)), rng.integers(0, 4, size=(n, n_codes))
        y = outcome(x, codes) + 0.3 * rng.normal(size=n)
        weight = rng.integers(1, 4, n).astype(float) if weights else None
        rows = Rows(x, codes, y, None, np.arange(n), label, label, weight)
        found.append(CrossSection(t, slice(0, n), rows, rows, True))
    return Training.of(found, Problem(squared_error, 1, (3,) * n_codes, False, True))


def share(model, given):
    """Return the share of the variance that a model explains."""
    y = np.concatenate([s.focal.y for s in given.sections])
    fitted = np.concatenate(model.predict(given.sections))[:, 0]
    return 1 - ((y - fitted) ** 2).sum() / ((y - y.mean()) ** 2).sum()


@pytest.mark.full_search
def test_products_and_trees_explain_an_interaction_and_curves_alone_do_not(monkeypatch):
    product = lambda x, _: x[:, 0] * x[:, 1]  # noqa: E731
    fit, later = training(product), training(product, seed=1)
    assert share(fit_curves(fit), later) > 0.6
    assert share(fit_trees(fit), later) > 0.4
    assert share(fit_forest(fit, 0), later) > 0.3
    monkeypatch.setattr("peerattn.models.learners.nonlinear.MOST_COLUMNS", 3)
    assert share(fit_curves(fit), later) < 0.1


def test_a_leaf_of_the_forest_is_larger_than_one_firm():
    assert [forest(1000, n, 0).min_samples_leaf for n in (1, 7, 300)] == [5, 8, 20]
    assert forest(1000, 7, 0).max_samples == 1.0
    assert forest(400_000, 7, 0).max_samples == 0.01
    rng = np.random.default_rng(0)
    effects, firms = 3 * rng.normal(size=60), rng.normal(size=(60, 3))

    def panel(firm):  # characteristics that never change tell firms apart, and nothing else
        given = training(lambda x, _: effects)
        for section in given.sections:
            section.focal.x[:] = firm
        return given

    assert share(fit_forest(panel(firms), 0), panel(firms)) < 0.7


@pytest.mark.full_search
def test_a_line_and_forest_follow_a_persistent_outcome_and_find_an_interaction_beside_it():
    persistent = lambda x, _: 5 * x[:, 0] + x[:, 1] * x[:, 2]  # noqa: E731
    fit, later = training(persistent, n=200), training(persistent, n=200, seed=1)
    assert share(fit_line_and_forest(fit, 0), later) > 0.98
    assert share(fit_forest(fit, 0), later) < 0.96
    line = fit_best_line(fit.sections).predict(stacked_rows(later.sections))  # at best 25 of 26.09
    y = np.concatenate([s.focal.y for s in later.sections])
    assert np.corrcoef(line[:, 0], y)[0, 1] ** 2 < 0.97
    assert fit_line_and_forest(training(lambda x, _: np.zeros(len(x)), p=0), 0) is None


def test_curves_explain_a_square():
    square = lambda x, _: x[:, 0] ** 2  # noqa: E731
    fit, later = training(square), training(square, seed=1)
    assert share(fit_curves(fit), later) > 0.75


def test_ridge_is_that_of_scikit_learn_at_the_penalty_of_least_generalised_error():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 12))
    Z = (Z - Z.mean(0)) / Z.std(0)
    y = Z[:, 0] + rng.normal(size=80) * 2
    y -= y.mean()
    found = ridge(Z, y, np.ones(80))

    def criterion(penalty):
        hat = Z @ np.linalg.solve(Z.T @ Z + penalty * np.eye(12), Z.T)
        return ((y - hat @ y) ** 2).sum() / (1 - (1 + np.trace(hat)) / 80) ** 2

    best = min(80 * np.logspace(-5, 1, 13), key=criterion)
    np.testing.assert_allclose(found, Ridge(alpha=best, fit_intercept=False).fit(Z, y).coef_, rtol=1e-8)


def test_weights_are_repetitions_of_rows():
    given = training(lambda x, _: x[:, 0] + x[:, 1] ** 2, n=30, T=2, weights=True)
    repeated = []
    for s in given.sections:
        many = np.repeat(np.arange(30), s.focal.loss_weight.astype(int))
        rows = s.focal.take(many)
        rows = Rows(rows.x, rows.codes, rows.y, None, rows.identity, rows.label, rows.owner)
        repeated.append(CrossSection(s.period, slice(0, len(many)), rows, rows, True))
    Z = np.random.default_rng(0).normal(size=(20, 3))
    weight = np.arange(20) % 3 + 1
    y = Z[:, 0] + np.sin(np.arange(20))
    np.testing.assert_allclose(
        ridge(Z, y, weight.astype(float)), ridge(np.repeat(Z, weight, 0), np.repeat(y, weight), np.ones(weight.sum())), rtol=1e-9
    )  # fmt: skip
    assert np.isfinite(share(fit_curves(given), given))


def test_weights_of_one_draw_the_rows_of_a_forest_without_weights():
    given = training(lambda x, _: x[:, 0] * x[:, 1])
    focal = [replace(s.focal, loss_weight=np.ones(60)) for s in given.sections]
    weighted = replace(given, sections=[replace(s, focal=rows) for s, rows in zip(given.sections, focal, strict=True)])
    found = [np.concatenate(fit_forest(each, 0).predict(given.sections)) for each in (given, weighted)]
    np.testing.assert_array_equal(*found)


@pytest.mark.full_search
def test_levels_of_a_code_are_in_the_order_of_their_mean_outcome():
    effect = np.array([0.0, 2.0, -1.0, 5.0])
    given = training(lambda _, codes: effect[codes[:, 0]], n_codes=1)
    (places,) = fit_trees(given).places
    assert np.isnan(places[0])
    assert list(np.argsort(places[1:])) == list(np.argsort(effect[1:]))
    later = training(lambda _, codes: effect[codes[:, 0]], n_codes=1, seed=1)
    assert share(fit_trees(given), later) > 0.8


def test_odd_inputs_have_no_curve_or_finite_ones():
    assert share(fit_curves(one := training(lambda x, _: x[:, 0], p=1)), one) > 0.5
    assert fit_curves(training(lambda x, _: 0.0, p=0)) is None
    given = training(lambda x, _: x[:, 0])
    for s in given.sections:
        s.focal.x[:, 1], s.focal.x[:, 2] = 3.0, s.focal.x[:, 2] > 1.5
    model = fit_curves(given)
    rows = given.sections[0].focal.take(slice(0, 3))
    rows.x[:, 0] = 1e9
    (far,) = model.predict([replace(given.sections[0], focal=rows)])
    assert np.isfinite(far).all() and np.ptp(far) < 50


def test_an_estimator_without_sample_weights_is_refused_by_name():
    class Plain:
        def __init__(self):
            pass

        def get_params(self, deep=True):
            return {}

        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.zeros(len(X))

    with pytest.raises(InputError, match="own, learners: Plain takes no sample_weight.*use one that does"):
        fit_estimator(training(lambda x, _: x[:, 0], weights=True), Plain())


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_an_interaction_of_own_characteristics_passes_for_no_peer(task):
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(60), range(12)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(720, 3)), index=index, columns=["size", "value", "momentum"])
    y = X["size"] * X["value"] + 0.5 * pd.Series(rng.normal(size=720), index)
    model = StackedPeerRegressor(task=task, n_heads=1, random_state=0).fit(X, y)
    shape = model.evidence_.loc["nonlinear"]
    assert shape["factor"] > 0.7 and shape["t"] > 3 and shape["tested"]
    assert model.evidence_.loc["peers", "factor"] < 0.1
    steps = model.explain_gain()
    assert steps.loc["nonlinear", "gain"] > 0.4 > 0.1 > steps.loc["peers", "gain"]
    given = StackedPeerRegressor(task=task, own=RidgeCV(), n_heads=0, random_state=0).fit(X, y)
    assert Column("estimator") in given.stack_.stages["nonlinear"].weights and not given.evidence_.loc["nonlinear", "factor"]


def test_quantiles_with_weights_are_those_of_repeated_values():
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    times = rng.integers(0, 4, 30)
    at = np.linspace(0, 1, 7)
    np.testing.assert_allclose(weighted_quantiles(x, at, times.astype(float)), np.quantile(np.repeat(x, times), at))
    np.testing.assert_array_equal(weighted_quantiles(x, at, None), np.quantile(x, at))
    assert np.isfinite(weighted_quantiles(x, at, np.full(30, 0.01))).all()
