"""What every peer model owes its caller: order, labels, pools, isolates, warnings, networks."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from peerattn import IndustryPeerRegressor, NadarayaWatsonRegressor, PeerAttentionRegressor
from peerattn.exceptions import (
    CodeWarning,
    InputError,
    IsolateWarning,
    LabelWarning,
    LostPeriodWarning,
    SmallCrossSectionWarning,
)
from peerattn.models import (
    CommonShocksRegressor,
    FamaMacBethRegressor,
    FirmMeanRegressor,
    IndustryMeansRegressor,
    LastValueRegressor,
    OwnCharacteristicsRegressor,
    OwnHistoryRegressor,
    PeerFeatures,
)

pytestmark = pytest.mark.usefixtures("fewest_steps", "heads_in_full")  # what is found is beside the point

FIRMS, YEARS = list("ABCDEFGHIJKL"), range(2001, 2007)
INDEX = pd.MultiIndex.from_product([FIRMS, YEARS], names=["firm", "period"])
QUICK = {"n_heads": 2, "own": "linear", "kappa": None, "random_state": 0}
MODELS = {
    "attention": PeerAttentionRegressor(**QUICK),
    "outcomes": PeerAttentionRegressor(task="nowcast", **QUICK),
    "stacked": PeerAttentionRegressor(n_layers=2, **QUICK | {"n_heads": 1}),
    "industry": IndustryPeerRegressor(industry="sic"),
    "kernel": NadarayaWatsonRegressor(),
}


#: Peer models, which take arrays as one cross-section, and models of the firm's past or of periods.
READERS_OF_LABELS = [
    PeerAttentionRegressor(**QUICK),
    NadarayaWatsonRegressor(),
    LastValueRegressor(),
    FirmMeanRegressor(),
    FamaMacBethRegressor(),
    IndustryMeansRegressor(),
    OwnHistoryRegressor(),
    CommonShocksRegressor(),
    OwnCharacteristicsRegressor(effects=["firm"]),
]


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(72, 3)), index=INDEX, columns=["size", "lev", "mom"])
    X["sic"] = np.repeat(["3711", "3712", "3720", "2911"], 18)
    y = pd.Series(X["size"] - X["lev"] + rng.normal(size=72), index=INDEX, name="roa")
    return X, y


@pytest.fixture(scope="module")
def fitted(panel):
    return {name: clone(model).fit(*panel) for name, model in MODELS.items()}


def modes(model, y):
    """The calls that a fitted model takes."""
    calls = [] if model.needs_outcomes else [{}]
    return calls + ([{"outcomes": y}] if model.reads_outcomes else [])


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")  # unknown industries
@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_an_array_in_the_order_of_the_rows_and_never_nan(fitted, panel, name):
    X, y = panel
    holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.2)
    for call in modes(fitted[name], y):
        for frame in (X, holes):
            predicted = fitted[name].predict(frame, **call)
            assert type(predicted) is np.ndarray and predicted.shape == (len(X),)
            assert np.isfinite(predicted).all()
            order = np.random.default_rng(1).permutation(len(X))
            shuffled = frame.iloc[order].swaplevel()
            np.testing.assert_allclose(fitted[name].predict(shuffled, **call), predicted[order], atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_labels_in_columns(fitted, panel, name):
    X, y = panel
    flat = X.reset_index()
    for call in modes(fitted[name], y):
        predicted = fitted[name].predict(flat, **call)
        np.testing.assert_array_equal(predicted, fitted[name].predict(X, **call))


@pytest.mark.parametrize("name", MODELS)
def test_polars_gives_an_array(fitted, panel, name):
    polars = pytest.importorskip("polars")
    X, y = panel
    for call in modes(fitted[name], y):
        predicted = fitted[name].predict(polars.from_pandas(X.reset_index()), **call)
        assert isinstance(predicted, np.ndarray)
        np.testing.assert_array_equal(predicted, fitted[name].predict(X, **call))


@pytest.mark.parametrize("name", MODELS)
def test_periods_of_another_kind_change_nothing(fitted, panel, name):
    X, y = panel
    months = {year: pd.Timestamp(f"{year}-12-31") for year in YEARS}
    dated = X.rename(index=months, level="period")
    for kind in (
        dated,
        dated.set_index(dated.index.set_levels(dated.index.levels[1].to_period("M"), level=1)),
    ):
        other = clone(MODELS[name]).fit(kind, y.to_numpy())
        same = fitted[name]
        for call in modes(same, y.to_numpy()):
            np.testing.assert_array_equal(other.predict(kind, **call), same.predict(X, **call))
    assert other.peer_network(kind, **call).periods.dtype == "period[M]"


@pytest.mark.parametrize("name", MODELS)
def test_networks_are_what_predict_looked_at(fitted, panel, name):
    X, y = panel
    for call in modes(fitted[name], y):
        network = fitted[name].peer_network(X, **call)
        assert network.periods.tolist() == list(YEARS)
        for year in YEARS:
            W = network.matrix(year)
            assert W.index.tolist() == FIRMS
            np.testing.assert_allclose(W.sum(axis=1), 1, atol=1e-9)
            own = W.reindex(columns=W.index).to_numpy().diagonal()
            if call or not fitted[name].reads_outcomes:  # a forecast keeps the own past
                np.testing.assert_array_equal(own, 0)


@pytest.mark.parametrize("name", ["industry", "kernel"])
def test_predictions_of_fixed_peers_are_their_network_times_outcomes(fitted, panel, name):
    X, y = panel
    y = y.mask(np.random.default_rng(3).random(72) < 0.2)
    network = fitted[name].peer_network(X, outcomes=y)
    predicted = fitted[name].predict(X, outcomes=y)
    for year in YEARS:
        W = network.matrix(year)
        known = y.xs(year, level="period")
        np.testing.assert_allclose(
            W @ known[W.columns].fillna(0), predicted[X.index.get_level_values("period") == year], atol=1e-9
        )
        assert (W[known.index[known.isna()]] == 0).all(axis=None)  # nobody looks to unknown outcomes


def test_unknown_labels_are_asked_of_a_network(fitted, panel):
    network = fitted["attention"].peer_network(panel[0])
    with pytest.raises(InputError, match="unknown period '2010': periods run from 2001 to 2006"):
        network.matrix("2010")
    with pytest.raises(InputError, match="unknown firm 'AA' among 12 firms. Near matches: 'A'"):
        network.peers("AA")


# ---------------------------------------------------------------- rows without peers


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.SmallCrossSectionWarning")
@pytest.mark.parametrize("name", ["attention", "outcomes", "stacked"])
def test_a_lone_firm_is_an_isolate(fitted, panel, name):
    X, y = panel
    alone, call = X.loc[["A"]], {"outcomes": y.loc[["A"]]} if name == "outcomes" else {}
    with pytest.warns(
        IsolateWarning,
        match=r"6 of 6 rows have no admissible peer .first: A in 2001.: their peer term is zero",
    ):
        predicted = fitted[name].predict(alone, **call)
    assert np.isfinite(predicted).all()
    network = fitted[name].peer_network(alone, **call)
    assert network.isolates.to_numpy().tolist() == [[year, "A"] for year in YEARS]


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.SmallCrossSectionWarning")
@pytest.mark.parametrize("name", ["industry", "kernel"])
def test_a_lone_firm_of_fixed_peers_gets_a_finite_mean(fitted, panel, name):
    X, y = panel
    with pytest.warns(IsolateWarning, match="6 of 6 rows have no admissible peer"):
        predicted = fitted[name].predict(X.loc[["A"]], outcomes=y.loc[["A"]])
    np.testing.assert_allclose(predicted, y.mean())


@pytest.mark.parametrize("name", MODELS)
def test_one_firm_periods_and_unknown_periods_in_training(panel, name):
    X, y = panel
    lone = X[(INDEX.get_level_values("period") > 2001) | (INDEX.get_level_values("firm") == "A")]
    model = clone(MODELS[name]).fit(lone, y[lone.index])
    for call in modes(model, y):
        assert np.isfinite(model.predict(X, **call)).all()
    unknown = y.where(INDEX.get_level_values("period") > 2002)
    model = clone(MODELS[name]).fit(X, unknown)
    for call in modes(model, y):
        assert np.isfinite(model.predict(X, **call)).all()


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.UnitWarning")
@pytest.mark.parametrize("name", ["attention", "outcomes", "kernel"])
def test_constant_and_missing_columns(panel, name):
    X, y = panel
    X = X.assign(lev=3.0, mom=np.where(INDEX.get_level_values("period") == 2003, np.nan, X["mom"]))
    model = clone(MODELS[name]).fit(X, y)
    for call in modes(model, y):
        assert np.isfinite(model.predict(X, **call)).all()
        assert np.isfinite(model.predict(X.assign(lev=np.nan, size=np.nan), **call)).all()


@pytest.mark.parametrize("name", ["attention", "outcomes"])
def test_codes_never_seen_in_fit_count_as_unknown(panel, name):
    X, y = panel
    cells = pd.MultiIndex.from_arrays([X["sic"], X.index.get_level_values("period")])
    y = y + 3 * np.random.default_rng(1).normal(size=24)[pd.factorize(cells)[0]]  # what firms of a code share
    model = clone(MODELS[name]).fit(X, y)
    for call in modes(model, y):
        with pytest.warns(CodeWarning, match="'sic' holds no value of fit .* all count as unknown"):
            unseen = model.predict(X.assign(sic="7372"), **call)
        np.testing.assert_array_equal(unseen, model.predict(X.assign(sic=None), **call))
        assert (unseen != model.predict(X, **call)).any()


def test_no_outcome_at_all_is_an_error(panel):
    X, y = panel
    for model in MODELS.values():
        with pytest.raises(InputError, match="y has no known value: all 72 are NaN"):
            clone(model).fit(X, y * np.nan)


def test_every_characteristic_missing(panel):
    X, y = panel
    with (
        pytest.warns(Warning),
        pytest.raises(InputError, match="no characteristic with a known training value, and no code"),
    ):
        PeerAttentionRegressor(**QUICK).fit(X[["size"]] * np.nan, y)


# ---------------------------------------------------------------- calls that do not fit


def test_not_fitted(panel):
    for model in MODELS.values():
        for call in (model.predict, model.peer_network):
            with pytest.raises(NotFittedError):
                call(panel[0])


def test_industry_column_missing(panel):
    X, y = panel
    with pytest.raises(InputError, match="industry: no column is named 'sic4'. Near matches: 'sic'"):
        IndustryPeerRegressor(industry="sic4").fit(X, y)


@pytest.mark.parametrize("name", MODELS)
def test_columns_of_predict_differ(fitted, panel, name):
    X, y = panel
    for call in modes(fitted[name], y):
        with pytest.raises(ValueError, match="(?s)should match those that were passed during fit.*leverage"):
            fitted[name].predict(X.rename(columns={"lev": "leverage"}), **call)
        with pytest.raises(InputError, match="infinity in column 'lev'"):
            fitted[name].predict(X.assign(lev=np.inf), **call)
        with pytest.raises(InputError, match=r"duplicated .firm, period. rows, such as .A, 2001."):
            fitted[name].predict(pd.concat([X, X.iloc[:1]]), **call)


@pytest.mark.parametrize("name", ["outcomes", "industry", "kernel"])
def test_outcomes_of_other_rows(fitted, panel, name):
    X, y = panel
    with pytest.raises(InputError, match="labels of outcomes are not those of X"):
        fitted[name].predict(X, outcomes=y.rename({"A": "Z"}))
    with pytest.raises(InputError, match=r"outcomes has shape \(5,\)"):
        fitted[name].predict(X, outcomes=np.zeros(5))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("model", READERS_OF_LABELS, ids=lambda model: type(model).__name__)
def test_lost_periods_warn(panel, model):
    X, y = panel
    model = clone(model).fit(X.drop(columns="sic"), y)
    with pytest.warns(LostPeriodWarning, match="fitted on a panel but X carries no 'firm' and 'period'.*set_output"):
        predicted = model.predict(X.drop(columns="sic").to_numpy())
    assert np.isfinite(predicted).all()


@pytest.mark.parametrize("model", READERS_OF_LABELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("names", [["firm", "period"], ["gvkey", "fyear"]])
def test_periods_lost_before_fit_warn(panel, model, names):
    X, y = panel
    expected = f"y carries '{names[0]}' and '{names[1]}' but X does not.*set_output"
    with pytest.warns(LostPeriodWarning, match=expected) as caught:
        make_pipeline(StandardScaler(), clone(model)).fit(X.drop(columns="sic"), y.rename_axis(names))
    assert len(caught) == 1


@pytest.mark.filterwarnings("error")
def test_a_pipeline_that_keeps_the_index_is_the_model_alone(panel):
    X, y = panel
    X = X.drop(columns="sic")
    for model in (FirmMeanRegressor(), OwnHistoryRegressor(), NadarayaWatsonRegressor()):
        whole = make_pipeline(StandardScaler().set_output(transform="pandas"), clone(model)).fit(X, y)
        np.testing.assert_allclose(whole.predict(X), clone(model).fit(X, y).predict(X), rtol=1e-6)


@pytest.mark.parametrize("model", READERS_OF_LABELS[2:], ids=lambda model: type(model).__name__)
def test_models_of_the_past_on_arrays_warn(panel, model):
    """Bagging, say, makes arrays of X and y."""
    X, y = panel
    arrays = X.drop(columns="sic").to_numpy(), y.to_numpy()
    with pytest.warns(LostPeriodWarning, match="needs 'firm' and 'period', of which X carries neither"):
        clone(model).fit(*arrays)
    with pytest.warns(LostPeriodWarning, match="needs 'firm' and 'period'"):
        BaggingRegressor(model, n_estimators=1).fit(X.drop(columns="sic"), y)


def test_peer_features_warn_of_lost_periods(panel):
    X, y = panel
    with pytest.warns(LostPeriodWarning, match="y carries 'firm' and 'period'"):
        make_pipeline(StandardScaler(), PeerFeatures(), Ridge()).fit(X.drop(columns="sic"), y)


@pytest.mark.parametrize("name", ["industry", "kernel"])
def test_firms_of_another_type_would_read_themselves(panel, name):
    X, y = panel
    numbers = {firm: 1000 + k for k, firm in enumerate(FIRMS)}
    model = clone(MODELS[name]).fit(X.rename(numbers), y.to_numpy())
    with pytest.raises(
        InputError,
        match="firms of X are text, those of fit .*: give them the type of fit",
    ):
        model.predict(X.rename({firm: str(k) for firm, k in numbers.items()}))


@pytest.mark.parametrize("name", MODELS)
def test_small_cross_sections_warn(fitted, panel, name):
    X, y = panel
    few, some = X.loc[list("ADG")], X.loc[list("ABCDEF")]
    for call in modes(fitted[name], y.loc[list("ADG")]):
        if call or name in ("attention", "stacked"):
            with pytest.warns(SmallCrossSectionWarning, match=r"6 periods of X .first: 2001, 3 firms.*median of 12"):
                fitted[name].predict(few, **call)
    for call in modes(fitted[name], y.loc[list("ABCDEF")]):
        fitted[name].predict(some, **call)  # half is enough: no warning


def test_unbalanced_training_does_not_warn(panel):
    X, y = panel
    early = INDEX.get_level_values("period") < 2003
    X = X[~early | INDEX.get_level_values("firm").isin(list("ABC"))]
    for model in MODELS.values():
        clone(model).fit(X, y[X.index])


def test_score_is_r2_over_known_outcomes(fitted, panel):
    X, y = panel
    holes = y.mask(np.random.default_rng(0).random(72) < 0.3)
    for name in ("attention", "industry", "kernel"):
        predicted = fitted[name].predict(X)
        known = holes.notna()
        error, spread = (y - predicted)[known], (y - y[known].mean())[known]
        expected = 1 - (error**2).sum() / (spread**2).sum()
        assert fitted[name].score(X, holes.sample(frac=1, random_state=0)) == pytest.approx(expected)
        weight = pd.Series(np.arange(72.0), index=INDEX)
        w = weight[known]
        expected = 1 - (w * error**2).sum() / (w * (y[known] - np.average(y[known], weights=w)) ** 2).sum()
        assert fitted[name].score(X, holes, sample_weight=weight[::-1]) == pytest.approx(expected)


@pytest.mark.parametrize("name", MODELS)
def test_predict_changes_nothing_and_pickles(fitted, panel, name):
    X, y = panel
    model = fitted[name]
    before = pickle.dumps(model)
    for call in modes(model, y):
        copy = pickle.loads(before)
        np.testing.assert_array_equal(model.predict(X, **call), copy.predict(X, **call))
        model.peer_network(X, **call)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("name", MODELS)
def test_sample_weights_find_their_rows_by_label(panel, name):
    X, y = panel
    weight = pd.Series(np.random.default_rng(0).integers(0, 3, size=72), index=INDEX)
    by_label = clone(MODELS[name]).fit(X, y, sample_weight=weight.sample(frac=1, random_state=0))
    by_position = clone(MODELS[name]).fit(X, y, sample_weight=weight.to_numpy())
    for call in modes(by_label, y):
        np.testing.assert_array_equal(by_label.predict(X, **call), by_position.predict(X, **call))
    for wrong in (torch.zeros(()), 1 + 2j, ["x"] * len(X)):
        with pytest.raises(InputError, match="sample_weight: expected one number for each row"):
            clone(MODELS[name]).fit(X, y, sample_weight=wrong)
    with pytest.raises(InputError, match="labels of sample_weight are not those of X"):
        clone(MODELS[name]).fit(X, y, sample_weight=weight.iloc[:-1])
    with pytest.raises(ValueError, match="Negative values"):
        clone(MODELS[name]).fit(X, y, sample_weight=-weight.to_numpy() - 1)


@pytest.mark.parametrize("name", ["industry", "kernel"])
def test_a_forecast_reads_the_own_past(panel, name):
    X, y = panel
    past = INDEX.get_level_values("period") < max(YEARS)
    raised = y.where(INDEX.get_level_values("firm") != "A", y + 100.0)
    before, after = (clone(MODELS[name]).fit(X[past], v[past]).predict(X[~past]) for v in (y, raised))
    assert (after - before)[X[~past].index.get_level_values("firm") == "A"][0] > 0.1


def test_firms_that_differ_by_a_lasting_level_are_not_forecast_in_reverse_order(panel):
    """Without its own past the firm with the highest level has the lowest forecast (correlation −1)."""
    level = pd.Series(INDEX.get_level_values("firm").factorize()[0].astype(float), index=INDEX)
    past = INDEX.get_level_values("period") < max(YEARS)
    model = IndustryPeerRegressor(scheme="plain").fit(panel[0][past], level[past])
    assert model.predict(panel[0][~past]).std() == pytest.approx(0.0, abs=1e-12)


def test_a_frame_without_labels_is_said_to_be_one_cross_section(panel):
    X, y = panel
    flat = X.drop(columns="sic").reset_index(drop=True)
    with pytest.warns(LabelWarning, match=r"its 72 rows are one cross-section.*df.set_index\(\['firm', 'period'\]\)"):
        NadarayaWatsonRegressor().fit(flat, y.to_numpy())
    NadarayaWatsonRegressor().fit(flat.assign(firm=flat.index, period=2001), y.to_numpy())  # what the warning advises
    NadarayaWatsonRegressor().fit(flat.to_numpy(), y.to_numpy())  # an array is one on purpose
    NadarayaWatsonRegressor().fit(flat.set_axis([f"firm {k}" for k in range(72)]), y.to_numpy())


def test_columns_that_are_missing_at_predict_are_named(panel):
    X, y = panel
    model = NadarayaWatsonRegressor().fit(X.drop(columns="sic"), y)
    for columns, wording in (
        (["size", "mom"], r"not those of fit. Pass X(.|\n)*now missing:\n- lev"),
        (["size", "leverage", "mom"], r"Near matches: 'leverage'(.|\n)*unseen at fit time:\n- leverage"),
        (["mom", "lev", "size"], "must be in the same order"),
    ):
        wrong = X.rename(columns={"lev": "leverage"} if "leverage" in columns else {})[columns]
        with pytest.raises(InputError, match=wording) as caught:
            model.predict(wrong)
        assert "with size, lev, mom. The feature names should match" in str(caught.value)
