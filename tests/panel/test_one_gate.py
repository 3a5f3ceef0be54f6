"""One panel, one gate: what once went wrong between a frame and its figures."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from peerattn import WalkForward, compare, nowcast_score
from peerattn.exceptions import InputError
from peerattn.models import (
    CrossSectionalRidge,
    FamaMacBethRegressor,
    FirmMeanRegressor,
    IndustryMeansRegressor,
    IndustryPeerRegressor,
    LastValueRegressor,
    NadarayaWatsonRegressor,
    OwnCharacteristicsRegressor,
    PeerAttentionRegressor,
    Prior,
)
from peerattn.models.cross_section import identities
from peerattn.panel import as_panel
from peerattn.panel.panel import panel_digest

# what is found is beside the point; heads of few steps would else enter by nothing
pytestmark = pytest.mark.usefixtures("fewest_steps", "heads_in_full")

CV = WalkForward(test_periods=2, refit_every=2)
FORECASTERS = [
    FamaMacBethRegressor(),
    FirmMeanRegressor(),
    LastValueRegressor(),
    IndustryMeansRegressor(),
    OwnCharacteristicsRegressor(),
]


def simulated(n_firms=30, n_periods=8, seed=0, names=("a", "b")):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(1, n_firms + 1), range(2001, 2001 + n_periods)])
    X = pd.DataFrame(rng.normal(size=(len(index), 2)), index.set_names(["firm", "period"]), list(names))
    y = X[names[0]] + 0.5 * pd.Series(rng.normal(size=len(index)), X.index)
    return X, y.rename("roa")


def r2(names, codes=None, models=("ols",), holes=False):
    X, y = simulated(names=names)
    if holes:
        X = X.mask(np.random.default_rng(5).random(X.shape) < 0.2)
    for name, values in (codes or {}).items():
        X[name] = np.resize(values, len(X))
    return compare(list(models), X, y, cv=CV, decomposition=False, verbose=False).scores["r2_mean"]


# ---------------------------------------------------------------- 1, 2: roles are no names


@pytest.mark.parametrize(
    "names",
    [("a_missing", "b_missing"), ("sic=0100", "b"), ("a", "a_missing"), ("s=u", "b"), ("firm", "period")],
)
def test_names_of_characteristics_change_no_control(names):
    pd.testing.assert_series_equal(of_controls(names), of_controls(("a", "b")), rtol=1e-12)


@cache
def of_controls(names):
    return r2(names, {"s": ["u", "v", "w"]}, ["ols", "fama_macbeth", "boosting"], holes=True)


def test_ols_and_the_automatic_control_are_one_model():
    for holes in (False, True):
        named, automatic = (r2(("a", "b"), models=models, holes=holes) for models in (["ols"], ["mean"]))
        label = "Own characteristics (OLS)"
        assert named[label] == automatic[label]


# ---------------------------------------------------------------- 3: forecasters pass the gate


@pytest.mark.parametrize("model", FORECASTERS, ids=str)
def test_forecasters_find_outcomes_by_label(model):
    polars = pytest.importorskip("polars")
    X, y = simulated()
    expected = model.fit(X, y).predict(X)
    shuffled = model.fit(X, y.sample(frac=1, random_state=0)).predict(X)
    np.testing.assert_array_equal(shuffled, expected)
    flat = model.fit(polars.from_pandas(X.reset_index()), y).predict(polars.from_pandas(X.reset_index()))
    np.testing.assert_array_equal(flat, expected)
    panel = as_panel(X, y)
    np.testing.assert_array_equal(model.fit(panel).predict(panel), expected)
    r2 = 1 - ((y - expected) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    for given in ((X, y), (X, y.sample(frac=1, random_state=0)), (panel,)):
        assert model.score(*given) == pytest.approx(r2)


# ---------------------------------------------------------------- 5: an index without names


def test_an_index_that_can_be_read_in_two_ways_is_refused():
    index = pd.MultiIndex.from_product([range(3), range(3)], names=["firm", "period"])
    X = pd.DataFrame({"a": np.arange(9.0)}, index)
    y = X["a"].swaplevel().sort_index().rename_axis([None, None])
    with pytest.raises(InputError, match=r"read as \(firm, period\) and as \(period, firm\): name its levels"):
        as_panel(X, y)
    assert as_panel(X, y.rename_axis(["period", "firm"])).y.tolist() == X["a"].tolist()
    years = X.set_axis(index.set_levels([2001, 2002, 2003], level=1))
    y = years["a"].swaplevel().sort_index().rename_axis([None, None])
    assert as_panel(years, y).y.tolist() == X["a"].tolist()


# ---------------------------------------------------------------- 6: a weight of 0 is a row left out

SEEDED = {
    "n_heads": 1,
    "kappa": None,
    "random_state": 0,
}


@pytest.mark.parametrize(
    "model",
    [
        CrossSectionalRidge(),
        CrossSectionalRidge(scale="rank"),
        NadarayaWatsonRegressor(),
        IndustryPeerRegressor(industry="s"),
        PeerAttentionRegressor(**SEEDED),
    ],
    ids=str,
)
def test_a_weight_of_zero_is_a_row_left_out(model):
    X, y = simulated(20, 6)
    X = X.mask(np.random.default_rng(1).random(X.shape) < 0.3).assign(s=np.resize(["u", "v", "w"], len(X)))
    X.loc[(3, 2001), "s"] = "only here"
    weight = pd.Series(1, X.index)
    weight[np.random.default_rng(2).random(len(X)) < 0.3] = 0
    weight[(3, 2001)] = 0
    zero = model.fit(X, y, sample_weight=weight.sample(frac=1, random_state=0)).predict(X)
    out = model.fit(X[weight > 0], y[weight > 0], sample_weight=weight[weight > 0]).predict(X)
    np.testing.assert_allclose(zero, out, rtol=1e-10)
    with pytest.raises(ValueError, match="at least one non-zero|one above 0"):
        model.fit(X, y, sample_weight=0 * weight)


# ---------------------------------------------------------------- 7: the own group


def test_firms_of_another_type_in_the_reference_are_refused():
    mine = pd.Index([(1, None), (2, "g")], tupleize_cols=False)
    theirs = pd.Index([("1", None), ("2", "g")], tupleize_cols=False)
    with pytest.raises(InputError, match="firm labels are integers .* in one place, text"):
        identities(mine, theirs)


def test_a_group_unknown_on_one_side_lets_no_own_outcome_in():
    X, y = simulated(12, 4)
    X["group"] = [f"g{firm // 2}" for firm in X.index.get_level_values("firm")]
    reference = X.copy()
    reference.loc[X.index.get_level_values("firm") % 3 == 0, "group"] = None
    options = {"attention": "cross", "task": "nowcast", "prior": Prior("group", exclude=True), **SEEDED}
    model = PeerAttentionRegressor(**options).fit(X, y, reference=(reference, y))
    base = model.predict(X, reference=(reference, y))
    for firm in (3, 6):
        moved = y.copy()
        moved[firm] += 100
        again = model.predict(X, reference=(reference, moved))
        own = X.index.get_level_values("firm") == firm
        assert np.abs(again - base)[own].max() == 0
        assert np.abs(again - base).max() > 0
    text = reference.rename(str, level="firm")
    with pytest.raises(InputError, match="firm labels are"):
        model.predict(X, reference=(text, y.rename(str, level="firm")))


# ---------------------------------------------------------------- one panel for all


def test_a_panel_is_taken_everywhere():
    X, y = simulated()
    panel = as_panel(X, y)
    assert as_panel(panel) is panel
    model = IndustryPeerRegressor().fit(panel)
    np.testing.assert_array_equal(model.predict(panel), model.predict(X))
    np.testing.assert_array_equal(model.predict(panel, outcomes=y), model.predict(X, outcomes=y))
    assert nowcast_score(model, panel, y) == nowcast_score(model, X, y)
    for ours, theirs in zip(CV.split(panel), CV.split(X, y), strict=True):
        assert [part.tolist() for part in ours] == [part.tolist() for part in theirs]
    options = {"cv": CV, "decomposition": False, "verbose": False}
    tables = [compare(["ols", "kernel"], *given, **options).scores for given in ((panel,), (X, y))]
    pd.testing.assert_frame_equal(*tables)


@pytest.mark.parametrize("model", [CrossSectionalRidge(codes=["group"]), IndustryPeerRegressor(industry="group")])
def test_codes_that_the_model_alone_declares(model):
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(12), range(2001, 2007)], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=72), "group": rng.integers(1, 4, 72)}, index)
    y = pd.Series(rng.normal(size=72), index, name="y")
    undeclared, declared = (as_panel(X, y, codes=codes) for codes in ((), ("group",)))
    expected = model.fit(X, y).predict(X, outcomes=y)
    for panel in (undeclared, declared):
        np.testing.assert_array_equal(model.fit(panel).predict(panel, outcomes=y), expected)
    alike = [
        compare(
            {"m": model}, X, y, codes=codes, task="nowcast", cv=WalkForward(2), decomposition=False, verbose=False
        ).predictions["m"]
        for codes in ((), ("group",))
    ]
    np.testing.assert_array_equal(*alike)


def test_predict_reads_no_outcome_that_a_panel_holds():
    X, y = simulated()
    model = CrossSectionalRidge().fit(X, y)
    moved = as_panel(X, y + 100 * np.random.default_rng(0).normal(size=len(y)))
    np.testing.assert_array_equal(model.predict(moved), model.predict(X))


@pytest.mark.parametrize("kind", ["int", "Int64", "timestamp", "period"])
def test_the_digest_covers_when_outcomes_are_known(kind):
    X, y = simulated(4, 3)
    period = pd.Series(X.index.get_level_values("period"), X.index)
    year = period + 1
    as_kind = {
        "timestamp": lambda v: pd.to_datetime(v.astype(str), format="%Y"),
        "period": lambda v: pd.Series(pd.PeriodIndex(v.astype(str), freq="Y"), v.index),
    }.get(kind, lambda v: v.astype(kind))
    # dates are of the kind of the periods
    labels = pd.MultiIndex.from_arrays([X.index.get_level_values("firm"), as_kind(period)], names=["firm", "period"])
    X.index = y.index = year.index = labels
    dates = as_kind(year)

    def digest(known_at, seed=0):
        return panel_digest(as_panel(X.sample(frac=1, random_state=seed), y, known_at=known_at).sorted())

    assert digest(dates) == digest(dates, seed=1) != digest(None)
    for changed in (as_kind(year + (np.arange(12) == 5)), dates.where(np.arange(12) != 5)):
        assert digest(changed) != digest(dates)
    if kind in ("int", "Int64"):
        assert digest(dates) == digest(year.astype(float))


def test_weights_and_dates_are_aligned_once():
    X, y = simulated(4, 3)
    weight = pd.Series(np.arange(12.0), X.index)
    shuffled = X.sample(frac=1, random_state=0)
    panel = as_panel(shuffled, y, weights={"loss_weight": weight[::-1]}, known_at=y * 0 + 2002)
    assert panel.weights["loss_weight"].tolist() == weight.loc[shuffled.index].tolist()
    assert panel.known_at.tolist() == [2002.0] * 12
    with pytest.raises(InputError, match="loss_weight must be at least 0, finite and known in every row; 1 rows are not"):
        as_panel(X, y, weights={"loss_weight": [-1.0] + [1.0] * 11})


DATES = pd.date_range("2001-01-01", periods=12)
NO_NUMBERS = {
    "datetime64": DATES,
    "timedelta64": DATES - DATES[0],
    "period": DATES.to_period("M"),
    "datetime": DATES.astype(object),
    "complex": np.arange(12) + 1j,
}


@pytest.mark.parametrize("values", [*NO_NUMBERS.values(), pd.Categorical(DATES)], ids=[*NO_NUMBERS, "category"])
@pytest.mark.parametrize("door", ["y", "outcomes", "sample_weight", "score", "loss_weight", "peer_weight", "compare"])
def test_dates_durations_and_complex_numbers_are_no_outcomes_or_weights(values, door):
    X, y = simulated(4, 3)
    given = pd.Series(values, X.index, name="given")
    ridge = CrossSectionalRidge(alpha=1.0)
    heads = PeerAttentionRegressor(n_heads=0)
    doors = {
        "y": lambda: ridge.fit(X, given),
        "outcomes": lambda: ridge.fit(X, y).predict(X, outcomes=given),
        "sample_weight": lambda: ridge.fit(X, y, sample_weight=given),
        "score": lambda: ridge.fit(X, y).score(X, y, sample_weight=given),
        "loss_weight": lambda: heads.fit(X, y, loss_weight=given),
        "peer_weight": lambda: heads.fit(X, y, peer_weight=given),
        "compare": lambda: compare({"Ridge": ridge}, X, given, cv=WalkForward(1, 1), decomposition=False, verbose=False),
    }
    name = {"score": "sample_weight", "compare": "y"}.get(door, door)
    with pytest.raises(InputError, match=rf"{name} must hold numbers \(it holds (complex|datetime|period|timedelta)"):
        doors[door]()


@pytest.mark.filterwarnings("ignore:X carries neither")
@pytest.mark.parametrize("values", [DATES.to_numpy(), (DATES - DATES[0]).to_numpy()], ids=["dates", "durations"])
def test_arrays_of_dates_are_no_outcomes_or_weights(values):
    X, y = simulated(4, 3)
    x = X.to_numpy()
    ridge = CrossSectionalRidge(alpha=1.0)
    with pytest.raises(InputError, match="y must hold numbers"):
        ridge.fit(x, values)
    with pytest.raises(InputError, match="sample_weight: expected one number for each row"):
        ridge.fit(x, y.to_numpy(), sample_weight=values)


@pytest.mark.filterwarnings("ignore:X carries neither")
@pytest.mark.parametrize("one", [2, 2.0, np.int64(2), np.float32(2)])
def test_one_number_is_the_frequency_weight_of_all_rows(one):
    X, y = simulated(4, 3)
    x, outcomes = (values.to_numpy() for values in (X, y))
    every = CrossSectionalRidge(alpha=1.0).fit(x, outcomes, sample_weight=np.full(12, 2.0)).predict(x)
    np.testing.assert_allclose(CrossSectionalRidge(alpha=1.0).fit(x, outcomes, sample_weight=one).predict(x), every)
    with pytest.raises(InputError, match="sample_weight: expected one number for each row, got complex numbers"):
        CrossSectionalRidge(alpha=1.0).fit(x, outcomes, sample_weight=1j)


@pytest.mark.parametrize("name", ["loss_weight", "peer_weight"])
def test_infinite_weights_are_an_error(name):
    X, y = simulated(4, 3)
    weight = np.where(np.arange(12) < 5, 1.0, np.inf)
    with pytest.raises(InputError, match=rf"{name} must be at least 0, finite and known.*; 7 rows are not \(first: row 5\)"):
        PeerAttentionRegressor(n_heads=0).fit(X, y, **{name: weight})
