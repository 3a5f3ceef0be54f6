"""Fixed effects of the own model: those that last are estimated, those of a period are read from its other firms' outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from peerattn.models.pools import NOBODY, Rows, Section
from peerattn.panel.effects import effect_labels, effect_parts, estimated_effects, known_effects, net_of

PERIOD = "period"


@dataclass(frozen=True)
class OwnEffects:
    """Constants of groups of rows, absorbed when slopes are estimated.

    Attributes
    ----------
    names : tuple of str
        As :func:`~peerattn.panel.effects.effect_labels` reads them.
    codes : tuple of str
        Names of the columns of ``Rows.codes``.
    lasting : dict of str to Series
        Estimated effects of groups that go on beyond a period, by label; their mean over the training rows is zero.
    """

    names: tuple[str, ...]
    codes: tuple[str, ...]
    lasting: Mapping[str, pd.Series] = field(default_factory=dict)

    @property
    def of_periods(self) -> tuple[str, ...]:
        """Names of the effects that last one period, from coarse to fine."""
        parts = effect_parts(self.names)
        return tuple(sorted((n for n in parts if PERIOD in parts[n]), key=lambda name: len(parts[name])))

    def labels(self, names: Sequence[str], rows: Rows, period: np.ndarray) -> pd.DataFrame:
        """Return the group of each row, one column an effect."""
        codes = {name: rows.codes[:, c] for c, name in enumerate(self.codes)}
        return effect_labels(names, {"firm": rows.label.to_numpy(), PERIOD: period} | codes)

    def absorbed(self, columns: np.ndarray, rows: Rows, period: np.ndarray) -> np.ndarray:
        """Return columns net of all effects, (n, p); what they take in whole is zero."""
        net, _ = net_of(self.labels(self.names, rows, period), columns, rows.loss_weight)
        size = np.linalg.norm(columns, axis=0)
        return np.where(np.linalg.norm(net, axis=0) <= 1e-9 * size, 0.0, net)

    def estimated(self, left: np.ndarray, rows: Rows, period: np.ndarray) -> tuple[float, OwnEffects]:
        """Return the mean of what slopes leave, and the effects that last."""
        mean, found = estimated_effects(left, self.labels(self.names, rows, period), rows.loss_weight)
        return mean, replace(self, lasting={n: e for n, e in found.items() if n not in self.of_periods})

    def known(self, rows: Rows) -> np.ndarray:
        """Return the effects that last, (n,); a group that was not in training has the mean effect, zero."""
        period = np.zeros(len(rows), dtype=int)
        return known_effects(self.lasting, self.labels(tuple(self.lasting), rows, period))

    def of_period(self, section: Section, pool: np.ndarray) -> np.ndarray:
        """Return each focal row's effect of the period: the mean of what own terms leave of its group's other outcomes.

        Of several groups the finest counts that has a peer of known outcome; no such group: zero. Own rows are left out by
        identity, so that the own outcome is not read.
        """
        found = np.zeros(len(section.focal))
        if not self.of_periods or section.peers.y is None:
            return found
        left = section.peers.y - pool[:, 0]
        known = np.isfinite(left) if section.answering is None else np.isfinite(left) & section.answering
        peers, left = section.peers.take(known), left[known]
        mine, theirs = (
            self.labels(self.of_periods, rows, np.zeros(len(rows), dtype=int))
            for rows in (section.focal, peers)
        )
        for name in self.of_periods:
            group = pd.factorize(pd.concat([mine[name], theirs[name]]), use_na_sentinel=False)[0]
            mean = _mean_of_others(section.focal, group[: len(mine)], peers, group[len(mine) :], left)
            found = np.where(np.isnan(mean), found, mean)
        return found


def _mean_of_others(
    focal: Rows, group: np.ndarray, peers: Rows, their_group: np.ndarray, left: np.ndarray
) -> np.ndarray:
    """Return the mean of the peers of the same group and another identity; NaN where there is none."""
    n = max(group.max(initial=-1), their_group.max(initial=-1)) + 1
    total, count = np.bincount(their_group, left, n)[group], np.bincount(their_group, minlength=n)[group]
    own = pd.DataFrame({"left": left, "who": peers.identity, "group": their_group})
    own = own[own["who"] != NOBODY].groupby(["who", "group"])["left"].agg(["sum", "count"])
    mine = own.reindex(pd.MultiIndex.from_arrays([focal.identity, group])).fillna(0.0).to_numpy()
    others = count - mine[:, 1]
    return np.divide(total - mine[:, 0], others, out=np.full(len(focal), np.nan), where=others > 0.5)
