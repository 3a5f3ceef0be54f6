"""A placebo of the stack's peers: refitted on outcomes that no peer can have had a part in."""

import numpy as np
import pandas as pd

from peerattn.evaluation.running.entries import Entry
from peerattn.evaluation.running.fitting import Folds, How, fit_all, squared_errors
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
    left = panel.y.to_numpy() - own
    groups = [panel.period, *([] if panel.industry is None else [panel.codes[panel.industry]])]
    drawn = left.copy()
    cells = pd.Series(left).groupby([pd.factorize(group)[0] for group in groups])
    for rows in cells.indices.values():
        known = rows[np.isfinite(left[rows])]
        drawn[known] = left[rng.permutation(known)]
    return panel.with_outcomes(pd.Series(own + drawn, index=panel.X.index, name=panel.outcome))


def placebo_gains(stack: Entry, panel: Panel, folds: Folds, n: int, how: How) -> np.ndarray:
    """Return the gains in held-out R² of a stack's peers, refitted on n panels of exchanged outcomes.

    A draw in which it fails is left out.
    """
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(n):
        results = fit_all([stack], exchanged(panel, rng), folds, how)
        if not any(result.error for result in results.values()):
            ours, base, without = squared_errors(stack.name, results)
            gains.append(float((without - ours) / base) if base > 0 else 0.0)
    return np.array(gains)
