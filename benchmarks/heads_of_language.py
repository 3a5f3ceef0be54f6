"""What heads do on real sentences (Multi30k): words that they attend to, and what a translator loses without them.

python benchmarks/heads_of_language.py             both parts; fitted models are kept in results/language_rows
python benchmarks/heads_of_language.py --only words

words: a masked language model of English captions. Does a head lead from *his* and *her* to the person, and from an article over
adjectives to its noun? The head is chosen on sentences of training, and measured on others beside position and frequency.
pruning: the encoder's, the decoder's and the crossing heads of a translator are left out by importance, and translators
with fewer heads from the start stand beside. Figures go to docs/_static.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import texts_and_series as shared
import torch

from peerattn import nn
from peerattn.evaluation import head_importance, pruning_curve
from peerattn.render import PALETTE, figure_style, weight_colours
from peerattn.sequence import MaskedLanguageModel, Translator, WordTokenizer
from report import options, publish, save_figure

MEN = {*"man boy guy gentleman father son husband boyfriend".split()}
WOMEN = {*"woman girl lady mother daughter wife girlfriend".split()}
ADJECTIVES = {
    *"young old older elderly little small large big tall short long blue red white black green yellow brown orange".split(),
    *"pink purple gray grey dark bright beautiful pretty wooden happy busy asian male female bald blond blonde".split(),
}
AFTER_NOUN = {*". , in on is are with and at of to from while wearing standing sitting holding near through".split()}
Cases = list[tuple[list[str], int, int]]  # words, the place that looks, the place that is meant
Candidates = Callable[[list[str], int], list[int]]  # places that may be meant


def pronouns(sentences: list[list[str]], *, both: bool) -> Cases:
    """Sentences in which *his* or *her* follows one person of that gender: the only person, or one of two (``both``)."""
    found: Cases = []
    for words in sentences:
        at = [k for k, word in enumerate(words) if word in ("his", "her")]
        if len(at) != 1:
            continue
        people = [[k for k in range(at[0]) if words[k] in group] for group in (MEN, WOMEN)]
        meant, other = people if words[at[0]] == "his" else people[::-1]
        if len(meant) == 1 and len(other) == int(both):
            found.append((words, at[0], meant[0]))
    return found


def articles(sentences: list[list[str]]) -> Cases:
    """Articles, one or two adjectives, and the noun after them."""
    found: Cases = []
    for words in sentences:
        for k, word in enumerate(words):
            noun = k + 1
            while noun < len(words) and words[noun] in ADJECTIVES:
                noun += 1
            after = words[min(noun + 1, len(words) - 1)]
            if word in ("a", "the") and 2 <= noun - k <= 3 and after in AFTER_NOUN:
                found.append((words, k, noun))
    return found


def weights_of(model: MaskedLanguageModel, words: list[str]) -> np.ndarray:
    """All heads' weights between words, without those to the start: (heads, words, words)."""
    seen = model.attention(" ".join(words)).weights
    return seen.reshape(-1, *seen.shape[2:])[:, 1:, 1:]


def hits(model: MaskedLanguageModel, cases: Cases, candidates: Candidates) -> np.ndarray:
    """Whether each head gives the word that is meant the largest weight of the candidates: (cases, heads)."""
    found = []
    for words, looks, meant in cases:
        among = candidates(words, looks)
        found.append(np.array(among)[weights_of(model, words)[:, looks, among].argmax(1)] == meant)
    return np.array(found)


def persons(words: list[str], looks: int) -> list[int]:
    return [k for k in range(looks) if words[k] in MEN | WOMEN]


def others(words: list[str], looks: int) -> list[int]:
    return [k for k in range(len(words)) if k != looks]


def next_three(words: list[str], looks: int) -> list[int]:
    return list(range(looks + 1, min(looks + 4, len(words))))


def recovered(model: MaskedLanguageModel, cases: Cases, silent: torch.Tensor | None) -> np.ndarray:
    """Whether *his* or *her* is found from the sentence without it, with the heads numbered ``silent`` gated off."""
    module = model._module()
    layers = [block.attention for block in module.encoder.stack.blocks]
    gates = torch.ones(sum(layer.n_heads for layer in layers))
    if silent is not None:
        gates[silent] = 0.0
    numbers, right = model.tokenizer_.numbers, []
    of_layers = dict(zip(layers, gates.split(layers[0].n_heads), strict=True))
    with nn.head_gates(of_layers), torch.inference_mode():
        for words, at, _ in cases:
            hidden = [*words[:at], "<mask>", *words[at + 1 :]]
            symbols = torch.tensor(model._read([" ".join(hidden)]))
            places = symbols == numbers["<mask>"]
            logits = module(symbols, torch.tensor([symbols.shape[1]]), places)[0]
            his = logits[numbers["his"]] > logits[numbers["her"]]
            right.append(bool(his) == (words[at] == "his"))
    return np.array(right)


def words() -> list[dict[str, str | float]]:
    """Fit, choose heads on training sentences, measure on others."""
    train, *held = (
        [line.split() for line in shared.multi30k(f"tokenized/{part}.lc.norm.tok.en.gz")]
        for part in ("train", "val", "test_2016_flickr")
    )
    new = [sentence for part in held for sentence in part]
    two = pronouns(train + new, both=True)
    out = {" ".join(sentence) for sentence, *_ in two}
    train = [sentence for sentence in train if " ".join(sentence) not in out]
    file = shared.KEPT / "masked_without_pairs.safetensors"
    if file.exists():
        model = MaskedLanguageModel.load(file)
    else:
        lines = [" ".join(sentence) for sentence in train]
        tokenizer = WordTokenizer(split="spaces", min_count=2).fit(lines)
        model = MaskedLanguageModel(tokenizer, random_state=0, verbose=True).fit(lines)
        model.save(file)
    counts = Counter(word for sentence in train for word in sentence)

    def rate(right: Any) -> str:
        p = float(np.mean(right))
        return f"{p:.2f} ± {np.sqrt(p * (1 - p) / len(right)):.2f}"

    def row(what: str, n: int, ours: Any, controls: dict[str, Any]) -> dict[str, str | float]:
        return {"what": what, "sentences": n, "attention": rate(ours)} | {
            "controls": "; ".join(f"{name} {rate(right)}" for name, right in controls.items())
        }

    def by_control(cases: Cases, candidates: Candidates, choose: Callable[..., int]) -> list[bool]:
        return [choose(candidates(w, k), key=lambda j: counts[w[j]]) == meant for w, k, meant in cases]  # noqa: B023

    # From the pronoun to the person: the head is chosen where one person is named, and tested where two are.
    single = pronouns(train, both=False)[:400]
    head = int(hits(model, single, others).mean(0).argmax())
    asked = {
        "the head": hits(model, two, persons)[:, head],
        "nearest person": by_control(two, persons, lambda c, key: c[-1]),
        "first person": by_control(two, persons, lambda c, key: c[0]),
        "more frequent word": by_control(two, persons, max),
    }
    of_two = dict(asked)
    rows = [row("his, her: of a man and a woman, the one meant", len(two), of_two.pop("the head"), of_two)]
    # From the article over adjectives to the noun.
    chosen, new_articles = articles(train)[:400], articles(new)
    noun_head = int(hits(model, chosen, others).mean(0).argmax())
    offsets = Counter(meant - k for _, k, meant in chosen).most_common(1)[0][0]
    asked_nouns = {
        f"always {offsets} on": [meant - k == offsets for _, k, meant in new_articles],
        "next": [meant - k == 1 for _, k, meant in new_articles],
        "most frequent of the next three": by_control(new_articles, next_three, max),
        "rarest of the next three": by_control(new_articles, next_three, min),
    }
    found = hits(model, new_articles, others)[:, noun_head]
    rows.append(row("a, the: over adjectives to the noun", len(new_articles), found, asked_nouns))
    # Is it used? The pronoun is hidden; heads that attend to persons are silenced, or as many others.
    hidden = pronouns(new, both=False) + two
    strength = hits(model, single, others).mean(0)
    order = np.argsort(-strength)
    rng = np.random.default_rng(0)
    four, rest = torch.tensor(order[:4].copy()), order[4:]
    random = [recovered(model, hidden, torch.tensor(rng.choice(rest, 4, replace=False))).mean() for _ in range(20)]
    his = [w[k] == "his" for w, k, _ in hidden]
    without = {"without the four heads above": recovered(model, hidden, four), "always his": his}
    rows.append(row("his or her, hidden", len(hidden), recovered(model, hidden, None), without))
    rows[-1]["controls"] = f"without four other heads {np.mean(random):.2f}; {rows[-1]['controls']}"

    shown = sorted((c for c in two if len(c[0]) <= 14), key=lambda c: len(c[0]))
    pair = [next(c for c in shown if c[0][c[1]] == "his"), next(c for c in shown if c[0][c[1]] == "her")]
    with figure_style():
        size: dict[str, Any] = {"figsize": (11.0, 4.4), "width_ratios": (1, 1, 1.15)}
        figure, axes = plt.subplots(1, 3, layout="constrained", **size)
        for ax, (sentence, k, meant) in zip(axes, pair):
            seen = weights_of(model, sentence)[head]
            ax.imshow(seen, cmap=weight_colours(), vmin=0, vmax=1)
            ax.set_xticks(range(len(sentence)), sentence, rotation=90)
            ax.set_yticks(range(len(sentence)), sentence)
            corner = meant - 0.5, k - 0.5
            ax.add_patch(plt.Rectangle(corner, 1, 1, fill=False, edgecolor=PALETTE[1], lw=1.6))
            ax.set(title=f"“{sentence[k]}” → “{sentence[meant]}”", xlabel="attended to")
        axes[0].set_ylabel("attends")
        means = np.array([np.mean(right) for right in asked.values()])
        errors = np.sqrt(means * (1 - means) / len(two))
        axes[2].barh(range(4), means, xerr=errors, color=[PALETTE[0], *["#aab0b8"] * 3], error_kw={"lw": 1})
        axes[2].set_yticks(range(4), list(asked))
        axes[2].set(xlim=(0, 1), xlabel="share that finds who is meant")
        axes[2].set_title(f"A man and a woman, {len(two)} sentences")
        axes[2].axvline(0.5, color="#8b9096", lw=0.8, ls=":")
        axes[2].invert_yaxis()
        save_figure(figure, "words_attended")
    return rows


KINDS = {"encoder": r"encoder.*\.attention$", "decoder": r"decoder.*\.attention$", "cross": r"decoder.*cross"}


def pruning() -> list[dict[str, str | float]]:
    """Leave out heads of one kind after another, and train with fewer."""
    source, target = shared.translation_pairs("train", shared.SHORT)
    importance_on = shared.translation_pairs("val", shared.SHORT)
    asked = shared.translation_pairs("test_2016_flickr", shared.SHORT)

    def fitted(n_heads: int) -> Translator:
        file = shared.KEPT / f"short_translation_{n_heads}_heads.safetensors"
        if not file.exists():
            shared.short_translator().set_params(n_heads=n_heads).fit(source, target).save(file)
        return Translator.load(file)

    whole = fitted(4)
    importance = head_importance(whole, *importance_on)
    layer = importance.index.get_level_values(0).astype(str)

    def curve_of(pattern: str) -> pd.Series:
        """The loss by how many heads are left of those whose layer's name has the pattern; all others stay."""
        inside = np.array([bool(re.search(pattern, name)) for name in layer])
        order = importance.where(inside, importance + importance.max() + 1)
        found = pruning_curve(whole, order, *asked).head(inside.sum() + 1)
        return pd.Series(-found["score"].to_numpy(), range(inside.sum(), -1, -1))

    one_kind = {name: curve_of(pattern) for name, pattern in KINDS.items()}
    assert all(len(curve) == 9 for curve in one_kind.values()), sorted(set(layer))
    every, few = curve_of("|".join(KINDS.values())), fitted(1).loss(*asked)
    rows = [
        {"what": "all heads", "heads": 24, "loss": float(every[24])},
        *({"what": f"{name}: half of its heads", "heads": 20, "loss": float(curve[4])} for name, curve in one_kind.items()),
        *({"what": f"{name}: none of its heads", "heads": 16, "loss": float(curve[0])} for name, curve in one_kind.items()),
        {"what": "the 12 most important of all kinds", "heads": 12, "loss": float(every[12])},
        {"what": "the 6 most important of all kinds", "heads": 6, "loss": float(every[6])},
        {"what": "trained with 6, one a layer", "heads": 6, "loss": float(few)},
    ]  # fmt: skip
    with figure_style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained", sharey=True)
        for name, curve in one_kind.items():
            left.plot(curve, marker="o", label=name)
        left.set(xlabel="heads left of eight", title="One kind at a time")
        left.set_ylabel("loss of new pairs (nats a symbol)")
        right.plot(every, marker=".", label="left out after training")
        right.plot([6], [few], "s", color=PALETTE[1], label="trained with so many")
        right.set(xlabel="heads left of 24", title="All kinds")
        for ax in (left, right):
            ax.invert_xaxis()
            ax.legend()
        save_figure(figure, "translator_heads")
    return rows


def main() -> None:
    """Run what is asked."""
    only = options(__doc__, only={"words": words, "pruning": pruning}).only
    torch.set_num_threads(1)
    shared.KEPT.mkdir(parents=True, exist_ok=True)
    if "words" in only:
        note = "± standard error. Controls choose among the same words."
        publish("words_attended", "Which words heads attend to, Multi30k in English", words(), [note])
    if "pruning" in only:
        note = "Sentences of at most 10 words: importance on validation pairs, loss on those of test 2016."
        title = "A translator without heads of one kind: loss of new pairs, nats a symbol"
        publish("translator_heads", title, pruning(), [note])


if __name__ == "__main__":
    main()
