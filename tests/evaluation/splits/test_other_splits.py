import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline

from peerattn.evaluation import (
    Comparisons,
    NewFirms,
    WalkForward,
    compare,
    nowcast_score,
    supports,
)
from peerattn.evaluation.running.entries import ALL_OTHER_FIRMS
from peerattn.exceptions import InputError, IsolateWarning
from peerattn.models import CrossSectionalRidge, IndustryPeerRegressor, PeerAttentionRegressor
from peerattn.panel import read_panel

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point

YEARS = list(range(2001, 2015))


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(5)
    index = pd.MultiIndex.from_product([[f"F{i:02d}" for i in range(24)], YEARS], names=["firm", "period"])
    index = index[rng.random(len(index)) < 0.9]
    X = pd.DataFrame({"size": rng.normal(size=len(index)), "lev": rng.normal(size=len(index))}, index=index)
    X["sic"] = ["3711" if int(f[1:]) % 2 else "2911" for f, _ in index]
    common = pd.Series(rng.normal(size=len(YEARS)), index=YEARS)
    y = X["size"] + common[index.get_level_values(1)].to_numpy() + (X["sic"] == "3711") + 0.3 * rng.normal(size=len(index))
    return X, y.rename("roa")


def years(X, at):
    return X.index.get_level_values("period")[at]


def run(models, X, y, **options):
    return compare(models, X, y, decomposition=False, verbose=False, **({"cv": WalkForward(4, 4)} | options))


def test_the_horizon_leaves_out_the_rows_before_the_origin(panel):
    X, _ = panel
    for fold in WalkForward(3, horizon=4).folds(X):
        assert max(fold.train_periods) == min(fold.periods) - 4
    with pytest.raises(InputError, match="horizon=15 needs one at least 15 period"):
        WalkForward(3, horizon=15).folds(X)


def test_rows_known_late_are_not_learned_from(panel):
    X, _ = panel
    year = X.index.get_level_values("period")
    late = pd.Series(np.where(X["size"] > 0, year + 3, year + 1).astype(float), index=X.index)
    late.iloc[7] = np.nan
    shuffled = late.sample(frac=1, random_state=0).swaplevel()
    for known_at in (late, shuffled, late.to_numpy()):
        for fold in WalkForward(4, known_at=known_at).folds(X):
            expected = np.flatnonzero((late <= fold.periods[0]) & (year < fold.periods[0]))
            assert np.array_equal(fold.train, expected)
    by_column = WalkForward(4, known_at="filed").folds(X.assign(filed=late))
    assert np.array_equal(by_column[0].train, WalkForward(4, known_at=late).folds(X)[0].train)
    with pytest.raises(InputError, match="no column is named 'filled'.*'filed'"):
        WalkForward(4, known_at="filled").folds(X.assign(filed=late))
    with pytest.raises(InputError, match="3 values for"):
        WalkForward(4, known_at=[1, 2, 3]).folds(X)
    with pytest.raises(InputError, match="of the type of X's.*got 'soon', string"):
        WalkForward(4, known_at=np.full(len(X), "soon")).folds(X)


MONTHS = pd.date_range("2006-01-31", periods=14, freq="ME")


@pytest.mark.parametrize(
    ("periods", "known_at"),
    [
        (MONTHS, MONTHS.year * 100 + MONTHS.month),  # yyyymm read as nanoseconds: nothing would be purged
        (MONTHS, MONTHS.strftime("%Y-%m")),
        (MONTHS, MONTHS.tz_localize("UTC")),
        (MONTHS, MONTHS.to_period("M")),
        (MONTHS.to_period("M"), MONTHS),
        (pd.Index(range(2001, 2015)), pd.Index(np.arange(2001, 2015) + 0.9)),  # 2001.9 is not 2001
        (pd.Index(range(2001, 2015)), pd.Index(range(200112, 201512, 100))),
        (pd.Index(MONTHS.year * 100 + MONTHS.month), MONTHS.year),
    ],
    ids=[
        "yyyymm",
        "text",
        "zone",
        "period",
        "timestamp",
        "fraction",
        "yyyymm among years",
        "year among yyyymm",
    ],
)
def test_known_at_of_another_type_is_refused(periods, known_at):
    index = pd.MultiIndex.from_product([["A", "B"], periods], names=["firm", "period"])
    X = pd.DataFrame({"size": 1.0}, index=index)
    late = pd.Series(np.tile(np.asarray(known_at, dtype=object), 2), index=index).infer_objects()
    with pytest.raises(InputError, match="known_at.* (expected labels of the type of X's periods|holds fractional)"):
        WalkForward(4, known_at=late).folds(X)


def test_known_at_in_whole_floats_with_missing_ones_is_exact(panel):
    X, _ = panel
    late = pd.Series(X.index.get_level_values("period") + 2, index=X.index)
    some = late.astype(float).where(np.arange(len(X)) % 9 > 0)  # never known
    for fold, exact in zip(WalkForward(4, known_at=some).folds(X), WalkForward(4, known_at=late).folds(X)):
        assert np.array_equal(fold.train, exact.train[some.iloc[exact.train].notna()])


def test_known_at_reaches_a_comparison(panel):
    X, y = panel
    year = X.index.get_level_values("period")
    late = pd.Series(year + 1, index=X.index).where(X["size"] < 0)  # half the outcomes are never known
    result = run({"OLS": LinearRegression()}, X[["size"]], y, cv=WalkForward(1, known_at=late))
    learned = (year < 2014) & (X["size"] < 0).to_numpy()
    expected = LinearRegression().fit(X.loc[learned, ["size"]], y[learned]).predict(X.loc[year == 2014, ["size"]])
    assert np.allclose(result.predictions.set_index("firm")["OLS"].sort_index(), expected)
    assert "rows learned from when known" in result.settings["split"]
    with pytest.raises(InputError, match="Series indexed by 'firm' and 'period'"):
        run({"OLS": LinearRegression()}, X, y, cv=WalkForward(1, known_at=late.to_numpy()))


def test_a_column_says_when_outcomes_are_known(panel):
    X, y = panel
    late = pd.Series(X.index.get_level_values("period") + 1, index=X.index).where(X["size"] < 0)
    frame = X.assign(growth=y, filed=late)
    read = read_panel(frame, outcome="growth", codes=["sic"], known_at="filed")
    assert "filed" not in read.columns and "rows, from the period in filed)" in str(read)
    result = compare({"OLS": LinearRegression()}, read, cv=WalkForward(1), decomposition=False, verbose=False)
    same = run({"OLS": LinearRegression()}, X, y, cv=WalkForward(1, known_at=late))
    assert np.array_equal(result.predictions["OLS"], same.predictions["OLS"])
    assert result.settings["split"] == same.settings["split"]
    with pytest.raises(InputError, match=r"leave known_at out here"):
        compare({"OLS": LinearRegression()}, frame, outcome="growth", cv=WalkForward(1, known_at="filed"))
    with pytest.raises(InputError, match="known_at: no column is named 'field'. Near matches: 'filed'"):
        read_panel(frame, outcome="growth", known_at="field")


def test_new_firms_were_never_seen_and_keep_their_peers(panel):
    X, y = panel
    split = NewFirms(WalkForward(4, 2), n_splits=3, random_state=1)
    firms, tested = X.index.get_level_values("firm"), []
    for train, test in split.split(X, y):
        assert not set(firms[train]) & set(firms[test])
        assert max(years(X, train)) < min(years(X, test))
        tested += list(test)
    assert sorted(tested) == list(np.flatnonzero(X.index.get_level_values("period") > 2010))
    assert split.get_n_splits(X) == 6
    shuffled = X.sample(frac=1, random_state=0)
    for (_, a), (_, b) in zip(split.split(X), split.split(shuffled), strict=True):
        assert set(X.index[a]) == set(shuffled.index[b])
    peers = {"Peers": IndustryPeerRegressor(industry="sic")}
    known = run(peers, X, y, task="nowcast").predictions.set_index(["firm", "period"]).sort_index()
    once = NewFirms(WalkForward(4, 4), n_splits=3, random_state=1)
    unseen = run(peers, X, y, task="nowcast", cv=once).predictions.set_index(["firm", "period"]).sort_index()
    pd.testing.assert_series_equal(known["Peers"], unseen["Peers"])  # same-period peers are all there
    assert not np.allclose(known["Own characteristics (OLS)"], unseen["Own characteristics (OLS)"])


def test_splitters_work_in_sklearns_validation(panel):
    X, y = panel
    split = NewFirms(WalkForward(4, 2), n_splits=2)
    scores = cross_validate(LinearRegression(), X[["size"]], y, cv=split, error_score="raise")
    assert len(scores["test_score"]) == split.get_n_splits(X)
    explained = cross_validate(CrossSectionalRidge(codes=["sic"]), X, y, cv=split, scoring=nowcast_score, error_score="raise")
    assert (explained["test_score"] > 0.3).all()


def test_a_search_explains_inside_the_walk_and_tells_its_trials(panel):
    X, y = panel
    inner = WalkForward(3, 3)
    search = GridSearchCV(CrossSectionalRidge(codes=["sic"]), {"alpha": [1.0, 1e6]}, cv=inner, scoring=nowcast_score)
    assert supports(search, "nowcast")
    result = run({"Tuned": search, "Piped": make_pipeline(search)}, X, y, task="nowcast")
    fixed = run({"Fixed": CrossSectionalRidge(codes=["sic"], alpha=1.0)}, X, y, task="nowcast")
    assert np.allclose(result.predictions["Tuned"], fixed.predictions["Fixed"])
    assert np.allclose(result.predictions["Piped"], result.predictions["Tuned"])
    assert [model.trials for model in result.models][:2] == [2, 2]
    assert "Settings tried inside the training rows of each fit: Tuned 2, Piped 2." in str(result)
    assert "Settings tried" not in str(fixed)


def test_explain_score_is_r2_of_what_the_others_tell(panel):
    X, y = panel
    model = IndustryPeerRegressor(industry="sic").fit(X, y)
    holes = y.where(np.arange(len(y)) % 5 > 0)
    predicted, known = model.predict(X, outcomes=holes), holes.notna()
    expected = 1 - ((y - predicted)[known] ** 2).sum() / ((y - y[known].mean())[known] ** 2).sum()
    assert nowcast_score(model, X, holes.sample(frac=1, random_state=0)) == pytest.approx(expected)
    with pytest.warns(IsolateWarning), pytest.raises(InputError, match="two known outcomes, got 1"):
        nowcast_score(model, X, y.where(np.arange(len(y)) == 3))
    with pytest.raises(InputError, match="Ridge uses no outcomes of peers; score it with scoring='r2'"):
        nowcast_score(Ridge().fit(X[["size"]], y), X[["size"]], y)


def test_the_level_control_is_there_to_explain_and_not_twice(panel):
    X, y = panel
    result = run({"Peers": IndustryPeerRegressor(industry="sic")}, X, y, task="nowcast")
    note = next(model for model in result.models if model.name == ALL_OTHER_FIRMS)
    assert note.information == "common" and note.control and ALL_OTHER_FIRMS not in result.networks
    one = result.predictions[result.predictions["period"] == 2014]
    rest = (one["outcome"].sum() - one["outcome"]) / (len(one) - 1)
    assert np.allclose(one[ALL_OTHER_FIRMS], rest)
    own = run({"Level": IndustryPeerRegressor(scheme="plain")}, X, y, task="nowcast")
    assert ALL_OTHER_FIRMS not in own.names and ALL_OTHER_FIRMS not in run({"R": Ridge()}, X, y).names


def test_several_outcomes_give_one_block_each(panel, tmp_path):
    recent = panel[0].index.get_level_values("period") > 2004
    X, y = (rows[recent] for rows in panel)
    flat = X.assign(roa=y, growth=y**2).reset_index()
    both = compare(
        {"Ridge": Ridge()},
        flat,
        outcome=["roa", "growth"],
        codes=["sic"],
        cv=WalkForward(4, 4),
        verbose=False,
    )
    assert isinstance(both, Comparisons) and list(both) == ["roa", "growth"] and len(both) == 2
    alone = run({"Ridge": Ridge()}, X, y)
    assert both["roa"].panel.choice.characteristics == ("size", "lev")
    assert np.allclose(both["roa"].predictions["Ridge"], alone.predictions["Ridge"])
    assert str(both).count("out of sample") >= 2 and both._repr_html_().count("<table") == 2
    assert both.to_frame().loc[("growth", "Ridge"), "rmse"] > 0
    page = both.to_html(tmp_path / "both.html").read_text(encoding="utf-8")
    for words in (
        "All outcomes",
        "roa: The models",
        "growth: The models",
        "Do peers help to predict roa, growth?",
    ):
        assert words in page
    assert f"{both['growth'].scores.loc['Ridge', 'r2_mean']:.4f}".replace("-", "−") in page.replace("-0", "−0")
    with pytest.raises(InputError, match="no outcome is named 'rao'.*'roa'"):
        both["rao"]
    for outcome, message in (
        (["roa", "roa"], "different column names"),
        (["roa", "x"], "no column is named 'x'"),
    ):
        with pytest.raises(InputError, match=message):
            compare({"Ridge": Ridge()}, flat, outcome=outcome, verbose=False)


def test_cross_attention_searches_a_reference(panel):
    X, y = panel
    reference = X.rename(index=lambda firm: f"R{firm}", level="firm")
    options = {"attention": "cross", "n_heads": 1, "kappa": None, "random_state": 0}
    across, explains = PeerAttentionRegressor(**options), PeerAttentionRegressor(task="nowcast", **options)
    result = run({"Across": across}, X, y, reference=reference)
    assert set(result.networks["Across"].edges()["peer"].str[0]) <= {"R"}
    seen = run({"Across": explains}, X, y, task="nowcast", reference=(reference, y.to_numpy()))
    assert "y of the period" in next(model for model in seen.models if model.name == "Across").reads
    with pytest.raises(InputError, match="pass reference=, without outcomes"):
        run({"Across": across}, X, y)
    with pytest.raises(InputError, match="cannot do task='forecast'"):
        run({"Across": explains}, X, y, reference=(reference, y.to_numpy()))
    with pytest.raises(InputError, match="no model uses it"):
        run({"Ridge": Ridge()}, X, y, reference=reference)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (NewFirms(n_splits=1), "n_splits: expected an integer of at least 2, got 1"),
        (NewFirms(n_splits=30), "n_splits: expected at most the 24 firms"),
    ],
)
def test_parameters_out_of_range(panel, split, message):
    with pytest.raises(InputError, match=message):
        list(split.split(*panel))
