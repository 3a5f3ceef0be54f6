"""What a comparison claims, in ten kinds of results: every sentence is checked against the numbers."""

import re
from dataclasses import replace
from itertools import pairwise
from warnings import catch_warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import t as student
from scipy.stats import ttest_1samp
from sklearn.linear_model import Ridge

from peerattn.datasets import simulate_panel
from peerattn.evaluation import WalkForward, compare
from peerattn.evaluation.claims import NO, NOT_SHOWN, UNTESTED, YES, claims_of
from peerattn.evaluation.compared import ModelNote
from peerattn.evaluation.comparison import Comparison
from peerattn.evaluation.gains import HALF, PLANTED, _planted, concentration_of, gain_of, is_gain, saved_by_row, smallest_gain
from peerattn.evaluation.inference.forecast_tests import mean_test
from peerattn.evaluation.running.entries import STACK_WITHOUT
from peerattn.evaluation.running.fitting import STACK, Failure
from peerattn.evaluation.running.nested import exchanged, explained
from peerattn.evaluation.sample import PanelFacts
from peerattn.exceptions import InputError
from peerattn.models import PeerAttentionRegressor, StackedPeerRegressor
from peerattn.models.stacking.evidence import STEPS
from peerattn.models.wild_bootstrap import WildMean
from peerattn.network import PeerNetwork
from peerattn.panel import as_panel

pytestmark = pytest.mark.usefixtures("fewest_steps", "blank_pictures")  # what is found is beside the point

OWN, NONLINEAR, HISTORY, COMMON, PEERS = STEPS
#: The noise of the stack's prediction after each group; None where nothing of the group is selected.
GOOD = {OWN: 1.5, NONLINEAR: 1.4, HISTORY: 1.0, COMMON: None, PEERS: 0.5}
USERS, USERS_WITHOUT = 0.6, 1.2  # of the user's peer model, and of its own version without peers


def full_network(firms, period, weights=None, **options):
    n = len(firms)
    given = (np.ones((n, n)) - np.eye(n)) / max(n - 1, 1) if weights is None else weights
    return PeerNetwork.from_matrices({period: (firms, firms, given)}, **options)


def made(noise=GOOD, n_periods=24, n_firms=40, task="forecast", seed=0, users=USERS, **rest):
    """A comparison of predictions with given noise: OLS, a peer model of the user's, and the stack."""
    rng = np.random.default_rng(seed)
    period = np.repeat(np.arange(2001, 2001 + n_periods), n_firms)
    firm = np.tile([f"F{k:02d}" for k in range(n_firms)], n_periods)
    y = rng.normal(size=len(period))
    steps = pd.DataFrame(index=range(len(y)), columns=list(STEPS), dtype=float)
    last = 0 * y
    for name, size in noise.items():
        last = last if size is None else y + size * rng.normal(size=len(y))
        steps[name] = last
    frame = pd.DataFrame({"firm": firm, "period": period, "outcome": y, "OLS": steps[OWN]})
    frame["Peers"] = y + users * rng.normal(size=len(y))
    frame[STACK] = steps[PEERS]
    frame[STACK_WITHOUT] = steps[COMMON]
    frame.loc[3, "outcome"] = np.nan
    selected = {name: ((), 0) if size is None else (("part",), 2) for name, size in noise.items() if name != OWN}
    notes = (
        ModelNote("OLS"),
        ModelNote("Peers", "peers", fits=2),
        ModelNote(STACK, "peers", control=True, fits=2, selected=selected),
        ModelNote(STACK_WITHOUT, "common", control=True, fits=2),
    )
    network = full_network(list(frame["firm"].unique()), period[-1])
    networks = {"Peers": network} | ({STACK: network} if selected[PEERS][1] else {})
    own = pd.DataFrame({"Peers": y + USERS_WITHOUT * rng.normal(size=len(y)), STACK: steps[COMMON]})
    given = {"panel": PanelFacts(numbers=rng.normal(size=(len(y), 3))), "networks": networks}
    nested = {"stack": STACK, "steps": steps, "without_peers": own, "undecomposed": ""}
    return Comparison(frame, np.zeros(len(y)), notes, "OLS", task, "roa", **{**given, **nested, **rest})


def with_stack(result, values, without=None):
    """The same with other predictions of the stack, with peers and without."""
    frame = result.predictions.assign(**{STACK: values})
    steps = result.steps.assign(**{PEERS: np.asarray(values)})
    if without is not None:
        frame[STACK_WITHOUT] = without
        steps[COMMON] = np.asarray(without)
    return replace(result, predictions=frame, steps=steps)


def noted(result, **changes):
    """The same with other facts on the stack."""
    return replace(result, models=tuple(replace(m, **changes) if m.name == STACK else m for m in result.models))


def nothing_selected():
    return made({**GOOD, PEERS: None})


def untested():
    reason = "3.0 periods to judge by, where a forecast needs 4"
    return noted(nothing_selected(), untested={PEERS: reason})


def one_firm_gains():
    result = made({**GOOD, PEERS: 1.0})
    frame = result.predictions
    first = frame["firm"] == "F00"
    known = frame["outcome"].fillna(0)
    without = frame[STACK_WITHOUT] + 3.0 * first
    ours = (frame[STACK_WITHOUT] - 0.02 * (frame[STACK_WITHOUT] - known)).where(~first, known)
    return with_stack(result, ours, without)


def signed():
    result = made()
    firms = list(result.predictions["firm"].unique())
    weights = np.random.default_rng(0).normal(size=(40, 40)) * (1 - np.eye(40))
    network = full_network(firms, 2024, weights, signed=True)
    return replace(result, networks={STACK: network})


def failed():
    """The stack failed."""
    result = made()
    kept = tuple(m for m in result.models if m.name not in (STACK, STACK_WITHOUT))
    return replace(
        result,
        models=kept,
        predictions=result.predictions.drop(columns=[STACK, STACK_WITHOUT]),
        networks={"Peers": result.networks["Peers"]},
        failures=(Failure(STACK, 1, "ValueError: no"),),
        stack=None,
        steps=pd.DataFrame(),
        without_peers=result.without_peers[["Peers"]],
        undecomposed="the stack failed: ValueError: no",
    )


def stray():
    """Two further periods of one row each."""
    result = made()
    more = result.predictions.iloc[:2].assign(period=[1990, 1991], outcome=[9.0, -9.0])
    frame = pd.concat([more, result.predictions], ignore_index=True)
    tables = {
        name: pd.concat([table.iloc[:2], table], ignore_index=True)
        for name, table in (("steps", result.steps), ("without_peers", result.without_peers))
    }
    return replace(result, predictions=frame, training_mean=np.zeros(len(frame)), panel=PanelFacts(), **tables)


def returns():
    """Without a decomposition."""
    index = pd.MultiIndex.from_product([range(30), range(2000, 2020)], names=["firm", "period"])
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=len(index))}, index)
    y = (0.02 * X["size"] + 0.1 * rng.normal(size=len(index))).rename("ret_next")
    models = {"Ridge": Ridge(), "Attention": PeerAttentionRegressor(random_state=0)}
    return compare(models, X, y, cv=WalkForward(8, 8), decomposition=False, verbose=False)


def classes():
    """Firms of one class share a shock each period."""
    index = pd.MultiIndex.from_product([range(30), range(2000, 2020)], names=["firm", "period"])
    rng = np.random.default_rng(0)
    kind = index.get_level_values("firm").to_numpy() % 3
    shock = rng.normal(size=(3, 20))[kind, index.get_level_values("period") - 2000]
    X = pd.DataFrame({"size": rng.normal(size=len(index)), "class": kind.astype(str)}, index)
    y = (X["size"] + shock + rng.normal(size=len(index))).rename("roa")
    options = {"task": "nowcast", "industry": "class", "cv": WalkForward(6, 6), "verbose": False}
    return compare(["industry", "kernel"], X, y, **options)


KINDS = {
    "yes": (made, YES),
    "nothing selected": (nothing_selected, NO),
    "not tested": (untested, UNTESTED),
    "one period": (lambda: made(n_periods=1), UNTESTED),
    "one firm": (one_firm_gains, NOT_SHOWN),
    "few firms": (lambda: made(n_periods=4, n_firms=6), UNTESTED),
    "signed": (signed, YES),
    "peers harm": (lambda: made({**GOOD, PEERS: 1.2}), NO),
    "nothing shown": (lambda: made({**GOOD, PEERS: 0.985}, seed=2), NOT_SHOWN),
    "stack failed": (failed, UNTESTED),
    "stray periods": (stray, YES),
    "few periods": (lambda: made(n_periods=4), YES),
    "not decomposed": (returns, UNTESTED),
    "classes": (classes, None),
}


@pytest.fixture(scope="module")
def kinds():
    """Return each kind of result, made once."""
    found = {}

    def kind(name):
        if name not in found:
            found[name] = KINDS[name][0]()
        return found[name]

    return kind


@pytest.mark.parametrize("name", KINDS)
def test_every_claim_is_that_of_the_numbers(name, kinds):
    result, answer = kinds(name), KINDS[name][1]
    claims = result.claims
    assert answer is None or claims.answer == answer
    assert claims.answer in (YES, NOT_SHOWN, NO, UNTESTED)
    known = result.predictions["outcome"].notna().to_numpy()
    y = result.predictions["outcome"][known].to_numpy()
    base = ((y - result.training_mean[known]) ** 2).sum()

    def r2(predicted):
        return 1 - ((y - np.asarray(predicted)[known]) ** 2).sum() / base

    if result.stack is None:
        assert claims.steps == () and claims.answer == UNTESTED and claims.gain is None
    else:
        assert [step.name for step in claims.steps] == list(STEPS)
        for before, step in pairwise(claims.steps):
            assert step.r2 == pytest.approx(r2(result.steps[step.name]))
            assert step.gain.gain == pytest.approx(step.r2 - before.r2, abs=1e-12)
        last = claims.steps[-1]
        assert claims.gain.gain == pytest.approx(last.gain.gain, abs=1e-12)
        assert result.scores["r2_mean"][STACK] == pytest.approx(last.r2)
        assert result.scores["r2_mean"][STACK_WITHOUT] == pytest.approx(claims.steps[-2].r2)
    for gain in claims.models:
        own = gain.against.startswith("its own")
        against = result.without_peers[gain.model] if own else result.predictions[STACK_WITHOUT]
        assert gain.gain == pytest.approx(r2(result.predictions[gain.model]) - r2(against), abs=1e-12)
    tested = claims.answer == YES or (claims.answer == NOT_SHOWN and "little power" not in claims.why)
    assert (claims.p is not None) == tested
    assert not claims.answer == YES or (claims.p < 0.05 and not claims.concentration.rests_on)
    if tested:
        assert claims.gain.gain > 0 and len(result.periods) > 1
    assert (claims.smallest is not None) <= (claims.answer in (NOT_SHOWN, NO))


@pytest.mark.parametrize("name", KINDS)
def test_no_two_sentences_of_a_page_disagree(name, kinds, tmp_path):
    result = kinds(name)
    claims = result.claims
    whole = result.to_html(tmp_path / "r.html").read_text("utf-8")
    page = re.sub(r"<(svg|iframe|style).*?</\1>", " ", whole, flags=re.S)
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)).replace("\u00a0", " ")
    text = " ".join(str(result).split())
    for said in (page, text):
        assert set(re.findall(r"(?<=\? )(Yes|Not shown|No|Could not be tested)\b", said)) == {claims.answer}
    (title,) = re.findall("<title>(.*?)</title>", whole)
    assert title.endswith(f"? {claims.answer}")
    found = " ".join(result.summary())
    if claims.p is None:
        assert "one-sided p" not in found and "significant" not in found.lower()
    if claims.network is None:
        assert "Estimated peer network" not in page and "one-sided pairs" not in page
    else:
        signed = result.networks[claims.network].signed
        assert ("Its weights are signed" in page) == signed and ("one-sided pairs" not in page or not signed)
        assert f"The network of {claims.network} is empty" not in found
    if claims.steps:  # the figures of the first sentence, of the decomposition and of the table are the same
        written = [f"{step.r2:.3f}".replace("-", "−") for step in claims.steps]
        assert f"is {written[-1]} with peers and {written[-2]} without" in found or claims.gain.gain == 0
        (line,) = (sentence for sentence in result.summary() if "by nested models of one stack" in sentence)
        after = [re.findall(r"−?\d\.\d{3}", part)[0] for part in line.split("one stack: ")[1].split(" → ")]
        assert after == written
        if result.note(STACK).fits_with_peers == 0:
            assert "nothing selected" in line or "not tested" in line
    assert f"{result.n_firms:,} firms" in page
    if len(result.periods) == 1:
        assert "interval" not in found


def test_a_step_in_which_nothing_was_selected_has_no_gain_and_says_so():
    claims = nothing_selected().claims
    common = claims.steps[3]
    assert common.gain.gain == 0 and common.selected == "nothing selected"
    assert claims.steps[-1].gain.gain == 0 and "in none of 2 fits" in claims.why
    assert "peers" in str(claims) and "common shocks 0.502 (nothing selected)".split()[0] in str(claims)
    frame = claims.to_frame()
    assert list(frame.index) == list(STEPS) and frame.loc[PEERS, "gain"] == 0
    assert untested().claims.steps[-1].selected.startswith("not tested: 3.0 periods")
    assert untested().claims.empty == () and "is empty" not in " ".join(untested().summary())
    some = noted(made(), selected={name: (("heads", "ridge"), 1) for name in STEPS[1:]})
    assert some.claims.steps[-1].selected == "heads, ridge (in 1 of 2 fits)"


def test_the_users_peer_models_are_tested_against_the_stack_without_peers_and_their_own():
    claims = made().claims
    against = [(gain.model, gain.against) for gain in claims.models]
    assert against == [("Peers", STACK_WITHOUT), ("Peers", "its own version without peers")]
    said = " ".join(made().summary())
    assert "Peers against Stack without peers: +" in said and "Peers against its own version without peers: +" in said
    # one that is better than the stack without peers is named where the stack's own peers are not
    assert nothing_selected().claims.why.endswith(", though Peers predicts better than the stack without peers")
    assert "though" not in made(GOOD | {PEERS: None}, users=1.0).claims.why
    alone = failed().claims
    assert [gain.against for gain in alone.models] == ["its own version without peers"]


@pytest.fixture(scope="module")
def nowcast():
    panel = simulate_panel(16, 12, 2, n_industries=2, random_state=0)
    options = {"task": "nowcast", "cv": WalkForward(4, 2), "verbose": False}
    return panel, options


def test_the_answer_is_not_no_where_no_network_would_have_been_found():
    few = made({**GOOD, COMMON: 3.0, PEERS: None}, n_periods=2, n_firms=12, users=3.0)
    assert few.claims.smallest == np.inf and few.claims.answer == NOT_SHOWN
    assert "? Not shown: peers were selected in none of 2 fits, but the test has little power." in few.summary()[0]


def test_of_a_constant_outcome_nothing_is_tested():
    result = made({**GOOD, PEERS: None}, n_periods=4)
    same = replace(result, predictions=result.predictions.assign(outcome=1.0), training_mean=np.ones(160))
    with catch_warnings(action="error"):
        claims = same.claims
    assert (claims.answer, claims.why) == (UNTESTED, "the outcome is the same in all tested rows")
    assert claims.steps == () and claims.gain is None and "+" not in " ".join(same.summary())


def test_a_model_without_chosen_peers_that_is_the_best_is_named():
    best = made({**GOOD, OWN: 0.1})
    r2 = best.scores["r2_mean"]["OLS"]
    assert f"The highest held-out R², {r2:.3f}, is that of a model without chosen peers: OLS." in best.summary()
    assert "highest" not in " ".join(made().summary())
    equal = with_stack(best, best.predictions["OLS"])
    assert "highest" not in " ".join(equal.summary())


def test_models_that_choose_no_peers_are_not_left_out_without_a_reason():
    result = made()
    means = replace(result.models[0], name="OLS", information="common")
    named = replace(result, models=(means, *result.models[1:]), networks={**result.networks, "OLS": result.networks["Peers"]})
    (line,) = (text for text in named.summary() if text.startswith("Difference in held-out R²"))
    assert line.endswith("; not of OLS, which chooses no peers.")
    assert "chooses no peers" not in " ".join(result.summary())


def test_the_report_shows_the_gain_of_each_half_of_the_tested_periods(tmp_path):
    result = made()
    page = result.to_html(tmp_path / "r.html").read_text(encoding="utf-8")
    for half in ("2001 to 2012", "2013 to 2024"):
        assert half in page


def test_the_stack_is_fitted_once_and_its_steps_are_its_own_predictions(nowcast):
    panel, options = nowcast
    model = StackedPeerRegressor(task="nowcast", random_state=0)
    mine = compare({"Mine": model}, panel.X, panel.y, **options)
    assert mine.stack == "Mine" and STACK not in mine.names and STACK_WITHOUT in mine.names
    added = compare(["kernel"], panel.X, panel.y, **options)
    assert added.stack == STACK
    pd.testing.assert_frame_equal(mine.steps, added.steps)
    period = panel.X.index.get_level_values("period")
    last = sorted(period.unique())[-2:]
    learn, ask = period < last[0], period.isin(last)
    fitted = model.fit(panel.X[learn], panel.y[learn])
    expected = fitted.predict_steps(panel.X[ask], outcomes=panel.y[ask])
    labels = pd.MultiIndex.from_frame(mine.predictions[["firm", "period"]])
    found = mine.steps.set_axis(labels)[labels.get_level_values("period").isin(last)]
    pd.testing.assert_frame_equal(found.sort_index(), expected.sort_index(), check_names=False)
    np.testing.assert_array_equal(mine.predictions["Mine"], mine.steps[PEERS])
    np.testing.assert_array_equal(mine.predictions[STACK_WITHOUT], mine.steps[COMMON])


def test_a_stack_of_other_options_is_a_model_beside_the_default_one(nowcast):
    panel, options = nowcast
    options = options | {"cv": WalkForward(4, 4)}
    other = StackedPeerRegressor(task="nowcast", own="linear", n_heads=0, random_state=0)
    result = compare({"Linear": other}, panel.X, panel.y, **options)
    assert result.stack == STACK and [gain.model for gain in result.claims.models] == ["Linear", "Linear"]
    with pytest.raises(InputError, match="the name 'Stack with peers' is that of the stack which compare adds"):
        compare({STACK: other}, panel.X, panel.y, **options)
    without = compare({"Linear": other}, panel.X, panel.y, decomposition=False, **options)
    assert without.stack is None and without.claims.answer == UNTESTED
    assert "decomposition=False" in without.claims.why and STACK_WITHOUT not in without.names
    with pytest.raises(InputError, match="the comparison was not decomposed; name a model"):
        without.gain_by_firm()


def test_a_gain_over_time_is_that_of_the_mean_test():
    result = made()
    gain = gain_of(result, STACK, STACK_WITHOUT)
    frame = result.predictions.dropna()
    saved = (frame["outcome"] - frame[STACK_WITHOUT]) ** 2 - (frame["outcome"] - frame[STACK]) ** 2
    share = saved / (frame["outcome"] ** 2).mean()
    series = share.groupby(frame["period"]).sum().to_numpy() * 24 / len(frame)
    found = mean_test(series)
    assert (gain.t, gain.p) == pytest.approx((found.t, found.p_value))
    half = abs(found.mean / found.t) * student.ppf(0.975, found.freedom)
    assert (gain.low, gain.high) == pytest.approx((found.mean - half, found.mean + half))
    scores = result.scores["r2_mean"]
    assert gain.gain == pytest.approx(scores[STACK] - scores[STACK_WITHOUT])


def test_few_periods_are_clustered_by_firm_or_by_a_code_that_gives_the_larger_p():
    rng = np.random.default_rng(4)
    result = made(n_periods=6, n_firms=260)
    frame = result.predictions
    industry = np.tile(np.arange(260) % 13, 6)
    frame["OLS"] = frame["outcome"] + 1.0 * rng.normal(size=13)[industry] + 0.3 * rng.normal(size=1560)
    frame["Peers"] = frame["outcome"] + 0.5 * rng.normal(size=13)[industry] + 0.3 * rng.normal(size=1560)
    labels = pd.Series(industry.astype(str), pd.MultiIndex.from_frame(frame[["firm", "period"]]), dtype=object)
    grouped = replace(result, predictions=frame, panel=PanelFacts(groups={"sic": labels, "size, fifths": labels}))
    by_code, by_firm = (
        gain_of(grouped, "Peers", "OLS"),
        gain_of(replace(grouped, panel=PanelFacts()), "Peers", "OLS"),
    )
    assert by_code.how == "by sic" and by_firm.how == "by firm" and by_firm.p < 0.05 < by_code.p
    known = frame.dropna()
    saved = (known["outcome"] - known["OLS"]) ** 2 - (known["outcome"] - known["Peers"]) ** 2
    cluster = pd.factorize(industry[frame["outcome"].notna()])[0]
    mean = WildMean(np.bincount(cluster, saved) / (known["outcome"] ** 2).mean(), np.bincount(cluster))
    assert by_code.p == pytest.approx(mean.p) and by_code.t == pytest.approx(mean.t)
    assert by_code.high - by_code.low > 2 * (by_firm.high - by_firm.low)
    ours = with_stack(grouped, frame["Peers"], frame["OLS"])
    assert "clustered by sic (13 clusters), given these periods" in " ".join(ours.summary())


def test_few_periods_that_gain_unevenly_are_tested_by_period():
    """Of four quarters one has two thirds of the gain: firms are many, and their shocks are common."""
    result = made(n_periods=4, n_firms=200)
    frame = result.predictions
    share = frame["period"].map({2001: 0.9, 2002: 0.3, 2003: 0.1, 2004: 0.05})
    ours = frame[STACK_WITHOUT] + share * (frame["outcome"].fillna(0) - frame[STACK_WITHOUT])
    uneven = with_stack(result, ours)
    gain = uneven.claims.gain
    known = uneven.known
    saved = (known["outcome"] - known[STACK_WITHOUT]) ** 2 - (known["outcome"] - known[STACK]) ** 2
    sums = saved.groupby(known["period"]).sum() / (known["outcome"] ** 2).mean() * 4 / len(known)
    assert gain.how == "by period" and (gain.t, gain.p) == pytest.approx(tuple(ttest_1samp(sums, 0.0)))
    assert gain.p > 0.05 and uneven.claims.answer == NOT_SHOWN
    assert "over 4 periods as if they were independent" in " ".join(uneven.summary())


def test_a_kernel_in_a_forecast_is_no_peer_model():
    index = pd.MultiIndex.from_product([range(20), range(2001, 2016)], names=["firm", "period"])
    X = pd.DataFrame({"size": np.random.default_rng(0).normal(size=300)}, index)
    y = (X["size"] ** 2).rename("roa")
    options = {"cv": WalkForward(4, 4), "decomposition": False, "verbose": False}
    result = compare(["kernel", "cross_sectional_ridge"], X, y, **options)
    assert result.peer_models == [] and result.claims.models == ()
    why = "the comparison was not decomposed (decomposition=False)"
    assert repr(result.claims) == f"Claims(Could not be tested: {why}; 0 steps)"
    assert str(result.claims).startswith(f"Do peers help? Could not be tested: {why}.")


def test_concentration_counts_firms_groups_and_periods():
    result = one_firm_gains()
    gain = result.claims.gain
    found = concentration_of(result, gain)
    assert found.firms_for_half == 1 and found.largest["firm"][0] == "F00" and "1 firm" in found.rests_on
    frame = made().predictions
    lucky = frame[STACK_WITHOUT].where(frame["period"] != 2005, frame["outcome"].fillna(0))
    rest = concentration_of(with_stack(made(), lucky), replace(gain, gain=1.0))
    assert rest.largest["period"] == ("2005", pytest.approx(1.0)) and "one period, 2005" in rest.rests_on
    assert claims_of(with_stack(made(), lucky)).answer != YES
    even = concentration_of(made(), made().claims.gain)
    assert even.rests_on == "" and even.firms_for_half > 4 and even.largest["firm"][1] < HALF


def test_a_gain_does_not_rest_on_a_period_without_which_it_is_still_significant():
    result = made()
    frame = result.predictions
    error = (frame[STACK_WITHOUT] - frame["outcome"]).where(frame["period"] == 2005, 0).fillna(0)
    noisy = with_stack(result, frame[STACK], frame[STACK_WITHOUT] + 6 * error)
    rows = saved_by_row(noisy, noisy.known[STACK], noisy.known[STACK_WITHOUT])
    at = (rows["period"] == 2005).to_numpy()
    assert rows["gain"][at].sum() > HALF * rows["gain"].sum()
    found = concentration_of(noisy, gain_of(noisy, STACK, STACK_WITHOUT))
    assert found.largest["period"][0] == "2005" and found.largest["period"][1] > HALF
    assert found.rests_on == "" and is_gain(noisy, rows[~at])


def test_a_gain_rests_on_a_period_without_which_it_is_a_significant_loss():
    result = made()
    frame = result.predictions
    without = frame[STACK_WITHOUT]
    error = (without - frame["outcome"]).fillna(0)
    worse = (without + error / 2).where(frame["period"] != 2005, frame["outcome"].fillna(0))
    losing = with_stack(result, worse, without + 9 * error.where(frame["period"] == 2005, 0))
    gain = losing.claims.gain
    rows = saved_by_row(losing, losing.known[STACK], losing.known[STACK_WITHOUT])
    rest = rows[rows["period"] != 2005]
    assert gain.gain > 0 > rest["gain"].mean() and not is_gain(losing, rest)
    assert "one period, 2005" in concentration_of(losing, gain).rests_on


def test_gains_by_firm_add_up_to_the_gain():
    result = made()
    frame = result.gain_by_firm()
    claims = result.claims
    assert (frame["rows"] * frame["gain"]).sum() / frame["rows"].sum() == pytest.approx(claims.gain.gain)
    assert frame["share"].sum() == pytest.approx(1) and frame["gain"].is_monotonic_decreasing
    assert (frame["low"] < frame["gain"]).all() and (frame["gain"] < frame["high"]).all()
    labels = pd.MultiIndex.from_frame(result.predictions[["firm", "period"]])
    half = pd.Series(np.where(labels.get_level_values("firm") < "F20", "a", "b"), labels, dtype=object)
    groups = result.gain_by(half)
    assert list(sorted(groups.index)) == ["a", "b"] and groups["share"].sum() == pytest.approx(1)
    assert result.gain_by(half.swaplevel()).equals(groups)  # levels are found by name
    # levels without names are firm and period in this order: in another order no row would have a group
    for wrong in (half.swaplevel().rename_axis([None, None]), half.groupby(level="firm").first()):
        with pytest.raises(InputError, match="groups: expected an index of firm and period"):
            result.gain_by(wrong)
        with pytest.raises(InputError, match="by: expected"):
            result.by(wrong)


def test_intervals_of_gains_are_those_of_a_constant_clustered_by_firm():
    """Of firms with other numbers of rows: the mean over rows, with the error of that mean."""
    result = made()
    frame = result.predictions
    frame = frame.assign(outcome=frame["outcome"].where((frame["firm"] > "F10") | (frame["period"] > 2018)))
    result = replace(result, predictions=frame)
    labels = pd.MultiIndex.from_frame(frame[["firm", "period"]])
    found = result.gain_by(pd.Series(np.where(frame["firm"] < "F20", "a", "b"), labels, dtype=object))
    rows = saved_by_row(result, result.known[STACK], result.known[STACK_WITHOUT])
    for group, here in rows.groupby(np.where(rows["firm"] < "F20", "a", "b")):
        firms = {"groups": pd.factorize(here["firm"])[0], "df_correction": True}
        fit = sm.OLS(here["gain"], np.ones(len(here))).fit(cov_type="cluster", cov_kwds=firms, use_t=True)
        expected = [fit.params.iloc[0], *fit.conf_int().iloc[0]]
        assert found.loc[group, ["gain", "low", "high"]].tolist() == pytest.approx(expected, rel=1e-6)


def test_power_is_that_of_planted_networks():
    """The larger the noise, the larger a network must be; what would be found is found by the test."""
    small, large = (made({**GOOD, OWN: size}) for size in (0.2, 2.0))
    found = [smallest_gain(result, "OLS") for result in (small, large)]
    assert 0 < found[0] < found[1]
    assert smallest_gain(made(n_periods=1), STACK_WITHOUT) is None
    assert smallest_gain(replace(small, panel=PanelFacts()), "OLS") is None


def test_an_empty_network_is_said_to_be_empty_and_never_drawn():
    result = nothing_selected()
    firms = list(result.predictions["firm"].unique())
    empty = full_network(firms, 2024, np.zeros((40, 40)))
    users = replace(result, networks={"Peers": empty, STACK: empty})
    assert users.claims.network is None and users.claims.empty == ("Peers", STACK)
    assert f"The network of Peers and {STACK} is empty: no peers were selected." in users.summary()
    # of the last fit alone: peers were selected in others
    last = replace(made(), networks={"Peers": empty, STACK: empty})
    assert last.claims.network is None and last.claims.empty == ("Peers",)


def test_the_placebo_keeps_own_fits_and_periods_and_breaks_the_rest(tmp_path):
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(20), range(2000, 2012)], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=240)}, index)
    shock = rng.normal(size=12)[index.get_level_values(1) - 2000]
    y = (3 * X["size"] + 2 * shock + rng.normal(size=240)).rename("roa")
    panel = as_panel(X, y).sorted()
    changed = exchanged(panel, explained(panel), np.random.default_rng(1)).sorted()
    before, after = panel.sorted().y, changed.y
    np.testing.assert_allclose(before.groupby(level=1).mean(), after.groupby(level=1).mean())
    assert np.corrcoef(X["size"].reindex(after.index), after)[0, 1] > 0.6
    assert not np.allclose(before, after)
    options = {"cv": WalkForward(3, 3), "task": "nowcast", "verbose": False, "store": tmp_path}
    result = compare(["kernel"], X, y, placebo=2, **options)
    assert result.placebo.shape == (2,) and "refitted 2 times" in " ".join(result.summary())
    stored = sorted(path.name for path in tmp_path.iterdir())
    again = compare(["kernel"], X, y, placebo=2, **options)
    np.testing.assert_array_equal(again.placebo, result.placebo)
    assert stored == sorted(path.name for path in tmp_path.iterdir())  # refits were found there
    with pytest.raises(InputError, match="placebo: expected 0 beside decomposition=False"):
        compare(["kernel"], X, y, placebo=2, decomposition=False, **options)


def test_firms_of_small_industries_do_not_keep_their_outcomes_in_a_placebo():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(30), range(2000, 2008)], names=["firm", "period"])
    firm = index.get_level_values(0)
    large = firm < 10
    X = pd.DataFrame({"size": rng.normal(size=240), "sic": np.where(large, "0100", (2000 + firm).astype(str))}, index)
    y = pd.Series(rng.normal(size=240) + 50 * large, index, name="roa")
    panel = as_panel(X, y, industry="sic").sorted()
    after = exchanged(panel, explained(panel), np.random.default_rng(1)).sorted().y
    assert np.isclose(after, panel.y, atol=1e-6).mean() < 0.15
    mean = panel.y.groupby(level="period").mean()
    # the large industry keeps what its firms share
    of_large = panel.X.index.get_level_values("firm") < 10
    np.testing.assert_allclose(after[of_large].groupby(level="period").mean(), panel.y[of_large].groupby(level="period").mean())
    np.testing.assert_allclose(after.groupby(level="period").mean(), mean)


@pytest.mark.parametrize("n_firms", [8, 40])
def test_the_power_of_few_periods_is_that_of_the_test_that_is_made(n_firms):
    """A planted network of the share that is named is found by the gain's own test; where there is no test there is no power."""
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(n_firms), range(2000, 2012)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(len(index), 2)), index, ["size", "lev"])
    y = (X["size"] + rng.normal(size=len(index))).rename("roa")
    result = compare({"OLS": Ridge()}, X, y, cv=WalkForward(8, 8), decomposition=False, verbose=False)
    least = smallest_gain(result, "OLS")
    if n_firms < 12:
        assert least is None
        return
    known = result.known
    noise = (known["outcome"] - known["OLS"]).to_numpy()
    base = ((known["outcome"] - known["training_mean"]) ** 2).mean()
    when = pd.factorize(known["period"], sort=True)[0]
    numbers = result.panel.numbers[result.predictions["outcome"].notna().to_numpy()]
    draws = np.random.default_rng(0)
    n_found = {share: 0 for share in (least, least / 10)}
    for _ in range(PLANTED):
        planted = _planted(numbers, when, draws)
        planted *= np.sqrt(base / np.mean(planted**2))
        for share in n_found:
            gains = 2 * np.sqrt(share) * noise * planted + share * planted**2
            n_found[share] += is_gain(result, known[["firm", "period"]].assign(gain=gains / base))
    assert n_found[least] >= 0.7 * PLANTED and n_found[least / 10] < 0.8 * PLANTED
