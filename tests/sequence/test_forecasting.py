"""Forecasts of series: the line in closed form, what attention adds, and what cannot be forecast."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import check_estimator

from peerattn.exceptions import InputError
from peerattn.sequence import AttentionForecaster
from peerattn.sequence.forecasting import PENALTIES, loss_reduction_in_blocks, window_moments, window_ridge
from peerattn.sequence.series import PatchEncoder, windows_of

QUICK = {
    "d_model": 8,
    "n_heads": 2,
    "n_layers": 1,
    "max_steps": 6,
    "batch_size": 16,
    "patch": 4,
    "random_state": 0,
}


def walk(n_rows: int, n_columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n_rows, n_columns)).cumsum(0)


def waves(n_rows: int) -> pd.DataFrame:
    """Two noisy waves of 12 hours, the second three times the first."""
    rng, hours = np.random.default_rng(0), pd.date_range("2024-01-01", periods=n_rows, freq="h")
    wave = np.sin(np.arange(n_rows) * np.pi / 6)
    noise = 0.05 * rng.standard_normal((n_rows, 2))
    return pd.DataFrame(noise + wave[:, None] * [1, 3] + [10, -5], index=hours, columns=["a", "b"])


@pytest.fixture(scope="module")
def fitted():
    return AttentionForecaster(horizon=6, lookback=24, **QUICK).fit(waves(400))


# ---------------------------------------------------------------------- the line


def stacked(series, lookback, horizon):
    windows = windows_of(series, lookback + horizon)
    return (windows - windows[..., [lookback - 1]]).reshape(-1, lookback + horizon)


@pytest.mark.parametrize("level", [0.0, 1e4])
def test_moments_are_those_of_all_windows(level):
    series, w = walk(70, 3) + level, stacked(walk(70, 3), 7, 4)
    np.testing.assert_allclose(window_moments(series, 7, 4) * len(w), w.T @ w, atol=1e-6 if level else 1e-10)


def test_the_line_is_scikit_learns_ridge_of_the_penalty_that_does_best_later():
    w, later = stacked(walk(80, 2), 6, 3), stacked(walk(60, 2, seed=1), 6, 3)

    def ridge(penalty):
        alpha = penalty * np.trace(w[:, :6].T @ w[:, :6]) / 6
        return Ridge(alpha=alpha, fit_intercept=False).fit(w[:, :6], w[:, 6:])

    errors = [np.mean((ridge(penalty).predict(later[:, :6]) - later[:, 6:]) ** 2) for penalty in PENALTIES]
    moments = (window_moments(walk(n, 2, seed), 6, 3) for n, seed in ((80, 0), (60, 1)))
    found, penalty = window_ridge(*moments, lookback=6)
    assert penalty == PENALTIES[int(np.argmin(errors))]
    np.testing.assert_allclose(found, ridge(penalty).coef_.T, atol=1e-10)


def test_a_random_walk_repeats_its_last_value():
    train, later = (window_moments(walk(1500, 1, seed), 20, 5) for seed in (0, 1))
    coefficients, penalty = window_ridge(train, later, 20)
    assert penalty >= PENALTIES[-5] and np.abs(coefficients).max() < 0.05


# ---------------------------------------------------------------------- the forecaster


@pytest.mark.parametrize(("series", "lookback"), [(np.full((60, 1), 3.0), 8), (np.arange(60.0)[:, None], 1)])
def test_a_past_without_any_change_repeats_its_last_value(series, lookback):
    model = AttentionForecaster(horizon=2, lookback=lookback, max_steps=2, random_state=0).fit(series)
    np.testing.assert_allclose(model.predict(series)[:, 0], series[-1, 0], rtol=0.05)


def test_a_wave_goes_on(fitted):
    shown = waves(400)
    found = fitted.predict(shown)
    truth = np.sin(np.arange(400, 406) * np.pi / 6)[:, None] * [1, 3] + [10, -5]
    assert np.abs(found.to_numpy() - truth).max() < 0.35
    assert list(found.columns) == ["a", "b"]
    assert found.index[0] == shown.index[-1] + pd.Timedelta("1h") and len(found) == 6


def test_attention_forecasts_what_a_line_cannot():
    """Most often the next sign is the product of the last two: linear maps see nothing of it."""
    rng = np.random.default_rng(0)
    signs = [1.0, -1.0]
    for flip in rng.random(1500) < 0.1:
        signs.append(signs[-1] * signs[-2] * (-1 if flip else 1))
    model = AttentionForecaster(
        1, 4, **(QUICK | {"patch": 1, "max_steps": 150, "batch_size": 64, "learning_rate": 1e-2}), dropout=0.0
    )
    assert model.fit(np.array(signs)[:, None]).loss_reduction_ > 0.3


def test_the_error_of_a_gain_is_that_of_means_of_blocks():
    rng = np.random.default_rng(0)
    without, losses = 1 + rng.random(12), 0.8 + rng.random(12)
    gain, error = loss_reduction_in_blocks(without, losses, 4)
    assert gain == pytest.approx(1 - losses.sum() / without.sum())
    blocks = ((without - losses) / without.mean()).reshape(4, 3).mean(1)
    assert error == pytest.approx(blocks.std(ddof=1) / 2)
    assert loss_reduction_in_blocks(without, losses, 1)[1] == 0.0
    assert loss_reduction_in_blocks(np.zeros(3), np.ones(3), 3) == (0.0, 0.0)


def test_without_a_gain_the_line_alone_is_kept():
    series = walk(400, 1)
    model = AttentionForecaster(4, 16, **(QUICK | {"learning_rate": 0.5, "max_steps": 3})).fit(series)
    assert model.loss_reduction_ <= model.loss_reduction_error_
    scaled = (series - model.mean_) / model.scale_
    last = scaled[-1]
    line = last + (scaled[-16:, 0] - last) @ model.state_["line"]
    np.testing.assert_allclose(model.predict(series)[:, 0], line * model.scale_ + model.mean_, rtol=1e-5)
    with pytest.raises(InputError, match="those of the linear model alone"):
        model.attention(series)


def test_windows_end_with_the_forecast_and_score_is_their_error(fitted):
    values = waves(120)
    windows = fitted.predict_windows(values)
    assert windows.shape == (120 - 24 + 1, 6, 2)
    np.testing.assert_allclose(windows[-1], fitted.predict(values), atol=1e-9)
    truth = windows_of(values.to_numpy()[24:], 6).transpose(0, 2, 1)
    error = ((windows[: len(truth)] - truth) / fitted.scale_) ** 2
    assert fitted.score(values) == pytest.approx(-error.mean())


def test_forecasts_follow_the_units_of_a_column(fitted):
    """Independent columns: shifting and scaling all of a column does the same to its forecast."""
    values = waves(400)
    other = AttentionForecaster(horizon=6, lookback=24, **QUICK).fit(values * 7 + 3)
    np.testing.assert_allclose(other.predict(values * 7 + 3), fitted.predict(values) * 7 + 3, rtol=1e-4)


def test_later_rows_do_not_matter_for_earlier_origins(fitted):
    values = waves(120)
    changed = values.copy()
    changed.iloc[60:] += 100
    early = slice(0, 60 - 24 + 1)
    np.testing.assert_array_equal(fitted.predict_windows(changed)[early], fitted.predict_windows(values)[early])


def test_attention_at_its_own_learning_rate_adds_what_no_line_can_forecast():
    """A tent map with noise: the next value is a curve of the last one, and hardly correlated with it."""
    rng, x = np.random.default_rng(0), np.zeros((1500, 1))
    for t in range(1, len(x)):
        x[t] = np.clip(1 - 1.7 * np.abs(x[t - 1]) + 0.1 * rng.standard_normal(), -1.2, 1.2)
    options = QUICK | {"max_steps": 200, "batch_size": 64, "patch": 1, "dropout": 0.0}
    model = AttentionForecaster(1, 4, **options).fit(x[:1200])
    later = (x[1196:] - model.mean_) / model.scale_
    w = stacked(later, 4, 1)
    line = np.mean((w[:, :4] @ model.state_["line"].astype(float) - w[:, 4:]) ** 2)
    assert model.loss_reduction_ > 5 * model.loss_reduction_error_ and -model.score(x[1196:]) < 0.7 * line


def test_attention_shows_patches():
    model = AttentionForecaster(6, 24, line=False, **QUICK).fit(waves(400))
    seen = model.attention(waves(60), column="b")
    assert seen.weights.shape == (1, 2, 6, 6) and seen.keys[-1] == "-3..0"
    np.testing.assert_allclose(seen.weights.sum(-1), 1)
    with pytest.raises(InputError, match="column: expected a number from 0 to 1 or one of"):
        model.attention(waves(60), column="c")


def test_series_and_saving(tmp_path):
    series = waves(200)["a"]
    model = AttentionForecaster(3, 12, **QUICK).fit(series)
    found = model.predict(series)
    assert isinstance(found, pd.Series) and found.name == "a"
    model.save(tmp_path / "forecast.safetensors")
    loaded = AttentionForecaster.load(tmp_path / "forecast.safetensors")
    pd.testing.assert_series_equal(loaded.predict(series), found)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(series.rename("b"))


def test_a_window_that_is_no_multiple_is_filled_on_the_left():
    encoder = PatchEncoder(lookback=5, patch=4, d_model=8, n_heads=2, n_layers=1)
    window = torch.arange(1.0, 6.0)
    assert encoder.patches(window).tolist() == [[1, 1, 1, 1], [2, 3, 4, 5]]


@pytest.mark.parametrize(
    ("options", "change", "words"),
    [
        ({}, lambda x: x.iloc[:30], "lookback=24, horizon=6"),
        ({"horizon": 500}, lambda x: x, "Lower lookback or horizon"),
        ({}, lambda x: x.mask(x > 12.9), "NaN in column 'a' at row 2024"),
        (
            {"horizon": 0},
            lambda x: x,
            "'horizon' parameter of AttentionForecaster must be an int in the range [1, inf)",
        ),
        ({"validation_share": 1.0}, lambda x: x, "validation_share"),
    ],
)
def test_what_cannot_be_used_is_named(options, change, words):
    frame = waves(400)
    frame.iloc[7, 0] = 13.0
    with pytest.raises(InputError) as caught:
        AttentionForecaster(**({"horizon": 6, "lookback": 24} | QUICK | options)).fit(change(frame))
    assert words in str(caught.value)


def test_a_history_that_is_too_short_is_named(fitted):
    with pytest.raises(InputError, match="at least 24 rows"):
        fitted.predict(waves(20))


@pytest.mark.filterwarnings("ignore")
def test_check_estimator():
    why = "rows are dates in order, and predict gives the rows that follow, not one for each"
    expected = {"check_methods_sample_order_invariance": why, "check_methods_subset_invariance": why}
    results = check_estimator(
        AttentionForecaster(horizon=1, lookback=2, **(QUICK | {"patch": 1, "max_steps": 2})),
        expected_failed_checks=expected, on_fail=None, on_skip=None,
    )  # fmt: skip
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert failed == {} and len(results) > 40
