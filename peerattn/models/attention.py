"""Learned peers: self- and cross-attention over the firms of a panel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError
from peerattn.models.base import PeerRegressor
from peerattn.models.batches import row_tensors, score_bias
from peerattn.models.estimation import Estimate, Settings, estimate
from peerattn.models.options import check_options
from peerattn.models.peer_module import PeerModule, PeerSpec
from peerattn.models.pools import Rows, Section, identities
from peerattn.models.reference import Reference
from peerattn.models.search_profile import SearchProfile
from peerattn.network import PeerNetwork
from peerattn.panel.encoding import CodeBook, Imputation
from peerattn.panel.gate import Panel

MIN_PERIODS_FOR_VALIDATION = 8
VALIDATION_SHARE = 0.2
MIN_ARRAY_STEPS = 100
D_CODE = 4


class PeerAttentionRegressor(PeerRegressor):
    r"""Attention over a cross-section of firms: whom does each firm learn from?

    .. math:: \hat y_i = \beta' x_i + \sum_h \sum_{j \in \text{pool}(i)} \alpha^h_{ij} v^h_j, \qquad
              \alpha^h_{ij} = \frac{\exp(x_i' W^h_Q W^{h\prime}_K x_j / \sqrt d)}{\sum_{k} \exp(x_i' W^h_Q W^{h\prime}_K x_k / \sqrt d)}

    where :math:`W_Q' x_i` is the search criterion of firm i, :math:`W_K' x_j` the profile of firm j and :math:`v_j` its information.
    The pool is the firm's own period, own firm left out; weights differ by direction, :math:`\alpha_{ij} \ne \alpha_{ji}`.

    Parameters
    ----------
    attention : {"self", "cross"}, default "self"
        "self": every firm of the cross-section searches and is searched. "cross": firms search a separate reference universe
        (``fit(X, y, reference=...)``).
    values : {"characteristics", "outcomes"}, default "characteristics"
        Information of a peer: a linear function of its characteristics (a forecast), or its outcome (valuation by comparable
        firms, nowcasting; then ``predict`` on a panel needs ``outcomes=``).
    exclude_self : bool, default True
        Leave the own firm out of its pool. False is the textbook softmax over all firms (characteristics only).
    own : {"linear", "none"}, default "linear"
        The firm's own term.
    n_layers : int, default 1
        Layers of attention; all but the last encode characteristics (peers of peers).
    n_heads : int, default 16
        Heads at the start; pruning decides how many remain.
    d_head : int, default 8
        Width of search criterion and profile.
    scale : {"standard", None}, default "standard"
        Standardise characteristics with the training rows' mean and standard deviation.
    codes : sequence of str
        Columns that are codes; columns of dtype category or string are codes in any case. Each enters as one-hot times a
        learned embedding, with a row for "unknown".
    alpha : float, default 0.02
        Group penalty on the length of each head's value vector, while all heads train together.
    prune : bool, default True
        Halve the heads by importance, with fine-tuning; the validation block (or BIC) decides how many remain.
    max_steps : int, default 800
        Steps with all heads; each fine-tuning takes a quarter of it. Arrays take a step a row where that is fewer (at least 100).
    queries_per_step : int, default 256
        Focal firms of a period drawn in one step; keys are always the full pool.
    learning_rate : float, default 0.01
        Peak of the one-cycle schedule.
    validation_periods : int, optional
        Last training periods that decide on the heads; default a fifth, none under 8 training periods and on arrays.
    refit : bool, default True
        Fine-tune on all training periods after the validation block has decided.
    firm, period : str
        Names of the index levels (or columns) with the labels.
    dtype : {"auto", "float32", "float64"}, default "auto"
        Of training: float64 for arrays, float32 for panels. Predictions are always computed in float64.
    device : str, default "cpu"
        Where training runs.
    random_state : int, RandomState or None
        Initial values and order of the periods.
    verbose : bool, default False
        Show a progress bar.

    Attributes
    ----------
    heads_ : DataFrame
        Every head with its importance (standard deviation of its contribution, in units of the outcome) and whether it was kept.
    head_share_ : ndarray (n_kept,)
        Share of each kept head in the network.
    pruning_path_ : DataFrame
        Number of heads against the loss that decided.
    feature_names_ : list of str
        What heads see: characteristics, missing indicators, code dimensions.

    Notes
    -----
    Weights are predictive relevance, not causal peer effects (Manski 1993: common shocks and reflection). Missing
    characteristics take the median of their cross-section, with an indicator. Rows of unknown outcome are peers without loss.
    A step costs O(queries × firms × heads).

    References
    ----------
    Vaswani et al. (2017), Attention is all you need. Michel, Levy and Neubig (2019), Are sixteen heads really better than one?
    Manski (1993), Identification of endogenous social effects, Review of Economic Studies 60(3).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> index = pd.MultiIndex.from_product([range(20), range(2000, 2010)], names=["firm", "period"])
    >>> X = pd.DataFrame(rng.normal(size=(200, 2)), index=index, columns=["size", "leverage"])
    >>> y = X["size"] + 0.1 * rng.normal(size=200)
    >>> model = PeerAttentionRegressor(n_heads=2, max_steps=100, random_state=0).fit(X, y)
    >>> model.predict(X).index.equals(X.index)
    True
    """

    def __init__(
        self,
        *,
        attention: str = "self",
        values: str = "characteristics",
        exclude_self: bool = True,
        own: str = "linear",
        n_layers: int = 1,
        n_heads: int = 16,
        d_head: int = 8,
        scale: str | None = "standard",
        codes: Sequence[str] = (),
        alpha: float = 0.02,
        prune: bool = True,
        max_steps: int = 800,
        queries_per_step: int = 256,
        learning_rate: float = 0.01,
        validation_periods: int | None = None,
        refit: bool = True,
        firm: str = "firm",
        period: str = "period",
        dtype: str = "auto",
        device: str = "cpu",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.attention = attention
        self.values = values
        self.exclude_self = exclude_self
        self.own = own
        self.n_layers = n_layers
        self.n_heads = n_heads
        self.d_head = d_head
        self.scale = scale
        self.codes = codes
        self.alpha = alpha
        self.prune = prune
        self.max_steps = max_steps
        self.queries_per_step = queries_per_step
        self.learning_rate = learning_rate
        self.validation_periods = validation_periods
        self.refit = refit
        self.firm = firm
        self.period = period
        self.dtype = dtype
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ the public calls

    @property
    def reads_outcomes(self) -> bool:
        """Whether ``predict`` can take ``outcomes=``."""
        return self.values == "outcomes" and self.attention == "self"

    @property
    def needs_outcomes(self) -> bool:
        """Whether ``predict`` on a panel must be given ``outcomes=``."""
        return self.reads_outcomes

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, reference: Any = None) -> Self:
        """Fit on training rows.

        Parameters
        ----------
        X : DataFrame (n, p) indexed by (firm, period), or array-like
            Characteristics and codes; without firm and period ``X`` is one cross-section.
        y : Series or array-like (n,)
            Outcome. In a panel NaN means unknown: the row stays a peer and carries no loss.
        sample_weight : array-like (n,), optional
            Frequency weights: a weight of 2 equals the row twice; it never brings the own firm back into its pool.
        reference : Reference, frame, or pair (X_ref, y_ref), optional
            The firms that answer, for ``attention="cross"``; raw, in the columns of ``X``.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For bad options (the message names both of a bad pair), input that cannot be used, or a missing reference.
        """
        check_options(self)
        if (self.attention == "cross") != (reference is not None):
            raise InputError(
                'attention="cross" needs reference=: the firms that answer, a frame or (X_ref, y_ref).'
                if reference is None
                else f'reference= was given but attention="{self.attention}": use attention="cross", or pass reference= to predict.'
            )
        panel, training = self._gate_training(X, y, sample_weight)
        training = self._standardise_outcomes(training)
        self.reference_ = None if reference is None else self._reference_rows(reference)
        self._learn(training, panel)
        return self

    def predict(self, X: Any, *, outcomes: Any = None, reference: Any = None) -> np.ndarray | pd.Series:
        """Predict the outcome of each row.

        Parameters
        ----------
        X : DataFrame or array-like (n, p)
            A panel's rows look to the other rows of their period *in this call*; arrays look to the training rows.
        outcomes : Series or array-like (n,), optional
            Outcomes of the rows of ``X``, for ``values="outcomes"``: each firm is predicted from those of the others, never its
            own; NaN = unknown.
        reference : Reference, frame, or pair (X_ref, y_ref), optional
            Cross-attention: the universe to search instead of fit's. Self-attention on a panel: further firms to search.

        Returns
        -------
        Series on ``X``'s index when ``X`` carries firm and period, else ndarray (n,); never NaN.
        """
        panel, sections = self._gate_call(X, outcomes, reference)
        return self._predict_sections(panel, sections)

    def peer_network(
        self, X: Any, *, outcomes: Any = None, reference: Any = None, head: int | None = None
    ) -> PeerNetwork:
        """Return whom each firm looks to in :meth:`predict` called with the same arguments.

        Parameters
        ----------
        X, outcomes, reference
            As in :meth:`predict`.
        head : int, optional
            One of the kept heads (a row of ``heads_``); by default heads are averaged by their share of contribution.

        Returns
        -------
        PeerNetwork
            ``W[i, j]`` is the weight firm *i* puts on peer *j*; rows sum to one. All firms are isolates when no head was kept.
        """
        _, sections = self._gate_call(X, outcomes, reference)
        shares = self.head_share_
        if head is not None:
            kept = list(self.kept_heads_)
            if head not in kept:
                raise InputError(f"head: {head} was not kept; kept heads are {kept}.")
            shares = np.eye(len(kept))[kept.index(head)]
        return self._network(sections, partial(self._weights, shares=shares))

    def search_profile(self) -> SearchProfile:
        """Return which characteristic of i looks for which characteristic of j, for every kept head."""
        check_is_fitted(self, "state_")
        if self.n_layers > 1:
            raise InputError(f"search_profile() names characteristics, but n_layers={self.n_layers} mixes them: use n_layers=1.")
        module = self._module()
        heads = [
            pd.DataFrame(
                (q @ k.T).detach().numpy() / np.sqrt(self.d_head), index=self.feature_names_, columns=self.feature_names_
            )
            for q, k in zip(module.query, module.key, strict=True)
        ]
        values = module.per_head()[2].detach().numpy() * self.y_scale_
        return SearchProfile(tuple(heads), values, tuple(self.kept_heads_), self.head_share_)

    # ------------------------------------------------------------------ rows and pools

    def _code_columns(self) -> tuple[str, ...]:
        return tuple(self.codes)

    def _encode(self, panel: Panel, weight: np.ndarray | None, *, fitting: bool) -> tuple[np.ndarray, np.ndarray]:
        if fitting:
            self.imputation_ = Imputation.fit(panel, weight)
            self.code_book_ = CodeBook.fit(panel.codes)
            x = self.imputation_.transform(panel)
            self.center_, self.spread_ = np.zeros(x.shape[1]), np.ones(x.shape[1])
            if self.scale == "standard":
                self.center_ = np.average(x, axis=0, weights=weight)
                spread = np.sqrt(np.average((x - self.center_) ** 2, axis=0, weights=weight))
                self.spread_ = np.where(spread > 1e-12 * (1 + np.abs(self.center_)), spread, 1.0)
        x = (self.imputation_.transform(panel) - self.center_) / self.spread_
        return x, self.code_book_.transform(panel.codes)

    def _reference_rows(self, reference: Any) -> tuple[Panel, Rows]:
        given = Reference.of(reference)
        if (given.y is None) == (self.values == "outcomes"):
            raise InputError(
                'values="outcomes" needs the reference\'s outcomes: reference=(X_ref, y_ref).'
                if given.y is None
                else 'reference=(X_ref, y_ref) carries outcomes, but values="characteristics" reads none: pass X_ref alone.'
            )
        panel, rows = self._gate_rows(given.X, given.y, undated=True)
        rows = replace(rows, y=None if rows.y is None else (rows.y - self.y_center_) / self.y_scale_)
        return panel, rows

    def _gate_call(self, X: Any, outcomes: Any, reference: Any = None) -> tuple[Panel, Iterator[Section]]:
        check_is_fitted(self, "state_")
        if outcomes is not None and not self.reads_outcomes:
            raise InputError(
                'outcomes= was given, but values="characteristics" reads no outcomes: use values="outcomes".'
                if self.values == "characteristics"
                else 'outcomes= was given, but attention="cross" reads the outcomes of the reference: pass reference=(X_ref, y_ref).'
            )
        panel, call = self._gate_rows(X, outcomes)
        self._warn_of_lost_periods(panel)
        if outcomes is not None:
            call = replace(call, y=(call.y - self.y_center_) / self.y_scale_)
        return panel, self._pools(panel, call, outcomes is not None, reference)

    def _pools(self, panel: Panel, call: Rows, told: bool, reference: Any) -> Iterator[Section]:
        extra = self.reference_ if reference is None else self._reference_rows(reference)
        if self.attention == "cross":
            assert extra is not None
            return self._among_reference(panel, call, *extra)
        if not self.dated_ and not told:
            if reference is not None:
                raise InputError("reference: a model fitted on arrays looks to its training rows; use attention=\"cross\".")
            return self._against_training(panel, call)
        if self.values == "outcomes" and not told:
            raise InputError('values="outcomes" on a panel predicts from the peers\' outcomes: pass outcomes=.')
        sections = self._within(panel, call, known=told)
        if extra is not None:
            sections = self._joined(sections, *extra)
        return sections if self.exclude_self else (replace(s, focal=s.focal.anonymous()) for s in sections)

    def _among_reference(self, panel: Panel, call: Rows, universe: Panel, rows: Rows) -> Iterator[Section]:
        """The reference is the pool: of the same period where it is dated; the focal firm is left out by label."""
        call, rows = _identify(panel, call, universe, rows)
        if not self.exclude_self:
            call = call.anonymous()
        pools = _by_period(universe, rows)
        for period, at in panel.cross_sections():
            peers = pools.get(period, rows.take(slice(0, 0))) if universe.dated else rows
            focal = call.take(at)
            yield Section(
                period if panel.dated else None, at, focal, peers.known() if self.values == "outcomes" else peers, within=True
            )

    def _joined(self, sections: Iterator[Section], universe: Panel, rows: Rows) -> Iterator[Section]:
        """Add the reference rows of the same period to each pool."""
        if universe.firm is None:
            raise InputError(f"reference: firms are needed to leave the own firm out, but it carries no {self.firm!r}.")
        pools = _by_period(universe, rows)
        for section in sections:
            more = pools.get(section.period) if universe.dated else rows
            if more is not None:
                more = more.take(~more.label.isin(section.peers.label))
                mine, theirs, extra = identities(section.focal.label, section.peers.label, more.label)
                peers = replace(section.peers, identity=theirs).joined(replace(more, identity=extra))
                section = replace(section, focal=replace(section.focal, identity=mine), peers=peers)
            yield section

    # ------------------------------------------------------------------ learning

    def _standardise_outcomes(self, training: Rows) -> Rows:
        """Learn mean and standard deviation of the known outcomes; models train in these units."""
        assert training.y is not None
        known = np.isfinite(training.y) & (True if training.weight is None else training.weight > 0)
        weight = None if training.weight is None else training.weight[known]
        self.y_center_ = float(np.average(training.y[known], weights=weight))
        spread = float(np.sqrt(np.average((training.y[known] - self.y_center_) ** 2, weights=weight)))
        self.y_scale_ = spread if spread > 0 else 1.0
        return replace(training, y=(training.y - self.y_center_) / self.y_scale_)

    def _learn(self, training: Rows, panel: Panel) -> None:
        sections, blocks = self._training_sections(training, panel)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        spec = PeerSpec(
            training.x.shape[1],
            tuple(len(levels) for levels in self.code_book_.levels.values()),
            D_CODE,
            self.n_heads,
            self.d_head,
            self.n_layers,
            self.values,
            self.own,
        )
        self.training_rows_ = training if not panel.dated and self.attention == "self" else None
        n_rows = sum(len(s.focal) if s.focal.weight is None else s.focal.weight.sum() for s in sections)
        self._store(estimate(spec, sections, blocks, self._settings(panel.dated, float(n_rows)), seed))

    def _training_sections(self, training: Rows, panel: Panel) -> tuple[list[Section], list[Section]]:
        """Return training and validation sections: focal rows are those of known outcome."""
        if training.weight is not None and not panel.dated:
            training = training.take(training.weight > 0)
            everyone: Iterator[Section] = iter([Section(None, slice(0, len(training)), training.anonymous(), training, True, True)])
        elif self.attention == "cross":
            assert self.reference_ is not None
            everyone = self._among_reference(panel, training, *self.reference_)
        else:
            everyone = self._within(panel, training, known=self.values == "outcomes")
            if not self.exclude_self:
                everyone = (replace(s, focal=s.focal.anonymous()) for s in everyone)
        sections = []
        for section in everyone:
            focal = section.focal.known()
            if focal.weight is not None:
                focal = focal.take(focal.weight > 0)
                peers = section.peers
                if peers.weight is not None:
                    section = replace(section, peers=peers.take(peers.weight > 0))
            if len(focal):
                sections.append(replace(section, focal=focal))
        held_out = self._n_validation(len(sections)) if panel.dated else 0
        cut = len(sections) - held_out
        return sections[:cut], sections[cut:]

    def _n_validation(self, n_periods: int) -> int:
        if self.validation_periods is None:
            return round(n_periods * VALIDATION_SHARE) if n_periods >= MIN_PERIODS_FOR_VALIDATION else 0
        if self.validation_periods >= n_periods:
            raise InputError(
                f"validation_periods={self.validation_periods}, but there are {n_periods} training periods with outcomes: leave "
                "at least one to train on."
            )
        return self.validation_periods

    def _settings(self, dated: bool, n_rows: float) -> Settings:
        name = ("float32" if dated else "float64") if self.dtype == "auto" else self.dtype
        # a small array without validation block is soon learned by heart: a step a row is enough
        steps = self.max_steps if dated else min(self.max_steps, max(MIN_ARRAY_STEPS, round(n_rows)))
        return Settings(
            steps,
            self.queries_per_step,
            self.learning_rate,
            self.alpha,
            self.prune,
            self.refit,
            getattr(torch, name),
            self.device,
            "PeerAttention" if self.verbose else None,
        )

    def _store(self, result: Estimate) -> None:
        self.spec_ = result.module.spec
        self.state_ = {name: value.detach().double().cpu().numpy() for name, value in result.module.state_dict().items()}
        self.kept_heads_ = result.kept
        importance = result.importance * self.y_scale_
        self.heads_ = pd.DataFrame({"importance": importance, "kept": np.isin(np.arange(len(importance)), result.kept)})
        self.heads_.index.name = "head"
        share = result.final_importance
        self.head_share_ = share / share.sum() if share.sum() > 0 else np.full(len(share), 1 / max(1, len(share)))
        self.pruning_path_ = pd.DataFrame(result.path, columns=["heads", "loss"])
        embedded = [f"{name}[{k}]" for name in self.code_book_.levels for k in range(D_CODE)]
        self.feature_names_ = [*self.imputation_.names, *embedded]

    # ------------------------------------------------------------------ prediction

    def _module(self) -> PeerModule:
        module = PeerModule(self.spec_, dtype=torch.float64)
        module.load_state_dict({name: torch.tensor(value) for name, value in self.state_.items()})
        return module.requires_grad_(False)

    def _attend(self, section: Section) -> tuple[np.ndarray, np.ndarray]:
        module = self._module()
        predicted, isolated = np.empty(len(section.focal)), np.zeros(len(section.focal), dtype=bool)
        peers = row_tensors([section.peers], torch.float64)
        for rows in section.chunks():
            focal = row_tensors([replace(section.focal.take(rows), y=None)], torch.float64)
            bias = self._bias(section, rows)
            predicted[rows] = module(focal, peers, bias)[0][0].numpy() * self.y_scale_ + self.y_center_
            isolated[rows] = ~section.admissible(rows).any(axis=1)
        return predicted, isolated

    def _weights(self, section: Section, rows: slice, shares: np.ndarray | None = None) -> np.ndarray:
        shares = self.head_share_ if shares is None else shares
        if not len(shares):
            return np.zeros((rows.stop - rows.start, len(section.peers)))
        focal = row_tensors([replace(section.focal.take(rows), y=None)], torch.float64)
        peers = row_tensors([section.peers], torch.float64)
        heads = self._module().weights(focal, peers, self._bias(section, rows))[0].numpy()  # (H, n_rows, n_peers)
        return np.tensordot(shares, heads, axes=1)

    @staticmethod
    def _bias(section: Section, rows: slice) -> torch.Tensor | None:
        bias = score_bias(section, rows)
        return None if bias is None else torch.from_numpy(bias)[None]


def _identify(panel: Panel, call: Rows, universe: Panel, rows: Rows) -> tuple[Rows, Rows]:
    """Give focal and reference rows common identities, by firm label; without labels nobody is left out."""
    if panel.firm is None or universe.firm is None:
        return call.anonymous(), rows
    mine, theirs = identities(call.label, rows.label)
    return replace(call, identity=mine), replace(rows, identity=theirs)


def _by_period(panel: Panel, rows: Rows) -> dict[Any, Rows]:
    return {period: rows.take(at) for period, at in panel.cross_sections()}
