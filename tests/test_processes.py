"""Two processes that torchrun starts fit the model that one process fits."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from peerattn import InputError, PeerAttentionRegressor, load
from peerattn.processes import all_sum, data_parallel, from_first, gathered, share

SCRIPT = Path(__file__).with_name("two_processes.py")
spec = importlib.util.spec_from_file_location("two_processes", SCRIPT)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """The folder in which both processes have left what they found, and what they said."""
    folder = tmp_path_factory.mktemp("two")
    X, y = script.panel()
    X.assign(y=y).reset_index().sort_values("period").to_parquet(folder / "panel.parquet", index=False)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        SCRIPT,
        folder,
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPT.parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, done


@pytest.fixture(scope="module")
def found(together):
    return [dict(np.load(together[0] / f"{number}.npz")) for number in (0, 1)]


@pytest.fixture(scope="module")
def told(together):
    return [json.loads((together[0] / f"{number}.json").read_text()) for number in (0, 1)]


def test_both_processes_have_the_same_model(found):
    for name, values in found[0].items():
        np.testing.assert_array_equal(values, found[1][name], err_msg=name)


@pytest.mark.parametrize("name", ["searched", "covariance", "quantile", "classes", "outcomes"])
def test_the_model_is_that_of_one_process(found, name):
    X, y = script.panel()
    [(model, outcome)] = [(model, outcome) for known, model, outcome in script.fits(X, y) if known == name]
    alone = script.predicted(script.fitted(name, model, X, outcome), X, y)
    assert name not in ("searched", "covariance") or np.isfinite(alone[-3:]).all()  # something was judged
    np.testing.assert_allclose(found[0][name], alone, rtol=1e-5, atol=1e-6)


def test_the_loss_curve_is_that_of_one_process(found):
    alone = script.losses(slice(None))
    assert alone[-1] < 0.5 * alone[0]
    np.testing.assert_allclose(found[0]["curve"], alone, rtol=1e-10)


def test_each_process_reads_its_periods(told, found):
    read = [set(one["read"]) for one in told]
    assert [len(one) for one in read] == [12, 12] and not read[0] & read[1]
    X, y = script.panel()
    alone = script.predicted(script.fitted("stored", PeerAttentionRegressor(**script.JOINT), X, y), X, y)
    np.testing.assert_allclose(found[0]["stored"], alone, atol=1e-6 * np.nanstd(alone))


def test_the_command(together, told):
    folder, done = together
    assert [one["codes"] for one in told] == [[0, 2], [0, 2]]
    assert done.stdout.count("fitted on 276 rows; saved in") == 2  # two fits; the second process is silent
    assert "--model: " in done.stderr and "several processes fit attention models only" in done.stderr
    X, y = script.panel()
    past = X.index.get_level_values("period") <= X.index.get_level_values("period").unique()[-2]
    model = PeerAttentionRegressor(codes=["industry"], own="none", kappa=None, random_state=0)
    model = script.fitted("command", model, X[past], y[past])
    got, alone = load(folder / "a.model").predict(X), model.predict(X)
    np.testing.assert_allclose(got, alone, atol=1e-6 * alone.std())


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        ("twice", "duplicate"),
        ("own", "own: an estimator is fitted by each process"),
        ("ridge", "CrossSectionalRidge: several processes fit attention models only"),
    ],
)
def test_misuse_is_refused_in_both(told, misuse, message):
    for one in told:
        with pytest.raises(InputError, match=message):
            raise InputError(one["said"][misuse])


def test_without_torchrun(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with (
        pytest.raises(InputError, match="RANK.* not in the environment. Start the script with torchrun"),
        data_parallel(),
    ):
        pass
    assert all_sum(3) == 3 and share() == slice(0, None, 1) and gathered(1) == [1] and from_first(1) == 1
