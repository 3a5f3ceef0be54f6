"""Own lines are least squares; what a shown outcome may say is bounded by what training rows said."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from peerattn import StackedPeerRegressor, simulate_panel
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.linear import fit_best_line, fit_lines
from peerattn.models.learners.losses import Pinball, huber, squared_error
from peerattn.models.learners.training import Problem, Training

PROBLEM = Problem(squared_error, 1, (), True, True)


def sections(n=30, T=4, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    label, found = pd.Index(range(n)), []
    for t in range(T):
        x = rng.normal(size=(n, 3)) * [1.0, 100.0, 0.01] + [0.0, 50.0, 1.0]
        y = 2 + x @ [1.0, 0.02, 30.0] + rng.normal(size=n)
        weight = rng.uniform(0.5, 2, n) if weighted else None
        rows = Rows(x, np.zeros((n, 0), int), y, None, np.arange(n), label, label, weight)
        found.append(CrossSection(t, slice(0, n), rows, rows, True))
    return found


@pytest.mark.parametrize("weighted", [False, True])
def test_lines_are_those_of_statsmodels(weighted):
    given = sections(weighted=weighted)
    x, y = (np.concatenate([getattr(s.focal, name) for s in given]) for name in ("x", "y"))
    weight = np.concatenate([s.focal.loss_weight for s in given]) if weighted else 1.0
    expected = sm.WLS(y, sm.add_constant(x), weights=weight).fit().fittedvalues
    lines = fit_lines(given, squared_error, 1)
    found = np.concatenate([lines.predict(s.focal) for s in given])[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    largest = np.abs(y - expected).max()
    assert Training.of(given, PROBLEM).limit == pytest.approx(largest)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_line_is_the_one_regression_of_highest_r2(weighted):
    given = sections(weighted=weighted)
    x, y = (np.concatenate([getattr(s.focal, name) for s in given]) for name in ("x", "y"))
    weight = np.concatenate([s.focal.loss_weight for s in given]) if weighted else 1.0
    fits = [sm.WLS(y, sm.add_constant(x[:, k]), weights=weight).fit() for k in range(3)]
    best = max(fits, key=lambda fit: fit.rsquared)
    assert best is not fits[0]
    line = fit_best_line(given)
    found = np.concatenate([line.predict(s.focal) for s in given])[:, 0]
    np.testing.assert_allclose(found, best.fittedvalues, rtol=1e-9)
    rows = replace(given[0].focal, x=given[0].focal.x[:, :0])
    assert fit_best_line([replace(given[0], focal=rows, peers=rows)]) is None


def test_median_and_huber_lines_are_those_of_statsmodels():
    given = sections()
    x, y = (np.concatenate([getattr(s.focal, name) for s in given]) for name in ("x", "y"))
    z = sm.add_constant((x - x.mean(0)) / x.std(0))
    own = fit_lines(given, Pinball(0.3), 1)
    found = np.concatenate([own.predict(s.focal) for s in given])[:, 0]
    best = sm.QuantReg(y, z).fit(q=0.3)
    check = lambda f: np.where(y > f, 0.3 * (y - f), 0.7 * (f - y)).sum()  # noqa: E731
    assert check(found) < 1.01 * check(best.fittedvalues)
    lines = fit_lines(given, huber, 1)
    found = np.concatenate([lines.predict(s.focal) for s in given])[:, 0]
    from peerattn.models.learners.losses import HUBER_THRESHOLD

    slope = np.clip(y - found, -HUBER_THRESHOLD, HUBER_THRESHOLD)
    np.testing.assert_allclose(z.T @ slope / len(y), 0, atol=1e-3)  # the estimating equations


def test_constant_columns_and_no_own_model_say_nothing():
    given = sections()
    for s in given:
        s.focal.x[:, 1] = 7.0
    lines = fit_lines(given, squared_error, 1)
    assert lines.slope[1, 0] == 0 or lines.spread[1] == np.inf
    assert np.isfinite(lines.predict(given[0].focal)).all()
    none = fit_lines(given, squared_error, 2, none=True)
    assert (none.predict(given[0].focal) == np.zeros((30, 2))).all()


def test_what_is_shown_is_bounded_and_the_target_is_not():
    given = sections()
    training = Training.of(given, PROBLEM)
    given[0].focal.y[3] = 1e9  # focal rows and peers are the same rows
    (prepared,) = training.prepared(given[:1])
    assert prepared.peers.y[3] == training.limit and prepared.focal.y[3] > 1e8
    assert training.view.prepared(given[0], outcomes=False).peers.y is None


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.BoundedOutcomeWarning")  # the billion
def test_one_shown_outcome_of_a_billion_moves_others_by_a_bounded_amount():
    """A typing error in one outcome says no more than the largest residual of training did."""
    panel = simulate_panel(30, 10, 2, n_industries=3, signal_share=0.5, random_state=0)
    X, y = panel.X, panel.y + panel.X["industry"].map({"I01": 1.0, "I02": -1.0, "I03": 0.0}).astype(float)
    model = StackedPeerRegressor(task="nowcast", n_heads=1, own="linear", codes=["industry"], kappa=0.2, random_state=0)
    model.fit(X, y)
    assert model.stack_.peers() or model.stack_.fitted, "something reads the outcomes"
    moves = []
    for size in (50.0, 1e9):
        wrong = y.copy()
        wrong.iloc[5] = size
        moves.append(model.predict(X, outcomes=wrong) - model.predict(X, outcomes=y))
    assert np.abs(moves[0]).max() > 1e-6
    np.testing.assert_allclose(moves[0], moves[1], atol=1e-8)
    assert np.abs(moves[1]).max() < 3 * (y - y.mean()).abs().max()
