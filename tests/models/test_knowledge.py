"""Outcomes with dates: whatever reads them reads what is known by then, and a network says what it was learned from."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from peerattn import (
    CovariancePeerRegressor,
    InputError,
    LinearInMeansRegressor,
    NewFirms,
    WalkForward,
    cli,
    compare,
)
from peerattn.evaluation import IntervalRegressor, audit
from peerattn.models import CommonShocksRegressor, LastValueRegressor, OwnHistoryRegressor
from peerattn.panel import as_panel
from peerattn.panel.knowledge import Knowledge

pytestmark = pytest.mark.usefixtures("fewest_steps")

rng = np.random.default_rng(0)
FIRMS = [f"F{k:02d}" for k in range(16)]
INDEX = pd.MultiIndex.from_product([FIRMS, range(2001, 2015)], names=["firm", "period"])
X = pd.DataFrame(rng.normal(size=(len(INDEX), 2)), INDEX, ["size", "lev"])
Y = pd.Series(X["size"] + np.repeat(rng.normal(size=16), 14) + rng.normal(size=len(INDEX)), INDEX, name="roa")
PERIOD = INDEX.get_level_values("period").to_numpy()
KNOWN = pd.Series(PERIOD + 3, INDEX)  # every outcome is known three years later
CHANGED = Y.copy()
CHANGED["F03", 2012] += 5.0
SAMPLE = Path(__file__).parents[2] / "data" / "sample_panel.csv"


def test_what_is_known_when():
    panel = as_panel(X, Y, known_at=KNOWN.where(PERIOD != 2003))
    knowledge = Knowledge.of(panel, horizon=1)
    assert knowledge.by(2004).sum() == 16 and set(PERIOD[knowledge.by(2004)]) == {2001}
    assert 2003 not in PERIOD[knowledge.by(2014)]  # without a date it is never known
    plain = Knowledge.of(as_panel(X, Y), horizon=2)
    assert set(PERIOD[plain.by(2004)]) == {2001, 2002}


@pytest.mark.parametrize("n_splits", [1, 2])
def test_no_model_of_a_comparison_uses_an_outcome_before_it_is_known(n_splits):
    walk = WalkForward(3, 3, known_at=KNOWN)
    cv = walk if n_splits == 1 else NewFirms(walk, n_splits=n_splits)

    def predicted(y):  # own history and common shocks are always there
        found = compare({"last": LastValueRegressor()}, X, y, cv=cv, task="nowcast", decomposition=False, verbose=False)
        return found.predictions.set_index(["firm", "period"]).sort_index().drop(columns="outcome")

    before, after = predicted(Y), predicted(CHANGED)
    later = before.index.get_level_values("period") > 2012
    pd.testing.assert_frame_equal(before[later], after[later], check_exact=True)


def test_a_nowcast_uses_no_outcome_before_its_horizon():
    """Own history and common shocks are always there: at a horizon of three years they had read the outcomes of the last two."""
    models = {"covariance": CovariancePeerRegressor(random_state=0)}

    def predicted(y):
        found = compare(models, X, y, cv=WalkForward(3, 3, horizon=3), task="nowcast", decomposition=False, verbose=False)
        return found.predictions.set_index(["firm", "period"]).drop(columns="outcome")

    before, after = predicted(Y), predicted(CHANGED)  # an outcome of 2012, known in 2015
    later = before.index.get_level_values("period") > 2012
    pd.testing.assert_frame_equal(before[later], after[later], check_exact=True)
    # what is learned from the past is what is known by then: the same as with dates three years later
    dated = compare(models, X, Y, cv=WalkForward(3, 3, known_at=KNOWN), task="nowcast", decomposition=False, verbose=False)
    pd.testing.assert_frame_equal(before, dated.predictions.set_index(["firm", "period"]).drop(columns="outcome"))


@pytest.mark.parametrize(
    ("model", "task"),
    [(name, "nowcast") for name in ("own_history", "common_shocks", "covariance", "attention")]
    + [(name, "forecast") for name in ("own_history", "last_value", "ridge")],
)
def test_commands_use_no_outcome_before_its_horizon(model, task, tmp_path):
    """Known in 2010: outcomes until 2007, and in a nowcast the peers' of the year itself."""
    sample = pd.read_csv(SAMPLE)
    unknown = (sample["year"] > 2007) & ~((task == "nowcast") & (sample["year"] == 2010))
    found = []
    for name, frame in (("a", sample), ("b", sample.assign(roa_next=sample["roa_next"] + unknown * (sample.index % 7) / 10))):
        path = tmp_path / f"{name}.csv"
        frame.to_csv(path, index=False)
        fit = ["fit", path, "--period", "year", "--outcome", "roa_next", "--industry", "sic", "--task", task, "--model", model]
        fit += ["--until", "2009", "--horizon", "3", "--out", tmp_path / "m.model", "--quiet"]
        assert cli.run(list(map(str, fit))) == 0
        assert cli.run(["predict", *map(str, [tmp_path / "m.model", path, "--out", tmp_path / "p.csv", "--quiet"])]) == 0
        found.append(pd.read_csv(tmp_path / "p.csv").query("year == 2010")["prediction"])
        if model == "covariance":  # as do the weights of the same firms
            network = ["network", tmp_path / "m.model", path, "--at", "2010", "--out", tmp_path / "n.csv", "--quiet"]
            assert cli.run(list(map(str, network))) == 0
            found.append(pd.read_csv(tmp_path / "n.csv")["weight"])
            assert cli.run(["predict", *map(str, [tmp_path / "m.model", path, "--out", tmp_path / "folder"])]) == 2
    half = len(found) // 2
    for before, after in zip(found[:half], found[half:], strict=True):
        pd.testing.assert_series_equal(before, after, check_exact=True)


def test_dates_of_the_splitter_and_of_the_panel_must_agree():
    panel = as_panel(X, Y, known_at=KNOWN)
    with pytest.raises(InputError, match="the panel has other dates"):
        compare(
            {"last": LastValueRegressor()}, panel, cv=WalkForward(2, 2, known_at=KNOWN + 1), decomposition=False, verbose=False
        )
    assert audit(LastValueRegressor(), X, Y, WalkForward(2, 2, known_at=KNOWN), n_placebo=2).passed


@pytest.mark.parametrize("name", ["own history", "covariance"])
def test_training_rows_read_the_past_that_was_known(name):
    """Known in the next period is no date at all; known three years later is another fit, in a comparison, too."""
    model = CALLS[name]
    rows = X[PERIOD > 2010]

    def predicted(panel):
        return np.asarray(model.fit(panel).predict(rows, outcomes=Y[PERIOD > 2010]))

    early = PERIOD <= 2010
    plain = predicted(as_panel(X[early], Y[early]))
    at_once = predicted(as_panel(X[early], Y[early], known_at=(KNOWN - 2)[early]))
    late = predicted(as_panel(X[early], Y[early], known_at=KNOWN[early]))
    np.testing.assert_allclose(at_once, plain, rtol=1e-12, atol=1e-12)
    assert np.abs(late - plain).max() > 1e-6
    panel = as_panel(X, Y, known_at=KNOWN)
    found = compare({name: model}, panel, cv=WalkForward(1), task="nowcast", decomposition=False, verbose=False).predictions
    known = panel.before(2014).take(np.flatnonzero(PERIOD[PERIOD < 2014] + 3 <= 2014))
    last = PERIOD == 2014
    expected = model.fit(known).predict(X[last], outcomes=Y[last])
    np.testing.assert_allclose(found.set_index("firm")[name], expected, rtol=1e-12, atol=1e-12)


CALLS = {
    "own history": OwnHistoryRegressor(),
    "common shocks": CommonShocksRegressor(),
    "covariance": CovariancePeerRegressor(random_state=0),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_uses_earlier_outcomes_from_their_date_on(name):
    early = PERIOD < 2010
    model = CALLS[name].fit(X[early], Y[early])
    rows = as_panel(X[~early], known_at=(KNOWN - 1)[~early])
    at_once = X[~early]
    asked = at_once.index.get_level_values("period")
    first = Y.copy()
    first[PERIOD == 2010] *= -3  # known in 2012

    def moved(rows):
        found = [np.asarray(model.predict(rows, outcomes=y[~early])) for y in (Y, first)]
        return pd.Series(np.abs(found[0] - found[1]), at_once.index).groupby("period").max()

    assert moved(rows)[2011] == 0 and (moved(rows)[2012:] > 1e-9).all()
    assert moved(at_once)[2011] > 1e-9
    if name == "covariance":
        networks = [model.peer_network(rows, outcomes=y[~early]) for y in (Y, first)]
        pd.testing.assert_frame_equal(*(network.matrix(2011) for network in networks))
    assert asked.max() == 2014


@pytest.mark.parametrize("name", ["last value", "own history"])
def test_calibration_learns_from_what_is_known(name):
    model = {"last value": LastValueRegressor(), "own history": OwnHistoryRegressor()}[name]
    intervals = IntervalRegressor(model, level=0.6, calibration_periods=3, n_refits=1)
    later = Y.where(PERIOD < 2010, Y + 100)  # of 2010 on, known from 2013 on

    def predictions(y, known_at):
        found = intervals.fit(as_panel(X, y, known_at=known_at)).residuals_
        return found[~found["observed"]].set_index(["firm", "period"])["prediction"]

    pd.testing.assert_series_equal(predictions(Y, KNOWN), predictions(later, KNOWN), check_exact=True)
    assert (predictions(Y, None) - predictions(later, None)).abs().max() > 1
    with pytest.raises(InputError, match="no outcome is known by 2012"):
        predictions(Y, KNOWN + 20)


def test_a_network_of_past_outcomes_says_until_when_it_was_learned():
    early = PERIOD < 2008
    group = np.random.default_rng(1).permutation(16) % 3
    y = X["size"] + 2 * rng.normal(size=(3, 14))[group].ravel() + 0.5 * rng.normal(size=len(INDEX))
    model = CovariancePeerRegressor(random_state=0).fit(X[early], y[early])
    late = ~early
    W = model.peer_network(X[late], outcomes=y[late]).matrix(2014)
    assert W.attrs["learned_until"] == 2013
    rows = (PERIOD > 2008) & (PERIOD < 2012)
    with pytest.raises(InputError, match="learned from outcomes until 2013"):
        LinearInMeansRegressor(network=W, peer_outcome=False).fit(X[rows], y[rows])
    # one that is dated, one of a period alone, and one that reads no past
    dated = as_panel(X[late], known_at=KNOWN[late])
    assert model.peer_network(dated, outcomes=y[late]).subset(periods=[2014]).learned_until == 2011
    alone = PERIOD == 2014
    assert model.peer_network(X[alone], outcomes=y[alone]).learned_until == 2007
    blind = CovariancePeerRegressor(history=False, random_state=0).fit(X[early], y[early])
    assert blind.peer_network(X[late], outcomes=y[late]).learned_until == 2007
