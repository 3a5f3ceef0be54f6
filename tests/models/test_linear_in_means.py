"""Linear-in-means model: two-stage least squares against linearmodels on a simulated network."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from linearmodels.iv import IV2SLS
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import check_estimator

from peerattn.exceptions import GeneratedRegressorWarning, InputError, IsolateWarning
from peerattn.models import LinearInMeansRegressor
from peerattn.models.two_stage import two_stage
from peerattn.network import PeerNetwork

TRUE = {
    "intercept": 0.5,
    "size": 1.0,
    "lev": -0.5,
    "peers' size": 0.3,
    "peers' lev": 0.2,
    "peers' outcome": 0.4,
}


def simulated(n_firms=80, n_periods=4, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    firms, periods = [f"F{i:03d}" for i in range(n_firms)], range(2001, 2001 + n_periods)
    networks, frames, outcomes = {}, [], []
    for period in periods:
        W = (rng.random((n_firms, n_firms)) < 0.06) * rng.uniform(1, 2, (n_firms, n_firms))
        np.fill_diagonal(W, 0.0)
        W[W.sum(axis=1) == 0, 0] = 1.0
        W[0, 0], W[0, 1] = 0.0, 1.0
        W /= W.sum(axis=1, keepdims=True)
        x = rng.normal(size=(n_firms, 2))
        mean = 0.5 + x @ [1.0, -0.5] + W @ x @ [0.3, 0.2]
        outcomes.append(np.linalg.solve(np.eye(n_firms) - 0.4 * W, mean + noise * rng.normal(size=n_firms)))
        networks[period] = pd.DataFrame(W, index=firms, columns=firms)
        index = pd.MultiIndex.from_product([firms, [period]], names=["firm", "period"])
        frames.append(pd.DataFrame(x, index=index, columns=["size", "lev"]))
    X, order = pd.concat(frames), rng.permutation(n_firms * n_periods)
    y = pd.Series(np.concatenate(outcomes), index=X.index, name="roa")
    return X.iloc[order], y.iloc[order], networks


def regressors(X, y, networks):
    """x, Wx, W²x and Wy in plain code, rows as in X."""
    out = []
    for period, W in networks.items():
        here = X.xs(period, level="period").loc[W.index]
        table = pd.concat(
            [here, (W @ here).add_prefix("peers' "), (W @ (W @ here)).add_prefix("second ")], axis=1
        )
        table["peers' outcome"] = W @ y.xs(period, level="period")[W.index]
        out.append(table.set_index(pd.MultiIndex.from_product([table.index, [period]])))
    return pd.concat(out).reindex(X.index).assign(intercept=1.0)


def test_check_estimator():
    check_estimator(LinearInMeansRegressor())


@pytest.mark.parametrize("cluster", ["firm", "period", None])
def test_equals_linearmodels(cluster):
    X, y, networks = simulated()
    model = LinearInMeansRegressor(network=networks, cluster=cluster).fit(X, y)
    table = regressors(X, y, networks)
    exogenous = table[["intercept", "size", "lev", "peers' size", "peers' lev"]]
    theirs = IV2SLS(y, exogenous, table["peers' outcome"], table[["second size", "second lev"]])
    if cluster is None:
        fit = theirs.fit(cov_type="robust")
    else:
        fit = theirs.fit(cov_type="clustered", clusters=pd.factorize(X.index.get_level_values(cluster))[0])
    names = list(model.coef_.index)
    np.testing.assert_allclose(model.coef_, fit.params[names], atol=1e-6)
    np.testing.assert_allclose(model.results_.std_errors, fit.std_errors[names], rtol=1e-6)


def test_standard_errors_are_in_the_units_of_the_columns():
    X, y, networks = simulated()
    small = LinearInMeansRegressor(network=networks, cluster="firm").fit(X, y).results_.std_errors
    large = LinearInMeansRegressor(network=networks, cluster="firm").fit(X.assign(size=X["size"] * 1e9), y)
    units = np.array([1e9 if "size" in name else 1.0 for name in small.index])
    np.testing.assert_allclose(large.results_.std_errors * units, small, rtol=1e-4)


def test_recovers_the_truth():
    X, y, networks = simulated(200, 6)
    model = LinearInMeansRegressor(network=networks).fit(X, y)
    z = (model.coef_ - pd.Series(TRUE)) / model.results_.std_errors
    assert (z.abs() < 3).all() and abs(model.coef_["peers' outcome"] - 0.4) < 0.15


def test_first_stage_f_is_that_of_the_excluded_instruments():
    X, y, networks = simulated()
    table = regressors(X, y, networks)
    columns = ["intercept", "size", "lev", "peers' size", "peers' lev", "second size", "second lev"]
    restriction = np.eye(7)[5:]
    expected = sm.OLS(table["peers' outcome"], table[columns]).fit().f_test(restriction).fvalue
    assert LinearInMeansRegressor(network=networks).fit(X, y).results_.first_stage_f == pytest.approx(
        float(expected), rel=1e-8
    )


def test_without_peer_outcome_it_is_least_squares():
    X, y, networks = simulated()
    model = LinearInMeansRegressor(network=networks, peer_outcome=False, cluster=None).fit(X, y)
    table = regressors(X, y, networks)[["intercept", "size", "lev", "peers' size", "peers' lev"]]
    theirs = sm.OLS(y, table).fit(cov_type="HC0")
    np.testing.assert_allclose(model.coef_, theirs.params[list(model.coef_.index)], atol=1e-10)
    np.testing.assert_allclose(model.results_.std_errors, theirs.bse[list(model.coef_.index)], rtol=1e-8)
    np.testing.assert_allclose(model.predict(X), theirs.fittedvalues, atol=1e-10)


def test_without_network_it_is_least_squares_on_own_characteristics():
    X, y, _ = simulated()
    np.testing.assert_allclose(
        LinearInMeansRegressor().fit(X, y).predict(X), LinearRegression().fit(X, y).predict(X), atol=1e-10
    )


def test_predictions():
    X, y, networks = simulated()
    model = LinearInMeansRegressor(network=networks).fit(X, y)
    told, alone = model.predict(X, outcomes=y), model.predict(X)
    table = regressors(X, y, networks)
    np.testing.assert_allclose(told, table[list(model.coef_.index)] @ model.coef_, atol=1e-10)
    beta = model.coef_["peers' outcome"]
    for period, W in networks.items():
        mean = (table[list(model.coef_.index)[:-1]] @ model.coef_.iloc[:-1]).xs(period, level="period")[
            W.index
        ]
        solved = np.linalg.solve(np.eye(len(W)) - beta * W.to_numpy(), mean)
        np.testing.assert_allclose(alone.xs(period, level="period")[W.index], solved, atol=1e-10)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")  # some firm's peers are all unknown
def test_unknown_outcomes_are_left_out_of_the_peers_mean():
    X, y, networks = simulated()
    model, outcomes = LinearInMeansRegressor(network=networks).fit(X, y), y.copy()
    outcomes.iloc[::5] = np.nan
    predicted = model.predict(X, outcomes=outcomes)
    firm, period = X.index[1]
    w = networks[period].loc[firm]
    known = outcomes.xs(period, level="period")[w.index]
    mean = (w * known).sum() / w[known.notna()].sum()
    table = regressors(X, y, networks).loc[(firm, period)].copy()
    table["peers' outcome"] = mean
    assert predicted.iloc[1] == pytest.approx(float(table[list(model.coef_.index)] @ model.coef_))


def test_own_outcome_and_later_values_have_no_influence():
    X, y, networks = simulated()
    model = LinearInMeansRegressor(network=networks).fit(X, y)
    before, shocked = model.predict(X, outcomes=y), y.copy()
    shocked.iloc[4] += 1e6
    period = X.index.get_level_values("period")
    after = model.predict(X, outcomes=shocked)
    assert after.iloc[4] == before.iloc[4]
    assert (after[period != period[4]] == before[period != period[4]]).all()
    changed = X.copy()
    changed.loc[period == 2004, "size"] = 9.0
    assert (model.predict(changed)[period < 2004] == model.predict(X)[period < 2004]).all()


def test_network_rows_sum_to_one():
    X, y, networks = simulated()
    network = LinearInMeansRegressor(network=networks).fit(X, y).peer_network(X, outcomes=y)
    for period, W in networks.items():
        np.testing.assert_allclose(network.matrix(period).loc[W.index, W.columns], W, atol=1e-12)


def test_isolates_have_no_peer_term():
    X, y, networks = simulated()
    model = LinearInMeansRegressor(network=networks).fit(X, y)
    newcomer = X.rename(index={"F005": "NEW"}, level="firm")
    with pytest.warns(IsolateWarning, match="their peer term is zero"):
        predicted = model.predict(newcomer)
    row = newcomer.loc[("NEW", 2002)]
    assert predicted[("NEW", 2002)] == pytest.approx(
        model.coef_["intercept"] + row @ model.coef_[["size", "lev"]]
    )


def test_groups_of_one_size_are_refused_and_of_several_sizes_are_not():
    X, y, _ = simulated(60, 1, seed=3)

    def groups(sizes):
        block = np.repeat(np.arange(len(sizes)), sizes)
        W = (block[:, None] == block).astype(float) - np.eye(60)
        firms = sorted(X.index.get_level_values("firm").unique())
        return pd.DataFrame(W, index=firms, columns=firms)

    with pytest.raises(InputError, match="I, W and W² are linearly dependent"):
        LinearInMeansRegressor(network=groups([10] * 6)).fit(X, y)
    LinearInMeansRegressor(network=groups([3, 4, 5, 8, 10, 30])).fit(X, y)


def test_learned_networks():
    X, y, networks = simulated()
    learned = PeerNetwork.from_matrices(networks, name="PeerAttentionRegressor")
    with pytest.raises(InputError, match="say with learned_until="):
        LinearInMeansRegressor(network=learned).fit(X, y)
    with pytest.raises(InputError, match="it was chosen for fitting them"):
        LinearInMeansRegressor(network=learned, learned_until=2001).fit(X, y)
    later = X.index.get_level_values("period") > 2002
    with pytest.warns(GeneratedRegressorWarning, match="a generated regressor"):
        LinearInMeansRegressor(network=learned, learned_until=2002).fit(X[later], y[later])


def test_summary_says_what_was_done():
    X, y, networks = simulated()
    text = LinearInMeansRegressor(network=networks).fit(X, y).summary().text()
    assert (
        "first-stage F" in text
        and "clustered by firm (80 clusters)" in text
        and "P>|z|" in text
        and "peers' outcome" in text
    )


def test_dependent_columns_are_dropped_and_named():
    X, y, networks = simulated()
    X["sector"] = np.where(X["size"] > 0, "A", "B")
    model = LinearInMeansRegressor(network=networks).fit(X, y)
    assert "sector=B" in model.results_.dropped and np.isfinite(model.predict(X)).all()


def test_frequency_weights_are_copies():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"one": 1.0, "x": rng.normal(size=50)})
    z, w = pd.DataFrame({"z": rng.normal(size=50)}), rng.integers(0, 4, 50)
    endogenous = z["z"].to_numpy() + rng.normal(size=50)
    y, at = X["x"].to_numpy() + endogenous + rng.normal(size=50), np.repeat(np.arange(50), w)
    one = two_stage(y, X, endogenous, z, weight=w.astype(float))
    other = two_stage(y[at], X.iloc[at], endogenous[at], z.iloc[at])
    np.testing.assert_allclose(one.params, other.params, atol=1e-10)
    np.testing.assert_allclose(one.std_errors, other.std_errors, atol=1e-10)
    assert one.first_stage_f == pytest.approx(other.first_stage_f) and one.n_rows == other.n_rows == w.sum()


def test_errors():
    X, y, networks = simulated()
    with pytest.raises(InputError, match="cluster must be"):
        LinearInMeansRegressor(cluster="industry").fit(X, y)
    with pytest.raises(InputError, match="X carries no 'firm'"):
        LinearInMeansRegressor(network=networks[2001]).fit(X.to_numpy(), y.to_numpy())
    with pytest.raises(InputError, match="the model reads none"):
        LinearInMeansRegressor().fit(X, y).predict(X, outcomes=y)
