"""Tokenizers of published vocabularies, by the package ``tokenizers``: BERT's word pieces and GPT-2's byte pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, extra, validate_arguments
from peerattn.sequence.tokenizers import SPECIAL, Tokenizer

if TYPE_CHECKING:
    import tokenizers

#: In the order of `SPECIAL`.
BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
END_OF_TEXT = "<|endoftext|>"


@dataclass(eq=False, repr=False, kw_only=True)
class WordPieceTokenizer(Tokenizer):
    """Words in pieces of BERT's vocabulary, the longest first; ``##`` marks a piece that continues a word.

    Needs the extra ``text``. The names of special symbols, such as ``[MASK]``, are special within a text, too; ``<mask>`` is
    another name of ``[MASK]``.

    Parameters
    ----------
    lowercase : bool, default True
        As the "uncased" vocabularies require.
    strip_accents : bool, default None
        Whether accents are removed; None: exactly with ``lowercase``.
    split_chinese : bool, default True
        Whether each Chinese character is a word.

    References
    ----------
    Devlin et al. (2019), BERT. Wu et al. (2016), Google's neural machine translation system (word pieces).

    Examples
    --------
    >>> tokenizer = WordPieceTokenizer().from_symbols(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "!"])
    >>> tokenizer.tokenize("Playing!")
    ['play', '##ing', '!']
    >>> tokenizer.decode(tokenizer.encode("playing"))
    'playing'
    """

    lowercase: bool = True
    strip_accents: bool | None = None
    split_chinese: bool = True
    closes = True  # a text is read with its end

    def from_symbols(self, symbols: Sequence[str]) -> Self:
        """Take a published vocabulary; the special symbols come first, as `Tokenizer` has them."""
        missing = [symbol for symbol in BERT_SPECIAL if symbol not in symbols]
        if missing:
            raise InputError(f"symbols: expected a vocabulary of BERT, got one without {missing}.")
        # our numbers begin with the special symbols; their published names are put back for the library
        self._take([*SPECIAL, *(symbol for symbol in symbols if symbol not in BERT_SPECIAL)])
        return self

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces; a word that has none is 1, ``<unknown>``."""
        return list(self._found_by.encode(text.replace("<mask>", "[MASK]"), add_special_tokens=False).ids)

    @validate_arguments
    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text."""
        return [self.symbols_[k] for k in self.encode(text)]

    def join(self, symbols: Sequence[str]) -> str:
        """Return words of pieces, with spaces between them."""
        return " ".join(symbols).replace(" ##", "")

    @cached_property
    def _found_by(self) -> tokenizers.Tokenizer:
        """The library's tokenizer, made again from the symbols where it is needed."""
        check_is_fitted(self, "symbols_")
        library = extra("tokenizers", "text", type(self).__name__)
        published = [*BERT_SPECIAL, *self.symbols_[len(BERT_SPECIAL) :]]
        numbers = {symbol: k for k, symbol in enumerate(published)}
        found = library.Tokenizer(library.models.WordPiece(numbers, unk_token="[UNK]"))
        found.normalizer = library.normalizers.BertNormalizer(
            clean_text=True, handle_chinese_chars=self.split_chinese, strip_accents=self.strip_accents, lowercase=self.lowercase
        )
        found.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
        found.add_special_tokens(list(BERT_SPECIAL))
        return found


@dataclass(eq=False, repr=False, kw_only=True)
class ByteLevelTokenizer(Tokenizer):
    """GPT-2's byte pairs: every byte has a symbol, so that no text has an unknown one. Needs the extra ``text``.

    Parameters
    ----------
    add_prefix_space : bool, default False
        Whether a text that does not begin with a space is read as if it did.

    Attributes
    ----------
    symbols_ : list of str
        In the published order; bytes are written as printable characters.
    merges_ : list of (str, str)

    References
    ----------
    Radford et al. (2019), Language models are unsupervised multitask learners, section 2.2.

    Examples
    --------
    >>> from tokenizers.pre_tokenizers import ByteLevel
    >>> symbols = [*sorted(ByteLevel.alphabet()), "he", "<|endoftext|>"]
    >>> tokenizer = ByteLevelTokenizer().from_symbols(symbols, [("h", "e")])
    >>> tokenizer.tokenize("he hé")
    ['he', 'Ġ', 'h', 'Ã', '©']
    >>> tokenizer.decode(tokenizer.encode("he hé"))
    'he hé'
    """

    add_prefix_space: bool = False
    never = ()

    def from_symbols(self, symbols: Sequence[str], merges: Iterable[Sequence[str]]) -> Self:
        """Take a published vocabulary and its merges, in order."""
        library = extra("tokenizers", "text", type(self).__name__)
        lacks = sorted({*library.pre_tokenizers.ByteLevel.alphabet(), END_OF_TEXT} - set(symbols))
        if lacks:
            raise InputError(f"symbols: expected all bytes and {END_OF_TEXT}, got a vocabulary without {lacks[:3]}.")
        pairs = [tuple(pair) for pair in merges]
        # every join of a merge must be a symbol, or pieces would have no number
        known = set(symbols)
        for pair in pairs:
            if len(pair) != 2 or not {*pair, "".join(pair)} <= known:
                raise InputError(f"merges: expected pairs of symbols whose join is a symbol, got {pair}.")
        self.merges_ = pairs
        self._take(symbols)
        return self

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces."""
        return list(self._found_by.encode(text, add_special_tokens=False).ids)

    @validate_arguments
    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text."""
        return [self.symbols_[k] for k in self.encode(text)]

    @property
    def end(self) -> int:
        """The number that ends a text."""
        return self.numbers[END_OF_TEXT]

    def join(self, symbols: Sequence[str]) -> str:
        """Return the text that the pieces' bytes are."""
        return str(self._found_by.decoder.decode(list(symbols)))

    def decode(self, numbers: Iterable[int]) -> str:
        """Return the text of these numbers, without the end."""
        return self.join([self.symbols_[k] for k in numbers if k != self.end])

    @cached_property
    def _found_by(self) -> tokenizers.Tokenizer:
        """The library's tokenizer, made again from symbols and merges where it is needed."""
        check_is_fitted(self, "symbols_")
        library = extra("tokenizers", "text", type(self).__name__)
        # merges that come out of a file are lists
        found = library.Tokenizer(library.models.BPE(self.numbers, [tuple(pair) for pair in self.merges_]))
        found.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=self.add_prefix_space)
        found.decoder = library.decoders.ByteLevel()
        found.add_special_tokens([END_OF_TEXT])
        return found
