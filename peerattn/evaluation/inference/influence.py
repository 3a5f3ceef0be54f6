"""Weight against influence: what would change if a peer left the pool."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, validate_arguments
from peerattn.models.base import PanelEstimator
from peerattn.models.cross_section import CrossSection
from peerattn.network import PeerNetwork
from peerattn.render import Shown, Table, show_label
from peerattn.types import OutcomesLike, PanelLike


@dataclass(frozen=True, eq=False)
class Influence(Shown):
    """Every peer's influence on every firm's prediction, beside its weight.

    Attributes
    ----------
    network : PeerNetwork
        The weights α_ij.
    influence : PeerNetwork
        Signed: the change of i's prediction when j leaves i's pool, in units of the outcome.
    by_period : pandas.DataFrame
        Index ``period``; ``rank_correlation`` of weights and sizes of influence over all pairs, ``within_firm`` (mean over
        focal firms), ``top_peer`` (share of firms whose largest weight is also the largest influence), ``pairs``.
    """

    network: PeerNetwork
    influence: PeerNetwork
    by_period: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        """Return every pair's weight and influence, columns ``period, firm, peer, weight, influence``."""
        changes = self.influence.edges().rename(columns={"weight": "influence"})
        return self.network.edges().merge(changes, how="outer").fillna({"weight": 0.0, "influence": 0.0})

    def table(self) -> Table:
        """Return the agreement of weight and influence as a table."""
        rows = [(show_label(period) or "all", *values) for period, *values in self.by_period.itertuples()]
        title = "Weight against influence: the change of a prediction when the peer leaves"
        heads = ("Period", "Rank correlation", "Within firm", "Same top peer", "Pairs")
        note = "Where they differ a large weight explains nothing: a peer close to the average of the others may move nothing."
        return Table(title, heads, rows, formats=("", ".3f", ".3f", ".1%", ",.0f"), footnotes=(note,))

    def __repr__(self) -> str:
        means = self.by_period[["rank_correlation", "top_peer"]].mean()
        return f"Influence(rank correlation {means.iloc[0]:.3f}, same top peer {means.iloc[1]:.1%})"


@validate_arguments
def influence(model: PanelEstimator, X: PanelLike, *, outcomes: OutcomesLike = None, periods: Any = None) -> Influence:
    r"""Return how much each prediction would change were a peer not there, beside the peer's weight.

    .. math:: \delta_{ij} = \hat y_i - \hat y_i^{(-j)}

    where :math:`\hat y_i^{(-j)}` is what ``predict`` gives without j's row: all weights, in stacked layers all encodings, and in
    forecasts what heads add to the mean of a period, anew. It is exact, for any model of this package. Where that mean has a
    weight of its own, as in forecasts by attention, j moves the firms that put no weight on it by a little, too.

    Parameters
    ----------
    model : fitted estimator
        Learned attention, kernel, industry means, ridge.
    X : DataFrame or array-like
        As in ``peer_network``; peers must be rows of the call (not stored training rows, not a separate reference).
    outcomes : Series or array-like, optional
        As in ``peer_network``.
    periods : iterable of labels, optional
        Only these; default all.

    Returns
    -------
    Influence

    Raises
    ------
    InputError
        When the model is not of this package, or attends to rows that are not in the call.

    Notes
    -----
    One prediction of the whole cross-section for each peer, n in all: O(n³) a period. Meant for hundreds of firms.

    References
    ----------
    Jain and Wallace (2019), "Attention is not explanation", NAACL. Wiegreffe and Pinter (2019), "Attention is not not
    explanation", EMNLP.

    Examples
    --------
    >>> from peerattn import NadarayaWatsonRegressor, load_grunfeld
    >>> panel = load_grunfeld()
    >>> known = panel.y.notna()
    >>> model = NadarayaWatsonRegressor().fit(panel.X[["value", "capital"]][known], panel.y[known])
    >>> found = influence(model, panel.X[["value", "capital"]], outcomes=panel.y, periods=[1950])
    >>> found.by_period["pairs"].tolist()
    [110]
    """
    network = model.peer_network(X, outcomes=outcomes)
    if periods is not None:
        network = network.subset(periods=periods)
    _, sections = model._gate_call(X, outcomes)
    changes = {}
    for section in sections:
        if section.period is not None and section.period not in network.periods:
            continue
        if not (section.within and section.peers.label.isin(section.focal.label).all()):
            wording = "X: the model's peers are not in the call (they are training rows or a reference)"
            raise InputError(f"{wording}: pass outcomes=, or a model with attention='self' fitted on a panel.")
        changes[section.period] = _changes(model, section)
    moved = PeerNetwork.from_matrices(changes, name=f"influence in {network.name}", signed=True)
    rows = [_agreement(network.matrix(period), moved.matrix(period)) for period, _ in network.sections()]
    return Influence(network, moved, pd.DataFrame(rows, index=network.periods.rename("period")))


def _changes(model: PanelEstimator, section: CrossSection) -> tuple[pd.Index, pd.Index, np.ndarray]:
    """Firms, peers and δ (n_focal, n_peers) of one cross-section."""
    whole = model._attend(section)[0]
    admissible = section.admissible()
    delta = np.zeros((len(section.focal), len(section.peers)))
    for j, firm in enumerate(section.peers.label):
        # the firm is not there: the mean of its period, which forecasts use, is that of the others
        others = np.flatnonzero(section.focal.label != firm)
        smaller = section.take(others, np.arange(len(section.peers)) != j)
        attends = admissible[others, j]
        delta[others[attends], j] = (whole[others] - model._attend(smaller)[0])[attends]
    return section.focal.label, section.peers.label, delta


def _agreement(weights: pd.DataFrame, changes: pd.DataFrame) -> dict[str, float]:
    """Return how far weights and sizes of influence of one cross-section, firms by peers, agree."""
    # a firm without itself changes nothing
    other = np.asarray(changes.index)[:, None] != np.asarray(changes.columns)
    w, d = (part.reindex_like(changes).abs().where(other) for part in (weights, changes))
    ranks = pd.DataFrame({"weight": w.to_numpy()[other], "size": d.to_numpy()[other]}).rank()
    attends = (w > 0).any(axis=1)
    return {
        "rank_correlation": ranks["weight"].corr(ranks["size"], min_periods=3),
        "within_firm": w.rank(axis=1).corrwith(d.rank(axis=1), axis=1).mean(),
        "top_peer": (w[attends].idxmax(axis=1) == d[attends].idxmax(axis=1)).mean(),
        "pairs": int(other.sum()),
    }
