"""Fixed industry peers: the mean, or the median, of the outcomes of the firms that share a code."""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.utils._param_validation import Interval, StrOptions

from peerattn.exceptions import CodeWarning, InputError, check_names, warn_user
from peerattn.models.base import Encoded, PanelEstimator
from peerattn.models.cross_section import CrossSection, Rows, means_of_others
from peerattn.models.mixins import PanelRegressorMixin
from peerattn.network import PeerNetwork
from peerattn.options import COLUMN
from peerattn.panel.codes import check_sic, code_scheme, fault_of_codes, nested_codes, sic_to_fama_french
from peerattn.panel.design import Design, weighted_median
from peerattn.panel.panel import Panel
from peerattn.types import OutcomesLike, PanelLike

_LEVELS = {"sic": (4, 3, 2, 1), "naics": (6, 5, 4, 3, 2), "gics": (8, 6, 4, 2)}
FAMA_FRENCH_SCHEMES: dict[str, Literal[12, 48, 49]] = {"ff12": 12, "ff48": 48, "ff49": 49}
LEAVE_ONE_OUT = "leave_one_out"
SHRINKAGES = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
UNKNOWN = -1


@dataclass(frozen=True)
class Groups:
    """The groups of focal rows at every level, from the finest to all firms.

    Attributes
    ----------
    levels : tuple of int
        Digits.
    groups : tuple of (ndarray, ndarray)
        Integer group of focal and of peer rows, at each level.
    means, counts : ndarray (levels, n_focal)
        Mean of the other firms in the group, and their number; 0 where there are too few.
    unknown : ndarray (n_focal,) of bool
        The code is unknown.
    default : float
        Prediction without any peer.
    """

    levels: tuple[int, ...]
    groups: tuple[tuple[np.ndarray, np.ndarray], ...]
    means: np.ndarray
    counts: np.ndarray
    unknown: np.ndarray
    default: float

    @property
    def level(self) -> np.ndarray:
        """Digits of the finest group with peers; −1 = unknown code or no peer."""
        digits = np.array(self.levels)[np.argmax(self.counts > 0, axis=0)]
        return np.where(self.unknown | ~(self.counts > 0).any(axis=0), UNKNOWN, digits)

    def shares(self, shrinkage: float) -> np.ndarray:
        """Return what each level counts, (levels, n_focal): ``n / (n + k)`` of what finer levels leave.

        The coarsest takes all that is left.
        """
        left = np.ones(self.counts.shape[1])
        shares = np.zeros(self.counts.shape)
        coarser = np.cumsum((self.counts > 0)[::-1], axis=0)[::-1] > 1  # some wider group has peers
        for level, count in enumerate(self.counts):
            used = np.where(coarser[level], count / np.maximum(count + shrinkage, 1e-300), 1.0) * (count > 0)
            shares[level] = left * used
            left = left - shares[level]
        return shares

    def mean(self, shrinkage: float) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions, and which rows have no peer of their own code's."""
        shares = self.shares(shrinkage)
        predicted = (shares * self.means).sum(axis=0)
        return np.where(shares.any(axis=0), predicted, self.default), self.level == UNKNOWN


@dataclass(eq=False, repr=False, kw_only=True)
class IndustryPeerRegressor(PanelRegressorMixin, PanelEstimator):
    """Mean outcome of the firms in the same industry, own firm left out, shrunk towards the broader industry.

    ``ŷ_i = Σ_j α_ij y_j`` with ``α_ij = 1[g_j = g_i, j ≠ i] / Σ_k 1[g_k = g_i, k ≠ i]``: attention with a score of 0 inside the
    industry and −∞ outside. Where fewer than ``min_peers`` firms share the full code the group widens, digit by digit (SIC:
    4, 3, 2, 1), and at last to all firms. With ``shrinkage`` k, a group of n peers counts n / (n + k), the broader
    group the rest.

    Parameters
    ----------
    industry : str, optional
        Column of ``X`` with the code. None: all firms are peers; ``scheme="plain"`` declares that this is meant where X has a
        column ``sic``, ``naics`` or ``gics``.
    scheme : {"auto", "sic", "naics", "gics", "ff12", "ff48", "ff49", "plain"}, default "auto"
        How codes nest; "auto" reads it from the column's name. "ff12", "ff48", "ff49": the Fama–French industry of a SIC code.
        "plain" codes do not nest: the group widens to all firms.
    min_peers : int, default 1
        Fewest peers (firms; own excluded where outcomes of the period are observed) that make a group.
    shrinkage : float or "leave_one_out", default 0
        k, in peers. "leave_one_out": of 0, 1, 2, 5, 10, 20, 50, 100, 200 the one with the least squared error over the
        training periods, each firm predicted from the others of its period.
    value_weight : str, optional
        Column of ``X`` by which peers are weighted, such as market value; where it is missing, the period's median. Positive.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    levels_ : tuple of int
        Digits tried, from the finest; 0 = all firms.
    shrinkage_ : float
        k in use.

    Notes
    -----
    ``predict(X)`` averages training outcomes over all training periods, the firm's own past among them (left out, it would
    reverse the order of firms); ``predict(X, outcomes=y)`` the same period's, own firm left out. A firm whose code is unknown
    is listed in ``peer_network(X).isolates``; its prediction is the mean of all other firms, or of training where there are none.
    Group sums make a call O(n) in time and memory. Codes may change over time: each row counts for its own code.
    ``min_peers`` and ``shrinkage`` count rows: one of frequency weight 2 is one of them, and counts twice in the mean.

    References
    ----------
    Bhojraj, S., Lee, C. M. C. and Oler, D. K. (2003), What's my line? A comparison of industry classification schemes for
    capital market research, Journal of Accounting Research 41(5).
    Vasicek, O. A. (1973), A note on using cross-sectional information in Bayesian estimation of security betas, Journal of
    Finance 28(5): shrinkage of an estimate towards that of its group.

    Examples
    --------
    >>> X = pd.DataFrame({"firm": list("ABC"), "period": 2001, "sic": [3711, 3711, 3721]})
    >>> y = [1.0, 3.0, 5.0]
    >>> model = IndustryPeerRegressor(industry="sic").fit(X, y)
    >>> model.predict(X, outcomes=y).tolist()
    [3.0, 1.0, 2.0]
    >>> IndustryPeerRegressor(industry="sic", shrinkage=1.0).fit(X, y).predict(X, outcomes=y).round(3).tolist()
    [3.25, 1.5, 2.0]
    """

    industry: str | None = None
    scheme: str = "auto"
    min_peers: int = 1
    shrinkage: str | float = 0.0
    value_weight: str | None = None
    firm: str = "firm"
    period: str = "period"

    _parameter_constraints = PanelEstimator._parameter_constraints | {
        "scheme": [StrOptions({"auto", "plain", *_LEVELS, *FAMA_FRENCH_SCHEMES})],
        "min_peers": [Interval(Integral, 1, None, closed="left")],
        "shrinkage": [StrOptions({LEAVE_ONE_OUT}), Interval(Real, 0, None, closed="left")],
        "value_weight": [*COLUMN, None],
    }
    _isolates_get = "the mean of all other firms, or of training where there are none"
    _learns_network = False

    def peer_levels(self, X: PanelLike, *, outcomes: OutcomesLike = None) -> np.ndarray:
        """Return how many digits of the code each row's finest group shares (0 = all firms, −1 = unknown code), (n,)."""
        panel, sections = self._gate_call(X, outcomes)
        return panel.restore(np.concatenate([self._groups(section).level for section in sections]))

    def _encode(self, panel: Panel, weight: np.ndarray | None, *, fitting: bool) -> Encoded:
        if fitting:
            self._check_parameters(panel)
        x = np.empty((len(panel), 0))
        if self.value_weight is not None:
            check_names("value_weight", "characteristic", [self.value_weight], panel.characteristics)
            if fitting:
                self.design_ = Design.fit(panel, weight=weight, characteristics=[self.value_weight])
            x = self.design_.filled(panel)
            if not (x > 0).all():
                least = f"{self.value_weight!r} must be positive, got {x.min():g}"
                raise InputError(f"value_weight: column {least}.")
        if self.industry is None:
            return x, np.full((len(panel), 1), "", dtype=object)
        codes = panel.codes[self.industry]
        if self.scheme in FAMA_FRENCH_SCHEMES:
            codes = sic_to_fama_french(codes, FAMA_FRENCH_SCHEMES[self.scheme])
        elif self.nested_:
            codes = nested_codes(codes, self._nesting)
        return x, codes.astype(object).where(codes.notna(), None).to_numpy()[:, None]

    def _rows(self, panel: Panel, x: np.ndarray, codes: np.ndarray, weight: np.ndarray | None = None) -> Rows:
        if self.value_weight is not None:
            value = x[:, 0]
            weight = value if weight is None else weight * value
        return super()._rows(panel, x, codes, weight)

    @property
    def _nesting(self) -> str:
        """How codes nest, by the column's name where ``scheme`` leaves it open."""
        if self.scheme == "auto":
            return code_scheme(self.industry)
        return self.scheme

    def _check_parameters(self, panel: Panel) -> None:
        codes = [name for name in panel.columns if code_scheme(name) != "plain"]
        if self.industry is None and self.scheme != "plain" and codes:
            found = f"industry=None averages all firms, but column {codes[0]!r} looks like an industry code"
            remedy = f'pass industry={codes[0]!r}, or scheme="plain" where the mean of all firms is meant.'
            warn_user(CodeWarning(f"{found}: {remedy}"))
        self.nested_ = self._nesting in _LEVELS
        self.levels_: tuple[int, ...] = (0,)
        if self.industry is None:
            return
        if self.scheme in FAMA_FRENCH_SCHEMES:
            check_sic(panel.codes[self.industry], self.scheme)
        if self.nested_ and self.scheme == "auto" and (fault := fault_of_codes(panel.codes[self.industry], self._nesting)):
            # names of sectors in a column called GICS are industries, of which none is part of another
            warn_user(CodeWarning(f'{self.industry}: {fault}. Codes are taken as they are, as with scheme="plain".'))
            self.nested_ = False
        self.levels_ = (1, 0)
        if self.nested_:
            self.levels_ = (*_LEVELS[self._nesting], 0)

    def _learn(self, training: Rows, panel: Panel) -> None:
        self._keep_known(training)
        if self.shrinkage != LEAVE_ONE_OUT:
            self.shrinkage_ = float(self.shrinkage)
            return
        # each firm is predicted from the others of its period, so that no outcome chooses its own shrinkage
        errors = np.zeros(len(SHRINKAGES))
        for section in self._within(panel, training, warn=False):
            groups = self._groups(section)
            focal = section.focal
            errors += [np.nansum(focal.loss_weights * (groups.mean(k)[0] - focal.outcomes) ** 2) for k in SHRINKAGES]
        self.shrinkage_ = float(SHRINKAGES[int(np.argmin(errors))])

    @property
    def _reads_characteristics(self) -> bool:
        return self.industry is not None

    # ------------------------------------------------------------------ group sums

    def _groups(self, section: CrossSection) -> Groups:
        focal = section.focal
        peers = section.peers
        found = []
        column = pd.Series(np.concatenate([focal.codes, peers.codes])[:, 0], dtype=object)
        for digits in self.levels_:
            keys = column
            fewest = self.min_peers
            if not digits:  # all firms are one group, however few
                keys = pd.Series("", column.index)
                fewest = 1
            elif self.nested_:
                keys = column.str[:digits]
            group = pd.factorize(keys)[0]  # −1 = unknown
            mine, theirs = np.split(group, [len(focal)])
            mean, count = means_of_others(mine, focal.identity, theirs, peers.identity, peers.outcomes, peers.weight)
            found.append(((mine, theirs), mean, np.where(count >= fewest, count, 0)))
        groups, means, counts = zip(*found, strict=True)
        return Groups(self.levels_, groups, np.array(means), np.array(counts), pd.isna(focal.codes[:, 0]), self.mean_)

    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        return self._groups(section).mean(self.shrinkage_)

    def _weights(self, section: CrossSection, rows: slice) -> np.ndarray:
        groups = self._groups(section)
        shares = groups.shares(self.shrinkage_)[:, rows] * (groups.level[rows] != UNKNOWN)
        counted = section.admissible(rows) * section.peers.counts
        W = np.zeros(counted.shape)
        for share, (mine, theirs) in zip(shares, groups.groups, strict=True):
            here = share > 0
            block = (mine[rows][here, None] == theirs[None, :]) * counted[here]
            total = block.sum(axis=1, keepdims=True)
            W[here] += share[here, None] * np.divide(block, total, out=block, where=total > 0)
        return W


@dataclass(eq=False, repr=False, kw_only=True)
class IndustryMedianRegressor(IndustryPeerRegressor):
    r"""Median outcome of the firms in the same industry, own firm left out.

    .. math:: \hat y_i = \operatorname{median}\{y_j : g_j = g_i,\ j \ne i\},

    the valuation by comparables of practice. Where fewer than ``min_peers`` firms share the code the group widens as in
    :class:`IndustryPeerRegressor`. The weights are 1 on the middle peer, or ½ on each of the two middle ones, which are
    chosen by their outcomes.

    Parameters
    ----------
    industry, scheme, min_peers, firm, period
        As in :class:`IndustryPeerRegressor`; ``min_peers=1`` by default.
    shrinkage, value_weight
        Not used with a median; other values than the defaults raise an error.

    Notes
    -----
    Time: of each group its members squared. Of peers that are the same firm (training rows of several periods) each row
    counts.

    References
    ----------
    Liu, J., Nissim, D. and Thomas, J. (2002), Equity valuation using multiples, Journal of Accounting Research 40(1), 135–172.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"firm": list("ABCDEF"), "period": 2001, "sic": [3711] * 4 + [2834] * 2})
    >>> y = [1.0, 3.0, 5.0, 100.0, 7.0, 9.0]
    >>> IndustryMedianRegressor(industry="sic").fit(X, y).predict(X, outcomes=y).tolist()
    [5.0, 5.0, 3.0, 3.0, 9.0, 7.0]
    """

    _learns_network = True  # outcomes choose its peers

    def _network(self, sections: Iterator[CrossSection], *given: Any, **options: Any) -> PeerNetwork:
        """Return the network of cross-sections, learned from the outcomes of every period."""
        network = super()._network(sections, *given, **options)
        if not network.is_dated:
            return network
        return network.replaced(learned_until=network.periods.max())

    def _check_parameters(self, panel: Panel) -> None:
        for name, plain in (("shrinkage", 0.0), ("value_weight", None)):
            if (given := getattr(self, name)) != plain:
                raise InputError(f"{name}: not used with a median, got {given!r}; leave it out.")
        super()._check_parameters(panel)

    def _learn(self, training: Rows, panel: Panel) -> None:
        super()._learn(training, panel)
        rows = training.known()
        self.mean_ = weighted_median(rows.outcomes, rows.counts)

    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        peers = section.peers.outcomes
        groups = self._groups(section)
        predicted = np.empty(len(section.focal))
        for rows in section.chunks():
            weights = self._middle(section, rows, groups)
            predicted[rows] = np.where(weights.any(axis=1), weights @ peers, self.mean_)
        return predicted, groups.level == UNKNOWN

    def _weights(self, section: CrossSection, rows: slice) -> np.ndarray:
        groups = self._groups(section)
        weights = self._middle(section, rows, groups)
        weights[groups.level[rows] == UNKNOWN] = 0.0
        return weights

    def _middle(self, section: CrossSection, rows: slice, groups: Groups) -> np.ndarray:
        """Return weights on the middle peers of each row's finest group, (n_rows, n_peers)."""
        peers = section.peers.outcomes
        finest = np.argmax(groups.counts[:, rows] > 0, axis=0)
        counted = section.admissible(rows) * section.peers.counts
        order = np.argsort(peers, kind="stable")
        weights = np.zeros(counted.shape)
        for level, (mine, theirs) in enumerate(groups.groups):
            here = np.flatnonzero((finest == level) & (groups.counts[level, rows] > 0))
            for group in np.unique(mine[rows][here]):
                focal = here[mine[rows][here] == group]
                members = order[theirs[order] == group]  # by outcome
                present = counted[np.ix_(focal, members)]
                for at in middle_of(present):
                    np.add.at(weights, (focal, members[at]), 0.5 * present.any(axis=1))
        return weights


def middle_of(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the lower and the upper median of sorted values with these weights, one pair a row."""
    reached = np.cumsum(weight, axis=1)
    half = weight.sum(axis=1, keepdims=True) / 2
    return (reached >= half).argmax(axis=1), (reached > half).argmax(axis=1)
