"""Tokenizers of published vocabularies: what their authors' files say of a text, and what they do with odd characters."""

from __future__ import annotations

import copy
import pickle
import sys

import pytest
from tokenizers.pre_tokenizers import ByteLevel

from peerattn.exceptions import InputError, MissingExtraError
from peerattn.sequence import ByteLevelTokenizer, WordPieceTokenizer, load_bert, load_gpt2
from peerattn.store.objects import load_estimator

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
UNCASED = [*SPECIAL, "cafe", "café", "the", "de", "la", "apple", "北", "京", "北京"]
CASED = [*SPECIAL, "[unused1]", "the", "The", "Apple", "apple", "Cafe", "Café"]


def read(published, folder, pieces, config, text):
    """Return the pieces of a text by a published BERT of this vocabulary."""
    state = published.bert_state()
    for name in (
        "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.weight",
        "cls.predictions.bias",
    ):
        state[name] = state[name][: len(pieces)].repeat(2, *[1] * (state[name].ndim - 1))[: len(pieces)]
    return load_bert(published.bert_folder(folder, pieces=pieces, tokenizer=config, state=state)).tokenizer_.tokenize(text)


@pytest.mark.parametrize(
    ("pieces", "config", "text", "right"),
    [
        (CASED, {"do_lower_case": False}, "The Apple", ["The", "Apple"]),
        (CASED, {"do_lower_case": True}, "The Apple", ["the", "apple"]),
        (CASED, None, "The Café", ["The", "Café"]),
        (CASED, {"do_lower_case": False, "strip_accents": True}, "Café", ["Cafe"]),
        (UNCASED, None, "The Café", ["the", "cafe"]),
        (UNCASED, {"do_lower_case": False}, "The café", ["<unknown>", "café"]),
        (UNCASED, {"do_lower_case": True, "strip_accents": False}, "CAFÉ", ["café"]),
        (UNCASED, {"tokenize_chinese_chars": True}, "北京", ["北", "京"]),
        (UNCASED, {"tokenize_chinese_chars": False}, "北京", ["北京"]),
        (UNCASED, {"mask_token": {"content": "[MASK]"}}, "De [MASK]la", ["de", "<mask>", "la"]),
    ],
)
def test_the_tokenizers_own_file_says_how_a_text_is_read(pieces, config, text, right, published, tmp_path):
    assert read(published, tmp_path, pieces, config, text) == right


@pytest.mark.parametrize(
    "config",
    [
        {"do_basic_tokenize": False},
        {"never_split": ["the"]},
        {"mask_token": "<mask>"},
        {"unk_token": {"content": "<unk>"}},
        {"do_lower_case": "yes"},
        {"added_tokens_decoder": {"5": {"content": "[E1]"}}},
    ],
    ids=str,
)
def test_what_of_a_tokenizers_file_cannot_be_used_is_named(config, published, tmp_path):
    with pytest.raises(InputError, match=f"tokenizer_config.json: {next(iter(config))}: expected"):
        read(published, tmp_path, UNCASED, config, "the")


MARKS = {
    "soft hyphen": "\u00ad",
    "zero width space": "\u200b",
    "byte order mark": "\ufeff",
    "NUL": "\x00",
    "escape": "\x1b",
    "replacement character": "\ufffd",
    "next line": "\x85",
    "private use": "\ue000",
    "left-to-right mark": "\u200e",
}


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_control_and_format_characters_are_dropped(mark):
    tokenizer = WordPieceTokenizer().from_symbols([*SPECIAL, "peer", "##s", "peers"])
    assert tokenizer.tokenize(f"pe{mark}ers") == ["peers"]


def test_pieces_are_the_longest_first_and_special_names_are_special(published, tmp_path):
    tokenizer = load_bert(published.bert_folder(tmp_path)).tokenizer_
    assert tokenizer.tokenize("The <mask>s.") == ["the", "<mask>", "<unknown>", "."]  # s alone is no word
    assert tokenizer.tokenize("Café playings xyz") == ["cafe", "play", "##ing", "##s", "<unknown>"]
    assert tokenizer.tokenize("the\u2028cat") == ["the", "cat"]
    assert tokenizer.tokenize("play" + "s" * 97) == ["<unknown>"]  # longer than 100 characters
    assert tokenizer.decode(tokenizer.encode("playings.")) == "playings ."


def test_a_vocabulary_with_line_separators_keeps_its_order(published, tmp_path):
    tokenizer = load_bert(published.bert_folder(tmp_path)).tokenizer_
    assert tokenizer.symbols_[5:] == [piece for piece in published.PIECES if piece not in SPECIAL]
    windows = (tmp_path / "vocab.txt").read_bytes().replace(b"\n", b"\r\n")
    (tmp_path / "vocab.txt").write_bytes(windows)
    assert load_bert(tmp_path).tokenizer_.symbols_ == tokenizer.symbols_


def test_byte_pairs_are_cut_and_joined_as_published(published, tmp_path):
    tokenizer = load_gpt2(published.gpt2_folder(tmp_path)).tokenizer_
    assert tokenizer.tokenize("he in the the") == ["he", "Ġ", "i", "n", "Ġthe", "Ġthe"]
    assert tokenizer.tokenize("2²") == ["2", "Â", "²"]  # a number other than a digit is no letter
    assert tokenizer.tokenize("he<|endoftext|>")[-1] == "<|endoftext|>"
    for text in ("he's\t\n in  the café", "\x00\u2028 🤖", "²½"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    spaced = load_gpt2(published.gpt2_folder(tmp_path, tokenizer={"add_prefix_space": True})).tokenizer_
    assert spaced.tokenize("the") == ["Ġthe"]
    for config in ({"add_bos_token": True}, {"eos_token": "</s>"}):
        with pytest.raises(InputError, match=f"tokenizer_config.json: {next(iter(config))}"):
            load_gpt2(published.gpt2_folder(tmp_path, tokenizer=config))


def test_merges_and_symbols_that_do_not_fit_are_named():
    symbols = [*ByteLevel.alphabet(), "he", "<|endoftext|>"]
    with pytest.raises(InputError, match="merges: .*'x', 'y'"):
        ByteLevelTokenizer().from_symbols(symbols, [("h", "e"), ("x", "y")])
    with pytest.raises(InputError, match="symbols: .*endoftext"):
        ByteLevelTokenizer().from_symbols(symbols[:-1], [])
    with pytest.raises(InputError, match="MASK"):
        WordPieceTokenizer().from_symbols(SPECIAL[:4])


def test_copies_and_files_read_alike(published, tmp_path):
    tokenizer = load_gpt2(published.gpt2_folder(tmp_path)).tokenizer_
    text = "he in the"
    wanted = tokenizer.encode(text)
    tokenizer.save(tmp_path / "tokenizer.safetensors")
    loaded, _ = load_estimator(tmp_path / "tokenizer.safetensors")
    for each in (copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer)), loaded):
        assert each.encode(text) == wanted
    other = tokenizer.from_symbols([*ByteLevel.alphabet(), "<|endoftext|>"], [])
    assert other.tokenize("he") == ["h", "e"]


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"WordPieceTokenizer needs tokenizers: pip install 'peerattn\[text\]'"):
        WordPieceTokenizer().from_symbols(SPECIAL).encode("the")
