"""Texts as sequences of symbols: characters, words, or byte pairs (pieces of words, the more frequent the longer)."""

import copy
import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, did_you_mean, expect, reworded, validate_arguments
from peerattn.sequence.base import SavedEstimator

PAD, UNKNOWN, START, END, MASK = range(5)
SPECIAL = ("<pad>", "<unknown>", "<start>", "<end>", "<mask>")

END_OF_WORD = "</w>"
CONTINUES = "@@"
Pair = tuple[str, str]

_WORD = re.compile(r"<mask>|\w+|[^\w\s]")


class Tokenizer(SavedEstimator):
    """Texts to symbols to numbers, and back.

    Numbers 0 to 4 denote ``<pad>``, ``<unknown>``, ``<start>``, ``<end>`` and ``<mask>``; the symbols of the training
    texts follow, most frequent first. A symbol that they do not have is ``<unknown>``.

    Attributes
    ----------
    symbols_ : list of str
        The special symbols, then the others.

    Examples
    --------
    >>> from peerattn.sequence import Tokenizer, WordTokenizer
    >>> issubclass(WordTokenizer, Tokenizer)
    True
    """

    symbols_: list[str]
    never: tuple[int, ...] = (PAD, UNKNOWN, START, MASK)  # symbols that never continue a text
    between = ""  # what joins symbols
    closes = False  # whether a text is read with its end
    n_symbols: int | None = None
    min_count: int = 1

    @property
    def end(self) -> int:
        """The number that ends a text."""
        return END

    def fit(self, X: Iterable[str], y: None = None) -> Self:
        """Learn the symbols of these texts.

        Raises
        ------
        InputError
            When a text is empty, or an argument of the constructor cannot be used.
        """
        self._validate_params()
        counts = Counter(symbol for text in check_texts(X) for symbol in self.tokenize(text))
        self._learn(counts, self.n_symbols, self.min_count)
        return self

    @validate_arguments
    def tokenize(self, text: str) -> list[str]:
        """Return the symbols of a text: its characters, where a tokenizer has no others."""
        return list(text)

    def join(self, symbols: Sequence[str]) -> str:
        """Return the text of these symbols: words with spaces between them, characters as one string."""
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
        with reworded("numbers: expected whole numbers", kinds=(TypeError, ValueError, OverflowError)):
            found = [int(number) for number in numbers]
        last = len(self.numbers) - 1
        least = min(found, default=0)
        most = max(found, default=0)
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
        self._take([*SPECIAL, *sorted(kept, key=lambda symbol: (-counts[symbol], symbol))[:most]])

    def _take(self, symbols: Sequence[str]) -> None:
        """Keep the symbols, and forget what was made of those before."""
        self.symbols_ = list(symbols)
        for name in ("numbers", "_found_by"):
            self.__dict__.pop(name, None)


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

    @validate_arguments
    def tokenize(self, text: str) -> list[str]:
        """Return the words and marks."""
        if self.lowercase:
            text = text.lower()
        if self.split == "spaces":
            return text.split()
        return _WORD.findall(text)


@dataclass(eq=False, repr=False)
class BytePairTokenizer(Tokenizer):
    r"""Split words into the pieces that merging frequent pairs of symbols makes.

    Starting from characters, the pair of neighbours that occurs most often in the training words is merged into one
    symbol, ``n_merges`` times:

    .. math:: (a, b)_m = \arg\max_{(a, b)} \sum_{\text{words } w} n_w \, \#\{t : w_t = a, w_{t+1} = b\}

    Parameters
    ----------
    n_merges : int, default 10000
        Number of merges at most.
    min_count : int, default 2
        Stop when the most frequent pair occurs less often.

    Attributes
    ----------
    merges_ : list of (str, str)
        The pairs in order; ``</w>`` ends a word.
    symbols_ : list of str
        Special symbols, then the pieces of the training texts; ``@@`` marks a piece that does not end its word.

    Notes
    -----
    Words are separated by spaces; one that ends in ``@@`` is joined to the next by ``decode``. Ties go to the lexicographically
    largest pair. A merge touches only the distinct words that hold the pair, so that the cost is that of the merges made, not of
    the text times their number.

    References
    ----------
    Sennrich, Haddow and Birch (2016), Neural machine translation of rare words with subword units, ACL.

    Examples
    --------
    >>> tokenizer = BytePairTokenizer(n_merges=3).fit(["low low lower newest newest newest"])
    >>> tokenizer.merges_
    [('w', 'e'), ('we', 's'), ('wes', 't</w>')]
    >>> tokenizer.tokenize("lowest")
    ['l@@', 'o@@', 'west']
    >>> tokenizer.decode(tokenizer.encode("newest low"))
    'newest low'
    """

    n_merges: int = 10_000
    min_count: int = field(default=2, kw_only=True)

    def fit(self, X: Iterable[str], y: None = None) -> Self:
        """Learn merges and pieces.

        Parameters
        ----------
        X : iterable of str
            Texts, words between spaces.
        y : None

        Raises
        ------
        InputError
            When a text is empty, or ``n_merges`` negative.
        """
        self._validate_params()
        words = Counter(word for text in check_texts(X) for word in text.split())
        self.merges_ = learned_merges(words, self.n_merges, self.min_count)
        self.__dict__.pop("_known", None)
        self._learn(Counter(piece for word, n in words.items() for piece in self._pieces(word) * n))
        return self

    @validate_arguments
    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text's words."""
        check_is_fitted(self, "merges_")
        return [piece for word in text.split() for piece in self._pieces(word)]

    def join(self, symbols: Sequence[str]) -> str:
        """Return the words that the pieces make, with spaces between them."""
        text = " ".join(symbols) + " "
        return text.replace(CONTINUES + " ", "").removesuffix(" ")

    @cached_property
    def _known(self) -> tuple[dict[Pair, int], dict[str, list[str]]]:
        """The rank of each merge, and the pieces of the words met so far."""
        return {pair: rank for rank, pair in enumerate(self.merges_)}, {}

    def _pieces(self, word: str) -> list[str]:
        ranks, known = self._known
        if word not in known:
            *before, end = merged(_characters(word), ranks)
            known[word] = [piece + CONTINUES for piece in before] + [end.removesuffix(END_OF_WORD)]
        return known[word]


def merged(symbols: list[str], ranks: Mapping[Pair, int]) -> list[str]:
    """Return the symbols after the merge of least rank, again and again until none applies."""
    while len(symbols) > 1:
        pair = min(zip(symbols, symbols[1:]), key=lambda pair: ranks.get(pair, len(ranks)))
        if pair not in ranks:
            break
        symbols = _merged(symbols, pair)
    return symbols


def _characters(word: str) -> list[str]:
    return [*word[:-1], word[-1] + END_OF_WORD]


def _merged(symbols: list[str], pair: Pair) -> list[str]:
    """Return the symbols with the pair as one symbol wherever it occurs, from left to right."""
    merged: list[str] = []
    for symbol in symbols:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return merged


class _LargestFirst(tuple[str, str]):
    """A pair that a smallest-first queue takes before those that are lexicographically smaller."""

    def __lt__(self, other: tuple[str, ...]) -> bool:
        return tuple.__gt__(self, other)


def learned_merges(words: Counter[str], n_merges: int, min_count: int) -> list[Pair]:
    """Merge the most frequent pair of neighbours, again and again, and return the pairs in order.

    A merge recounts only the words that hold its pair. The queue keeps old counts: an entry whose count has changed since is
    queued anew.
    """
    symbols = [_characters(word) for word in words]
    times = list(words.values())
    count: Counter[Pair] = Counter()
    holders: defaultdict[Pair, set[int]] = defaultdict(set)
    for k, (word, n) in enumerate(zip(symbols, times)):
        for pair in zip(word, word[1:]):
            count[pair] += n
            holders[pair].add(k)
    # a queue instead of a search for the largest count after each merge
    queue = [(-n, _LargestFirst(pair)) for pair, n in count.items()]
    heapq.heapify(queue)
    merges: list[Pair] = []
    while queue and len(merges) < n_merges:
        negative, latest = heapq.heappop(queue)
        pair = (latest[0], latest[1])
        now = count[latest]
        if now != -negative:
            if 0 < now < -negative:
                heapq.heappush(queue, (-now, latest))
            continue
        if now < min_count:
            break
        merges.append(pair)
        risen: set[Pair] = set()
        for k in holders.pop(pair):
            old = symbols[k]
            symbols[k] = _merged(symbols[k], pair)
            # only the words that hold the pair are counted again
            for gone in zip(old, old[1:]):
                count[gone] -= times[k]
            for new in zip(symbols[k], symbols[k][1:]):
                count[new] += times[k]
                if "".join(pair) in new:
                    holders[new].add(k)
                    risen.add(new)
        for new in risen:
            heapq.heappush(queue, (-count[new], _LargestFirst(new)))
    return merges


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
    wanted = f"one of {sorted(names)} or a Tokenizer"
    near = did_you_mean(tokenizer, names)
    expect(tokenizer in list(names), "tokenizer", wanted, repr(tokenizer), near)
    return names[tokenizer]()


def check_texts(texts: object, name: str = "X") -> list[str]:
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
    # a frame would give the names of its columns
    if isinstance(texts, str) or not isinstance(texts, Iterable) or getattr(texts, "ndim", 1) != 1:
        remedy = "Put one text into a list, and take one column of a frame."
        raise InputError(f"{name}: expected a list of texts, got {type(texts).__name__}. {remedy}")
    found = list(texts)
    for k, text in enumerate(found):
        expect(isinstance(text, str), name, "strings", f"{type(text).__name__} at place {k}")
        expect(bool(text.strip()), name, "texts that are not empty", f"an empty one at place {k}")
    expect(bool(found), name, "at least one text", "none")
    return [str(text) for text in found]
