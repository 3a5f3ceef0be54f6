"""Slopes net of common shocks, and history taken back: by hand, and no peers where only a level is common."""

import numpy as np
import pandas as pd
import pytest

from peerattn import StackedPeerRegressor
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners import nonlinear
from peerattn.models.learners.losses import squared_error
from peerattn.models.learners.training import Problem, Training
from peerattn.models.learners.variance_components import common_variance
from peerattn.models.learners.within_period import fit_within_lines, reversal_within
from peerattn.models.stacking import candidates
from peerattn.models.stacking import evidence as judging
from peerattn.models.stacking import fit as fitting


def arrays(seed, n_periods, n_firms, shock=1.0):
    """Characteristics that move together, and an outcome with a shock of every period."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_periods, n_firms, 2)) + 0.5 * rng.normal(size=(n_periods, 1, 2))
    y = x[..., 0] + rng.normal(size=x.shape[:2]) + shock * rng.normal(size=(n_periods, 1))
    return x, y


def panel(seed, shock=1.0):
    """The same as frames, of 40 firms and 24 periods."""
    x, y = arrays(seed, 24, 40, shock)
    index = pd.MultiIndex.from_product([range(24), range(40)], names=["period", "firm"]).swaplevel()
    return pd.DataFrame(x.reshape(-1, 2), index, columns=["size", "lev"]), pd.Series(y.ravel(), index)


def sections(x, y, sizes=None):
    found = []
    for t in range(len(x)):
        n = x.shape[1] if sizes is None else sizes[t]
        label = pd.Index(range(n))
        rows = Rows(x[t, :n], np.zeros((n, 0), int), y[t, :n], None, np.arange(n), label, label)
        found.append(CrossSection(t, np.arange(n), rows, rows, within=True))
    return found


PROBLEM = Problem(squared_error, 1, (), outcomes=False, dated=True)


def test_slopes_are_those_of_generalised_least_squares():
    """With the covariance I + τ 11' of every period written out, periods of different sizes."""
    x, y = arrays(0, 6, 30)
    training = Training.of(sections(x, y, sizes=[30, 12, 25, 30, 7, 18]), PROBLEM)
    tau = common_variance(training.residuals)
    A, b = np.zeros((3, 3)), np.zeros(3)
    for section in training.residuals:
        Z = np.column_stack([np.ones(len(section.focal)), section.focal.x])
        V = np.linalg.inv(np.eye(len(Z)) + tau)
        A, b = A + Z.T @ V @ Z, b + Z.T @ V @ section.focal.y
    found = fit_within_lines(training)
    assert tau > 0.2
    np.testing.assert_allclose(found.lines.slope[:, 0] / found.lines.spread, np.linalg.solve(A, b)[1:])


def test_it_adds_differences_from_the_periods_mean():
    x, y = arrays(1, 6, 30)
    training = Training.of(sections(x, y), PROBLEM)
    found, prepared = fit_within_lines(training), training.prepared(sections(x, y)[:2])
    added = found.predict(prepared)
    z = (x[0] - x[0].mean(0)) / found.lines.spread
    np.testing.assert_allclose(added[0], z @ found.lines.slope, atol=1e-12)
    assert np.abs(added[1]).max() > 0 and abs(added[1].mean()) < 1e-12


def test_without_shocks_or_characteristics_there_is_none():
    x, y = arrays(2, 6, 30)
    assert fit_within_lines(Training.of(sections(x[..., :0], y), PROBLEM)) is None
    even = Training.of(sections(x, np.tile([1.0, -1.0], (6, 15))), PROBLEM)
    assert common_variance(even.residuals) == 0 and fit_within_lines(even) is None


@pytest.mark.full_search(n_seeds=3, max_steps=150)
@pytest.mark.parametrize("seed", [3])
def test_common_shocks_do_not_pass_for_peers(seed, monkeypatch):
    """Shocks of twenty-four periods move the slopes of least squares; heads would add those within periods as theirs."""
    X, y = panel(seed)
    entered = []
    for fit in (fit_within_lines, lambda training: None):
        monkeypatch.setattr(candidates, "fit_within_lines", fit)
        model = StackedPeerRegressor(own="linear", n_heads=1, random_state=0)
        entered.append(model.fit(X, y).evidence_["selected"])
    assert "lines (within period)" in entered[0]["common"] and not entered[0]["peers"]
    assert "heads" in entered[1]["peers"]


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_lines_pay_kappa_with_a_sum_of_their_own(task, monkeypatch):
    """The means of shown outcomes pay nothing."""
    X, y = panel(2)
    paid, weigh = [], judging.weigh

    def told(held, columns, loss, kappa, *, kinds, **options):
        paid.extend((c[0], k, kind) for c, k, kind in zip(columns, kappa, kinds, strict=True))
        return weigh(held, columns, loss, kappa, kinds=kinds, **options)

    monkeypatch.setattr(judging, "weigh", told)
    model = StackedPeerRegressor(task=task, own="linear", n_heads=0, kappa=0.5, random_state=0)
    entered = model.fit(X, y).evidence_.loc["common"]
    assert "lines (within period)" in entered["selected"] and 0 < entered["factor"] <= 1
    common = {
        ("lines", 0.5, judging.WITHIN),
        *({("period", 0.0, judging.WHOLE)} if task == "nowcast" else set()),
    }
    assert common <= set(paid) and not {name for name, _, _ in paid} - {
        "lines",
        "period",
        "firm effect",
        "firm trend",
        "autoregression",
    }


def test_what_is_taken_back_are_the_differences_within_periods():
    rng = np.random.default_rng(0)
    before, after, period = rng.normal(size=(9, 1)), rng.normal(size=(9, 1)), np.repeat([0, 2], [4, 5])
    back, added = reversal_within(before, after, period)[:, 0], (after - before)[:, 0]
    for t in (0, 2):
        here = period == t
        np.testing.assert_allclose((added + back)[here], added[here].mean())


@pytest.mark.full_search(n_seeds=3, max_steps=150)
@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_the_noise_of_a_history_that_knows_the_level_does_not_pass_for_peers(task, monkeypatch):
    """A trend: boosting with the firm's past enters for the level, and its differences within periods are noise."""
    for name in ("TREES", "FOREST"):  # enough for a trend
        monkeypatch.setattr(nonlinear, name, 40)
    X, y = panel(0, shock=0.0)
    trending = y + X.index.get_level_values("period") / 10
    train = X.index.get_level_values("period") < 20
    found, error = [], []
    for back in (reversal_within, lambda before, after, period: np.zeros_like(after)):
        monkeypatch.setattr(judging, "reversal_within", back)
        monkeypatch.setattr(fitting, "reversal_within", back)
        model = StackedPeerRegressor(task=task, n_heads=1, random_state=0).fit(X[train], trending[train])
        found.append(model.evidence_["selected"])
        shown = {"outcomes": trending[~train]} if task == "nowcast" else {}
        error.append(((trending[~train] - model.predict(X[~train], **shown)) ** 2).mean())
    assert (
        "trees with past" in found[0]["history"]
        and "history, subtracted within periods" in found[0]["common"]
    )
    assert not found[0]["peers"]
    assert error[0] < 1.02 * error[1]
