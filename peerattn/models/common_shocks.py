"""A firm from itself, and from what all firms of its period and of its industry's period share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.training import Problem
from peerattn.models.own_history import OwnHistoryRegressor, Past
from peerattn.models.stacking.candidates import common_candidates
from peerattn.models.stacking.evidence import Candidate
from peerattn.panel.panel import Panel


@dataclass(eq=False, repr=False, kw_only=True)
class CommonShocksRegressor(OwnHistoryRegressor):
    r"""A firm from its own characteristics and past, and from the shocks that all firms of a period or industry share.

    .. math:: \hat y_{it} = o_{it} + w_s \big(s_{it} - \bar s_t\big) + w_p \bar r_{-i,t} + w_g \hat g_{-i,t},
              \qquad r_{it} = y_{it} - o_{it}

    o is :class:`OwnHistoryRegressor`; :math:`o + s` the line in own characteristics with slopes of random effects of periods,
    which shocks do not move, bars the period's mean; :math:`\bar r_{-i,t}` the mean residual of the period's *other* firms and
    :math:`\hat g_{-i,t}` its best linear unbiased prediction from them where the industry has a shock of its own, too: the mean
    of the other firms of the industry, shrunk towards that of all by the variances within and between industries (Henderson
    1975). Peers are not chosen: every firm of the period counts alike, and every firm of the industry. The weights, at least 0,
    :math:`w_s` and :math:`w_p + w_g` at most 1, are those of least squares on the same later periods as the weights in o.

    Parameters
    ----------
    industry : str, optional
        Column of ``X`` with the code. None: periods only.
    gaps, random_state, firm, period
        As in :class:`OwnHistoryRegressor`.

    Attributes
    ----------
    design_, stacks_, gain_
        As of :class:`OwnHistoryRegressor`.

    Notes
    -----
    ``predict(X)`` without outcomes is the prediction from the own firm and the period's characteristics.

    References
    ----------
    Henderson, C. (1975), Best linear unbiased estimation and prediction under a selection model, Biometrics 31(2).

    Examples
    --------
    >>> import pandas as pd
    >>> index = pd.MultiIndex.from_product([range(20), range(2001, 2013)], names=["firm", "period"])
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"size": rng.normal(size=240)}, index=index)
    >>> y = pd.Series(np.tile(3 * rng.normal(size=12), 20), index) + 0.1 * rng.normal(size=240)
    >>> past = X.index.get_level_values("period") < 2012
    >>> model = CommonShocksRegressor().fit(X[past], y[past])
    >>> bool(np.abs(model.predict(X[~past], outcomes=y[~past]) - y[~past]).max() < 1)
    True
    """

    industry: str | None = None

    def _candidates(self, problem: Problem, seed: int) -> list[Candidate]:
        found = super()._candidates(problem, seed)
        codes: list[int] = []
        if self.design_ is not None:
            codes = [c for c, name in enumerate(self.design_.levels) if name == self.industry]
        if problem.dated:
            found += common_candidates(problem, codes)
        return found

    def _informed(self, panel: Panel, past: Past | None) -> tuple[list[CrossSection], pd.Index]:
        # outcomes that were not passed are unknown, and the shocks with them
        if panel.outcomes is None:
            panel = replace(panel, outcomes=np.full(len(panel), np.nan))
        return super()._informed(panel, past)
