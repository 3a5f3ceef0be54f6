"""Slopes within periods: by hand, and no peers where only a level is common."""

import numpy as np
import pandas as pd
import pytest

from peerattn import StackedPeerRegressor
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.common import fit_slopes_within
from peerattn.models.learners.losses import squared_error
from peerattn.models.learners.training import Problem, Training
from peerattn.models.learners.variance_components import common_variance, precision_of_periods
from peerattn.models.stacking import candidates
from peerattn.models.stacking import evidence as judging
from peerattn.models.stacking.weights import Scope


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
    """With the covariance (I + τ_t 11') σ_t² of every period written out, periods of different sizes and variances."""
    x, y = arrays(0, 6, 30)
    y[2] *= 3
    training = Training.of(sections(x, y, sizes=[30, 12, 25, 30, 7, 18]), PROBLEM)
    tau = common_variance(training.residuals)
    left = [section.focal.y for section in training.residuals]
    usual = sum(((r - r.mean()) ** 2).sum() for r in left) / sum(len(r) - 1 for r in left)
    A, b = np.zeros((3, 3)), np.zeros(3)
    for section, r in zip(training.residuals, left, strict=True):
        variance = (((r - r.mean()) ** 2).sum() + usual) / len(r)
        Z = np.column_stack([np.ones(len(section.focal)), section.focal.x])
        V = np.linalg.inv(variance * np.eye(len(Z)) + tau * usual)
        A, b = A + Z.T @ V @ Z, b + Z.T @ V @ section.focal.y
    found = fit_slopes_within(training)
    assert tau > 0.1
    np.testing.assert_allclose(found.lines.slope[:, 0] / found.lines.spread, np.linalg.solve(A, b)[1:])


def test_precision_is_the_inverse_variance_of_the_period():
    rng = np.random.default_rng(0)
    period = np.repeat(np.arange(3), [400, 400, 1])
    y = rng.normal(size=801) * np.array([1.0, 2.0, 1.0])[period] + 5 * period
    precision = precision_of_periods(y, period)
    assert precision[0] / precision[400] == pytest.approx(4, rel=0.15)
    assert precision[-1] == 1  # one row has no variance of its own
    assert precision_of_periods(np.ones(4), np.zeros(4, int)).tolist() == [1.0] * 4


def test_without_characteristics_there_is_none():
    x, y = arrays(2, 6, 30)
    assert fit_slopes_within(Training.of(sections(x[..., :0], y), PROBLEM)) is None


@pytest.mark.parametrize("seed", [3])
def test_common_shocks_do_not_pass_for_peers(seed, monkeypatch, train_heads):
    """Shocks of twenty-four periods move the slopes of least squares; heads would add those within periods as theirs."""
    train_heads(3, 60)
    X, y = panel(seed)
    selected = []
    for fit in (fit_slopes_within, lambda training: None):
        monkeypatch.setattr(candidates, "fit_slopes_within", fit)
        model = StackedPeerRegressor(own="linear", n_heads=1, random_state=0)
        selected.append(model.fit(X, y).evidence_["selected"])
    assert "slopes (within period)" in selected[0]["common"] and not selected[0]["peers"]
    assert "heads" in selected[1]["peers"]


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_a_level_that_own_models_follow_does_not_pass_for_peers(task, monkeypatch, train_heads):
    """A wandering level beside trending characteristics: own models are selected for it, and are wrong within periods."""
    train_heads(3, 60)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 40, 3)) + np.arange(24)[:, None, None] / 10
    y = x[..., 0] + rng.normal(size=(24, 1)).cumsum(axis=0) + rng.normal(size=(24, 40))
    index = pd.MultiIndex.from_product([range(24), range(40)], names=["period", "firm"]).swaplevel()
    X, y = pd.DataFrame(x.reshape(-1, 3), index, columns=["a", "b", "c"]), pd.Series(y.ravel(), index)
    selected = []
    for fit in (fit_slopes_within, lambda training: None):
        monkeypatch.setattr(candidates, "fit_slopes_within", fit)
        model = StackedPeerRegressor(task=task, n_heads=1, random_state=0).fit(X, y)
        selected.append(model.evidence_["selected"])
    assert "slopes (within period)" in selected[0]["common"] and not selected[0]["peers"]
    assert selected[1]["peers"]


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_what_others_outcomes_show_is_not_tested_and_slopes_have_a_sum_of_their_own(task, monkeypatch):
    X, y = panel(2)
    used, weigh = {}, judging.weigh

    def recorded(held, columns, loss, kappa, **options):
        used.update({column.candidate: (kappa, column.kind) for column in columns})
        return weigh(held, columns, loss, kappa, **options)

    monkeypatch.setattr(judging, "weigh", recorded)
    model = StackedPeerRegressor(task=task, own="linear", n_heads=0, kappa=0.5, random_state=0)
    common = model.fit(X, y).evidence_.loc["common"]
    assert "slopes (within period)" in common["selected"] and 0 < common["factor"] <= 1
    if task == "nowcast":
        assert used["slopes"] == (0.0, Scope.WITHIN) and used["period"] == (0.0, Scope.WHOLE)
    else:
        assert used["slopes"] == (0.5, Scope.WITHIN)
