"""The combination: own characteristics, firm history, common shocks, then peers, weighed on held-out periods."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils._param_validation import HasMethods, StrOptions

from peerattn.exceptions import InputError
from peerattn.models.attention.base import PanelStack
from peerattn.models.attention.estimators import AttentionRegressorMixin
from peerattn.models.attention.options import AttentionOptions
from peerattn.models.learners.training import Problem
from peerattn.models.stacking.candidates import all_candidates, user_candidates
from peerattn.models.stacking.groups import GROUPS, Candidate
from peerattn.models.transformer import PeerTransformerRegressor


@dataclass(eq=False, repr=False, kw_only=True)
class StackedPeerRegressor(AttentionRegressorMixin, AttentionOptions, PanelStack):
    r"""A stack of learners in the order of the information that they use; peers are what the last group adds.

    .. math:: \hat y_i = \text{ols}_i + \sum_m w_m (\hat y_{mi} - \text{ols}_i), \qquad w \ge 0, \; \sum_m w_m \le 1

    Learners m, with predictions :math:`\hat y_m`, are in groups: nonlinear own-firm models (the mean, curves with products,
    gradient boosting, forests), firm history (an empirical-Bayes firm effect, one with a trend, an autoregression, boosting
    with the firm's past), common shocks (slopes within periods; in a nowcast the period's mean, and shocks of codes and of
    pairs of codes), and peers (in a nowcast a learned covariance and the ridge across firms; attention heads). Each group is
    given weights by what it adds to the stack B of the groups before it, over held-out later periods of forward origins:

    .. math:: w = \Big(1 - \frac{\kappa^2}{\max_m t_m^2}\Big) \arg\min_{u \ge 0, \sum_m u_m \le 1}
              \sum_t L_t^{-1} \sum_i \Big(y_i - B_i - \sum_m u_m (\hat y_{mi} - B_i)\Big)^2

    with :math:`L_t` the mean loss of period t and :math:`t_m` the ratio of a learner's score to its clustered standard error.
    Slopes within periods add to B what they differ by from least squares, or take the place of its differences within periods. In
    forecasts of whole cross-sections peers have one weight for the differences within a period and, where that is positive, one
    for its mean. Where nothing is selected the prediction is least squares exactly, and the network is empty.

    Parameters
    ----------
    own : {"flexible", "linear", "none"} or scikit-learn estimator, default "flexible"
        Own-firm models. "flexible": the nonlinear own-firm models above; "linear": least squares alone; "none": predictions
        start from the mean outcome of training. An estimator takes the place of the nonlinear own-firm models.
    learners : sequence of (name, learner, information), optional
        Learners of your own, beside those above. ``information`` is what the learner uses: "own" (the firm's characteristics; any
        scikit-learn regressor, or a :class:`~peerattn.models.Learner`), "history", "common" or "peers" (a
        :class:`~peerattn.models.Learner`). It belongs to the group of that information, and is weighed as every other.
        ``("transformer", PeerTransformerRegressor(), "peers")`` is a transformer over firms beside the other peer learners.
    kappa : float, default 1.0
        Standard errors that a learner must exceed, a peer learner twice as many, common shocks of observed outcomes none.
    attention, task, similarity, prior, n_layers, n_heads, d_head, scale, codes, loss, purge, firm, period, random_state
        As in :class:`~peerattn.models.PeerAttentionRegressor`. A covariance is tried with the default ``similarity``, one layer,
        no ``prior`` and neither ``sample_weight`` nor ``peer_weight`` only. For other losses than the squared error the learners
        are least squares, curves, gradient boosting and heads.

    Attributes
    ----------
    evidence_ : DataFrame
        One row for each group (nonlinear, history, common, peers): ``factor``, the sum of its weights in the fitted stack (where
        there are several sums, the largest; of peers that of differences within periods); ``t`` of the score of what it adds;
        ``loss_reduction``, the relative fall of the held-out loss; the effective number of held-out ``periods``; tested or not,
        with the ``reason``; what was selected, with its weight.
    gain_ : DataFrame
        See :meth:`explain_gain`.
    stability_, heads_, prior_strength_, feature_names_
        As of :class:`~peerattn.models.PeerAttentionRegressor`.

    Notes
    -----
    With fewer than 50 rows of known outcome nothing is tested: least squares. A forecast needs three held-out periods (about
    eight in all) to test common shocks and peers.
    Firms without a past have weights of their own, estimated without the group of history: predictions, networks and
    contributions of these firms are by them, ``evidence_`` is of firms with a past.

    References
    ----------
    Breiman, L. (1996), Stacked regressions, Machine Learning 24(1); (1995), Better subset regression using the nonnegative
    garrote, Technometrics 37(4); Yuan, M. and Lin, Y. (2006), Model selection and estimation in regression with grouped
    variables, JRSS B 68(1): the weights.
    Harvey, Leybourne and Newbold (1998), Tests for forecast encompassing, JBES 16(2).

    Examples
    --------
    >>> from peerattn import simulate_panel
    >>> panel = simulate_panel(20, 12, 2, n_industries=2, random_state=0)
    >>> model = StackedPeerRegressor(task="nowcast", random_state=0).fit(panel.X, panel.y)
    >>> model.evidence_.index.tolist()
    ['nonlinear', 'history', 'common', 'peers']
    """

    own: Any = "flexible"
    learners: Sequence[tuple[str, Any, str]] = ()
    _parameter_constraints = AttentionOptions._parameter_constraints | {
        "own": [StrOptions({"flexible", "linear", "none"}), HasMethods(["fit", "predict"])],
        "learners": [list, tuple],
    }

    def _candidates(self, problem: Problem, draws: np.ndarray) -> list[Candidate]:
        if self.kappa is None:
            remedy = "PeerAttentionRegressor(kappa=None) has its heads in full."
            what = "a stack is weighed on held-out periods, expected standard errors of at least 0, got None"
            raise InputError(f"kappa: {what}. {remedy}")
        found = all_candidates(self, problem, draws)
        found += user_candidates([entry for entry in self.learners if not _is_transformer(entry)])
        for entry in filter(_is_transformer, self.learners):
            found.append(entry[1].as_learner(entry[0], problem, int(draws[1])))
        names = [each.name for each in found]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InputError(f"learners: more than one learner has the name {twice[0]!r}, yours or the stack's. Rename yours.")
        return sorted(found, key=lambda each: GROUPS.index(each.group))


def _is_transformer(entry: Any) -> bool:
    return isinstance(entry, tuple | list) and len(entry) == 3 and isinstance(entry[1], PeerTransformerRegressor)
