"""NadarayaWatsonRegressor: the estimator around the kernel engine."""

import numpy as np
import pandas as pd
import pytest
import torch
from statsmodels.nonparametric.kernel_regression import KernelReg

from peerattn.exceptions import InputError, IsolateWarning
from peerattn.models import NadarayaWatsonRegressor
from peerattn.models.kernel.bandwidth import normal_reference_bandwidth

pytestmark = pytest.mark.filterwarnings("ignore:X carries neither")  # frames of one cross-section, without labels


def simulated_panel(n_firms=15, n_periods=4, seed=0):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(n_firms), range(2001, 2001 + n_periods)], names=["firm", "period"])
    index = index[rng.permutation(len(index))]
    X = pd.DataFrame(rng.normal(size=(len(index), 2)), index=index, columns=["size", "lev"])
    X["sector"] = rng.choice(["A", "B", "C"], size=len(index))
    X["rating"] = pd.Categorical(rng.choice(["low", "mid", "high"], size=len(index)), ["low", "mid", "high"], ordered=True)
    y = np.sin(X["size"]) + (X["sector"] == "A") + X["rating"].cat.codes + 0.1 * rng.normal(size=len(index))
    return X, y.rename("ret")


def smooth_sample(n=120, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize("degree", [0, 1])
def test_equals_kernel_reg_with_codes(degree):
    X, y = simulated_panel()
    bare = X.reset_index(drop=True)
    bandwidth = {"size": 0.5, "lev": 1.5, "sector": 0.2, "rating": 0.4}
    model = NadarayaWatsonRegressor(bandwidth=bandwidth, degree=degree).fit(bare, y.to_numpy())
    if degree:  # KernelReg adds slopes in the codes, too: compare without them
        model = NadarayaWatsonRegressor(bandwidth=[0.5, 1.5], degree=1).fit(bare[["size", "lev"]], y.to_numpy())
        theirs = KernelReg(y.to_numpy(), bare[["size", "lev"]].to_numpy(), "cc", "ll", bw=[0.5, 1.5], rng=0)
        np.testing.assert_allclose(model.predict(bare[["size", "lev"]]), theirs.fit()[0], atol=1e-10)
        return
    numbers = bare.assign(sector=pd.factorize(bare["sector"])[0], rating=bare["rating"].cat.codes).to_numpy(float)
    theirs = KernelReg(y.to_numpy(), numbers, "ccuo", "lc", bw=list(bandwidth.values()), rng=0)
    np.testing.assert_allclose(model.predict(bare), theirs.fit()[0], atol=1e-10)


def test_ordered_whole_numbers_count_their_distance():
    X, y = simulated_panel()
    bare = X[["size"]].reset_index(drop=True).assign(grade=np.random.default_rng(1).choice([1, 2, 5], len(X)))
    model = NadarayaWatsonRegressor(bandwidth=[0.5, 0.6], ordered=["grade"]).fit(bare, y.to_numpy())
    theirs = KernelReg(y.to_numpy(), bare.to_numpy(float), "co", "lc", bw=[0.5, 0.6], rng=0)
    np.testing.assert_allclose(model.predict(bare), theirs.fit()[0], atol=1e-10)


def test_uncentred_characteristics_keep_their_digits():
    x, y = smooth_sample()
    near = NadarayaWatsonRegressor(bandwidth=0.05).fit(x, y).predict(x)
    far = NadarayaWatsonRegressor(bandwidth=0.05).fit(x + 2048, y).predict(x + 2048)
    np.testing.assert_allclose(near, far, atol=1e-9)


# ---------------------------------------------------------------------- bandwidths


@pytest.mark.filterwarnings("ignore:After 0.17 or January 2028:FutureWarning")  # of KernelReg itself
@pytest.mark.parametrize("criterion", ["cv_ls", "aic"])
def test_criterion_is_kernel_regs_and_no_worse(criterion):
    x, y = smooth_sample(25)
    model = NadarayaWatsonRegressor(bandwidth=criterion).fit(x, y)
    theirs = KernelReg(y, x, "cc", "lc", bw=criterion, rng=0)
    value = {
        "cv_ls": lambda h: theirs.cv_loo(h, theirs._est_loc_constant),
        "aic": lambda h: theirs.aic_hurvich(h),
    }[criterion]
    finite = np.where(np.isinf(model.bandwidth_), 1e8, model.bandwidth_)
    assert model.criterion_ == pytest.approx(float(np.squeeze(value(finite))), rel=1e-7)
    least = float(np.squeeze(value(theirs.bw)))
    assert model.criterion_ <= least + 1e-7 * abs(least)


def test_an_irrelevant_characteristic_is_said_to_be():
    x, y = smooth_sample(200, seed=3)
    frame = pd.DataFrame(x, columns=["size", "noise"])
    table = NadarayaWatsonRegressor(bandwidth="cv_ls").fit(frame, y).bandwidths_
    assert table.loc["size", "role"] == "local" and table.loc["size", "bandwidth"] < 0.5
    assert table.loc["noise", "role"] == "irrelevant" and np.isinf(table.loc["noise", "bandwidth"])


def test_a_linear_characteristic_is_said_to_be():
    x, _ = smooth_sample(150, seed=1)
    y = np.sin(3 * x[:, 0]) + 2 * x[:, 1] + 0.1 * np.random.default_rng(3).normal(size=150)
    table = NadarayaWatsonRegressor(bandwidth="cv_ls", degree=1).fit(x, y).bandwidths_
    assert list(table["role"]) == ["local", "linear"]


def test_an_irrelevant_code_is_said_to_be():
    x, y = smooth_sample(200, seed=1)
    frame = pd.DataFrame({"size": x[:, 0], "sector": np.random.default_rng(4).choice(list("ABC"), 200)})
    model = NadarayaWatsonRegressor(bandwidth="cv_ls").fit(frame, y)
    assert model.bandwidths_.loc["sector", "role"] == "irrelevant"
    assert model.mixing_[0] == pytest.approx(2 / 3)


def test_a_code_that_separates_wholly_is_at_its_lower_limit():
    code = np.repeat(list("AB"), 60)
    frame = pd.DataFrame({"size": np.random.default_rng(5).normal(size=120), "sector": code})
    model = NadarayaWatsonRegressor(bandwidth="cv_ls").fit(frame, np.where(code == "A", 1.0, -1.0))
    assert model.mixing_ == 0 and model.criterion_ < 1e-20


@pytest.mark.parametrize("degree", [0, 1])
def test_bandwidths_do_not_depend_on_rounding(degree):
    """Rows in another order are summed in another order, as other processors do."""
    x, y = smooth_sample(150, seed=1)
    y = y + 2 * x[:, 1]
    order = np.random.default_rng(0).permutation(150)
    model = NadarayaWatsonRegressor(bandwidth="cv_ls", degree=degree)
    found, criterion = model.fit(x, y).bandwidth_, model.criterion_
    np.testing.assert_allclose(model.fit(x[order], y[order]).bandwidth_, found, rtol=1e-4)
    assert model.criterion_ == pytest.approx(criterion, rel=1e-6)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.SharedPeriodWarning")  # new firms of known periods
def test_panel_bandwidths_leave_the_own_firm_out_over_the_pool_of_prediction():
    X, y = simulated_panel(20, 3)
    X = X[["size", "lev"]]
    model = NadarayaWatsonRegressor(bandwidth="cv_ls").fit(X, y)
    given = NadarayaWatsonRegressor(bandwidth=model.bandwidth_).fit(X, y)
    firm = X.index.get_level_values("firm")
    without = np.empty(len(y))
    for left in firm.unique():
        without[firm == left] = given.fit(X[firm != left], y[firm != left]).predict(X[firm == left])
    assert model.criterion_ == pytest.approx(((without - y) ** 2).mean(), rel=1e-9)
    given = NadarayaWatsonRegressor(bandwidth=model.within_bandwidth_).fit(X, y)
    assert model.within_criterion_ == pytest.approx(((given.predict(X, outcomes=y) - y) ** 2).mean(), rel=1e-9)


def test_a_constant_column_is_not_divided_by_its_rounding():
    x, y = smooth_sample(40)
    model = NadarayaWatsonRegressor(bandwidth=1.0).fit(np.column_stack([x, np.full(40, 0.1)]), y)
    assert model.scale_[-1] == 1.0
    alone = NadarayaWatsonRegressor(bandwidth=1.0).fit(x, y)
    np.testing.assert_allclose(model.predict(np.column_stack([x, np.full(40, 0.1)])), alone.predict(x), rtol=1e-9)


@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("kernel", ["gaussian", "biweight"])
def test_gradient_of_the_criterion(kernel, degree):
    from peerattn.models.kernel import bandwidth as module
    from peerattn.models.kernel.local_regression import Bandwidths, CodeKernel, LocalRegression, Points

    x, y = smooth_sample(40)
    codes = torch.tensor(np.random.default_rng(5).integers(0, 3, (40, 1)))
    tensor = torch.tensor(x)
    rows = Points(tensor, codes, tensor if degree else tensor[:, :0])
    problem = module.Problem(rows, torch.tensor(y), torch.arange(40), torch.arange(0, 40, 2))
    regression = LocalRegression(kernel, (CodeKernel(3),))
    start = Bandwidths(torch.tensor([2.0, 2.5], dtype=torch.float64), torch.tensor([0.3], dtype=torch.float64))
    for criterion in ("cv_ls", "aic"):
        search = module._Search(start, regression, [problem], criterion)
        theta = np.array([0.1, -0.2, 0.3])
        value, gradient = search.value_and_gradient(theta)
        assert value == pytest.approx(search.value(theta), rel=1e-12)
        at_limit = search.value_and_gradient(np.array([np.inf, -0.2, np.inf]))
        assert at_limit[1].shape == (1,) and np.isfinite(at_limit[1]).all()
        for k in range(3):
            step = np.eye(3)[k] * 1e-5
            up, down = (search.value_and_gradient(theta + sign * step)[0] for sign in (1, -1))
            assert gradient[k] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-7)


def test_a_line_without_characteristics_is_the_mean():
    X, y = simulated_panel()
    mean, line = (NadarayaWatsonRegressor(degree=degree).fit(X[["sector"]], y) for degree in (0, 1))
    for outcomes in (None, y):
        np.testing.assert_array_equal(
            line.predict(X[["sector"]], outcomes=outcomes), mean.predict(X[["sector"]], outcomes=outcomes)
        )


@pytest.mark.parametrize("criterion", ["cv_ls", "aic"])
def test_a_criterion_has_no_slope_with_a_uniform_kernel(criterion):
    X, y = simulated_panel()
    with pytest.raises(InputError, match="that of a uniform kernel is zero; give bandwidth= as numbers"):
        NadarayaWatsonRegressor(kernel="uniform", bandwidth=criterion).fit(X, y)


def test_bandwidths_by_name_and_the_rule_of_thumb():
    X, y = simulated_panel()
    model = NadarayaWatsonRegressor(bandwidth={"lev": 9.0}).fit(X, y)
    rule = normal_reference_bandwidth(X[["size", "lev"]].to_numpy())
    np.testing.assert_allclose(model.bandwidth_, [rule[0], 9.0])
    np.testing.assert_allclose(model.within_bandwidth_[0], rule[0] * 4 ** (1 / 6))  # the median cross-section is a quarter
    np.testing.assert_allclose(model.mixing_, [60 ** (-1 / 3)] * 2)
    np.testing.assert_allclose(model.within_mixing_, [1 / 3, 15 ** (-1 / 3)])  # at most half of the range, 2/3


# ---------------------------------------------------------------------- marginal effects, tests


@pytest.mark.parametrize("options", [{}, {"kernel": "biweight", "bandwidth": 2.0}, {"neighbors": 9}], ids=str)
def test_marginal_effects_are_derivatives(options):
    x, y = smooth_sample()
    model = NadarayaWatsonRegressor(**options).fit(x, y)
    at, step = x[:10] * 0.9, 1e-5
    effects = model.marginal_effects(at)
    for column in range(2):
        shift = step * np.eye(2)[column]
        slope = (model.predict(at + shift) - model.predict(at - shift)) / (2 * step)
        np.testing.assert_allclose(effects[:, column], slope, atol=1e-6)


def test_local_line_effects_are_kernel_regs_slopes():
    x, y = smooth_sample()
    model = NadarayaWatsonRegressor(bandwidth=0.4, degree=1).fit(x, y)
    np.testing.assert_allclose(model.marginal_effects(x), KernelReg(y, x, "cc", "ll", bw=[0.4, 0.4], rng=0).fit()[1], atol=1e-9)


def test_marginal_effects_of_the_uniform_kernel_are_zero():
    X, y = simulated_panel()
    model = NadarayaWatsonRegressor(kernel="uniform").fit(X, y)
    assert not model.marginal_effects(X).to_numpy().any()


def test_marginal_effects_of_a_panel_keep_its_index():
    X, y = simulated_panel()
    effects = NadarayaWatsonRegressor().fit(X, y).marginal_effects(X, outcomes=y)
    assert effects.index.equals(X.index) and list(effects.columns) == ["size", "lev"]


# ---------------------------------------------------------------------- panel


@pytest.mark.parametrize("options", [{}, {"degree": 1}, {"kernel": "triangular", "bandwidth": 3.0}, {"neighbors": 5}], ids=str)
def test_network_rebuilds_the_prediction(options):
    X, y = simulated_panel()
    model = NadarayaWatsonRegressor(**options).fit(X, y)
    network = model.peer_network(X, outcomes=y)
    predicted = pd.Series(model.predict(X, outcomes=y), X.index)
    assert network.signed == ("degree" in options)
    for period in network.periods:
        W = network.matrix(period)
        np.testing.assert_allclose(W.sum(axis=1), 1.0, atol=1e-12)
        assert (np.diag(W) == 0).all()
        here = y.xs(period, level="period")
        np.testing.assert_allclose(W @ here[W.columns], predicted.xs(period, level="period")[W.index], atol=1e-10)
    pooled = model.peer_network(X).matrix(2002)
    np.testing.assert_allclose(pooled.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.BoundedOutcomeWarning")  # an outcome moved far
@pytest.mark.parametrize("degree", [0, 1])
def test_own_outcome_and_later_values_have_no_influence(degree):
    X, y = simulated_panel()
    model = NadarayaWatsonRegressor(degree=degree).fit(X, y)
    before, shocked = model.predict(X, outcomes=y), y.copy()
    shocked.iloc[7] += 1e6
    after = model.predict(X, outcomes=shocked)
    period = X.index.get_level_values("period")
    assert after[7] == before[7]
    assert (after[period != period[7]] == before[period != period[7]]).all()
    assert (
        after[(period == period[7]) & (np.arange(len(X)) != 7)] != before[(period == period[7]) & (np.arange(len(X)) != 7)]
    ).all()
    changed = X.copy()
    changed.loc[period == 2004, "size"] = 50.0
    early = period < 2004
    assert (model.predict(changed, outcomes=y)[early] == before[early]).all()
    own_changed = y.copy()
    own_changed[X.index.get_level_values("firm") == 3] += 100
    refit = NadarayaWatsonRegressor(degree=degree, bandwidth=1.0)
    own = X.index.get_level_values("firm") == 3
    one = refit.fit(X, y).predict(X)[own]
    other = refit.fit(X, own_changed).predict(X)[own]
    assert (other > one).all()  # forecasts keep the firm's own past, which leaks nothing


def test_a_firm_beyond_every_kernel_gets_the_training_mean():
    x, y = smooth_sample()
    model = NadarayaWatsonRegressor(kernel="epanechnikov", bandwidth=0.5).fit(x, y)
    with pytest.warns(IsolateWarning, match="the training mean"):
        predicted = model.predict([[90.0, 90.0], [0.0, 0.0]])
    assert predicted[0] == pytest.approx(y.mean()) and predicted[1] != predicted[0]


def test_codes_alone():
    X, y = simulated_panel()
    model = NadarayaWatsonRegressor(bandwidth={"sector": 0.0}).fit(X[["sector"]], y)
    expected = y.groupby(X["sector"]).transform("mean")
    np.testing.assert_allclose(model.predict(X[["sector"]]), expected, atol=1e-10)


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bandwidth": "cv"}, "bandwidth must be one of"),
        ({"bandwidth": -1.0}, "bandwidth must be positive, got -1.$"),
        (
            {"bandwidth": [1.0, 2.0, 3.0]},
            r"bandwidth has shape \(3,\), but there are 2 characteristics and 2 codes",
        ),
        (
            {"bandwidth": {"siz": 1.0}},
            "bandwidth: no column of the regression is named 'siz'. Near match",
        ),
        ({"bandwidth": {"sector": 2.0}}, "must be from 0 to 1"),
        ({"kernel": "gausian"}, "'kernel' parameter .*Near matches: 'gaussian'"),
        ({"degree": 2}, "'degree' parameter .*Got 2"),
        ({"neighbors": 0}, "'neighbors' parameter .* an int in the range"),
        ({"n_starts": 0}, "'n_starts' parameter"),
        ({"codes": ["sector"], "ordered": ["sector"]}, "codes and ordered both name 'sector'"),
        ({"ordered": ["sector"]}, "whose order is not known"),
    ],
)
def test_bad_options(options, message):
    X, y = simulated_panel()
    with pytest.raises(InputError, match=message):
        NadarayaWatsonRegressor(**options).fit(X, y)


def test_weighted_rows_cannot_choose():
    x, y = smooth_sample()
    with pytest.raises(InputError, match="repeat rows"):
        NadarayaWatsonRegressor(bandwidth="cv_ls").fit(x, y, sample_weight=np.full(len(x), 0.5))


def test_chosen_bandwidths_do_not_depend_on_the_unit_of_the_outcome():
    """Above a criterion of 1e10 its unit was capped: outcomes in dollars had other bandwidths than in millions."""
    X = pd.DataFrame(np.random.default_rng(1).normal(size=(40, 2)), columns=["a", "b"])
    y = np.sin(2 * X["a"]).to_numpy() + 0.3 * np.random.default_rng(2).normal(size=40)
    one, other = (NadarayaWatsonRegressor(bandwidth="cv_ls").fit(X, unit * y) for unit in (1.0, 1e6))
    # where a criterion is least it is known to the square root of rounding
    np.testing.assert_allclose(other.bandwidth_, one.bandwidth_, rtol=1e-6)
    np.testing.assert_allclose(other.criterion_, 1e12 * one.criterion_, rtol=1e-9)


@pytest.mark.filterwarnings("ignore")  # no periods, and a constant
@pytest.mark.parametrize("options", [{}, {"degree": 1}, {"codes": ["sic"]}])
def test_a_constant_column_changes_no_prediction(options):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30)})
    if "codes" in options:
        X["sic"] = ["3711", "2834", "0100"] * 10
    y = X["a"] + rng.normal(size=30)
    one = NadarayaWatsonRegressor(**options).fit(X, y)
    other = NadarayaWatsonRegressor(**options).fit(X.assign(same=0.1), y)
    # another value is no distance, either
    np.testing.assert_allclose(other.predict(X.assign(same=0.7)), one.predict(X), rtol=1e-9)
    assert np.isinf(other.bandwidth_[list(other.design_.characteristics).index("same")])
