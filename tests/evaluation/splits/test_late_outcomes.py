"""Rows whose outcome is not known by the origin: no outcome is learned from, and no firm is lost as a peer."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV

from peerattn.evaluation import NewFirms, WalkForward, compare
from peerattn.evaluation.running.entries import Entry
from peerattn.evaluation.running.inputs import FoldRows
from peerattn.models import CrossSectionalRidge, LinearInMeansRegressor
from peerattn.panel import as_panel

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point

YEARS = range(2000, 2012)
ORIGIN = 2009
FIRMS = [f"F{i:02d}" for i in range(40)]
INDUSTRY = np.arange(40) % 4
SAME = (INDUSTRY[:, None] == INDUSTRY) * (1.0 - np.eye(40))
NETWORK = pd.DataFrame(SAME / SAME.sum(axis=1, keepdims=True), FIRMS, FIRMS)


def made():
    """Outcomes are size, and twice the mean size of the industry's other firms; three in five are filed after 2012."""
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([YEARS, FIRMS], names=["period", "firm"]).swaplevel()
    size = rng.normal(size=(12, 40))
    X = pd.DataFrame({"size": size.ravel()}, index)
    y = pd.Series((size + 2 * size @ NETWORK.to_numpy().T + 0.1 * rng.normal(size=size.shape)).ravel(), index, name="roa")
    late = rng.random(480) < 0.6
    period = index.get_level_values("period")
    known_at = pd.Series(period + np.where(late, 20, 1), index)
    return X, y, late & (period < ORIGIN), known_at


def peers():
    return LinearInMeansRegressor(network=NETWORK, peer_outcome=False)


def run(X, y, known_at, cv=None, **options):
    usual = {"decomposition": False, "verbose": False, "cv": cv or WalkForward(3, 3)}
    panel = as_panel(X, y, known_at=known_at)
    return compare({"peers": peers(), "ridge": CrossSectionalRidge()}, panel, **(usual | options))


def test_a_split_keeps_rows_without_an_outcome_and_drops_those_with_a_late_one():
    X, y, late, known_at = made()
    period = X.index.get_level_values("period")
    for unfiled in (known_at.where(~late), known_at):
        kept, _ = next(WalkForward(3, 3, known_at=unfiled).split(X, y.where(~late)))
        np.testing.assert_array_equal(kept, np.flatnonzero(period < ORIGIN))
        dropped, _ = next(WalkForward(3, 3, known_at=unfiled).split(X, y))
        np.testing.assert_array_equal(dropped, np.flatnonzero((period < ORIGIN) & ~late))
    first = next(WalkForward(3, 3, known_at=known_at, window="rolling", train_periods=2).split(X, y.where(~late)))[0]
    assert set(period[first]) == {2007, 2008}


def test_a_period_of_which_nothing_is_known_is_not_in_the_folds():
    """Whether an outcome is missing or comes later must not decide which periods are there."""
    X, y, _, known_at = made()
    last = X.index.get_level_values("period") == ORIGIN - 1
    known_at = known_at.mask(last, 2030)
    for outcomes in (y, y.mask(last & (np.arange(480) % 2 == 0))):
        train, _ = next(WalkForward(3, 3, known_at=known_at).split(X, outcomes))
        assert X.index.get_level_values("period")[train].max() == ORIGIN - 2


@pytest.mark.parametrize("cause", ["never filed", "filed late"])
def test_a_comparison_keeps_the_peers_of_rows_it_may_learn_from(cause):
    X, y, late, known_at = made()
    outcomes = y
    if cause == "never filed":
        outcomes = y.where(~late)
        known_at = known_at.where(~late)
    found = run(X, outcomes, known_at).predictions.set_index(["firm", "period"])
    period = X.index.get_level_values("period")
    tested = period >= ORIGIN
    by_hand = peers().fit(X[~tested], y.where(~late)[~tested]).predict(X[tested])
    np.testing.assert_allclose(found["peers"].reindex(X.index[tested]), by_hand, atol=1e-10)
    # a firm's peers are those of the whole cross-section: the noise is what remains
    assert np.sqrt(np.mean((found["peers"] - found["outcome"]) ** 2)) < 0.13


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_outcomes_that_are_known_after_the_origin_change_no_prediction(task):
    X, y, late, known_at = made()
    models = ["ridge"] if task == "nowcast" else ["peers", "ridge"]
    chosen = {"peers": peers(), "ridge": CrossSectionalRidge()}
    options = {"cv": WalkForward(3, 3), "task": task, "decomposition": False, "verbose": False}

    def result(outcomes):
        return compare({name: chosen[name] for name in models}, as_panel(X, outcomes, known_at=known_at), **options)

    before = result(y)
    # some are others, some are missing
    after = result(y.where(~late, 50.0 - 3.0 * y).mask(late & (np.arange(480) % 3 == 0)))
    pd.testing.assert_frame_equal(after.predictions, before.predictions, check_exact=True)
    np.testing.assert_allclose(after.training_mean, before.training_mean, rtol=1e-12)
    assert after.settings["fits per model"] == before.settings["fits per model"]


def test_new_firms_are_no_peers_in_training_and_late_outcomes_are_blank():
    X, y, late, known_at = made()
    panel = as_panel(X, y, known_at=known_at).sorted()
    split = NewFirms(WalkForward(3, 3), n_splits=4)
    for train, test in split.split(panel):
        rows = FoldRows(panel, train, test)
        firms = panel.firm[test].unique()
        assert not rows.train.firm.isin(firms).any() and rows.train.period.max() == ORIGIN - 1
        assert len(rows.train) == 9 * (40 - len(firms))
        known = pd.Series(~late, X.index).reindex(rows.train.X.index)
        np.testing.assert_array_equal(rows.train.y.notna(), known)
        assert len(FoldRows(as_panel(X, y).sorted(), train, test).train) == len(train)


def test_plain_regressors_learn_from_known_outcomes_alone():
    X, y, late, known_at = made()
    tested = X.index.get_level_values("period") >= ORIGIN
    options = {"cv": WalkForward(3, 3), "decomposition": False, "verbose": False}
    found = compare({"OLS": LinearRegression()}, as_panel(X, y, known_at=known_at), **options).predictions
    learned = ~late & ~tested
    by_hand = LinearRegression().fit(X[learned], y[learned]).predict(X[tested])
    np.testing.assert_allclose(found.set_index(["firm", "period"])["OLS"].reindex(X.index[tested]), by_hand, atol=1e-10)


@pytest.mark.parametrize("scoring", [None, "neg_mean_squared_error"])
def test_a_search_scores_its_settings_where_outcomes_come_late(scoring):
    X, y, _, known_at = made()
    panel = as_panel(X, y, known_at=known_at).sorted()
    inner = WalkForward(2, known_at=known_at)
    search = GridSearchCV(CrossSectionalRidge(), {"alpha": [1.0, 1e6]}, cv=inner, scoring=scoring)
    rows = FoldRows(panel, *next(WalkForward(3, 3).split(panel)))
    fitted = Entry("search", search).fit(rows)
    assert np.isfinite(fitted.cv_results_["mean_test_score"]).all() and len(rows.learned) < len(rows.train)
