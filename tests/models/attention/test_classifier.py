"""Classes instead of numbers: same calls, probabilities that add up."""

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from peerattn.datasets import simulate_panel
from peerattn.evaluation import WalkForward
from peerattn.exceptions import InputError
from peerattn.models import PeerAttentionClassifier


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(40, 30, 3, signal_share=0.8, d_head=2, random_state=3)


@pytest.fixture(scope="module")
def small():
    """Where what is found is beside the point."""
    return simulate_panel(16, 14, 3, signal_share=0.8, d_head=2, random_state=3)


def test_up_or_down_beats_the_own_characteristics(panel, train_heads):
    train_heads(4, 200)
    y = pd.Series(np.where(panel.y > 0, "up", "down"), index=panel.y.index)
    train = np.asarray(panel.X.index.get_level_values("period") < "2002")
    model = PeerAttentionClassifier(n_heads=1, random_state=0).fit(panel.X[train], y[train])
    assert model.evidence_.loc["peers", "factor"] > 0.5
    control = LogisticRegression().fit(panel.X[train], y[train]).score(panel.X[~train], y[~train])
    assert model.score(panel.X[~train], y[~train]) > control + 0.03
    probability = model.predict_proba(panel.X[~train])
    assert model.classes_.tolist() == ["down", "up"]
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert (model.predict(panel.X[~train]) == model.classes_[probability.argmax(axis=1)]).all()


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_three_classes_with_unknown_ones(small, task):
    y = pd.Series(pd.qcut(small.y, 3, labels=["a", "b", "c"]).astype(object), index=small.y.index)
    y.iloc[:5] = None
    model = PeerAttentionClassifier(task=task, n_heads=2, kappa=None, random_state=0).fit(small.X, y)
    probability = model.predict_proba(small.X, **({"outcomes": y} if task == "nowcast" else {}))
    assert probability.shape == (len(y), 3) and np.isfinite(probability).all()


def test_a_nowcast_of_classes_in_words_has_a_score(small):
    y = pd.Series(np.where(small.y > 0, "up", "down"), index=small.y.index)
    y.iloc[:5] = None
    model = PeerAttentionClassifier(task="nowcast", n_heads=1, kappa=None, random_state=0).fit(small.X, y)
    known = y.notna()
    expected = (model.predict(small.X, outcomes=y) == y)[known].mean()
    assert model.score(small.X, y) == pytest.approx(expected)


def test_own_class_does_not_count(small, in_full):
    y = pd.Series(np.where(small.y > 0, 1, 0), index=small.y.index)
    with in_full():
        model = PeerAttentionClassifier(task="nowcast", n_heads=2, kappa=None, random_state=0).fit(small.X, y)
    changed = y.copy()
    changed.iloc[3] = 1 - changed.iloc[3]
    before, after = (model.predict_proba(small.X, outcomes=told) for told in (y, changed))
    assert (before[3] == after[3]).all()
    assert np.abs(before - after).max() > 1e-6


def test_a_panel_of_classes_in_words_is_split_by_period(panel):
    y = pd.Series(np.where(panel.y > 0, "up", "down"), index=panel.y.index, dtype=object)
    last = panel.X.index.get_level_values("period").max()
    y[panel.X.index.get_level_values("period") == last] = None  # not tested
    cv = WalkForward(4, 4)
    numbers = list(cv.split(panel.X, y.map({"up": 1.0, "down": 0.0})))
    for classes in (y, y.astype("string"), y.astype("category"), y.to_numpy(), y.tolist()):
        np.testing.assert_equal(list(cv.split(panel.X, classes)), numbers)
    model = PeerAttentionClassifier(n_heads=0)
    assert np.isfinite(cross_val_score(model, panel.X, y, cv=cv)).all()
    known = y.notna()
    calibrated = CalibratedClassifierCV(model, cv=cv).fit(panel.X[known], y[known])
    np.testing.assert_allclose(calibrated.predict_proba(panel.X).sum(axis=1), 1)


def test_messages(panel):
    mixed = pd.Series([1, "up"] * (len(panel.y) // 2), index=panel.y.index)
    with pytest.raises(InputError, match="y: classes must be all text or all numbers, got 'up' and 1"):
        PeerAttentionClassifier().fit(panel.X, mixed)
    with pytest.raises(InputError, match="Unknown label type: continuous"):
        PeerAttentionClassifier().fit(panel.X, panel.y)
    with pytest.raises(InputError, match="y should be a 1d array"):
        PeerAttentionClassifier().fit(panel.X, "up")
    one = pd.Series("up", index=panel.y.index)
    with pytest.raises(InputError, match="only one class is present"):
        PeerAttentionClassifier().fit(panel.X, one)
    y = pd.Series(np.where(panel.y > 0, "up", "down"), index=panel.y.index)
    model = PeerAttentionClassifier(task="nowcast", n_heads=0).fit(panel.X, y)
    with pytest.raises(InputError, match="no class is named 'sideways'"):
        model.predict(panel.X, outcomes=y.replace("up", "sideways"))
