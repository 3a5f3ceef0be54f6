"""A firm's own past: brute-force means and lags, the purge, no own future, and the empirical-Bayes firm effect."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from peerattn import StackedPeerRegressor
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.history import (
    PENALTIES,
    fit_autoregression,
    fit_effect,
    fit_trend,
    past_columns,
    ridge_slopes,
)
from peerattn.models.learners.losses import squared_error
from peerattn.models.learners.past_outcomes import History
from peerattn.models.learners.training import Problem, Training
from peerattn.models.learners.variance_components import variance_components

FIRMS, PERIODS = 25, 9


def panel(seed=0, effect=2.0, missing=0.25):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(FIRMS), range(PERIODS)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(len(index), 2)), index=index, columns=["size", "lev"])
    lasting = pd.Series(effect * rng.normal(size=FIRMS)).loc[index.get_level_values(0)].to_numpy()
    y = pd.Series(X["size"] + lasting + rng.normal(size=len(index)), index)
    return X, y.where(rng.uniform(size=len(index)) >= missing)


def sections(X, y):
    found = []
    for t, x in X.groupby(level="period"):
        label = x.index.get_level_values("firm")
        rows = Rows(
            x.to_numpy(),
            np.zeros((len(x), 0), int),
            y[x.index].to_numpy(),
            None,
            label.to_numpy(),
            label,
            label,
        )
        found.append(CrossSection(t, slice(0, len(x)), rows, rows, True))
    return [replace(s, focal=s.focal.known()) for s in found]


def told(training, section, history=None):
    """Return a cross-section as a candidate sees it, with what is known of the past."""
    (prepared,) = training.prepared([section])
    return replace(prepared, past=training.history if history is None else history)


def problem(purge=0, outcomes=False):
    return Problem(squared_error, 1, (), outcomes, True, purge)


def test_training_rows_have_the_past_that_is_known_by_their_period():
    """By hand: an outcome of period s that is known from s + 1 + (firm mod 3) on is no past of a row before that."""
    X, y = panel(missing=0.0)
    delay = 1 + np.arange(FIRMS) % 3
    dated = [
        replace(s, place=t, focal=rows, peers=rows)
        for t, s in enumerate(sections(X, y))
        for rows in [replace(s.focal, known_from=t + delay)]
    ]
    training = Training.of(dated, problem())
    for t, section in enumerate(training.residuals):
        found, _ = past_columns([section], 0.0)
        np.testing.assert_array_equal(found[:, 2], np.maximum(t + 1 - delay, 0))
        latest = np.maximum(t - delay, 0)
        last = [training.history.table.iloc[i, s] for i, s in enumerate(latest)]
        np.testing.assert_allclose(found[:, 1], np.where(t >= delay, last, 0.0))
    known = [each.known_by(5) for each in dated]
    assert [len(each.focal) for each in known] == [FIRMS] * 3 + [17, 9, 0, 0, 0, 0]
    assert [int(np.isfinite(each.peers.y).sum()) for each in known] == [len(each.focal) for each in known]
    # what is known at once gives the figures of outcomes without dates
    plain = Training.of(sections(X, y), problem())
    at_once = [replace(s, peers=replace(s.peers, known_from=np.full(FIRMS, s.place))) for s in dated]
    at_once = [replace(s, focal=s.peers) for s in at_once]
    expected, found = (past_columns(each.residuals, 3.0)[0] for each in (plain, Training.of(at_once, problem())))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("purge", [0, 2])
def test_past_columns_are_those_of_plain_loops(purge):
    X, y = panel()
    training = Training.of(sections(X, y), problem(purge))
    known = pd.concat([pd.Series(s.focal.y, pd.MultiIndex.from_product([s.focal.label, [s.period]])) for s in training.residuals])
    for section in training.sections:
        found, has = past_columns([replace(section, past=training.history)], 3.0)
        for i, firm in enumerate(section.focal.label):
            before = known[[k for k in known.index if k[0] == firm and k[1] < section.period - purge]].sort_index()
            n = len(before)
            expected = [before.mean() * n / (n + 3.0), before.iloc[-1], n] if n else [0, 0, 0]
            np.testing.assert_allclose(found[i], expected, atol=1e-10)
            assert has[i] == (n > 0)


def test_no_firm_reads_its_own_present_or_future():
    X, y = panel()
    given = sections(X, y)
    base = Training.of(given, problem())
    model = fit_autoregression(base)
    changed = []
    for s in base.residuals:
        later = 100.0 if s.period >= 5 else 0.0
        now = replace(s.focal, y=s.focal.y + later * (np.arange(len(s.focal)) % 2))
        changed.append(replace(s, focal=now, peers=replace(s.peers, y=None)))
    for t in (5, 4, 0):
        one = model.predict([told(base, given[t])])
        other = model.predict([told(base, given[t], History.of(changed))])
        np.testing.assert_array_equal(*one, *other)
    one = model.predict([told(base, given[6])])
    assert np.abs(one[0] - model.predict([told(base, given[6], History.of(changed))])[0])[:, 0].max() > 1


def test_the_firm_effect_is_empirical_bayes():
    """λ by the analysis of variance of unequal groups; the best linear predictor of a firm's next residual."""
    rng = np.random.default_rng(0)
    table = 1.5 * rng.normal(size=(4000, 1)) + 2.0 * rng.normal(size=(4000, 6))
    table[rng.uniform(size=table.shape) < 0.3] = np.nan
    within, between = variance_components(table)
    assert within == pytest.approx(4.0, rel=0.05) and between == pytest.approx(2.25, rel=0.08)
    past, now = table[:, :5], table[:, 5]
    n, known = np.isfinite(past).sum(1), np.isfinite(now)
    mean = np.where(n > 0, np.nansum(past, axis=1) / np.maximum(n, 1), 0.0)
    shrunk = mean * n / (n + within / between)
    fit = LinearRegression().fit(shrunk[known, None], now[known])
    assert fit.coef_[0] == pytest.approx(1.0, abs=0.06), "shrunk means need no slope"
    assert variance_components(rng.normal(size=(3, 2)) * 0 + [[1.0, -1.0]])[1] == 0.0


def test_a_firm_effect_is_the_shrunken_mean_of_the_past():
    X, y = panel(missing=0.0)
    training = Training.of(sections(X, y), problem())
    model = fit_effect(training)
    within, between = variance_components(training.history.table.to_numpy())
    last = training.sections[-1]
    past = training.history.table.to_numpy()[:, :-1]
    expected = training.lines.predict(last.focal)[:, 0] + past.mean(1) * 8 / (8 + within / between)
    np.testing.assert_allclose(model.predict([told(training, last)])[0][:, 0], expected, atol=1e-10)
    first = model.predict([told(training, training.sections[0])])[0]
    assert np.isnan(first).all(), "a firm without a past is not spoken for"


def test_without_differences_between_firms_or_periods_there_is_no_history():
    X, y = panel()
    given = sections(X, y)
    assert fit_autoregression(Training.of(given[:1], problem())) is None
    undated = replace(problem(), dated=False)
    assert fit_autoregression(Training.of(given, undated)) is None
    rng = np.random.default_rng(1)
    opposed = y * 0 + np.where(y.index.get_level_values("period") % 2, 1.0, -1.0) + 0.01 * rng.normal(size=len(y))
    assert fit_effect(Training.of(sections(X, opposed.fillna(0.0)), problem())) is None


def lasting_panel():
    """Two periods of 200 firms that differ from each other for good, and a third to predict."""
    rng = np.random.default_rng(5)
    index = pd.MultiIndex.from_product([range(200), [2013, 2014, 2015]], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(len(index), 2)), index=index, columns=["size", "lev"])
    y = pd.Series(np.repeat(rng.standard_t(3, size=200), 3) + 0.5 * rng.normal(size=600), index)
    return X, y


def autoregression(X, y):
    """Fit an autoregression before 2015; return it, its predictions of 2015 less own lines, and the last residuals."""
    *given, last = sections(X, y)
    training = Training.of(given, problem())
    model = fit_autoregression(training)
    found = model.predict([told(training, last)])[0] - training.lines.predict(last.focal)
    return model, found[:, 0], past_columns([told(training, last)], 0.0)[0][:, 1]


def test_the_last_residual_of_an_autoregression_is_bounded():
    X, y = lasting_panel()
    model, found, last = autoregression(X, y)
    low, high = model.bounds
    assert last.max() > 1.2 * high
    extreme = int(last.argmax())
    y.loc[extreme, 2014] += 100.0  # far beyond the bound already: the model and its prediction stay nearly as they are
    _, moved, changed = autoregression(X, y)
    assert changed[extreme] > 50 and abs(moved[extreme] - found[extreme]) < 3


def test_early_rows_of_one_firm_hardly_move_an_autoregression():
    X, y = lasting_panel()
    _, usual, _ = autoregression(X, y)
    stray = pd.MultiIndex.from_product([[7], range(2006, 2011)], names=X.index.names)
    early = pd.DataFrame(X.loc[[7]].iloc[[0] * 5].to_numpy(), stray, X.columns)
    _, found, _ = autoregression(pd.concat([X, early]), pd.concat([y, pd.Series(y.loc[7].iloc[0], stray)]))
    change = np.abs(found - usual) / usual.std()
    assert np.quantile(change, 0.95) < 0.1 and change.max() < 0.3


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_a_firm_effect_passes_for_no_peer(task):
    rng = np.random.default_rng(3)
    index = pd.MultiIndex.from_product([range(40), range(12)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(480, 2)), index=index, columns=["size", "lev"])
    lasting = pd.Series(2 * rng.normal(size=40)).loc[index.get_level_values(0)].to_numpy()
    y = X["size"] + lasting + pd.Series(rng.normal(size=480), index)
    model = StackedPeerRegressor(task=task, own="linear", n_heads=1, random_state=0).fit(X, y)
    assert model.evidence_.loc["history", "factor"] > 0.7 and model.evidence_.loc["history", "t"] > 3
    assert model.evidence_.loc["peers", "factor"] < 0.15
    assert model.explain_gain()["gain"][1:].idxmax() == "history"


def dynamic(process):
    """40 firms, 24 periods, outcomes with own dynamics alone."""
    rng = np.random.default_rng(2)
    n, T, before = 40, 24, 40
    u = rng.normal(size=(n, before + T))
    if process == "two lags":
        for t in range(2, before + T):
            u[:, t] += 0.2 * u[:, t - 1] + 0.6 * u[:, t - 2]
    if process == "season":
        for t in range(4, before + T):
            u[:, t] += 0.8 * u[:, t - 4]
    u = u[:, before:]
    if process == "trends":
        u = u + 0.15 * rng.normal(size=(n, 1)) * (np.arange(T) - T / 2)
    index = pd.MultiIndex.from_product([range(n), range(T)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(n * T, 2)), index, columns=["size", "lev"])
    return X, pd.Series(X["size"].to_numpy() + u.ravel(), index)


@pytest.mark.parametrize(
    ("process", "fit"), [("two lags", fit_autoregression), ("season", fit_autoregression), ("trends", fit_trend)]
)
def test_own_dynamics_are_known(process, fit):
    X, y = dynamic(process)
    given = sections(X, y)
    training = Training.of(given[:18], problem())
    errors = []
    for model in (fit_effect(training), fit(training)):
        of_model = []
        for k in range(18, 24):
            now = Training.of(given[:k], problem())
            found = model.predict([told(now, given[k])])[0][:, 0]
            of_model.append(((given[k].focal.y - found) ** 2).mean())
        errors.append(np.mean(of_model))
    assert errors[1] < 0.6 * errors[0]


def test_the_trend_is_that_of_least_squares_on_each_firms_past():
    X, y = dynamic("trends")
    y.iloc[::7] = np.nan
    given = sections(X, y)
    training = Training.of(given[:18], problem())
    found = training.history.own_trend([told(training, given[18])])
    slope, length, time = (pd.Series(each, given[18].focal.label) for each in found)
    table = training.history.table
    for firm in given[18].focal.label[[0, 7, -1]]:
        row = table.loc[firm].dropna()
        expected = np.polyfit(row.index.to_numpy(float), row.to_numpy(), 1)[0]
        assert slope[firm] == pytest.approx(expected) and time[firm] == pytest.approx(18 - row.index.to_numpy().mean())
        assert length[firm] == pytest.approx(len(row) * np.var(row.index.to_numpy()))


def test_the_ridge_solves_its_equations():
    rng = np.random.default_rng(0)
    X, period = rng.normal(size=(300, 4)), np.repeat(np.arange(30), 10)
    y = X @ [1.0, 0.0, -0.5, 0.0] + rng.normal(size=300)
    found = ridge_slopes(X, y, period)
    size = np.linalg.eigvalsh(X.T @ X).mean()
    candidates = [np.linalg.solve(X.T @ X + size * a * np.eye(4), X.T @ y) for a in PENALTIES]
    assert min(np.abs(found - each).max() for each in candidates) < 1e-9
