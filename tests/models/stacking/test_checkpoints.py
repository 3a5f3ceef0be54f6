"""A fit that is killed goes on from its checkpoint and ends with the bits of one that was not."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from peerattn import PeerAttentionClassifier, StackedPeerRegressor, simulate_panel
from peerattn.exceptions import InputError
from peerattn.training import checkpoint as checkpoints

OPTIONS = {"task": "nowcast", "n_heads": 1, "own": "linear", "random_state": 0}
SCRIPT = """
import sys, peerattn
from peerattn.models.learners.covariance import fit
from peerattn.models.learners.heads import learner
from peerattn.models.learners.heads.training import TrainingOptions
fit.FEWEST_STEPS = 12
learner.DEFAULT = TrainingOptions(n_seeds=4, max_steps=24)
panel = peerattn.simulate_panel(20, 8, 2, random_state=0)
model = peerattn.StackedPeerRegressor(task="nowcast", n_heads=1, own="linear", random_state=0)
model.fit(panel.X, panel.y, checkpoint=sys.argv[1]).save(sys.argv[2])
"""


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(20, 8, 2, random_state=0)


def bits(model, path):
    model.save(path)
    return path.read_bytes()


class Stopped(BaseException):
    """Stands for a signal that ends the process."""


def stopped_after(writes, monkeypatch, fit):
    """Run a fit that is stopped before its next write."""
    write, left = checkpoints.write_state, iter(range(writes))

    def stopping(*arguments, **options):
        if next(left, None) is None:
            raise Stopped
        write(*arguments, **options)

    with monkeypatch.context() as patched, pytest.raises(Stopped):
        patched.setattr(checkpoints, "write_state", stopping)
        fit()


def test_killed_by_a_signal_at_random_moments(panel, tmp_path):
    folder, saved = tmp_path / "kept", tmp_path / "a.model"
    moments, landed = random.Random(0), 0
    for _ in range(2):
        before = set(folder.glob("*")) if folder.exists() else set()
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder), str(saved)])
        while process.poll() is None and not (folder.exists() and set(folder.glob("*")) - before):
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        landed += process.wait() == -signal.SIGKILL
    assert landed  # the first kill finds a fit that has written little
    model = StackedPeerRegressor(**OPTIONS).fit(panel.X, panel.y, checkpoint=folder)
    unbroken = StackedPeerRegressor(**OPTIONS).fit(panel.X, panel.y)
    assert bits(model, saved) == bits(unbroken, tmp_path / "b.model")


@pytest.mark.parametrize(
    ("kind", "options", "writes"),
    [
        (StackedPeerRegressor, {"codes": ["industry"], "loss": "huber"}, 2),
        (StackedPeerRegressor, {"task": "nowcast", "codes": ["industry"]}, 7),
        (PeerAttentionClassifier, {"task": "nowcast"}, 1),
        (StackedPeerRegressor, {"attention": "cross", "task": "nowcast"}, 4),
    ],
)
def test_stopped_between_any_two_writes(tmp_path, monkeypatch, kind, options, writes):
    panel = simulate_panel(20, 9, 2, n_industries=3, random_state=1)
    X = panel.X if "codes" in options else panel.X.select_dtypes("number")
    y = panel.y if kind is StackedPeerRegressor else panel.y > 0
    reference = {"reference": (X, y)} if "attention" in options else {}

    def fit(**kept):
        return kind(random_state=0, **{"n_heads": 1, "own": "linear"} | options).fit(
            X, y, **reference, **kept
        )

    stopped_after(writes, monkeypatch, lambda: fit(checkpoint=tmp_path / "kept"))
    resumed, unbroken = fit(checkpoint=tmp_path / "kept"), fit()
    assert bits(resumed, tmp_path / "a") == bits(unbroken, tmp_path / "b")


def test_without_a_seed_the_draws_are_those_of_the_first_process(panel, tmp_path, monkeypatch):
    model = StackedPeerRegressor(n_heads=1, own="linear")
    stopped_after(5, monkeypatch, lambda: model.fit(panel.X, panel.y, checkpoint=tmp_path / "kept"))
    both = [model.fit(panel.X, panel.y, checkpoint=tmp_path / "kept").predict(panel.X) for _ in range(2)]
    np.testing.assert_array_equal(*both)


def test_other_data_and_other_options_are_refused_by_name(panel, tmp_path):
    def fit(X=panel.X, y=panel.y, **options):
        StackedPeerRegressor(**{"n_heads": 0, "own": "none", "random_state": 0} | options).fit(
            X, y, checkpoint=tmp_path
        )

    fit()
    fit(panel.X.sample(frac=1, random_state=0), panel.y)  # the same rows in another order
    with pytest.raises(InputError, match="of a fit with other data"):
        fit(y=panel.y.where(panel.y != panel.y.iloc[3], 0.5))
    with pytest.raises(InputError, match="of a fit with other data"):
        fit(*(both.rename({panel.X.index[0][0]: "another"}, level=0) for both in (panel.X, panel.y)))
    with pytest.raises(InputError, match="of a fit with other own, random_state"):
        fit(own="linear", random_state=1)


def test_an_option_that_cannot_be_hashed_is_refused(panel, tmp_path):
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    own = make_pipeline(FunctionTransformer(lambda x: x), LinearRegression())
    with pytest.raises(InputError, match="checkpoint: own cannot be stored"):
        StackedPeerRegressor(own=own).fit(panel.X, panel.y, checkpoint=tmp_path)


def test_an_own_model_that_is_an_estimator_is_fitted_again(panel, tmp_path, monkeypatch):
    from sklearn.tree import DecisionTreeRegressor

    own = DecisionTreeRegressor(max_depth=2, random_state=0)
    model = StackedPeerRegressor(own=own, n_heads=1, random_state=0)
    unbroken = model.fit(panel.X, panel.y).predict(panel.X)
    stopped_after(4, monkeypatch, lambda: model.fit(panel.X, panel.y, checkpoint=tmp_path / "kept"))
    model.fit(panel.X, panel.y, checkpoint=tmp_path / "kept")
    np.testing.assert_array_equal(model.predict(panel.X), unbroken)
    assert os.listdir(tmp_path / "kept")
