"""Language model, masked language model, classifier and translator on texts small enough to be learned at once."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from peerattn.exceptions import InputError
from peerattn.sequence import (
    AttentionMap,
    BytePairTokenizer,
    LanguageModel,
    MaskedLanguageModel,
    TextClassifier,
    Translator,
    WordTokenizer,
)
from peerattn.sequence.generation import beam_search, sample

SMALL = {"n_layers": 1, "n_heads": 2, "d_model": 16, "random_state": 0}


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel(**SMALL, block_size=12, max_steps=60).fit("the cat sat on the mat. " * 20)


@pytest.mark.parametrize("positions", ["rotary", "learned", "sinusoidal"])
@pytest.mark.parametrize("options", [{}, {"n_beams": 3}])
def test_cached_generation_equals_uncached_past_the_block_too(positions, options):
    model = LanguageModel(**SMALL, block_size=8, max_steps=20, positions=positions).fit("abcdefg " * 20)
    cached, plain = (model.generate("ab", 30, cache=cache, **options) for cache in (True, False))
    assert cached == plain and len(cached) == 30


def test_loss_counts_every_symbol_once(model):
    text = "the cat sat on the mat. the mat sat"
    numbers = model.tokenizer_.encode(text)
    module = model._module()

    total, block = 0.0, model.block_size
    for t in range(1, len(numbers)):  # symbol t is read in the block that holds it, or the last of all
        first = min((t - 1) // block * block, len(numbers) - 1 - block)
        logits = module(torch.tensor([numbers[first:t]]))[0, -1].detach()
        total -= float(logits.log_softmax(-1)[numbers[t]])
    assert model.loss(text) == pytest.approx(total / (len(numbers) - 1), rel=1e-5)
    assert model.score(text) == -model.loss(text)


def test_probabilities_and_predictions(model):
    p = model.predict_proba(["the c", "on"])
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-5)
    assert model.predict(["the c"]).tolist() == [model.tokenizer_.symbols_[int(p[0].argmax())]]


def test_numbers_may_be_text(tmp_path):
    numbers = np.tile([3, 0, 1], 60)
    model = LanguageModel(**SMALL, block_size=8, max_steps=60).fit(numbers)
    assert model.generate([3, 0], 4, temperature=0) == [1, 3, 0, 1]
    with pytest.raises(InputError, match="X: expected numbers below 4, as in fit, got 7"):
        model.loss([3, 7])


def test_same_seed_same_model_and_files_without_pickle(model, tmp_path):
    again = clone(model).fit("the cat sat on the mat. " * 20)
    assert again.loss("the cat") == model.loss("the cat")
    model.save(tmp_path / "m.safetensors")
    loaded = LanguageModel.load(tmp_path / "m.safetensors")
    assert loaded.loss("the cat") == model.loss("the cat") and loaded.get_params()["block_size"] == 12
    raw = (tmp_path / "m.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    assert "LanguageModel" in header["__metadata__"]["peerattn"]
    with pytest.raises(InputError, match="expected a saved TextClassifier, got a saved LanguageModel"):
        TextClassifier.load(tmp_path / "m.safetensors")
    (tmp_path / "other").write_bytes(b"not one of ours")
    with pytest.raises(InputError, match="path: expected a file that save"):
        LanguageModel.load(tmp_path / "other")


def test_attention_looks_back_only(model):
    seen = model.attention("the cat")
    assert isinstance(seen, AttentionMap) and seen.weights.shape == (1, 2, 7, 7)
    assert np.triu(seen.weights, 1).max() == 0
    np.testing.assert_allclose(seen.rollout().weights.sum(-1), 1, rtol=1e-5)
    assert len(seen.to_frame()) == 2 * 7 * 7 and "<svg" in seen._repr_html_()
    with pytest.raises(InputError, match="X: expected at most block_size=12 symbols, got 24"):
        model.attention("the cat sat on the mat. ")
    with pytest.raises(InputError, match="layer: expected -1 to 0, got 3"):
        seen.matrix(layer=3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.loss(""), "X: expected at least 2 symbol.s., got 0"),
        (lambda m: m.loss("a"), "X: expected at least 2 symbol.s., got 1"),
        (lambda m: m.generate(""), "prompt: expected at least 1 symbol.s., got 0"),
        (lambda m: m.generate("a", 0), "n_symbols: expected an integer of at least 1"),
        (lambda m: m.generate("a", temperature=-1), "temperature: expected a number of at least 0"),
        (lambda m: m.generate("a", temperature=np.inf), "temperature: expected a number of at least 0, got inf"),
        (lambda m: m.generate("a", temperature="hot"), "temperature: expected a number, got 'hot'"),
        (lambda m: m.predict_proba([]), "X: expected at least one text, got none"),
        (lambda m: clone(m).fit(None), "X: expected a text, texts, or numbers, got None"),
        (lambda m: m.generate("a", top_p=1.5), "top_p: expected a share"),
        (lambda m: m.generate("a", top_k=0), "top_k: expected an integer of at least 1"),
        (lambda m: m.generate("a", n_beams=0), "n_beams: expected an integer of at least 1, got 0"),
        (lambda m: clone(m).fit("a"), "X: expected at least 2 symbol.s., got 1"),
        (
            lambda m: clone(m).fit("docs/guide.md"),
            "X: 'docs/guide.md' looks like the path of a file: pass its text",
        ),
        (lambda m: clone(m).fit(np.zeros((2, 2), int)), "X: expected a text, or numbers in one dimension"),
    ],
)
def test_bad_input_is_named(model, call, message):
    with pytest.raises(InputError, match=message):
        call(model)


def test_unfitted_models_say_so():
    for unfitted in (LanguageModel(), MaskedLanguageModel(), TextClassifier(), Translator()):
        with pytest.raises(NotFittedError):
            unfitted.score(["a"], ["b"])


def test_sampling_keeps_to_its_options():
    p = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log().expand(4000, -1)
    generator = torch.Generator().manual_seed(0)
    assert set(sample(p, generator, temperature=1e-310).tolist()) == {0}

    def shares(**options) -> np.ndarray:
        return np.bincount(sample(p, generator, **options), minlength=4) / len(p)

    np.testing.assert_allclose(shares(), [0.4, 0.3, 0.2, 0.1], atol=0.03)
    np.testing.assert_allclose(shares(top_k=2), [4 / 7, 3 / 7, 0, 0], atol=0.03)
    np.testing.assert_allclose(shares(top_p=0.5), [4 / 7, 3 / 7, 0, 0], atol=0.03)
    np.testing.assert_allclose(shares(temperature=0.5), np.array([16, 9, 4, 1]) / 30, atol=0.03)
    assert shares(temperature=0)[0] == 1


class Table:
    """A reader whose next symbol depends on the last one only."""

    def __init__(self, log_p: torch.Tensor):
        self.log_p = log_p

    def next_log_probabilities(self, sequences: torch.Tensor) -> torch.Tensor:
        return self.log_p[sequences[:, -1]]

    def reorder(self, sequences: torch.Tensor) -> None:
        pass


@pytest.mark.parametrize("n_beams", [1, 2, 5])
def test_a_sequence_that_is_nearly_certain_is_found_whatever_ends_before_it(n_beams):
    log_p = torch.full((8, 8), -9.0)
    for symbol in range(7):  # 0, 1, ..., and 7 is the end
        log_p[symbol, symbol + 1] = -1e-4
    start = torch.tensor([[0], [3]])
    assert beam_search(Table(log_p), start, n_beams=n_beams, max_symbols=20, end=7) == [[1, 2, 3, 4, 5, 6], [4, 5, 6]]


def test_one_beam_is_greedy_and_stops_at_the_end():
    log_p = torch.tensor([[-9.0, -0.9, -0.6], [-9.0, -1e-4, -9.0], [0.0, 0.0, 0.0]])
    for start in ([[0]], [[0], [1]]):
        assert beam_search(Table(log_p), torch.tensor(start), n_beams=1, max_symbols=9, end=2)[0] == []


def test_a_wide_beam_finds_the_best_of_all_sequences():
    log_p = torch.randn(4, 4, generator=torch.Generator().manual_seed(3)).log_softmax(-1)

    def brute(start: int, length: int) -> list[int]:
        found: list[tuple[float, list[int]]] = []

        def extend(sequence: list[int], total: float) -> None:
            for symbol in range(4):
                now = total + float(log_p[sequence[-1], symbol])
                n = len(sequence)
                if symbol == 3 or n == length:
                    written = sequence[1:] if symbol == 3 else [*sequence[1:], symbol]
                    found.append((now / ((5 + n) / 6) ** 0.6, written))
                else:
                    extend([*sequence, symbol], now)

        extend([start], 0.0)
        return max(found)[1]

    start = torch.tensor([[0], [1], [2]])
    got = beam_search(Table(log_p), start, n_beams=64, max_symbols=4, end=3)
    assert got == [brute(k, 4) for k in range(3)]
    assert beam_search(Table(log_p), start, n_beams=1, max_symbols=1, end=None) == [[int(log_p[k].argmax())] for k in range(3)]


def test_masked_model_fills_in_and_lends_its_encoder(tmp_path):
    texts = ["red apple falls", "green leaf falls"] * 30
    masked = MaskedLanguageModel(**SMALL, max_steps=150, learning_rate=1e-2, dropout=0.0).fit(texts)
    assert masked.predict(["red <mask> falls", "green <mask> falls"]) == texts[:2]
    assert masked.loss(texts) < math.log(2) and masked.transform(texts[:3]).shape == (3, 16)
    with pytest.raises(InputError, match="X: expected a <mask> among the first 63 symbols, got none in text 0"):
        masked.predict(["red apple"])
    classifier = TextClassifier(pretrained=masked, n_epochs=20, learning_rate=1e-2, random_state=0)
    assert clone(classifier).pretrained is masked
    classifier.fit(texts, ["r", "g"] * 30)
    assert classifier.score(texts, ["r", "g"] * 30) == 1
    classifier.save(tmp_path / "c.safetensors")
    loaded = TextClassifier.load(tmp_path / "c.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(texts[:2]), classifier.predict_proba(texts[:2]))
    start = TextClassifier(pretrained=masked, n_epochs=1, learning_rate=1e-12, line=False, random_state=0).fit(
        texts, ["r", "g"] * 30
    )
    np.testing.assert_allclose(
        start.state_["encoder.stack.blocks.0.attention.query.weight"],
        masked.state_["encoder.stack.blocks.0.attention.query.weight"], atol=1e-9,
    )  # fmt: skip


def test_a_text_longer_than_the_positions_is_cut():
    texts = ["good " * 3, "bad " * 3] * 10
    model = TextClassifier(**SMALL, n_positions=4, n_epochs=2, line=False).fit(texts, [1, 0] * 10)
    np.testing.assert_array_equal(model.predict_proba(["good bad bad"]), model.predict_proba(["good bad bad good good"]))
    with pytest.raises(InputError, match=r"y: expected one class per text \(20\)"):
        model.fit(texts, [1])
    with pytest.raises(InputError, match="y: expected at least two classes"):
        model.fit(texts, [1] * 20)
    with pytest.raises(InputError, match=r"'n_positions' parameter of TextClassifier must be an int in the range .2, inf"):
        clone(model).set_params(n_positions=1).fit(texts, [1, 0] * 10)


def test_padding_and_batching_change_no_class_probability():
    texts = ["good one", "bad", "a rather long text about nothing good"] * 5
    model = TextClassifier(**SMALL, n_epochs=2, line=False).fit(texts, [1, 0, 1] * 5)
    together = model.predict_proba(texts[:3])
    apart = np.concatenate([model.predict_proba([text]) for text in texts[:3]])
    np.testing.assert_allclose(together, apart, atol=1e-5)


def test_a_tokenizer_that_was_given_unfitted_is_stored_so(tmp_path):
    texts = ["low lower"] * 8
    model = Translator(BytePairTokenizer(3), n_layers=1, n_heads=1, d_model=8, max_steps=1, average=1, random_state=0)
    model.fit(texts, texts).save(tmp_path / "m.safetensors")
    loaded = Translator.load(tmp_path / "m.safetensors")
    assert loaded.loss(texts, texts) == model.loss(texts, texts)
    assert loaded.tokenizer_.merges_ == model.tokenizer_.merges_ and not hasattr(loaded.tokenizer, "merges_")


@pytest.fixture(scope="module")
def translator() -> Translator:
    words = ["one", "two", "three", "four", "five", "six"]
    rng = np.random.default_rng(0)
    pairs = [[words[k] for k in rng.integers(0, 6, 3)] for _ in range(200)]
    source = [" ".join(p) for p in pairs]
    return Translator(**SMALL, max_steps=250, batch_size=32, average=20, learning_rate=1e-2, dropout=0.0).fit(source, source)


def test_translator_copies_words_it_has_never_seen(translator, tmp_path):
    assert translator.predict(["two five one"]) == ["two five one"]
    unseen = "two zeppelin one"
    with_pointer = translator.loss([unseen], [unseen])
    assert with_pointer < translator.loss([unseen], ["two dirigible one"])  # <unknown> cannot be reached as well
    translator.save(tmp_path / "t.safetensors")
    assert Translator.load(tmp_path / "t.safetensors").loss([unseen], [unseen]) == with_pointer
    seen = translator.attention("two five one")
    assert seen.keys == ("two", "five", "one", "<end>") and seen.queries == seen.keys


def test_translation_step_by_step_has_the_loss_of_all_at_once(translator):
    source, target = "two five zeppelin", "five zeppelin two"
    numbers, written, extra = translator._numbers(source, target)
    assert extra == ["zeppelin"] and max(written) == len(translator.tokenizer_.symbols_)
    module = translator._module()
    context = module.read(torch.tensor([numbers]), torch.tensor([len(numbers)]))
    total, sequence = 0.0, [2]
    for symbol in [*written, 3]:
        rows = module.write(torch.tensor([sequence]), context)[:, -1]
        p = module.log_probabilities(rows, context, module.n_symbols + 1)
        assert float(p.detach().exp().sum()) == pytest.approx(1, abs=1e-4)
        total -= float(p[0, symbol].detach())
        sequence.append(symbol)
    assert translator.loss([source], [target]) == pytest.approx(total / 4, rel=1e-4)


def test_pairs_are_checked(translator):
    with pytest.raises(InputError, match=r"y: expected one translation per text \(2\), got 1"):
        clone(translator).fit(["a", "b"], ["a"])
    with pytest.raises(InputError, match=r"'position_shift' parameter of Translator must be an int in the range \[0, inf\)"):
        clone(translator).set_params(position_shift=-1).fit(["a"], ["a"])


def test_a_fitted_tokenizer_is_used_as_it_is():
    tokenizer = WordTokenizer().fit(["a b c d"])
    model = LanguageModel(tokenizer, **SMALL, max_steps=2).fit("a b a b")
    assert model.tokenizer_.symbols_ == tokenizer.symbols_ and model.tokenizer_ is not tokenizer


def test_a_translator_starts_from_another():
    texts = ["one two", "two one", "two two"] * 4
    told = {"n_layers": 1, "n_heads": 2, "d_model": 8, "average": 1, "random_state": 0}
    before = Translator(**told, max_steps=20, learning_rate=1e-2).fit(texts, texts)
    started = Translator(**told | {"max_steps": 1, "learning_rate": 1e-9}, pretrained=before).fit(texts, texts)
    assert started.loss(texts, texts) == pytest.approx(before.loss(texts, texts), rel=1e-4)
    assert clone(started).pretrained is before
    with pytest.raises(InputError, match="pretrained"):
        Translator(**told | {"d_model": 16}, max_steps=1, pretrained=before).fit(texts, texts)
