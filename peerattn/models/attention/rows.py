"""From what an attention model is given to cross-sections: rows, their units, and the pool of each firm."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, expect
from peerattn.models.base import PeerModel
from peerattn.models.by_period import check_not_with_files, periods_of
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.heads.priors import PairTerms, excluded_group
from peerattn.models.learners.losses import Loss
from peerattn.models.learners.past_outcomes import History
from peerattn.models.reference import Reference, among_reference, check_same_periods, with_reference
from peerattn.models.stacking.fit import Stack
from peerattn.panel.design import Design
from peerattn.panel.panel import Panel
from peerattn.panel.reading import as_panel
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike

OF_ARRAYS = 'on arrays self-attention looks to the training rows; use attention="cross".'


class AttentionRows(PeerModel):
    """Base of :class:`AttentionModel`: its rows and pools, in fit as in predict."""

    attention: str | bool
    task: str
    prior: Any
    scale: str | None
    codes: Sequence[str]
    weighs_peers_: bool
    y_center_: float
    y_scale_: float
    stack_: Stack
    pair_terms_: PairTerms
    reference_: tuple[Panel, Rows] | None

    @property
    def _values(self) -> str:
        """What a peer's information is: "characteristics" in forecasts, "outcomes" in explanations."""
        return "outcomes" if self.task == "nowcast" else "characteristics"

    @property
    def own_group(self) -> str | None:
        """Column whose groups are never peers: ``Prior(column, exclude=True)``."""
        return excluded_group(self.prior)

    @property
    def reads_outcomes(self) -> bool:
        """Whether ``predict`` can take ``outcomes=``."""
        return self._values == "outcomes" and self.attention != "cross"

    @property
    def needs_outcomes(self) -> bool:
        """Whether ``predict`` on a panel must be given ``outcomes=``."""
        return self.reads_outcomes

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

    def _reference_rows(self, reference: ReferenceLike) -> tuple[Panel, Rows]:
        given = Reference.of(reference)
        wanted = "(X_ref, y_ref)" if self.task == "nowcast" else "X_ref alone"
        informed = f'{"no " if given.y is None else ""}outcomes with task="{self.task}"'
        expect((given.y is None) == (self.task == "forecast"), "reference", wanted, informed)
        remedy = "Ranks are taken among the rows of one call, which a reference splits in two."
        expect(self.scale != "rank", "scale", '"standard" beside reference=', '"rank"', remedy)
        try:
            panel, rows = self._gate_rows(given.X, self._encode_outcomes(given.y), undated=True)
        except ValueError as error:
            raise InputError(f"reference: {error}") from error
        labels = f"rows labelled by {self.firm!r}, so that the own firm is left out"
        expect(self.attention == "cross" or panel.firm is not None, "reference", labels, "none")
        if self.weighs_peers_:
            wanted = "Reference(X, y, weight), since peer_weight= was given to fit"
            expect(given.weight is not None, "reference", wanted, "no weight")
            rows = replace(rows, weight=row_weights(panel, given.weight, "Reference.weight"))
        return panel, self._in_units(rows)

    def _encode_outcomes(self, outcomes: OutcomesLike) -> Any:
        """Return outcomes as numbers."""
        return outcomes

    @staticmethod
    def _weighted(panel: Panel, training: Rows, sample_weight: OutcomesLike, given: dict[str, Any]) -> Rows:
        """Return training rows with the loss and peer weights of a panel."""
        given = {name: weight for name, weight in given.items() if weight is not None}
        for name in given:
            expect(panel.dated, name, "a panel", "arrays", "They take sample_weight=.")
            accompanying = "A frequency weight is both: pass one of them."
            expect(sample_weight is None, name, "no sample_weight= beside it", "both", accompanying)
        read = {name.removeprefix("peer_"): row_weights(panel, w, name) for name, w in given.items()}
        return replace(training, **dict[str, Any](read))

    # ------------------------------------------------------------------ pools

    def _gate_call(
        self,
        X: PanelLike,
        outcomes: OutcomesLike = None,
        reference: ReferenceLike = None,
        peer_weight: OutcomesLike = None,
        past: History | None = None,
    ) -> tuple[Panel, Iterator[CrossSection]]:
        check_is_fitted(self, "stack_")
        why = 'attention="cross" reads the reference\'s: pass reference=(X_ref, y_ref)'
        why = 'task="forecast" reads no outcomes: use task="nowcast"' if self.task == "forecast" else why
        if outcomes is not None and not self.reads_outcomes:
            raise InputError(f"outcomes= was given, but {why}.")
        panel, call = self._gate_rows(X, self._encode_outcomes(outcomes))
        matching = self.attention == "cross" or (peer_weight is not None) == self.weighs_peers_
        wanted, got = ("weights", "none")[:: 1 if self.weighs_peers_ else -1]
        expect(matching, "peer_weight", f"{wanted}, as in fit", got)
        if peer_weight is not None:
            call = replace(call, weight=row_weights(panel, peer_weight, "peer_weight"))
        sections = self._pools(panel, self._in_units(call), outcomes is not None, reference)
        return panel, self._with_past(sections, past)

    def _pools(self, panel: Panel, call: Rows, informed: bool, reference: ReferenceLike) -> Iterator[CrossSection]:
        if self.attention != "cross" and not self.dated_ and not informed:
            if reference is not None:
                raise InputError(f"reference: {OF_ARRAYS}")
            return self._against_training(panel, call)
        extra = self.reference_ if reference is None else self._reference_rows(reference)
        if extra is not None:
            check_same_periods(panel, extra[0], of_fit=reference is None)
        if self.needs_outcomes and not informed:
            raise InputError('task="nowcast" on a panel predicts from the peers\' outcomes: pass outcomes=.')
        return self._cross_sections(panel, call, extra, warn=True)

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
        if self.task == "forecast":
            return sections
        # only peers of known outcome may be looked to; the others still help to encode
        return (replace(s, answering=np.isfinite(s.peers.y)) for s in sections)  # type: ignore[arg-type]

    @abstractmethod
    def _loss(self) -> Loss:
        """Return the loss of a row."""

    def _as_seen(self, section: CrossSection) -> CrossSection:
        """Return a cross-section as candidates see it: peers show what own lines leave of their outcomes."""
        return self.stack_.view.prepared(section, self._loss(), self.task == "nowcast")

    def _by_period(
        self, X: PanelLike, outcomes: OutcomesLike = None, peer_weight: OutcomesLike = None, **options: Any
    ) -> Iterator[tuple[Panel, Iterator[CrossSection]]]:
        check_not_with_files(X, peer_weight=peer_weight)
        past = None  # outcomes of earlier periods, handed on
        for panel, observed in periods_of(self, X, outcomes):
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
        listed = list(sections)
        informed = past.informed([self._as_seen(section) for section in listed])
        return (replace(section, past=prepared.past) for section, prepared in zip(listed, informed, strict=True))


def row_weights(panel: Panel, weight: OutcomesLike, name: str) -> np.ndarray:
    """Return one weight a row, in the panel's order: aligned by label where it carries them, by position otherwise."""
    return as_panel(panel, weights={name: weight}).weights[name]
