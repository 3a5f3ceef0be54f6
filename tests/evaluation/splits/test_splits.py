import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_validate

from peerattn.evaluation.splits import ShortPanelWarning, WalkForward
from peerattn.exceptions import InputError
from peerattn.models.industry import IndustryPeerRegressor

PERIODS = {
    "years": pd.Index(range(2001, 2013)),
    "yyyymm": pd.Index([202000 + month for month in range(1, 13)]),
    "month ends": pd.date_range("2020-01-31", periods=12, freq="ME"),
    "Period": pd.period_range("2020-01", periods=12, freq="M"),
}


def panel(periods, n_firms=4, seed=0):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([[f"F{i}" for i in range(n_firms)], periods], names=["firm", "period"])
    index = index[rng.random(len(index)) < 0.9].sort_values()  # ragged
    return pd.DataFrame({"size": rng.normal(size=len(index)), "lev": rng.normal(size=len(index))}, index=index)


def dated(X, positions):
    return set(X.index.get_level_values("period")[positions])


@pytest.mark.parametrize("kind", PERIODS)
@pytest.mark.parametrize("horizon", [1, 3])
@pytest.mark.parametrize("refit_every", [1, 2, 5])
def test_training_rows_are_exactly_those_with_an_outcome_known_at_the_origin(kind, horizon, refit_every):
    periods = PERIODS[kind]
    X = panel(periods).sample(frac=1, random_state=3)
    split = WalkForward(test_periods=5, refit_every=refit_every, horizon=horizon)
    tested = []
    for train, test in split.split(X):
        origin = min(periods.get_loc(period) for period in dated(X, test))
        learned = {periods.get_loc(period) for period in dated(X, train)}
        assert learned == set(range(origin - horizon + 1))
        row_periods = X.index.get_level_values("period")
        known = [periods.get_loc(period) <= origin - horizon for period in row_periods]
        assert list(train) == list(np.flatnonzero(known))
        tested += sorted(periods.get_loc(period) for period in dated(X, test))
    assert tested == list(range(7, 12))
    assert split.get_n_splits(X) == -(-5 // refit_every)


def test_a_rolling_window_keeps_its_length():
    X = panel(PERIODS["years"])
    folds = WalkForward(4, 1, window="rolling", train_periods=3, horizon=2).folds(X)
    assert [list(fold.train_periods) for fold in folds] == [[y - 4, y - 3, y - 2] for y in range(2009, 2013)]
    assert all(dated(X, fold.train) == set(fold.train_periods) for fold in folds)


def test_row_order_level_order_and_columns_give_the_same_split():
    X = panel(PERIODS["month ends"])
    split = WalkForward(4, 2)
    expected = [(set(X.index[train]), set(X.index[test])) for train, test in split.split(X)]
    shuffled = X.sample(frac=1, random_state=1)
    swapped = shuffled.swaplevel()
    flat = shuffled.reset_index()
    for other in (shuffled, swapped, flat):
        got = [(set(shuffled.index[train]), set(shuffled.index[test])) for train, test in split.split(other)]
        assert got == expected


def test_polars_frames_split_too():
    polars = pytest.importorskip("polars")
    flat = panel(PERIODS["years"]).reset_index()
    split = WalkForward(4, 2)
    expected = list(split.split(flat))
    got = list(split.split(polars.from_pandas(flat)))
    for pair, other in zip(expected, got, strict=True):
        assert np.array_equal(pair[0], other[0]) and np.array_equal(pair[1], other[1])


def test_other_label_names():
    X = panel(PERIODS["years"]).rename_axis(index=["permno", "date"])
    assert WalkForward(3, firm="permno", period="date").get_n_splits(X) == 3
    with pytest.raises(InputError, match="'firm'"):
        list(WalkForward(3).split(X))


def test_periods_without_any_known_outcome_are_not_tested():
    X = panel(PERIODS["years"])
    year = X.index.get_level_values("period")
    y = pd.Series(1.0, index=X.index).where(~year.isin([2012, 2008]))
    folds = WalkForward(4, 1).folds(X, y)
    assert [fold.periods[0] for fold in folds] == [2007, 2009, 2010, 2011]
    assert 2008 in set(folds[-1].train_periods)  # its rows stay, as peers


def test_y_is_aligned_by_label():
    X = panel(PERIODS["years"])
    y = pd.Series(1.0, index=X.index).where(X.index.get_level_values("period") != 2012)
    expected = WalkForward(3).folds(X, y)
    got = WalkForward(3).folds(X, y.sample(frac=1, random_state=0).swaplevel())
    assert [list(a.periods) for a in expected] == [list(b.periods) for b in got] == [[2009], [2010], [2011]]


def test_unknown_outcomes_of_a_tested_period_stay_in_the_fold():
    X = panel(PERIODS["years"])
    y = pd.Series(1.0, index=X.index)
    y.iloc[np.flatnonzero(X.index.get_level_values("period") == 2012)[0]] = np.nan
    with_nan, without = list(WalkForward(1).split(X, y)), list(WalkForward(1).split(X))
    assert np.array_equal(with_nan[0][1], without[0][1])


def test_a_short_panel_shrinks_to_the_last_third_and_says_so():
    X = panel(PERIODS["years"])
    with pytest.warns(ShortPanelWarning, match=r"test_periods=24 .* 12 periods have .* last third instead, 4\."):
        folds = WalkForward(24, 12).folds(X)
    assert [list(fold.periods) for fold in folds] == [[2009, 2010, 2011, 2012]]


def test_the_default_tests_the_last_third_silently():
    assert WalkForward().get_n_splits(panel(PERIODS["years"])) == 4
    assert WalkForward().get_n_splits(panel(PERIODS["years"][:2])) == 1


def test_every_testable_period_may_be_asked_for():
    X = panel(PERIODS["years"])
    assert WalkForward(11).get_n_splits(X) == 11
    with pytest.warns(ShortPanelWarning):
        list(WalkForward(12).split(X))
    assert WalkForward(9, horizon=3).get_n_splits(X) == 9
    with pytest.warns(ShortPanelWarning):
        list(WalkForward(10, horizon=3).split(X))


def test_works_in_sklearns_validation():
    X = panel(PERIODS["years"], n_firms=20)
    y = X["size"] * 2 + X["lev"]
    scores = cross_validate(LinearRegression(), X, y, cv=WalkForward(6, 2))
    assert len(scores["test_score"]) == 3
    search = GridSearchCV(Ridge(), {"alpha": [1e-6, 1e6]}, cv=WalkForward(4, 2)).fit(X, y)
    assert search.best_params_ == {"alpha": 1e-6}
    assert search.n_splits_ == 2
    with sklearn.config_context(enable_metadata_routing=True):
        GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=WalkForward(4, 2)).fit(X, y)
    assert repr(WalkForward(4)).startswith("WalkForward(")


def test_peer_models_keep_their_labels_in_sklearns_validation():
    X = panel(PERIODS["month ends"], n_firms=10)
    X["sic"] = ["3711" if firm < "F5" else "2911" for firm, _ in X.index]
    y = (X["sic"] == "3711") + 0.1 * X["size"]
    scores = cross_validate(IndustryPeerRegressor(industry="sic"), X, y, cv=WalkForward(6, 3), error_score="raise")
    assert (scores["test_score"] > 0.5).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"test_periods": 0}, "test_periods: expected an integer of at least 1, got 0"),
        ({"refit_every": 1.5}, "refit_every.* whole number"),
        ({"horizon": True}, "horizon.* whole number"),
        ({"window": "sliding"}, "window.* 'expanding' or 'rolling', got 'sliding'"),
        ({"window": "rolling"}, "rolling. with train_periods="),
        ({"train_periods": 3}, "rolling. with train_periods="),
        ({"horizon": 12}, "no period can be tested"),
    ],
)
def test_parameters_out_of_range(arguments, message):
    with pytest.raises(InputError, match=message):
        list(WalkForward(**arguments).split(panel(PERIODS["years"])))


def test_bad_panels():
    X = panel(PERIODS["years"])
    with pytest.raises(InputError, match="expected index levels or columns named"):
        list(WalkForward().split(X.to_numpy()))
    with pytest.raises(InputError, match="no period can be tested: 1 of 1 periods"):
        list(WalkForward().split(X[X.index.get_level_values("period") == 2001]))
    with pytest.raises(InputError, match="no known value"):
        list(WalkForward().split(X, np.full(len(X), np.nan)))
    with pytest.raises(InputError, match=r"y has shape \(3,\)"):
        list(WalkForward().split(X, [1.0, 2.0, 3.0]))
    with pytest.raises(InputError, match="X: expected a panel"):
        WalkForward().get_n_splits()
