"""Published weights: BERT and GPT-2 as fitted models, from the files of a folder; nothing is fetched."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import load_file
from torch import Tensor

from peerattn.exceptions import InputError, reworded, validate_arguments
from peerattn.sequence.language_model import LanguageModel
from peerattn.sequence.masked_language_model import MaskedLanguageModel
from peerattn.sequence.published_configuration import BERT, GPT2, GPT2_NAMES, Fields, read_json
from peerattn.sequence.published_tokenizers import BERT_SPECIAL, END_OF_TEXT, ByteLevelTokenizer, WordPieceTokenizer
from peerattn.sequence.tokenizers import Tokenizer

Model = TypeVar("Model", LanguageModel, MaskedLanguageModel)
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


@validate_arguments
def load_bert(folder: str | os.PathLike[str]) -> MaskedLanguageModel:
    """Return BERT as a fitted :class:`MaskedLanguageModel`, which may start a ``TextClassifier(pretrained=...)``.

    Parameters
    ----------
    folder : path-like
        Holds ``model.safetensors`` or ``pytorch_model.bin`` (the state dict of ``BertForMaskedLM``), ``vocab.txt``, and, where
        they were published, ``config.json`` and ``tokenizer_config.json``. Without a configuration heads are 64 wide; where no
        file records whether texts are in lower case, they are exactly where no piece of the vocabulary has a capital letter.

    Returns
    -------
    MaskedLanguageModel
        Texts are read as one segment, with ``[CLS]`` and ``[SEP]``.

    Raises
    ------
    InputError
        When a file or a parameter is missing, shapes do not fit, or the configuration names what is not built here: relative
        positions, a decoder, another activation, an output of its own. The message names the field.
    MissingExtraError
        When the package ``tokenizers``, of the extra ``text``, is not installed.

    Notes
    -----
    What a configuration names is taken over: activation, constant of the normalisations, hidden width.

    References
    ----------
    Devlin et al. (2019), BERT: pre-training of deep bidirectional transformers for language understanding, NAACL.
    """
    root = Path(folder)
    state = _state(root, prefix="bert.")
    symbols = _lines(root / "vocab.txt")
    words = state["embeddings.word_embeddings.weight"]
    n_symbols, d_model = words.shape
    positions = state["embeddings.position_embeddings.weight"]
    segments = state["embeddings.token_type_embeddings.weight"]
    _check_vocabulary("vocab.txt", symbols, words)
    blocks = _blocks(state, "encoder.stack.blocks", "encoder.layer", 0)
    n_layers = len(blocks) // len(_BLOCK)
    # sizes are those of the parameters; the configuration must agree
    wide = len(state["encoder.layer.0.intermediate.dense.weight"])
    config = Fields(root / "config.json")
    config.check(**BERT, vocab_size=n_symbols, hidden_size=d_model, num_hidden_layers=n_layers, intermediate_size=wide)
    config.check(max_position_embeddings=len(positions), type_vocab_size=len(segments))
    tokenizer = _word_pieces(Fields(root / "tokenizer_config.json"), symbols)
    # the special symbols first, as our tokenizer numbers them
    rows = sorted(range(len(symbols)), key=lambda k: (*BERT_SPECIAL, symbols[k]).index(symbols[k]))
    bias = state["cls.predictions.bias"]
    ours = {
        "encoder.embedding.tokens.weight": words[rows],
        "encoder.embedding.learned.weight": positions + segments[0],
        "popularity": bias[rows],
    }
    # two names of one constant in the publication
    if not torch.equal(state.get("cls.predictions.decoder.bias", bias), bias):
        raise InputError("folder: cls.predictions.bias and cls.predictions.decoder.bias differ: expected one constant.")
    n_heads = config.n_heads("num_attention_heads", d_model)
    model = MaskedLanguageModel(tokenizer, n_layers=n_layers, n_heads=n_heads, d_model=d_model, n_positions=len(positions))
    activation = config.activation("hidden_act", "gelu")
    model.published_ = {"activation": activation, "epsilon": config.field("layer_norm_eps", 1e-12), "d_feedforward": wide}
    return _with_weights(model, tokenizer, ours | _renamed(state, _BERT | blocks))


@validate_arguments
def load_gpt2(folder: str | os.PathLike[str]) -> LanguageModel:
    """Return GPT-2 as a fitted :class:`LanguageModel`.

    Parameters
    ----------
    folder : path-like
        Holds ``model.safetensors`` or ``pytorch_model.bin``, ``vocab.json``, ``merges.txt``, and, where they were published,
        ``config.json`` and ``tokenizer_config.json``. Without a configuration heads are 64 wide.

    Raises
    ------
    InputError
        When a file or a parameter is missing, shapes do not fit, or the configuration names what is not built here: other scales
        of the scores, an output of its own. The message names the field.
    MissingExtraError
        When the package ``tokenizers``, of the extra ``text``, is not installed.

    Notes
    -----
    What a configuration names is taken over: activation, constant of the normalisations, hidden width.

    References
    ----------
    Radford et al. (2019), Language models are unsupervised multitask learners.
    """
    root = Path(folder)
    state = _state(root, prefix="transformer.")
    numbers = read_json(root / "vocab.json")
    symbols = sorted(numbers, key=numbers.__getitem__)
    if [numbers[symbol] for symbol in symbols] != list(range(len(symbols))):
        raise InputError("folder: expected vocab.json to number its symbols 0, 1, 2, ..., got gaps or repeated numbers.")
    merges = [line.split() for line in _lines(root / "merges.txt") if line and not line.startswith("#version")]
    words = state["wte.weight"]
    n_symbols, d_model = words.shape
    positions = state["wpe.weight"]
    _check_vocabulary("vocab.json", symbols, words)
    ours = {"embedding.tokens.weight": words, "embedding.learned.weight": positions}
    for name in [name for name in state if name.startswith("h.")]:
        # matrices are stored as (in, out)
        if state[name].ndim == 2:
            state[name] = state[name].mT
        if (packed := ".attn.c_attn.") in name:
            for k, part in enumerate(state[name].chunk(3)):
                state[name.replace(packed, f"{packed}{k}.")] = part
    blocks = _blocks(state, "stack.blocks", "h", 1)
    n_layers = len(blocks) // len(_BLOCK)
    wide = len(state["h.0.mlp.c_fc.bias"])
    config = Fields(root / "config.json", GPT2_NAMES)
    config.check(**GPT2, vocab_size=n_symbols, n_positions=len(positions), n_embd=d_model, n_layer=n_layers, n_inner=wide)
    ours |= _renamed(state, {"stack.final_norm": "ln_f"} | blocks)
    tokenizer = _byte_pairs(Fields(root / "tokenizer_config.json"), symbols, merges)
    config.check(eos_token_id=tokenizer.end)
    n_heads = config.n_heads("n_head", d_model)
    model = LanguageModel(
        tokenizer, n_layers=n_layers, n_heads=n_heads, d_model=d_model, block_size=len(positions), positions="learned"
    )
    model.n_symbols_ = n_symbols
    model.ends_ = True
    activation = config.activation("activation_function", "gelu_new")
    model.published_ = {"activation": activation, "epsilon": config.field("layer_norm_epsilon", 1e-5), "d_feedforward": wide}
    return _with_weights(model, tokenizer, ours)


def _word_pieces(config: Fields, symbols: list[str]) -> WordPieceTokenizer:
    config.check(do_basic_tokenize=True, never_split=None)
    config.check_special(dict(zip(("pad", "unk", "cls", "sep", "mask"), BERT_SPECIAL, strict=True)))
    capitals = any(s != s.lower() for s in symbols if not (s.startswith("[") and s.endswith("]")))
    tokenizer = WordPieceTokenizer(
        lowercase=config.field("do_lower_case", not capitals),
        strip_accents=config.field("strip_accents", None, bool),
        split_chinese=config.field("tokenize_chinese_chars", True),
    )
    return tokenizer.from_symbols(symbols)


def _byte_pairs(config: Fields, symbols: list[str], merges: list[list[str]]) -> ByteLevelTokenizer:
    config.check(add_bos_token=False)
    config.check_special({"eos": END_OF_TEXT})
    tokenizer = ByteLevelTokenizer(add_prefix_space=config.field("add_prefix_space", False))
    return tokenizer.from_symbols(symbols, merges)


class _State(dict[str, Tensor]):
    """Published parameters by name; one that is missing is named."""

    def __missing__(self, name: str) -> Tensor:
        raise InputError(f"folder: the state dict lacks {name!r}; it has {sorted(self)[:3]} and others.")


def _state(root: Path, prefix: str) -> _State:
    """Return the state dict, its names without the prefix and in today's spelling."""
    sealed = root / "model.safetensors"
    old = root / "pytorch_model.bin"
    if sealed.exists():
        given = load_file(sealed)
    elif old.exists():
        given = torch.load(old, map_location="cpu", weights_only=True)
    else:
        raise InputError(f"folder: expected model.safetensors or pytorch_model.bin in {str(root)!r}, got neither.")
    state = _State()
    for name, value in given.items():
        # the first published files have the older names
        today = name.replace(".gamma", ".weight").replace(".beta", ".bias")
        state[today.removeprefix(prefix)] = value.float()
    return state


def _lines(path: Path) -> list[str]:
    """Return the lines of a file: only a line feed ends one, not the other separators that a vocabulary has as symbols."""
    with reworded(f"folder: {path.name} cannot be read", kinds=(OSError, ValueError)), path.open(encoding="utf-8") as file:
        return [line.removesuffix("\n") for line in file]


def _check_vocabulary(name: str, symbols: list[str], words: Tensor) -> None:
    if len(symbols) != len(words):
        wanted = f"one symbol of {name} for each of the {len(words)} vectors of the state dict"
        raise InputError(f"folder: expected {wanted}, got {len(symbols)}. Add the missing symbols to the file, in their order.")


def _blocks(state: _State, ours: str, theirs: str, kind: int) -> dict[str, str]:
    """Return our names and the published ones of the parts of every block."""
    n = len({name.split(".")[theirs.count(".") + 1] for name in state if name.startswith(f"{theirs}.")})
    return {f"{ours}.{k}.{a}": f"{theirs}.{k}.{b[kind]}" for k in range(n) for a, b in _BLOCK.items()}


def _renamed(state: _State, names: Mapping[str, str]) -> dict[str, Tensor]:
    """Return weight and bias of the named parts by our names."""
    return {f"{a}.{kind}": state[f"{b}.{kind}"] for a, b in names.items() for kind in ("weight", "bias")}


def _with_weights(model: Model, tokenizer: Tokenizer, state: Mapping[str, Tensor]) -> Model:
    """Return the model with these parameters, once they fit its module."""
    model.tokenizer_ = tokenizer
    model.state_ = {name: value.contiguous().numpy() for name, value in state.items()}
    with reworded(f"folder: its parameters do not fit a {type(model).__name__}", kinds=RuntimeError):
        model._module()
    return model
