"""Cross-sectional ridge against brute force: every firm predicted by a ridge fitted without it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import check_estimator

from peerattn.exceptions import CodeWarning, InputError, IsolateWarning
from peerattn.models import CrossSectionalRidge
from peerattn.models.ridge import ALPHAS
from peerattn.panel import Design


def simulated_panel(n_firms=12, n_periods=5, seed=0):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([[f"F{i:02d}" for i in range(n_firms)], range(2001, 2001 + n_periods)])
    index = index.set_names(["firm", "period"])[rng.permutation(n_firms * n_periods)]
    X = pd.DataFrame(rng.normal(size=(len(index), 3)), index=index, columns=["size", "lev", "roa"])
    X["sector"] = rng.choice(["A", "B", "C"], size=len(index))
    y = X["size"] - X["lev"] + (X["sector"] == "A") + rng.normal(size=len(index))
    X.iloc[3, 1] = np.nan
    return X, y.rename("ret")


def design(model, X):
    """One-hot codes and scaled characteristics in plain code."""
    x = X[["size", "lev", "roa"]].copy()
    missing = x["lev"].isna().astype(float)
    x = x.fillna(x.groupby(level="period").transform("median"))
    x = (x - model.design_.center) / model.design_.spread
    x["lev_missing"] = missing
    return np.column_stack([x, *[(X["sector"] == s) for s in "ABC"]]).astype(float)


@pytest.mark.filterwarnings("ignore:X carries neither")  # its frames have no labels
@pytest.mark.parametrize("estimator", [CrossSectionalRidge(alpha=2.0, scale="rank")], ids=str)
def test_check_estimator(estimator):
    check_estimator(estimator)


def test_leave_one_out_equals_brute_force():
    X, y = simulated_panel()
    y.iloc[7] = np.nan
    model = CrossSectionalRidge(alpha=2.0).fit(X, y)
    Z, predicted = design(model, X), model.predict(X, outcomes=y)
    period = X.index.get_level_values("period")
    for i in range(len(X)):
        others = (period == period[i]) & y.notna().to_numpy() & (np.arange(len(X)) != i)
        brute = Ridge(alpha=2.0).fit(Z[others], y[others]).predict(Z[[i]])[0]
        assert predicted[i] == pytest.approx(brute, abs=1e-10)


def test_forecast_equals_pooled_ridge_with_the_own_past():
    X, y = simulated_panel()
    train = X.index.get_level_values("period") < 2005
    model = CrossSectionalRidge(alpha=3.0).fit(X[train], y[train])
    Z, predicted = design(model, X), model.predict(X)
    np.testing.assert_allclose(predicted, Ridge(alpha=3.0).fit(Z[train], y[train]).predict(Z), atol=1e-10)


def test_arrays_are_a_plain_ridge_on_the_training_rows():
    X, y = simulated_panel()
    x = X[["size", "roa"]].to_numpy()
    model = CrossSectionalRidge(alpha=1.5, scale=None).fit(x[:40], y[:40].to_numpy())
    np.testing.assert_allclose(model.predict(x[40:]), Ridge(alpha=1.5).fit(x[:40], y[:40]).predict(x[40:]), atol=1e-10)


def test_a_large_penalty_leaves_inner_products_as_weights():
    """Weights without exponential, of either sign: the product of characteristics is the score."""
    rng, penalty = np.random.default_rng(0), 1e9
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    z = (X - X.mean(0)) / X.std(0)
    predicted = CrossSectionalRidge(alpha=penalty).fit(X, y).predict(X)
    assert (z @ z.T < 0).any()
    np.testing.assert_allclose(penalty * (predicted - y.mean()), z @ z.T @ (y - y.mean()), atol=1e-4)


def test_chosen_penalty_has_least_leave_one_out_error():
    X, y = simulated_panel(12, 5)
    model = CrossSectionalRidge().fit(X, y)
    within, pooled = [], []
    for alpha in ALPHAS:
        at = CrossSectionalRidge(alpha=float(alpha)).fit(X, y)
        within.append(((at.predict(X, outcomes=y) - y) ** 2).mean())
        firm, errors = X.index.get_level_values("firm"), []
        for left in firm.unique():  # a firm is left out of all periods
            Z = design(at, X)
            rest = Ridge(alpha=float(alpha)).fit(Z[firm != left], y[firm != left])
            errors.append(y[firm == left] - rest.predict(Z[firm == left]))
        pooled.append((np.concatenate(errors) ** 2).mean())
    np.testing.assert_allclose(model.alpha_path_["within"], within, rtol=1e-10)
    np.testing.assert_allclose(model.alpha_path_["pooled"], pooled, rtol=1e-10)
    assert (model.within_alpha_, model.alpha_) == (ALPHAS[np.argmin(within)], ALPHAS[np.argmin(pooled)])


def test_choice_counts_a_weight_of_two_as_two_rows():
    X, y = simulated_panel()
    x, w = X[["size", "roa"]].to_numpy(), np.random.default_rng(1).integers(0, 3, len(X))
    weighted = CrossSectionalRidge().fit(x, y.to_numpy(), sample_weight=w)
    repeated = CrossSectionalRidge().fit(np.repeat(x, w, axis=0), np.repeat(y.to_numpy(), w))
    np.testing.assert_allclose(weighted.alpha_path_, repeated.alpha_path_, rtol=1e-10)


@pytest.mark.parametrize("told", [True, False], ids=["within", "forecast"])
def test_network_rebuilds_the_prediction(told):
    X, y = simulated_panel()
    model = CrossSectionalRidge(alpha=2.0).fit(X, y)
    known = {"outcomes": y} if told else {}
    network = model.peer_network(X, **known)
    assert network.signed
    period = X.index.get_level_values("period")
    for p in network.periods:
        W = network.matrix(p)
        np.testing.assert_allclose(W.sum(axis=1), 1.0, atol=1e-12)
        if told:
            np.testing.assert_array_equal(np.diag(W.loc[W.index, W.index]), 0.0)
            here = y[period == p].droplevel("period")
            expected = pd.Series(model.predict(X, outcomes=y)[period == p], here.index)
            np.testing.assert_allclose(W @ here[W.columns], expected[W.index], atol=1e-12)


def test_forecast_weights_rebuild_the_forecast():
    X, y = simulated_panel()
    model = CrossSectionalRidge(alpha=2.0).fit(X, y)
    panel, sections = model._gate_call(X, None)
    out = np.empty(len(X))
    for section in sections:
        out[section.at] = model._weights(section, slice(0, len(section.focal))) @ section.peers.y
    np.testing.assert_allclose(panel.restore(out), model.predict(X), atol=1e-10)


def test_own_outcome_has_no_influence():
    X, y = simulated_panel()
    model = CrossSectionalRidge(alpha=2.0).fit(X, y)
    before, shocked = model.predict(X, outcomes=y), y.copy()
    shocked.iloc[5] += 5.0
    after = model.predict(X, outcomes=shocked)
    assert after[5] == before[5]
    period = X.index.get_level_values("period")
    others = (period == period[5]) & (np.arange(len(X)) != 5)
    assert (after[others] != before[others]).all()
    assert (after[period != period[5]] == before[period != period[5]]).all()


def test_later_values_change_nothing():
    X, y = simulated_panel()
    late = X.index.get_level_values("period") == 2005
    model = CrossSectionalRidge(scale="rank").fit(X[~late], y[~late])
    changed, outcomes = X.copy(), y.copy()
    changed.loc[late, "size"], outcomes[late] = 9.0, -7.0
    assert (model.predict(X, outcomes=y)[~late] == model.predict(changed, outcomes=outcomes)[~late]).all()
    assert (model.predict(X)[~late] == model.predict(changed)[~late]).all()


def test_a_lonely_firm_gets_the_training_mean():
    X, y = simulated_panel()
    model = CrossSectionalRidge(alpha=1.0).fit(X, y)
    one = y.where(y.index.get_level_values("period") != 2003)
    one.loc[("F00", 2003)] = 4.0  # the only outcome known in 2003: a peer for all but itself
    with pytest.warns(IsolateWarning, match="the training mean"):
        predicted = model.predict(X, outcomes=one)
    assert predicted[X.index.get_loc(("F00", 2003))] == pytest.approx(y.mean())
    assert predicted[X.index.get_loc(("F01", 2003))] == pytest.approx(4.0)
    assert np.isfinite(predicted).all()


def test_unknown_codes_have_no_column():
    X, y = simulated_panel()
    model = CrossSectionalRidge(alpha=1.0).fit(X, y)
    new = X.assign(sector="never seen")
    with pytest.warns(CodeWarning, match="all count as unknown"):
        predicted = model.predict(new, outcomes=y)
        Z = design(model, new)
    assert (Z[:, -3:] == 0).all() and np.isfinite(predicted).all()


@pytest.mark.parametrize("alpha", [0, -1.0, "loo"])
def test_bad_alpha(alpha):
    X, y = simulated_panel()
    with pytest.raises(InputError, match="'alpha' parameter .*'leave_one_out'. or a float in the range .0.0, inf"):
        CrossSectionalRidge(alpha=alpha).fit(X, y)


def test_bad_scale():
    X, y = simulated_panel()
    with pytest.raises(InputError, match="'scale' parameter .*Near matches: 'rank'"):
        CrossSectionalRidge(scale="ranks").fit(X, y)


def test_weights_that_are_shares_are_refused():
    X, y = simulated_panel()
    with pytest.raises(InputError, match="frequency weights count rows"):
        CrossSectionalRidge().fit(X, y, sample_weight=np.full(len(X), 1 / len(X)))


def test_rank_scale_is_the_middle_of_ties_and_missing():
    X, y = simulated_panel()
    model = CrossSectionalRidge(alpha=1.0, scale="rank").fit(X, y)
    assert isinstance(model.design_, Design)
    stretched = X.assign(size=np.exp(X["size"]))  # ranks do not see a monotone change
    np.testing.assert_array_equal(model.predict(X, outcomes=y), model.predict(stretched, outcomes=y))
