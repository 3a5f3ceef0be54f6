"""Anomalies: found where they are, scored row by row, sklearn's contract but for the order of time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import check_estimator

from peerattn.exceptions import InputError
from peerattn.sequence import AttentionAnomalyDetector

QUICK = {"window": 32, "patch": 4, "d_model": 16, "n_heads": 2, "n_layers": 1, "max_steps": 120, "learning_rate": 5e-3,
         "random_state": 0}  # fmt: skip


def beat(n_rows: int, columns: int = 1, seed: int = 0) -> np.ndarray:
    rng, t = np.random.default_rng(seed), np.arange(n_rows)
    waves = np.stack([np.sin(t * np.pi / 8 + c) for c in range(columns)], axis=1)
    return waves + 0.1 * rng.standard_normal(waves.shape)


@pytest.mark.parametrize("method", ["prediction", "reconstruction"])
def test_a_missing_beat_is_found_though_no_value_is_unusual(method):
    series = beat(800)
    series[600:632] = series[600]  # a flat stretch, well within the range
    truth = np.zeros(800, dtype=bool)
    truth[600:632] = True
    model = AttentionAnomalyDetector(method=method, **QUICK).fit(series[:500])
    score = model.score_samples(series)
    assert roc_auc_score(truth, -score) > 0.97
    assert roc_auc_score(truth, np.abs(series[:, 0])) < 0.6  # the size of values says nothing


def test_scores_are_means_over_the_blocks_of_a_row():
    """By loops: each window's last quarter is hidden, its error belongs to the rows of that quarter."""
    series = beat(75)
    model = AttentionAnomalyDetector(**(QUICK | {"max_steps": 3})).fit(series)
    module, scaled = model._module().double(), (series - model.mean_) / model.scale_
    errors = [[] for _ in series]
    for start in [*range(0, 75 - 32, 4), 75 - 32]:
        window = torch.tensor(scaled[start : start + 32].T[None])
        error = float(module.errors(window, model._hidden(6)).detach())
        for row in range(start + 24, start + 32):
            errors[row].append(error)
    want = [-np.mean(found) for found in errors if found]
    np.testing.assert_allclose(model.score_samples(series)[24:], want, rtol=1e-9)
    assert (model.score_samples(series)[:24] == model.score_samples(series)[24]).all()


def test_the_past_alone_tells_in_prediction():
    series = beat(120)
    model = AttentionAnomalyDetector(**(QUICK | {"max_steps": 3})).fit(series)
    changed = series.copy()
    changed[90:] += 5
    before = slice(0, 80)  # blocks of 8 rows that end before row 90
    np.testing.assert_allclose(model.score_samples(changed)[before], model.score_samples(series)[before], rtol=1e-9)


def test_contamination_is_the_share_of_fit_that_is_called_abnormal():
    series = pd.DataFrame(beat(300, columns=2), columns=["a", "b"])
    model = AttentionAnomalyDetector(contamination=0.2, **(QUICK | {"max_steps": 5})).fit(series)
    assert np.mean(model.predict(series) == -1) == pytest.approx(0.2, abs=0.05)
    np.testing.assert_allclose(model.decision_function(series), model.score_samples(series) - model.offset_)


def test_a_constant_column_is_not_divided_by_its_rounding():
    series = np.column_stack([beat(300)[:, 0], np.full(300, 0.1)])
    model = AttentionAnomalyDetector(**QUICK | {"max_steps": 2}).fit(series)
    assert model.scale_[1] == 1.0
    assert np.abs(model.score_samples(series)).max() < 1e3


def test_files_keep_it(tmp_path):
    series = pd.DataFrame(beat(200, columns=3), columns=["a", "b", "c"])
    model = AttentionAnomalyDetector(**(QUICK | {"max_steps": 5})).fit(series)
    model.save(tmp_path / "normal.safetensors")
    loaded = AttentionAnomalyDetector.load(tmp_path / "normal.safetensors")
    np.testing.assert_array_equal(loaded.score_samples(series), model.score_samples(series))
    seen = model.attention(series, column=2)
    assert seen.weights.shape == (1, 2, 8, 8) and seen.keys[-1] == "-3..0 hidden"
    np.testing.assert_allclose(seen.weights.sum(-1), 1)


@pytest.mark.parametrize(
    ("options", "rows", "words"),
    [
        ({"window": 30}, 100, "multiple of patch=4"),
        ({"method": "guess"}, 100, "The 'method' parameter of AttentionAnomalyDetector must be a str among"),
        ({"hidden": 0}, 100, "The 'hidden' parameter of AttentionAnomalyDetector must be a float in the range (0.0, 1.0]"),
        (
            {"contamination": 0.7},
            100,
            "'contamination' parameter of AttentionAnomalyDetector must be a float in the range",
        ),
        ({}, 20, "at least 32 rows (window), got n_samples=20"),
    ],
)
def test_what_cannot_be_used_is_named(options, rows, words):
    with pytest.raises(InputError) as caught:
        AttentionAnomalyDetector(**(QUICK | options)).fit(beat(rows))
    assert words in str(caught.value)


def test_a_value_beyond_any_error_is_an_anomaly():
    series = beat(200)
    model = AttentionAnomalyDetector(**QUICK).fit(series)
    series[150] = 1e200
    assert not np.isnan(model.score_samples(series)).any() and model.predict(series)[150] == -1


def test_a_gap_is_named():
    series = pd.Series(beat(100)[:, 0], index=pd.date_range("2024-01-01", periods=100), name="load")
    series.iloc[40] = np.nan
    with pytest.raises(InputError, match="NaN in column 'load' at row 2024-02-10"):
        AttentionAnomalyDetector(**QUICK).fit(series)


@pytest.mark.filterwarnings("ignore")
def test_check_estimator():
    why = "rows are dates in order: a score depends on the rows around it"
    expected = {"check_methods_sample_order_invariance": why, "check_methods_subset_invariance": why}
    results = check_estimator(
        AttentionAnomalyDetector(window=4, patch=2, d_model=8, n_heads=2, n_layers=1, max_steps=3),
        expected_failed_checks=expected, on_fail=None, on_skip=None,
    )  # fmt: skip
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert failed == {} and len(results) > 40
