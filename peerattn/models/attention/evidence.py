"""Does a part of the model help out of sample, and by how much? Forward-chained origins, a factor, and its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from scipy import stats
from scipy.optimize import minimize_scalar

from peerattn.models.attention.clusters import FEW_PERIODS, clustered_variance, variance_of_sum
from peerattn.models.attention.cross_fitting import count_rows, folds_of, same_rows
from peerattn.models.attention.losses import Loss, squared_error
from peerattn.models.pools import Section

ORIGINS = 3  # at most; they share the second half of the training periods
FOLDS = 3  # of the rows, where there is one cross-section
LEVEL = 0.05  # of the one-sided test that a part must pass, shared by the parts that are tried
LEAST_GAIN = 1e-3  # relative fall of the held-out loss from which a part is worth its complexity
FEW_ROWS = 50  # of known outcome, below which nothing is tried beyond the own model


@dataclass(frozen=True)
class Origin:
    """Cross-sections to learn from, and later ones to judge by."""

    training: list[Section]
    judged: list[Section]


def origins(sections: Sequence[Section], purge: int, dated: bool) -> list[Origin]:
    """Return forward-chained origins; of one cross-section, folds of its rows.

    Parameters
    ----------
    sections : sequence of Section
        In order of time.
    purge : int
        Periods before an origin that are not learned from, because their outcomes were not yet known.
    dated : bool
        Whether the pool is the period itself; on arrays the pool of a held-out row is the training rows.
    """
    if count_rows(sections) < FEW_ROWS:
        return []
    if len(sections) == 1:
        return _folds(sections[0], dated)
    n = len(sections)
    edges = np.unique(np.linspace(max(1, n // 2), n, ORIGINS + 1).round().astype(int))
    found = []
    for start, stop in zip(edges, edges[1:], strict=False):
        if start - purge >= 1:
            found.append(Origin(list(sections[: start - purge]), list(sections[start:stop])))
    return found


def _folds(section: Section, dated: bool) -> list[Origin]:
    (fold,) = folds_of([section], FOLDS)
    found = []
    for f in range(FOLDS):
        rest, at = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        if not (len(rest) and len(at)):
            return []
        pool = rest if not dated and same_rows(section) else slice(None)
        learned = _rows_of(section, rest, pool)
        judged = replace(_rows_of(section, at, pool), own_copies=False)
        found.append(Origin([learned], [judged]))
    return found


def _rows_of(section: Section, focal: np.ndarray, peers: np.ndarray | slice) -> Section:
    answering = None if section.answering is None else section.answering[peers]
    return replace(
        section, focal=section.focal.take(focal), peers=section.peers.take(peers), answering=answering
    )


@dataclass(frozen=True)
class Evidence:
    """What held-out periods say of a part.

    Attributes
    ----------
    factor : float
        By which the part enters, from 0 (not at all) to 1 (in full).
    least_loss : float
        The factor of least held-out loss, before it is shrunk and tested.
    t : float
        t statistic of the hypothesis that the part adds nothing.
    critical : float
        Its one-sided critical value.
    gain : float
        Relative fall of the held-out loss at ``least_loss``.
    periods, clusters : int, str
        Judged periods, and what the standard error is clustered by.
    """

    factor: float
    least_loss: float
    t: float
    critical: float
    gain: float
    periods: int
    clusters: str


NOTHING = Evidence(0.0, 0.0, float("nan"), float("nan"), 0.0, 0, "none")


@dataclass(frozen=True)
class Judged:
    """Held-out rows: the prediction so far, what the part would add, outcome, weight, period and firm."""

    base: np.ndarray  # (n, K)
    addition: np.ndarray  # (n, K)
    y: np.ndarray
    weight: np.ndarray
    period: np.ndarray
    firm: np.ndarray


def weigh(judged: Judged, loss: Loss, *, forecast: bool, mutual: bool, level: float) -> Evidence:
    r"""Return the factor by which an addition enters, and the test of its use.

    .. math:: \hat f = \arg\min_{f \in [0, 1]} \sum_i \frac{w_i}{L_{t(i)}}\, \ell(\hat y_i + f g_i, y_i), \qquad
              f = \hat f \,(1 - 1/t^2)_+ \; \text{if } t > t_{1 - a}, \text{ else } 0

    with g the addition, :math:`L_t` the mean loss of period t without it (one row of the median period's loss added), and t
    the statistic of the score at f = 0, :math:`\sum_i w_i g_i e_i / L_{t(i)}`: the encompassing test of Harvey, Leybourne and
    Newbold (1998). A
    period counts by the share of its loss that is saved, whatever its volatility: generalised least squares. The error is
    clustered by firm and period (Cameron, Gelbach and Miller 2011). Fewer than three judged periods can be clustered by firm
    alone; a forecast is then not added to, since one period decides nothing, but where the period's own outcomes are shown
    these carry its common shock. Where firms read each other's outcomes (``mutual``), what i learns from j and j from i may be
    the same product: the variance is at least twice that by firm, an upper bound where firms are independent. On large panels
    a part may be significant that lowers the loss by next to nothing: it must lower it by a thousandth. The shrinkage is the
    positive-part rule of James and Stein (1961) for one coefficient; stacking is Breiman's (1996).
    """
    n_periods = len(np.unique(judged.period))
    if not len(judged.y) or not np.abs(judged.addition).max(initial=0.0) > 0:
        return replace(NOTHING, periods=n_periods)
    judged = replace(judged, weight=judged.weight / _mean_losses(judged, loss))
    score = _score(judged, loss)
    groups = [judged.firm, judged.period] if n_periods >= FEW_PERIODS else [judged.firm]
    sums = [np.bincount(pd.factorize(group)[0], score) for group in groups]
    variance = clustered_variance(sums, variance_of_sum(score), 2.0 if mutual else 1.0)
    t = float(score.sum() / np.sqrt(variance)) if variance > 0 else 0.0
    n_clusters = min(len(np.unique(group)) for group in groups)
    critical = float(stats.t.ppf(1 - level, max(n_clusters - 1, 1)))
    best, gain = _least_loss(judged, loss)
    added = t > critical and gain >= LEAST_GAIN and not (n_periods < FEW_PERIODS and forecast)
    factor = best * max(0.0, 1 - 1 / t**2) if added else 0.0
    return Evidence(
        factor, best, t, critical, gain, n_periods, " and ".join(["firm", "period"][: len(groups)])
    )


def _mean_losses(judged: Judged, loss: Loss) -> np.ndarray:
    """Return the mean loss of each row's period before the addition, one row of the median period's loss added, (n,)."""
    losses = loss(torch.as_tensor(judged.base), torch.as_tensor(judged.y)).numpy()
    period = pd.factorize(judged.period)[0]
    size, total = (np.bincount(period, judged.weight * z) for z in (np.ones(len(losses)), losses))
    usual, row = float(np.median(total / size)), float(judged.weight.mean())
    means: np.ndarray = ((total + row * usual) / (size + row))[period]
    return means / usual if usual > 0 else np.ones(len(losses))


def _score(judged: Judged, loss: Loss) -> np.ndarray:
    """Return every row's fall of the loss for a small share of the addition."""
    base = torch.tensor(judged.base, requires_grad=True)
    (slope,) = torch.autograd.grad(loss(base, torch.as_tensor(judged.y)).sum(), base)
    return -(slope.numpy() * judged.addition).sum(axis=1) * judged.weight


def _least_loss(judged: Judged, loss: Loss) -> tuple[float, float]:
    def mean_loss(factor: float) -> float:
        predicted = torch.as_tensor(judged.base + factor * judged.addition)
        return float(np.average(loss(predicted, torch.as_tensor(judged.y)).numpy(), weights=judged.weight))

    if loss is squared_error:
        error, g = judged.y - judged.base[:, 0], judged.addition[:, 0]
        best = float(np.clip((judged.weight * g * error).sum() / (judged.weight * g * g).sum(), 0, 1))
    else:
        best = float(minimize_scalar(mean_loss, bounds=(0.0, 1.0), method="bounded").x)
    without = mean_loss(0.0)
    return best, 1 - mean_loss(best) / without if without > 0 else 0.0
