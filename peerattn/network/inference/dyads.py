"""Pairs of firms as observations: weights and what may explain them, aligned by label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, checked
from peerattn.network.algebra import subset
from peerattn.network.attributes import characteristic, code_numbers
from peerattn.network.base import BaseNetwork
from peerattn.network.cross_section import Array


@checked
@dataclass(frozen=True)
class SameCode:
    """Regressor 1[code_i = code_j]; zero where either code is unknown.

    Parameters
    ----------
    codes : pandas.Series
        By firm, or by firm and period.
    """

    codes: pd.Series

    def matrix(self, network: BaseNetwork, positions: Array, period: Any) -> Array:
        """Return the regressor among some firms in one period, shape (n, n)."""
        codes = code_numbers(network, self.codes, positions, period, "codes")
        return np.asarray(((codes[:, None] == codes[None]) & (codes[:, None] >= 0)).astype(np.float64))


@checked
@dataclass(frozen=True)
class Difference:
    """Regressor x_j − x_i (how much larger the peer is), or its size.

    Parameters
    ----------
    values : pandas.Series
        Characteristic by firm, or by firm and period.
    absolute : bool, default True
        Take ``|x_i − x_j|``.
    """

    values: pd.Series
    absolute: bool = True

    def matrix(self, network: BaseNetwork, positions: Array, period: Any) -> Array:
        """Return the regressor among some firms in one period, shape (n, n); NaN where x is unknown."""
        x = characteristic(network, self.values, positions, period, "values")
        gap = x[None] - x[:, None]
        return np.abs(gap) if self.absolute else gap


def observations(
    network: BaseNetwork, regressors: Mapping[str, Any], periods: Any = None
) -> tuple[pd.DataFrame, Array, Array]:
    """Return the ordered pairs of distinct firms in all periods as observations.

    Firms that are only focal firms or only peers, and firms with an unknown regressor, are left out.

    Returns
    -------
    tuple
        Columns ``firm``, ``peer`` (positions in the labels) and ``period`` of each pair; weights (N,); regressors (N, p).

    Raises
    ------
    InputError
        When there is no regressor, or one is of a kind not known here.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({1: ("ABC", None, np.eye(3)[[1, 2, 0]])})
    >>> size = pd.Series({"A": 1.0, "B": 2.0})
    >>> pairs, y, X = observations(network, {"size": Difference(size)})
    >>> pairs.to_numpy().tolist(), y.tolist(), X.tolist()
    ([[0, 1, 0], [1, 0, 0]], [1.0, 0.0], [[1.0], [1.0]])
    """
    if not regressors:
        raise InputError("regressors: expected at least one, such as {'same SIC': SameCode(codes)}.")
    network.check_whole("regressors of pairs")
    chosen, parts = network if periods is None else subset(network, periods=periods), []
    for number, (period, section) in enumerate(chosen.sections()):
        firms, weights = section.square()
        order = np.argsort(firms)  # the same draws whatever the order of rows
        firms, weights = firms[order], weights[np.ix_(order, order)]
        stack = np.stack([_matrix(x, name, chosen, firms, period) for name, x in regressors.items()])
        off = ~np.eye(len(firms), dtype=bool)
        known = _complete(np.isnan(stack).any(axis=0) & off)
        i, j = np.nonzero(off & known & known[:, None])
        parts.append((firms[i], firms[j], np.full(len(i), number), weights[i, j], *stack[:, i, j]))
    focal, peers, period, y, *X = (np.concatenate(column) for column in zip(*parts, strict=True))
    return pd.DataFrame({"firm": focal, "peer": peers, "period": period}), y, np.column_stack(X)


def _complete(unknown: Array) -> Array:
    """Firms left after dropping, one after the other, the firm with most unknown pairs."""
    kept = np.ones(len(unknown), dtype=bool)
    while True:
        counts = np.where(kept, unknown[:, kept].sum(axis=1) + unknown[kept].sum(axis=0), 0)
        if not counts.any():
            return kept
        kept[counts == counts.max()] = False


def _matrix(regressor: Any, name: str, network: BaseNetwork, positions: Array, period: Any) -> Array:
    if isinstance(regressor, SameCode | Difference):
        return regressor.matrix(network, positions, period)
    labels = network.labels.take(positions)
    if isinstance(regressor, BaseNetwork):
        regressor = regressor.matrix(period if regressor.is_dated else None)
    if not isinstance(regressor, pd.DataFrame):
        raise InputError(
            f"regressors[{name!r}]: expected SameCode, Difference, a PeerNetwork or a frame of firms by firms, got "
            f"{type(regressor).__name__}."
        )
    return np.asarray(regressor.reindex(index=labels, columns=labels).to_numpy(dtype=np.float64))


def refuse_dependent(X: Array) -> None:
    """Raise where a regressor, net of constants and effects, is zero or a combination of the others."""
    size = np.maximum(np.abs(X).max(axis=0), 1e-12)
    if np.linalg.matrix_rank(X / size) < X.shape[1]:
        raise InputError(
            "regressors: one does not vary between pairs (beyond the effects), or repeats the others; leave it out."
        )
