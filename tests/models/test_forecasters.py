"""The forecasters of every table, against plain code, and their names."""

import numpy as np
import pandas as pd
import pytest
from linearmodels.panel import FamaMacBeth
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from peerattn import WalkForward, compare
from peerattn.exceptions import InputError
from peerattn.models.forecasters import make_model, make_models, model_names, model_title
from peerattn.models.panel_forecasters import (
    FamaMacBethRegressor,
    FirmMeanRegressor,
    IndustryMeansRegressor,
    LastValueRegressor,
)
from peerattn.panel import as_panel

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point


def simulated_panel(n_firms=20, n_periods=6, seed=0):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product(
        [[f"F{i:02d}" for i in range(n_firms)], range(2001, 2001 + n_periods)], names=["firm", "period"]
    )
    index = index[rng.permutation(len(index))]
    X = pd.DataFrame(rng.normal(size=(len(index), 2)), index=index, columns=["size", "lev"])
    X["sic"] = rng.choice(["3711", "2911", "7372"], len(index))
    return X, (X["size"] + rng.normal(size=len(index))).rename("roa")


def test_firm_mean_and_new_firms():
    X, y = simulated_panel()
    old = X.index.get_level_values("firm") < "F15"
    predicted = pd.Series(FirmMeanRegressor().fit(X[["size"]][old], y[old]).predict(X[["size"]]), index=X.index)
    for firm in X.index.levels[0]:
        expected = y.xs(firm, level="firm").mean() if firm < "F15" else y[old].mean()
        assert predicted.xs(firm, level="firm").to_numpy() == pytest.approx(expected)


def test_last_value_is_of_an_earlier_period():
    X, y = simulated_panel()
    model = LastValueRegressor().fit(X[["size"]], y)
    predicted = pd.Series(model.predict(X[["size"]]), index=X.index)
    for firm, period in X.index:
        assert predicted[(firm, period)] == (y[(firm, period - 1)] if period > 2001 else pytest.approx(y.mean()))
    shocked = y.copy()
    shocked[X.index.get_level_values("period") >= 2004] += 50
    again = pd.Series(LastValueRegressor().fit(X[["size"]], shocked).predict(X[["size"]]), index=X.index)
    early = X.index.get_level_values("period").isin([2002, 2003, 2004])
    assert (again[early] == predicted[early]).all()


def test_fama_macbeth_is_linearmodels():
    X, y = simulated_panel()
    model = FamaMacBethRegressor().fit(X[["size", "lev"]], y)
    frame = X[["size", "lev"]].assign(intercept=1.0)
    theirs = FamaMacBeth(y, frame).fit(cov_type="kernel")
    np.testing.assert_allclose(model.coef_, theirs.params[["size", "lev"]], atol=1e-10)
    np.testing.assert_allclose(model.predict(X[["size", "lev"]]), frame @ theirs.params[frame.columns], atol=1e-10)
    coefficients = [np.linalg.lstsq(f.to_numpy(), y[f.index], rcond=None)[0] for _, f in frame.groupby(level="period")]
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), np.mean(coefficients, axis=0), atol=1e-10)


def test_fama_macbeth_reads_own_characteristics_only():
    X, y = simulated_panel()
    model = FamaMacBethRegressor().fit(X, y)
    assert model.design_.characteristics == ("size", "lev")
    np.testing.assert_array_equal(model.coef_, FamaMacBethRegressor().fit(X[["size", "lev"]], y).coef_)
    with pytest.raises(InputError, match="no period has more than"):
        FamaMacBethRegressor().fit(X.iloc[:4], y.iloc[:4])


def test_industry_means_are_of_the_other_firms():
    X, y = simulated_panel()
    model = IndustryMeansRegressor(industry="sic").fit(X, y)
    panel = as_panel(X)
    got = model._regressors(panel)
    for row, (firm, period) in enumerate(panel.labels[:30]):
        here = X.xs(period, level="period").drop(firm)
        peers = here[here["sic"] == X.at[(firm, period), "sic"]]
        expected = (peers if len(peers) else here)[["size", "lev"]].mean()
        np.testing.assert_allclose(got[row], [*X.loc[(firm, period), ["size", "lev"]], *expected])


def test_industry_means_needs_its_column():
    X, y = simulated_panel()
    with pytest.raises(InputError, match="no column is named 'naics'"):
        IndustryMeansRegressor(industry="naics").fit(X, y)


def test_every_name_runs_in_a_comparison():
    X, y = simulated_panel(60)
    names = [name for name in model_names() if name not in ("attention", "covariance")]
    models, cv = make_models(names, industry="sic"), WalkForward(test_periods=2, refit_every=2)
    result = compare(models, X, y, industry="sic", cv=cv, decomposition=False, verbose=False, reference=X)
    assert not result.failures
    assert {model_title(name, "sic") for name in names} <= set(result.predictions.columns)


def test_a_list_of_names_is_compared():
    X, y = simulated_panel(60)
    cv = WalkForward(test_periods=2, refit_every=2)
    result = compare(
        ["zero", "industry", "ridge"], X, y, industry="sic", baseline="industry", cv=cv, decomposition=False, verbose=False
    )
    assert result.baseline == "SIC peers"
    with pytest.raises(InputError, match="needs industry="):
        compare(["industry"], X, y, cv=cv, decomposition=False, verbose=False)


@pytest.mark.parametrize("name", model_names())
def test_names_make_new_models(name):
    first, second = (make_model(name, industry="sic", task=task) for task in ("forecast", "nowcast"))
    assert first is not second and clone(first) is not None
    assert getattr(second, "task", "nowcast") == "nowcast"


def test_errors():
    with pytest.raises(InputError, match="no model is named 'ridgee'. Near matches: 'ridge'"):
        make_model("ridgee")
    with pytest.raises(InputError, match="'industry' needs industry="):
        make_model("industry")


@pytest.mark.parametrize("estimator", [FirmMeanRegressor(), LastValueRegressor()], ids=str)
def test_forecasters_by_firm_refuse_bad_input(estimator):
    X, y = simulated_panel()
    numbers = X[["size", "lev"]]
    with pytest.raises(NotFittedError, match="not fitted yet"):
        clone(estimator).predict(numbers)
    with pytest.raises(ValueError, match="y has no known value"):
        clone(estimator).fit(numbers, y * np.nan)
    with pytest.raises(ValueError, match="labels of y are not those of X"):
        clone(estimator).fit(numbers, y.iloc[:-1])
    with pytest.raises(InputError, match="'roa_next' hold next period's outcomes"):
        clone(estimator).fit(numbers.assign(roa_next=1.0), y)
    with pytest.raises(InputError, match="duplicated"):
        clone(estimator).fit(pd.concat([numbers, numbers.iloc[:1]]), np.zeros(len(y) + 1))
    with pytest.raises(InputError, match="firms of X are numbers, those of fit text"):
        clone(estimator).fit(numbers, y).predict(numbers.rename(lambda firm: int(firm[1:]), level="firm"))
    with pytest.raises(ValueError, match="(?s)feature names should match.*lev"):
        clone(estimator).fit(numbers, y).predict(numbers[["size"]])


def test_a_task_that_is_none_is_named():
    with pytest.raises(InputError, match="task: expected 'forecast' or 'nowcast', got 'nowcasts'.* Near matches: 'nowcast'"):
        make_model("ridge", task="nowcasts")
