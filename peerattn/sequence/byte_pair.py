"""Byte-pair encoding: words in pieces, the more frequent the longer."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import check_at_least
from peerattn.sequence.tokenizers import Tokenizer, check_texts

END_OF_WORD = "</w>"
CONTINUES = "@@"

Pair = tuple[str, str]


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
    Words are separated by spaces. Ties go to the lexicographically largest pair. A merge touches only the distinct
    words that hold the pair, so that the cost is that of the merges made, not of the text times their number.

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
    _: KW_ONLY
    min_count: int = 2

    def fit(self, X: Iterable[str], y: Any = None) -> Self:
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
        check_at_least(0, n_merges=self.n_merges)
        words = Counter(word for text in check_texts(X) for word in text.split())
        self.merges_ = learned_merges(words, self.n_merges, self.min_count)
        self.__dict__.pop("_known", None)
        counts: Counter[str] = Counter()
        for word, n in words.items():
            counts.update(self._pieces(word) * n)
        self._learn(counts)
        return self

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text's words."""
        check_is_fitted(self, "merges_")
        return [piece for word in text.split() for piece in self._pieces(word)]

    def segment(self, text: str) -> str:
        """Return the text with its words in pieces, a space between all, and spaces around the text as they were.

        Examples
        --------
        >>> BytePairTokenizer(0).fit(["ab"]).segment("ab ")
        'a@@ b '
        """
        before, after = (len(text) - len(strip(" \r\n")) for strip in (text.lstrip, text.rstrip))
        return text[:before] + " ".join(self.tokenize(text)) + text[len(text) - after :]

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
    symbols, times = [_characters(word) for word in words], list(words.values())
    count: Counter[Pair] = Counter()
    holders: defaultdict[Pair, set[int]] = defaultdict(set)
    for k, (word, n) in enumerate(zip(symbols, times)):
        for pair in zip(word, word[1:]):
            count[pair] += n
            holders[pair].add(k)
    queue = [(-n, _LargestFirst(pair)) for pair, n in count.items()]
    heapq.heapify(queue)
    merges: list[Pair] = []
    while queue and len(merges) < n_merges:
        negative, latest = heapq.heappop(queue)
        pair, now = (latest[0], latest[1]), count[latest]
        if now != -negative:
            if 0 < now < -negative:
                heapq.heappush(queue, (-now, latest))
            continue
        if now < min_count:
            break
        merges.append(pair)
        risen: set[Pair] = set()
        for k in holders.pop(pair):
            old, symbols[k] = symbols[k], _merged(symbols[k], pair)
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
