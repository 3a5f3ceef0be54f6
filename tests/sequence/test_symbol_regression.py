"""The linear classifier of texts, and the classifier that adds attention to it only where that helps."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from peerattn.exceptions import InputError
from peerattn.sequence import TextClassifier, WordTokenizer
from peerattn.sequence.base import class_folds
from peerattn.sequence.text_classifier import SymbolRegression, held_out

SMALL = {"n_layers": 1, "n_heads": 2, "d_model": 16, "dropout": 0.0, "symbol_dropout": 0.0, "random_state": 0}


def drawn(n: int, n_words: int, seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [list(rng.integers(5, 5 + n_words, rng.integers(1, 9))) for _ in range(n)]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_equals_logistic_regression_on_tf_idf(n_classes):
    sequences, new = drawn(90, 12, 0), [*drawn(20, 14, 1), [17, 18]]  # some symbols are new
    y = np.array([sequence[0] % n_classes for sequence in sequences])
    model = SymbolRegression().fit(sequences, y, n_classes=n_classes)
    texts = [[" ".join(map(str, sequence)) for sequence in part] for part in (sequences, new)]
    tf_idf = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True)
    control = make_pipeline(tf_idf, LogisticRegression(C=10, max_iter=1000)).fit(texts[0], y)
    assert len(model.terms_) == len(tf_idf.vocabulary_)
    np.testing.assert_allclose(np.exp(model.log_probabilities(new)), control.predict_proba(texts[1]), atol=1e-4)


def test_a_class_without_a_text_is_as_probable_as_one_text_more():
    model = SymbolRegression().fit([[5], [6]] * 2, np.zeros(4, int), n_classes=2)
    np.testing.assert_allclose(np.exp(model.log_probabilities([[5]])), [[4 / 5, 1 / 5]])


def test_folds_hold_every_class_alike():
    y = np.repeat([0, 1, 2], [50, 30, 20])
    folds = class_folds(y, 10, np.random.default_rng(0).permutation(100))
    assert all((np.bincount(folds[y == k]) == n // 10).all() for k, n in enumerate([50, 30, 20]))


def test_the_factor_is_zero_where_attention_adds_nothing():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 2, 400)
    line = np.log([[0.6, 0.4], [0.4, 0.6]])[classes]
    help_, noise = np.eye(2)[classes], rng.standard_normal((400, 2))
    factor, gain, error = held_out(line, 0.5 * help_, classes)
    assert factor == pytest.approx(1, abs=1e-4) and gain > 10 * error
    assert held_out(line, -help_, classes)[0] == 0 and held_out(line, noise, classes)[0] < 0.1
    assert held_out(line[:1], help_[:1], classes[:1])[0] == 0  # one text is no evidence


def order_matters(n: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Which of two words comes first, among others: neighbouring pairs do not tell."""
    rng = np.random.default_rng(seed)
    y, fill = rng.integers(0, 2, n), [[str(k) for k in rng.integers(0, 5, 4)] for _ in range(n)]
    return [f"{f[0]} {'ab'[k]} {f[1]} {f[2]} {'ba'[k]} {f[3]}" for k, f in zip(y, fill)], y


def test_attention_is_kept_where_it_adds_to_the_line_and_files_hold_both(tmp_path):
    X, y = order_matters(400, 0)
    X_new, y_new = order_matters(100, 1)
    tokenizer = WordTokenizer().fit(X)
    model = TextClassifier(tokenizer, **SMALL, n_epochs=12, learning_rate=1e-2).fit(X, y)
    alone = SymbolRegression().fit([tokenizer.encode(text) for text in X], y, n_classes=2)
    np.testing.assert_array_equal(model.line_.coef_, alone.coef_)
    assert model.factor_ > 0 and model.loss_reduction_ > model.loss_reduction_error_ > 0
    assert model.score(X_new, y_new) > 0.95
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(TextClassifier.load(tmp_path / "model").predict_proba(X_new), model.predict_proba(X_new))
    assert model.attention("0 a 1 2 b 3").weights.shape[0] == 1


def test_without_evidence_for_attention_the_line_alone_decides():
    rng = np.random.default_rng(0)
    X = [" ".join(map(str, rng.integers(0, 9, 6))) for _ in range(120)]
    y = rng.integers(0, 2, 120)
    model = TextClassifier(**SMALL, n_epochs=1).fit(X, y)
    assert model.factor_ == 0
    line = model.line_.log_probabilities([model.tokenizer_.encode(text) for text in X[:5]])
    np.testing.assert_allclose(model.predict_proba(X[:5]), np.exp(line))
    for ask in (lambda: model.attention("1 2"), lambda: model.head_importance(X, y)):
        with pytest.raises(InputError, match="line: probabilities are those of the linear model alone .* with line=False"):
            ask()
    without = TextClassifier(**SMALL, n_epochs=1, line=False).fit(X, y)
    assert without.line_ is None and without.factor_ == 1 and np.isnan(without.loss_reduction_)
    assert without.attention("1 2").weights.shape == (1, 2, 3, 3)
