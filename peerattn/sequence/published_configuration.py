"""What ``config.json`` of BERT and GPT-2 sets: every field that changes a result is taken over or raises an error."""

import json
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from peerattn.exceptions import InputError, reworded
from peerattn.nn.blocks import Activation

#: The activations that `peerattn.nn.FeedForward` has, and their published names.
_ACTIVATIONS: dict[Activation, tuple[str, ...]] = {
    "relu": ("relu",),
    "gelu": ("gelu", "gelu_python"),
    "gelu_tanh": ("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh"),
    "silu": ("silu", "swish"),
}
# Fields and the only value that is built here. What is left out does not change a result in evaluation: dropouts, starts,
# caches, outputs, chunks of rows in the feed-forward network, heads of other tasks, the precision of sums.
_ONLY: dict[str, Any] = {
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "position_embedding_type": "absolute",
    "pruned_heads": None,
    "quantization_config": None,
    "tie_word_embeddings": True,
}
BERT = _ONLY | {"model_type": "bert", "is_decoder": False}
GPT2 = _ONLY | {"model_type": "gpt2", "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}
#: How newer files name the sizes of all families, and how GPT-2's did.
GPT2_NAMES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}
_HEADS = 12  # of both families, where a file of their width does not name the number


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a file of JSON holds."""
    with reworded(f"folder: {path.name} is no JSON that can be read", " Is it complete?", (OSError, ValueError, RecursionError)):
        found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise InputError(f"folder: {path.name} must hold a JSON object, got {type(found).__name__}.")
    return found


class Fields:
    """The fields of a file of JSON; none where there is no file.

    Parameters
    ----------
    path : Path
    names : dict of str to str, optional
        Names that files use for a field, and its usual name.
    """

    def __init__(self, path: Path, names: Mapping[str, str] | None = None) -> None:
        self.file = path.name
        self.there = path.exists()
        self.fields: dict[str, Any] = {}
        if self.there:
            self.fields = {(names or {}).get(name, name): value for name, value in read_json(path).items()}

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

    def check(self, **only: object) -> None:
        """Raise an error where a field has another value than the only one that can be used; empty ones count as not there."""
        for name, value in only.items():
            given = self.fields.get(name)
            if given is not None and (given or value) and given != value:
                raise self.error(name, f"{value!r}, the only value that can be used here")

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
            known = sorted(names.values())
            raise InputError(f"folder: {self.file}: added_tokens_decoder: expected none but {known}, got {sorted(others)}.")

    def n_heads(self, name: str, d_model: int) -> int:
        """Return the number of heads; where no file names it, heads are 64 wide."""
        wide = d_model // 64
        if self.there and self.fields.get(name) is None and wide != _HEADS:
            raise self.error(name, f"the number of heads, which {self.file} of this width must name")
        return int(self.field(name, wide))

    def activation(self, name: str, default: str) -> Activation:
        """Return the activation by our name."""
        published = self.field(name, default)
        for ours, names in _ACTIVATIONS.items():
            if published in names:
                return ours
        raise self.error(name, f"one of {sorted(chain.from_iterable(_ACTIVATIONS.values()))}")
