"""Published weights beside a plain forward pass written down here, from state dicts of the published names and shapes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from peerattn.exceptions import InputError
from peerattn.sequence import LanguageModel, MaskedLanguageModel, TextClassifier, load_bert, load_gpt2

D, HEADS, LAYERS, POSITIONS = 16, 4, 3, 24  # as in conftest.py
ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "swish": F.silu,
}


def attended(q, k, v, scale, causal):
    q, k, v = (x.view(len(x), HEADS, -1).transpose(0, 1) for x in (q, k, v))
    scores = scale * q @ k.mT
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
    return (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)


def bert_logits(s, numbers, config):
    """The logits of BertForMaskedLM, as published."""
    act = ACTIVATIONS[config.get("hidden_act", "gelu")]

    def lin(name, x):
        return x @ s[f"{name}.weight"].T + s[f"{name}.bias"]

    def norm(name, x):
        return F.layer_norm(x, (D,), s[f"{name}.weight"], s[f"{name}.bias"], config.get("layer_norm_eps", 1e-12))

    e = "bert.embeddings."
    x = s[e + "word_embeddings.weight"][numbers] + s[e + "position_embeddings.weight"][: len(numbers)]
    x = norm(e + "LayerNorm", x + s[e + "token_type_embeddings.weight"][0])
    for k in range(LAYERS):
        at = f"bert.encoder.layer.{k}."
        parts = (lin(f"{at}attention.self.{n}", x) for n in ("query", "key", "value"))
        a = attended(*parts, (D // HEADS) ** -0.5, causal=False)
        x = norm(f"{at}attention.output.LayerNorm", x + lin(f"{at}attention.output.dense", a))
        x = norm(f"{at}output.LayerNorm", x + lin(f"{at}output.dense", act(lin(f"{at}intermediate.dense", x))))
    x = norm("cls.predictions.transform.LayerNorm", act(lin("cls.predictions.transform.dense", x)))
    return x @ s[e + "word_embeddings.weight"].T + s["cls.predictions.bias"]


def gpt2_logits(s, numbers, config):
    """The logits of GPT2LMHeadModel, as published."""
    act = ACTIVATIONS[config.get("activation_function", "gelu_new")]

    def lin(name, x):
        return x @ s[f"{name}.weight"] + s[f"{name}.bias"]

    def norm(name, x):
        return F.layer_norm(x, (D,), s[f"{name}.weight"], s[f"{name}.bias"], config.get("layer_norm_epsilon", 1e-5))

    x = s["wte.weight"][numbers] + s["wpe.weight"][: len(numbers)]
    for k in range(LAYERS):
        scale = (D // HEADS) ** -0.5
        parts = lin(f"h.{k}.attn.c_attn", norm(f"h.{k}.ln_1", x)).chunk(3, -1)
        x = x + lin(f"h.{k}.attn.c_proj", attended(*parts, scale, causal=True))
        x = x + lin(f"h.{k}.mlp.c_proj", act(lin(f"h.{k}.mlp.c_fc", norm(f"h.{k}.ln_2", x))))
    return norm("ln_f", x) @ s["wte.weight"].T


COMMON = [
    {},
    {"hidden_dropout_prob": 0.3, "resid_pdrop": 0.3, "use_cache": False},
]


@pytest.mark.parametrize(
    "config",
    [
        *COMMON,
        {"hidden_act": "relu"},
        {"hidden_act": "gelu_new"},
        {"hidden_act": "swish"},
        {"layer_norm_eps": 0.01},
        {"layer_norm_eps": 1},
        {"intermediate_size": 24},
        {"chunk_size_feed_forward": 2, "position_embedding_type": "absolute", "model_type": "bert"},
    ],
    ids=str,
)
def test_bert_fills_in_what_its_published_equations_say(config, published, tmp_path):
    state = published.bert_state(config.get("intermediate_size", 4 * D))
    model = load_bert(published.bert_folder(tmp_path, config, state=state))
    numbers = torch.tensor([published.PIECES.index(name) for name in ["[CLS]", "the", "[MASK]", "##s", ".", "[SEP]"]])
    wanted = bert_logits({n: v.double() for n, v in state.items()}, numbers, config)[2]
    ours = model.tokenizer_.numbers
    read = torch.tensor([[2, ours["the"], 4, ours["##s"], ours["."], 3]])
    found = model._module().double()(read, torch.tensor([6]), read == 4)[0]
    order = [published.PIECES.index(s) for s in published.SPECIAL] + [
        k for k, s in enumerate(published.PIECES) if s not in published.SPECIAL
    ]
    torch.testing.assert_close(found, wanted[order], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "config",
    [
        *COMMON,
        {"activation_function": "relu"},
        {"activation_function": "gelu"},
        {"activation_function": "swish"},
        {"layer_norm_epsilon": 0.01},
        {"n_inner": 24},
        {"n_inner": None, "model_type": "gpt2", "reorder_and_upcast_attn": True},
        {"max_position_embeddings": POSITIONS, "hidden_size": D, "num_hidden_layers": LAYERS},
    ],
    ids=str,
)
def test_gpt2_goes_on_as_its_published_equations_say(config, published, tmp_path):
    state = published.gpt2_state(config.get("n_inner") or 4 * D)
    model = load_gpt2(published.gpt2_folder(tmp_path, config, state=state))
    text = "he's in the café"
    numbers = model.tokenizer_.encode(text)
    wanted = gpt2_logits({n: v.double() for n, v in state.items()}, torch.tensor(numbers), config).softmax(-1)
    np.testing.assert_allclose(model.predict_proba([text])[0], wanted[-1].numpy(), rtol=2e-4, atol=1e-6)


BERT_ERRORS = [
    {"hidden_act": "quick_gelu"},
    {"hidden_act": 3},
    {"position_embedding_type": "relative_key"},
    {"position_embedding_type": "relative_key_query"},
    {"is_decoder": True},
    {"add_cross_attention": True},
    {"pruned_heads": {"0": [1]}},
    {"model_type": "roberta"},
    {"num_hidden_layers": 2},
    {"vocab_size": 99},
    {"hidden_size": 8},
    {"intermediate_size": 8},
    {"max_position_embeddings": 512},
    {"type_vocab_size": 3},
    {"layer_norm_eps": "1e-5"},
    {"tie_word_embeddings": False},
    {"tie_word_embeddings": "no"},
    {"num_attention_heads": None},
]
GPT2_ERRORS = [
    {"activation_function": "quick_gelu"},
    {"add_cross_attention": True},
    {"pruned_heads": {"0": [1]}},
    {"quantization_config": {"bits": 4}},
    {"model_type": "gpt_neo"},
    {"n_layer": 2},
    {"num_hidden_layers": 2},
    {"n_positions": 512},
    {"n_embd": 8},
    {"n_inner": 8},
    {"vocab_size": 50257},
    {"eos_token_id": 3},
    {"scale_attn_weights": "false"},
    {"scale_attn_weights": False},
    {"scale_attn_by_inverse_layer_idx": True},
    {"tie_word_embeddings": False},
    {"layer_norm_epsilon": True},
    {"n_head": True},
    {"n_head": None},
]


@pytest.mark.parametrize("config", BERT_ERRORS, ids=str)
def test_what_of_berts_configuration_cannot_be_used_is_named(config, published, tmp_path):
    with pytest.raises(InputError, match=f"config.json: {next(iter(config))}: expected"):
        load_bert(published.bert_folder(tmp_path, config))


@pytest.mark.parametrize("config", GPT2_ERRORS, ids=str)
def test_what_of_gpt2s_configuration_cannot_be_used_is_named(config, published, tmp_path):
    (name,) = config
    name = "n_layer" if name == "num_hidden_layers" else name
    with pytest.raises(InputError, match=f"config.json: {name}: expected"):
        load_gpt2(published.gpt2_folder(tmp_path, config))


def test_two_constants_of_the_output_are_an_error(published, tmp_path):
    state = published.bert_state()
    state["cls.predictions.decoder.bias"] = state["cls.predictions.bias"] + 1
    with pytest.raises(InputError, match="decoder.bias differ"):
        load_bert(published.bert_folder(tmp_path, state=state))


def test_models_go_into_files_and_start_classifiers(published, tmp_path):
    config = {"hidden_act": "relu", "layer_norm_eps": 0.1}
    model = load_bert(published.bert_folder(tmp_path, config))
    model.save(tmp_path / "bert.safetensors")
    loaded = MaskedLanguageModel.load(tmp_path / "bert.safetensors")
    np.testing.assert_array_equal(loaded.transform(["the cat"]), model.transform(["the cat"]))
    assert loaded.predict(["the <mask> ."]) == model.predict(["the <mask> ."])
    judge = TextClassifier(pretrained=model, n_epochs=1, line=False, random_state=0)
    judge.fit(["the cat", "playing"] * 4, [0, 1] * 4)
    assert judge.predict(["the cat"]).shape == (1,)
    norms = [part.eps for part in judge._module().encoder.modules() if isinstance(part, torch.nn.LayerNorm)]
    assert set(norms) == {0.1}
    other = load_gpt2(published.gpt2_folder(tmp_path, {"activation_function": "relu"}))
    other.save(tmp_path / "gpt2.safetensors")
    assert LanguageModel.load(tmp_path / "gpt2.safetensors").loss("he the") == other.loss("he the")
    assert isinstance(other.generate("he the", 3, temperature=0), str)


def test_what_is_missing_is_named(published, tmp_path):
    bert, gpt2, empty = (tmp_path / name for name in ("bert", "gpt2", "empty"))
    for folder in (bert, gpt2, empty):
        folder.mkdir()
    with pytest.raises(InputError, match="model.safetensors"):
        load_bert(empty)
    published.bert_folder(bert)
    (bert / "config.json").write_text(json.dumps({"num_attention_heads": 3}))
    with pytest.raises(InputError, match="n_heads"):
        load_bert(bert)
    for text in ("[" * 100_000, '{"num_attention_heads": ', "[1]"):
        (bert / "config.json").write_text(text)
        with pytest.raises(InputError, match="config.json"):
            load_bert(bert)
    (bert / "vocab.txt").unlink()
    with pytest.raises(InputError, match="vocab.txt"):
        load_bert(bert)
    published.gpt2_folder(gpt2, state={name: v for name, v in published.gpt2_state().items() if name != "ln_f.bias"})
    with pytest.raises(InputError, match="ln_f.bias"):
        load_gpt2(gpt2)


def test_symbols_and_vectors_are_counted(published, tmp_path):
    with pytest.raises(InputError, match="one symbol of vocab.txt for each of the 14 vectors"):
        load_bert(published.bert_folder(tmp_path, pieces=published.PIECES[:-1]))
    published.gpt2_folder(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps({s: 2 * k for k, s in enumerate(published.SYMBOLS)}))
    with pytest.raises(InputError, match="gaps"):
        load_gpt2(tmp_path)
