"""Fixed industry peers: the mean outcome of the firms that share a code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, did_you_mean
from peerattn.models.base import PeerRegressor, known_training_rows
from peerattn.models.pools import NOBODY, Rows, Section
from peerattn.panel.codes import code_scheme
from peerattn.panel.gate import Panel

_LEVELS = {"sic": (4, 3, 2, 1), "naics": (6, 5, 4, 3, 2), "gics": (8, 6, 4, 2)}
UNKNOWN = -1


class IndustryPeerRegressor(PeerRegressor):
    """Mean outcome of the firms in the same industry, own firm left out.

    ``ŷ_i = Σ_j α_ij y_j`` with ``α_ij = 1[g_j = g_i, j ≠ i] / Σ_k 1[g_k = g_i, k ≠ i]``: attention with a score of 0 inside the
    industry and −∞ outside. Where fewer than ``min_peers`` firms share the full code the group widens, digit by digit (SIC:
    4, 3, 2, 1), and at last to all firms.

    Parameters
    ----------
    industry : str, optional
        Column of ``X`` with the code. None: all firms are peers.
    scheme : {"auto", "sic", "naics", "gics", "plain"}, default "auto"
        How codes nest; "auto" reads it from the column's name. "plain" codes do not nest: the group widens to all firms.
    min_peers : int, default 1
        Fewest peers (firms, own excluded) that make a group.
    firm, period : str
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    levels_ : tuple of int
        Digits tried, from the finest; 0 = all firms.

    Notes
    -----
    ``predict(X)`` averages training outcomes over all training periods, own firm left out; ``predict(X, outcomes=y)`` the
    same period's. A firm whose code is unknown is listed in ``peer_network(X).isolates``; its prediction is the mean of all
    other firms. Group sums make a call O(n) in time and memory. Codes may change over time: each row counts for its own code.

    References
    ----------
    Bhojraj, S., Lee, C. M. C. and Oler, D. K. (2003), What's my line? A comparison of industry classification schemes for
    capital market research, Journal of Accounting Research 41(5).

    Examples
    --------
    >>> X = pd.DataFrame({"firm": list("ABC"), "period": 2001, "sic": [3711, 3711, 3721]})
    >>> y = [1.0, 3.0, 5.0]
    >>> model = IndustryPeerRegressor(industry="sic").fit(X, y)
    >>> model.predict(X, outcomes=y).tolist()
    [3.0, 1.0, 2.0]
    """

    def __init__(
        self,
        *,
        industry: str | None = None,
        scheme: str = "auto",
        min_peers: int = 1,
        firm: str = "firm",
        period: str = "period",
    ) -> None:
        self.industry = industry
        self.scheme = scheme
        self.min_peers = min_peers
        self.firm = firm
        self.period = period

    _isolates_get = "the mean of all other firms"

    def peer_levels(self, X: Any, *, outcomes: Any = None) -> np.ndarray | pd.Series:
        """Return how many digits of the code each row's group shares (0 = all firms, −1 = unknown code)."""
        check_is_fitted(self)
        panel, sections = self._gate_call(X, outcomes)
        levels = np.empty(len(panel))
        for section in sections:
            levels[section.at] = self._groups(section)[1]
        return panel.restore(levels.astype(int))

    def _code_columns(self) -> tuple[str, ...]:
        return () if self.industry is None else (self.industry,)

    def _groupings(self) -> tuple[str, ...]:
        return self._code_columns()

    def _encode(self, panel: Panel, weight: np.ndarray | None, *, fitting: bool) -> tuple[np.ndarray, np.ndarray]:
        if fitting:
            self._check_parameters(panel)
        if self.industry is None:
            return np.empty((len(panel), 0)), np.full((len(panel), 1), "", dtype=object)
        return np.empty((len(panel), 0)), panel.codes[[self.industry]].to_numpy(dtype=object, na_value=None)

    def _check_parameters(self, panel: Panel) -> None:
        if self.min_peers < 1 or self.min_peers != int(self.min_peers):
            raise InputError(f"min_peers must be a whole number of at least 1, got {self.min_peers!r}.")
        schemes = ["auto", "plain", *_LEVELS]
        if self.scheme not in schemes:
            raise InputError(f"scheme must be one of {schemes}, got {self.scheme!r}.{did_you_mean(self.scheme, schemes)}")
        scheme = code_scheme(self.industry) if self.scheme == "auto" else self.scheme
        self.nested_ = scheme in _LEVELS
        self.levels_ = (0,) if self.industry is None else (*_LEVELS.get(scheme, (1,)), 0)

    def _learn(self, training: Rows, panel: Panel) -> None:
        self.training_rows_ = known_training_rows(training)
        rows = self.training_rows_
        assert rows.y is not None
        self.mean_ = float(np.average(rows.y, weights=rows.weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = self.industry is None  # the mean of all firms reads no characteristic
        return tags

    # ------------------------------------------------------------------ group sums

    def _keys(self, codes: np.ndarray) -> list[np.ndarray]:
        """Return each row's group at every level, from the finest to all firms; None = unknown code."""
        everyone = np.zeros(len(codes), dtype=object)
        column = pd.Series(codes[:, 0], dtype=object)
        groups = [column.str[:digits] if self.nested_ else column for digits in self.levels_[:-1]]
        return [*(group.to_numpy(dtype=object, na_value=None) for group in groups), everyone]

    def _groups(self, section: Section) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """Return predictions, levels used, and per level the integer group of focal and peer rows."""
        focal, peers = section.focal, section.peers
        assert peers.y is not None
        predicted, level = np.full(len(focal), self.mean_), np.full(len(focal), UNKNOWN)
        open_rows, groups = np.ones(len(focal), dtype=bool), []
        unknown = pd.isna(focal.codes[:, 0])
        for digits, mine, theirs in zip(self.levels_, self._keys(focal.codes), self._keys(peers.codes), strict=True):
            integers, _ = pd.factorize(np.concatenate([mine, theirs]))  # None becomes -1, the group of nobody
            group_focal, group_peers = np.split(integers, [len(focal)])
            groups.append((group_focal, group_peers))
            mean, count = leave_out_means(
                group_focal, focal.identity, group_peers, peers.identity, peers.y, peers.weight
            )
            now = open_rows & (count >= (self.min_peers if digits else 1))
            predicted[now], level[now & ~unknown], open_rows = mean[now], digits, open_rows & ~now
        return predicted, level, groups

    def _attend(self, section: Section) -> tuple[np.ndarray, np.ndarray]:
        predicted, level, _ = self._groups(section)
        return predicted, level == UNKNOWN

    def _weights(self, section: Section, rows: slice) -> np.ndarray:
        _, level, groups = self._groups(section)
        admissible = section.admissible(rows)
        weight = np.ones(len(section.peers)) if section.peers.weight is None else section.peers.weight
        W = np.zeros(admissible.shape)
        for digits, (mine, theirs) in zip(self.levels_, groups, strict=True):
            here = level[rows] == digits
            W[here] = (mine[rows][here, None] == theirs[None, :]) * admissible[here] * weight
        total = W.sum(axis=1, keepdims=True)
        return np.divide(W, total, out=W, where=total > 0)


def leave_out_means(
    focal_group: np.ndarray,
    focal_identity: np.ndarray,
    peer_group: np.ndarray,
    peer_identity: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return each focal row's group mean over rows of other identities, and the number of those identities.

    Groups and identities are integers; a negative group has no members, identity −1 equals no other. O(n) by group sums.

    >>> mean, count = leave_out_means(*[np.array(a) for a in ([0, 0], [0, 1], [0, 0, 0], [0, 1, 2], [1.0, 2.0, 6.0])])
    >>> mean.tolist(), count.tolist()
    ([4.0, 3.5], [2, 2])
    """
    member = peer_group >= 0
    if not member.any():
        return np.zeros(len(focal_group)), np.zeros(len(focal_group), dtype=int)
    group, identity, y = peer_group[member], peer_identity[member], y[member]
    w = np.ones(len(y)) if weight is None else weight[member]
    shift = float(np.average(y, weights=w))  # sums of deviations lose no digits
    span = int(max(focal_identity.max(initial=0), identity.max())) + 1
    keys, pair = np.unique(group.astype(np.int64) * span + identity, return_inverse=True)
    n_groups = int(max(focal_group.max(initial=0), group.max())) + 1
    n_identities = np.bincount(keys // span, minlength=n_groups)
    inside = np.maximum(focal_group, 0)
    wanted = inside.astype(np.int64) * span + focal_identity
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    own = (keys[at] == wanted) & (focal_identity != NOBODY)

    def rest(values: np.ndarray) -> np.ndarray:
        return np.bincount(group, values, n_groups)[inside] - np.where(own, np.bincount(pair, values)[at], 0.0)

    others = np.where(focal_group >= 0, n_identities[inside] - own, 0)
    total, total_weight = rest(w * (y - shift)), rest(w)
    safe = (others > 0) & (total_weight > 0)
    return np.where(safe, shift + total / np.where(safe, total_weight, 1.0), 0.0), others
