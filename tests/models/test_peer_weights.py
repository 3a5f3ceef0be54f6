"""Weights of training rows: ``W y`` is the prediction, of every model; brute force where no identity shows it."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from peerattn import IndustryPeerRegressor
from peerattn.exceptions import InputError
from peerattn.models import peer_weights
from peerattn.models.peer_weights import smoother_of

EXACT = {
    "ols": LinearRegression(),
    "no intercept": Ridge(2.0, fit_intercept=False),
    "ridge": make_pipeline(StandardScaler(), Ridge(3.0)),
    "ridge cv": RidgeCV(alphas=[0.1, 10.0]),
    "kernel ridge": KernelRidge(alpha=0.5, kernel="rbf", gamma=0.3),
    "neighbours": KNeighborsRegressor(7),
    "near neighbours": KNeighborsRegressor(7, weights="distance"),
    "tree": DecisionTreeRegressor(max_depth=4, random_state=0),
    "forest": RandomForestRegressor(20, min_samples_leaf=3, random_state=0),
    "forest of parts": RandomForestRegressor(10, max_samples=0.5, random_state=0),
    "extra trees": ExtraTreesRegressor(20, max_depth=6, random_state=0),
    "boosting": GradientBoostingRegressor(n_estimators=60, random_state=0),
    "boosting from zero": GradientBoostingRegressor(n_estimators=30, init="zero", random_state=0),
    "one tree from zero": GradientBoostingRegressor(n_estimators=1, init="zero", random_state=0),  # weights add up to 0.1
    "search": GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([[f"F{k}" for k in range(40)], range(2001, 2009)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(320, 3)), index=index, columns=["size", "lev", "roa"])
    y = X["size"] ** 2 + X["lev"] * X["roa"] + rng.normal(size=320)
    return X, y.rename("q")


@pytest.mark.parametrize("name", EXACT)
def test_the_weighted_sum_is_the_prediction(rows, name):
    X, y = rows
    train = X.index.get_level_values("period") < 2007
    model = EXACT[name].fit(X[train], y[train])
    network = peer_weights(model, X[~train], X[train], y[train], by="row")
    labels = [f"{f} {p}" for f, p in X.index[train]]
    outcomes = pd.Series(y[train].to_numpy(), labels)
    predicted = pd.Series(model.predict(X[~train]), X.index[~train])
    for period in (2007, 2008):
        W = network.matrix(period)
        made = W.to_numpy() @ outcomes[W.columns]
        np.testing.assert_allclose(made, predicted.xs(period, level="period")[W.index], atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    "options",
    [{}, {"l2_regularization": 5.0}, {"max_features": 0.5}, {"learning_rate": 0.3, "max_leaf_nodes": 5}],
)
def test_histogram_boosting(rows, options):
    """To 1e-10 of the same trees with residuals in double precision; to 1e-5 of scikit-learn's, which are single."""
    X, y = rows[0].copy(), rows[1]
    X["sector"] = pd.Categorical(np.random.default_rng(1).choice(list("ABC"), len(X)))
    X.iloc[::7, 0] = np.nan
    model = HistGradientBoostingRegressor(max_iter=40, early_stopping=False, random_state=0, **options).fit(X, y)
    weights = smoother_of(model, X)(X.iloc[:50])
    np.testing.assert_allclose(weights @ y, model.predict(X.iloc[:50]), atol=1e-5)
    np.testing.assert_allclose(weights @ y, staged(model, X, y.to_numpy())[:50], atol=1e-10)


def staged(model, X, y):
    """Predictions of a boosted model, tree by tree in float64; leaves told apart by what scikit-learn adds to each row."""
    known, places = model._bin_mapper.make_known_categories_bitsets()
    Z, fitted = model._preprocess_X(X, reset=False), np.full(len(y), y.mean())
    for (tree,) in model._predictors:
        leaf = np.unique(tree.predict(Z, known, places, 1), return_inverse=True)[1]
        sums, count = np.bincount(leaf, y - fitted), np.bincount(leaf)
        fitted = fitted + (model.learning_rate * sums / (count + model.l2_regularization))[leaf]
    return fitted


def test_a_change_of_one_outcome_moves_the_prediction_by_its_weight(rows):
    """The trees held fixed: the derivative of a refitted boosting with the same splits."""
    X, y = rows
    model = GradientBoostingRegressor(n_estimators=25, random_state=0).fit(X, y)
    W = smoother_of(model, X)(X.iloc[:20])
    leaves = [tree.apply(X.to_numpy(dtype=np.float32)) for tree in model.estimators_[:, 0]]

    def predict(outcomes):
        fitted = np.full(len(outcomes), outcomes.mean())
        for leaf in leaves:
            rest = outcomes - fitted
            fitted = fitted + 0.1 * np.array([rest[leaf == one].mean() for one in leaf])
        return fitted[:20]

    moved = y.to_numpy().copy()
    moved[11] += 1.0
    np.testing.assert_allclose(predict(moved) - predict(y.to_numpy()), W[:, 11], atol=1e-12)


def test_by_firm_and_the_strongest(rows):
    X, y = rows
    model = RandomForestRegressor(30, min_samples_leaf=5, random_state=0).fit(X, y)
    last = X.xs(2008, level="period", drop_level=False)
    by_row = peer_weights(model, last, X, y, by="row")
    by_firm = peer_weights(model, last, X, y)
    assert not by_firm.signed and by_firm.row_normalized and len(by_firm.reference) == 40
    W, rows_of = by_firm.matrix(), by_row.matrix()
    own = rows_of.columns.str.split(" ").str[0]
    np.testing.assert_allclose(W, rows_of.T.groupby(own).sum().T[W.columns], atol=1e-14)
    few = peer_weights(model, last, X, y, top_k=3)
    assert few.top_k == 3 and few.edges().groupby("firm").size().max() == 3
    pd.testing.assert_frame_equal(
        few.edges().sort_values(["firm", "peer"], ignore_index=True),
        by_firm.edges(top_k=3).sort_values(["firm", "peer"], ignore_index=True),
    )


def test_rows_of_firms_with_numbers():
    index = pd.MultiIndex.from_product([range(10001, 10005), range(2001, 2006)], names=["firm", "period"])
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame(rng.normal(size=(20, 2)), index, columns=["a", "b"]), pd.Series(rng.normal(size=20), index)
    now = X.xs(2005, level="period", drop_level=False)
    model = LinearRegression().fit(X, y)
    network = peer_weights(model, now, X, y, by="row")
    assert network.firms.tolist() == ["10001", "10002", "10003", "10004"] and "10001 2005" in network.reference
    np.testing.assert_allclose(network.matrix() @ y.to_numpy(), model.predict(now))


def test_arrays_and_peer_models(rows):
    X, y = rows
    model = Ridge().fit(X.to_numpy(), y)
    network = peer_weights(model, X.to_numpy()[:9], X.to_numpy(), y.to_numpy())
    assert network.signed and network.matrix().shape == (9, 320)
    own = IndustryPeerRegressor(scheme="plain").fit(X, y)
    assert peer_weights(own, X).equals(own.peer_network(X))


def test_thousands_of_rows_in_little_memory():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6_000, 4)), rng.normal(size=6_000)
    model = HistGradientBoostingRegressor(max_iter=10, max_leaf_nodes=8, early_stopping=False).fit(X, y)
    tracemalloc.start()
    network = peer_weights(model, X, X, y, top_k=5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert network.edges().shape[0] == 30_000
    assert peak < 200e6  # 6,000 x 6,000 would be 288


REFUSED = {
    "Lasso": Lasso(),
    "loss": GradientBoostingRegressor(loss="huber"),
    "subsample": GradientBoostingRegressor(subsample=0.5),
    "early_stopping": HistGradientBoostingRegressor(early_stopping=True),
    "criterion": RandomForestRegressor(3, criterion="absolute_error"),
    "positive": LinearRegression(positive=True),
    "monotonic_cst": HistGradientBoostingRegressor(monotonic_cst=[1, 0, 0]),
}


@pytest.mark.parametrize("word", REFUSED)
def test_what_is_not_linear_in_the_outcomes_is_refused(rows, word):
    X, y = rows
    with pytest.raises(InputError) as refused:
        peer_weights(REFUSED[word].fit(X, y), X, X, y)
    assert "model" in str(refused.value) and word in str(refused.value)


def test_rows_of_another_fit_are_refused(rows):
    X, y = rows
    model = Ridge().fit(X, y)
    for other in ((X[:100], y[:100]), (X, y[::-1].to_numpy())):
        with pytest.raises(InputError) as refused:
            peer_weights(model, X, *other)
        assert "X_train" in str(refused.value) and "fitted on" in str(refused.value)
    with pytest.raises(InputError) as refused:
        peer_weights(model, X)
    assert "X_train" in str(refused.value)


def test_models_that_are_not_fitted_are_named(rows):
    X, y = rows
    for model in (
        HistGradientBoostingRegressor(),
        make_pipeline(StandardScaler(), Ridge()),
        GridSearchCV(Ridge(), {}),
    ):
        with pytest.raises(NotFittedError):
            peer_weights(model, X, X, y)


def test_a_forest_of_other_rows_is_an_error():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    forest = RandomForestRegressor(n_estimators=3, random_state=0).fit(X, y)
    with pytest.raises(InputError, match="X_train, y_train: expected the rows that RandomForestRegressor was fitted on"):
        peer_weights(forest, X[:5], X[:30], y[:30])
