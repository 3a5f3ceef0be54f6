"""The claims that a comparison supports: where predictability comes from, whether peers help, and on what evidence.

Every sentence, table and figure of a report takes its numbers and its verdict from the one :class:`Claims` object made here.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pandas as pd

from peerattn.evaluation.compared import Compared
from peerattn.evaluation.gains import LEVEL, Concentration, Gain, concentration_of, difference, gain_of, smallest_gain
from peerattn.foreign_text import visible
from peerattn.models.stacking.evidence import STEPS
from peerattn.network import PeerNetwork

PEERS = STEPS[-1]
YES = "Yes"
NOT_SHOWN = "Not shown"
NO = "No"
UNTESTED = "Could not be tested"


@dataclass(frozen=True)
class Step:
    """One step of the decomposition: the stack after one more group of information.

    Attributes
    ----------
    name : str
    r2 : float
    gain : Gain or None
        Over the step before; None for the first one.
    selected : str
        What was selected, or why nothing was; empty for the first step.
    """

    name: str
    r2: float
    gain: Gain | None = None
    selected: str = ""


@dataclass(frozen=True, repr=False)
class Claims:
    """What a comparison shows, computed once.

    Attributes
    ----------
    steps : tuple of Step
        The stack after own characteristics (linear), nonlinear own-firm models, firm history, common shocks and peers; empty
        where the comparison was not decomposed.
    answer : str
        Whether peers help: "Yes" (one-sided test of ``gain`` at 5 %), "Not shown" (a gain that may be chance or rests on few,
        or too little power to find peers), "No" or "Could not be tested".
    why : str
        What the answer rests on, in words.
    stack, without : str or None
        The stack, and the same stack without peers.
    gain : Gain or None
        Of the former over the latter.
    p : float or None
        One-sided; None without a test.
    concentration : Concentration or None
        Of a gain above zero.
    smallest : float or None
        Share of the outcome's variance that a network would have had to explain to be found with probability .8, where no gain
        is significant.
    models : tuple of Gain
        Each peer model of the user over the stack without peers; where it has a version of its own without peers over that, too.
    empty : tuple of str
        Peer models whose network is empty; a stack that could not test peers is not among them.
    network : str or None
        The model whose network is shown: the stack where peers were selected, else the user's peer model of least error.
    """

    steps: tuple[Step, ...]
    answer: str
    why: str
    stack: str | None = None
    without: str | None = None
    gain: Gain | None = None
    p: float | None = None
    concentration: Concentration | None = None
    smallest: float | None = None
    models: tuple[Gain, ...] = ()
    empty: tuple[str, ...] = ()
    network: str | None = None

    def __repr__(self) -> str:
        return f"Claims({self.answer}: {self.why}; {len(self.steps)} steps)"

    def __str__(self) -> str:
        return visible(f"Do peers help? {self.answer}: {self.why}.\n\n{self.to_frame().to_string()}")

    def to_frame(self) -> pd.DataFrame:
        """Return the decomposition, a row a step."""
        columns = ["r2", "gain", "low", "high", "t", "p", "selected", "reason"]
        rows = []
        for step in self.steps:
            row = {**vars(step), "gain": np.nan, "reason": ""}
            if step.gain is not None:
                row |= vars(step.gain)
            rows.append(row)
        frame = pd.DataFrame(rows, pd.Index([step.name for step in self.steps], name="step"), columns)
        return frame.astype(dict.fromkeys(columns[:-2], float))


def claims_of(compared: Compared) -> Claims:
    """Return the claims that a comparison supports."""
    # of a stack that could not test peers the answer states it
    untested = [name for name in compared.peer_models if name == compared.stack and PEERS in compared.note(name).untested]
    empty = tuple(name for name in compared.peer_models if found_no_peers(compared, name) and name not in untested)
    network = _network(compared, empty)
    if compared.is_constant:
        return Claims((), UNTESTED, "the outcome is the same in all tested rows", empty=empty, network=network)
    stack = compared.stack
    models = tuple(_models(compared))
    if stack is None:
        return Claims((), UNTESTED, compared.undecomposed, models=models, empty=empty, network=network)
    without = compared.without_name
    steps = _steps(compared)
    gain = gain_of(compared, stack, without)
    found = concentration_of(compared, gain) if gain.gain > 0 else None
    answer, why, p = _answer(compared, gain, found)
    smallest = None
    if answer in (NOT_SHOWN, NO) and (p is None or p >= LEVEL):
        smallest = smallest_gain(compared, without)
    # a sample in which no network would be found does not show that there is none
    if answer == NO and smallest == np.inf:
        answer = NOT_SHOWN
        why += ", but the test has little power"
    # a user's model may find what the stack did not
    against = [other for other in models if other.against == without]
    # significantly, their number accounted for
    better = [other.model for other in against if (upper := other.upper_p) is not None and upper * len(against) < LEVEL]
    if better and answer != YES:
        why += f", though {' and '.join(better)} predict{'s' * (len(better) == 1)} better than the stack without peers"
    return Claims(steps, answer, why, stack, without, gain, p, found, smallest, models, empty, network)


def _steps(compared: Compared) -> tuple[Step, ...]:
    """Return the held-out R² of the one stack after each group, and what each adds."""
    columns = compared.steps.loc[compared.known.index]
    note = compared.note(str(compared.stack))
    gains = [difference(compared, columns[after], columns[before], (after, before)) for before, after in pairwise(STEPS)]
    first = Step(STEPS[0], gains[0].r2_against)
    return (first, *(Step(gain.model, gain.r2, gain, note.selected_in(gain.model)) for gain in gains))


def _models(compared: Compared) -> list[Gain]:
    """Return what each of the user's peer models adds to the stack without peers, and to its own version without peers."""
    gains = []
    for name in compared.peer_models:
        if name == compared.stack:
            continue
        if compared.stack is not None:
            gains.append(gain_of(compared, name, compared.without_name))
        if name in compared.without_peers:
            own = compared.without_peers.loc[compared.known.index, name]
            gains.append(difference(compared, compared.known[name], own, (name, "its own version without peers")))
    return gains


def _answer(compared: Compared, gain: Gain, found: Concentration | None) -> tuple[str, str, float | None]:
    """Return whether peers help, why, and the p-value that gives the answer."""
    note = compared.note(gain.model)
    if not note.fits_with_peers:
        if reason := note.untested.get(PEERS):
            return UNTESTED, f"peers were not tested in the stack ({reason})", None
        if note.fits == 1:
            return NO, "peers were not selected in the one fit", None
        return NO, f"peers were selected in none of {note.fits} fits", None
    if len(compared.periods) == 1:
        return UNTESTED, "one period is tested, and what holds in it may not hold in another", None
    if gain.gain <= 0 or found is None:
        return NO, "the stack predicts no better with peers than without", None
    p = gain.upper_p
    if p is None:
        return UNTESTED, gain.reason, None
    if p >= LEVEL:
        return NOT_SHOWN, "there is a gain, and it may be chance", p
    if found.rests_on:
        return NOT_SHOWN, f"the gain rests on {found.rests_on}", p
    return YES, "the stack predicts better with peers than without", p


def found_no_peers(compared: Compared, name: str) -> bool:
    """Return whether a peer model has no peers in any fit: it predicts without them."""
    fits_with_peers = compared.note(name).fits_with_peers
    if fits_with_peers is None:
        return name in compared.networks and not _has_edges(compared.networks[name])
    return fits_with_peers == 0


def _has_edges(network: PeerNetwork) -> bool:
    return len(network.isolates) < len(network.firms)


def _network(compared: Compared, empty: tuple[str, ...]) -> str | None:
    """Return the model whose network is shown."""
    networks = compared.networks
    drawn = [name for name in compared.peer_models if name in networks and _has_edges(networks[name]) and name not in empty]
    if not drawn:
        return None
    if compared.stack in drawn:
        return compared.stack
    return str(compared.scores["rmse"][drawn].idxmin())


class WithClaims(Compared):
    """A comparison and the claims that it supports."""

    @cached_property
    def claims(self) -> Claims:
        """The claims that this comparison supports, computed once."""
        return claims_of(self)
