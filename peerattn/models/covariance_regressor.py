"""A learned covariance as an estimator of its own: each firm predicted from the others' outcomes of its period."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from peerattn.models.attention.base import PanelStack
from peerattn.models.learners.covariance.covariance import Covariance
from peerattn.models.learners.heads.search_profile import SearchProfile
from peerattn.models.learners.losses import Loss, squared_error
from peerattn.models.learners.training import Problem
from peerattn.models.mixins import PanelRegressorMixin
from peerattn.models.stacking.candidates import COVARIANCE, covariance_candidates
from peerattn.models.stacking.groups import Candidate
from peerattn.types import OutcomesLike, PanelLike


@dataclass(eq=False, repr=False, kw_only=True)
class CovariancePeerRegressor(PanelRegressorMixin, PanelStack):
    r"""Least squares on own characteristics, and a learned covariance of what it leaves across the firms of a period.

    .. math:: \hat y_i = x_i \beta + \sum_{j \ne i} w_{ij} (y_j - x_j \beta), \qquad w_{ij} = -P_{ij} / P_{ii}, \quad P = K^{-1}

    with the covariance

    .. math:: K_{ij} = e^{(x_i + x_j) \eta} \bigl[x_i (\Lambda + A A') x_j' + \textstyle\sum_{c=0}^C 1[c_i = c_j]
              (v_c + w_c g_{ij} + u_c m_{ij}) + q\, g_{ij} m_{ij} + h\, m_{ij}^2\bigr] + 1[i = j] e^{x_i \gamma} .

    Here x are the characteristics' ranks in the pool (in Λ their values, too), c the codes (c = 0: one level that all firms have)
    and g a Gaussian kernel with a length for each characteristic; :math:`m_{ij} = \sum_k \lambda_k^\delta h_{ik} h_{jk}` compares
    the firms' own past outcomes in their principal components. All variances are at least zero: a part that does not help
    vanishes. The weights are signed. K is symmetric, so that the direction of the network, ``w_ij / w_ji = P_jj / P_ii``, is
    popularity alone. :class:`~peerattn.models.StackedPeerRegressor` weighs this predictor against controls of the same
    information; here it is used alone.

    Parameters
    ----------
    history : bool, default True
        Let firms that moved together in the past do so again (panels only). The firms' own past outcomes are then read.
    scale : {"standard", "rank", None}, default "standard"
        As in ``PeerAttentionRegressor``.
    codes : sequence of str, default ()
        Columns that are codes (besides those of dtype category or string).
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.
    random_state : int, RandomState or None, default None
        Order of the periods in learning.

    Attributes
    ----------
    covariance_ : Covariance
        Its parameters: logarithms of variances, inverse lengths.

    Notes
    -----
    One observed outcome counts by at most the largest residual of the training rows. Costs O(n³) a period of n firms; beyond
    5,000 through inducing firms. Weights are predictive relevance, not causal peer effects.

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
    # options of other estimators that a covariance does not leave open
    attention = "self"
    task = "nowcast"
    own = "linear"
    n_layers = 1
    kappa = None
    purge = 0
    _parameter_constraints = PanelStack._parameter_constraints | {"history": ["boolean"]}

    def fit(self, X: PanelLike, y: OutcomesLike = None, sample_weight: OutcomesLike = None) -> Self:  # type: ignore[override]
        """Fit on training rows; parameters as in :meth:`PeerAttentionRegressor.fit`.

        ``sample_weight`` weighs the rows' errors: whatever its weight, a row is one peer of the others.
        """
        return super().fit(X, y, sample_weight)

    def predict(self, X: PanelLike, *, outcomes: OutcomesLike = None) -> np.ndarray:  # type: ignore[override]
        """Predict the outcome of each row from the ``outcomes`` of the others; as in :meth:`PeerAttentionRegressor.predict`."""
        return super().predict(X, outcomes=outcomes)

    def _loss(self) -> Loss:
        return squared_error

    def _candidates(self, problem: Problem, draws: np.ndarray) -> list[Candidate]:
        return covariance_candidates(int(draws[0]), past=self.history)[:1]

    @property
    def covariance_(self) -> Covariance:
        """The learned covariance."""
        found = self.stack_.fitted[COVARIANCE]
        assert isinstance(found, Covariance)
        return found

    def search_profile(self, X: PanelLike = None) -> SearchProfile:
        """Return in which characteristics firms must be alike for their outcomes to move together: Λ + AA′, among ranks.

        ``X`` as in :meth:`PeerAttentionRegressor.search_profile`. Codes, the Gaussian kernel and the past are not in it.
        """
        check_is_fitted(self, "stack_")
        v = self.covariance_.parameters
        M = np.diag(np.exp(v["linear"]) + np.exp(v["slope"])) + v["low_rank"] @ v["low_rank"].T
        names = self.design_.number_names
        return SearchProfile.of_rule(M, names, list(map(str, self.design_.characteristics))).with_firms(self, X)
