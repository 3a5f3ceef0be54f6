"""Published weights: BERT and GPT-2 as fitted models, from the files of a folder; nothing is fetched."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file
from torch import Tensor

from peerattn.exceptions import InputError, expect
from peerattn.sequence.language_model import LanguageModel
from peerattn.sequence.masked_language_model import MaskedLanguageModel
from peerattn.sequence.tokenizers import SPECIAL, Tokenizer, merged

_BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # in the order of SPECIAL
_MARK = re.compile(r"<mask>|\[MASK\]")
# Letters, digits, and other marks, each with the space before it, as GPT-2 cuts texts.
_GPT2_WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
#: Our parts of a block, and BERT's and GPT-2's.
_BLOCK = {
    "attention.query": ("attention.self.query", "attn.c_attn.0"),  # the first of three parts
    "attention.key": ("attention.self.key", "attn.c_attn.1"),
    "attention.value": ("attention.self.value", "attn.c_attn.2"),
    "attention.output": ("attention.output.dense", "attn.c_proj"),
    "norm_attention": ("attention.output.LayerNorm", "ln_1"),
    "feedforward.hidden": ("intermediate.dense", "mlp.c_fc"),
    "feedforward.output": ("output.dense", "mlp.c_proj"),
    "norm_feedforward": ("output.LayerNorm", "ln_2"),
}
_BERT = {
    "encoder.embedding.norm": "embeddings.LayerNorm",
    "transform": "cls.predictions.transform.dense",
    "norm": "cls.predictions.transform.LayerNorm",
}


@dataclass(eq=False, repr=False, kw_only=True)
class WordPieceTokenizer(Tokenizer):
    """Words in pieces of BERT's vocabulary, the longest first; ``##`` marks a piece that continues a word.

    Parameters
    ----------
    lowercase : bool, default True
        Also removes accents, as the "uncased" vocabularies require.

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
        expect(not missing, "symbols", "a vocabulary of BERT", f"one without {missing}")
        self.symbols_ = [*SPECIAL, *(symbol for symbol in symbols if symbol not in _BERT_SPECIAL)]
        return self

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text's words."""
        parts = ([piece for w in self._words(p) for piece in self._pieces(w)] for p in _MARK.split(text))
        return [symbol for part in parts for symbol in ("<mask>", *part)][1:]

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
            mark, stops = "##" if start else "", range(len(word), start, -1)
            end = next((k for k in stops if mark + word[start:k] in numbers), None)
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

    never = ()

    def from_symbols(self, symbols: Sequence[str], merges: Iterable[Sequence[str]]) -> Self:
        """Take a published vocabulary and its merges, in order."""
        lacks, last = sorted(set(byte_symbols().values()) - set(symbols)), symbols[-1:]
        whole = not lacks and last == ["<|endoftext|>"]
        expect(whole, "symbols", "all bytes, and <|endoftext|> last", f"{last} last, without {lacks[:3]}")
        self.symbols_, self.merges_ = list(symbols), [(first, second) for first, second in merges]
        self.__dict__.pop("_ranks", None)  # of the merges before
        return self

    @cached_property
    def _ranks(self) -> dict[tuple[str, str], int]:
        return {pair: rank for rank, pair in enumerate(self.merges_)}

    @property
    def end(self) -> int:
        """The number that ends a text."""
        return len(self.symbols_) - 1

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text, spaces with the word that follows."""
        letters = byte_symbols()
        words = ["".join(letters[byte] for byte in word.encode()) for word in _GPT2_WORDS.findall(text)]
        known = {word: merged(list(word), self._ranks) for word in set(words)}
        return [piece for word in words for piece in known[word]]

    def join(self, symbols: Sequence[str]) -> str:
        """Return the text that the pieces' bytes are."""
        back = {letter: byte for byte, letter in byte_symbols().items()}
        return bytes(back[letter] for letter in "".join(symbols)).decode(errors="replace")

    def decode(self, numbers: Iterable[int]) -> str:
        """Return the text of these numbers, without the end."""
        return self.join([self.symbols_[k] for k in numbers if k != self.end])


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
    uncased = config.get("do_lower_case", "[unused0]" not in symbols or "the" in symbols)
    tokenizer = WordPieceTokenizer(lowercase=uncased).from_symbols(symbols)
    rows = sorted(range(len(symbols)), key=lambda k: (*_BERT_SPECIAL, symbols[k]).index(symbols[k]))
    positions = state["embeddings.position_embeddings.weight"]
    positions = positions + state["embeddings.token_type_embeddings.weight"][0]
    ours = {
        "encoder.embedding.tokens.weight": state["embeddings.word_embeddings.weight"][rows],
        "encoder.embedding.learned.weight": positions,
        "popularity": state["cls.predictions.bias"][rows],
    }
    n_positions, d_model = positions.shape
    sizes = {"n_heads": config.get("num_attention_heads", d_model // 64), "d_model": d_model}
    blocks = _blocks(state, "encoder.stack.blocks", "encoder.layer", 0)
    n_layers = len(blocks) // len(_BLOCK)
    model = MaskedLanguageModel(tokenizer, n_layers=n_layers, n_positions=n_positions, **sizes)
    return _with_weights(model, ours | _renamed(state, _BERT | blocks))


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
    ours = {"embedding.tokens.weight": state["wte.weight"], "embedding.learned.weight": state["wpe.weight"]}
    block_size, d_model = ours["embedding.learned.weight"].shape
    for name in [name for name in state if name.startswith("h.")]:  # whose matrices are stored as (in, out)
        state[name] = state[name].mT if state[name].ndim == 2 else state[name]
        if (packed := ".attn.c_attn.") in name:
            for k, part in enumerate(state[name].chunk(3)):
                state[name.replace(packed, f"{packed}{k}.")] = part
    sizes = {"n_heads": config.get("n_head", d_model // 64), "d_model": d_model, "block_size": block_size}
    blocks = _blocks(state, "stack.blocks", "h", 1)
    model = LanguageModel(tokenizer, n_layers=len(blocks) // len(_BLOCK), positions="learned", **sizes)
    model.n_symbols_, model.ends_ = len(tokenizer.symbols_), True
    return _with_weights(model, ours | _renamed(state, {"stack.final_norm": "ln_f"} | blocks))


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


def _stands_alone(character: str) -> bool:
    """Whether BERT takes a character for a word: marks, and Chinese characters."""
    code = ord(character)
    ascii_mark = 33 <= code <= 126 and not character.isalnum()
    chinese = 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF or 0x20000 <= code <= 0x2FA1F
    return ascii_mark or chinese or unicodedata.category(character).startswith("P")


class _State(dict[str, Tensor]):
    """Published parameters by name; one that is missing is named."""

    def __missing__(self, name: str) -> Tensor:
        raise InputError(f"folder: the state dict lacks {name!r}; it has {sorted(self)[:3]} and others.")


def _files(folder: str | os.PathLike[str], prefix: str) -> tuple[_State, dict[str, Any]]:
    """Return the state dict, its names without the prefix and in today's spelling, and the configuration, if there is one."""
    root = Path(folder)
    sealed, old, config = (root / name for name in ("model.safetensors", "pytorch_model.bin", "config.json"))
    found = sealed.exists() or old.exists()
    expect(found, "folder", f"model.safetensors or pytorch_model.bin in {str(root)!r}", "neither")
    given = load_file(sealed) if sealed.exists() else torch.load(old, map_location="cpu", weights_only=True)
    state = _State()
    for name, value in given.items():
        today = name.replace(".gamma", ".weight").replace(".beta", ".bias")
        state[today.removeprefix(prefix)] = value.float()
    return state, json.loads(config.read_text(encoding="utf-8")) if config.exists() else {}


def _blocks(state: _State, ours: str, theirs: str, kind: int) -> dict[str, str]:
    """Return our names and the published ones of the parts of every block."""
    n = len({name.split(".")[theirs.count(".") + 1] for name in state if name.startswith(f"{theirs}.")})
    return {f"{ours}.{k}.{a}": f"{theirs}.{k}.{b[kind]}" for k in range(n) for a, b in _BLOCK.items()}


def _renamed(state: _State, names: Mapping[str, str]) -> dict[str, Tensor]:
    """Return weight and bias of the named parts by our names."""
    return {f"{a}.{kind}": state[f"{b}.{kind}"] for a, b in names.items() for kind in ("weight", "bias")}


def _with_weights(model: Any, state: Mapping[str, Tensor]) -> Any:
    """Return the model with these parameters, once they fit its module."""
    model.published_, model.tokenizer_ = True, model.tokenizer
    model.state_ = {name: value.contiguous().numpy() for name, value in state.items()}
    try:
        model._module()
    except RuntimeError as error:
        raise InputError(f"folder: its parameters do not fit a {type(model).__name__}: {error}") from error
    return model
