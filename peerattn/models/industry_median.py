"""Comparable firms as practitioners use them: the median outcome of the industry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerattn.exceptions import InputError
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.industry import UNKNOWN, Groups, IndustryPeerRegressor
from peerattn.network import PeerNetwork
from peerattn.panel.design import weighted_median
from peerattn.panel.panel import Panel
from peerattn.types import OutcomesLike, PanelLike


@dataclass(eq=False, repr=False, kw_only=True)
class IndustryMedianRegressor(IndustryPeerRegressor):
    r"""Median outcome of the firms in the same industry, own firm left out.

    .. math:: \hat y_i = \operatorname{median}\{y_j : g_j = g_i,\ j \ne i\},

    the valuation by comparables of practice. Where fewer than ``min_peers`` firms share the code the group widens as in
    :class:`IndustryPeerRegressor`. The weights are 1 on the middle peer, or ½ on each of the two middle ones, which are
    chosen by their outcomes.

    Parameters
    ----------
    industry, scheme, min_peers, firm, period
        As in :class:`IndustryPeerRegressor`; ``min_peers=1`` by default.
    shrinkage, value_weight
        Not used with a median; other values than the defaults raise an error.

    Notes
    -----
    Time: of each group its members squared. Of peers that are the same firm (training rows of several periods) each row
    counts.

    References
    ----------
    Liu, J., Nissim, D. and Thomas, J. (2002), Equity valuation using multiples, Journal of Accounting Research 40(1), 135–172.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"firm": list("ABCDEF"), "period": 2001, "sic": [3711] * 4 + [2834] * 2})
    >>> y = [1.0, 3.0, 5.0, 100.0, 7.0, 9.0]
    >>> IndustryMedianRegressor(industry="sic").fit(X, y).predict(X, outcomes=y).tolist()
    [5.0, 5.0, 3.0, 3.0, 9.0, 7.0]
    """

    _learns_network = True  # outcomes choose its peers

    def peer_network(self, X: PanelLike, *, outcomes: OutcomesLike = None) -> PeerNetwork:
        """Return the peers to which each row of ``X`` attends; with ``outcomes`` it was learned from those of every period."""
        network = super().peer_network(X, outcomes=outcomes)
        if outcomes is None or not network.is_dated:
            return network
        return network.replaced(learned_until=network.periods.max())

    def _check_parameters(self, panel: Panel) -> None:
        for name, plain in (("shrinkage", 0.0), ("value_weight", None)):
            if (given := getattr(self, name)) != plain:
                raise InputError(f"{name}: not used with a median, got {given!r}; leave it out.")
        super()._check_parameters(panel)

    def _learn(self, training: Rows, panel: Panel) -> None:
        super()._learn(training, panel)
        rows = training.known()
        self.mean_ = weighted_median(rows.outcomes, rows.counts)

    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        peers = section.peers.outcomes
        groups = self._groups(section)
        predicted = np.empty(len(section.focal))
        for rows in section.chunks():
            weights = self._middle(section, rows, groups)
            predicted[rows] = np.where(weights.any(axis=1), weights @ peers, self.mean_)
        return predicted, groups.level == UNKNOWN

    def _weights(self, section: CrossSection, rows: slice) -> np.ndarray:
        groups = self._groups(section)
        weights = self._middle(section, rows, groups)
        weights[groups.level[rows] == UNKNOWN] = 0.0
        return weights

    def _middle(self, section: CrossSection, rows: slice, groups: Groups) -> np.ndarray:
        """Return weights on the middle peers of each row's finest group, (n_rows, n_peers)."""
        peers = section.peers.outcomes
        finest = np.argmax(groups.counts[:, rows] > 0, axis=0)
        counted = section.admissible(rows) * section.peers.counts
        order = np.argsort(peers, kind="stable")
        weights = np.zeros(counted.shape)
        for level, (mine, theirs) in enumerate(groups.groups):
            here = np.flatnonzero((finest == level) & (groups.counts[level, rows] > 0))
            for group in np.unique(mine[rows][here]):
                focal = here[mine[rows][here] == group]
                members = order[theirs[order] == group]  # by outcome
                present = counted[np.ix_(focal, members)]
                for at in middle_of(present):
                    np.add.at(weights, (focal, members[at]), 0.5 * present.any(axis=1))
        return weights


def middle_of(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the lower and the upper median of sorted values with these weights, one pair a row."""
    reached = np.cumsum(weight, axis=1)
    half = weight.sum(axis=1, keepdims=True) / 2
    return (reached >= half).argmax(axis=1), (reached > half).argmax(axis=1)
