"""Published weights beside a plain forward pass written down here, from state dicts of the published names and shapes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from peerattn.exceptions import InputError
from peerattn.sequence import LanguageModel, MaskedLanguageModel, TextClassifier, load_bert, load_gpt2
from peerattn.sequence.published import byte_symbols

D, HEADS, LAYERS, POSITIONS = 16, 4, 2, 24
PIECES = [
    "[PAD]",
    "[unused0]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "cafe",
    "play",
    "##ing",
    "##s",
    ".",
    "cat",
]


def drawn(shapes):
    generator = torch.Generator().manual_seed(0)
    return {name: 0.3 * torch.randn(*shape, generator=generator) for name, shape in shapes.items()}


def with_bias(names):
    """Weights of these shapes, and a bias as long as the last dimension."""
    weights = {f"{name}.weight": shape for name, shape in names.items()}
    return weights | {f"{name}.bias": shape[-1:] for name, shape in names.items()}


def bert_state():
    shapes = {
        "bert.embeddings.word_embeddings.weight": (len(PIECES), D),
        "cls.predictions.bias": (len(PIECES),),
    }
    shapes |= {
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
        names |= {
            f"{at}attention.output.dense": (D, D),
            f"{at}attention.output.LayerNorm": (D,),
            f"{at}output.LayerNorm": (D,),
        }
        shapes |= {f"{at}intermediate.dense.weight": (4 * D, D), f"{at}intermediate.dense.bias": (4 * D,)}
        shapes |= {f"{at}output.dense.weight": (D, 4 * D), f"{at}output.dense.bias": (D,)}
    return drawn(shapes | with_bias(names))


def attended(q, k, v, causal):
    q, k, v = (x.view(len(x), HEADS, -1).transpose(0, 1) for x in (q, k, v))
    scores = q @ k.mT / (D // HEADS) ** 0.5
    scores = (
        scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf) if causal else scores
    )
    return (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)


def bert_logits(s, numbers):
    """The logits of BertForMaskedLM, as published."""

    def lin(name, x):
        return x @ s[f"{name}.weight"].T + s[f"{name}.bias"]

    def norm(name, x):
        return F.layer_norm(x, (D,), s[f"{name}.weight"], s[f"{name}.bias"], 1e-12)

    e = "bert.embeddings."
    x = s[e + "word_embeddings.weight"][numbers] + s[e + "position_embeddings.weight"][: len(numbers)]
    x = norm(e + "LayerNorm", x + s[e + "token_type_embeddings.weight"][0])
    for k in range(LAYERS):
        at = f"bert.encoder.layer.{k}."
        a = attended(*(lin(f"{at}attention.self.{n}", x) for n in ("query", "key", "value")), causal=False)
        x = norm(f"{at}attention.output.LayerNorm", x + lin(f"{at}attention.output.dense", a))
        x = norm(
            f"{at}output.LayerNorm", x + lin(f"{at}output.dense", F.gelu(lin(f"{at}intermediate.dense", x)))
        )
    x = norm("cls.predictions.transform.LayerNorm", F.gelu(lin("cls.predictions.transform.dense", x)))
    return x @ s[e + "word_embeddings.weight"].T + s["cls.predictions.bias"]


def gpt2_state(n_symbols):
    shapes = {"wte.weight": (n_symbols, D), "wpe.weight": (POSITIONS, D)}
    names = {"ln_f": (D,)}
    for k in range(LAYERS):
        names |= {
            f"h.{k}.ln_1": (D,),
            f"h.{k}.ln_2": (D,),
            f"h.{k}.attn.c_attn": (D, 3 * D),
            f"h.{k}.attn.c_proj": (D, D),
        }
        names |= {f"h.{k}.mlp.c_fc": (D, 4 * D), f"h.{k}.mlp.c_proj": (4 * D, D)}
    return drawn(shapes | with_bias(names))


def gpt2_logits(s, numbers):
    def lin(name, x):
        return x @ s[f"{name}.weight"] + s[f"{name}.bias"]

    def norm(name, x):
        return F.layer_norm(x, (D,), s[f"{name}.weight"], s[f"{name}.bias"], 1e-5)

    x = s["wte.weight"][numbers] + s["wpe.weight"][: len(numbers)]
    for k in range(LAYERS):
        q, key, v = lin(f"h.{k}.attn.c_attn", norm(f"h.{k}.ln_1", x)).chunk(3, -1)
        x = x + lin(f"h.{k}.attn.c_proj", attended(q, key, v, causal=True))
        x = x + lin(
            f"h.{k}.mlp.c_proj", F.gelu(lin(f"h.{k}.mlp.c_fc", norm(f"h.{k}.ln_2", x)), approximate="tanh")
        )
    return norm("ln_f", x) @ s["wte.weight"].T


@pytest.fixture
def bert(tmp_path):
    state = bert_state()
    torch.save(state, tmp_path / "pytorch_model.bin")
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": HEADS}))
    return state, tmp_path


def test_bert_fills_in_what_its_published_equations_say(bert, tmp_path):
    state, folder = bert
    model = load_bert(folder)
    names = ["[CLS]", "the", "[MASK]", "##s", ".", "[SEP]"]
    assert model.tokenizer_.tokenize("The <mask>s.") == [
        "the",
        "<mask>",
        "<unknown>",
        ".",
    ]  # s alone is no word
    assert model.tokenizer_.tokenize("Café playings xyz") == ["cafe", "play", "##ing", "##s", "<unknown>"]
    numbers = torch.tensor([PIECES.index(name) for name in names])
    wanted = bert_logits({n: v.double() for n, v in state.items()}, numbers)[2]
    ours = model.tokenizer_.numbers
    read = torch.tensor([[2, ours["the"], 4, ours["##s"], ours["."], 3]])
    found = model._module().double()(read, torch.tensor([6]), read == 4)[0]
    order = [PIECES.index(s) for s in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    order += [k for k, s in enumerate(PIECES) if not (s.startswith("[") and s != "[unused0]")]
    torch.testing.assert_close(found, wanted[order], rtol=1e-6, atol=1e-6)
    assert model._read(["the cat"]) == [[2, ours["the"], ours["cat"], 3]]
    model.save(tmp_path / "bert.safetensors")
    loaded = MaskedLanguageModel.load(tmp_path / "bert.safetensors")
    assert loaded.predict(["the <mask> ."]) == model.predict(["the <mask> ."])
    judge = TextClassifier(pretrained=model, n_epochs=1, line=False, random_state=0)
    judge.fit(["the cat", "playing"] * 4, [0, 1] * 4)
    assert judge.predict(["the cat"]).shape == (1,)


def test_gpt2_goes_on_as_its_published_equations_say(tmp_path):
    symbols = [*byte_symbols().values(), "he", "Ġt", "Ġthe", "<|endoftext|>"]
    state = gpt2_state(len(symbols))
    save_file({f"transformer.{name}": value for name, value in state.items()}, tmp_path / "model.safetensors")
    (tmp_path / "vocab.json").write_text(json.dumps({s: k for k, s in enumerate(symbols)}), encoding="utf-8")
    (tmp_path / "merges.txt").write_text("#version: 0.2\nh e\nĠ t\nĠt he\n", encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"n_head": HEADS}))
    model = load_gpt2(tmp_path)
    text = "he's in the café"
    assert model.tokenizer_.tokenize("he in the the") == ["he", "Ġ", "i", "n", "Ġthe", "Ġthe"]
    numbers = model.tokenizer_.encode(text)
    assert model.tokenizer_.decode(numbers) == text
    wanted = gpt2_logits({n: v.double() for n, v in state.items()}, torch.tensor(numbers)).softmax(-1)
    np.testing.assert_allclose(model.predict_proba([text])[0], wanted[-1].numpy(), rtol=1e-4, atol=1e-6)
    assert len(model.tokenizer_.encode(model.generate(text, 3, temperature=0))) <= 3
    model.save(tmp_path / "gpt2.safetensors")
    assert LanguageModel.load(tmp_path / "gpt2.safetensors").loss(text) == model.loss(text)


def test_what_is_missing_is_named(bert, tmp_path):
    _, folder = bert
    with pytest.raises(InputError, match="wte.weight"):
        (folder / "vocab.json").write_text(
            json.dumps({s: k for k, s in enumerate([*byte_symbols().values(), "<|endoftext|>"])})
        )
        (folder / "merges.txt").write_text("")
        load_gpt2(folder)
    (folder / "empty").mkdir()
    with pytest.raises(InputError, match="model.safetensors"):
        load_bert(folder / "empty")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": 3}))
    with pytest.raises(InputError, match="n_heads"):
        load_bert(folder)
