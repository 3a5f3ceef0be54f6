"""Classes of nodes: what edges add, what goes wrong, and saving."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator

from peerattn.exceptions import InputError
from peerattn.sequence import GraphAttentionClassifier


@pytest.fixture(scope="module")
def communities():
    """Two groups of 20, many edges within, few between; features are noise; two known nodes a group."""
    graph = nx.planted_partition_graph(2, 20, 0.5, 0.02, seed=0)
    rng = np.random.default_rng(0)
    y = np.repeat([3, 8], 20)
    shown = np.full(40, -1)
    shown[[0, 1, 20, 21]] = y[[0, 1, 20, 21]]
    return rng.standard_normal((40, 5)), np.array(graph.edges).T, y, shown


def small(**options):
    return GraphAttentionClassifier(n_heads=2, d_head=4, dropout=0.2, max_steps=60, random_state=0, **options)


@pytest.fixture(scope="module")
def fitted(communities):
    X, edges, _, shown = communities
    return small().fit(X, shown, edges=edges)


def test_edges_carry_what_features_do_not_say(communities, fitted):
    X, edges, y, shown = communities
    unknown = shown == -1
    assert np.mean(fitted.transduction_[unknown] == y[unknown]) >= 0.9
    alone = small().fit(X, shown).transduction_
    assert np.mean(alone[unknown] == y[unknown]) <= 0.75
    np.testing.assert_array_equal(fitted.classes_, [3, 8])


def test_fit_repeats_itself_and_predicts_what_it_transduced(communities, fitted):
    X, edges, y, shown = communities
    again = small().fit(X, shown, edges=edges)
    np.testing.assert_array_equal(again.label_distributions_, fitted.label_distributions_)
    np.testing.assert_allclose(fitted.predict_proba(X, edges=edges), fitted.label_distributions_, atol=1e-6)
    assert fitted.score(X, y, edges=edges) == np.mean(fitted.transduction_ == y)


def test_order_of_nodes_and_of_edges_does_not_matter(communities, fitted):
    X, edges, _, _ = communities
    order = np.random.default_rng(1).permutation(40)
    place = np.argsort(order)
    twice = np.concatenate([place[edges], place[edges][::-1]], axis=1)[:, ::-1]  # both ways: each edge counts once
    np.testing.assert_allclose(
        fitted.predict_proba(X[order], edges=twice), fitted.predict_proba(X, edges=edges)[order], atol=1e-12
    )


def test_sparse_features_equal_dense_ones(communities):
    X, edges, _, shown = communities
    X = np.where(X > 0, X, 0)
    options = {"n_heads": 2, "d_head": 4, "dropout": 0.0, "max_steps": 5, "random_state": 0}
    dense = GraphAttentionClassifier(**options).fit(X, shown, edges=edges)
    lean = GraphAttentionClassifier(**options).fit(sparse.csr_array(X), shown, edges=edges)
    np.testing.assert_allclose(lean.label_distributions_, dense.label_distributions_, atol=1e-5)


def test_isolated_nodes_are_safe_and_see_themselves_only(communities, fitted):
    X, edges, _, _ = communities
    X = np.vstack([X, [[10.0] * 5]])
    seen = fitted.attention(X, edges=edges)
    assert np.isfinite(fitted.predict_proba(X, edges=edges)).all()
    own = seen[seen.node == 40]
    assert (own.neighbour == 40).all() and np.allclose(own.weight, 1)


def test_attention_follows_edges_and_sums_to_one(communities, fitted):
    X, edges, _, _ = communities
    seen = fitted.attention(X, edges=edges)
    np.testing.assert_allclose(seen.groupby(["layer", "head", "node"]).weight.sum(), 1, atol=1e-12)
    first = seen[(seen.layer == 0) & (seen["head"] == 0)]
    assert len(first) == 2 * edges.shape[1] + 40


def test_directed_edges_are_looked_along_one_way():
    X = np.eye(3)
    model = GraphAttentionClassifier(directed=True, max_steps=1).fit(X, [0, 1, -1], edges=[[0], [1]])
    seen = model.attention(X, edges=[[0], [1]]).query("layer == 0 and head == 0")
    assert seen[["node", "neighbour"]].values.tolist() == [[0, 0], [0, 1], [1, 1], [2, 2]]


def test_validation_labels_choose_the_step(communities):
    X, edges, y, shown = communities
    held = np.where((shown == -1) & (np.arange(40) % 2 == 0), y, -1)
    model = small().fit(X, shown, edges=edges, y_validation=held)
    losses = dict(model.record_.validation)
    assert losses[model.record_.best_step] == min(losses.values()) and len(losses) == 12


def test_words_as_classes_with_none_for_unknown(communities, tmp_path):
    X, edges, _, shown = communities
    words = np.array([{3: "three", 8: "eight"}.get(label) for label in shown], dtype=object)
    model = small().fit(X, words, edges=edges)
    assert set(model.predict(X, edges=edges)) == {"three", "eight"}
    model.save(tmp_path / "graph.safetensors")
    loaded = GraphAttentionClassifier.load(tmp_path / "graph.safetensors")
    np.testing.assert_array_equal(loaded.predict(X, edges=edges), model.predict(X, edges=edges))


def test_saved_and_loaded_is_the_same(communities, fitted, tmp_path):
    X, edges, _, _ = communities
    fitted.save(tmp_path / "graph.safetensors")
    loaded = GraphAttentionClassifier.load(tmp_path / "graph.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(X, edges=edges), fitted.predict_proba(X, edges=edges))
    np.testing.assert_array_equal(loaded.transduction_, fitted.transduction_)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"edges": [[0], [40]]}, "0 to 39 in row 1, got 40"),
        ({"edges": [[0, 1], [1, -2]]}, "got -2"),
        ({"edges": [[0, 1]] * 5}, "expected int64 of shape (2, n_edges), got torch.int64 of shape (5, 2)"),
        ({"edges": [[0.5], [1.0]]}, "expected int64"),
        ({"edges": sparse.eye_array(40)}, "edges: expected int64 of shape (2, n_edges) (can't convert"),
        ({"edges": [[0], [1, 2]]}, "edges: expected int64 of shape (2, n_edges) (setting an array element"),
        ({"y": np.full(40, -1)}, "some known classes"),
        ({"y": [0, 1]}, "one class per node"),
        ({"y_validation": np.full(40, 7)}, "y_validation: expected classes of fit [3, 8], got 7"),
    ],
)
def test_what_cannot_be_used_is_named(communities, change, words):
    X, edges, _, shown = communities
    options = {"edges": edges, "y": shown} | change
    with pytest.raises(InputError) as caught:
        small().fit(X, options.pop("y"), **options)
    assert words in str(caught.value)


def test_a_model_of_a_graph_asks_for_edges(communities, fitted):
    with pytest.raises(InputError, match="needs the edges of these nodes"):
        fitted.predict(communities[0])


@pytest.mark.filterwarnings("ignore")
def test_check_estimator_without_edges():
    """Without edges X is a plain matrix. One check has a class −1, which here means unknown."""
    expected = {"check_classifiers_classes": "−1 means unknown, as in scikit-learn's LabelPropagation, exempt there by name"}
    results = check_estimator(
        GraphAttentionClassifier(n_heads=2, d_head=4, dropout=0.0, learning_rate=0.1, max_steps=15),
        expected_failed_checks=expected, on_fail=None, on_skip=None,
    )  # fmt: skip
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert failed == {} and len(results) > 40
