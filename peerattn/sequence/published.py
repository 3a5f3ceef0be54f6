"""Published weights: BERT and GPT-2 as fitted models, from the files of a folder; nothing is fetched."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors.torch import load_file
from torch import Tensor

from peerattn.exceptions import InputError
from peerattn.sequence.language_model import LanguageModel
from peerattn.sequence.masked_language_model import MaskedLanguageModel
from peerattn.sequence.tokenizers import SPECIAL, Tokenizer

_BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # in the order of SPECIAL
_MARK = re.compile(r"<mask>|\[MASK\]")
# Letters, digits, and other marks, each with the space before it, as GPT-2 cuts texts.
_GPT2_WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
_BERT_BLOCK = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "norm_attention": "attention.output.LayerNorm",
    "feedforward.hidden": "intermediate.dense",
    "feedforward.output": "output.dense",
    "norm_feedforward": "output.LayerNorm",
}


@dataclass(eq=False, repr=False, kw_only=True)
class WordPieceTokenizer(Tokenizer):
    """Words in pieces of BERT's vocabulary, the longest first; ``##`` marks a piece that goes on.

    Parameters
    ----------
    lowercase : bool, default True
        Also takes accents off, as the "uncased" vocabularies want.

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
    closes = True  # a text is read with its end

    def from_symbols(self, symbols: Sequence[str]) -> Self:
        """Take a published vocabulary; the special symbols come first, as `Tokenizer` has them."""
        missing = [symbol for symbol in _BERT_SPECIAL if symbol not in symbols]
        if missing:
            raise InputError(f"symbols: expected a vocabulary of BERT, got one without {missing}.")
        self.symbols_ = [*SPECIAL, *(symbol for symbol in symbols if symbol not in _BERT_SPECIAL)]
        return self

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text's words."""
        found: list[str] = []
        for k, part in enumerate(_MARK.split(text)):
            found += ["<mask>"] * (k > 0)
            for word in self._words(part):
                found += self._pieces(word)
        return found

    def join(self, symbols: Sequence[str]) -> str:
        """Return words of pieces, with spaces between them."""
        return " ".join(symbols).replace(" ##", "")

    def _words(self, text: str) -> list[str]:
        if self.lowercase:
            apart = unicodedata.normalize("NFD", text.lower())
            text = "".join(c for c in apart if unicodedata.category(c) != "Mn")
        return "".join(f" {c} " if _stands_alone(c) else c for c in text).split()

    def _pieces(self, word: str) -> list[str]:
        found, start, numbers = [], 0, self.numbers
        while start < len(word):
            mark = "##" if start else ""
            ends = (end for end in range(len(word), start, -1) if mark + word[start:end] in numbers)
            end = next(ends, None)
            if end is None or len(word) > 100:
                return ["<unknown>"]
            found.append(mark + word[start:end])
            start = end
        return found


class ByteLevelTokenizer(Tokenizer):
    """GPT-2's byte pairs: every byte has a symbol, so that no text has an unknown one.

    Attributes
    ----------
    symbols_ : list of str
        In the published order; bytes are written as printable characters.
    merges_ : list of (str, str)

    Notes
    -----
    Numbers other than digits (², ½) are cut as letters are, which the published pattern does not.

    References
    ----------
    Radford et al. (2019), Language models are unsupervised multitask learners, section 2.2.

    Examples
    --------
    >>> symbols = [*byte_symbols().values(), "he", "<|endoftext|>"]
    >>> tokenizer = ByteLevelTokenizer().from_symbols(symbols, [("h", "e")])
    >>> tokenizer.tokenize("he hé")
    ['he', 'Ġ', 'h', 'Ã', '©']
    >>> tokenizer.decode(tokenizer.encode("he hé"))
    'he hé'
    """

    _fitted: ClassVar[tuple[str, ...]] = ("symbols_", "merges_")
    never = ()

    def from_symbols(self, symbols: Sequence[str], merges: Iterable[Sequence[str]]) -> Self:
        """Take a published vocabulary and its merges, in order."""
        missing = [symbol for symbol in byte_symbols().values() if symbol not in set(symbols)]
        if missing or symbols[-1] != "<|endoftext|>":
            raise InputError("symbols: expected a vocabulary of GPT-2, all bytes and <|endoftext|> last.")
        self.symbols_, self.merges_ = list(symbols), [(first, second) for first, second in merges]
        return self

    @property
    def end(self) -> int:
        """The number that ends a text."""
        return len(self.symbols_) - 1

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text, spaces with the word that follows."""
        letters = byte_symbols()
        ranks = {pair: rank for rank, pair in enumerate(self.merges_)}
        words = ["".join(letters[byte] for byte in word.encode()) for word in _GPT2_WORDS.findall(text)]
        known = {word: _merged(word, ranks) for word in set(words)}
        return [piece for word in words for piece in known[word]]

    def join(self, symbols: Sequence[str]) -> str:
        """Return the text that the pieces' bytes are."""
        back = {letter: byte for byte, letter in byte_symbols().items()}
        return bytes(back[letter] for letter in "".join(symbols)).decode(errors="replace")

    def decode(self, numbers: Iterable[int]) -> str:
        """Return the text of these numbers, without the end."""
        return self.join([self.symbols_[k] for k in numbers if k != self.end])

    def _restore(self) -> None:
        self.merges_ = [(first, second) for first, second in self.merges_]


def load_bert(folder: str | os.PathLike[str]) -> MaskedLanguageModel:
    """Return BERT as a fitted :class:`MaskedLanguageModel`, which may start a ``TextClassifier(pretrained=...)``.

    Parameters
    ----------
    folder : path-like
        Holds ``model.safetensors`` or ``pytorch_model.bin`` (the state dict of ``BertForMaskedLM``), ``vocab.txt``, and
        ``config.json`` for the number of heads; without it heads are 64 wide.

    Returns
    -------
    MaskedLanguageModel
        Texts are read as one segment, with ``[CLS]`` and ``[SEP]``.

    Raises
    ------
    InputError
        When a file or a parameter is missing, or shapes do not fit.

    References
    ----------
    Devlin et al. (2019), BERT: pre-training of deep bidirectional transformers for language understanding, NAACL.
    """
    state, config = _files(folder, prefix="bert.")
    symbols = (Path(folder) / "vocab.txt").read_text(encoding="utf-8").splitlines()
    tokenizer = WordPieceTokenizer(
        lowercase=config.get("do_lower_case", "[unused0]" not in symbols or "the" in symbols)
    )
    tokenizer.from_symbols(symbols)
    rows = torch.tensor([symbols.index(s) for s in _BERT_SPECIAL] + [
        k for k, s in enumerate(symbols) if s not in _BERT_SPECIAL
    ])  # fmt: skip
    embeddings = "embeddings."
    ours = {
        "encoder.embedding.tokens.weight": _named(state, embeddings + "word_embeddings.weight")[rows],
        "encoder.embedding.learned.weight": _named(state, embeddings + "position_embeddings.weight")
        + _named(state, embeddings + "token_type_embeddings.weight")[0],
        "popularity": _named(state, "cls.predictions.bias")[rows],
    }
    parts = {
        "encoder.embedding.norm": embeddings + "LayerNorm",
        "norm": "cls.predictions.transform.LayerNorm",
    }
    parts |= {"transform": "cls.predictions.transform.dense"}
    n_layers = _n_layers(state, "encoder.layer.")
    for k in range(n_layers):
        parts |= {f"encoder.stack.blocks.{k}.{a}": f"encoder.layer.{k}.{b}" for a, b in _BERT_BLOCK.items()}
    ours |= {
        f"{a}.{kind}": _named(state, f"{b}.{kind}") for a, b in parts.items() for kind in ("weight", "bias")
    }
    n_positions, d_model = ours["encoder.embedding.learned.weight"].shape
    n_heads = config.get("num_attention_heads", d_model // 64)
    model = MaskedLanguageModel(
        tokenizer, n_layers=n_layers, n_heads=n_heads, d_model=d_model, n_positions=n_positions
    )
    model.tokenizer_ = tokenizer
    return _with_weights(model, ours)


def load_gpt2(folder: str | os.PathLike[str]) -> LanguageModel:
    """Return GPT-2 as a fitted :class:`LanguageModel`.

    Parameters
    ----------
    folder : path-like
        Holds ``model.safetensors`` or ``pytorch_model.bin``, ``vocab.json``, ``merges.txt``, and ``config.json`` for the number
        of heads; without it heads are 64 wide.

    Raises
    ------
    InputError
        When a file or a parameter is missing, or shapes do not fit.

    References
    ----------
    Radford et al. (2019), Language models are unsupervised multitask learners.
    """
    state, config = _files(folder, prefix="transformer.")
    numbers = json.loads((Path(folder) / "vocab.json").read_text(encoding="utf-8"))
    lines = (Path(folder) / "merges.txt").read_text(encoding="utf-8").splitlines()
    merges = [line.split() for line in lines if line and not line.startswith("#version")]
    tokenizer = ByteLevelTokenizer().from_symbols(sorted(numbers, key=numbers.__getitem__), merges)
    ours = {
        "embedding.tokens.weight": _named(state, "wte.weight"),
        "embedding.learned.weight": _named(state, "wpe.weight"),
    }
    ours |= {f"stack.final_norm.{kind}": _named(state, f"ln_f.{kind}") for kind in ("weight", "bias")}
    n_layers = _n_layers(state, "h.")
    for k in range(n_layers):
        theirs, block = f"h.{k}.", f"stack.blocks.{k}."
        for kind in ("weight", "bias"):
            packed = _turned(state, f"{theirs}attn.c_attn.{kind}").chunk(3)
            ours |= {f"{block}attention.{n}.{kind}": x for n, x in zip(("query", "key", "value"), packed)}
            ours |= {
                f"{block}{a}.{kind}": _turned(state, f"{theirs}{b}.{kind}")
                for a, b in {
                    "attention.output": "attn.c_proj", "feedforward.hidden": "mlp.c_fc", "feedforward.output": "mlp.c_proj",
                    "norm_attention": "ln_1", "norm_feedforward": "ln_2",
                }.items()
            }  # fmt: skip
    block_size, d_model = ours["embedding.learned.weight"].shape
    n_heads = config.get("n_head", d_model // 64)
    options: dict[str, Any] = {"n_layers": n_layers, "n_heads": n_heads, "d_model": d_model}
    model = LanguageModel(tokenizer, block_size=block_size, positions="learned", **options)
    model.tokenizer_, model.n_symbols_, model.ends_ = tokenizer, len(tokenizer.symbols_), True
    return _with_weights(model, ours)


@cache
def byte_symbols() -> dict[int, str]:
    """Return the printable character by which GPT-2 writes each byte.

    Examples
    --------
    >>> byte_symbols()[ord("a")], byte_symbols()[ord(" ")]
    ('a', 'Ġ')
    """
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) for byte in shown} | {byte: chr(256 + k) for k, byte in enumerate(others)}


def _merged(word: str, ranks: Mapping[tuple[str, str], int]) -> list[str]:
    """Apply the earliest merge until none applies."""
    pieces, last = list(word), len(ranks)
    while len(pieces) > 1:
        rank, at = min((ranks.get(pair, last), k) for k, pair in enumerate(zip(pieces, pieces[1:])))
        if rank == last:
            break
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
    return pieces


def _stands_alone(character: str) -> bool:
    """Whether BERT takes a character for a word: marks, and Chinese characters."""
    code = ord(character)
    ascii_mark = 33 <= code <= 126 and not character.isalnum()
    chinese = 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF or 0x20000 <= code <= 0x2FA1F
    return ascii_mark or chinese or unicodedata.category(character).startswith("P")


def _files(folder: str | os.PathLike[str], prefix: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the state dict, its names without the prefix and in today's spelling, and the configuration, if there is one."""
    root = Path(folder)
    sealed, old, config = (root / name for name in ("model.safetensors", "pytorch_model.bin", "config.json"))
    if sealed.exists():
        state = load_file(sealed)
    elif old.exists():
        state = torch.load(old, map_location="cpu", weights_only=True)
    else:
        raise InputError(
            f"folder: expected model.safetensors or pytorch_model.bin in {str(root)!r}, got neither."
        )
    spelled = ((name.removeprefix(prefix), value) for name, value in state.items())
    found = {
        n.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"): v
        for n, v in spelled
    }
    return found, json.loads(config.read_text(encoding="utf-8")) if config.exists() else {}


def _named(state: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in state:
        raise InputError(f"folder: the state dict lacks {name!r}; it has {sorted(state)[:3]} and others.")
    return state[name].float()


def _turned(state: Mapping[str, Tensor], name: str) -> Tensor:
    """Return a parameter of GPT-2, whose matrices are stored as (in, out)."""
    found = _named(state, name)
    return found.mT if found.ndim == 2 else found


def _n_layers(state: Mapping[str, Tensor], start: str) -> int:
    return 1 + max(
        (int(name[len(start) :].split(".")[0]) for name in state if name.startswith(start)), default=-1
    )


def _with_weights(model: Any, state: Mapping[str, Tensor]) -> Any:
    """Return the model with these parameters, once they fit its module."""
    model.published_ = True
    model.state_ = {name: value.contiguous().numpy() for name, value in state.items()}
    try:
        model._module()
    except RuntimeError as error:
        raise InputError(f"folder: its parameters do not fit a {type(model).__name__}: {error}") from error
    return model
