"""Linear-in-means model: two-stage least squares against plain numpy on a simulated network."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from linearmodels.iv import IV2SLS
from sklearn.linear_model import LinearRegression

from peerattn.exceptions import GeneratedRegressorWarning, InputError, IsolateWarning
from peerattn.models import LinearInMeansRegressor
from peerattn.models.two_stage import two_stage
from peerattn.models.wild_bootstrap import wild_cluster_p
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
        table = pd.concat([here, (W @ here).add_prefix("peers' "), (W @ (W @ here)).add_prefix("second ")], axis=1)
        table["peers' outcome"] = W @ y.xs(period, level="period")[W.index]
        out.append(table.set_index(pd.MultiIndex.from_product([table.index, [period]])))
    return pd.concat(out).reindex(X.index).assign(intercept=1.0)


def literal(X, y, networks, effects=(), cluster="firm"):
    """Two-stage least squares with dummies for effects, and its sandwich, in plain numpy."""
    table = regressors(X, y, networks)
    dummies = [pd.get_dummies(X.index.get_level_values(name)).to_numpy(float) for name in effects]
    outside = np.hstack(dummies)[:, : -1 if len(dummies) == 2 else None] if dummies else np.ones((len(X), 1))
    exogenous = np.column_stack([table[["size", "lev", "peers' size", "peers' lev"]], outside])
    R = np.column_stack([table["peers' outcome"], exogenous])
    Z = np.column_stack([exogenous, table[["second size", "second lev"]]])
    projected = Z @ np.linalg.lstsq(Z, R, rcond=None)[0]
    params = np.linalg.solve(projected.T @ R, projected.T @ y)
    scores = projected * (y.to_numpy() - R @ params)[:, None]
    n, k = R.shape
    if cluster is not None:
        group = X.index.get_level_values(cluster)
        scores = pd.DataFrame(scores).groupby(group).sum().to_numpy()
    count = len(scores)
    nested = outside.shape[1] if effects == (cluster,) else 0  # they take no degrees of freedom
    factor = n / (n - k) if cluster is None else count / (count - 1) * (n - 1) / (n - k + nested)
    if cluster == "period":  # four clusters: the jackknife, dummies estimated anew
        kept = X.index.get_level_values("period")

        def estimate(rows):
            projected = Z[rows] @ np.linalg.lstsq(Z[rows], R[rows], rcond=None)[0]
            return np.linalg.lstsq(projected, y.to_numpy()[rows], rcond=None)[0][:5]

        shifts = [estimate(kept != label) - params[:5] for label in kept.unique()]
        order = ["peers' outcome", "size", "lev", "peers' size", "peers' lev"]
        return pd.Series(params[:5], order), pd.Series(np.sqrt(0.75 * np.sum(np.square(shifts), axis=0)), order)
    bread = np.linalg.inv(projected.T @ projected)
    errors = np.sqrt(np.diag(bread @ scores.T @ scores @ bread) * factor)
    order = ["peers' outcome", "size", "lev", "peers' size", "peers' lev"]
    return pd.Series(params[:5], order), pd.Series(errors[:5], order)


@pytest.mark.parametrize("cluster", ["firm", "period", None])
@pytest.mark.parametrize("effects", [(), ("period",), ("firm", "period")])
def test_equals_plain_two_stage_least_squares_with_dummies(cluster, effects):
    X, y, networks = simulated()
    keep = y.index.get_level_values("firm").to_numpy() != "F007"
    y = y.where(keep | (y.index.get_level_values("period") < 2003))  # unbalanced
    model = LinearInMeansRegressor(network=networks, cluster=cluster, effects=effects)
    found = model.fit(X[keep], y[keep])
    networks = {t: W.drop(index="F007", columns="F007") for t, W in networks.items()}
    networks = {t: W.div(W.sum(axis=1).where(lambda s: s > 0, 1.0), axis=0) for t, W in networks.items()}
    coefs, errors = literal(X[keep], y[keep], networks, effects, cluster)
    np.testing.assert_allclose(found.coef_[coefs.index], coefs, atol=1e-7)
    if effects != ("firm", "period") or cluster != "firm":
        np.testing.assert_allclose(found.results_.std_errors[coefs.index], errors, rtol=1e-5)
    assert found.results_.effects == effects and ("intercept" in found.coef_) == (not effects)


def test_a_common_shock_is_no_effect_of_peers():
    """A shock of each period that moves characteristics and outcomes: without period effects β is far off."""
    X, y, networks = simulated(60, 12, seed=1)
    period = X.index.get_level_values("period")
    shock = pd.Series(np.random.default_rng(0).normal(size=12) * 2, index=range(2001, 2013))
    X = X.assign(size=X["size"] + shock.reindex(period).to_numpy())
    blocks = []
    for t, W in networks.items():
        x = X.xs(t, level="period").loc[W.index]
        mean = 0.5 + x @ [1.0, -0.5] + W @ x @ [0.3, 0.2] + shock[t]
        values = np.linalg.solve(np.eye(60) - 0.4 * W, mean + 0.3 * np.random.default_rng(t).normal(size=60))
        blocks.append(pd.Series(values, pd.MultiIndex.from_product([W.index, [t]])))
    y = pd.concat(blocks).reindex(X.index)
    without = LinearInMeansRegressor(network=networks, effects=()).fit(X, y)
    found = LinearInMeansRegressor(network=networks).fit(X, y)
    assert without.coef_["peers' outcome"] > 0.6
    error = found.results_.std_errors["peers' outcome"]
    assert abs(found.coef_["peers' outcome"] - 0.4) < 3 * error < 0.3


def test_effects_reach_predictions_and_are_the_mean_where_unknown():
    X, y, networks = simulated()
    model = LinearInMeansRegressor(network=networks, effects=("firm", "period")).fit(X, y)
    table = regressors(X, y, networks)
    rest = y - table[model.coef_.index] @ model.coef_
    dummies = np.hstack([pd.get_dummies(X.index.get_level_values(n)).to_numpy(float) for n in ("firm", "period")])
    fitted = dummies @ np.linalg.lstsq(dummies, rest, rcond=None)[0]
    np.testing.assert_allclose(model.predict(X, outcomes=y), y - rest + fitted, atol=1e-8)
    for name, effect in model.effects_.items():
        assert effect.reindex(X.index.get_level_values(name)).mean() == pytest.approx(0.0, abs=1e-10)
    later = X.xs(2004, level="period", drop_level=False).rename(index={2004: 2005}, level="period")
    networks[2005] = networks[2004]
    again = LinearInMeansRegressor(network=networks, effects=("firm", "period")).fit(X, y)
    shown = y.xs(2004, level="period", drop_level=False).rename(index={2004: 2005}, level="period")
    last = X.index.get_level_values("period") == 2004
    now = again.predict(X, outcomes=y)[last] - again.effects_["period"][2004]
    np.testing.assert_allclose(again.predict(later, outcomes=shown), now, atol=1e-10)


def test_few_clusters_keep_their_size(monkeypatch):
    """Ten clusters of dependent errors: t with nine degrees of freedom, and the small-sample factor."""
    monkeypatch.setattr("peerattn.models.two_stage.identification", lambda *_: None)  # is not asked here
    rng, rejected, cluster = np.random.default_rng(0), 0, np.repeat(np.arange(10), 12)
    for _ in range(200):
        x, z = rng.normal(size=10)[cluster] + rng.normal(size=(2, 120))
        e = rng.normal(size=10)[cluster] + rng.normal(size=120)
        w = z + 0.5 * e + rng.normal(size=120)
        one = pd.DataFrame({"one": 1.0, "x": x})
        found = two_stage(e, one, w, pd.DataFrame({"z": z}), clusters=pd.DataFrame({"firm": cluster}))
        rejected += found.pvalues["peers' outcome"] < 0.05
    assert rejected / 200 <= 0.10


def test_standard_errors_are_in_the_units_of_the_columns():
    X, y, networks = simulated()
    small = LinearInMeansRegressor(network=networks, cluster="firm").fit(X, y).results_.std_errors
    large = LinearInMeansRegressor(network=networks, cluster="firm").fit(X.assign(size=X["size"] * 1e9), y)
    units = np.array([1e9 if "size" in name else 1.0 for name in small.index])
    np.testing.assert_allclose(large.results_.std_errors * units, small, rtol=1e-4)


@pytest.mark.parametrize("cluster", ["firm", "period", None])
def test_levels_far_above_the_spread_lose_no_digits(cluster):
    X, y, networks = simulated()
    near, far = (
        LinearInMeansRegressor(network=networks, effects=(), cluster=cluster).fit(X.assign(lev=X["lev"] + level), y).results_
        for level in (0.0, 2.0**23)
    )
    slopes = near.params.index.drop("intercept")
    np.testing.assert_allclose(far.params[slopes], near.params[slopes], rtol=1e-7)
    np.testing.assert_allclose(far.std_errors[slopes], near.std_errors[slopes], rtol=1e-7)
    moved = near.params["intercept"] - 2.0**23 * near.params[["lev", "peers' lev"]].sum()
    assert far.params["intercept"] == pytest.approx(moved, rel=1e-7)
    assert far.identification.ar_p == pytest.approx(near.identification.ar_p, rel=1e-6)


def test_absorbed_effects_and_their_dummies_identify_alike():
    rng = np.random.default_rng(0)
    X, z = pd.DataFrame({"x": rng.normal(size=60)}), pd.DataFrame(rng.normal(size=(60, 2)), columns=["z", "v"])
    w = z.to_numpy() @ [1.0, 0.5] + rng.normal(size=60)
    y = 0.2 * w + X["x"].to_numpy() + rng.normal(size=60)
    firm = pd.DataFrame({"firm": np.arange(60) // 3})
    absorbed = two_stage(y, X, w, z, effects=firm).identification
    dummies = two_stage(y, X.join(pd.get_dummies(firm["firm"].astype(str), dtype=float)), w, z).identification
    assert absorbed.ar_p == pytest.approx(dummies.ar_p, rel=1e-8)
    assert absorbed.effective_f == pytest.approx(dummies.effective_f, rel=1e-8)


def test_bootstrapped_p_values_are_of_the_columns_as_they_came():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"intercept": 1.0, "x": 1e3 + rng.normal(size=60), "z": 1e-8 * rng.normal(size=60)})
    y, firm = 5.0 + rng.normal(size=60) + 2e7 * X["z"].to_numpy(), np.arange(60) // 5
    found = two_stage(y, X, clusters=pd.DataFrame({"firm": firm}), n_bootstrap=49).pvalues
    for name in X:
        p = wild_cluster_p(y, X.drop(columns=name).to_numpy(), X[[name]].to_numpy(), firm, n_draws=49)
        assert found[name] == pytest.approx(p)


def test_recovers_the_truth():
    X, y, networks = simulated(200, 6)
    model = LinearInMeansRegressor(network=networks).fit(X, y)
    z = (model.coef_ - pd.Series(TRUE)[model.coef_.index]) / model.results_.std_errors
    assert (z.abs() < 3).all() and model.results_.std_errors["peers' outcome"] < 0.15


@pytest.mark.parametrize("cluster", ["firm", None])
def test_effective_f_by_its_formula(cluster):
    """Montiel Olea and Pflueger: ``x'P x / tr(V)``, the instruments net of the rest and orthonormal."""
    X, y, networks = simulated()
    table = regressors(X, y, networks)
    exogenous = table[["intercept", "size", "lev", "peers' size", "peers' lev"]].to_numpy()
    Z, W = table[["second size", "second lev"]].to_numpy(), table["peers' outcome"].to_numpy()
    net = lambda values: values - exogenous @ np.linalg.lstsq(exogenous, values, rcond=None)[0]  # noqa: E731
    Q, w = np.linalg.qr(net(Z))[0], net(W)
    slopes = Q.T @ w
    scores = pd.DataFrame(Q * (w - Q @ slopes)[:, None])
    n, k, factor = len(w), 7, len(w) / (len(w) - 7)
    if cluster:
        scores = scores.groupby(X.index.get_level_values("firm")).sum()
        factor = 80 / 79 * (n - 1) / (n - k)
    expected = slopes @ slopes / (factor * (scores.to_numpy() ** 2).sum())
    found = LinearInMeansRegressor(network=networks, cluster=cluster, effects=()).fit(X, y)
    assert found.results_.identification.effective_f == pytest.approx(expected, rel=1e-8)


def test_without_peer_outcome_it_is_least_squares():
    X, y, networks = simulated()
    model = LinearInMeansRegressor(network=networks, peer_outcome=False, cluster=None, effects=()).fit(X, y)
    table = regressors(X, y, networks)[["intercept", "size", "lev", "peers' size", "peers' lev"]]
    theirs = sm.OLS(y, table).fit(cov_type="HC1")
    np.testing.assert_allclose(model.coef_, theirs.params[list(model.coef_.index)], atol=1e-10)
    np.testing.assert_allclose(model.results_.std_errors, theirs.bse[list(model.coef_.index)], rtol=1e-8)
    np.testing.assert_allclose(model.predict(X), theirs.fittedvalues, atol=1e-10)


def test_without_network_it_is_least_squares_on_own_characteristics():
    X, y, _ = simulated()
    np.testing.assert_allclose(
        LinearInMeansRegressor(effects=()).fit(X, y).predict(X),
        LinearRegression().fit(X, y).predict(X),
        atol=1e-10,
    )


def test_predictions():
    X, y, networks = simulated()
    model = LinearInMeansRegressor(network=networks, effects=()).fit(X, y)
    told, alone = (pd.Series(model.predict(X, **call), X.index) for call in ({"outcomes": y}, {}))
    table = regressors(X, y, networks)
    np.testing.assert_allclose(told, table[list(model.coef_.index)] @ model.coef_, atol=1e-10)
    beta = model.coef_["peers' outcome"]
    for period, W in networks.items():
        mean = (table[list(model.coef_.index)[:-1]] @ model.coef_.iloc[:-1]).xs(period, level="period")[W.index]
        solved = np.linalg.solve(np.eye(len(W)) - beta * W.to_numpy(), mean)
        np.testing.assert_allclose(alone.xs(period, level="period")[W.index], solved, atol=1e-10)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")  # some firm's peers are all unknown
def test_unknown_outcomes_are_left_out_of_the_peers_mean():
    X, y, networks = simulated()
    model, outcomes = LinearInMeansRegressor(network=networks, effects=()).fit(X, y), y.copy()
    outcomes.iloc[::5] = np.nan
    predicted = model.predict(X, outcomes=outcomes)
    firm, period = X.index[1]
    w = networks[period].loc[firm]
    known = outcomes.xs(period, level="period")[w.index]
    mean = (w * known).sum() / w[known.notna()].sum()
    table = regressors(X, y, networks).loc[(firm, period)].copy()
    table["peers' outcome"] = mean
    assert predicted[1] == pytest.approx(float(table[list(model.coef_.index)] @ model.coef_))


def test_a_period_without_any_known_outcome_is_predicted_as_without_outcomes():
    X, y, networks = simulated(40)
    unknown = y.index.get_level_values("period") == 2003
    fitted = LinearInMeansRegressor(network=networks).fit(X, y.mask(unknown))
    without = LinearInMeansRegressor(network=networks).fit(X[~unknown], y[~unknown])
    pd.testing.assert_series_equal(fitted.coef_, without.coef_)
    with pytest.warns(IsolateWarning, match="40 of 160 rows.*peer term is solved for"):
        predicted = fitted.predict(X, outcomes=y.mask(unknown))
    np.testing.assert_array_equal(predicted[unknown], fitted.predict(X)[unknown])


# ---------------------------------------------------------------- rows without a peer of known outcome


def incomplete(kind, seed=0):
    """A panel whose outcomes are unknown in part, in which firms are isolated, or whose network is signed."""
    X, y, networks = simulated(seed=seed)
    rng = np.random.default_rng(seed + 1)
    if kind == "unknown":
        y = y.where(rng.random(len(y)) < 0.4)
    for period in networks if kind != "unknown" else ():
        W = networks[period].copy()
        if kind == "isolates":
            W.iloc[rng.random(len(W)) < 0.3] = 0.0
        else:
            W *= rng.choice([1.0, 1.0, -1.0], size=W.shape)
        networks[period] = W
        here = X.xs(period, level="period").loc[W.index]
        mean = here @ [1.0, -0.5] + W @ here @ [0.3, 0.2] + 0.3 * rng.normal(size=len(W))
        values = pd.Series(np.linalg.solve(np.eye(len(W)) - 0.4 * W, mean), W.index)
        where = y.index.get_level_values("period") == period
        y[where] = values[y.index.get_level_values("firm")[where]].to_numpy()
    return X, y, networks


def known_peers(X, y, networks):
    """Mean outcome of the peers of known outcome and whether there is any, in plain code."""
    mean, some = pd.Series(np.nan, X.index), pd.Series(False, X.index)
    for firm, period in X.index:
        w = networks[period].loc[firm]
        outcomes = y.xs(period, level="period")[w.index]
        w = w.where(outcomes.notna(), 0.0)
        if w.abs().sum() > 0:
            mean[firm, period] = (w * outcomes.fillna(0.0)).sum() / w.abs().sum()
            some[firm, period] = True
    return mean, some.to_numpy()


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
@pytest.mark.parametrize("effects", [(), ("period",), ("firm", "period")])
@pytest.mark.parametrize("kind", ["unknown", "isolates", "signed"])
def test_the_level_of_the_outcome_changes_neither_slopes_nor_what_is_predicted_beyond_it(kind, effects):
    X, y, networks = incomplete(kind)
    some, rest = y.where(np.arange(len(y)) % 3 > 0), X.rename(index={"F005": "NEW"}, level="firm")
    near, far = (LinearInMeansRegressor(network=networks, effects=effects).fit(X, y + level) for level in (0.0, 100.0))
    slopes = [name for name in near.coef_.index if name not in ("intercept", "sum of peers' weights")]
    np.testing.assert_allclose(far.coef_[slopes], near.coef_[slopes], rtol=1e-6)
    np.testing.assert_allclose(far.results_.std_errors[slopes], near.results_.std_errors[slopes], rtol=1e-6)
    for rows, observed in ((X, {}), (rest, {}), (X, {"outcomes": some})):
        moved = {name: outcomes + 100.0 for name, outcomes in observed.items()}
        np.testing.assert_allclose(far.predict(rows, **moved), near.predict(rows, **observed) + 100.0, atol=1e-6)


@pytest.mark.parametrize("cluster", ["firm", None])
@pytest.mark.parametrize("kind", ["unknown", "isolates"])
def test_rows_without_a_peer_of_known_outcome_leave_the_estimates(kind, cluster):
    """IV2SLS of linearmodels on the other rows, picked by hand; the outcome has a level."""
    X, y, networks = incomplete(kind)
    y += 5.0
    table = regressors(X, y.fillna(0.0), networks)
    table["peers' outcome"], some = known_peers(X, y, networks)
    sample = some & y.notna().to_numpy()
    dropped = int((y.notna().to_numpy() & ~some).sum())
    assert dropped > 15
    own = ["intercept", "size", "lev", "peers' size", "peers' lev"]
    parts = (table[names][sample] for names in (own, ["peers' outcome"], ["second size", "second lev"]))
    config = {"cov_type": "robust"}
    if cluster:
        config = {"cov_type": "clustered", "clusters": pd.factorize(X.index.get_level_values("firm")[sample])[0]}
    theirs = IV2SLS(y[sample], *parts).fit(debiased=True, **config)
    with pytest.warns(IsolateWarning, match=f"Not in the estimates: {dropped} rows of known outcome that have no peer of known"):
        found = LinearInMeansRegressor(network=networks, effects=(), cluster=cluster).fit(X, y)
    np.testing.assert_allclose(found.coef_[theirs.params.index], theirs.params, atol=1e-8)
    np.testing.assert_allclose(found.results_.std_errors[theirs.params.index], theirs.std_errors, rtol=1e-6)
    assert found.results_.nobs == sample.sum() and found.n_without_peers_ == dropped
    assert f"{dropped} rows of known outcome" in found.summary().text()
    assert abs(found.coef_["peers' outcome"] - 0.4) < 3 * found.results_.std_errors["peers' outcome"]


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
def test_effects_and_the_bootstrap_are_of_the_rows_of_the_estimates():
    X, y, networks = incomplete("unknown")
    sample = known_peers(X, y, networks)[1] & y.notna().to_numpy()
    model = LinearInMeansRegressor(network=networks, n_bootstrap=99).fit(X, y)
    left = (y - model.predict(X, outcomes=y))[sample]
    np.testing.assert_allclose(left.groupby(level="period").mean(), 0.0, atol=1e-10)
    assert model.effects_["period"].reindex(X.index.get_level_values("period")[sample]).mean() == pytest.approx(0.0, abs=1e-10)
    table = regressors(X, y.fillna(0.0), networks).assign(**{"peers' outcome": known_peers(X, y, networks)[0]})[sample]
    table = table.sort_index(level=["period", "firm"])  # draws of the bootstrap go by the order of clusters
    labels = table.index.to_frame(index=False)
    by_hand = two_stage(
        y[table.index].to_numpy(),
        table[["size", "lev", "peers' size", "peers' lev"]].reset_index(drop=True),
        table["peers' outcome"].to_numpy(),
        table[["second size", "second lev"]].reset_index(drop=True),
        effects=labels[["period"]],
        clusters=labels[["firm"]],
        n_bootstrap=99,
    )
    np.testing.assert_allclose(model.results_.pvalues, by_hand.pvalues, rtol=1e-8)
    np.testing.assert_allclose(model.coef_, by_hand.params, rtol=1e-8)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
def test_rows_without_a_known_peer_are_predicted_as_without_outcomes_and_own_outcomes_play_no_part():
    X, y, networks = incomplete("isolates")
    model = LinearInMeansRegressor(network=networks).fit(X, y + 5.0)
    outcomes = (y + 5.0).where(np.random.default_rng(3).random(len(y)) < 0.3)
    some = known_peers(X, outcomes, networks)[1]
    predicted, solved = model.predict(X, outcomes=outcomes), model.predict(X)
    assert 20 < some.sum() < 0.9 * len(y)
    np.testing.assert_array_equal(predicted[~some], solved[~some])
    isolated = ~known_peers(X, y, networks)[1]
    period = model.effects_["period"].reindex(X.index.get_level_values("period")[isolated]).to_numpy()
    own = model.intercept_ + period + X[isolated].to_numpy() @ model.coef_[["size", "lev"]]
    np.testing.assert_allclose(solved[isolated], own + model.mean_peer_term_, atol=1e-10)
    for at in np.flatnonzero(outcomes.notna())[:5]:
        moved = outcomes.copy()
        moved.iloc[at] += 5.0
        assert model.predict(X, outcomes=moved)[at] == predicted[at]


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
def test_without_peers_outcome_the_level_of_characteristics_does_not_matter():
    X, y, networks = incomplete("isolates")
    near, far = (LinearInMeansRegressor(network=networks, peer_outcome=False).fit(X + level, y) for level in (0.0, 100.0))
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-6)
    np.testing.assert_allclose(far.predict(X + 100.0), near.predict(X), atol=1e-6)
    assert near.n_without_peers_ == (~known_peers(X, y, networks)[1]).sum()


def test_an_empty_network_gives_own_characteristics_alone_or_an_error():
    X, y, networks = simulated(20)
    nobody = 0.0 * networks[2001]
    with pytest.warns(IsolateWarning, match="80 of 80 rows"):
        predicted = LinearInMeansRegressor(network=nobody, peer_outcome=False).fit(X, y).predict(X)
    np.testing.assert_allclose(predicted, LinearInMeansRegressor().fit(X, y).predict(X), atol=1e-10)
    with pytest.raises(InputError, match="no row of known outcome has a peer of known outcome"):
        LinearInMeansRegressor(network=nobody).fit(X, y)


def test_own_outcome_and_later_values_have_no_influence():
    X, y, networks = simulated()
    model = LinearInMeansRegressor(network=networks).fit(X, y)
    before, shocked = model.predict(X, outcomes=y), y.copy()
    shocked.iloc[4] += 5.0
    period = X.index.get_level_values("period")
    after = model.predict(X, outcomes=shocked)
    assert after[4] == before[4]
    assert (after[period != period[4]] == before[period != period[4]]).all()
    changed = X.copy()
    changed.loc[period == 2004, "size"] = 9.0
    assert (model.predict(changed)[period < 2004] == model.predict(X)[period < 2004]).all()


def test_network_rows_sum_to_one():
    X, y, networks = simulated()
    network = LinearInMeansRegressor(network=networks).fit(X, y).peer_network(X, outcomes=y)
    for period, W in networks.items():
        np.testing.assert_allclose(network.matrix(period).loc[W.index, W.columns], W, atol=1e-12)


def test_newcomers_without_peers_get_the_mean_of_what_peers_add():
    X, y, networks = simulated()
    model = LinearInMeansRegressor(network=networks, effects=()).fit(X, y)
    newcomer = X.rename(index={"F005": "NEW"}, level="firm")
    with pytest.warns(IsolateWarning, match="or the training mean where the network has no peer of theirs"):
        predicted = model.predict(newcomer)
    row = newcomer.loc[("NEW", 2002)]
    added = regressors(X, y, networks)[["peers' size", "peers' lev", "peers' outcome"]]
    assert predicted[newcomer.index.get_loc(("NEW", 2002))] == pytest.approx(
        model.coef_["intercept"] + row @ model.coef_[["size", "lev"]] + (added @ model.coef_[added.columns]).mean()
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
    learned = PeerNetwork.from_matrices(networks).replaced(learned_until=2002)
    with pytest.raises(InputError, match="chosen to fit them"):
        LinearInMeansRegressor(network=learned).fit(X, y)
    with pytest.raises(InputError, match="chosen to fit them"):
        LinearInMeansRegressor(network=learned, learned_until=2001).fit(X, y)
    later = X.index.get_level_values("period") > 2002
    with pytest.warns(GeneratedRegressorWarning, match="a generated regressor"):
        LinearInMeansRegressor(network=learned, learned_until=2002).fit(X[later], y[later])


@pytest.mark.parametrize(
    ("periods", "until", "explained", "refused"),
    [
        (pd.date_range("2000-01-31", periods=12, freq="ME"), "2000-06", 6, True),  # the whole of June
        (pd.date_range("2000-01-31", periods=12, freq="ME"), "2000-06", 7, False),
        (pd.date_range("2000-01-31", periods=12, freq="ME"), 200006, 6, True),
        (pd.Index(range(200001, 200013)), 2000, 12, True),  # a year among months ends in December
        (pd.Index(range(200001, 200013)), pd.Timestamp("2000-06-30"), 6, True),
        (pd.Index(range(200001, 200013)), pd.Timestamp("2000-06-30"), 7, False),
        (pd.period_range("2000-01", periods=12, freq="M"), "2000-06", 6, True),
        (pd.Index(range(1, 13)), 6, 6, True),
        (pd.Index(range(1, 13)), 6, 7, False),
    ],
)
def test_learned_until_means_the_end_of_what_it_names(periods, until, explained, refused):
    rng = np.random.default_rng(0)
    firms = list("ABCDEFGH")
    W = pd.DataFrame(rng.random((8, 8)) * (1 - np.eye(8)), firms, firms)
    learned = PeerNetwork.from_matrices({None: (firms, firms, W / W.sum(axis=1).to_numpy()[:, None])}, name="PeerAttention")
    index = pd.MultiIndex.from_product([firms, periods[explained - 1 :]], names=["firm", "period"])
    X, y = pd.DataFrame({"size": rng.normal(size=len(index))}, index=index), rng.normal(size=len(index))
    model = LinearInMeansRegressor(network=learned, learned_until=until, peer_outcome=False)
    with pytest.raises(InputError, match="chosen to fit them") if refused else pytest.warns(GeneratedRegressorWarning):
        model.fit(X, y)


def test_learned_until_of_another_kind_is_refused():
    X, y, networks = simulated()
    learned = PeerNetwork.from_matrices(networks, name="PeerAttentionRegressor")
    for until in (2001.5, "the first year"):
        with pytest.raises(InputError, match="cannot be compared with the periods"):
            LinearInMeansRegressor(network=learned, learned_until=until).fit(X, y)


def test_summary_says_what_was_done():
    X, y, networks = simulated()
    text = LinearInMeansRegressor(network=networks).fit(X, y).summary().text()
    assert (
        "effective first-stage F" in text
        and "clustered by firm (80 clusters)" in text
        and "Anderson–Rubin p" in text
        and "Hansen J" in text
        and "Absorbed: period effects" in text
        and "peers' outcome" in text
    )


def test_dependent_columns_are_dropped_and_named():
    X, y, networks = simulated()
    X["sector"] = np.where(X["size"] > 0, "A", "B")
    model = LinearInMeansRegressor(network=networks).fit(X, y)
    assert "sector=B" in model.results_.dropped and np.isfinite(model.predict(X)).all()


def test_frequency_weights_are_copies_and_a_cluster_holds_them():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"one": 1.0, "x": rng.normal(size=50)})
    z, w = pd.DataFrame({"z": rng.normal(size=50)}), rng.integers(1, 4, 50)
    endogenous, firm = z["z"].to_numpy() + rng.normal(size=50), pd.DataFrame({"firm": np.arange(50) // 2})
    y, at = X["x"].to_numpy() + endogenous + rng.normal(size=50), np.repeat(np.arange(50), w)
    one = two_stage(y, X, endogenous, z, weight=w.astype(float), clusters=firm)
    other = two_stage(y[at], X.iloc[at], endogenous[at], z.iloc[at], clusters=firm.iloc[at])
    np.testing.assert_allclose(one.params, other.params, atol=1e-10)
    np.testing.assert_allclose(one.std_errors, other.std_errors, rtol=1e-8)
    assert one.nobs == other.nobs == w.sum()


def test_errors():
    X, y, networks = simulated()
    with pytest.raises(InputError, match="cluster must be"):
        LinearInMeansRegressor(cluster="industry").fit(X, y)
    with pytest.raises(InputError, match="no column is named 'industry'"):
        LinearInMeansRegressor(effects=("industry",)).fit(X, y)
    with pytest.raises(InputError, match="X carries no 'firm'"):
        LinearInMeansRegressor(network=networks[2001]).fit(X.to_numpy(), y.to_numpy())
    with pytest.raises(InputError, match="the model uses none"):
        LinearInMeansRegressor().fit(X, y).predict(X, outcomes=y)
    with pytest.raises(InputError, match="y: the mean outcome of peers does not vary beyond"):
        LinearInMeansRegressor(network=networks[2001]).fit(X, 0 * y)


def test_a_network_of_text_is_named():
    text = pd.DataFrame([["a", "b"], ["c", "d"]], list("AB"), list("AB"))
    with pytest.raises(InputError, match="network: expected weights as numbers"):
        X = pd.DataFrame({"firm": list("ABAB"), "period": [1, 1, 2, 2], "x": [1.0, 2.0, 4.0, 3.0]})
        LinearInMeansRegressor(network=text).fit(X, np.arange(4.0))
