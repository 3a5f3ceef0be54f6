"""From what an attention model is given to cross-sections: rows, their units, and the pool of each firm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError
from peerattn.models.attention.fitting import known_past
from peerattn.models.attention.history import History
from peerattn.models.attention.networks import AttentionNetworks
from peerattn.models.attention.priors import excluded_group
from peerattn.models.attention.reference import Reference
from peerattn.models.attention.row_weights import row_weights
from peerattn.models.attention.universes import (
    among_reference,
    answering_outcomes,
    refuse_other_periods,
    with_reference,
)
from peerattn.models.pools import Rows, Section
from peerattn.panel.design import Design
from peerattn.panel.panel import Panel


class AttentionRows(AttentionNetworks):
    """Base of :class:`AttentionModel`: its rows and pools, in fit as in predict."""

    attention: str
    task: str
    prior: Any
    scale: str | None
    codes: Sequence[str]
    weighs_peers_: bool
    y_center_: float
    reference_: tuple[Panel, Rows] | None

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
            rows = replace(rows, weight=row_weights(panel, given.weight, "Reference.weight"))
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
            call = replace(call, weight=row_weights(panel, peer_weight, "peer_weight"))
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
            sections = among_reference(panel, rows, *extra)
        else:
            sections = self._within(panel, rows, known=False, warn=warn and extra is None)
            if extra is not None:
                sections = with_reference(sections, *extra)
        return map(answering_outcomes, sections) if self.values == "outcomes" else sections

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
