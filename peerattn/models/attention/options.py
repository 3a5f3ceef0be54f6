"""The options of attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from peerattn.exceptions import InputError
from peerattn.models.attention.base import MOST, PanelStack
from peerattn.models.learners.priors import PairTerms, excluded_group, read_priors
from peerattn.models.learners.training import Problem
from peerattn.models.mixins import Mixed
from peerattn.models.stacking.candidates import heads_and_own
from peerattn.models.stacking.evidence import Candidate
from peerattn.panel.panel import Panel


@dataclass(eq=False, repr=False, kw_only=True)
class AttentionOptions(Mixed):
    """Options of the estimators with attention heads: regressor, classifier and stack."""

    attention: str | bool = "self"
    task: str = "forecast"
    similarity: str = "scaled_dot_product"
    prior: Any = None
    own: Any = "curves"
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
    _parameter_constraints: ClassVar[dict[str, Any]] = PanelStack._parameter_constraints | {
        "attention": [StrOptions({"self", "cross"})],
        "similarity": [StrOptions({"scaled_dot_product", "symmetric", "dot_product", "additive", "gaussian"})],
        "own": [StrOptions({"linear", "curves", "none"}), HasMethods(["fit", "predict"])],
        "n_layers": [Interval(Integral, 1, MOST, closed="both")],
        "n_heads": [Interval(Integral, 0, MOST, closed="both")],
        "d_head": [Interval(Integral, 1, MOST, closed="both")],
        # a number is the quantile of a pinball loss
        "loss": [StrOptions({"auto", "squared_error", "huber"}), Interval(Real, 0, 1, closed="neither")],
    }

    @property
    def own_group(self) -> str | None:
        """Column whose groups are never peers: ``Prior(column, exclude=True)``; None where there is none."""
        return excluded_group(self.prior)

    def _candidates(self, problem: Problem, draws: np.ndarray) -> list[Candidate]:
        return heads_and_own(self, problem, draws)

    def _problem(self, dated: bool, weighed: bool) -> Problem:
        problem = super()._problem(dated, weighed)
        known = dated and problem.reads_past and problem.n_outputs == 1
        if self.pair_terms_.reads_past and not known:
            raise InputError(
                'prior: Comovement() uses past outcomes: it needs firm and period in X, attention="self", a dated reference, and '
                "at most two classes."
            )
        return problem

    def _groupings(self) -> tuple[str, ...]:
        return () if self.own_group is None else (self.own_group,)

    def _owners(self, panel: Panel) -> pd.Index:
        if self.own_group is None or panel.firm is None:
            return super()._owners(panel)
        # neither a firm nor another one of its group is a peer
        codes = panel.codes[self.own_group].astype(object)
        pairs = zip(panel.firm.tolist(), codes.where(codes.notna(), None), strict=True)
        return pd.Index(list(pairs), tupleize_cols=False)

    def _pair_terms(self) -> PairTerms:
        names = list(self.design_.levels)
        columns = {name: c for c, name in enumerate(names)}
        return PairTerms(read_priors(self.prior, names), columns, self.n_layers > 1)
