"""Tokenizers: byte pairs against the plain algorithm and the stored files; round trips; errors."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import InputError
from peerattn.sequence import BytePairTokenizer, CharacterTokenizer, Tokenizer, WordTokenizer
from peerattn.sequence.tokenizers import SPECIAL, UNKNOWN, find_tokenizer

SHARED = Path(os.environ.get("PEERATTN_SHARED_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
MULTI30K = SHARED / "sequence" / "multi30k"


def plain_merges(lines: list[str], n_merges: int, min_count: int = 2) -> list[tuple[str, str]]:
    """Count all pairs anew for every merge."""
    words = {(*word[:-1], word[-1] + "</w>"): n for word, n in Counter(" ".join(lines).split()).items()}
    merges = []
    for _ in range(n_merges):
        counts: Counter[tuple[str, str]] = Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:]):
                counts[pair] += n
        if not counts:
            break
        best = max(counts, key=lambda pair: (counts[pair], pair))
        if counts[best] < min_count:
            break
        merges.append(best)
        merged_words: dict[tuple[str, ...], int] = {}
        for word, n in words.items():
            merged, k = [], 0
            while k < len(word):
                whole = tuple(word[k : k + 2]) == best
                merged.append("".join(word[k : k + 2]) if whole else word[k])
                k += 2 if whole else 1
            merged_words[tuple(merged)] = merged_words.get(tuple(merged), 0) + n
        words = merged_words
    return merges


@pytest.mark.parametrize("alphabet", ["ab", "abcd"])
@pytest.mark.parametrize("seed", range(4))
def test_merges_equal_the_plain_algorithm(alphabet, seed):
    rng = np.random.default_rng(seed)  # few letters: many ties, overlaps (aaa) and pieces reached in two ways
    words = ["".join(rng.choice(list(alphabet), rng.integers(1, 9))) for _ in range(120)]
    lines = [" ".join(words[:60]), " ".join(words[60:])]
    assert BytePairTokenizer(80).fit(lines).merges_ == plain_merges(lines, 80)


@pytest.mark.skipif(not MULTI30K.exists(), reason="the shared data are not here")
def test_merges_and_pieces_equal_the_stored_files():
    def read(name: str) -> list[str]:
        with gzip.open(MULTI30K / name, "rt", encoding="utf-8", newline="\n") as file:
            return file.read().rstrip("\n").split("\n")

    lines = [line for k in ("en", "de") for line in read(f"tokenized/train.lc.norm.tok.{k}.gz")]
    tokenizer = BytePairTokenizer(10_000).fit(lines)
    code = (MULTI30K / "bpe10k" / "code").read_text(encoding="utf-8").split("\n")[1:]
    assert tokenizer.merges_ == [tuple(line.split(" ")) for line in code if line]
    for language in ("en", "de"):
        given = read(f"tokenized/test_2016_flickr.lc.norm.tok.{language}.gz")
        assert [" ".join(tokenizer.tokenize(line)) for line in given] == read(f"bpe10k/test.2016.{language}.gz")


@pytest.mark.parametrize(
    "tokenizer",
    [CharacterTokenizer(), WordTokenizer(), BytePairTokenizer(20)],
    ids=lambda t: type(t).__name__,
)
def test_text_comes_back_and_files_too(tokenizer, tmp_path):
    texts = ["the lower the slower", "newest and lowest"]
    tokenizer.fit(texts)
    assert [tokenizer.decode(tokenizer.encode(text)) for text in texts] == texts
    assert tuple(tokenizer.symbols_[:5]) == SPECIAL
    tokenizer.save(tmp_path / "t.safetensors")
    loaded = Tokenizer.load(tmp_path / "t.safetensors")
    assert type(loaded) is type(tokenizer) and loaded.symbols_ == tokenizer.symbols_
    assert loaded.encode("slowest") == tokenizer.encode("slowest")
    if isinstance(loaded, BytePairTokenizer):
        assert loaded.merges_ == tokenizer.merges_


def test_what_was_never_seen_is_unknown():
    tokenizer = WordTokenizer(min_count=2, split="spaces").fit(["a rose is a rose"])
    assert tokenizer.symbols_[5:] == ["a", "rose"]
    assert tokenizer.encode("A tulip") == [5, UNKNOWN]
    assert WordTokenizer(n_symbols=1).fit(["a rose is a rose"]).symbols_[5:] == ["a"]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "X: expected at least one text"),
        (["a", " "], "X: expected texts that are not empty, got an empty one at place 1"),
        ("a text", "X: expected a list of texts, got str"),
        (pd.DataFrame({"text": ["a"]}), "X: expected a list of texts, got DataFrame.* take one column"),
        ([1], "X: expected strings, got int at place 0"),
    ],
)
def test_texts_are_checked(X, message):
    with pytest.raises(InputError, match=message):
        WordTokenizer().fit(X)


def test_options_are_checked():
    with pytest.raises(InputError, match="numbers: expected 0 to 5, got 9 to 9"):
        WordTokenizer().fit(["a"]).decode([9])
    with pytest.raises(InputError, match=r"tokenizer: expected one of .*, got \[1\]"):
        find_tokenizer([1])
    with pytest.raises(InputError, match="'n_symbols' parameter of WordTokenizer must be"):
        WordTokenizer(n_symbols=-1).fit(["a b"])
    with pytest.raises(InputError, match="tokenizer: expected one of .* Near matches: 'words'"):
        find_tokenizer("word")
    with pytest.raises(InputError, match=r"'n_merges' parameter of BytePairTokenizer must be an int in the range \[0, inf\)"):
        BytePairTokenizer(-1).fit(["a"])
    with pytest.raises(InputError, match="'split' parameter of WordTokenizer must be a str among .*'words'"):
        WordTokenizer(split="tabs").fit(["a"])
