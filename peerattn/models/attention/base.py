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
from peerattn.models.attention.candidates import D_CODE, candidates_of
from peerattn.models.attention.fitting import fit_stack
from peerattn.models.attention.heads import Settings
from peerattn.models.attention.losses import Loss
from peerattn.models.attention.members import heads_table, prior_strengths
from peerattn.models.attention.options import check_device, check_options
from peerattn.models.attention.peers import COVARIANCE, HEADS, RIDGE
from peerattn.models.attention.priors import PairTerms, read_priors
from peerattn.models.attention.reference import Reference
from peerattn.models.attention.row_weights import weighted
from peerattn.models.attention.rows import AttentionRows
from peerattn.models.attention.shared_periods import of_all_processes, one_numbering, refuse_unshared
from peerattn.models.attention.stability import SECTIONS, stability
from peerattn.models.attention.stages import made_from
from peerattn.models.attention.training import Problem
from peerattn.models.attention.universes import (
    refuse_other_periods,
)
from peerattn.models.by_period import refuse_beside_files
from peerattn.models.pools import Rows, Section
from peerattn.panel.panel import Panel
from peerattn.processes import all_sum, from_first, mean_of
from peerattn.training import Checkpoint, one_thread


@dataclass(eq=False, repr=False, kw_only=True)
class AttentionModel(AttentionRows):
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
        settings = Settings(self.pair_terms_, problem.dtype, device)
        candidates = candidates_of(self, problem, settings, draws, training.weight is not None)
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
            dtype=self._dtype(dated),
            reads_past=dates and self.attention == "self",
        )

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
