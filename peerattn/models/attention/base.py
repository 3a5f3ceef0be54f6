"""What estimators of a stack share: options of attention, the gate, learning, prediction, and what heads show."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, expect, naming
from peerattn.models import by_period
from peerattn.models.attention.networks import HeadNetworks
from peerattn.models.base import PanelEstimator
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.batches import isolated
from peerattn.models.learners.heads.heads import heads_table, prior_strengths
from peerattn.models.learners.losses import Loss
from peerattn.models.learners.past_outcomes import History
from peerattn.models.learners.priors import NO_TERMS, PairTerms
from peerattn.models.learners.training import Problem
from peerattn.models.pools import against_training, peers_of_known_outcome
from peerattn.models.reference import Reference, among_reference, check_reference, check_same_periods, with_reference
from peerattn.models.row_weights import row_weights, weighted
from peerattn.models.stacking.candidates import D_CODE
from peerattn.models.stacking.evidence import Candidate
from peerattn.models.stacking.fit import fit_stack
from peerattn.models.stacking.stability import SECTIONS, stability
from peerattn.panel.panel import Panel
from peerattn.processes import from_first, joined
from peerattn.training import one_thread
from peerattn.training.device import find_device
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike

OF_ARRAYS = 'on arrays self-attention attends to the training rows; use attention="cross".'
MOST = 10_000  # of layers, heads and the like: more are a slip


class PanelStack(HeadNetworks, PanelEstimator):
    """An estimator that is a linear own part and a stack of candidates; a subclass names the candidates."""

    attention: str | bool
    task: str
    own: Any
    kappa: float | None
    purge: int
    codes: Sequence[str]
    random_state: Any
    reference_: tuple[Panel, Rows] | None
    weighs_peers_: bool
    weighs_losses_: bool
    _parameter_constraints = PanelEstimator._parameter_constraints | {
        "task": [StrOptions({"forecast", "nowcast"})],
        # None: all candidates in full
        "kappa": [Interval(Real, 0, None, closed="left"), None],
        "purge": [Interval(Integral, 0, None, closed="left")],
    }

    # ------------------------------------------------------------------ what a subclass provides

    @abstractmethod
    def _candidates(self, problem: Problem, draws: np.ndarray) -> list[Candidate]:
        """Return the candidates, in the order of what they read; ``draws`` are three seeds."""

    @abstractmethod
    def _loss(self) -> Loss:
        """Return the loss of a row."""

    def _n_outputs(self) -> int:
        return 1

    @property
    def _kappa(self) -> float | None:
        """Standard errors that a candidate's score must exceed; None: it is used in full."""
        return self.kappa

    def _dtype(self, dated: bool) -> torch.dtype:
        # predictions of arrays agree to 1e-7 however rows come
        return torch.float32 if dated else torch.float64

    # ------------------------------------------------------------------ rows

    def _pair_terms(self) -> PairTerms:
        """Return what is known of pairs of firms beforehand."""
        return NO_TERMS

    @property
    def reads_outcomes(self) -> bool:
        """Whether ``predict`` can take ``outcomes=``."""
        return self.task == "nowcast" and self.attention != "cross"

    @property
    def needs_outcomes(self) -> bool:
        """Whether ``predict`` on a panel must be given ``outcomes=``."""
        return self.reads_outcomes

    def _outcome_unit(self) -> tuple[float, float]:
        return self.y_center_, self.y_scale_

    def _in_units(self, rows: Rows) -> Rows:
        return rows if rows.y is None else replace(rows, y=(rows.y - self.y_center_) / self.y_scale_)

    def _as_seen(self, section: CrossSection) -> CrossSection:
        return self.stack_.view.prepared(section, self._loss(), self.task == "nowcast")

    def _reference_rows(self, reference: ReferenceLike) -> tuple[Panel, Rows]:
        given = Reference.of(reference)
        check_reference(given, self.task, self.scale, self.weighs_peers_)
        with naming("reference"):
            panel, rows = self._gate_rows(given.X, self._encode_outcomes(given.y), undated=True)
        labels = f"rows labelled by {self.firm!r}, so that the own firm is left out"
        expect(self.attention == "cross" or panel.firm is not None, "reference", labels, "none")
        if self.weighs_peers_:
            rows = replace(rows, weight=row_weights(panel, given.weight, "Reference.weight"))
        return panel, self._in_units(rows)

    def _cross_sections(
        self, panel: Panel, rows: Rows, extra: tuple[Panel, Rows] | None, *, warn: bool = False
    ) -> Iterator[CrossSection]:
        """Return each period's focal rows and pool, in fit as in predict."""
        if self.attention == "cross":
            assert extra is not None
            sections = among_reference(panel, rows, *extra)
        else:
            sections = self._within(panel, rows, known=False, warn=warn and extra is None)
            if extra is not None:
                sections = with_reference(sections, *extra)
        return sections if self.task == "forecast" else peers_of_known_outcome(sections)

    # ------------------------------------------------------------------ learning

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.kappa is None and not isinstance(self.own, str):
            raise InputError("own: an estimator is weighed on held-out periods, and kappa=None has none. Set kappa=1.0.")
        if is_regressor(self) and not isinstance(self.own, str) and is_classifier(self.own):
            raise InputError(f"own: {type(self).__name__} needs a regressor, got the classifier {type(self.own).__name__}.")

    @one_thread()
    def fit(
        self,
        X: PanelLike,
        y: OutcomesLike = None,
        sample_weight: OutcomesLike = None,
        *,
        reference: ReferenceLike = None,
        loss_weight: OutcomesLike = None,
        peer_weight: OutcomesLike = None,
        device: str = "auto",
    ) -> Self:
        """Fit on training rows.

        Parameters
        ----------
        X : DataFrame (n, p) indexed by (firm, period), or array-like; or StoredPanel, path, Dataset, iterator of frames
            Characteristics and codes; without firm and period ``X`` is one cross-section. Of a panel in files what
            :func:`~peerattn.panel.scan_panel` selects is read (``training_rows``).
        y : Series or array-like (n,), or str (the column, of files), optional
            Outcome. In a panel a missing outcome is unknown: the row stays a peer and carries no loss.
        sample_weight : array-like (n,), optional
            Frequency weights: a weight of 2 equals the row twice; it never brings the own firm back into its pool.
        reference : Reference, frame, or pair (X_ref, y_ref), optional
            In the columns and units of ``X``. With ``attention="cross"`` the candidate peers; with ``"self"``, on a panel,
            further candidate peers of each period.
        loss_weight : Series or array-like (n,), optional
            Weighs each row's loss (panels only), in any unit: weights are divided by their mean over the rows that have one.
        peer_weight : Series or array-like (n,), optional
            Numbers of at least 0 such as market values (0: not a peer): log w_j is added to the scores of peer j (panels only).
        device : str, default "auto"
            Where torch learns: "cpu", "cuda", ...; "auto" is a GPU where there is one. Predictions are always computed on the
            CPU, in float64.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For bad options (the message names both of a bad pair), input that cannot be used, or a missing reference.
        """
        self._validate_params()
        if joined() and self._shares_periods:
            if not isinstance(self.own, str):
                raise InputError("own: an estimator is fitted by each process, which may differ. Fit outside data_parallel().")
            # every process learns from the rows of all, so that all end with the same model
            X, y, sample_weight, loss_weight, peer_weight = by_period.of_all_processes(
                self, X, y, sample_weight, loss_weight, peer_weight
            )
        by_period.check_not_with_files(X, loss_weight=loss_weight, peer_weight=peer_weight)
        device = find_device(device)
        if self.attention == "cross" and reference is None:
            raise InputError('attention="cross" needs reference=: the candidate peers, a frame or (X_ref, y_ref).')
        # levels of a code are counted over the reference, too
        panel, training = self._gate_training(X, y, sample_weight, universe=Reference.of(reference).X)
        self.weighs_peers_ = peer_weight is not None
        training = weighted(panel, training, sample_weight=sample_weight, loss_weight=loss_weight, peer_weight=peer_weight)
        if reference is not None and not panel.dated and self.attention != "cross":
            raise InputError(f"reference: {OF_ARRAYS}")
        self.weighs_losses_ = training.loss_weight is not None
        training = self._standardise_outcomes(training)
        self.reference_ = None
        if reference is not None:
            self.reference_ = self._reference_rows(reference)
            check_same_periods(panel, self.reference_[0])
        self._learn(training, panel, device)
        return self

    def _learn(self, training: Rows, panel: Panel, device: str = "cpu") -> None:
        self.pair_terms_ = self._pair_terms()
        sections = self._training_sections(training, panel)
        self.training_rows_ = None
        if not panel.dated and self.attention != "cross":
            self.training_rows_ = sections[0].peers
        problem = replace(self._problem(panel.dated, training.weight is not None), device=device)
        # seeds of candidates, drawn by the first process for all
        draws = from_first(check_random_state(self.random_state).randint(2**31 - 1, size=3))
        stack = fit_stack(
            sections,
            self._candidates(problem, draws),
            problem,
            kappa=self._kappa,
        )
        self.stack_ = stack
        self.evidence_ = stack.evidence
        self.gain_ = stack.steps
        self.stability_ = stability(stack, [self._as_seen(s) for s in sections[-SECTIONS:]])
        # parts fitted at the origins were needed for the stability alone
        self.stack_ = replace(stack, held_out=())
        self._set_heads()
        embedded = [f"{name}[{k}]" for name in self.design_.levels for k in range(D_CODE)]
        self.feature_names_ = [*self.design_.number_names, *embedded]

    def _standardise_outcomes(self, training: Rows) -> Rows:
        """Learn mean and standard deviation of the known outcomes; models train in these units."""
        known = np.isfinite(training.outcomes) & (training.loss_weights > 0)
        if not known.any():
            raise InputError("loss_weight: no row of known outcome has a positive weight.")
        y = training.outcomes[known]
        weight = training.loss_weights[known]
        self.y_center_ = float(np.average(y, weights=weight))
        self.y_scale_ = float(np.sqrt(np.average((y - self.y_center_) ** 2, weights=weight))) or 1.0
        return self._in_units(training)

    def _set_heads(self) -> None:
        stack = self.stack_.with_heads()
        self.members_ = stack.heads().members
        self.heads_ = heads_table(self.members_, (self.y_scale_ * stack.weights_of_heads()).tolist())
        self.prior_strength_ = prior_strengths(self.members_, self.pair_terms_.soft)

    def _problem(self, dated: bool, weighed: bool) -> Problem:
        # outcomes of an undated reference may be later than the period they are read in
        dates = self.reference_ is None or self.reference_[0].dated or self.task == "forecast"
        return Problem(
            self._loss(),
            self._n_outputs(),
            tuple(len(levels) for levels in self.design_.levels.values()),
            self.task == "nowcast",
            dated,
            self.purge,
            within=dated and self.attention != "cross" and self.task == "forecast",
            own=self.own != "none",
            dtype=self._dtype(dated),
            reads_past=dates and self.attention != "cross",
            weighed=weighed,
            terms=self.pair_terms_,
        )

    def _training_sections(self, training: Rows, panel: Panel) -> list[CrossSection]:
        """Return cross-sections whose focal rows are those of known outcome that count in the loss."""
        everyone = self._cross_sections(panel, training, self.reference_)
        if training.weight is not None and not panel.dated and self.attention != "cross":
            training = training.take(training.weight > 0)
            # the other copies of a row are its peers, so that it may attend to itself
            rows = training.anonymous()
            everyone = iter([CrossSection(None, slice(0, len(training)), rows, training, True, True)])
        counted = (replace(s, focal=s.focal.known().counted()) for s in everyone)
        return [section for section in counted if len(section.focal)]

    # ------------------------------------------------------------------ prediction

    @one_thread()
    def predict(
        self, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None, peer_weight: OutcomesLike = None
    ) -> np.ndarray:
        """Predict the outcome of each row.

        Parameters
        ----------
        X : DataFrame or array-like (n, p); or StoredPanel, path, Dataset, iterator of frames
            A panel's rows attend to the other rows of their period *in this call*; arrays attend to the training rows. Files are
            read one period at a time.
        outcomes : Series or array-like (n,), or str (the column, of files), optional
            Outcomes of the rows of ``X``, for ``task="nowcast"``: each firm is predicted from those of the others of its
            period, never its own of that period or a later one; those of earlier periods are its past, so that a call of
            several periods knows more of it than calls of one each. NaN = unknown.
        reference : Reference, frame, or pair (X_ref, y_ref), optional
            Cross-attention: the candidate peers, instead of fit's. Self-attention on a panel: further candidate peers.
        peer_weight : Series or array-like (n,), optional
            Of the rows of ``X``, where the model was fitted with one.

        Returns
        -------
        ndarray (n,), in the order of ``X``'s rows; never NaN.
        """
        return self._predictions(X, outcomes=outcomes, reference=reference, peer_weight=peer_weight)

    def _gate_call(
        self,
        X: PanelLike,
        outcomes: OutcomesLike = None,
        reference: ReferenceLike = None,
        peer_weight: OutcomesLike = None,
        past: History | None = None,
    ) -> tuple[Panel, Iterator[CrossSection]]:
        check_is_fitted(self, "stack_")
        if outcomes is not None and not self.reads_outcomes:
            why = 'attention="cross" uses the reference\'s: pass reference=(X_ref, y_ref)'
            if self.task == "forecast":
                why = 'a forecast uses no outcomes: use task="nowcast"'
            raise InputError(f"outcomes= was given, but {why}.")
        panel, call = self._gate_rows(X, self._encode_outcomes(outcomes))
        if self.attention != "cross":
            given = peer_weight is not None
            words = {True: "weights", False: "none"}
            expect(given == self.weighs_peers_, "peer_weight", f"{words[self.weighs_peers_]}, as in fit", words[given])
        if peer_weight is not None:
            call = replace(call, weight=row_weights(panel, peer_weight, "peer_weight"))
        sections = self._pools(panel, self._in_units(call), outcomes is not None, reference)
        return panel, self._with_past(sections, past)

    def _pools(self, panel: Panel, call: Rows, informed: bool, reference: ReferenceLike) -> Iterator[CrossSection]:
        if self.attention != "cross" and not self.dated_ and not informed:
            if reference is not None:
                raise InputError(f"reference: {OF_ARRAYS}")
            return against_training(panel, call, self.training_rows_, self.firm_label_)
        extra = self.reference_ if reference is None else self._reference_rows(reference)
        if extra is not None:
            check_same_periods(panel, extra[0], of_fit=reference is None)
        if self.needs_outcomes and not informed:
            raise InputError('task="nowcast" on a panel predicts from the peers\' outcomes: pass outcomes=.')
        return self._cross_sections(panel, call, extra, warn=True)

    def _by_period(
        self, X: PanelLike, outcomes: OutcomesLike = None, peer_weight: OutcomesLike = None, **options: Any
    ) -> Iterator[tuple[Panel, Iterator[CrossSection]]]:
        by_period.check_not_with_files(X, peer_weight=peer_weight)
        past = None  # outcomes of earlier periods, handed on
        for panel, observed in by_period.periods_of(self, X, outcomes):
            called, sections = self._gate_call(panel, observed, past=past, **options)
            listed = list(sections)
            past = listed[-1].past and listed[-1].past.since(panel.period[0])
            yield called, iter(listed)

    def _with_past(self, sections: Iterator[CrossSection], earlier: History | None = None) -> Iterator[CrossSection]:
        """Return cross-sections with the outcomes of earlier periods, of fit and of the call.

        ``earlier`` holds both already, where the call goes on.
        """
        past = earlier or self.stack_.view.history
        if self.task == "forecast" or not self.dated_:
            return (replace(section, past=past) for section in sections)
        # in a nowcast the outcomes of a period are the past of the later ones in the same call
        listed = list(sections)
        informed = past.informed([self._as_seen(section) for section in listed])
        return (replace(section, past=one.past) for section, one in zip(listed, informed, strict=True))

    def _steps(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs after each group (n_focal, steps, K) in units of training, and which rows had no admissible peer."""
        (steps,) = self.stack_.predict_steps([self._as_seen(section.unknown())])
        return steps, isolated(section, self.pair_terms_)

    def _outputs(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs (n_focal, K) in units of training, and which focal rows had no admissible peer."""
        steps, isolated = self._steps(section)
        return steps[:, -1], isolated

    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        outputs, isolated = self._outputs(section)
        return outputs[:, 0] * self.y_scale_ + self.y_center_, isolated
