"""Classes of images: patches, positions, what is refused, and saving."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone

from peerattn.exceptions import InputError
from peerattn.sequence import VisionTransformerClassifier
from peerattn.sequence.vision import _shifted

QUICK = {"patch": 2, "d_model": 16, "n_heads": 2, "n_layers": 1, "n_epochs": 10, "batch_size": 16, "learning_rate": 5e-3,
         "shift": 0, "random_state": 0}  # fmt: skip


def corners(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noise with a bright spot in one corner, which is the class: only positions tell."""
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=n)
    X = rng.random((n, 6, 8))
    for image, corner in zip(X, y):
        image[:2, :2] = image[:2, -2:] = image[-2:, :2] = image[-2:, -2:] = 0
        image[-2 * (corner // 2) :, -2 * (corner % 2) :][:2, :2] = 3
    return X, np.array(["north-west", "north-east", "south-west", "south-east"])[y]


@pytest.fixture(scope="module")
def fitted():
    return VisionTransformerClassifier(**QUICK).fit(*corners(300))


def test_positions_tell_corners_apart(fitted):
    X, y = corners(200, seed=1)
    assert fitted.score(X, y) >= 0.95
    np.testing.assert_allclose(fitted.predict_proba(X).sum(1), 1)


def test_patches_are_squares_row_by_row(fitted):
    image = torch.arange(48.0).reshape(1, 6, 8, 1)
    patches = fitted._patches(image)
    assert patches.shape == (1, 12, 4)
    assert patches[0, 0].tolist() == [0, 1, 8, 9] and patches[0, 5].tolist() == [18, 19, 26, 27]


def test_channels_may_be_last(fitted):
    X, y = corners(60)
    grey = clone(fitted).fit(X, y)
    same = clone(fitted).fit(X[..., None], y)
    np.testing.assert_array_equal(grey.predict_proba(X), same.predict_proba(X[..., None]))
    coloured = clone(fitted).set_params(n_epochs=1).fit(np.stack([X, -X, X * 0], -1), y)
    assert coloured.image_shape_ == (6, 8, 3)


def test_bytes_and_their_scale_do_not_matter():
    X, y = corners(60)
    X = (X * 80).astype(np.uint8)
    whole = VisionTransformerClassifier(**QUICK).fit(X, y).predict_proba(X)
    share = VisionTransformerClassifier(**QUICK).fit(X / 255, y).predict_proba(X / 255)
    np.testing.assert_allclose(whole, share, atol=1e-3)


def test_shifts_move_images_and_keep_their_size():
    image = torch.zeros(50, 5, 5, 1)
    image[:, 2, 2] = 1
    moved = _shifted(image, 1, torch.Generator().manual_seed(0))
    places = {tuple(place[1:3].tolist()) for place in moved.nonzero()}
    assert moved.shape == image.shape and places == {(i, j) for i in (1, 2, 3) for j in (1, 2, 3)}
    assert (moved.sum((1, 2, 3)) == 1).all()


def test_attention_of_an_image(fitted):
    seen = fitted.attention(corners(1)[0][0])
    assert seen.weights.shape == (1, 2, 13, 13) and seen.queries[:2] == ("cls", "0,0") and seen.keys[-1] == "2,3"
    np.testing.assert_allclose(seen.weights.sum(-1), 1, atol=1e-6)


def test_fit_repeats_itself_and_files_keep_it(fitted, tmp_path):
    X, y = corners(300)
    np.testing.assert_array_equal(clone(fitted).fit(X, y).predict_proba(X), fitted.predict_proba(X))
    fitted.save(tmp_path / "images.safetensors")
    loaded = VisionTransformerClassifier.load(tmp_path / "images.safetensors")
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (np.zeros((4, 48)), [0, 1, 0, 1], "X.reshape(-1, height, width)"),
        (np.zeros((4, 5, 8)), [0, 1, 0, 1], "divisor of height 5 and width 8, got 2"),
        (np.zeros((4, 6, 8)), [0, 1], "one class per image (4), got 2"),
        (np.full((4, 6, 8), np.nan), [0, 1, 0, 1], "NaN"),
        (np.array([["a"]]), [0], "as numbers"),
    ],
)
def test_what_cannot_be_used_is_named(X, y, words):
    with pytest.raises(ValueError) as caught:
        VisionTransformerClassifier(**QUICK).fit(X, y)
    assert words in str(caught.value)


def test_another_size_at_predict_is_named(fitted):
    with pytest.raises(InputError, match=r"\(6, 8, 1\) as in fit, got \(8, 8, 1\)"):
        fitted.predict(np.zeros((3, 8, 8)))
