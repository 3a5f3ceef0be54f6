"""Every model of sequences names an argument of its constructor that cannot be used, before it computes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from peerattn.exceptions import InputError
from peerattn.sequence import (
    AttentionAnomalyDetector,
    AttentionForecaster,
    GraphAttentionClassifier,
    LanguageModel,
    MaskedLanguageModel,
    TextClassifier,
    Translator,
    VisionTransformerClassifier,
)

TEXTS = ["red apple", "green leaf"] * 4
CLASSES = ["a", "b"] * 4
WAVE = np.sin(np.arange(300.0))[:, None]
IMAGES = np.arange(128.0).reshape(8, 4, 4)
DATA = {
    LanguageModel: (TEXTS,),
    MaskedLanguageModel: (TEXTS,),
    TextClassifier: (TEXTS, CLASSES),
    Translator: (TEXTS, TEXTS),
    AttentionForecaster: (WAVE,),
    AttentionAnomalyDetector: (WAVE,),
    VisionTransformerClassifier: (IMAGES, CLASSES),
    GraphAttentionClassifier: (np.eye(8), CLASSES),
}
# for these every number may be right, or every value is checked where it is used
FREE = {"random_state", "tokenizer", "pretrained", "schedule"}


@pytest.mark.parametrize("kind", DATA)
def test_no_argument_is_nan_or_a_list(kind):
    for name in kind().get_params(deep=False).keys() - FREE:
        for value in (math.nan, [1]):
            with pytest.raises(InputError, match=f"'{name}' parameter of {kind.__name__} must be"):
                kind(**{name: value}).fit(*DATA[kind])


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("name", ["batch_size", "n_layers", "n_heads", "d_model", "patch", "n_epochs", "max_steps"])
def test_counts_are_at_least_one(kind, name):
    if name in kind().get_params(deep=False):
        for value in (0, -1, 2.5):
            with pytest.raises(InputError, match=f"'{name}' parameter of {kind.__name__} must be an int"):
                kind(**{name: value}).fit(*DATA[kind])


@pytest.mark.parametrize("labels", [[math.nan] * 4 + [1.0] * 4, [0.5, 1.5] * 4, [None] * 4 + ["a"] * 4])
def test_classes_of_texts_are_no_numbers_with_decimals_and_none_is_missing(labels):
    with pytest.raises(ValueError, match="NaN|label type"):
        TextClassifier().fit(TEXTS, labels)


@pytest.mark.parametrize("kind", [TextClassifier, VisionTransformerClassifier])
def test_the_importance_of_heads_needs_a_class_for_each_text_or_image(kind):
    small = {"n_layers": 1, "n_epochs": 1, "d_model": 8} | ({"line": False} if kind is TextClassifier else {})
    model = kind(**small).fit(*DATA[kind])
    for wrong in (CLASSES[:3], CLASSES * 2):
        with pytest.raises(InputError, match=r"y: expected one class per .* \(8\), got"):
            model.head_importance(DATA[kind][0], wrong)


@pytest.mark.parametrize(("kind", "wanted"), [(TextClassifier, "MaskedLanguageModel"), (Translator, "Translator")])
def test_the_model_to_start_from_is_of_the_right_kind(kind, wanted):
    for other in (3, LanguageModel()):
        with pytest.raises(InputError, match=f"pretrained: expected a fitted {wanted} or None, got"):
            kind(pretrained=other).fit(*DATA[kind])


def test_the_nearest_choice_is_named():
    with pytest.raises(InputError, match="'precision' parameter .* Near matches: 'bfloat16'"):
        LanguageModel(precision="bfloat").fit(TEXTS)
