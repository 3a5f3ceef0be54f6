"""What a page opens with: three sentences, R² with intervals, and the network, beside the truth where that is known."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from peerattn import IndustryPeerRegressor, NadarayaWatsonRegressor, WalkForward, compare, simulate_panel
from peerattn.evaluation.inference.forecast_tests import mean_test
from peerattn.evaluation.report.answer import answer, few_codes, network_found, r2_intervals, shown_network
from peerattn.models.wild_bootstrap import WildMeans
from peerattn.network import PeerNetwork

CAUTION = "This example was chosen."


@pytest.fixture(scope="module")
def panel():
    made = simulate_panel(14, 26, 2, n_industries=3, truth="industry", random_state=0)
    return replace(made, caution=CAUTION)


def compared(panel, test_periods):
    models = {"Peers": IndustryPeerRegressor(industry="industry"), "Kernel": NadarayaWatsonRegressor()}
    cv = WalkForward(test_periods, test_periods)
    return compare(models, panel, cv=cv, task="explain", verbose=False)


@pytest.fixture(scope="module")
def short(panel):
    return compared(panel, 4)


def gains(comparison, model, against):
    frame = comparison.predictions
    y = frame["outcome"]
    saved = (y - frame[against]) ** 2 - (y - frame[model]) ** 2
    return saved, (y - comparison.training_mean) ** 2


def test_intervals_are_those_of_the_paired_test(short):
    """They exclude the other's R² where the paired test rejects: the same errors, over the same variation."""
    frame, how = r2_intervals(short, "Prevailing mean")
    assert how == "clustered by firm, given these periods"
    for model in ("Peers", "Kernel", "Own characteristics (OLS)"):
        saved, base = gains(short, model, "Prevailing mean")
        sums = saved.groupby(short.predictions["firm"]).agg(["sum", "size"])
        [[low, high]] = WildMeans(sums[["sum"]].to_numpy(), sums["size"].to_numpy()).intervals()
        test, r2 = short.test(model, "Prevailing mean").test, short.scores.loc[model, "r2_mean"]
        ends = r2 + (np.array([low, high]) - saved.mean()) / base.mean()
        assert frame.loc[model].tolist() == pytest.approx([r2, *ends])
        assert (frame.loc[model, "low"] > 0 or frame.loc[model, "high"] < 0) == (test.p_value < 0.05)
    assert frame.loc["Prevailing mean"].tolist() == pytest.approx([0, 0, 0], abs=1e-12)


def test_intervals_over_time_are_those_of_the_mean_test():
    index = pd.MultiIndex.from_product([range(15), range(2001, 2031)], names=["firm", "period"])
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"size": rng.normal(size=len(index))}, index=index)
    y = (X["size"] + rng.normal(size=len(index))).rename("roa")
    result = compare({"Peers": NadarayaWatsonRegressor()}, X, y, cv=WalkForward(20, 20), verbose=False)
    frame, how = r2_intervals(result, "Prevailing mean")
    assert how == "over time"
    saved, base = gains(result, "Peers", "Prevailing mean")
    period = result.predictions["period"].to_numpy()
    found = mean_test((saved / base.mean()).groupby(period).mean().to_numpy(), horizon=1)
    assert found.p_value == pytest.approx(result.test("Peers", "Prevailing mean").test.p_value)
    half = abs(found.mean / found.t) * student.ppf(0.975, found.freedom)
    assert frame.loc["Peers", "high"] - frame.loc["Peers", "r2"] == pytest.approx(half)


def test_the_answer_is_short_and_carries_the_caution(short, panel):
    said = answer(short)
    assert len(said) == 4 and said[2] == CAUTION
    assert re.match(r"Kernel explains \d+% of the variation of outcome in .*, Peers −\d+%\.$", said[0])
    assert said[1].startswith("Do peers help? ") and "p = " not in said[1] and "p < " not in said[1]
    assert any(" p = " in finding or " p < " in finding for finding in short.summary())
    assert CAUTION in short.summary()
    assert len(answer(replace(short, caution=""))) == 3
    names = [m.name for m in short.models if m.kind != "peer model"]
    bare = replace(short, models=tuple(m for m in short.models if m.name in names), networks={}, truth=None)
    assert len(answer(replace(bare, baseline=names[0]))) == 3  # without a network


def test_the_truth_stands_beside_what_was_found(short, panel, tmp_path):
    last = short.periods[-1]
    assert short.truth.equals(panel.network.subset(periods=[last]))
    assert network_found(short)[0].endswith("with the true ones (Peers 1.00).")
    page = short.to_html(tmp_path / "a.html").read_text(encoding="utf-8")
    opening = page[page.index('class="opening"') : page.index('class="facts"')]
    assert page.index('class="lead"') < page.index('class="opening"')
    assert opening.count("<svg") == 2 and "Truth" in opening and "Peers: 1.00" in opening
    known = compare(
        {"Peers": IndustryPeerRegressor(industry="industry")},
        panel.X,
        panel.y,
        cv=WalkForward(4, 4),
        task="explain",
        verbose=False,
    )
    assert known.truth is None and known.caution == ""  # a frame, whose network nobody knows
    page = known.to_html(tmp_path / "b.html").read_text(encoding="utf-8")
    assert "Truth" not in page and "arrows lead from each firm to its" in page


def test_of_a_network_without_truth_the_spread_and_the_industries_are_told(short):
    real = replace(short, truth=None, networks={"Peers": short.networks["Peers"]})
    codes = few_codes(real)
    [said] = network_found(real)
    name, network = shown_network(real)
    assert name == "Peers"
    weights = network.matrix()
    same = codes.reindex(weights.index).to_numpy()[:, None] == codes.reindex(weights.columns).to_numpy()
    inside = weights.to_numpy()[same].sum() / weights.to_numpy().sum()
    assert f"{inside:.0%} of it stays in the industry" in said and inside == pytest.approx(1)
    firms = list(weights.index)
    empty = PeerNetwork.from_matrices({short.periods[-1]: (firms, firms, np.zeros((14, 14)))})
    assert network_found(replace(real, networks={"Peers": empty})) == [
        "Peers kept no peers: the network is empty."
    ]
