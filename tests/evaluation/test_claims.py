"""What a comparison claims, in ten kinds of results: every sentence is checked against the numbers."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student
from sklearn.linear_model import Ridge

from peerattn.evaluation import WalkForward, compare
from peerattn.evaluation.claims import (
    HALF,
    NO,
    NOT_SHOWN,
    UNJUDGED,
    YES,
    claims_of,
    concentration_of,
)
from peerattn.evaluation.compared import ModelNote, PanelFacts
from peerattn.evaluation.comparison import Comparison
from peerattn.evaluation.gains import gain_of, is_gain, saved_by_row, smallest_gain
from peerattn.evaluation.inference.forecast_tests import mean_test
from peerattn.evaluation.running.fitting import Failure
from peerattn.evaluation.running.placebo import exchanged
from peerattn.models import IndustryPeerRegressor, PeerAttentionRegressor
from peerattn.models.wild_bootstrap import WildMeans
from peerattn.network import PeerNetwork
from peerattn.panel import as_panel

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point

STEPS = {"OLS": "own lines", "Boosting": "own shape", "History": "own history", "Peers": "peers"}


def made(noise, n_periods=24, n_firms=40, task="forecast", steps=None, seed=0, networks=True, **rest):
    """A comparison of predictions with given noise; every model is named by what it is."""
    rng = np.random.default_rng(seed)
    period = np.repeat(np.arange(2001, 2001 + n_periods), n_firms)
    firm = np.tile([f"F{k:02d}" for k in range(n_firms)], n_periods)
    y = rng.normal(size=len(period))
    frame = pd.DataFrame({"firm": firm, "period": period, "outcome": y})
    for name, size in noise.items():
        frame[name] = y + size * rng.normal(size=len(y))
    frame.loc[3, "outcome"] = np.nan
    names = {**STEPS, **(steps or {})}
    notes = [
        ModelNote(name, names[name], fits_with_peers=2 if names[name] == "peers" else None) for name in noise
    ]
    firms = list(frame["firm"].unique())
    weights = (np.ones((n_firms, n_firms)) - np.eye(n_firms)) / max(n_firms - 1, 1)
    found = {
        m.name: PeerNetwork.from_matrices({period[-1]: (firms, firms, weights)})
        for m in notes
        if m.looks_to_peers
    }
    rest.setdefault("panel", PanelFacts(numbers=rng.normal(size=(len(y), 3))))
    return Comparison(
        frame, np.zeros(len(y)), tuple(notes), "OLS", task, "roa", networks=found if networks else {}, **rest
    )


def with_column(result, name, values):
    return replace(result, predictions=result.predictions.assign(**{name: values}))


GOOD = {"OLS": 1.5, "Boosting": 1.4, "History": 1.0, "Peers": 0.5}


def empty_network():
    result = made(GOOD)
    notes = tuple(replace(m, fits_with_peers=0) if m.looks_to_peers else m for m in result.models)
    firms = list(result.predictions["firm"].unique())
    empty = PeerNetwork.from_matrices({2024: (firms, firms, np.zeros((40, 40)))})
    return replace(result, models=notes, networks={"Peers": empty})


def one_firm_gains():
    result = made({**GOOD, "Peers": 1.0})
    frame = result.predictions
    first = frame["firm"] == "F00"
    ours = frame["History"] - 0.02 * (frame["History"] - frame["outcome"].fillna(0)) * ~first
    ours = ours.where(~first, frame["outcome"].fillna(0))
    frame = frame.assign(History=frame["History"] + 3.0 * first, Peers=ours)
    return replace(result, predictions=frame)


def signed():
    result = made(GOOD)
    firms = list(result.predictions["firm"].unique())
    weights = np.random.default_rng(0).normal(size=(40, 40)) * (1 - np.eye(40))
    network = PeerNetwork.from_matrices({2024: (firms, firms, weights)}, signed=True)
    return replace(result, networks={"Peers": network})


def failed():
    rest = {name: size for name, size in GOOD.items() if name != "History"}
    return made(rest, failures=(Failure("History", 1, "ValueError: no"),))


def stray():
    """Two further periods of one row each."""
    result = made(GOOD)
    frame = result.predictions
    more = frame.iloc[:2].assign(period=[1990, 1991], outcome=[9.0, -9.0])
    frame = pd.concat([more, frame], ignore_index=True)
    return replace(result, predictions=frame, training_mean=np.zeros(len(frame)), panel=PanelFacts())


def returns():
    index = pd.MultiIndex.from_product([range(30), range(2000, 2020)], names=["firm", "period"])
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=len(index))}, index)
    y = (0.02 * X["size"] + 0.1 * rng.normal(size=len(index))).rename("ret_next")
    return compare(
        {"Ridge": Ridge(), "Peers": IndustryPeerRegressor()}, X, y, cv=WalkForward(8, 8), verbose=False
    )


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
    "yes": (lambda: made(GOOD), YES),
    "empty network": (empty_network, NO),
    "one period": (lambda: made(GOOD, n_periods=1), UNJUDGED),
    "one cluster": (one_firm_gains, UNJUDGED),
    "few firms": (lambda: made(GOOD, n_periods=4, n_firms=6), UNJUDGED),
    "tie": (lambda: with_column(made(GOOD), "Peers", made(GOOD).predictions["History"]), NO),
    "signed": (signed, YES),
    "control wins": (lambda: made({**GOOD, "History": 0.4}), NO),
    "nothing shown": (lambda: made({**GOOD, "Peers": 0.985}, seed=2), NOT_SHOWN),
    "failed model": (failed, UNJUDGED),
    "stray periods": (stray, YES),
    "few periods": (lambda: made(GOOD, n_periods=4), YES),
    "returns": (returns, UNJUDGED),
    "classes": (classes, None),
}


@pytest.fixture(scope="module", params=list(KINDS))
def kind(request):
    make, answer = KINDS[request.param]
    return make(), answer


def test_every_claim_is_that_of_the_numbers(kind):
    result, answer = kind
    claims, y = result.claims, result.predictions["outcome"]
    assert answer is None or claims.answer == answer
    base = ((y - result.training_mean) ** 2).sum()
    r2 = {name: 1 - ((y - result.predictions[name]) ** 2).sum() / base for name in result.names}
    order = ["own lines", "own shape", "own history", "common", "peers"]
    steps = {model.name: order.index(model.step) for model in result.models}
    below, last = [], None
    for step in claims.steps:
        below = [name for name in r2 if steps[name] <= order.index(step.name)]
        assert step.r2 == pytest.approx(r2[step.model])
        if step.name != "peers":
            assert step.r2 == pytest.approx(max(r2[name] for name in below))
        if last is not None:
            assert step.gain.gain == pytest.approx(step.r2 - last.r2, abs=1e-12)
            assert step.gain.against == last.model or step.gain.gain == 0
        last = step
    if claims.peer is None:
        assert claims.answer == UNJUDGED
        return
    controls = {name: r2[name] for name in r2 if steps[name] < 4}
    assert r2[claims.control] == pytest.approx(max(controls.values()))
    judged = claims.answer in (YES, NOT_SHOWN)
    assert (claims.p is not None) == judged
    assert (claims.answer == YES) == (claims.p is not None and claims.p < 0.05)
    if judged:
        assert claims.gain.gain > 0 and len(result.periods) > 1
    if claims.answer == YES:
        assert not claims.concentration.rests_on
    if claims.answer == NO and claims.why == "loss":
        assert claims.gain.gain <= 0 and "No: the best model with peers has no gain" in repr(claims)
    assert (claims.smallest is not None) <= (claims.answer in (NOT_SHOWN, NO))


PAGES = ("empty network", "one period", "signed", "few periods", "returns", "failed model")


@pytest.mark.parametrize("name", PAGES)
def test_no_two_sentences_of_a_page_disagree(name, tmp_path):
    result = KINDS[name][0]()
    claims = result.claims
    page = re.sub(
        r"<(svg|iframe|style).*?</\1>",
        " ",
        result.to_html(tmp_path / "r.html").read_text("utf-8"),
        flags=re.S,
    )
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)).replace("\u00a0", " ")
    text = " ".join(str(result).split())
    for said in (page, text):
        assert set(re.findall(r"(?<=\? )(Yes|Not shown|No|Could not be judged):", said)) == {claims.answer}
    found = " ".join(result.summary())
    if claims.p is None:
        assert "one-sided p" not in page and "significant" not in found.lower()
    if claims.answer not in (YES, NOT_SHOWN):
        assert not re.search(r"\bp [=<] ", found)
    if claims.network is None:
        assert "Estimated peer network" not in page and "one-sided pairs" not in page
    else:
        signed = result.networks[claims.network].signed
        assert ("Its weights are signed" in page) == signed and ("one-sided pairs" not in page or not signed)
        assert "is empty" not in found
    for number in re.findall(r"R² (−?\d\.\d+)", found):
        value = float(number.replace("−", "-"))
        assert np.isclose(result.scores["r2_mean"], value, atol=6e-4).any()
    assert f"{result.n_firms:,} firms" in page
    if len(result.periods) == 1:
        assert "interval" not in found


def test_a_gain_over_time_is_that_of_the_mean_test():
    result = made(GOOD)
    gain = gain_of(result, "Peers", "History")
    frame = result.predictions.dropna()
    saved = (frame["outcome"] - frame["History"]) ** 2 - (frame["outcome"] - frame["Peers"]) ** 2
    share = saved / (frame["outcome"] ** 2).mean()
    series = share.groupby(frame["period"]).sum().to_numpy() * 24 / len(frame)
    found = mean_test(series)
    assert (gain.t, gain.p) == pytest.approx((found.t, found.p_value))
    half = abs(found.mean / found.t) * student.ppf(0.975, found.freedom)
    assert (gain.low, gain.high) == pytest.approx((found.mean - half, found.mean + half))
    scores = result.scores["r2_mean"]
    assert gain.gain == pytest.approx(scores["Peers"] - scores["History"])


def test_few_periods_are_clustered_by_firm_or_by_a_code_that_gives_the_larger_p():
    rng = np.random.default_rng(4)
    result = made({"OLS": 1.0, "Peers": 0.9}, n_periods=2, n_firms=260)
    frame = result.predictions
    industry = np.tile(np.arange(260) % 13, 2)
    frame["OLS"] = frame["outcome"] + 0.7 * rng.normal(size=13)[industry] + 0.3 * rng.normal(size=520)
    frame["Peers"] = frame["outcome"] + 0.5 * rng.normal(size=13)[industry] + 0.3 * rng.normal(size=520)
    labels = pd.Series(
        industry.astype(str), pd.MultiIndex.from_frame(frame[["firm", "period"]]), dtype=object
    )
    grouped = replace(
        result, predictions=frame, panel=PanelFacts(groups={"sic": labels, "size, fifths": labels})
    )
    by_code, by_firm = (
        gain_of(grouped, "Peers", "OLS"),
        gain_of(replace(grouped, panel=PanelFacts()), "Peers", "OLS"),
    )
    assert by_code.how == "by sic" and by_firm.how == "by firm" and by_firm.p < 0.05 < by_code.p
    known = frame.dropna()
    saved = (known["outcome"] - known["OLS"]) ** 2 - (known["outcome"] - known["Peers"]) ** 2
    cluster = pd.factorize(industry[frame["outcome"].notna()])[0]
    means = WildMeans(
        np.bincount(cluster, saved)[:, None] / (known["outcome"] ** 2).mean(), np.bincount(cluster)
    )
    assert by_code.p == pytest.approx(means.p[0]) and by_code.t == pytest.approx(means.t[0])
    assert by_code.high - by_code.low > 2 * (by_firm.high - by_firm.low)
    assert "given these periods and symmetric" in " ".join(grouped.summary())


def test_the_search_among_peer_models_is_accounted_for():
    sizes = {"OLS": 1.5, "History": 1.0, **{f"Peers {k}": 0.97 for k in range(4)}}
    steps = {f"Peers {k}": "peers" for k in range(4)}
    result = made(sizes, steps=steps, seed=2)
    claims = result.claims
    assert claims.n_searched == 4
    assert claims.gain.gain > 0 and claims.p == pytest.approx(min(1, 4 * claims.gain.upper_p))


def test_a_kernel_in_a_forecast_is_no_peer_model():
    index = pd.MultiIndex.from_product([range(20), range(2001, 2016)], names=["firm", "period"])
    X = pd.DataFrame({"size": np.random.default_rng(0).normal(size=300)}, index)
    y = (X["size"] ** 2).rename("roa")
    result = compare(["kernel", "cross_sectional_ridge"], X, y, cv=WalkForward(4, 4), verbose=False)
    assert result.peer_models == [] and result.claims.answer == UNJUDGED
    assert "no model weighs chosen peers" in result.claims.why
    assert repr(result.claims) == "Claims(Could not be judged: no model weighs chosen peers; 4 steps)"
    assert str(result.claims).startswith(
        "Do peers help? Could not be judged: no model weighs chosen peers.\n\n"
    )


def test_the_first_of_equals_reads_least():
    result = made(GOOD)
    same = with_column(result, "Boosting", result.predictions["OLS"])
    step = next(step for step in same.claims.steps if step.name == "own shape")
    assert step.model == "OLS" and step.gain.gain == 0


def test_concentration_counts_firms_groups_and_periods():
    result = one_firm_gains()
    gain = gain_of(result, "Peers", "History")
    found = concentration_of(result, gain)
    assert found.firms_for_half == 1 and found.largest["firm"][0] == "F00" and "1 firm" in found.rests_on
    frame = made(GOOD).predictions
    lucky = frame["History"].where(frame["period"] != 2005, frame["outcome"].fillna(0))
    rest = concentration_of(with_column(made(GOOD), "Peers", lucky), replace(gain, gain=1.0))
    assert rest.largest["period"] == ("2005", pytest.approx(1.0)) and "one period, 2005" in rest.rests_on
    assert claims_of(with_column(made(GOOD), "Peers", lucky)).answer != YES
    even = concentration_of(made(GOOD), gain_of(made(GOOD), "Peers", "History"))
    assert even.rests_on == "" and even.firms_for_half > 4 and even.largest["firm"][1] < HALF


def test_a_gain_does_not_rest_on_a_period_without_which_it_is_still_significant():
    result = made(GOOD)
    frame = result.predictions
    error = (frame["History"] - frame["outcome"]).where(frame["period"] == 2005, 0)
    noisy = with_column(result, "History", frame["History"] + 6 * error)
    rows = saved_by_row(noisy, "Peers", "History")
    at = (rows["period"] == 2005).to_numpy()
    assert rows["gain"][at].sum() > HALF * rows["gain"].sum()
    found = concentration_of(noisy, gain_of(noisy, "Peers", "History"))
    assert found.largest["period"][0] == "2005" and found.largest["period"][1] > HALF
    assert found.rests_on == "" and claims_of(noisy).answer == YES


def test_a_gain_rests_on_a_period_without_which_it_is_a_significant_loss():
    result = made(GOOD)
    frame = result.predictions
    error = (frame["History"] - frame["outcome"]).fillna(0)
    noisy = with_column(result, "History", frame["History"] + 9 * error.where(frame["period"] == 2005, 0))
    worse = (frame["History"] + error / 2).where(frame["period"] != 2005, frame["outcome"].fillna(0))
    losing = with_column(noisy, "Peers", worse)
    gain = gain_of(losing, "Peers", "History")
    rows = saved_by_row(losing, "Peers", "History")
    rest = rows[rows["period"] != 2005]
    assert gain.gain > 0 > rest["gain"].mean() and not is_gain(losing, rest)
    assert "one period, 2005" in concentration_of(losing, gain).rests_on


def test_gains_by_firm_add_up_to_the_gain():
    result = made(GOOD)
    frame = result.gain_by_firm()
    claims = result.claims
    assert (frame["rows"] * frame["gain"]).sum() / frame["rows"].sum() == pytest.approx(claims.gain.gain)
    assert frame["share"].sum() == pytest.approx(1) and frame["gain"].is_monotonic_decreasing
    assert (frame["low"] < frame["gain"]).all() and (frame["gain"] < frame["high"]).all()
    labels = pd.MultiIndex.from_frame(result.predictions[["firm", "period"]])
    half = pd.Series(np.where(labels.get_level_values("firm") < "F20", "a", "b"), labels, dtype=object)
    groups = result.gain_by(half)
    assert list(sorted(groups.index)) == ["a", "b"] and groups["share"].sum() == pytest.approx(1)


def test_power_is_that_of_planted_networks():
    """The larger the noise, the larger a network must be; what would be found is found by the test."""
    small, large = (made({"OLS": size, "Peers": size * 0.99}) for size in (0.2, 2.0))
    found = [smallest_gain(result, "OLS") for result in (small, large)]
    assert 0 < found[0] < found[1]
    assert smallest_gain(made(GOOD, n_periods=1), "History") is None
    assert smallest_gain(replace(small, panel=PanelFacts()), "OLS") is None


def test_a_peer_model_that_could_not_judge_is_not_a_no():
    result = empty_network()
    notes = tuple(
        replace(m, unjudged="3 origins have rows, and 4 are needed") if m.looks_to_peers else m
        for m in result.models
    )
    claims = claims_of(replace(result, models=notes))
    assert claims.answer == UNJUDGED and "origins" in claims.why


def test_the_placebo_keeps_own_fits_and_periods_and_breaks_the_rest():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(20), range(2000, 2012)], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=240)}, index)
    shock = rng.normal(size=12)[index.get_level_values(1) - 2000]
    y = (3 * X["size"] + 2 * shock + rng.normal(size=240)).rename("roa")
    panel = as_panel(X, y)
    changed = exchanged(panel, np.random.default_rng(1)).sorted()
    before, after = panel.sorted().y, changed.y
    np.testing.assert_allclose(before.groupby(level=1).mean(), after.groupby(level=1).mean())
    assert np.corrcoef(X["size"].reindex(after.index), after)[0, 1] > 0.6
    assert not np.allclose(before, after)
    options = {"cv": WalkForward(3, 3), "task": "nowcast", "verbose": False, "placebo": 2}
    model = PeerAttentionRegressor(task="nowcast", n_heads=0, random_state=0)
    result = compare({"Peers": model}, X, y, **options)
    assert result.placebo.shape == (2,) and "refitted 2 times" in " ".join(result.summary())
