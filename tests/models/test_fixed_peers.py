"""Fixed peers against plain code: industry means, and statsmodels' kernel regression."""

import numpy as np
import pandas as pd
import pytest
import torch
from statsmodels.nonparametric.kernel_regression import KernelReg

from peerattn import IndustryPeerRegressor, NadarayaWatsonRegressor
from peerattn.exceptions import InputError, IsolateWarning
from peerattn.nn import attention_weights

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point

INDEX = pd.MultiIndex.from_product([[f"F{k:02d}" for k in range(25)], [2001, 2002, 2003]], names=["firm", "period"])
SIC = ["3711", "3711", "3714", "3720", "3721", "2911", "2990", "1311", "7372", "7373", None]


@pytest.fixture
def panel():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"sic": rng.choice(np.array(SIC, dtype=object), size=75)}, index=INDEX)
    y = pd.Series(rng.normal(size=75), index=INDEX).mask(rng.random(75) < 0.15)
    return X, y


def industry_means(X, y, pool, same_period, min_peers, levels=(4, 3, 2, 1)):
    """Widen digit by digit until enough firms share the code; in a forecast the own past is one of them."""
    means, used = [], []
    for (firm, period), code in X["sic"].items():
        others = [
            row
            for row in pool.index
            if (row != (firm, period) and row[1] == period if same_period else True) and pd.notna(y[row])
        ]
        level, peers = (-1 if pd.isna(code) else 0), others
        for digits in () if pd.isna(code) else levels:
            group = [row for row in others if pd.notna(pool.at[row, "sic"]) and pool.at[row, "sic"][:digits] == code[:digits]]
            if len({row[0] for row in group}) >= min_peers:
                level, peers = digits, group
                break
        means.append(np.mean([y[row] for row in peers]))
        used.append(level)
    return np.array(means), np.array(used)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
@pytest.mark.parametrize("min_peers", [1, 3])
def test_industry_means_by_brute_force(panel, min_peers):
    X, y = panel
    model = IndustryPeerRegressor(industry="sic", min_peers=min_peers).fit(X, y)
    for call, same_period in (({}, False), ({"outcomes": y}, True)):
        expected, levels = industry_means(X, y, X, same_period, min_peers)
        np.testing.assert_allclose(model.predict(X, **call), expected, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(model.peer_levels(X, **call), levels)
    assert {-1, 4} < set(levels)  # and some level between: the case is not trivial


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
def test_new_rows_look_to_the_training_rows(panel):
    X, y = panel
    training = X.index.get_level_values("period") < 2003
    model = IndustryPeerRegressor(industry="sic").fit(X[training], y[training])
    expected, _ = industry_means(X[~training], y, X[training], False, 1)
    np.testing.assert_allclose(model.predict(X[~training]), expected, rtol=0, atol=1e-12)


def test_unknown_codes_are_isolates_with_the_mean_of_all_others(panel):
    X, y = panel
    model = IndustryPeerRegressor(industry="sic").fit(X, y)
    unknown = X["sic"].isna()
    with pytest.warns(IsolateWarning, match="their peer term is the mean of all other firms"):
        predicted = pd.Series(model.predict(X, outcomes=y), X.index)
    for firm, period in X.index[unknown]:
        others = y.xs(period, level="period").drop(firm)
        assert predicted[firm, period] == pytest.approx(others.mean())
    isolates = model.peer_network(X, outcomes=y).isolates
    assert {(f, p) for p, f in isolates.itertuples(index=False)} == set(X.index[unknown])


def test_codes_of_any_dtype(panel):
    X, y = panel
    X = X.assign(sic=X["sic"].fillna("3711"))
    expected = IndustryPeerRegressor(industry="sic").fit(X, y).predict(X, outcomes=y)
    for kind in (int, float, "category", "Int64"):
        coded = X.assign(sic=X["sic"].astype(int).astype(kind))
        predicted = IndustryPeerRegressor(industry="sic").fit(coded, y).predict(coded, outcomes=y)
        np.testing.assert_array_equal(predicted, expected)


def test_plain_codes_do_not_nest(panel):
    X, y = panel
    X = X.assign(sic=X["sic"].fillna("3711")).rename(columns={"sic": "sector"})
    model = IndustryPeerRegressor(industry="sector", min_peers=4).fit(X, y)
    assert set(model.peer_levels(X, outcomes=y)) == {0, 1}


def test_without_industry_all_other_firms_are_peers(panel):
    X, y = panel
    predicted = IndustryPeerRegressor(scheme="plain").fit(X, y).predict(X, outcomes=y)
    for value, (firm, period) in zip(predicted[::7], X.index[::7], strict=True):
        assert value == pytest.approx(y.xs(period, level="period").drop(firm).mean())


@pytest.mark.parametrize(
    "options, message",
    [({"min_peers": 0}, "'min_peers' parameter.*Got 0"), ({"scheme": "sics"}, "'scheme' parameter.*Near matches: 'sic'")],
)
def test_options_of_industry(panel, options, message):
    with pytest.raises(InputError, match=message):
        IndustryPeerRegressor(industry="sic", **options).fit(*panel)


# ---------------------------------------------------------------- kernel regression


@pytest.fixture
def sample():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 3)) * [1, 10, 0.1] + [0, 500, 0]
    return (
        X,
        X[:, 0] + np.sin(X[:, 1]) + rng.normal(size=120),
        rng.normal(size=(40, 3)) * [1, 10, 0.1] + [0, 500, 0],
    )


def test_kernel_equals_statsmodels_at_given_bandwidth(sample):
    X, y, new = sample
    h = np.array([0.6, 7.0, 0.08])
    oracle = KernelReg(y, X, "ccc", reg_type="lc", bw=h)
    expected = oracle.fit(new)[0]
    model = NadarayaWatsonRegressor(bandwidth=h).fit(X, y)
    assert np.abs(model.predict(new) - expected).max() < 1e-10


def test_kernel_equals_a_loop_within_periods(sample):
    X, y, _ = sample
    index = pd.MultiIndex.from_product([range(40), [1, 2, 3]], names=["firm", "period"])
    frame, outcome, h = (
        pd.DataFrame(X, index=index, columns=list("abc")),
        pd.Series(y, index=index),
        [0.6, 7.0, 0.08],
    )
    outcome.iloc[::11] = np.nan
    model = NadarayaWatsonRegressor(bandwidth=h).fit(frame, outcome)
    predicted, everywhere = model.predict(frame, outcomes=outcome), model.predict(frame)
    for i, (firm, period) in list(enumerate(index))[::9]:
        log_kernel = -0.5 * (((X - X[i]) / h) ** 2).sum(axis=1)
        for same_period, value in ((True, predicted[i]), (False, everywhere[i])):
            pool = outcome.notna().to_numpy().copy()
            if same_period:
                pool &= (index.get_level_values("firm") != firm) & (index.get_level_values("period") == period)
            w = np.exp(log_kernel[pool] - log_kernel[pool].max())
            assert value == pytest.approx((w * y[pool]).sum() / w.sum(), abs=1e-10)


def test_kernel_is_attention_with_gaussian_scores(sample):
    X, y, new = sample
    h = np.array([0.6, 7.0, 0.08])
    model = NadarayaWatsonRegressor(bandwidth=h).fit(X, y)
    q, k = torch.from_numpy((new - X.mean(axis=0)) / h), torch.from_numpy((X - X.mean(axis=0)) / h)
    weights = attention_weights(q, k, bias=-0.5 * (k**2).sum(-1), scale=1.0)
    np.testing.assert_allclose(weights @ torch.from_numpy(y), model.predict(new), rtol=0, atol=1e-10)


def test_a_far_query_stays_finite(sample):
    X, y, _ = sample
    predicted = NadarayaWatsonRegressor(bandwidth=0.1).fit(X, y).predict(X[:1] + 1e4)
    assert np.isfinite(predicted).all()


def test_infinite_bandwidth_drops_a_characteristic(sample):
    X, y, new = sample
    full = NadarayaWatsonRegressor(bandwidth=[0.6, np.inf, 0.08]).fit(X, y).predict(new)
    less = NadarayaWatsonRegressor(bandwidth=[0.6, 0.08]).fit(X[:, [0, 2]], y).predict(new[:, [0, 2]])
    np.testing.assert_allclose(full, less, atol=1e-12)


@pytest.mark.parametrize("bandwidth", ["silver", 0.0, -1.0, [1.0, 2.0], np.nan])
def test_bandwidths_that_cannot_be_used(sample, bandwidth):
    X, y, _ = sample
    with pytest.raises(InputError, match="bandwidth"):
        NadarayaWatsonRegressor(bandwidth=bandwidth).fit(X, y)
