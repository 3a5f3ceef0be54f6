"""Classes of the nodes of a graph, by attention along its edges."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
import torch.nn.functional as F
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted, validate_data
from torch import Generator, Tensor, nn

from peerattn.exceptions import InputError, expect, reworded, reworded_values
from peerattn.nn import Dropout, GraphAttention
from peerattn.nn.edges import check_edges
from peerattn.sequence.base import Classifies, SequenceEstimator, class_folds, seeded

Features: TypeAlias = np.ndarray | sparse.csr_array
Examples: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]  # features, edges, known nodes and their classes
Known: TypeAlias = tuple[np.ndarray, np.ndarray]  # nodes, and the numbers of their classes
UNKNOWN = -1
N_FOLDS = 5  # one of them chooses the step


class GraphNetwork(nn.Module):
    """Two or more layers of graph attention, ELU between them; the last averages its heads into class scores."""

    def __init__(
        self, d_input: int, n_classes: int, n_layers: int, n_heads: int, d_head: int, dropout: float,
        generator: Generator,
    ):  # fmt: skip
        super().__init__()
        options: dict[str, Any] = {"dropout": dropout, "generator": generator}
        widths = [d_input] + [n_heads * d_head] * (n_layers - 1)
        layers = [GraphAttention(width, n_heads, d_head, **options) for width in widths[:-1]]
        layers.append(GraphAttention(widths[-1], 1, n_classes, heads="mean", **options))
        self.layers = nn.ModuleList(layers)
        self.drop = nn.ModuleList(Dropout(dropout, generator=generator) for _ in layers)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Return class scores, (n, n_classes), of rows x, (n, d_input), dense or sparse."""
        for k, (layer, drop) in enumerate(zip(self.layers, self.drop, strict=True)):
            if k:
                x = F.elu(x)
            x = _drop_sparse(x, drop) if x.is_sparse else drop(x)
            x = layer(x, edges)
        return x


@dataclass(eq=False, repr=False, kw_only=True)
class GraphAttentionClassifier(Classifies, SequenceEstimator[GraphNetwork]):
    r"""Classify the nodes of a graph by their own and their neighbours' features.

    .. math:: h_i = \operatorname{ELU}\Big(\big\Vert_k \sum_{j \in N(i) \cup \{i\}} \alpha^k_{ij} W^k x_j\Big), \qquad
              P(y_i = c) = \operatorname{softmax}_c \sum_{j \in N(i) \cup \{i\}} \alpha_{ij} V h_j

    Parameters
    ----------
    n_heads, d_head : int, default 8
        Heads of the hidden layers, and the width of each.
    n_layers : int, default 2
        A node sees nodes up to this many steps away.
    directed : bool, default False
        True: node ``edges[0, e]`` attends to node ``edges[1, e]``, not the reverse.
    dropout : float, default 0.4
        Of features and of weights; 0.6 in the paper.
    alpha : float, default 5e-4
        Penalty: half of it times the sum of squared parameters is added to the loss.
    learning_rate : float, default 0.01
    max_steps : int, default 200
    normalise : bool, default True
        Where features are like counts of words (none negative, most of them zero), divide every row by its sum, and compute with
        what is not zero only, which is faster.
    early_stopping : bool, default True
        Without ``y_validation``, and with five labels a class or more: a fifth of the labels is held out to choose the number
        of steps, which then are taken with all labels. False: ``max_steps``. Either way the parameters are the mean over the
        last half of the steps.
    device, precision, compile : str, str, bool, defaults "cpu", "auto", False
        Where and how it is trained, as in `SequenceEstimator`.
    random_state : int, RandomState or None, default None
    verbose : bool, default False

    Attributes
    ----------
    classes_ : ndarray
        Without the unknown.
    label_distributions_ : ndarray, shape (n_nodes, n_classes)
        Of the nodes of ``fit``, known and unknown.
    transduction_ : ndarray, shape (n_nodes,)
        Their most probable classes.
    counts_ : bool
        Whether rows are divided by their sums.

    Notes
    -----
    The defaults are made for graphs like the paper's citation graphs: sparse features, norms of one, twenty labels a class,
    neighbours mostly of one class, where words averaged over two steps of the graph, with a logistic regression, are a strong
    control: compare with it. Labels in ``y_validation`` only choose the step.

    Time and memory are linear in edges: no array has a row for every pair. A node without edges sees itself. Features
    that are not like counts are taken as they are: scale them.

    References
    ----------
    Rakhlin, Shamir and Sridharan (2012), Making gradient descent optimal for strongly convex stochastic optimization, ICML:
    averages over the last half.
    Veličković et al. (2018), Graph attention networks, ICLR.

    Examples
    --------
    >>> X = np.eye(6)  # six nodes, nothing known of them but who they are
    >>> two_triangles = np.array([[0, 0, 1, 3, 3, 4], [1, 2, 2, 4, 5, 5]])
    >>> y = np.array([0, -1, -1, 1, -1, -1])
    >>> model = GraphAttentionClassifier(dropout=0.0, random_state=0).fit(X, y, edges=two_triangles)
    >>> model.transduction_
    array([0, 0, 0, 1, 1, 1])
    """

    schedule: ClassVar[str] = "constant"
    clip: ClassVar[float | None] = None
    validate_every: ClassVar[int] = 5

    n_heads: int = 8
    d_head: int = 8
    n_layers: int = 2
    directed: bool = False
    dropout: float = 0.4
    alpha: float = 5e-4
    learning_rate: float = 0.01
    max_steps: int = 200
    normalise: bool = True
    early_stopping: bool = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------------ fit

    def fit(self, X: object, y: object, *, edges: npt.ArrayLike | None = None, y_validation: npt.ArrayLike | None = None) -> Self:
        """Fit on the nodes of a graph.

        Parameters
        ----------
        X : array-like or sparse, shape (n_nodes, n_features)
            Features of all nodes, those with unknown class too.
        y : array-like, shape (n_nodes,)
            Classes; −1 (or None, NaN among strings) where unknown. Those nodes are seen, and excluded from the loss.
        edges : array-like of int, shape (2, n_edges), default None
            Pairs of nodes, numbered from 0. None: no edges, each node by itself.
        y_validation : array-like, shape (n_nodes,), default None
            Classes of other nodes, −1 where none is given, that choose the step by their error. None: see ``early_stopping``.

        Returns
        -------
        self

        Raises
        ------
        InputError
            When an edge names a node that is not there, or no class is known.
        """
        self._validate_params()
        with reworded_values("X must hold numbers"):
            features = validate_data(self, X, accept_sparse="csr", dtype=np.float32, ensure_min_samples=2)
        nodes, labels = _labels(y, features.shape[0], "y")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self.with_edges_ = edges is not None
        self.counts_ = bool(self.normalise and _are_counts(features))
        generator = seeded(self.random_state)
        graph = self._tensors(features, edges)
        held = None
        options = dict[str, Any]()
        if y_validation is not None:
            at, labels = _labels(y_validation, features.shape[0], "y_validation")
            held = at, self._class_numbers(labels, "y_validation").numpy()
        # no validation nodes were given: a fifth of the known ones chooses the step, then all are learned from
        if held is None and self.early_stopping and np.bincount(codes).min() >= N_FOLDS:
            order = torch.randperm(len(codes), generator=generator).numpy()
            apart = class_folds(codes, N_FOLDS, order) == 0
            first, last = ((nodes[part], codes[part]) for part in (~apart, apart))
            self._fitted_on(graph, first, last, generator)
            options["max_steps"] = self.record_.best_step
        if held is None:
            options["average"] = max(1, options.get("max_steps", self.max_steps) // 2)
        self._fitted_on(graph, (nodes, codes), held, generator, **options)
        self.label_distributions_ = self.predict_proba(X, edges=edges)
        self.transduction_ = self._likeliest(self.label_distributions_)
        return self

    def _batches(self, examples: Examples, generator: Generator) -> Iterator[Examples]:
        return repeat(examples)

    def _loss(self, module: GraphNetwork, batch: Examples) -> Tensor:
        x, pairs, rows, truth = batch
        # the penalty is part of the loss, as in the publication, and not decoupled
        squares = [parameter.square().sum() for parameter in module.parameters() if parameter.ndim > 1]
        return F.cross_entropy(module(x, pairs)[rows], truth) + self.alpha / 2 * torch.stack(squares).sum()

    def _fitted_on(
        self, graph: tuple[Tensor, Tensor], observed: Known, held: Known | None, generator: Generator, **options: Any
    ) -> None:
        """Fit a network to the classes of the observed nodes, at the step of least error on those held out."""
        module = self._build(generator).to(self._on)
        rows, truth = map(self._tensor, observed)
        if held is not None:
            later, answers = map(self._tensor, held)
            options["validate"] = lambda: float(F.cross_entropy(module.eval()(*graph)[later], answers))
        self._learn(module, (*graph, rows, truth), generator, **options)

    def _build(self, generator: Generator) -> GraphNetwork:
        sizes = (self.n_features_in_, len(self.classes_), self.n_layers, self.n_heads, self.d_head)
        return GraphNetwork(*sizes, self.dropout, generator)

    def _tensors(self, X: Features, edges: npt.ArrayLike | None, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        pairs = self._tensor(_edges(edges, X.shape[0], self.directed))
        if self.counts_:
            X = normalize(sparse.csr_array(X), "l1")
        if not sparse.issparse(X):
            return torch.tensor(X, dtype=dtype).to(self._on), pairs
        stored = sparse.coo_array(X)
        at = torch.tensor(np.stack(stored.coords).astype(np.int64))
        values = torch.tensor(stored.data, dtype=dtype)
        rows = torch.sparse_coo_tensor(at, values, stored.shape, check_invariants=False)
        return rows.coalesce().to(self._on), pairs

    # ------------------------------------------------------------------ prediction

    def predict_proba(self, X: object, *, edges: npt.ArrayLike | None = None) -> np.ndarray:
        """Return the probability of every class, (n_nodes, n_classes), for the nodes of a graph.

        Parameters
        ----------
        X : array-like or sparse, shape (n_nodes, n_features)
            All nodes: the graph of ``fit`` (whose results are also in ``label_distributions_``), grown, or another one.
        edges : array-like of int, shape (2, n_edges), default None
            Its edges; needed if there were any in ``fit``.

        Returns
        -------
        ndarray, shape (n_nodes, n_classes)

        Raises
        ------
        InputError
            When the model was fitted with edges and none are given.
        """
        x, pairs = self._graph(X, edges)
        with torch.no_grad():
            return self._module().double()(x, pairs).softmax(-1).cpu().numpy()

    def predict(self, X: object, *, edges: npt.ArrayLike | None = None) -> np.ndarray:
        """Return the most probable class of every node; arguments as in ``predict_proba``."""
        return self._likeliest(self.predict_proba(X, edges=edges))

    def score(self, X: object, y: object, *, edges: npt.ArrayLike | None = None) -> float:  # type: ignore[override]
        """Return the share of nodes with known class (y ≠ −1) whose class is predicted."""
        predicted = self.predict(X, edges=edges)
        at, labels = _labels(y, len(predicted), "y")
        return float(np.mean(predicted[at] == labels))

    def attention(self, X: object, *, edges: npt.ArrayLike | None = None) -> pd.DataFrame:
        """Return the attention weights: one row per layer, head and edge.

        Parameters
        ----------
        X, edges
            As in ``predict_proba``.

        Returns
        -------
        DataFrame
            ``layer, head, node, neighbour, weight``; the weights of a node sum to one in each head. Nodes see
            themselves too.
        """
        x, pairs = self._graph(X, edges)
        layers = self._recorded(lambda module: module.double()(x, pairs))
        ends = pd.MultiIndex.from_arrays([*pairs.cpu().numpy()], names=["node", "neighbour"])
        heads = {(k, h): pd.Series(w.cpu().numpy(), ends) for k, layer in enumerate(layers) for h, w in enumerate(layer)}
        return pd.concat(heads, names=["layer", "head"]).reset_index(name="weight")

    def _graph(self, X: object, edges: npt.ArrayLike | None) -> tuple[Tensor, Tensor]:
        check_is_fitted(self)
        needs = "edges: the model was fitted on a graph and needs the edges of these nodes"
        remedy = "Pass edges=; classes of the nodes of fit are in transduction_."
        if self.with_edges_ and edges is None:
            raise InputError(f"{needs}. {remedy}")
        with reworded_values("X must hold numbers"):
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return self._tensors(X, edges, torch.float64)


def _are_counts(X: Features) -> bool:
    """Return whether features are like words of a text: none negative, and most zero."""
    stored = sparse.csr_array(X).data
    return bool((stored >= 0).all() and 2 * np.count_nonzero(stored) < X.shape[0] * X.shape[1])


def _drop_sparse(x: Tensor, drop: nn.Module) -> Tensor:
    """Drop entries that are there; the others are zero anyway."""
    return torch.sparse_coo_tensor(x.indices(), drop(x.values()), x.shape, is_coalesced=True, check_invariants=False)


def _labels(y: object, n: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes whose class is known, and their classes."""
    labels = Classifies._check_classes(y, n, "node, −1 where it is unknown", name)
    if labels.dtype.kind not in "OUST":
        assert_all_finite(labels, input_name=name)
    known = np.flatnonzero(~pd.isna(labels) & (labels.astype(object) != UNKNOWN))
    expect(len(known) > 0, name, "some known classes", "unknown ones (−1) only")
    check_classification_targets(labels[known])
    return known, labels[known]


def _edges(edges: npt.ArrayLike | None, n: int, directed: bool) -> np.ndarray:
    """Return int64 edges sorted by node, each once, both ways unless directed, with every node's edge to itself."""
    own = np.arange(n)
    given = np.empty((2, 0), np.int64)
    with reworded("edges: expected int64 of shape (2, n_edges)", " Not a matrix of all pairs: its np.nonzero(...)."):
        if edges is not None:
            given = np.asarray(edges)
        if given.dtype.kind in "iu" or not given.size:
            given = given.astype(np.int64)
        check_edges(torch.as_tensor(given), n, n)
    ways = [given, np.stack([own, own])]
    if not directed:
        ways.append(given[::-1])
    node, neighbour = np.concatenate(ways, axis=1)
    # a pair as one number: sorted, and each once
    return np.stack(np.divmod(np.unique(node * n + neighbour), n))
