"""PeerAttentionRegressor: the pool table row by row, options, weights, and a known network found again."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

from peerattn import PeerAttentionRegressor, nowcast_score
from peerattn.datasets import simulate_panel
from peerattn.exceptions import InputError, IsolateWarning
from peerattn.models import Reference
from peerattn.models.learners.heads.learner import HeadsLearner

# what is found is beside the point; heads of few steps would else enter by nothing
pytestmark = pytest.mark.usefixtures("fewest_steps", "heads_in_full")

FIRMS, YEARS = list("ABCDEFGHIJKL"), list(range(2001, 2007))
INDEX = pd.MultiIndex.from_product([FIRMS, YEARS], names=["firm", "period"])
REFERENCE_INDEX = pd.MultiIndex.from_product([list("ABCXYZ"), YEARS], names=["firm", "period"])
COLUMNS = ["size", "lev", "mom"]


def quick(**options):
    return PeerAttentionRegressor(**{"n_heads": 2, "kappa": None, "random_state": 0} | options)


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(72, 3)), index=INDEX, columns=COLUMNS)
    return X, pd.Series(X["size"] + rng.normal(size=72), index=INDEX, name="roa")


@pytest.fixture(scope="module")
def reference():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(36, 3)), index=REFERENCE_INDEX, columns=COLUMNS)
    return X, pd.Series(rng.normal(size=36), index=REFERENCE_INDEX)


def looked_at(network, firm, period=None):
    row = network.matrix(period).loc[firm]
    return set(row.index[row > 0])


# ---------------------------------------------------------------- arrays: the training rows, each new row alone


def test_arrays_look_to_the_training_rows():
    rng = np.random.default_rng(0)
    X, y, new = rng.normal(size=(30, 2)), rng.normal(size=30), rng.normal(size=(4, 2))
    for task in ("forecast", "nowcast"):
        model = quick(task=task).fit(X, y)
        W = model.peer_network(new).matrix()
        assert W.shape == (4, 30)
        np.testing.assert_allclose(W.sum(axis=1), 1)
        assert (W > 0).all(axis=None)
        if task == "nowcast":
            moved = clone(model).fit(X, y)
            assert np.array_equal(moved.predict(new), model.predict(new))


def test_arrays_with_outcomes_are_one_cross_section():
    rng = np.random.default_rng(0)
    X, y, new, told = (
        rng.normal(size=(30, 2)),
        rng.normal(size=30),
        rng.normal(size=(5, 2)),
        rng.normal(size=5),
    )
    model = quick(task="nowcast").fit(X, y)
    W = model.peer_network(new, outcomes=told).matrix().to_numpy()
    assert W.shape == (5, 5)
    assert (W.diagonal() == 0).all()
    assert not np.allclose(model.predict(new, outcomes=told), model.predict(new, outcomes=told[::-1].copy()))
    with pytest.raises(InputError, match="on arrays self-attention attends to the training rows"):
        quick().fit(X, y).predict(new, reference=X)


# ---------------------------------------------------------------- a panel, self-attention


def test_self_pool_is_the_period_of_the_call_without_the_own_firm(panel):
    X, y = panel
    model = quick().fit(X, y)
    some = X.drop([("A", 2002), ("B", 2002)])
    network = model.peer_network(some)
    assert looked_at(network, "C", 2002) == set(FIRMS) - {"A", "B", "C"}
    assert looked_at(network, "C", 2003) == set(FIRMS) - {"C"}


def test_self_pool_joins_a_reference(panel, reference):
    X, y = panel
    model = quick().fit(X, y)
    dated, undated = reference[0], reference[0].xs(2003, level="period")
    for universe in (dated, undated, Reference(dated)):
        network = model.peer_network(X, reference=universe)
        assert looked_at(network, "A", 2002) == (set(FIRMS) | set("XYZ")) - {"A"}
    rest = model.predict(X.loc[list("ABCDEF")], reference=X.loc[list("GHIJKL")])
    np.testing.assert_allclose(rest, model.predict(X)[X.index.isin(list("ABCDEF"), level="firm")], rtol=0, atol=1e-12)
    few = model.predict(X.loc[["A"]], reference=X)  # no warning of a small cross-section
    np.testing.assert_allclose(few, model.predict(X)[X.index.isin(["A"], level="firm")], rtol=0, atol=1e-12)
    fitted_with_it = quick().fit(X, y, reference=dated).peer_network(X)
    assert looked_at(fitted_with_it, "A", 2002) == (set(FIRMS) | set("XYZ")) - {"A"}
    with pytest.raises(InputError, match="reference: expected rows labelled by 'firm'"):
        model.predict(X, reference=X.reset_index(drop=True))


def test_self_outcomes_pool_is_the_known_outcomes_of_the_period(panel):
    X, y = panel
    model = quick(task="nowcast").fit(X, y)
    told = y.copy()
    told[[("A", 2002), ("B", 2002)]] = np.nan
    network = model.peer_network(X, outcomes=told)
    assert looked_at(network, "A", 2002) == set(FIRMS) - {"A", "B"}
    assert looked_at(network, "C", 2002) == set(FIRMS) - {"A", "B", "C"}
    assert np.isfinite(model.predict(X, outcomes=told)).all()


def test_self_outcomes_pool_joins_a_reference(panel, reference):
    X, y = panel
    model = quick(task="nowcast").fit(X, y)
    network = model.peer_network(X, outcomes=y, reference=reference)
    assert looked_at(network, "A", 2002) == (set(FIRMS) | set("XYZ")) - {"A"}
    rest = model.predict(
        X.loc[list("ABCDEF")],
        outcomes=y.loc[list("ABCDEF")],
        reference=(X.loc[list("GHIJKL")], y.loc[list("GHIJKL")]),
    )
    np.testing.assert_allclose(rest, model.predict(X, outcomes=y)[X.index.isin(list("ABCDEF"), level="firm")], rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
def test_a_period_without_known_outcomes_has_isolates(panel):
    X, y = panel
    model = quick(task="nowcast").fit(X, y)
    told = y.where(INDEX.get_level_values("period") != 2002)
    assert np.isfinite(model.predict(X, outcomes=told)).all()
    isolates = model.peer_network(X, outcomes=told).isolates
    assert set(isolates["period"]) == {2002}
    assert len(isolates) == 12


# ---------------------------------------------------------------- a panel, cross-attention


def test_cross_pool_is_the_reference_of_the_period_or_all_of_it(panel, reference):
    X, y = panel
    dated = quick(attention="cross").fit(X, y, reference=reference[0].drop(("X", 2002)))
    assert looked_at(dated.peer_network(X), "A", 2002) == set("BCYZ")
    assert looked_at(dated.peer_network(X), "D", 2003) == set("ABCXYZ")
    undated = quick(attention="cross").fit(X, y, reference=reference[0].xs(2001, level="period"))
    assert looked_at(undated.peer_network(X), "A", 2002) == set("BCXYZ")
    other = undated.peer_network(X, reference=reference[0].loc[["X", "Y"]])
    assert looked_at(other, "A", 2002) == {"X", "Y"}


def test_cross_prediction_reads_no_other_row_of_the_call(panel, reference):
    X, y = panel
    for options, given in (
        ({}, reference[0]),
        ({"task": "nowcast"}, reference),
        ({"n_layers": 2}, reference[0]),
    ):
        model = quick(attention="cross", **options).fit(X, y, reference=given)
        alone = model.predict(X.loc[["D"]])
        np.testing.assert_allclose(alone, model.predict(X)[X.index.isin(["D"], level="firm")], rtol=0, atol=1e-12)


def test_cross_outcomes(panel, reference):
    X, y = panel
    X_ref, y_ref = reference
    told = y_ref.copy()
    told[("X", 2002)] = np.nan
    model = quick(attention="cross", task="nowcast").fit(X, y, reference=(X_ref, told))
    assert not model.reads_outcomes
    assert looked_at(model.peer_network(X), "A", 2002) == set("BCYZ")
    own = told.copy()
    own["A"] = 1e6  # A is in the reference, too: it never reads itself
    same = X.index.isin(["A"], level="firm")
    np.testing.assert_array_equal(model.predict(X, reference=(X_ref, own))[same], model.predict(X, reference=(X_ref, told))[same])


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
def test_periods_without_reference_are_isolates(panel, reference):
    X, y = panel
    model = quick(attention="cross").fit(X, y, reference=reference[0].drop(2002, level="period"))
    with pytest.warns(IsolateWarning, match="12 of 72 rows have no admissible peer .first: A in 2002"):
        assert np.isfinite(model.predict(X)).all()


def test_cross_on_arrays():
    rng = np.random.default_rng(0)
    X, y, universe = rng.normal(size=(20, 2)), rng.normal(size=20), rng.normal(size=(7, 2))
    model = quick(attention="cross").fit(X, y, reference=universe)
    assert model.peer_network(X).matrix().shape == (20, 7)
    weight = rng.integers(0, 3, size=20)
    weighted = quick(attention="cross").fit(X, y, sample_weight=weight, reference=universe)
    repeated = quick(attention="cross").fit(np.repeat(X, weight, axis=0), np.repeat(y, weight), reference=universe)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-7)


# ---------------------------------------------------------------- calls and options that do not go together


def test_outcomes_where_they_have_no_meaning_and_where_they_are_missing(panel, reference):
    X, y = panel
    with pytest.raises(InputError, match="outcomes= was given, but a forecast uses no outcomes"):
        quick().fit(X, y).predict(X, outcomes=y)
    model = quick(task="nowcast").fit(X, y)
    for call in (model.predict, model.peer_network):
        with pytest.raises(
            InputError,
            match='task="nowcast" on a panel predicts from the peers\' outcomes: pass outcomes=',
        ):
            call(X)
    assert model.score(X, y) == pytest.approx(nowcast_score(model, X, y))
    cross = quick(attention="cross", task="nowcast").fit(X, y, reference=reference)
    with pytest.raises(InputError, match='attention="cross" uses the reference\'s: pass reference=.X_ref, y_ref'):
        cross.predict(X, outcomes=y)


@pytest.mark.parametrize(
    ("made_of", "message"),
    [
        (lambda X: "peers", "expected a frame, a matrix or a pair (X_ref, y_ref), got str of 0 dimensions"),
        (lambda X: X.iloc[:, 0], "expected a frame, a matrix or a pair (X_ref, y_ref), got Series of 1 dimensions"),
        (lambda X: (X, None, None), "expected a frame, a matrix or a pair (X_ref, y_ref), got a tuple of 3"),
        (lambda X: [[1.0], [1.0, 2.0]], "expected a frame, a matrix or a pair (X_ref, y_ref) (setting an array element"),
        (lambda X: X.iloc[:0], "X has 0 sample(s)"),
        (lambda X: pd.concat([X, X]), "duplicated (firm, period) rows"),
        (lambda X: X.rename(index=ord, level="firm"), "firm labels are text"),
        (lambda X: Reference(X, weight=np.ones(len(X))), "expected Reference(X, y), since peer_weight= was not given to fit"),
    ],
)
def test_what_cannot_be_a_reference_is_named(panel, reference, made_of, message):
    X, y = panel
    with pytest.raises(InputError, match=f"^reference: .*{re.escape(message)}"):
        quick(attention="cross").fit(X, y, reference=made_of(reference[0]))


def test_reference_where_it_is_missing_or_has_no_meaning(panel, reference):
    X, y = panel
    with pytest.raises(InputError, match='attention="cross" needs reference='):
        quick(attention="cross").fit(X, y)
    with pytest.raises(InputError, match='on arrays self-attention attends to the training rows; use attention="cross"'):
        quick().fit(X.to_numpy(), y.to_numpy(), reference=reference[0].to_numpy())
    with pytest.raises(InputError, match='X_ref, y_ref.*got no outcomes with task="nowcast"'):
        quick(attention="cross", task="nowcast").fit(X, y, reference=reference[0])
    with pytest.raises(InputError, match='expected X_ref alone, got outcomes with task="forecast"'):
        quick(attention="cross").fit(X, y, reference=reference)
    model = quick(attention="cross").fit(X, y, reference=reference[0])
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X, reference=reference[0].rename(columns={"lev": "leverage"}))
    with pytest.raises(InputError, match="duplicated"):
        model.predict(X, reference=pd.concat([reference[0]] * 2))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"attention": "crossed"}, "'attention' parameter .*Got 'crossed' instead. Near matches: 'cross'"),
        ({"task": "nowcats"}, "'task' parameter .*Near matches: 'nowcast'"),
        ({"own": "yes"}, "'own' parameter .*'linear'.* or an object implementing 'fit' and 'predict'. Got 'yes'"),
        ({"own": "lineer"}, "Near matches: 'linear'"),
        ({"loss": "absolute"}, "'loss' parameter .* or a float in the range .0.0, 1.0.. Got 'absolute'"),
        ({"loss": 1.5}, "'loss' parameter .*Got 1.5"),
        ({"kappa": -1.0}, "'kappa' parameter .* must be a float in the range .0.0, inf. or None. Got -1.0"),
        ({"similarity": "linear"}, "'similarity' parameter .*a str among"),
        ({"scale": "standardise"}, "'scale' parameter .*Near matches: 'standard'"),
        ({"n_heads": -1}, "'n_heads' parameter .* must be an int in the range .0"),
        ({"n_layers": 1.5}, "'n_layers' parameter .* must be an int"),
        ({"purge": -1}, "'purge' parameter .* must be an int"),
        ({"codes": "size"}, r"'codes' parameter .*'list'.*Got 'size' instead. Write \['size'\]"),
        ({"codes": ["sic"]}, "codes: no column is named 'sic'"),
    ],
)
def test_bad_options(panel, options, message):
    with pytest.raises(InputError, match=message):
        quick(**options).fit(*panel)


def test_a_device_that_torch_does_not_have(panel):
    with pytest.raises(InputError, match="device='abacus' cannot be used .*Use device=\"cpu\""):
        quick().fit(*panel, device="abacus")


def test_a_head_that_there_is_not(panel):
    model = quick().fit(*panel)
    with pytest.raises(InputError, match=r"head must be one of \[0.*\], got 7"):
        model.peer_network(panel[0], head=7)


def test_stacked_layers_have_no_search_profile(panel):
    with pytest.raises(InputError, match="search_profile.. needs scores x_i M x_j', which n_layers=2 does not have"):
        quick(n_layers=2).fit(*panel).search_profile()


# ---------------------------------------------------------------- learning


def test_same_seed_same_bits_and_global_generators_are_left_alone(panel):
    X, y = panel
    X = X.assign(sic=np.repeat(["0100", "3711"], 36))
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    first, second, other = (quick(n_layers=2, random_state=seed).fit(X, y) for seed in (0, 0, 1))
    predicted = first.predict(X)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    np.testing.assert_array_equal(predicted, second.predict(X))
    assert not first.peer_network(X).equals(other.peer_network(X))


def test_sample_weights_count_rows_on_arrays():
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(25, 2)), rng.normal(size=25), rng.integers(0, 4, size=25)
    for task in ("forecast", "nowcast"):
        weighted = quick(task=task, n_heads=1).fit(X, y, sample_weight=weight)
        repeated = quick(task=task, n_heads=1).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-7)


def test_rows_of_weight_zero_are_as_good_as_absent_in_a_panel(panel):
    X, y = panel
    weight = pd.Series(1.0, index=INDEX)
    weight["L"] = 0.0
    model = quick().fit(X, y, sample_weight=weight)
    changed = quick().fit(X, y.where(weight > 0, 1e3), sample_weight=weight)
    np.testing.assert_array_equal(model.predict(X), changed.predict(X))


def test_codes_are_learned():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(40), YEARS], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=240), "sic": np.repeat([100, 3711], 120)}, index=index)
    y = pd.Series(np.where(X["sic"] == 100, 1.0, -1.0) + 0.5 * rng.normal(size=240), index=index)
    model = quick(codes=["sic"]).fit(X, y)
    assert model.score(X, y) > 0.6
    assert model.feature_names_ == ["size", "sic[0]", "sic[1]", "sic[2]", "sic[3]"]
    only = quick(codes=["sic"]).fit(X[["sic"]], y)
    assert only.score(X[["sic"]], y) > 0.6


def test_an_own_estimator_in_full_is_an_error():
    """It would be fitted and left out: without held-out periods nothing weighs it."""
    panel = simulate_panel(10, 6, 2, random_state=0)
    with pytest.raises(InputError, match=r"own: .* Set kappa=1\.0"):
        PeerAttentionRegressor(own=LinearRegression(), kappa=None).fit(panel)


def test_a_classifier_is_no_own_model_of_a_regressor():
    with pytest.raises(InputError, match="own: PeerAttentionRegressor needs a regressor, got the classifier LogisticRegression"):
        PeerAttentionRegressor(own=LogisticRegression()).fit(simulate_panel(10, 6, 2, random_state=0))


# ---------------------------------------------------------------- a known network is found again


@pytest.fixture(scope="module")
def known(full_search):
    panel = simulate_panel(30, 50, 4, signal_share=0.7, own_share=0.3, d_head=2, sharpness=4, random_state=0)
    test = panel.X.index.get_level_values("period") >= "2003-07"
    with full_search(n_seeds=4, max_steps=150, max_draws=1):
        model = PeerAttentionRegressor(n_heads=1, own="linear", random_state=0)
        return panel, test, model.fit(panel.X[~test], panel.y[~test])


def test_beats_least_squares_clearly(known):
    panel, test, model = known
    ols = LinearRegression().fit(panel.X[~test], panel.y[~test])
    assert model.score(panel.X[test], panel.y[test]) > ols.score(panel.X[test], panel.y[test]) + 0.15


def test_network_correlates_with_the_truth(known):
    panel, test, model = known
    network, correlations = model.peer_network(panel.X[test]), []
    for period in network.periods:
        W = network.matrix(period)
        truth = panel.network.matrix(period).loc[W.index, W.columns].to_numpy()
        others = ~np.eye(len(W), dtype=bool)
        correlations.append(np.corrcoef(W.to_numpy()[others], truth[others])[0, 1])
    assert np.mean(correlations) > 0.9


def test_search_profile_has_the_signs_of_the_truth(known):
    """M is identified up to constants of a row of scores: with centred characteristics, M itself."""
    panel, _, model = known
    profile = model.search_profile()
    strongest = int(np.argmax(profile.shares))
    assert profile.shares.sum() == pytest.approx(1)
    spread = panel.X.std().to_numpy()
    found = profile.matrices[strongest].to_numpy() / np.outer(spread, spread)  # from standardised units
    truth = panel.parameters.query[0] @ panel.parameters.key[0].T
    assert np.corrcoef(found.ravel(), truth.ravel())[0, 1] > 0.95
    large = np.abs(truth) > 0.3 * np.abs(truth).max()
    assert (np.sign(found) == np.sign(truth))[large].all()
    value = np.asarray(profile.values[strongest]) / spread
    assert np.corrcoef(value, panel.parameters.information[0])[0, 1] > 0.95
    M = profile.matrices[strongest]
    np.testing.assert_allclose(profile.symmetric(strongest) + profile.antisymmetric(strongest), M)
    assert len(profile.to_frame()) == 16 * len(profile.heads)


def test_a_search_profile_shows_characteristics_alone(panel, monkeypatch):
    X, y = panel
    holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.2).assign(sic=["3711", "2911"] * 36)
    monkeypatch.setattr(HeadsLearner, "_fallbacks", lambda learner, sections: [])
    profile = quick().fit(holes, y).search_profile()
    assert len(profile.matrices[0]) > 6  # indicators and dimensions of the code are in the scores
    assert list(profile.named()) == COLUMNS == list(profile.symmetric())
    assert set(profile.to_frame()["peer"]) == set(COLUMNS) and "missing" not in str(profile)
    assert [label.get_text() for label in profile.plot().get_yticklabels()] == COLUMNS


def test_cross_attention_asks_for_the_reference_of_the_periods_it_predicts(panel, reference):
    X, y = panel
    past = X.index.get_level_values("period") < 2005
    answering = reference[0][reference[0].index.get_level_values("period") < 2005]
    model = quick(attention="cross").fit(X[past], y[past], reference=answering)
    with pytest.raises(
        InputError,
        match="reference: expected periods of X, 2005 to 2006, got that of fit, which holds 2001 to 2004",
    ):
        model.predict(X[~past])
    with pytest.raises(InputError, match="reference: expected periods of X, 2005 to 2006, got 2001 to 2004"):
        model.predict(X[~past], reference=answering)
    assert np.isfinite(model.predict(X[~past], reference=reference[0])).all()


def test_options_may_be_numpy_integers(panel):
    model = quick(n_heads=np.int64(1), d_head=np.int64(3)).fit(*panel)
    assert len(model.heads_) == len(model.members_)


@pytest.mark.parametrize("attention", ["self", "cross"])
def test_a_reference_labelled_by_another_type_is_refused(attention):
    simulated = simulate_panel(12, 8, 2, random_state=0)
    numbers = {name: k for k, name in enumerate(simulated.X.index.levels[0])}
    X, y = simulated.X.rename(index=numbers, level=0), simulated.y.to_numpy()
    model = PeerAttentionRegressor(
        attention=attention,
        task="nowcast",
        n_heads=1,
        kappa=None,
        random_state=0,
    )
    with pytest.raises(InputError, match="give them one type, so that each firm is left out of its own peers"):
        model.fit(X, y, reference=(simulated.X, simulated.y)).predict(X, outcomes=y)
