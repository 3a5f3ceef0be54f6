"""What ``config.json`` of BERT and GPT-2 sets: every field that changes a result is taken over or raises an error."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peerattn.exceptions import InputError
from peerattn.nn.blocks import Activation
from peerattn.sequence.text_encoder import Published

#: The published names of the activations that `peerattn.nn.FeedForward` has.
_ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}


@dataclass(frozen=True)
class Family:
    """The fields of a family of models, their defaults, and what must not be set."""

    name: str
    activation: tuple[str, str]
    epsilon: tuple[str, float]
    heads: tuple[str, int]
    absent: tuple[str, ...]
    other_names: dict[str, str] = field(default_factory=dict)


_NEVER = ("add_cross_attention", "is_encoder_decoder", "pruned_heads", "quantization_config")
# What is left out here does not change a result in evaluation: dropouts, starts, caches, outputs, chunks of rows in the
# feed-forward network, heads of other tasks, the precision of sums.
BERT = Family(
    "bert", ("hidden_act", "gelu"), ("layer_norm_eps", 1e-12), ("num_attention_heads", 12), (*_NEVER, "is_decoder")
)
GPT2 = Family(
    "gpt2",
    ("activation_function", "gelu_new"),
    ("layer_norm_epsilon", 1e-5),
    ("n_head", 12),
    _NEVER,
    {
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    },
)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a file of JSON holds."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"folder: {path.name} is no JSON that can be read ({error}). Is it complete?") from error
    if not isinstance(found, dict):
        raise InputError(f"folder: {path.name} must hold a JSON object, got {type(found).__name__}.")
    return found


class Fields:
    """The fields of a file of JSON; none where there is no file.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.file = path.name
        self.there = path.exists()
        self.fields: dict[str, Any] = {}
        if self.there:
            self.fields = read_json(path)

    def error(self, name: str, expected: object) -> InputError:
        """Return the error for a field of another value than expected."""
        return InputError(f"folder: {self.file}: {name}: expected {expected}, got {self.fields.get(name)!r}.")

    def field(self, name: str, default: Any, kind: type | None = None) -> Any:
        """Return a field, of the type of its default; the default where it is not there or null."""
        value = self.fields.get(name)
        if value is None:
            return default
        kind = kind or type(default)
        # JSON writes 1.0 as 1; and True is an int
        fits = {float: (float, int), int: (int,), bool: (bool,), str: (str,)}[kind]
        if type(value) not in fits:
            raise self.error(name, f"a value of type {kind.__name__}")
        return value

    def check_one(self, name: str, only: object) -> None:
        """Raise an error where a field has another value than the only one that is built here."""
        value = self.fields.get(name)
        if value is not None and value != only:
            raise self.error(name, f"{only!r}, the only one that can be used here")

    def check_absent(self, *names: str) -> None:
        """Raise an error where one of these fields is set."""
        for name in names:
            if self.fields.get(name):
                raise self.error(name, "nothing, since this cannot be used here")

    def check_special(self, names: dict[str, str]) -> None:
        """Raise an error where special symbols have other names than these, or there are others."""
        for role, symbol in names.items():
            given = self.fields.get(f"{role}_token")
            if isinstance(given, dict):
                given = given.get("content")
            if given not in (None, symbol):
                raise self.error(f"{role}_token", repr(symbol))
        added = self.fields.get("added_tokens_decoder") or {}
        others = {each["content"] for each in added.values()} - set(names.values())
        if others:
            raise InputError(
                f"folder: {self.file}: added_tokens_decoder: expected none but {sorted(names.values())}, got {sorted(others)}."
            )


class Configuration(Fields):
    """The fields of a model's ``config.json``, of one family.

    Raises
    ------
    InputError
        When the model is of another family, or the file sets what cannot be used here.
    """

    def __init__(self, path: Path, family: Family) -> None:
        super().__init__(path)
        self.family = family
        # newer files use one spelling for all families
        self.fields = {family.other_names.get(name, name): value for name, value in self.fields.items()}
        self.check_one("model_type", family.name)
        self.check_one("position_embedding_type", "absolute")
        self.check_absent(*family.absent)

    def check_sizes(self, **sizes: int) -> None:
        """Raise an error where a size is another one than the state dict has."""
        for name, size in sizes.items():
            if self.fields.get(name) not in (None, size):
                raise self.error(name, f"{size}, as the state dict has")

    def n_heads(self, d_model: int) -> int:
        """Return the number of heads; where no file names it, heads are 64 wide."""
        name, default = self.family.heads
        wide = d_model // 64
        if self.there and self.fields.get(name) is None and wide != default:
            raise self.error(name, f"the number of heads, which {self.file} of this width must name")
        return int(self.field(name, wide))

    def published(self, d_feedforward: int) -> Published:
        """Return what the module needs beyond its sizes."""
        name, default = self.family.activation
        activation = self.field(name, default)
        if activation not in _ACTIVATIONS:
            raise self.error(name, f"one of {sorted(_ACTIVATIONS)}")
        return {
            "activation": _ACTIVATIONS[activation],
            "epsilon": float(self.field(*self.family.epsilon)),
            "d_feedforward": d_feedforward,
            "tied": bool(self.field("tie_word_embeddings", True)),
        }
