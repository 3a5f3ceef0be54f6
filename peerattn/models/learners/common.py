"""Common shocks: slopes within periods, which they do not move, and of observed outcomes those of the period and of codes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from peerattn.models.cross_section import CrossSection, Rows, means_of_others, section_numbers
from peerattn.models.learners.covariance.covariance import Covariance
from peerattn.models.learners.covariance.ridge import linear_covariance
from peerattn.models.learners.linear import Bounds, Lines, least_squares, stacked_rows
from peerattn.models.learners.training import Training
from peerattn.models.learners.variance_components import common_variance, net_of_common, precision_of_periods

SLOPES = "slopes"  # what tables call slopes within periods
MIXED = 1e-9  # of the mean diagonal, added to moment equations: nested codes make them singular


@dataclass(frozen=True)
class PeriodMean:
    """Adds the mean of other firms' residuals from own characteristics and history; the own one is left out, by identity."""

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return what is added to every focal row of cross-sections as peers are learned from, (n_focal, 1)."""
        found = []
        for section in sections:
            peers = section.peers.take(section.known_peers())
            mine, theirs = (np.zeros(len(rows), dtype=int) for rows in (section.focal, peers))
            mean, _ = means_of_others(mine, section.focal.identity, theirs, peers.identity, peers.outcomes, peers.weight)
            found.append(mean[:, None])
        return found


@dataclass(frozen=True)
class CodeShocks:
    r"""Adds the best linear unbiased prediction of a period's shocks and its codes', from other firms' residuals.

    .. math:: r_{it} = u_t + \sum_S v^S_{s(i), t} + \epsilon_{it}

    with random effects v of each code S and of each pair of codes (crossed or nested; Henderson 1975), a level u that is not
    shrunk, and variances from the moments of training residuals.

    Attributes
    ----------
    effects : tuple of tuple of int
        Which codes make up each effect: one, or two.
    bases : tuple of int
        Number of levels of each code, unknown included.
    covariance : Covariance
        Of a level and these effects, whose leave-one-out prediction is the one above.
    """

    effects: tuple[tuple[int, ...], ...]
    bases: tuple[int, ...]
    covariance: Covariance

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return what is added to every focal row of cross-sections as peers are learned from, (n_focal, 1)."""
        return self.covariance.predict([self._of_effects(section) for section in sections])

    def _of_effects(self, section: CrossSection) -> CrossSection:
        """Return a cross-section of codes alone, which are the levels of effects, and whose own terms are zero."""
        focal, peers = (
            replace(rows, x=rows.x[:, :0], codes=effect_levels(rows, self.effects, self.bases))
            for rows in (section.focal, section.peers)
        )
        own = (np.zeros((len(focal), 1)), np.zeros((len(peers), 1)))
        return replace(section, focal=focal, peers=peers, own=own)


def effect_levels(rows: Rows, effects: Sequence[tuple[int, ...]], bases: Sequence[int]) -> np.ndarray:
    """Return the level of every row in each effect, (n, effects); 0 where a code is unknown."""
    levels = [np.ravel_multi_index(tuple(rows.levels[:, codes].T), [bases[code] for code in codes]) for codes in effects]
    known = [(rows.codes[:, codes] > 0).all(axis=1) for codes in effects]
    return np.where(known, levels, 0).reshape(len(effects), len(rows)).T


def fit_code_shocks(training: Training, codes: Sequence[int]) -> CodeShocks | None:
    """Estimate how much firms of one code, or of one level of two, have in common in a period; None where they have nothing."""
    bases = tuple(n + 1 for n in training.problem.code_levels)
    effects = _effects(stacked_rows(training.residuals), codes, bases)
    G = np.zeros((1 + len(effects),) * 2)
    q = np.zeros(len(G))
    for section in training.residuals:
        y = section.focal.outcomes
        deviation = y - y.mean()
        scale = float((deviation**2).mean())
        if scale > 0:  # a turbulent period would otherwise decide alone
            at = effect_levels(section.focal, effects, bases)
            of_period = _moments(at, deviation / np.sqrt(scale))
            G += of_period[0]
            q += of_period[1]
    variances = _least_squares(G, q)
    kept = [(effect, v) for effect, v in zip(effects, variances[1:], strict=True) if v > 0]
    if not kept or variances[0] <= 0:
        return None
    of_effects = np.array([v / variances[0] for _, v in kept])
    covariance = linear_covariance(np.zeros(0), of_effects, Bounds.of([np.zeros((1, 0))]))
    return CodeShocks(tuple(effect for effect, _ in kept), bases, covariance)


def _effects(rows: Rows, codes: Sequence[int], bases: Sequence[int]) -> list[tuple[int, ...]]:
    """Return every code, and every pair that is not one of its codes again (as of nested ones)."""
    single = [(code,) for code in codes]
    pairs = list(combinations(codes, 2))
    counts = [len(np.unique(column)) for column in effect_levels(rows, [*single, *pairs], bases).T]
    of_code = dict(zip(codes, counts[: len(single)], strict=True))
    crossed = [pair for pair, n in zip(pairs, counts[len(single) :], strict=True) if n > max(of_code[c] for c in pair)]
    return [*single, *crossed]


def _moments(levels: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the normal equations of ``dd'`` on the matrices ``M A_k M``, :math:`A_0 = I` and :math:`A_k = Z_k Z_k'`.

    M takes out the mean. With crosstab :math:`N_{kl} = Z_k'Z_l` and level counts n_k,
    :math:`\operatorname{tr}(M A_k M A_l) = \lVert N_{kl} - n_k n_l'/n \rVert^2` and :math:`d'A_kd = \lVert Z_k'd \rVert^2`.
    """
    n = len(deviation)
    m = 1 + levels.shape[1]
    groups = [np.arange(n)] + [pd.factorize(np.where(column > 0, column, np.nan))[0] for column in levels.T]  # -1 = unknown
    G = np.zeros((m, m))
    q = np.zeros(m)
    for k, mine in enumerate(groups):
        q[k] = (np.bincount(mine + 1, deviation)[1:] ** 2).sum()
        for other in range(k + 1):
            G[k, other] = G[other, k] = _trace(mine, groups[other])
    return G, q


def _trace(a: np.ndarray, b: np.ndarray) -> float:
    """Return the squared norm of a crosstab net of what independence gives, −1 = in no level; only its cells are touched."""
    n = len(a)
    count_a, count_b = (np.bincount(levels[levels >= 0], minlength=1).astype(float) for levels in (a, b))
    both = (a >= 0) & (b >= 0)
    cells, cell_count = np.unique(a[both] * len(count_b) + b[both], return_counts=True)
    expected = count_a[cells // len(count_b)] * count_b[cells % len(count_b)] / n
    off_cells = (count_a**2).sum() * (count_b**2).sum() / n**2 - (expected**2).sum()
    return float(((cell_count - expected) ** 2).sum() + off_cells)


def _least_squares(G: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the non-negative solution of normal equations ``G v = q`` of least squared error."""
    light = MIXED * max(np.trace(G) / len(G), 1e-300)
    L = np.linalg.cholesky(G + light * np.eye(len(G)))
    return np.asarray(nnls(L.T, np.linalg.solve(L, q))[0])


@dataclass(frozen=True)
class SlopesWithin:
    r"""Own characteristics (linear) with other slopes, ``ols_i + δ'z_i``; the stack reads its differences within periods.

    δ is by how much slopes of generalised least squares with random effects of periods (Wallace and Hussain 1969), whose noise
    has a variance of its own in each period, differ from those of least squares, which a few periods move wherever
    characteristics move together. Heads are learned beside such slopes, and others' outcomes reveal them: without this
    candidate what they predict would count as the peers'. Added are δ alone, or all of it instead of what own models predict
    within periods: these may be selected for the level of a period that they know, and peers would be selected by taking off
    the noise of their differences.
    """

    lines: Lines  # of slope δ

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return the prediction of every focal row of each cross-section, (n_focal, 1)."""
        return [section.own_term + self.lines.predict(section.focal) for section in sections]


def fit_slopes_within(training: Training) -> SlopesWithin | None:
    r"""Fit slopes to the focal rows' residuals of the linear own part; None without characteristics.

    Rows are weighted by the inverse of their period's variance, and a share :math:`\theta_t = 1 - (1 + n_t \tau_t)^{-1/2}` of the
    period's mean is taken out of all columns, τ the variance between periods over that of a row.
    """
    lines = training.lines
    rows = stacked_rows(training.residuals)
    if not rows.x.shape[1]:
        return None
    period = section_numbers(training.residuals)
    weight = rows.loss_weights * precision_of_periods(rows.outcomes, period)
    tau = common_variance(training.residuals)
    columns = np.column_stack([np.ones(len(rows)), (rows.x - lines.center) / lines.spread, rows.outcomes])
    net = net_of_common(columns, weight, period, tau)
    slope = least_squares(net[:, :-1], net[:, -1], weight)[1:, None]
    return SlopesWithin(replace(lines, slope=slope, intercept=np.zeros(1)))
