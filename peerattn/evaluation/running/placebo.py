"""A placebo of a peer model: refitted on outcomes that no peer can have had a part in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.running.entries import Entry
from peerattn.evaluation.running.fitting import Folds, fit_all, squared_errors
from peerattn.models import OwnHistoryRegressor
from peerattn.panel import Panel


def exchanged(panel: Panel, rng: np.random.Generator) -> Panel:
    r"""Return the panel with the unexplained part of its outcomes exchanged between the firms of a period.

    .. math:: y^*_{it} = o_{it} + (y_{\pi_t(i) t} - o_{\pi_t(i) t})

    o what the firm's own characteristics and past explain (:class:`~peerattn.models.OwnHistoryRegressor`), :math:`\pi_t` a random
    permutation of the firms of known outcome; with an industry, of those of one industry, so that its shocks stay.
    """
    panel = panel.sorted()
    own = np.asarray(OwnHistoryRegressor().fit(panel).predict(panel.with_outcomes(None)))
    assert panel.outcomes is not None
    left = panel.outcomes - own
    groups = [pd.factorize(panel.period)[0]]
    if panel.industry is not None:
        groups.append(pd.factorize(panel.codes[panel.industry])[0])
    drawn = left.copy()
    cells = pd.Series(np.arange(len(left))).groupby(groups).indices
    for rows in cells.values():
        known = rows[np.isfinite(left[rows])]
        drawn[known] = left[rng.permutation(known)]
    return panel.with_outcomes(pd.Series(own + drawn, index=panel.X.index, name=panel.outcome))


def placebo_gains(peer: Entry, control: Entry, panel: Panel, folds: Folds, n: int, **how: Any) -> np.ndarray:
    """Return the gains in held-out R² of a peer model over a control, both refitted on n panels of exchanged outcomes.

    A draw in which either fails is left out.
    """
    rng, gains = np.random.default_rng(0), []
    for _ in range(n):
        changed = exchanged(panel, rng)
        results = fit_all([peer, control], changed, folds, **how)
        if not any(result.error for result in results.values()):
            ours, theirs, base = squared_errors([peer.name, control.name], changed, folds, results)
            gains.append(float((theirs - ours) / base) if base > 0 else 0.0)
    return np.array(gains)
