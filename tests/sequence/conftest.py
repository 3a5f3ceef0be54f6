"""Folders of published weights: state dicts of the published names and shapes, vocabularies, configurations."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from safetensors.torch import save_file

D, HEADS, LAYERS, POSITIONS = 16, 4, 3, 24
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# one symbol is a line separator, as in a published vocabulary of many languages
PIECES = ["[PAD]", "[unused0]", *SPECIAL[1:], "the", "cafe", "\u2028", "play", "##ing", "##s", ".", "cat"]
# the printable characters by which GPT-2 writes the 256 bytes
BYTES = [chr(k) for k in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
SYMBOLS = [*BYTES, "he", "Ġt", "Ġthe", "<|endoftext|>"]


def drawn(shapes):
    generator = torch.Generator().manual_seed(0)
    return {name: 0.3 * torch.randn(*shape, generator=generator) for name, shape in shapes.items()}


def with_bias(names):
    """Weights of these shapes, and a bias as long as the last dimension."""
    weights = {f"{name}.weight": shape for name, shape in names.items()}
    return weights | {f"{name}.bias": shape[-1:] for name, shape in names.items()}


def bert_state(wide=4 * D):
    shapes = {
        "bert.embeddings.word_embeddings.weight": (len(PIECES), D),
        "cls.predictions.bias": (len(PIECES),),
        "cls.predictions.decoder.weight": (len(PIECES), D),
        "bert.embeddings.position_embeddings.weight": (POSITIONS, D),
        "bert.embeddings.token_type_embeddings.weight": (2, D),
    }
    names = {
        "bert.embeddings.LayerNorm": (D,),
        "cls.predictions.transform.dense": (D, D),
        "cls.predictions.transform.LayerNorm": (D,),
    }
    for k in range(LAYERS):
        at = f"bert.encoder.layer.{k}."
        names |= {f"{at}attention.self.{n}": (D, D) for n in ("query", "key", "value")}
        names |= {f"{at}{n}": (D,) for n in ("attention.output.LayerNorm", "output.LayerNorm")}
        names[f"{at}attention.output.dense"] = (D, D)
        shapes |= {f"{at}intermediate.dense.weight": (wide, D), f"{at}intermediate.dense.bias": (wide,)}
        shapes |= {f"{at}output.dense.weight": (D, wide), f"{at}output.dense.bias": (D,)}
    return drawn(shapes | with_bias(names))


def gpt2_state(wide=4 * D):
    shapes = {
        "wte.weight": (len(SYMBOLS), D),
        "wpe.weight": (POSITIONS, D),
        "lm_head.weight": (len(SYMBOLS), D),
    }
    names = {"ln_f": (D,)}
    for k in range(LAYERS):
        names |= {f"h.{k}.ln_1": (D,), f"h.{k}.ln_2": (D,)}
        names |= {f"h.{k}.attn.c_attn": (D, 3 * D), f"h.{k}.attn.c_proj": (D, D)}
        names |= {f"h.{k}.mlp.c_fc": (D, wide), f"h.{k}.mlp.c_proj": (wide, D)}
    return drawn(shapes | with_bias(names))


def bert_folder(folder, config=(), pieces=PIECES, tokenizer=None, state=None):
    """Write the files of a published BERT."""
    torch.save(bert_state() if state is None else state, folder / "pytorch_model.bin")
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": HEADS} | dict(config)))
    if tokenizer is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


def gpt2_folder(folder, config=(), tokenizer=None, state=None):
    """Write the files of a published GPT-2."""
    state = gpt2_state() if state is None else state
    prefixed = {name if name.startswith("lm_head") else f"transformer.{name}": v for name, v in state.items()}
    save_file(prefixed, folder / "model.safetensors")
    (folder / "vocab.json").write_text(json.dumps({s: k for k, s in enumerate(SYMBOLS)}), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\nh e\nĠ t\nĠt he\n", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"n_head": HEADS} | dict(config)))
    if tokenizer is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


@pytest.fixture(scope="session")
def published():
    """This module: its constants and functions."""
    return sys.modules[__name__]
