"""What may be said of a comparison: where predictability comes from, whether peers help, and on what evidence.

Every sentence, table and figure of a report takes its numbers and its verdict from the one :class:`Claims` object made here.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.compared import Compared
from peerattn.evaluation.gains import LEVEL, Gain, gain_of, is_gain, labels_of, saved_by_row, smallest_gain
from peerattn.evaluation.running.information import COMMON, HISTORY, PEERS, STEPS
from peerattn.foreign_text import visible
from peerattn.render import show_label

SAME = 1e-6  # largest difference of two models' predictions, as a share of the largest, that rounding makes
HALF = 0.5
YES = "Yes"
NOT_SHOWN = "Not shown"
NO = "No"
UNJUDGED = "Could not be judged"


@dataclass(frozen=True)
class Step:
    """One step of the decomposition: the best model that reads no more than this, over the best of the step before.

    Attributes
    ----------
    name : str
    model : str
    r2 : float
    gain : Gain or None
        Over the step before; None for the first one.
    """

    name: str
    model: str
    r2: float
    gain: Gain | None = None


@dataclass(frozen=True)
class Concentration:
    """On how few firms, groups and periods a gain rests.

    Attributes
    ----------
    firms_for_half : int
        The fewest firms that together make half of the gain.
    n_firms : int
    largest : dict of str to (str, float)
        The firm, the group of each code and the period with the largest share of the gain.
    rests_on : str
        What the gain rests on, in words; empty where it is spread.
    """

    firms_for_half: int
    n_firms: int
    largest: dict[str, tuple[str, float]]
    rests_on: str = ""


_WHY = {
    "test": "by the test of the gain, the search among peer models accounted for",
    "loss": "the best model with peers has no gain over the best without",
    "same": "both predict the same",
    "empty": "the networks are empty",
}


@dataclass(frozen=True, repr=False)
class Claims:
    """What a comparison shows, computed once.

    Attributes
    ----------
    steps : tuple of Step
        Own lines → own shape → own history → common → peers, those that have a model.
    answer : str
        Whether peers help: "Yes", "Not shown", "No" or "Could not be judged".
    why : str
        What the answer rests on: "test", "loss", "same", "empty", or what kept it from being judged.
    peer, control : str or None
        The best model with peers, and the best without.
    gain : Gain or None
        Of the former over the latter.
    p : float or None
        One-sided, the search among peer models accounted for (Bonferroni).
    n_searched : int
        Peer models with a network that is not empty.
    concentration : Concentration or None
        Of a gain above zero.
    smallest : float or None
        Share of the outcome's variance that a network would have had to explain to be found with probability .8; where the
        answer is "Not shown" or "No".
    empty : tuple of str
        Peer models whose network is empty.
    network : str or None
        The model whose network is shown.
    """

    steps: tuple[Step, ...]
    answer: str
    why: str
    peer: str | None = None
    control: str | None = None
    gain: Gain | None = None
    p: float | None = None
    n_searched: int = 0
    concentration: Concentration | None = None
    smallest: float | None = None
    empty: tuple[str, ...] = ()
    network: str | None = None

    @property
    def _wording(self) -> str:
        return f"{self.answer}: {_WHY.get(self.why, self.why)}"

    def __repr__(self) -> str:
        compared = f"{self.peer!r} against {self.control!r}" if self.gain else f"{len(self.steps)} steps"
        return f"Claims({self._wording}; {compared})"

    def __str__(self) -> str:
        return visible(f"Do peers help? {self._wording}.\n\n{self.to_frame().to_string()}")

    def to_frame(self) -> pd.DataFrame:
        """Return the decomposition, a row a step."""
        columns = ["model", "r2", "gain", "low", "high", "t", "p", "reason"]
        rows = [{**vars(step), **(vars(step.gain) if step.gain else {"reason": ""})} for step in self.steps]
        frame = pd.DataFrame(rows, pd.Index([step.name for step in self.steps], name="step"), columns)
        return frame.astype(dict.fromkeys(columns[1:-1], float))


def claims_of(compared: Compared) -> Claims:
    """Return what may be said of a comparison."""
    rmse = compared.scores["rmse"]
    steps = _controls(compared, rmse)
    control = steps[-1].model if steps else None
    empty = tuple(name for name in compared.peer_models if found_no_peers(compared, name))
    peers = [name for name in compared.peer_models if name not in empty]
    best = str(rmse[peers or compared.peer_models].idxmin()) if compared.peer_models else None
    observed = [name for name in peers if name in compared.networks]
    network = str(rmse[observed].idxmin()) if observed else None
    rest: dict[str, Any] = {"peer": best, "control": control, "empty": empty, "network": network}
    if best is None:
        return Claims(steps, UNJUDGED, "no model weighs chosen peers", **rest)
    if control is None:
        return Claims(steps, UNJUDGED, "no model without peers was compared", **rest)
    gain = gain_of(compared, best, control)
    steps = (*steps, Step(PEERS, best, gain.r2, gain))
    found = None if gain.gain <= 0 else concentration_of(compared, gain)
    answer, why, p = _answer(compared, gain, peers, found)
    smallest = smallest_gain(compared, control) if answer in (NOT_SHOWN, NO) else None
    rest |= {"gain": gain, "p": p, "n_searched": len(peers), "concentration": found, "smallest": smallest}
    return Claims(steps, answer, why, **rest)


def _controls(compared: Compared, rmse: pd.Series) -> tuple[Step, ...]:
    """Return the steps below peers, each the best model up to it."""
    steps: list[Step] = []
    so_far: list[str] = []
    for name in STEPS[:-1]:
        here = [model.name for model in compared.models if model.step == name]
        so_far += here
        if not here:
            continue
        least = rmse[so_far].min() * (1 + 1e-12)
        best = next(model for model in so_far if rmse[model] <= least)  # of equals the one that reads least
        gain = gain_of(compared, best, steps[-1].model) if steps else None
        steps.append(Step(name, best, float(compared.scores["r2_mean"][best]), gain))
    return tuple(steps)


def _answer(compared: Compared, gain: Gain, peers: list[str], found: Any) -> tuple[str, str, float | None]:
    """Return whether peers help, why, and the p-value that says so."""
    unjudged = [model.unjudged for model in compared.models if model.name == gain.model and model.unjudged]
    if not peers:
        return (UNJUDGED, unjudged[0], None) if unjudged else (NO, "empty", None)
    there = {m.step for m in compared.models}
    needed = [HISTORY, COMMON][: 1 + (compared.task == "nowcast")]
    if compared.failures and (lacking := [step for step in needed if step not in there]):
        return UNJUDGED, f"the control that reads {lacking[0]} failed", None
    both = compared.predictions[[gain.model, gain.against]].to_numpy()
    if np.ptp(both, axis=1).max() <= SAME * np.abs(both).max():
        return NO, "same", None
    if len(compared.periods) == 1:
        return UNJUDGED, "one period is tested, and what holds in it may not hold in another", None
    if gain.gain <= 0 or found is None:
        return NO, "loss", None
    if gain.upper_p is None:
        return UNJUDGED, gain.reason, None
    p = min(1.0, len(peers) * gain.upper_p)
    if p < LEVEL and found.rests_on:
        return UNJUDGED, f"the gain rests on {found.rests_on}", None
    return (YES if p < LEVEL else NOT_SHOWN), "test", p


def found_no_peers(compared: Compared, name: str) -> bool:
    """Return whether a peer model's network is empty: it predicts from own characteristics and codes alone."""
    fits = compared.note(name).fits_with_peers
    net = compared.networks.get(name)
    return fits == 0 if fits is not None else net is not None and len(net.isolates) == len(net.firms)


def concentration_of(compared: Compared, gain: Gain) -> Concentration:
    """Return on what a gain above zero rests.

    It rests on few where fewer than ten firms (in small panels a tenth of them, but two) make half of it; or where more than half
    of it is that of one group of a code with five groups at least, or of one period (of two or three periods, nearly all of it),
    and what the other rows gain is not significant.
    """
    rows = saved_by_row(compared, gain.model, gain.against)
    total = float(rows["gain"].sum())
    by_firm = rows.groupby("firm")["gain"].sum().sort_values(ascending=False) / total
    half = int(np.searchsorted(by_firm.cumsum().to_numpy(), HALF)) + 1
    labels = {"period": rows["period"].to_numpy()}
    labels |= {name: labels_of(rows, group) for name, group in compared.panel.codes.items()}
    largest = {"firm": (show_label(by_firm.index[0]), float(by_firm.iloc[0]))}
    n = len(by_firm)
    n_periods = len(compared.periods)
    rests = ""
    if half < max(2, min(10, n / 10)):
        rests = f"{half} firm{'s' if half > 1 else ''}, which make{'' if half > 1 else 's'} half of it"
    for what, label in labels.items():
        shares = rows["gain"].groupby(label).sum() / total
        if not len(shares):
            continue
        most = shares.idxmax()
        share = float(shares.max())
        largest[what] = (show_label(most), share)
        limit = max(HALF, 1.8 / n_periods) if what == "period" else HALF
        few = what != "period" and len(shares) < 5
        if not (rests or few) and share > limit and not is_gain(compared, rows[label != most]):
            rests = f"one {what}, {show_label(most)}, with {share:.0%} of it"
    return Concentration(half, n, largest, rests)


class Judged(Compared):
    """A comparison and what may be said of it."""

    @cached_property
    def claims(self) -> Claims:
        """What may be said of this comparison, computed once."""
        return claims_of(self)
