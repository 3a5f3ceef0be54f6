"""What learned-attention estimators share: options, learning, prediction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError
from peerattn.models.attention.networks import AttentionNetworks
from peerattn.models.attention.options import check_device
from peerattn.models.attention.rows import OF_ARRAYS
from peerattn.models.by_period import check_not_with_files, of_all_processes
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.heads.heads import Settings, heads_table, prior_strengths
from peerattn.models.learners.heads.priors import PairTerms, read_priors
from peerattn.models.learners.training import Problem
from peerattn.models.reference import Reference, check_same_periods
from peerattn.models.stacking.candidates import D_CODE, HEADS
from peerattn.models.stacking.evidence import Candidate
from peerattn.models.stacking.fit import fit_stack
from peerattn.models.stacking.stability import SECTIONS, stability
from peerattn.panel.panel import Panel
from peerattn.processes import from_first, joined
from peerattn.training import one_thread
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike

MOST = 10_000  # of layers, heads and the like: more are a slip


class StackModel(AttentionNetworks):
    """An estimator that is own lines and a stack of candidates; a subclass names the candidates."""

    attention: str | bool = "self"
    task = "forecast"
    prior = None
    similarity = "scaled_dot_product"
    n_layers = 1
    d_head = 8
    own: Any = "linear"
    kappa: float | None = None
    purge = 0
    random_state: Any
    _in_full: ClassVar[str] = HEADS  # the part that enters in full where nothing is judged
    _parameter_constraints = AttentionNetworks._parameter_constraints | {
        "task": [StrOptions({"forecast", "nowcast"})],
        # None: the heads, or the transformer, in full
        "kappa": [Interval(Real, 0, None, closed="left"), None],
        "purge": [Interval(Integral, 0, None, closed="left")],
    }

    @abstractmethod
    def _candidates(self, problem: Problem, settings: Settings, draws: np.ndarray) -> list[Candidate]:
        """Return the candidates, in the order of what they read; ``draws`` are three seeds."""

    def _n_outputs(self) -> int:
        return 1

    @property
    def _kappa(self) -> float | None:
        """Standard errors that a candidate pays; None: it enters in full."""
        return self.kappa

    # ------------------------------------------------------------------ learning

    def _gate_fit(
        self,
        X: PanelLike,
        y: OutcomesLike,
        sample_weight: OutcomesLike,
        reference: ReferenceLike,
        loss_weight: OutcomesLike,
        peer_weight: OutcomesLike,
    ) -> tuple[Panel, Rows]:
        """Return the panel of ``fit`` and its training rows, weighted and in units of training; keep the reference."""
        if self.attention == "cross" and reference is None:
            raise InputError('attention="cross" needs reference=: the firms that answer, a frame or (X_ref, y_ref).')
        universe = None if reference is None else Reference.of(reference).X
        panel, training = self._gate_training(X, y, sample_weight, universe)
        self.weighs_peers_ = peer_weight is not None
        given = {"loss_weight": loss_weight, "peer_weight": peer_weight}
        training = self._weighted(panel, training, sample_weight, given)
        if reference is not None and not panel.dated and self.attention != "cross":
            raise InputError(f"reference: {OF_ARRAYS}")
        training = self._standardise_outcomes(training)
        self.reference_ = None if reference is None else self._reference_rows(reference)
        if self.reference_ is not None:
            check_same_periods(panel, self.reference_[0])
        return panel, training

    @one_thread()
    def _learn(self, training: Rows, panel: Panel, device: str = "cpu") -> None:
        names = list(self.design_.levels)
        columns = {name: c for c, name in enumerate(names)}
        self.pair_terms_ = PairTerms(read_priors(self.prior, names), columns, self.n_layers > 1)
        sections = self._training_sections(training, panel)
        self.training_rows_ = None if panel.dated or self.attention == "cross" else sections[0].peers
        problem = self._problem(panel.dated, training.weight is not None)
        draws = from_first(check_random_state(self.random_state).randint(2**31 - 1, size=3))
        stack = fit_stack(
            sections,
            self._candidates(problem, Settings(self.pair_terms_, problem.dtype, device), draws),
            problem,
            kappa=self._kappa,
            split=panel.dated and self.attention != "cross" and not problem.outcomes,
            in_full=self._in_full,
        )
        self.stack_ = stack
        self.evidence_ = stack.evidence
        self.gain_ = stack.steps
        self.stability_ = stability(stack, [self._as_seen(s) for s in sections[-SECTIONS:]])
        self.stack_ = replace(stack, held_out=())
        self._set_heads()
        embedded = [f"{name}[{k}]" for name in names for k in range(D_CODE)]
        self.feature_names_ = [*self.design_.number_names, *embedded]

    def _standardise_outcomes(self, training: Rows) -> Rows:
        """Learn mean and standard deviation of the known outcomes; models train in these units."""
        assert training.y is not None
        known = np.isfinite(training.y) & (training.loss_weights > 0)
        if not known.any():
            raise InputError("loss_weight: no row of known outcome has a positive weight.")
        y = training.y[known]
        weight = training.loss_weights[known]
        self.y_center_ = float(np.average(y, weights=weight))
        self.y_scale_ = float(np.sqrt(np.average((y - self.y_center_) ** 2, weights=weight))) or 1.0
        return self._in_units(training)

    def _set_heads(self) -> None:
        self.members_ = self.stack_.heads().members
        self.heads_ = heads_table(self.members_, (self.y_scale_ * self.stack_.weights_of_heads()).tolist())
        self.prior_strength_ = prior_strengths(self.members_, self.pair_terms_.soft)

    def _problem(self, dated: bool, weighed: bool) -> Problem:
        dates = self.reference_ is None or self.reference_[0].dated or self.task == "forecast"
        return Problem(
            self._loss(),
            self._n_outputs(),
            tuple(len(levels) for levels in self.design_.levels.values()),
            self.task == "nowcast",
            dated,
            self.purge,
            own=not (isinstance(self.own, str) and self.own == "none"),
            dtype=self._dtype(dated),
            reads_past=dates and self.attention != "cross",
            weighed=weighed,
        )

    def _dtype(self, dated: bool) -> torch.dtype:
        """Return float64 for arrays, whose predictions agree to 1e-7 however rows come."""
        return torch.float32 if dated else torch.float64

    def _training_sections(self, training: Rows, panel: Panel) -> list[CrossSection]:
        """Return cross-sections whose focal rows are those of known outcome that count in the loss."""
        everyone: Iterator[CrossSection]
        if training.weight is not None and not panel.dated and self.attention != "cross":
            training = training.take(training.weight > 0)
            rows = training.anonymous()
            everyone = iter([CrossSection(None, slice(0, len(training)), rows, training, True, True)])
        else:
            everyone = self._cross_sections(panel, training, self.reference_)
        counted = (replace(s, focal=s.focal.known().counted()) for s in everyone)
        return [section for section in counted if len(section.focal)]

    # ------------------------------------------------------------------ prediction

    def _steps(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs after each group (n_focal, steps, K) in units of training, and which rows had no admissible peer."""
        (steps,) = self.stack_.predict_steps([self._as_seen(section.unknown())])
        isolated = [self.pair_terms_.isolated(section, rows) for rows in section.chunks()]
        return steps, np.concatenate(isolated) if isolated else np.zeros(0, dtype=bool)

    def _outputs(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs (n_focal, K) in units of training, and which focal rows had no admissible peer."""
        steps, isolated = self._steps(section)
        return steps[:, -1], isolated

    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
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


@dataclass(eq=False, repr=False, kw_only=True)
class AttentionModel(StackModel):
    """Base of the attention estimators and of the stack that combines them with controls: options, and ``fit``."""

    attention: str = "self"
    task: str = "forecast"
    similarity: str = "scaled_dot_product"
    prior: Any = None
    own: Any = "linear"
    n_layers: int = 1
    n_heads: int = 2
    d_head: int = 8
    scale: str | None = "standard"
    codes: Sequence[str] = ()
    loss: float | str = "auto"
    kappa: float | None = 1.0
    purge: int = 0
    firm: str = "firm"
    period: str = "period"
    random_state: Any = None
    _shares_periods: ClassVar[bool] = True
    _parameter_constraints = StackModel._parameter_constraints | {
        "attention": [StrOptions({"self", "cross"})],
        "similarity": [StrOptions({"scaled_dot_product", "symmetric", "dot_product", "additive", "gaussian"})],
        "own": [StrOptions({"linear", "none"}), HasMethods(["fit", "predict"])],
        "n_layers": [Interval(Integral, 1, MOST, closed="both")],
        "n_heads": [Interval(Integral, 0, MOST, closed="both")],
        "d_head": [Interval(Integral, 1, MOST, closed="both")],
        # a number is the quantile of a pinball loss
        "loss": [StrOptions({"auto", "squared_error", "huber"}), Interval(Real, 0, 1, closed="neither")],
    }

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
        device : str, default "cpu"
            Where torch learns. Predictions are always computed on the CPU, in float64.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For bad options (the message names both of a bad pair), input that cannot be used, or a missing reference.
        """
        self._validate_params()
        if joined():
            if not isinstance(self.own, str):
                raise InputError(
                    "own: an estimator is fitted by each process, which may differ. Fit in one process, outside data_parallel()."
                )
            X, y, sample_weight, loss_weight, peer_weight = of_all_processes(
                self, X, y, sample_weight, loss_weight, peer_weight
            )
        check_not_with_files(X, loss_weight=loss_weight, peer_weight=peer_weight)
        check_device(device)
        panel, training = self._gate_fit(X, y, sample_weight, reference, loss_weight, peer_weight)
        self._learn(training, panel, device)
        return self
