"""Sequence models, each beside the cheap control that a user would try first: rows are run one by one and kept.

python benchmarks/sequence.py                        runs the rows that are not kept yet, prints and writes the table
python benchmarks/sequence.py --rows lm graphs        these rows only; --again runs them even if kept
python benchmarks/sequence.py --table                runs nothing

Every model is at its defaults unless the row says otherwise, and nothing was chosen on the rows that are scored. Data:
../shared/data/sequence (PEERATTN_SHARED_DATA). Needs sacrebleu for the row of Multi30k (extra "benchmarks"). How the
defaults were chosen:

- language model: blocks of 128 instead of 64 symbols, to stay within ten CPU minutes on one thread; no search.
- classifier: two folds of the 7,791 sentences that are in none of the three test tenths. Attention trained by itself
  and added to the line (accuracy .778, loss .462, the line alone .770 and .480) against attention trained on what a
  cross-fitted line leaves (.775, .473); on one fold, the mean of the rows (.764 by itself) against the row of
  ``<start>`` (.730 on two folds).
- pretraining: of the same 7,791 sentences 6,291 to learn from and 1,500 to judge, ten draws of 200 labels: from scratch
  .579, tf-idf .589. From a masked model of 1,000 steps that starts at random: .548 (loss on held-out masked words 5.93
  nats; shares of the words alone give 5.99, counts of both neighbours 4.95). Its output started at log frequencies: .567
  (5.65). Vectors started from factored co-occurrences, too: .643 (5.90), without any step .625. Started so, but six times
  shorter, vectors are forgotten (5.66; a logistic regression on the model's mean rows .591 instead of .630). Rotary
  positions and 4,000 steps at 2e-3 from a random start reach 4.52 and no better classes (.563, five draws): what predicts
  a masked word of these texts is mostly syntax nearby. On Multi30k, two layers of width 64 and 800 steps reach 4.51 nats
  from counts, 4.82 from a random start. Windows of 2, 5, 40 symbols, mean vectors alone: .592, .622, .612.
- forecaster: learning rate 3e-4 (+2.2 % ± 1.7 % on the validation rows of ETTh1 in 500 steps) against 1e-3 (+1.4 % ±
  1.8 % in 240).
- anomaly detector: unchanged. A sum of its score and the distance was tried on eight generated series (AUROC .891,
  its score alone .911) and not taken. The 20 generated series were written before their first and only run.
- graphs: dropout .4 instead of .6 on the labels to choose by of all three (Cora, two seeds: .798 against .784;
  generated, one seed: .930 against .922, .968 against .952). Learning rate .005 and 400 steps: .794, .940, .956, at
  twice the time. Parameters averaged over the last half of the steps, on other splits than those scored (seeds 5 to 12):
  Cora .8025 against .8027, with fewer citations .780 against .775, with fewer words, too, .670 against .653; over the
  last quarter .803, .779, .668.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import texts_and_series as shared
import torch
from scipy import sparse
from scipy.signal import lfilter
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

from peerattn.sequence import (
    AttentionAnomalyDetector,
    AttentionForecaster,
    GraphAttentionClassifier,
    LanguageModel,
    MaskedLanguageModel,
    TextClassifier,
    Translator,
    WordTokenizer,
)
from peerattn.sequence.masked_language_model import cooccurrence_vectors
from report import kept_rows, options, publish

Rows = list[dict[str, Any]]
Graph = dict[str, Any]  # X, y and edges; places to train, to choose and to test by


def row(
    task: str, measure: str, model: list[float], control: float, difference: float, error: float, *,
    seconds: float, name: str, note: str = "", digits: int = 3,
) -> dict[str, Any]:  # fmt: skip
    """Return one row: the mean over seeds, the control, and the difference (better is positive) with its standard error."""
    spread = f" ± {np.std(model, ddof=1):.{digits}f}" if len(model) > 1 else ""
    return {
        "task": task, "measure": measure, "model": f"{np.mean(model):.{digits}f}{spread}", "seeds": len(model),
        "control": f"{control:.{digits}f}", "which": name, "better by": f"{difference:.{digits}f} ± {error:.{digits}f}",
        "CPU s a fit": round(seconds / len(model)), "note": note,
    }  # fmt: skip


def standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


# ---------------------------------------------------------------------- texts


def lm() -> Rows:
    """Tiny Shakespeare, character by character: first nine tenths for training; error over 20 stretches of the last."""
    training, test = shared.shakespeare()
    model = LanguageModel(random_state=0, verbose=True)
    _, seconds = shared.timed(lambda: model.fit(training))
    shared.KEPT.mkdir(parents=True, exist_ok=True)
    model.save(shared.KEPT / "lm.safetensors")
    grams = shared.n_gram_losses(training, test)
    stretches = np.array_split(np.arange(1, len(test)), 20)
    saved = [grams[at - 1].mean() - model.loss(test[at[0] - 1 : at[-1] + 1]) for at in stretches]
    loss, control = model.loss(test), float(grams.mean())
    note = f"perplexity {np.exp(loss):.2f} against {np.exp(control):.2f}"
    return [
        row("Tiny Shakespeare, next character", "nats", [loss], control, control - loss, standard_error(np.array(saved)),
            seconds=seconds, name="interpolated 5-gram", note=note)
    ]  # fmt: skip


def held_out(seed: int) -> np.ndarray:
    """Return which sentences of rt-polarity are the test tenth of a seed."""
    n = len(shared.sentences()[1])
    return np.random.default_rng(seed).permutation(n) < n // 10


def classifier() -> Rows:
    """Sentences of rt-polarity: another tenth held out for each of three seeds."""
    X, y = shared.sentences()
    found: dict[str, list[np.ndarray]] = {"ours": [], "alone": [], "control": []}
    seconds, gains = 0.0, []
    for seed in range(3):
        held = held_out(seed)
        model = TextClassifier(random_state=seed, verbose=True)
        _, spent = shared.timed(lambda: model.fit(X[~held], y[~held]))  # noqa: B023
        seconds += spent
        gains.append(f"{model.loss_reduction_:+.1%} ± {model.loss_reduction_error_:.1%}")
        alone = model.line_.log_probabilities([model.tokenizer_.encode(text) for text in X[held]]).argmax(1)
        found["ours"].append(model.predict(X[held]) == y[held])
        found["alone"].append(alone == y[held])
        found["control"].append(shared.tf_idf(X[~held], y[~held], X[held]) == y[held])
    each = [float(right.mean()) for right in found["ours"]]
    right = {name: np.concatenate(parts).astype(float) for name, parts in found.items()}
    rows = []
    for name, key in (("tf-idf + logistic regression", "control"), ("the model's own line", "alone")):
        more = right["ours"] - right[key]
        rows.append(
            row("rt-polarity, class of a sentence", "accuracy", each, right[key].mean(), more.mean(), standard_error(more),
                seconds=seconds, name=name, note=f"attention lowers the line's loss by {', '.join(gains)}")
        )  # fmt: skip
    return rows


def pretraining() -> Rows:
    """Attention of the classifier without its line, from a masked language model of all training sentences and from scratch.

    With 200 labels (five draws, 20 passes; error over draws) and with all (one seed; error over sentences).
    """
    X, y = shared.sentences()
    held = held_out(0)
    X_new, y_new, rest = X[held], y[held], np.flatnonzero(~held)
    words = WordTokenizer(min_count=2).fit(X[rest])
    size: dict[str, Any] = {"n_layers": 1, "d_model": 64, "n_positions": 128}
    start = MaskedLanguageModel(words, **size, max_steps=1000, random_state=0)
    _, seconds = shared.timed(lambda: start.fit(X[rest]))

    def right(rows: np.ndarray, seed: int, pretrained: Any, **given: Any) -> np.ndarray:
        model = TextClassifier(words, pretrained=pretrained, line=False, random_state=seed, **given)
        return np.asarray(model.fit(X[rows], y[rows]).predict(X_new) == y_new, dtype=float)

    rows = []
    draws = [np.random.default_rng(k).permutation(rest)[:200] for k in range(5)]
    from_it, scratch = (
        np.array([right(at, k, pretrained, n_epochs=20).mean() for k, at in enumerate(draws)]) for pretrained in (start, None)
    )
    few = np.mean([np.mean(shared.tf_idf(X[at], y[at], X_new) == y_new) for at in draws])
    sequences = [words.encode(text) for text in X]
    vectors = cooccurrence_vectors([sequences[k] for k in rest], len(words.symbols_), 64)
    means = np.array([vectors[sequence].mean(0) for sequence in sequences])
    linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.01))
    counted = np.mean([linear.fit(means[at], y[at]).score(means[held], y_new) for at in draws])
    more = from_it - scratch
    note = (
        f"tf-idf + logistic regression {few:.3f}; mean of factored co-occurrences + logistic regression {counted:.3f}; "
        f"{seconds:.0f} CPU s of pretraining"
    )
    rows.append(
        row("rt-polarity, 200 labels, pretrained on all texts", "accuracy", list(from_it), scratch.mean(), more.mean(),
            standard_error(more), seconds=5 * seconds, name="the same from scratch", note=note)
    )  # fmt: skip
    one, other = (right(rest, 0, pretrained) for pretrained in (start, None))
    rows.append(
        row("rt-polarity, all labels, pretrained on all texts", "accuracy", [one.mean()], other.mean(), (one - other).mean(),
            standard_error(one - other), seconds=seconds, name="the same from scratch")
    )  # fmt: skip
    return rows


def short_translation() -> Rows:
    """Multi30k, sentences of at most ten words, English to German."""
    return translated(shared.short_translator(), shared.SHORT, "short_translation")


def translation() -> Rows:
    """Multi30k, all sentences, English to German: two hours of one core."""
    return translated(shared.full_translator(), None, "translation")


def translated(model: Translator, longest: int | None, name: str) -> Rows:
    """Train a translator on pairs of at most so many words and set its BLEU on the test of 2016 beside two without a model."""
    import sacrebleu  # noqa: F401  # where it is missing, an error before the fit

    source, target = shared.translation_pairs("train", longest)
    asked, wanted = shared.translation_pairs("test_2016_flickr", longest)
    _, seconds = shared.timed(lambda: model.fit(source, target))
    shared.KEPT.mkdir(parents=True, exist_ok=True)
    model.save(shared.KEPT / f"{name}.safetensors")
    memory = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2)).fit(source)
    nearest = (memory.transform(asked) @ memory.transform(source).T).argmax(1)
    similar = [target[k] for k in np.asarray(nearest).ravel()]
    written = {"the most similar training pair": similar, "the source copied": asked}
    ours = list(model.predict(asked))
    length = "" if longest is None else f", at most {longest} words"
    score, signature = shared.bleu(ours, wanted)
    rows = []
    for control, lines in written.items():
        beside, _ = shared.bleu(lines, wanted)
        rows.append(
            row(f"Multi30k en to de{length} ({len(source):,} pairs, {len(asked):,} tested)", "BLEU", [score], beside,
                score - beside, bleu_error(ours, lines, wanted), seconds=seconds, name=control, digits=1, note=signature)
        )  # fmt: skip
    return rows


def bleu_error(ours: list[str], others: list[str], wanted: list[str], n: int = 200) -> float:
    """Return the standard error of a difference in BLEU, by resampling sentences (Koehn 2004)."""
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(n):
        at = rng.integers(0, len(wanted), len(wanted))
        a, b, lines = ([one[k] for k in at] for one in (ours, others, wanted))
        drawn.append(shared.bleu(a, lines)[0] - shared.bleu(b, lines)[0])
    return float(np.std(drawn, ddof=1))


# ---------------------------------------------------------------------- series


def day_ahead() -> Rows:
    """ETTh1, seven columns by the hour: a day ahead from four, rows split 8640/2880/2880 as published; error over days."""
    horizon, lookback, n_train, n_known = 24, 96, 8640, 11520
    values = pd.read_csv(shared.DATA / "ett" / "ETTh1.csv", index_col="date").to_numpy()[:14400]
    values = (values - values[:n_train].mean(0)) / values[:n_train].std(0)
    known, later = values[:n_known], values[n_known - lookback :]
    windows = np.lib.stride_tricks.sliding_window_view(later, lookback + horizon, axis=0)
    past, future = windows[..., :lookback], windows[..., lookback:]  # (n, columns, rows)
    found, saved, gains, seconds = [], [], [], 0.0
    for seed in range(3):
        model = AttentionForecaster(horizon, lookback, validation_share=0.25, random_state=seed)
        _, spent = shared.timed(lambda: model.fit(known))  # noqa: B023
        seconds += spent
        gains.append(f"{model.loss_reduction_:+.1%} ± {model.loss_reduction_error_:.1%}")
        forecasts = model.predict_windows(later)[: len(future)].transpose(0, 2, 1)
        line = past[..., -1:] + (past - past[..., -1:]) @ model.state_["line"].astype(float)
        losses, without = (((one - future) ** 2).mean((1, 2)) for one in (forecasts, line))
        found.append(float(losses.mean()))
        saved.append([part.mean() for part in np.array_split(without - losses, len(losses) // horizon)])
    by_day = np.mean(saved, axis=0)
    yesterday = ((past[..., -horizon:] - future) ** 2).mean()
    note = f"the day before repeated {yesterday:.3f}; gain in validation {', '.join(gains)}"
    return [
        row("ETTh1, a day ahead", "MSE", found, float(without.mean()), float(by_day.mean()), standard_error(by_day),
            seconds=seconds, name="closed-form ridge", note=note, digits=4)
    ]  # fmt: skip


#: Name, values and labels of a series, and how many first rows, without anomalies, are learned from.
Labelled = tuple[str, np.ndarray, np.ndarray, int]


def anomalies() -> Rows:
    """Five series of NAB: learned on the first 15 % (at most 750 rows), scored on the rest."""
    return detected("NAB, 5 series with labelled spans", list(shared.nab_series()))


def generated_anomalies() -> Rows:
    """Four series of each kind of anomaly: learned on the first 600 of 3,000 hours, scored on the rest."""
    series = [hours(kind, seed) for kind in KINDS for seed in range(4)]
    return detected("generated, 20 series, five kinds of anomaly", series)


KINDS = ("level", "flat", "late", "noise", "spikes")


def hours(kind: str, seed: int) -> Labelled:
    """Return 3,000 hours with a day, a week and autocorrelated noise, and six spans of one kind of anomaly after the first 600.

    level: 1.5 standard deviations up or down for 48 hours; flat: the day is missing for 48; late: the day is shifted by six
    hours for 72; noise: three times the noise for 48; spikes: an hour in four, four standard deviations up, for 24.
    """
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n, n_first = 3000, 600
    t, labels = np.arange(n), np.zeros(n, dtype=bool)
    day = np.sin(2 * np.pi * t / 24) + 0.5 * np.sin(4 * np.pi * t / 24)
    week = 0.5 * np.cos(2 * np.pi * t / 168)
    noise = lfilter([1], [1, -0.7], 0.25 * rng.normal(size=n))
    length = {"late": 72, "spikes": 24}.get(kind, 48)
    values, spread = day + week + noise, float(np.std(day + week + noise))
    for start in n_first + 400 * np.arange(6) + rng.integers(0, 300, 6):
        at = np.arange(start, start + length)
        labels[at] = True
        if kind == "level":
            values[at] += 1.5 * spread * rng.choice([-1, 1])
        elif kind == "flat":
            values[at] -= day[at]
        elif kind == "late":
            values[at] += day[at - 6] - day[at]
        elif kind == "noise":
            values[at] += 2 * noise[at]
        else:
            values[at[rng.random(length) < 0.25]] += 4 * spread
    return kind, values, labels, n_first


def detected(task: str, series: Sequence[Labelled]) -> Rows:
    """Score the detector and its controls on series; three seeds a series, error over the series.

    Labelled spans last for days, so that smoothing alone helps: the last row gives model and control the same, long one.
    """
    names = ("rolling z-score, mean of 24 rows", "distance from the first rows' mean, mean of 24 rows",
             "the same, both smoothed over 96 rows")  # fmt: skip
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    seconds = 0.0
    for _, values, labels, n_first in series:
        scores = []
        for seed in range(3):
            model, first = AttentionAnomalyDetector(random_state=seed), values[:n_first, None]
            found, spent = shared.timed(lambda: -model.fit(first).score_samples(values[:, None]))  # noqa: B023
            seconds += spent
            scores.append(found)
        far = np.abs(values - values[:n_first].mean())

        def area(x: np.ndarray) -> float:
            return float(roc_auc_score(labels[n_first:], x[n_first:]))  # noqa: B023

        plain, long = np.mean([[area(x), area(smooth(x, 96))] for x in scores], axis=0)
        ours.append([plain, plain, long])
        theirs_ = smooth(shared.rolling_z(values), 24), smooth(far, 24), smooth(far, 96)
        theirs.append([area(x) for x in theirs_])
    rows = []
    for k, name in enumerate(names):
        model_, control = np.array(ours)[:, k], np.array(theirs)[:, k]
        areas = pd.DataFrame({"ours": model_, "theirs": control}, index=[name for name, *_ in series])
        by_name = areas.groupby(level=0, sort=False).mean()
        each = ", ".join(f"{at} {a:.2f} against {b:.2f}" for at, a, b in by_name.itertuples())
        more = model_ - control
        rows.append(
            row(task, "AUROC", [float(model_.mean())], control.mean(), more.mean(),
                standard_error(more), seconds=seconds / (3 * len(series)), name=name, note=f"three seeds a series: {each}")
        )  # fmt: skip
    return rows


def smooth(scores: np.ndarray, n: int) -> np.ndarray:
    return pd.Series(scores).rolling(n, min_periods=1).mean().to_numpy()


# ---------------------------------------------------------------------- graphs


def citations(n: int, n_edges: int, apart: float = 0.0, unlabelled: float = 0.0, seed: int = 0) -> Graph:
    """Return a generated graph of papers: six topics, words and citations by topic.

    A paper draws 20 words, a fourth of them from the 40 words of its topic, the others from all 1,500 by Zipf's law. An edge's
    ends are drawn by a log-normal popularity, four fifths of the edges within a topic. A share of papers stands ``apart``,
    without edges, and a share has no topic: no label, words and edges at random. Labels shown: 20 a topic; 500 to choose by, all
    others are tested.
    """
    rng = np.random.default_rng(seed)
    y, n_words, n_own = rng.integers(0, 6, n), 1500, 40
    own = rng.permutation(n_words)[: 6 * n_own].reshape(6, n_own)
    zipf = 1 / np.arange(5, n_words + 5)
    lost = rng.random(n) < unlabelled
    common = rng.choice(n_words, (n, 20), p=zipf / zipf.sum())
    special = own[y[:, None], rng.integers(0, n_own, (n, 20))]
    words = np.where((rng.random((n, 20)) < 0.25) & ~lost[:, None], special, common)
    X = sparse.csr_array((np.ones(20 * n), (np.repeat(np.arange(n), 20), words.ravel())), shape=(n, n_words))
    X.data[:] = 1
    popularity = rng.lognormal(0, 1, n) * (rng.random(n) >= apart)
    one = rng.choice(n, n_edges, p=popularity / popularity.sum())
    other = rng.choice(n, n_edges, p=popularity / popularity.sum())
    within = (rng.random(n_edges) < 0.8) & ~lost[one]
    for topic in range(6):
        at = np.flatnonzero(within & (y[one] == topic))
        weight = popularity * (y == topic) * ~lost
        other[at] = rng.choice(n, len(at), p=weight / weight.sum())
    order = rng.permutation(np.flatnonzero(~lost))
    return {"X": X, "y": y, "edges": np.stack([one, other]), **places(y, order)}


def places(y: np.ndarray, order: np.ndarray) -> Graph:
    """Return 20 nodes a topic to learn from, 500 to choose by, the others to test."""
    train = np.concatenate([order[y[order] == topic][:20] for topic in np.unique(y)])
    rest = order[~np.isin(order, train)]
    return {"train": train, "held": rest[:500], "test": rest[500:]}


def cora() -> Graph:
    stored = np.load(shared.DATA / "cora" / "cora.npz")
    parts = (stored["x_data"], stored["x_indices"], stored["x_indptr"])
    words = sparse.csr_array(parts, shape=tuple(stored["x_shape"]))
    split = {"train": stored["train_idx"], "held": stored["val_idx"], "test": stored["test_idx"]}
    return {"X": words, "y": stored["y"].astype(int), "edges": stored["edge_index"], **split}


def sparser(seed: int, words: float) -> Graph:
    """Return Cora with 1.4 citations a paper (1.9 in the data), a share of its words, and another split: 20 a topic."""
    graph, rng = cora(), np.random.default_rng(seed)
    y, edges, X = graph["y"], graph["edges"], sparse.csr_array(graph["X"], dtype=float)
    n = len(y)
    edges = edges[:, rng.permutation(edges.shape[1])[: int(1.4 * n)]]
    if words < 1:
        X.data *= rng.random(X.nnz) < words
        X.eliminate_zeros()
    return {"X": X, "y": y, "edges": edges, **places(y, rng.permutation(n))}


CHOSEN, SPARSE = ", 500 labels to choose by", "Cora, 72 % of its citations"
#: The graph of a seed. Each seed is another split of Cora's sparser forms; nothing was chosen on those of seeds 0 to 4.
GRAPHS: dict[str, Callable[[int], Graph]] = {
    "Cora, topic of a paper": lambda _: cora(),
    "Cora" + CHOSEN: lambda _: cora(),
    SPARSE: lambda seed: sparser(seed, 1.0),
    SPARSE + CHOSEN: lambda seed: sparser(seed, 1.0),
    SPARSE + " and a third of its words": lambda seed: sparser(seed, 1 / 3),
    SPARSE + " and a third of its words" + CHOSEN: lambda seed: sparser(seed, 1 / 3),
    "generated, 2,500 papers, all cited": lambda _: citations(2500, 5000),
    "generated, 3,300 papers, 10 % apart, 5 % without topic": lambda _: citations(3300, 4500, 0.1, 0.05, 1),
}


def graphs() -> Rows:
    """Graphs beside words alone and words averaged over two steps; five seeds. Error over tested nodes, or over splits.

    Labels to choose by choose the model's step and the control's penalty; where there are none, neither sees any.
    """
    rows = []
    for task, make in GRAPHS.items():
        hits: dict[str, list[np.ndarray]] = {"": []}
        seconds, tested = 0.0, []
        for seed in range(5):
            graph = make(seed)
            y, train, held, test = (graph[name] for name in ("y", "train", "held", "test"))
            chosen = task.endswith(CHOSEN)
            given = {"edges": graph["edges"], "y_validation": labels(y, held) if chosen else None}
            model = GraphAttentionClassifier(random_state=seed)
            _, spent = shared.timed(lambda: model.fit(graph["X"], labels(y, train), **given))  # noqa: B023
            seconds += spent
            tested.append(test)
            hits[""].append(model.transduction_[test] == y[test])
            for name, features in controls(graph).items():
                fits = [
                    LogisticRegression(C=penalty, max_iter=1000).fit(features[train], y[train])
                    for penalty in (np.logspace(-1, 4, 6) if chosen else [10.0])
                ]
                best = max(fits, key=lambda fit: fit.score(features[held], y[held]))  # noqa: B023
                hits.setdefault(name, []).append(best.predict(features[test]) == y[test])
        one_split = all(np.array_equal(test, tested[0]) for test in tested)
        each = [float(hit.mean()) for hit in hits[""]]
        for name in list(hits)[1:]:
            gains = [one.astype(float) - other for one, other in zip(hits[""], hits[name], strict=True)]
            more = np.mean(gains, axis=0) if one_split else np.array([gain.mean() for gain in gains])
            rows.append(
                row(task, "accuracy", each, float(np.mean(each) - more.mean()), float(more.mean()), standard_error(more),
                    seconds=seconds, name=f"{name}, logistic regression")
            )  # fmt: skip
    return rows


def labels(y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the classes of some nodes, −1 for all others."""
    shown = np.full(len(y), -1)
    shown[at] = y[at]
    return shown


def controls(graph: dict[str, Any]) -> dict[str, Any]:
    """Return what a logistic regression reads instead: the words of a paper, and of its neighbours' neighbours."""
    near = two_steps(graph["X"], graph["edges"])
    read = {"words alone": graph["X"], "words of neighbours' neighbours": near}
    return {name: normalize(features, "l2") for name, features in read.items()}


def two_steps(X: Any, edges: np.ndarray) -> Any:
    """Return features averaged over neighbours, twice (Wu et al. 2019, Simplifying graph convolutional networks)."""
    n = X.shape[0]
    both = np.concatenate([edges, edges[::-1], np.stack([np.arange(n)] * 2)], axis=1)
    links = sparse.csr_array((np.ones(both.shape[1]), (both[0], both[1])), shape=(n, n))
    links.data[:] = 1
    scale = sparse.diags_array(1 / np.sqrt(links.sum(1)))
    step = scale @ links @ scale
    return step @ (step @ normalize(X, "l1"))


TASKS = (lm, classifier, pretraining, day_ahead, anomalies, generated_anomalies, graphs, short_translation, translation)
ROWS: dict[str, Callable[[], Rows]] = {task.__name__: task for task in TASKS}


def main() -> None:
    """Measure what is asked for or missing, publish all rows."""
    arguments = options(__doc__, rows=ROWS, again=False, table=False, threads=1)
    torch.set_num_threads(arguments.threads)
    rows, missing = kept_rows("sequence", ROWS, [] if arguments.table else arguments.rows, again=arguments.again)
    notes = [
        "Model: mean over seeds ± their standard deviation. Better by: the difference ± its standard error "
        "(over stretches of text, sentences, days, series or nodes), negative where the control wins.",
        f"CPU seconds of a fit on {arguments.threads} thread(s) of a shared machine with 2 cores; torch {torch.__version__}.",
    ]
    if missing:
        notes.append(f"Not run yet: {', '.join(missing)}.")
    publish("sequence", "Sequence models, each beside its cheap control", rows, notes)


if __name__ == "__main__":
    main()
