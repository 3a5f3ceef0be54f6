"""A learned network in a peer-effects regression: learned on one half of the periods, estimated on the other."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from peerattn.exceptions import GeneratedRegressorWarning, InputError
from peerattn.models.given_network import given_network
from peerattn.models.linear_in_means import LinearInMeansRegressor
from peerattn.panel.labels import within_or_before
from peerattn.panel.panel import Panel
from peerattn.panel.reading import as_panel
from peerattn.render import show_label
from peerattn.types import LabelsLike, OutcomesLike, PanelLike


def split_sample(
    learner: Any,
    X: PanelLike,
    y: OutcomesLike = None,
    *,
    until: Any = None,
    back: bool = False,
    firm: str = "firm",
    period: str = "period",
    codes: Any = (),
    **options: Any,
) -> LinearInMeansRegressor:
    """Estimate peer effects on a network that was learned from other outcomes than those explained.

    The learner is fitted on the periods up to ``until``; its network of the last of them is then fixed and taken as given in the
    linear-in-means model of the later ones. Of a kernel, which forecasts from training rows, it is that of the forecast: the
    weights of all training rows, added up by firm. A network that was learned from the outcomes it explains was chosen to fit
    them, and its peer effect is biased away from zero.

    Parameters
    ----------
    learner : estimator
        A peer model with ``peer_network``, such as ``PeerAttentionRegressor(task="nowcast")``; it is cloned.
    X : Panel or DataFrame
        Characteristics, indexed by firm and period.
    y : Series, optional
        Outcomes; a Panel holds its own.
    until : period label, optional
        The last period that is learned from; by default the first half of the periods is. Of a panel with ``known_at``
        only outcomes that are known by the next period are used.
    back : bool, default False
        Cross-fit: the network of the first half explains the second, that of the second half the first, in one regression
        over all periods. It needs outcomes that are not persistent given the effects, for the first half is explained by a
        network of later outcomes.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.
    codes : sequence of str, default ()
        Columns that are codes, in the regression.
    **options
        Of :class:`LinearInMeansRegressor`: ``effects``, ``cluster``, ``n_bootstrap``, ...

    Returns
    -------
    LinearInMeansRegressor
        Fitted on the later periods; ``results_`` holds the estimates.

    Raises
    ------
    InputError
        Where no period is left on one of the sides, or no outcome of the first is known by the other.

    Notes
    -----
    A firm that was not there in the last learned period has no peers, and leaves the estimates; going back, the first period of
    the later half gives the network. Signed networks (of a ridge, of a covariance) are used as they are, rows divided by the sum
    of their absolute weights. The network is a generated regressor: the errors are those given the network.
    ``benchmarks/learned_w.py`` has the size and the bias of both uses, and of the naive one, which learns and estimates on the
    same outcomes.

    References
    ----------
    Angrist, J. and Krueger, A. (1995), Split-sample instrumental variables estimates of the return to schooling, Journal of
    Business & Economic Statistics 13(2) (the idea of two samples).

    Examples
    --------
    >>> from peerattn.datasets import simulate_panel
    >>> from peerattn.models import IndustryPeerRegressor
    >>> panel = simulate_panel(60, 8, 2, truth="industry", n_industries=10, random_state=0)
    >>> model = split_sample(IndustryPeerRegressor(industry="industry"), panel.X, panel.y, codes=["industry"], peer_outcome=False)
    >>> model.results_.nobs, str(model.learned_until)[:7]
    (240, '2000-04')
    """
    if not hasattr(learner, "peer_network"):
        raise InputError(f"learner: expected a model with peer_network, got {type(learner).__name__}.")
    whole = as_panel(X, y, firm=firm, period=period, codes=codes).sorted()
    if not whole.dated or whole.outcomes is None:
        raise InputError("split_sample takes a panel with firm and period, and outcomes.")
    periods = whole.period.unique()
    if until is None:
        until = periods[(len(periods) - 1) // 2]
    early = within_or_before(whole.period, until)
    end = show_label(until)
    if early.all() or not early.any():
        side = "later" if early.all() else "earlier"
        span = " to ".join(map(show_label, periods[[0, -1]]))
        raise InputError(f"until={end} leaves no {side} period: X has {span}.")
    options |= {"codes": tuple(codes), "firm": firm, "period": period}
    second = whole.take(~early)
    first = whole.before(second.period.min())
    observed = first.y.notna().to_numpy()
    if not observed.any():
        raise InputError(f"known_at: no outcome up to until={end} is known by the next period. Name a later until=.")
    # the last period of which an outcome is known: without one a nowcast has no candidate peers
    forward = _learned(learner, first, first.period[observed].max())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GeneratedRegressorWarning)  # expected here
        if not back:
            fixed = given_network(forward, signed=True)
            return LinearInMeansRegressor(network=fixed, learned_until=until, **options).fit(second)
        backward = _learned(learner, second, second.period.min())
        before = within_or_before(periods, until)
        starts = np.array([True, *(before[1:] != before[:-1])])
        if isinstance(periods[0], str):  # text has no order of time: a network for each
            starts[:] = True
        of_each = dict.fromkeys(periods[starts & before], backward) | dict.fromkeys(periods[starts & ~before], forward)
        network = given_network(of_each, signed=True).replaced(learned_until=None)  # each from the other half
        return LinearInMeansRegressor(network=network, **options).fit(whole)


def _learned(learner: Any, panel: Panel, period: LabelsLike) -> pd.DataFrame:
    """Return the weights in one period of a learner fitted on a panel."""
    fitted = clone(learner).fit(panel)
    requested = panel.take(panel.period == period)
    observed = {"outcomes": requested.y} if getattr(fitted, "needs_outcomes", False) else {}
    network = fitted.peer_network(requested, **observed)
    return network.matrix(network.periods[0])
