"""A learned covariance as an estimator of its own: each firm predicted from the others' outcomes of its period."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from peerattn.models.attention.covariance import Covariance
from peerattn.models.attention.covariance_fit import fit_covariance
from peerattn.models.attention.fitting import known_past
from peerattn.models.attention.losses import squared_error
from peerattn.models.attention.training import Problem, Training, View
from peerattn.models.base import PeerRegressor
from peerattn.models.pools import Rows, Section
from peerattn.panel.design import Design
from peerattn.panel.panel import Panel
from peerattn.training import one_thread


@dataclass(eq=False, repr=False, kw_only=True)
class CovariancePeerRegressor(PeerRegressor):
    r"""Least squares on own characteristics, and a learned covariance of what it leaves across the firms of a period.

    .. math:: \hat y_i = x_i' b + \sum_{j \ne i} w_{ij} (y_j - x_j' b), \qquad w_{ij} = -P_{ij} / P_{ii}, \quad P = K^{-1}

    with K the covariance of :class:`~peerattn.models.attention.covariance.Covariance`: a function of characteristics, codes and
    of how firms moved together in the past. The weights are signed. K is symmetric, so that the direction of the network,
    ``w_ij / w_ji = P_jj / P_ii``, is popularity alone. :class:`~peerattn.PeerAttentionRegressor` with ``task="explain"`` weighs
    this predictor against controls of the same information; here it stands alone.

    Parameters
    ----------
    history : bool, default True
        Let firms that moved together in the past do so again (panels only). The firms' own past outcomes are then read.
    scale : {"standard", "rank", None}, default "standard"
        As in ``PeerAttentionRegressor``.
    codes : sequence of str
        Columns that are codes (besides those of dtype category or string).
    firm, period : str
        Names of the index levels (or columns) with the labels.
    random_state : int, RandomState or None
        Order of the periods in learning.

    Attributes
    ----------
    covariance_ : Covariance
        Its parameters: logarithms of variances, inverse lengths.

    Notes
    -----
    One shown outcome counts by at most the largest residual of the training rows. Costs O(n³) a period of n firms; beyond 5,000
    through inducing firms. Weights are predictive relevance, not causal peer effects.

    References
    ----------
    Rasmussen, C. E. and Williams, C. K. I. (2006). Gaussian Processes for Machine Learning. MIT Press, section 5.4.2.

    Examples
    --------
    >>> from peerattn import simulate_panel
    >>> panel = simulate_panel(20, 12, 2, n_industries=2, random_state=0)
    >>> model = CovariancePeerRegressor(random_state=0).fit(panel.X, panel.y)
    >>> model.peer_network(panel.X, outcomes=panel.y).signed
    True
    """

    history: bool = True
    scale: str | None = "standard"
    codes: Sequence[str] = ()
    firm: str = "firm"
    period: str = "period"
    random_state: Any = None

    @property
    def needs_outcomes(self) -> bool:
        """Whether ``predict`` on a panel must be given ``outcomes=``."""
        return True

    @property
    def _signed(self) -> bool:
        return True

    def _code_columns(self) -> tuple[str, ...]:
        return tuple(self.codes)

    def _encode(
        self, panel: Panel, weight: np.ndarray | None, *, fitting: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        if fitting:
            self.design_ = Design.fit(panel, scale=self.scale, weight=weight)
        return self.design_.numbers(panel), self.design_.integers(panel)

    @one_thread()
    def _learn(self, training: Rows, panel: Panel) -> None:
        known = training.known()
        assert known.y is not None
        self.center_ = float(known.y.mean())
        self.spread_ = float(known.y.std()) or 1.0
        self.training_rows_ = replace(known, y=(known.y - self.center_) / self.spread_)
        sections = [replace(s, focal=s.focal.known()) for s in self._sections(panel, training)]
        levels = tuple(len(each) for each in self.design_.levels.values())
        found = Training.of(
            [s for s in sections if len(s.focal)], Problem(squared_error, 1, levels, True, panel.dated)
        )
        past = found.history if self.history and panel.dated else None
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        dtype = torch.float32 if panel.dated else torch.float64
        self.covariance_: Covariance = fit_covariance(found.residuals, past=past, seed=seed, dtype=dtype)
        self.view_: View = found.view

    def _outcome_unit(self) -> tuple[float, float]:
        return self.center_, self.spread_

    def _sections(self, panel: Panel, rows: Rows) -> Iterator[Section]:
        y = None if rows.y is None else (rows.y - self.center_) / self.spread_
        return self._within(panel, replace(rows, y=y), known=False)

    def _gate_call(self, X: Any, outcomes: Any) -> tuple[Panel, Iterator[Section]]:
        panel, call = self._gate_rows(X, outcomes)
        self._warn_of_lost_periods(panel)
        if outcomes is None:
            return panel, self._against_training(panel, call)
        seen = [
            self.view_.seen(replace(s, focal=replace(s.focal, y=None))) for s in self._sections(panel, call)
        ]
        past = known_past(self.view_.history, seen)
        return panel, iter([replace(section, past=past) for section in seen])

    def _attend(self, section: Section) -> tuple[np.ndarray, np.ndarray]:
        seen = section if section.own is not None else self.view_.seen(section)
        (added,) = self.covariance_.additions([seen])
        predicted = self.view_.lines.predict(seen.focal) + added
        isolated = [~section.admissible(rows).any(axis=1) for rows in section.chunks()]
        nobody = np.concatenate(isolated) if isolated else np.zeros(0, dtype=bool)
        return predicted[:, 0] * self.spread_ + self.center_, nobody

    def _weights(self, section: Section, rows: slice) -> np.ndarray:
        seen = section if section.own is not None else self.view_.seen(section)
        return self.covariance_.derivative(seen)(rows)
