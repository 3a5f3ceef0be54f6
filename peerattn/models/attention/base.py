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
from peerattn.models.attention.common import fit_common
from peerattn.models.attention.fitting import (
    COMMON,
    HISTORY,
    SHAPE,
    Candidate,
    fit_stack,
    known_past,
)
from peerattn.models.attention.heads import Settings
from peerattn.models.attention.history import History
from peerattn.models.attention.losses import Loss, squared_error
from peerattn.models.attention.members import heads_table, prior_strengths
from peerattn.models.attention.networks import AttentionNetworks
from peerattn.models.attention.options import check_device, check_options
from peerattn.models.attention.own_history import fit_history
from peerattn.models.attention.own_shape import fit_curves, fit_estimator, shaped
from peerattn.models.attention.peer_module import PeerSpec
from peerattn.models.attention.peers import (
    COVARIANCE,
    HEADS,
    RIDGE,
    covariance_candidates,
    heads_candidate,
)
from peerattn.models.attention.priors import PairTerms, excluded_group, read_priors
from peerattn.models.attention.reference import Reference
from peerattn.models.attention.row_weights import row_weights, weighted
from peerattn.models.attention.shared_periods import of_all_processes, one_numbering, refuse_unshared
from peerattn.models.attention.stability import SECTIONS, stability
from peerattn.models.attention.stages import made_from
from peerattn.models.attention.training import Problem
from peerattn.models.attention.universes import (
    among_reference,
    answering_outcomes,
    refuse_other_periods,
    with_reference,
)
from peerattn.models.by_period import refuse_beside_files
from peerattn.models.pools import Rows, Section
from peerattn.panel.design import Design
from peerattn.panel.panel import Panel
from peerattn.processes import all_sum, from_first, joined, mean_of
from peerattn.training import Checkpoint, one_thread

D_CODE = 4  # width of a code's embedding


@dataclass(eq=False, repr=False, kw_only=True)
class AttentionModel(AttentionNetworks):
    """Base of :class:`PeerAttentionRegressor` and :class:`PeerAttentionClassifier`."""

    attention: str = "self"
    task: str = "forecast"
    similarity: str = "scaled_dot_product"
    prior: Any = None
    own: Any = "flexible"
    n_layers: int = 1
    n_heads: int = 2
    d_head: int = 8
    scale: str | None = "standard"
    codes: Sequence[str] = ()
    loss: str | float = "auto"
    kappa: float | None = 1.0
    purge: int = 0
    firm: str = "firm"
    period: str = "period"
    random_state: Any = None
    _shares_periods: ClassVar[bool] = True

    @property
    def _signed(self) -> bool:
        return bool({COVARIANCE, RIDGE} & self.stack_.fitted.keys())

    @abstractmethod
    def _loss(self) -> Loss:
        """Return the loss of a row."""

    def _n_outputs(self) -> int:
        return 1

    # ------------------------------------------------------------------ the public calls

    @property
    def values(self) -> str:
        """What a peer's information is: "characteristics" in forecasts, "outcomes" in explanations."""
        return "outcomes" if self.task == "explain" else "characteristics"

    @property
    def own_group(self) -> str | None:
        """Column whose groups are never peers: ``Prior(column, exclude=True)``."""
        return excluded_group(self.prior)

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
        device: str = "cpu",
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
            Folder in which finished stages are kept. The same call on the same rows goes on from there and ends with the same
            bits as a fit that was never stopped. The folder stays until it is deleted. Own models of scikit-learn are fitted
            again: give ``own=`` a ``random_state``.
        device : str, default "cpu"
            Where torch learns. Predictions are always computed on the CPU, in float64.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For bad options (the message names both of a bad pair), input that cannot be used, a missing reference, or a
            checkpoint that cannot be written, is damaged, or is of a fit on other data, with other options, or by other code.
        """
        check_options(self)
        refuse_beside_files(X, loss_weight=loss_weight, peer_weight=peer_weight)
        check_device(device)
        if self.attention == "cross" and reference is None:
            raise InputError(
                'attention="cross" needs reference=: the firms that answer, a frame or (X_ref, y_ref).'
            )
        universe = None if reference is None else Reference.of(reference).X
        panel, training = self._gate_training(X, y, sample_weight, universe)
        refuse_unshared(self, panel, reference)
        training = one_numbering(panel, training)
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
        self._learn(training, panel, kept, device)
        return self

    # ------------------------------------------------------------------ rows

    def _code_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.codes, *self._groupings())))

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

    def _outcome_unit(self) -> tuple[float, float]:
        return self.y_center_, self.y_scale_

    def _in_units(self, rows: Rows) -> Rows:
        return rows if rows.y is None else replace(rows, y=(rows.y - self.y_center_) / self.y_scale_)

    def _reference_rows(self, reference: Any) -> tuple[Panel, Rows]:
        given = Reference.of(reference)
        if (given.y is None) == (self.values == "outcomes"):
            raise InputError(
                'task="explain" needs the reference\'s outcomes: reference=(X_ref, y_ref).'
                if given.y is None
                else 'reference=(X_ref, y_ref) carries outcomes, but task="forecast" reads none: pass X_ref alone.'
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
        check_is_fitted(self, "stack_")
        if outcomes is not None and not self.reads_outcomes:
            raise InputError(
                'outcomes= was given, but task="forecast" reads no outcomes: use task="explain".'
                if self.task == "forecast"
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
            raise InputError('task="explain" on a panel predicts from the peers\' outcomes: pass outcomes=.')
        return self._cross_sections(panel, call, extra, warn=True)

    def _cross_sections(
        self, panel: Panel, rows: Rows, extra: tuple[Panel, Rows] | None, *, warn: bool = False
    ) -> Iterator[Section]:
        """Return each period's focal rows and pool, in fit as in predict."""
        if self.attention == "cross":
            assert extra is not None
            sections = among_reference(panel, rows, *extra, exclude_self=True)
        else:
            sections = self._within(panel, rows, known=False, warn=warn and extra is None)
            if extra is not None:
                sections = with_reference(sections, *extra, exclude_self=True)
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

    def _learn(
        self, training: Rows, panel: Panel, checkpoint: Checkpoint | None = None, device: str = "cpu"
    ) -> None:
        names = list(self.design_.levels)
        self.pair_terms_ = PairTerms(
            read_priors(self.prior, names), {name: c for c, name in enumerate(names)}, self.n_layers > 1
        )
        sections = self._training_sections(training, panel)
        arrays = not panel.dated and self.attention == "self"
        self.training_rows_ = sections[0].peers if arrays else None
        problem = self._problem(panel.dated)
        draws = from_first(check_random_state(self.random_state).randint(2**31 - 1, size=2))
        settings = Settings(self.pair_terms_, self._dtype(panel.dated), device)
        candidates = self._candidates(problem, settings, draws, training.weight is not None)
        whole = panel.dated and self.attention == "self" and not problem.outcomes
        self.stack_ = fit_stack(
            sections,
            candidates,
            problem,
            kappa=self.kappa,
            split=whole,
            checkpoint=checkpoint,
        )
        self.evidence_, self.gain_ = self.stack_.evidence, self.stack_.steps
        self.stability_ = stability(self.stack_, [self._as_seen(s) for s in sections[-SECTIONS:]])
        self.stack_ = replace(self.stack_, trials={})
        heads = self.stack_.fitted.get(HEADS)
        self.members_ = heads.part.members if heads is not None else ()
        self.heads_ = heads_table(self.members_, self.y_scale_)
        self.prior_strength_ = prior_strengths(self.members_, self.pair_terms_.soft)
        embedded = [f"{name}[{k}]" for name in names for k in range(D_CODE)]
        self.feature_names_ = [*self.design_.number_names, *embedded]

    def _problem(self, dated: bool) -> Problem:
        levels = tuple(len(levels) for levels in self.design_.levels.values())
        none = isinstance(self.own, str) and self.own == "none"
        answers = self.reference_
        dates = answers is None or answers[0].dated or self.task == "forecast"
        return Problem(
            self._loss(),
            self._n_outputs(),
            levels,
            self.task == "explain",
            dated,
            self.purge,
            own=not none,
            reads_past=dates and self.attention == "self",
        )

    def _spec(self) -> PeerSpec:
        symmetric, numbers = self.similarity == "symmetric", len(self.design_.number_names)
        return PeerSpec(
            n_characteristics=numbers,
            code_levels=tuple(len(levels) for levels in self.design_.levels.values()),
            d_code=D_CODE,
            n_heads=self.n_heads,
            d_head=min(self.d_head, max(numbers, D_CODE)),  # no more than characteristics
            n_layers=self.n_layers,
            values=self.values,
            own="linear" if isinstance(self.own, str) and self.own != "none" else "none",
            similarity="scaled_dot_product" if symmetric else self.similarity,
            symmetric=symmetric,
            n_priors=len(self.pair_terms_.soft),
            n_outputs=self._n_outputs(),
            nobody=not any(prior.only for prior in self.pair_terms_.priors),
        )

    def _candidates(
        self, problem: Problem, settings: Settings, draws: np.ndarray, weighed: bool
    ) -> list[Candidate]:
        """Return the candidates that the options name, in the order of what they read."""
        squared, own = problem.loss is squared_error, self.own
        heads = [heads_candidate(self._spec(), settings, int(draws[1]))] if self.n_heads else []
        if self.kappa is None:
            return heads
        found: list[Candidate] = []
        if own == "flexible" and squared and not joined():
            found += [
                Candidate("curves", SHAPE, lambda t, _: shaped(fit_curves(t, products=False))),
                Candidate("products", SHAPE, lambda t, _: shaped(fit_curves(t, products=True))),
                Candidate("trees", SHAPE, lambda t, _: shaped(fit_estimator(t))),
            ]
        elif not isinstance(own, str):
            found += [Candidate("estimator", SHAPE, lambda t, _: shaped(fit_estimator(t, own)))]
        if squared and problem.dated and problem.own and not joined():
            found += [
                Candidate("firm effect", HISTORY, lambda t, _: fit_history(t, lag=False)),
                Candidate("autoregression", HISTORY, lambda t, _: fit_history(t, lag=True)),
            ]
            if own == "flexible":
                found += [
                    Candidate("trees with past", HISTORY, lambda t, _: fit_history(t, lag=True, trees=True))
                ]
            if problem.outcomes and self.attention == "self":
                codes = [None, *range(len(problem.code_levels))]
                names = ["period", *(f"{name} x period" for name in self.design_.levels)]
                found += [
                    Candidate(name, COMMON, lambda t, _, c=c: fit_common(t, c))  # type: ignore[misc]
                    for name, c in zip(names, codes, strict=True)
                ]
        if self._reads_covariance(weighed):
            found += covariance_candidates(settings, int(draws[0]))
        return found + heads

    def _reads_covariance(self, weighed: bool) -> bool:
        """Whether a covariance is learned: where no option is of pairs or weights."""
        restricted = self.pair_terms_.priors or self.similarity != "scaled_dot_product" or self.n_layers > 1
        squared = self._loss() is squared_error
        return self.task == "explain" and squared and not restricted and not weighed and self.n_heads > 0

    def _dtype(self, dated: bool) -> torch.dtype:
        return (
            torch.float32 if dated else torch.float64
        )  # arrays: predictions agree to 1e-7 however rows come

    def _training_sections(self, training: Rows, panel: Panel) -> list[Section]:
        """Return cross-sections whose focal rows are those of known outcome."""
        everyone: Iterator[Section]
        if training.weight is not None and not panel.dated and self.attention == "self":
            training = training.take(training.weight > 0)
            rows = training.anonymous()
            everyone = iter([Section(None, slice(0, len(training)), rows, training, True, True)])
        else:
            everyone = self._cross_sections(panel, training, self.reference_)
        counted = (replace(s, focal=_counted(s.focal.known())) for s in everyone)
        return of_all_processes(panel, [section for section in counted if len(section.focal)], self.purge)

    # ------------------------------------------------------------------ prediction

    def _as_seen(self, section: Section) -> Section:
        """Return a cross-section as candidates see it: peers show what own lines leave of their outcomes."""
        return self.stack_.view.seen(section, self._loss(), self.task == "explain")

    def _with_past(self, sections: Iterator[Section], earlier: History | None = None) -> Iterator[Section]:
        """Return cross-sections with the outcomes of earlier periods, of fit and of the call.

        ``earlier`` holds both already, where the call goes on.
        """
        past = earlier or self.stack_.view.history
        if self.task == "forecast" or not self.dated_:
            return (replace(section, past=past) for section in sections)
        listed = list(sections)
        past = known_past(past, [self._as_seen(section) for section in listed])
        return (replace(section, past=past) for section in listed)

    def _outputs(self, section: Section) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs (n_focal, K) in units of training, and which focal rows had no admissible peer."""
        seen = self._as_seen(replace(section, focal=replace(section.focal, y=None)))
        (outputs,) = self.stack_.predict([seen])
        isolated = [self.pair_terms_.isolated(section, rows) for rows in section.chunks()]
        return outputs, np.concatenate(isolated) if isolated else np.zeros(0, dtype=bool)

    def _attend(self, section: Section) -> tuple[np.ndarray, np.ndarray]:
        outputs, isolated = self._outputs(section)
        return outputs[:, 0] * self.y_scale_ + self.y_center_, isolated

    def explain_gain(self) -> pd.DataFrame:
        """Return held-out R² step by step: own lines, shape, history, what is common to the period, peers.

        Each step reads what the steps before it read and something more; held out are the later periods of each forward
        origin in training. ``r2`` is of the stack so far, ``gain`` what the step adds.

        Returns
        -------
        DataFrame
            Index ``step``; columns ``r2``, ``gain``; empty where nothing could be judged (``evidence_["reason"]``).
        """
        check_is_fitted(self, "stack_")
        return self.gain_


def _counted(rows: Rows) -> Rows:
    """Return the rows that count in the loss; the same rows, not copies, where all do."""
    weight = rows.loss_weight
    return rows if weight is None or (weight > 0).all() else rows.take(weight > 0)
