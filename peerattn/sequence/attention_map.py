"""Attention weights inside a sequence, of every layer and head, with their symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch.nn.functional as F
from torch import Tensor

from peerattn.exceptions import InputError, expect, validate_arguments
from peerattn.render import figure_style, svg, weight_colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def stacked(layers: Sequence[Tensor]) -> np.ndarray:
    """Return the weights of all layers, (n_layers, n_heads, n_queries, n_keys); zeros for heads that a pruned layer lacks."""
    # pruned layers have fewer heads than others
    most = max(len(layer) for layer in layers)
    return np.stack([F.pad(layer, (0, 0, 0, 0, 0, most - len(layer))).cpu().numpy() for layer in layers])


@dataclass(frozen=True)
class AttentionMap:
    """Attention weights of one sequence.

    Parameters
    ----------
    weights : ndarray, shape (n_layers, n_heads, n_queries, n_keys)
        Rows attend to columns; rows sum to one.
    queries, keys : tuple of str
        The symbols of rows and columns.

    Examples
    --------
    >>> seen = AttentionMap(np.eye(2)[None, None], ("a", "b"), ("a", "b"))
    >>> seen
    AttentionMap(layers=1, heads=1, queries=2, keys=2)
    >>> seen.to_frame().query("weight > 0")[["query", "key", "weight"]].values.tolist()
    [['a', 'a', 1.0], ['b', 'b', 1.0]]
    """

    weights: np.ndarray = field(repr=False)
    queries: tuple[str, ...]
    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        sizes = (len(self.queries), len(self.keys))
        found = self.weights.shape
        expect(found[2:] == sizes, "weights", f"(layers, heads, {sizes[0]}, {sizes[1]})", found)

    def __repr__(self) -> str:
        sizes = zip(("layers", "heads", "queries", "keys"), self.weights.shape)
        return f"AttentionMap({', '.join(f'{name}={n}' for name, n in sizes)})"

    @validate_arguments
    def matrix(self, layer: int = -1, head: int | None = None) -> np.ndarray:
        """Return the weights of one layer: of one head, or the mean over heads (None).

        Raises
        ------
        InputError
            When there is no such layer or head.
        """
        n_layers, n_heads = self.weights.shape[:2]
        expect(-n_layers <= layer < n_layers, "layer", f"{-n_layers} to {n_layers - 1}", layer)
        if head is None:
            return self.weights[layer].mean(0)
        known = f"{-n_heads} to {n_heads - 1}, or None for the mean"
        expect(-n_heads <= head < n_heads, "head", known, head)
        return self.weights[layer, head]

    def rollout(self) -> AttentionMap:
        r"""Return how much of every input row arrives at every output row, residuals counted in.

        .. math:: R = \prod_{l=L}^{1} \tfrac12 (I + \bar A_l)

        with :math:`\bar A_l` the mean over heads.

        Raises
        ------
        InputError
            When rows and columns are different sequences.

        References
        ----------
        Abnar and Zuidema (2020), Quantifying attention flow in transformers, ACL.

        Examples
        --------
        >>> AttentionMap(np.eye(2)[None, None], ("a", "b"), ("a", "b")).rollout().weights[0, 0].tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        if self.queries != self.keys:
            raise InputError("rollout: needs self-attention, whose queries and keys are one sequence.")
        # half of a row passes by the attention, as a residual does
        flow = np.eye(len(self.keys))
        for layer in self.weights.mean(1):
            flow = 0.5 * (np.eye(len(self.keys)) + layer) @ flow
        return AttentionMap(flow[None, None], self.queries, self.keys)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per weight: layer, head, query_position, query, key_position, key, weight."""
        layer, head, i, j = np.indices(self.weights.shape).reshape(4, -1)
        query, key = (np.array(names, dtype=object) for names in (self.queries, self.keys))
        at = {"layer": layer, "head": head, "query_position": i, "query": query[i]}
        return pd.DataFrame(at | {"key_position": j, "key": key[j], "weight": self.weights.ravel()})

    def figure(self, layer: int = -1, head: int | None = None) -> Figure:
        """Return a heat map of one layer, every row and column under its symbol.

        Parameters
        ----------
        layer : int, default -1
        head : int, default None
            None: the mean over heads.
        """
        from matplotlib.figure import Figure

        weights = self.matrix(layer, head)
        with figure_style():
            size = (1.6 + 0.24 * len(self.keys), 1.2 + 0.24 * len(self.queries))
            drawing = Figure(figsize=(min(size[0], 14), min(size[1], 14)))
            axes = drawing.subplots()
            axes.imshow(weights, cmap=weight_colours(), vmin=0, vmax=max(float(weights.max()), 1e-12))
            axes.set_xticks(range(len(self.keys)), [_displayed(s) for s in self.keys], rotation=90)
            axes.set_yticks(range(len(self.queries)), [_displayed(s) for s in self.queries])
            axes.tick_params(length=0)
            axes.set(xlabel="key (attended to)", ylabel="query (attends)")
        return drawing

    def _repr_html_(self) -> str:
        return svg(self.figure(), description=f"Attention weights of the last layer: {self!r}")


def _displayed(symbol: str) -> str:
    return symbol.replace("\n", "⏎").replace(" ", "␣").replace("$", r"\$") or "∅"
