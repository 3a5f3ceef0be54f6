"""Texts as sequences of symbols: characters, words, or byte pairs (see ``byte_pair``)."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from peerattn.exceptions import did_you_mean, expect
from peerattn.sequence.base import SavedEstimator

PAD, UNKNOWN, START, END, MASK = range(5)
SPECIAL = ("<pad>", "<unknown>", "<start>", "<end>", "<mask>")

_WORD = re.compile(r"<mask>|\w+|[^\w\s]")


class Tokenizer(SavedEstimator):
    """Texts to symbols to numbers, and back.

    Numbers 0 to 4 denote ``<pad>``, ``<unknown>``, ``<start>``, ``<end>`` and ``<mask>``; the symbols of the training
    texts follow, most frequent first. A symbol that they do not have is ``<unknown>``.

    Attributes
    ----------
    symbols_ : list of str
        The special symbols, then the others.
    """

    symbols_: list[str]
    never: tuple[int, ...] = (PAD, UNKNOWN, START, MASK)  # symbols that never continue a text
    between = ""  # what joins symbols
    closes = False  # whether a text is read with its end

    @property
    def end(self) -> int:
        """The number that ends a text."""
        return END

    def fit(self, X: Iterable[str], y: Any = None) -> Self:
        """Learn the symbols of these texts."""
        self._learn(Counter(symbol for text in check_texts(X) for symbol in self.tokenize(text)))
        return self

    def tokenize(self, text: str) -> list[str]:
        """Return the symbols of a text: its characters, where a tokenizer has no others."""
        return list(text)

    def join(self, symbols: Sequence[str]) -> str:
        """Return the text of these symbols."""
        return self.between.join(symbols)

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's symbols; those never seen are 1, ``<unknown>``."""
        numbers = self.numbers
        return [numbers.get(symbol, UNKNOWN) for symbol in self.tokenize(text)]

    def decode(self, numbers: Iterable[int]) -> str:
        """Return the text of these numbers, without padding, start and end.

        Raises
        ------
        InputError
            When a number denotes no symbol.
        """
        check_is_fitted(self)
        found = [int(number) for number in numbers]
        last, least, most = len(self.symbols_) - 1, min(found, default=0), max(found, default=0)
        expect(0 <= least <= most <= last, "numbers", f"0 to {last}", f"{least} to {most}")
        return self.join([self.symbols_[number] for number in found if number not in (PAD, START, END)])

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each symbol."""
        check_is_fitted(self)
        return {symbol: k for k, symbol in enumerate(self.symbols_)}

    def _learn(self, counts: Counter[str], most: int | None = None, least: int = 1) -> None:
        """Take the symbols that occur often enough, the most frequent first."""
        kept = [symbol for symbol, n in counts.items() if n >= least and symbol not in SPECIAL]
        self.symbols_ = [*SPECIAL, *sorted(kept, key=lambda symbol: (-counts[symbol], symbol))[:most]]
        self.__dict__.pop("numbers", None)  # of the symbols before


class CharacterTokenizer(Tokenizer):
    """Every character is a symbol.

    Examples
    --------
    >>> tokenizer = CharacterTokenizer().fit(["to be"])
    >>> tokenizer.encode("bet!")
    [6, 7, 9, 1]
    >>> tokenizer.decode([6, 7, 9])
    'bet'
    """


@dataclass(eq=False, repr=False, kw_only=True)
class WordTokenizer(Tokenizer):
    r"""Words and punctuation marks are symbols.

    Parameters
    ----------
    n_symbols : int, default None
        Number of words to keep, the most frequent ones; None: all.
    min_count : int, default 1
        Leave out words that occur less often.
    lowercase : bool, default True
    split : {"words", "spaces"}, default "words"
        "words": runs of letters and digits, and single other marks; "spaces": what is between spaces, for text
        that is tokenised already.

    Examples
    --------
    >>> tokenizer = WordTokenizer().fit(["A rose is a rose."])
    >>> tokenizer.tokenize("A rose!")
    ['a', 'rose', '!']
    >>> tokenizer.encode("A rose!")
    [5, 6, 1]
    """

    between = " "

    n_symbols: int | None = None
    min_count: int = 1
    lowercase: bool = True
    split: str = "words"

    def fit(self, X: Iterable[str], y: Any = None) -> Self:
        """Learn the words of these texts.

        Raises
        ------
        InputError
            When a text is empty, or ``split`` unknown.
        """
        expect(self.split in ("words", "spaces"), "split", "'words' or 'spaces'", repr(self.split))
        counts = Counter(word for text in check_texts(X) for word in self.tokenize(text))
        self._learn(counts, self.n_symbols, self.min_count)
        return self

    def tokenize(self, text: str) -> list[str]:
        """Return the words and marks."""
        text = text.lower() if self.lowercase else text
        return text.split() if self.split == "spaces" else _WORD.findall(text)


def find_tokenizer(tokenizer: str | Tokenizer) -> Tokenizer:
    """Return a fresh tokenizer of that name, or a copy of the one given: fitted if it was.

    Raises
    ------
    InputError
        When there is none of that name.

    Examples
    --------
    >>> find_tokenizer("words")
    WordTokenizer()
    """
    if isinstance(tokenizer, Tokenizer):
        return copy.deepcopy(tokenizer)
    names = {"characters": CharacterTokenizer, "words": WordTokenizer}
    wanted, near = f"one of {sorted(names)} or a Tokenizer", did_you_mean(tokenizer, names)
    expect(tokenizer in names, "tokenizer", wanted, repr(tokenizer), near)
    return names[tokenizer]()


def check_texts(texts: Any, name: str = "X") -> list[str]:
    """Return the texts as a list of strings, none empty.

    Parameters
    ----------
    texts : iterable of str
        A list, an array, a Series.
    name : str, default "X"
        Name of the argument in the error message.

    Raises
    ------
    InputError
        When it is one string, holds something else or an empty text, or nothing.

    Examples
    --------
    >>> check_texts(("one", "two"))
    ['one', 'two']
    """
    listed = isinstance(texts, Iterable) and not isinstance(texts, str)
    expect(listed, name, "a list of texts", type(texts).__name__, "Put it into a list.")
    found = list(texts)
    for k, text in enumerate(found):
        expect(isinstance(text, str), name, "strings", f"{type(text).__name__} at place {k}")
        expect(bool(text.strip()), name, "texts that are not empty", f"an empty one at place {k}")
    expect(bool(found), name, "at least one text", "none")
    return [str(text) for text in found]


def pad(sequences: Sequence[Sequence[int]], device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Return sequences side by side, filled up to the longest with ``<pad>``, and their lengths.

    Parameters
    ----------
    sequences : sequence of sequences of int
    device : str, default "cpu"

    Returns
    -------
    symbols : Tensor of int64, shape (batch, longest)
    lengths : Tensor of int64, shape (batch,)

    Examples
    --------
    >>> pad([[5, 6], [7]])
    (tensor([[5, 6],
             [7, 0]]), tensor([2, 1]))
    """
    rows = [torch.tensor(sequence, dtype=torch.int64) for sequence in sequences]
    symbols = pad_sequence(rows, batch_first=True, padding_value=PAD)
    return symbols.to(device), torch.tensor([len(row) for row in rows]).to(device)
