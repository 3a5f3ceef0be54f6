"""The reference universe: firms of another panel that answer, and the pools that they are in."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from peerattn.exceptions import expect, naming, reworded
from peerattn.models.cross_section import CrossSection, Rows, identities
from peerattn.models.pools import places_of
from peerattn.panel.panel import Panel
from peerattn.render import show_label
from peerattn.types import ReferenceLike

_WANTED = "a frame, a matrix or a pair (X_ref, y_ref)"


@dataclass(frozen=True)
class Reference:
    """Candidate peers for cross-attention, and (for ``task="nowcast"``) their outcomes.

    Has no length on purpose: ``cross_validate(params={"reference": Reference(X_ref)})`` passes it whole, where it would slice a
    frame that happens to be as long as X.

    Parameters
    ----------
    X : DataFrame or array-like (n_reference, p)
        Raw characteristics with the columns of the focal firms; scaling happens inside the estimator. With firm and
        period labels, a focal firm attends to the reference rows of its own period; with firms only, to all of them.
    y : Series or array-like (n_reference,), optional
        Their outcomes; NaN = unknown.
    weight : Series or array-like (n_reference,), optional
        Their ``peer_weight`` (market value, for example), where the model was fitted with one.

    Examples
    --------
    >>> from peerattn import Reference, simulate_panel
    >>> panel = simulate_panel(10, 3, 2, random_state=0)
    >>> universe = Reference(panel.X, panel.y)
    >>> universe.X.shape[0]
    30
    """

    X: Any
    y: Any = None
    weight: Any = None

    @classmethod
    def of(cls, reference: ReferenceLike) -> Self:
        """Return ``reference`` as a Reference: it may be one already, a frame, or a pair (X_ref, y_ref)."""
        if isinstance(reference, cls):
            return reference
        parts = reference if isinstance(reference, tuple) else (reference,)
        expect(len(parts) <= 2, "reference", _WANTED, f"a tuple of {len(parts)}")
        return cls(*parts)

    def __post_init__(self) -> None:
        if self.X is None or isinstance(self.X, Panel):
            return
        with reworded(f"reference: expected {_WANTED}", kinds=ValueError):  # rows of a list may differ in length
            n_dimensions = len(np.shape(self.X))
        expect(n_dimensions == 2, "reference", _WANTED, f"{type(self.X).__name__} of {n_dimensions} dimensions")


def among_reference(panel: Panel, call: Rows, universe: Panel, rows: Rows) -> Iterator[CrossSection]:
    """Yield each period's firms with the reference for a pool.

    A dated reference answers in its own period, an undated one in all; the focal firm is left out by its label.
    """
    if panel.firm is None or universe.firm is None:
        call = call.anonymous()
    else:
        with naming("reference"):
            mine, theirs = identities(call.owner, rows.owner)
        call = replace(call, identity=mine)
        rows = replace(rows, identity=theirs)
    pools = rows_by_period(universe, rows)
    nobody = rows.take(slice(0, 0))
    for place, period, at in places_of(panel):
        yield CrossSection(period, at, call.take(at), pools(period, nobody), within=True, place=place)


def with_reference(sections: Iterator[CrossSection], universe: Panel, rows: Rows) -> Iterator[CrossSection]:
    """Yield the sections with the reference rows of the same period added to each pool; a firm is in it once."""
    pools = rows_by_period(universe, rows)
    for section in sections:
        more = pools(section.period)
        if more is not None:
            # a firm of both is in the pool once, as the call has it
            more = more.take(~more.label.isin(section.peers.label))
            with naming("reference"):
                mine, theirs, added = identities(section.focal.owner, section.peers.owner, more.owner)
            peers = Rows.stacked([replace(section.peers, identity=theirs), replace(more, identity=added)])
            section = replace(section, focal=replace(section.focal, identity=mine), peers=peers)
        yield section


def rows_by_period(universe: Panel, rows: Rows) -> Callable[..., Any]:
    """Return what gives the reference rows of a period, or a default; an undated reference answers in all periods."""
    if not universe.dated:
        return lambda period, default=None: rows
    return {period: rows.take(at) for period, at in universe.cross_sections()}.get


def check_reference(given: Reference, task: str, scale: str | None, weighs_peers: bool) -> None:
    """Raise where a reference has no outcomes, or no weights, and the model needs them, or the other way round."""
    if task == "nowcast":
        expect(given.y is not None, "reference", "(X_ref, y_ref)", 'no outcomes with task="nowcast"')
    else:
        expect(given.y is None, "reference", "X_ref alone", 'outcomes with task="forecast"')
    wanted, got = "Reference(X, y), since peer_weight= was not given to fit", "a weight"
    if weighs_peers:
        wanted, got = "Reference(X, y, weight), since peer_weight= was given to fit", "no weight"
    expect((given.weight is not None) == weighs_peers, "reference", wanted, got)
    remedy = "Ranks are taken among the rows of one call, which a reference splits in two."
    expect(scale != "rank", "scale", '"standard" beside reference=', '"rank"', remedy)


def check_same_periods(panel: Panel, universe: Panel, *, of_fit: bool = False) -> None:
    """Raise when a dated reference can answer nowhere in the call; ``of_fit``: none was passed, it is that of fit."""
    if not universe.dated:
        return
    remedy = "Drop its period level, or date X."
    expect(panel.dated, "reference", "no periods, since X carries none", "one that is dated", remedy)
    theirs, mine = (f"{show_label(p.period[0])} to {show_label(p.period[-1])}" for p in (universe, panel))
    passing = "Pass"
    if of_fit:
        theirs = f"that of fit, which holds {theirs}"
        passing = "Pass predict(..., reference=) with"
    shared = bool(panel.period.isin(universe.period).any())
    remedy = f"{passing} the firms of X's periods, labelled alike."
    expect(shared, "reference", f"periods of X, {mine}", theirs, remedy)
