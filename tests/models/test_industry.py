"""Industry peers: shrinkage, value weights, Fama–French industries, other classifications."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_estimator

from peerattn import nn
from peerattn.exceptions import CodeWarning, InputError, IsolateWarning
from peerattn.models import IndustryMedianRegressor, IndustryPeerRegressor
from peerattn.panel import sic_to_fama_french

SIC = ["3711", "3711", "3714", "3720", "3721", "2911", "2990", "1311", "7372", "7373", "7374"]


def simulated_panel(n_firms=24, n_periods=3, seed=0):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(n_firms), range(2001, 2001 + n_periods)], names=["firm", "period"])
    index = index[rng.permutation(len(index))]
    X = pd.DataFrame({"sic": rng.choice(SIC, len(index)), "mv": rng.lognormal(size=len(index))}, index=index)
    y = pd.Series(rng.normal(size=len(index)) + (X["sic"].str[:2] == "37"), index=index, name="ret")
    return X, y


def shrunk_means(X, y, k, min_peers=1, weight=None):
    """Plain code: from all firms down to the full code, each group's mean pulled towards the wider one's."""
    firm, period = (X.index.get_level_values(name).to_numpy() for name in ("firm", "period"))
    codes, y = X["sic"].tolist(), y.reindex(X.index).to_numpy()
    weight = np.ones(len(X)) if weight is None else weight.to_numpy()
    out = []
    for row, code in enumerate(codes):
        others = np.flatnonzero((period == period[row]) & (firm != firm[row]))
        estimate = None
        for digits in (0, 1, 2, 3, 4):
            group = [other for other in others if codes[other][:digits] == code[:digits]]
            if len(group) < (min_peers if digits else 1):
                continue
            mean = np.average(y[group], weights=weight[group])
            share = 1.0 if estimate is None else len(group) / (len(group) + k)
            estimate = mean if estimate is None else share * mean + (1 - share) * estimate
        out.append(estimate)
    return np.array(out)


@pytest.mark.filterwarnings("ignore:X carries neither")  # its frames have no labels
@pytest.mark.parametrize("options", [{"shrinkage": "leave_one_out"}, {"shrinkage": 2.0}], ids=str)
def test_check_estimator(options):
    check_estimator(IndustryPeerRegressor(**options))


@pytest.mark.parametrize(("shrinkage", "min_peers"), [(0.0, 3), (1.5, 1), (20.0, 3)])
def test_shrinkage_by_brute_force(shrinkage, min_peers):
    X, y = simulated_panel()
    model = IndustryPeerRegressor(industry="sic", shrinkage=shrinkage, min_peers=min_peers).fit(X[["sic"]], y)
    expected = shrunk_means(X, y, shrinkage, min_peers)
    np.testing.assert_allclose(model.predict(X[["sic"]], outcomes=y), expected, atol=1e-12)


def test_value_weights_by_brute_force():
    X, y = simulated_panel()
    model = IndustryPeerRegressor(industry="sic", value_weight="mv", shrinkage=2.0).fit(X, y)
    np.testing.assert_allclose(model.predict(X, outcomes=y), shrunk_means(X, y, 2.0, weight=X["mv"]), atol=1e-12)


def test_chosen_shrinkage_has_least_error():
    X, y = simulated_panel(40)
    model = IndustryPeerRegressor(industry="sic", shrinkage="leave_one_out").fit(X[["sic"]], y)
    errors = {}
    for k in (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0):
        given = IndustryPeerRegressor(industry="sic", shrinkage=k).fit(X[["sic"]], y)
        errors[k] = ((given.predict(X[["sic"]], outcomes=y) - y) ** 2).sum()
    assert model.shrinkage_ == min(errors, key=errors.get) > 0


@pytest.mark.parametrize(
    "options", [{}, {"shrinkage": 3.0}, {"shrinkage": 3.0, "value_weight": "mv"}, {"scheme": "ff49"}], ids=str
)
@pytest.mark.parametrize("told", [True, False])
def test_network_rebuilds_the_prediction(options, told):
    X, y = simulated_panel()
    model = IndustryPeerRegressor(industry="sic", **options).fit(X, y)
    call = {"outcomes": y} if told else {}
    panel, sections = model._gate_call(X, call.get("outcomes"))
    rebuilt = np.empty(len(X))
    for section in sections:
        W = model._weights(section, slice(0, len(section.focal)))
        np.testing.assert_allclose(W.sum(axis=1), 1.0, atol=1e-12)
        assert (W[~section.admissible()] == 0).all()
        rebuilt[section.at] = W @ section.peers.y
    np.testing.assert_allclose(panel.restore(rebuilt), model.predict(X, **call), atol=1e-12)
    assert len(model.peer_network(X, **call).periods) == 3


def test_fama_french_scheme_is_the_column_of_its_names():
    X, y = simulated_panel()
    by_scheme = IndustryPeerRegressor(industry="sic", scheme="ff12").fit(X[["sic"]], y)
    named = pd.DataFrame({"ff": sic_to_fama_french(X["sic"], 12)})
    by_column = IndustryPeerRegressor(industry="ff", scheme="plain").fit(named, y)
    np.testing.assert_array_equal(by_scheme.predict(X[["sic"]], outcomes=y), by_column.predict(named, outcomes=y))
    assert set(by_scheme.peer_levels(X[["sic"]], outcomes=y)) <= {0, 1}


@pytest.mark.parametrize(("column", "digits"), [("naics", (6, 5, 4, 3, 2)), ("gics", (8, 6, 4, 2))])
def test_other_classifications_nest_by_their_own_digits(column, digits):
    X, y = simulated_panel()
    code = {"naics": "336111", "gics": "25102010"}[column]
    X = pd.DataFrame({column: [code[: len(code) - k % 3] + "9" * (k % 3) for k in range(len(X))]}, index=X.index)
    model = IndustryPeerRegressor(industry=column, min_peers=2).fit(X, y)
    assert model.levels_ == (*digits, 0)
    assert set(model.peer_levels(X, outcomes=y)) <= {*digits, 0}


def test_equal_weighted_peers_are_attention_with_scores_of_zero_and_minus_infinity():
    import torch

    X, y = simulated_panel(n_periods=1)
    W = IndustryPeerRegressor(industry="sic", scheme="plain").fit(X[["sic"]], y).peer_network(X[["sic"]], outcomes=y).matrix()
    code = X.droplevel("period").loc[W.index, "sic"].to_numpy()
    same = torch.tensor((code[:, None] == code) & ~np.eye(len(code), dtype=bool))
    alone = ~same.any(dim=1)
    empty = torch.zeros(len(code), 1, dtype=torch.float64)
    expected = nn.attention_weights(empty, empty, mask=same)
    np.testing.assert_allclose(W.to_numpy()[~alone], expected[~alone], atol=1e-15)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.BoundedOutcomeWarning")  # an outcome moved far
def test_own_outcome_and_later_values_have_no_influence():
    X, y = simulated_panel()
    model = IndustryPeerRegressor(industry="sic", shrinkage=2.0, value_weight="mv").fit(X, y)
    before, shocked = model.predict(X, outcomes=y), y.copy()
    shocked.iloc[3] += 1e3
    period = X.index.get_level_values("period")
    after = model.predict(X, outcomes=shocked)
    assert after[3] == pytest.approx(before[3], abs=1e-11)
    assert (after[period != period[3]] == before[period != period[3]]).all()
    changed = X.assign(sic=X["sic"].mask(period == 2003, "0100"))
    assert (model.predict(changed, outcomes=y)[period < 2003] == before[period < 2003]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shrinkage": -1.0}, "'shrinkage' parameter"),
        ({"shrinkage": "loo"}, "'shrinkage' parameter"),
        ({"scheme": "ff17"}, "'scheme' parameter .*Near matches"),
        ({"value_weight": "mvv"}, "value_weight: no characteristic is named 'mvv'. Near match"),
        ({"value_weight": "debt"}, "value_weight: column 'debt' must be positive, got -1"),
    ],
)
def test_bad_options(options, message):
    X, y = simulated_panel()
    with pytest.raises(InputError, match=message):
        IndustryPeerRegressor(industry="sic", **options).fit(X.assign(debt=-1.0 + (np.arange(len(X)) > 0) / 2), y)


def test_an_industry_code_that_is_not_used_is_named():
    X = pd.DataFrame({"firm": list("ABCD"), "period": 2001, "sic": ["37", "37", "29", "29"]})
    with pytest.warns(CodeWarning, match="column 'sic' looks like an industry code: pass industry='sic'"):
        IndustryPeerRegressor().fit(X, [1.0, 2.0, 5.0, 6.0])
    IndustryPeerRegressor(scheme="plain").fit(X, [1.0, 2.0, 5.0, 6.0])  # the mean of all firms is meant
    IndustryPeerRegressor(industry="sic").fit(X, [1.0, 2.0, 5.0, 6.0])


@pytest.mark.parametrize("model", [IndustryPeerRegressor, IndustryMedianRegressor])
@pytest.mark.parametrize("scheme", ["ff12", "ff48", "ff49"])
def test_numbers_of_groups_are_no_sic_codes(model, scheme):
    X, y = simulated_panel()
    numbers = pd.DataFrame({scheme: np.arange(len(X)) % 12 + 1}, X.index)
    held = f"scheme='{scheme}' groups SIC codes; column '{scheme}' holds 1, 2, 3: leave scheme out"
    with pytest.raises(InputError, match=held):
        model(industry=scheme, scheme=scheme).fit(numbers, y)
    model(industry=scheme).fit(numbers, y)
    least = X.assign(sic=np.where(numbers[scheme] > 6, 100, np.nan))
    model(industry="sic", scheme=scheme).fit(least[["sic"]].assign(one=X["sic"] == "3711"), y)


@pytest.mark.parametrize(
    ("column", "value", "kind"),
    [("sic", "Technology", "SIC"), ("sic", "37111", "SIC"), ("sic", "-1", "SIC"), ("naics", "Telecom", "NAICS"),
     ("gics", "251020101", "GICS")],
)  # fmt: skip
def test_what_is_no_code_is_not_nested_by_its_first_letters(column, value, kind):
    X, y = simulated_panel()
    codes = pd.DataFrame({column: X["sic"].mask(X["sic"] == "3711", value)})
    with pytest.raises(InputError, match=f"{column}: '{value}' is not a {kind} code.*scheme=\"plain\""):
        IndustryPeerRegressor(industry=column, scheme=column).fit(codes, y)
    plain = IndustryPeerRegressor(industry=column, scheme="plain").fit(codes, y)
    with pytest.warns(CodeWarning, match=f"{column}: '{value}' is not a {kind} code.*taken as they are"):
        by_name = IndustryPeerRegressor(industry=column).fit(codes, y)
    np.testing.assert_allclose(by_name.predict(codes, outcomes=y), plain.predict(codes, outcomes=y))


def test_codes_of_any_column_and_spelling_nest():
    X, y = simulated_panel()
    codes = X["sic"].mask(X["sic"] == "3711", "0100")
    expected = IndustryPeerRegressor(industry="sic").fit(codes.to_frame(), y).predict(codes.to_frame(), outcomes=y)
    for given in (codes, codes.astype(int), codes.astype(float), codes.astype(int).astype("category")):
        found = given.to_frame("branch")
        model = IndustryPeerRegressor(industry="branch", scheme="sic").fit(found, y)
        np.testing.assert_array_equal(model.predict(found, outcomes=y), expected)


def test_a_firm_alone_gets_the_mean_of_training():
    X, y = simulated_panel(1)
    with pytest.warns(IsolateWarning, match="the mean of all other firms, or of training where there are none"):
        found = IndustryPeerRegressor(industry="sic").fit(X[["sic"]], y).predict(X[["sic"]], outcomes=y)
    assert found == pytest.approx(y.mean())


def test_rows_of_no_weight_have_no_say_in_the_shrinkage():
    """Early periods, in which industries differ by much, count as little there as in the means."""
    rng = np.random.default_rng(1)
    index = pd.MultiIndex.from_product([range(30), range(6)], names=["firm", "period"])
    group, period = np.repeat(np.arange(30) % 6, 6), index.get_level_values("period").to_numpy()
    X = pd.DataFrame({"code": group.astype(str)}, index)
    y = pd.Series(np.where(period < 3, 3.0, 0.0) * rng.normal(size=(6, 6))[group, period] + rng.normal(size=180), index)
    late = period >= 3

    def fitted(X, y, weight=None):
        model = IndustryPeerRegressor(industry="code", scheme="plain", shrinkage="leave_one_out")
        return model.fit(X, y, sample_weight=weight).shrinkage_

    assert fitted(X, y, late.astype(float)) == fitted(X[late], y[late]) == 20
    assert fitted(X, y) == 0
