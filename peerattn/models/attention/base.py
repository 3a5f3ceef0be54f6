"""What learned-attention estimators share: pools, learning, prediction, ensembles."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError
from peerattn.models.attention.covariance import Covariance, fit_covariance
from peerattn.models.attention.cross_fitting import count_rows, peers_shown
from peerattn.models.attention.heads import Settings, contribution_spread
from peerattn.models.attention.history import History
from peerattn.models.attention.joint import train_heads
from peerattn.models.attention.losses import Loss, squared_error
from peerattn.models.attention.members import Heads, Member, heads_table, prior_strengths
from peerattn.models.attention.nested import Plan, fit_nested
from peerattn.models.attention.networks import AttentionNetworks
from peerattn.models.attention.options import check_effects, check_options
from peerattn.models.attention.own_effects import OwnEffects
from peerattn.models.attention.own_model import OwnSettings, has_period_effects, of_period
from peerattn.models.attention.parts import COVARIANCE, HEADS, RIDGE, Candidate
from peerattn.models.attention.peer_module import PeerSpec
from peerattn.models.attention.priors import PairTerms, read_priors
from peerattn.models.attention.reference import Reference
from peerattn.models.attention.ridge_covariance import fit_ridge_covariance
from peerattn.models.attention.row_weights import row_weights, weighted
from peerattn.models.attention.search import search_heads
from peerattn.models.attention.shared_periods import of_all_processes, one_numbering, refuse_unshared
from peerattn.models.attention.stages import made_from, remembered
from peerattn.models.attention.universes import (
    among_reference,
    answering_outcomes,
    refuse_other_periods,
    with_reference,
)
from peerattn.models.by_period import refuse_beside_files
from peerattn.models.pools import Rows, Section
from peerattn.panel.design import Design
from peerattn.panel.effects import effect_codes, effect_parts
from peerattn.panel.panel import Panel
from peerattn.processes import all_sum, from_first, mean_of
from peerattn.training import Checkpoint, one_thread

D_CODE = 4
MOST_FITS = 8  # of a part: for the network, and for held-out blocks


@dataclass(eq=False, repr=False, kw_only=True)
class AttentionModel(AttentionNetworks):
    """Base of :class:`PeerAttentionRegressor` and :class:`PeerAttentionClassifier`."""

    attention: str = "self"
    values: str = "characteristics"
    similarity: str = "auto"
    symmetric_scores: bool = False
    prior: Any = None
    exclude_self: bool = True
    own_group: str | None = None
    own: Any = "additive"
    effects: Sequence[str] = ()
    n_layers: int = 1
    n_heads: int = 8
    d_head: int = 8
    scale: str | None = "standard"
    codes: Sequence[str] = ()
    loss: str = "auto"
    quantile: float = 0.5
    prune: bool = True
    n_ensemble: int = 1
    max_steps: int = 800
    queries_per_step: int = 256
    learning_rate: float = 0.02
    purge: int = 0
    firm: str = "firm"
    period: str = "period"
    dtype: str = "auto"
    device: str = "cpu"
    random_state: Any = None
    verbose: bool = False
    _shares_periods: ClassVar[bool] = True

    @property
    def _signed(self) -> bool:
        return self.similarity == "linear" or bool({COVARIANCE, RIDGE} & self.parts_.keys())

    @abstractmethod
    def _loss(self) -> Loss:
        """Return the loss of a row."""

    def _n_outputs(self) -> int:
        return 1

    # ------------------------------------------------------------------ the public calls

    @property
    def reads_outcomes(self) -> bool:
        """Whether ``predict`` can take ``outcomes=``."""
        return self.values == "outcomes" and self.attention == "self"

    @property
    def needs_outcomes(self) -> bool:
        """Whether ``predict`` on a panel must be given ``outcomes=``."""
        return self.reads_outcomes

    @one_thread()
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        reference: Any = None,
        loss_weight: Any = None,
        peer_weight: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Fit on training rows.

        Parameters
        ----------
        X : DataFrame (n, p) indexed by (firm, period), or array-like; or StoredPanel, path, Dataset, iterator of frames
            Characteristics and codes; without firm and period ``X`` is one cross-section. Of a panel in files what
            :func:`~peerattn.panel.stored.scan_panel` says is read (``training_rows``).
        y : Series or array-like (n,), or str (the column, of files)
            Outcome. In a panel a missing outcome is unknown: the row stays a peer and carries no loss.
        sample_weight : array-like (n,), optional
            Frequency weights: a weight of 2 equals the row twice; it never brings the own firm back into its pool.
        reference : Reference, frame, or pair (X_ref, y_ref), optional
            Raw, in the columns of ``X``. The firms that answer, for ``attention="cross"``; with ``"self"``, on a panel,
            firms that join the pool of their period.
        loss_weight : Series or array-like (n,), optional
            Weighs each row's loss (panels only).
        peer_weight : Series or array-like (n,), optional
            Positive numbers such as market values: log w_j is added to the scores of peer j (panels only).
        checkpoint : path-like, optional
            Folder in which finished stages are kept, and the state of loops under way. The same call on the same rows goes on
            from there and ends with the same bits as a fit that was never stopped. The folder stays until it is deleted. An own
            model that is an estimator is fitted again: give it a ``random_state``.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For bad options (the message names both of a bad pair), input that cannot be used, a missing reference, or a
            checkpoint that cannot be written, is damaged, or is of a fit on other data, with other options, or by other code.
        """
        check_options(self, sample_weight=sample_weight, peer_weight=peer_weight)
        refuse_beside_files(X, loss_weight=loss_weight, peer_weight=peer_weight)
        check_effects(self)
        if self.attention == "cross" and reference is None:
            raise InputError(
                'attention="cross" needs reference=: the firms that answer, a frame or (X_ref, y_ref).'
            )
        panel, training = self._gate_training(X, y, sample_weight)
        refuse_unshared(self, panel, reference)
        training = one_numbering(panel, training)
        if self.effects and not panel.dated:
            raise InputError(
                "effects: they are those of firms and periods, which X does not carry. Leave effects out."
            )
        self.weighs_peers_ = peer_weight is not None
        training = weighted(
            panel,
            training,
            sample_weight=sample_weight,
            loss_weight=loss_weight,
            peer_weight=peer_weight,
        )
        training = self._standardise_outcomes(training)
        if reference is not None and not panel.dated and self.attention == "self":
            raise InputError(
                'reference: on arrays self-attention looks to the training rows; use attention="cross".'
            )
        self.reference_ = None if reference is None else self._reference_rows(reference)
        if self.reference_ is not None:
            refuse_other_periods(panel, self.reference_[0])
        kept = None
        if checkpoint is not None:
            others = () if self.reference_ is None else (self.reference_[1], self.reference_[0].period)
            kept = Checkpoint(checkpoint, made_from(self, training, panel.period, *others))
        self._learn(training, panel, kept)
        return self

    # ------------------------------------------------------------------ rows

    def _code_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.codes, *effect_codes(self.effects), *self._groupings())))

    def _groupings(self) -> tuple[str, ...]:
        return () if self.own_group is None else (self.own_group,)

    def _encode(
        self, panel: Panel, weight: np.ndarray | None, *, fitting: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        if fitting:
            self.design_ = Design.fit(panel, scale=self.scale, weight=weight, without=self._groupings())
        return self.design_.numbers(panel), self.design_.integers(panel)

    def _owners(self, panel: Panel) -> pd.Index:
        assert panel.firm is not None
        if self.own_group is None:
            return panel.firm
        group = panel.codes[self.own_group].astype(object)
        pairs = zip(panel.firm.tolist(), group.where(group.notna(), None), strict=True)
        return pd.Index(list(pairs), tupleize_cols=False)

    def _in_units(self, rows: Rows) -> Rows:
        return rows if rows.y is None else replace(rows, y=(rows.y - self.y_center_) / self.y_scale_)

    def _reference_rows(self, reference: Any) -> tuple[Panel, Rows]:
        given = Reference.of(reference)
        if (given.y is None) == (self.values == "outcomes"):
            raise InputError(
                'values="outcomes" needs the reference\'s outcomes: reference=(X_ref, y_ref).'
                if given.y is None
                else 'reference=(X_ref, y_ref) carries outcomes, but values="characteristics" reads none: pass X_ref alone.'
            )
        if self.scale == "rank":
            raise InputError(
                'scale="rank" ranks firms among the rows of one call, which reference= splits in two: use scale="standard".'
            )
        try:
            panel, rows = self._gate_rows(given.X, self._encode_outcomes(given.y), undated=True)
        except ValueError as error:
            raise InputError(f"reference: {error}") from error
        if self.attention == "self" and panel.firm is None:
            raise InputError(
                f"reference: it carries no {self.firm!r}, which is needed to leave the own firm out."
            )
        if self.weighs_peers_:
            if given.weight is None:
                raise InputError(
                    "peer_weight= was given to fit: pass the reference's as Reference(X, y, weight)."
                )
            rows = replace(
                rows,
                weight=row_weights(panel, given.weight, "Reference.weight"),
            )
        return panel, self._in_units(rows)

    def _encode_outcomes(self, outcomes: Any) -> Any:
        """Return outcomes as numbers."""
        return outcomes

    # ------------------------------------------------------------------ pools

    def _gate_call(
        self,
        X: Any,
        outcomes: Any,
        reference: Any = None,
        peer_weight: Any = None,
        past: History | None = None,
    ) -> tuple[Panel, Iterator[Section]]:
        check_is_fitted(self, "parts_")
        if outcomes is not None and not self.reads_outcomes:
            raise InputError(
                'outcomes= was given, but values="characteristics" reads no outcomes: use values="outcomes".'
                if self.values == "characteristics"
                else 'outcomes= was given, but attention="cross" reads the reference\'s: pass reference=(X_ref, y_ref).'
            )
        panel, call = self._gate_rows(X, self._encode_outcomes(outcomes))
        self._warn_of_lost_periods(panel)
        if self.attention == "self" and (peer_weight is not None) != self.weighs_peers_:
            state = "with" if self.weighs_peers_ else "without"
            raise InputError(
                f"peer_weight: the model was fitted {state} peer weights, and predict must be called alike."
            )
        if peer_weight is not None:
            call = replace(
                call,
                weight=row_weights(panel, peer_weight, "peer_weight"),
            )
        sections = self._pools(panel, self._in_units(call), outcomes is not None, reference)
        return panel, self._with_past(sections, past)

    def _pools(self, panel: Panel, call: Rows, told: bool, reference: Any) -> Iterator[Section]:
        if self.attention == "self" and not self.dated_ and not told:
            if reference is not None:
                raise InputError(
                    'reference: a model fitted on arrays looks to its training rows; use attention="cross".'
                )
            return self._against_training(panel, call)
        extra = self.reference_ if reference is None else self._reference_rows(reference)
        if extra is not None:
            refuse_other_periods(panel, extra[0], of_fit=reference is None)
        if self.needs_outcomes and not told:
            raise InputError(
                'values="outcomes" on a panel predicts from the peers\' outcomes: pass outcomes=.'
            )
        return self._cross_sections(panel, call, extra, warn=True)

    def _cross_sections(
        self, panel: Panel, rows: Rows, extra: tuple[Panel, Rows] | None, *, warn: bool = False
    ) -> Iterator[Section]:
        """Return each period's focal rows and pool, in fit as in predict."""
        if self.attention == "cross":
            assert extra is not None
            sections = among_reference(panel, rows, *extra, exclude_self=self.exclude_self)
        else:
            sections = self._within(panel, rows, known=False, warn=warn and extra is None)
            if not self.exclude_self:
                sections = (replace(s, focal=s.focal.anonymous()) for s in sections)
            if extra is not None:
                sections = with_reference(sections, *extra, exclude_self=self.exclude_self)
        return map(answering_outcomes, sections) if self.values == "outcomes" else sections

    # ------------------------------------------------------------------ learning

    def _standardise_outcomes(self, training: Rows) -> Rows:
        """Learn mean and standard deviation of the known outcomes; models train in these units."""
        assert training.y is not None
        known = np.isfinite(training.y) & (True if training.loss_weight is None else training.loss_weight > 0)
        weight = None if training.loss_weight is None else training.loss_weight[known]
        if weight is not None and not all_sum(len(weight)):
            raise InputError("loss_weight: no row of known outcome has a positive weight.")
        self.y_center_ = float(mean_of(training.y[known], weight))
        spread = float(np.sqrt(mean_of((training.y[known] - self.y_center_) ** 2, weight)))
        self.y_scale_ = spread if spread > 0 else 1.0
        return self._in_units(training)

    def _learn(self, training: Rows, panel: Panel, checkpoint: Checkpoint | None = None) -> None:
        names = list(self.design_.levels)
        self.pair_terms_ = PairTerms(
            read_priors(self.prior, names), {name: c for c, name in enumerate(names)}, self.n_layers > 1
        )
        sections = self._training_sections(training, panel)
        arrays = not panel.dated and self.attention == "self"
        self.training_rows_ = sections[0].peers if arrays else None
        candidates = self._candidates(panel.dated, training.weight is not None, checkpoint)
        plan = replace(self._plan(panel.dated), checkpoint=checkpoint)
        found = fit_nested(sections, candidates, plan, judge=self.prune)
        self.own_, self.level_, self.parts_ = found.own, found.level, found.parts
        self.of_period_ = found.of_period
        self.evidence_, self.stability_ = found.evidence, found.stability
        self.training_pool_ = found.pool[0] if arrays else None
        heads = self.parts_[HEADS].parts if HEADS in self.parts_ else ()
        self.members_ = tuple(member for part in heads if isinstance(part, Heads) for member in part.members)
        self.heads_ = heads_table(self.members_, self.y_scale_)
        self.prior_strength_ = prior_strengths(self.members_, self.pair_terms_.soft)
        embedded = [f"{name}[{k}]" for name in names for k in range(D_CODE)]
        self.feature_names_ = [*self.design_.number_names, *embedded]

    def _plan(self, dated: bool) -> Plan:
        levels = tuple(len(levels) for levels in self.design_.levels.values())
        effects = (
            OwnEffects(tuple(effect_parts(self.effects)), tuple(self.design_.levels))
            if self.effects
            else None
        )
        own = OwnSettings(self.own, self._loss(), self._n_outputs(), levels, dated, effects)
        return Plan(own, self.values == "outcomes", self.purge)

    def _spec(self) -> PeerSpec:
        return PeerSpec(
            n_characteristics=len(self.design_.number_names),
            code_levels=tuple(len(levels) for levels in self.design_.levels.values()),
            d_code=D_CODE,
            n_heads=1 if self.similarity == "linear" else self.n_heads,
            d_head=self.d_head,
            n_layers=self.n_layers,
            values=self.values,
            own="linear" if isinstance(self.own, str) and self.own != "none" else "none",
            similarity="scaled_dot_product" if self.similarity == "auto" else self.similarity,
            symmetric=self.symmetric_scores,
            n_priors=len(self.pair_terms_.soft),
            n_outputs=self._n_outputs(),
        )

    def _candidates(self, dated: bool, weighed: bool, checkpoint: Checkpoint | None) -> list[Candidate]:
        """Return the parts that the options name, in the order in which they are tried."""
        drawn = check_random_state(self.random_state).randint(2**31 - 1, size=(MOST_FITS, self.n_ensemble))
        # random_state=None draws others in every process
        draws = remembered(checkpoint, lambda: from_first(drawn))

        def learned_covariance(sections: Sequence[Section], start: int) -> Covariance:
            dtype, seed = self._dtype(dated), int(draws[start, 0])
            return fit_covariance(sections, history=dated, seed=seed, dtype=dtype, device=self.device)

        def ridge(sections: Sequence[Section], start: int) -> Covariance:
            return fit_ridge_covariance(sections, self._plan(dated).own.code_levels)

        def heads(sections: Sequence[Section], start: int) -> Heads:
            settings, spec = self._settings(dated, sections), self._spec()
            settings = replace(settings, checkpoint=checkpoint)
            learn = search_heads if self.prune and self.similarity != "linear" else train_heads
            modules = [learn(spec, sections, settings, int(seed)) for seed in draws[start]]
            settings = replace(settings, dtype=torch.float64)
            members = [Member.of(m, contribution_spread(m, sections, settings)) for m in modules]
            return Heads(tuple(members), self.pair_terms_)

        found = []
        if self._reads_covariance(weighed):
            effects = self._plan(dated).own.effects
            # its level and codes are effects of periods, too
            replaces = effects is not None and bool(effects.of_periods)
            found.append(Candidate(COVARIANCE, learned_covariance, replaces))
            if self.prune:  # only evidence can decide how much of the parts before it to replace
                found.append(Candidate(RIDGE, ridge, replaces=True))
        if self.n_heads and self.similarity != "covariance":
            found.append(Candidate(HEADS, heads))
        return found

    def _reads_covariance(self, weighed: bool) -> bool:
        """Whether a covariance is learned: by name, or where ``n_heads`` is not 0 and no option is of pairs or weights."""
        if self.similarity != "auto":
            return self.similarity == "covariance"
        restricted = self.pair_terms_.priors or self.symmetric_scores or self.n_layers > 1 or weighed
        squared = self._loss() is squared_error
        return self.values == "outcomes" and squared and not restricted and self.n_heads > 0

    def _dtype(self, dated: bool) -> torch.dtype:
        name = ("float32" if dated else "float64") if self.dtype == "auto" else self.dtype
        dtype: torch.dtype = getattr(torch, name)
        return dtype

    def _training_sections(self, training: Rows, panel: Panel) -> list[Section]:
        """Return cross-sections whose focal rows are those of known outcome."""
        everyone: Iterator[Section]
        if training.weight is not None and not panel.dated and self.attention == "self":
            training = training.take(training.weight > 0)
            rows = training.anonymous()
            everyone = iter([Section(None, slice(0, len(training)), rows, training, True, self.exclude_self)])
        else:
            everyone = self._cross_sections(panel, training, self.reference_)
        counted = (replace(s, focal=_counted(s.focal.known())) for s in everyone)
        return of_all_processes(panel, [section for section in counted if len(section.focal)], self.purge)

    def _settings(self, dated: bool, sections: Sequence[Section]) -> Settings:
        return Settings(
            n_rows=count_rows(sections),
            max_steps=int(self.max_steps),
            queries_per_step=self.queries_per_step,
            learning_rate=self.learning_rate,
            terms=self.pair_terms_,
            dtype=self._dtype(dated),
            device=self.device,
            progress=type(self).__name__ if self.verbose else None,
        )

    # ------------------------------------------------------------------ prediction

    def _as_seen(self, section: Section, own: np.ndarray | None = None) -> Section:
        """Return a cross-section as parts see it: peers show what their own models leave of their outcomes.

        ``own`` are the own terms of the focal rows, where they are known already.
        """
        pool = None if section.within else self.training_pool_  # out of fold
        pool = self.own_.predict(section.peers) if pool is None else pool
        peers = peers_shown(section.peers, pool, self._loss(), self.values == "outcomes")
        own = self.own_.predict(section.focal) if own is None else own
        return replace(
            section, focal=replace(section.focal, y=None), peers=peers, own=(own[:, 0], pool[:, 0])
        )

    def _with_past(self, sections: Iterator[Section], earlier: History | None = None) -> Iterator[Section]:
        """Return cross-sections with the outcomes of earlier periods, of fit and of the call, where a part reads them.

        ``earlier`` holds both already, where the call goes on.
        """
        parts = self.parts_[COVARIANCE].parts if COVARIANCE in self.parts_ else ()
        stored = next((part.history for part in parts if isinstance(part, Covariance)), None)
        if stored is None:
            return sections
        listed = list(sections)
        past = (earlier or stored).joined(History.of([self._as_seen(section) for section in listed]))
        return (replace(section, past=past) for section in listed)

    def _outputs(self, section: Section) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs (n_focal, K) in units of training, and which focal rows had no admissible peer."""
        own = self.own_.predict(section.focal)
        outputs, seen = own + self.level_, self._as_seen(section, own)
        if has_period_effects(self.own_) and seen.own is not None:
            pool = seen.own[1][:, None]
            outputs = outputs + self.of_period_ * of_period(self.own_, section, pool)
        for added in self.parts_.values():  # each in addition to the own model
            outputs = outputs + added.factor * added.additions([seen])[0]
        isolated = [self.pair_terms_.isolated(section, rows) for rows in section.chunks()]
        return outputs, np.concatenate(isolated) if isolated else np.zeros(0, dtype=bool)

    def _attend(self, section: Section) -> tuple[np.ndarray, np.ndarray]:
        outputs, isolated = self._outputs(section)
        return outputs[:, 0] * self.y_scale_ + self.y_center_, isolated


def _counted(rows: Rows) -> Rows:
    """Return the rows that count in the loss; the same rows, not copies, where all do."""
    weight = rows.loss_weight
    return rows if weight is None or (weight > 0).all() else rows.take(weight > 0)
