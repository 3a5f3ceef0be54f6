"""Every model of sequences names an argument of its constructor that cannot be used, before it computes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from peerattn.exceptions import InputError
from peerattn.sequence import (
    AttentionAnomalyDetector,
    AttentionForecaster,
    BytePairTokenizer,
    CharacterTokenizer,
    GraphAttentionClassifier,
    LanguageModel,
    MaskedLanguageModel,
    TextClassifier,
    Translator,
    VisionTransformerClassifier,
    WordTokenizer,
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


@pytest.mark.parametrize("kind", DATA)
def test_true_is_no_number(kind):
    for name in ("batch_size", "d_model", "max_steps", "learning_rate"):
        if name in kind().get_params(deep=False):
            with pytest.raises(InputError, match=f"'{name}' parameter of {kind.__name__} must be .* Got True"):
                kind(**{name: True}).fit(*DATA[kind])


@pytest.mark.parametrize("X", [2.5, {"a": 1}, [1.0, 2.0], np.zeros((3, 2, 2)), [["word"]], [[1.0], [1.0, 2.0]]])
@pytest.mark.parametrize(
    "kind", [AttentionForecaster, AttentionAnomalyDetector, VisionTransformerClassifier, GraphAttentionClassifier]
)
def test_what_is_no_table_of_numbers_is_an_error_of_this_package(kind, X):
    with pytest.raises(InputError):
        kind().fit(X, *DATA[kind][1:])


def test_other_input_that_cannot_be_read_is_an_error_of_this_package(tmp_path):
    model = VisionTransformerClassifier(n_layers=1, n_heads=2, d_model=8, n_epochs=1, random_state=0).fit(
        *DATA[VisionTransformerClassifier]
    )
    for call, message in (
        (lambda: model.predict(IMAGES * 1e299), "infinity or a value too large for dtype"),  # probabilities were NaN
        (lambda: model.score(IMAGES, CLASSES[:3]), "y, sample_weight: expected one class, or weight, for each prediction"),
        (lambda: model.score(IMAGES, CLASSES, 2.5), "y, sample_weight: expected"),
        (lambda: model.save(3), "path: expected text or PathLike, got 3"),
        (lambda: type(model).load(None), "path: expected text or PathLike, got None"),
        (lambda: model.with_heads(3), "keep: expected a dictionary whose values are each a list of values, got 3"),
        (lambda: model.with_heads({"blocks.blocks.0.attention": None}), "keep: expected a dictionary whose values"),
        (
            lambda: VisionTransformerClassifier(shift=5).fit(IMAGES, CLASSES),
            "shift: expected at most the 4 pixels of a side, got 5",
        ),
        (lambda: VisionTransformerClassifier(n_layers=10**18).fit(IMAGES, CLASSES), "'n_layers' parameter"),
        (lambda: LanguageModel().fit([[1, 2], [3]]), "inhomogeneous"),
        (lambda: LanguageModel().fit(np.array(3)), "X: expected a text, or numbers in one dimension"),
        (lambda: TextClassifier().fit(TEXTS, 3), "y should be a 1d array"),
    ):
        with pytest.raises(InputError, match=message):
            call()


@pytest.mark.parametrize("tokenizer", [CharacterTokenizer(), WordTokenizer(), BytePairTokenizer(3)])
def test_text_and_numbers_of_tokenizers(tokenizer):
    tokenizer.fit(TEXTS)
    for call, message in (
        (lambda: tokenizer.encode(3), "text: expected text"),
        (lambda: tokenizer.tokenize(["red"]), "text: expected text"),
        (lambda: tokenizer.decode(3), "numbers: expected"),
        (lambda: tokenizer.decode([None]), "numbers: expected whole numbers"),
    ):
        with pytest.raises(InputError, match=message):
            call()
