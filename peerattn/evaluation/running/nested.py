"""The stack whose predictions after each group of information decompose held-out R², and a placebo of its peers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from peerattn.evaluation.compared import ModelNote
from peerattn.evaluation.running.entries import STACK_WITHOUT, Entry, Task
from peerattn.evaluation.running.fitting import STACK, FoldResult, Folds, How, fit_all, squared_errors
from peerattn.evaluation.running.information import COMMON, information_of
from peerattn.evaluation.running.inner_folds import purged
from peerattn.evaluation.running.store import FoldStore
from peerattn.exceptions import InputError
from peerattn.models import CommonShocksRegressor, OwnHistoryRegressor, StackedPeerRegressor, make_model
from peerattn.models.stacking.evidence import STEPS
from peerattn.network.inference.permutation import within
from peerattn.panel.panel import Panel, panel_digest

FEWEST_EXCHANGED = 5  # firms of an industry in a period that are exchanged among themselves


def stack_among(entries: list[Entry], task: Task, horizon: int) -> Entry:
    """Return the stack that decomposes held-out R²: the user's where its options are the defaults, else one that is added."""
    # options that do not make it another model
    free = {"random_state", "purge", "firm", "period"}
    usual = StackedPeerRegressor(task=task).get_params()
    for entry in entries:
        if isinstance(entry.model, StackedPeerRegressor):
            given = entry.model.get_params()
            if all(given[key] == value for key, value in usual.items() if key not in free):
                return entry
    if STACK in [entry.name for entry in entries]:
        wording = f"the name {STACK!r} is that of the stack which compare adds, and yours has other options"
        raise InputError(f"models: {wording}. Give yours another name, or pass decomposition=False.")
    entries.append(Entry(STACK, purged(make_model("stack", task=task), horizon), task, control=True))
    return entries[-1]


@dataclass(frozen=True)
class Nested:
    """What nested models predict; see :class:`~peerattn.evaluation.Comparison`."""

    without_peers: pd.DataFrame
    undecomposed: str = ""
    stack: str | None = None
    steps: pd.DataFrame = field(default_factory=pd.DataFrame)


def decomposition_of(
    stack: Entry | None, fits: dict[str, list[FoldResult]], notes: list[ModelNote], errors: Mapping[str, str]
) -> Nested:
    """Return what nested models predict, or why there are none; the stack without peers is one more model of the comparison."""
    steps = {name: np.concatenate([f.steps for f in of]) for name, of in fits.items() if of[0].steps is not None}
    without_peers = pd.DataFrame({name: found[:, -2] for name, found in steps.items()})
    if stack is None:
        return Nested(without_peers, "the comparison was not decomposed (decomposition=False)")
    if stack.name not in fits:
        return Nested(without_peers, f"the stack failed: {errors[stack.name]}")
    fits[STACK_WITHOUT] = [FoldResult(STACK_WITHOUT, f.fold, f.steps[:, -2]) for f in fits[stack.name] if f.steps is not None]
    # its information is that of the last model below peers
    without = {"forecast": OwnHistoryRegressor(), "nowcast": CommonShocksRegressor()}[stack.task]
    at = [note.name for note in notes].index(stack.name)
    reads = information_of(without, stack.task)[1]
    notes.insert(at + 1, ModelNote(STACK_WITHOUT, COMMON, reads, "the stack without its last group", control=True))
    return Nested(without_peers, stack=stack.name, steps=pd.DataFrame(steps[stack.name], columns=STEPS))


def explained(panel: Panel) -> np.ndarray:
    """Return what each firm's own characteristics and past explain of a sorted panel's outcomes, (n,)."""
    return np.asarray(OwnHistoryRegressor().fit(panel).predict(panel.with_outcomes(None)))


def exchanged(panel: Panel, own: np.ndarray, rng: np.random.Generator) -> Panel:
    r"""Return the panel with the unexplained part of its outcomes exchanged between the firms of a period.

    .. math:: y^*_{it} = o_{it} + (y_{\pi_t(i) t} - o_{\pi_t(i) t})

    o what the firm's own characteristics and past explain (``own``, by :func:`explained`), :math:`\pi_t` a random
    permutation of the firms of known outcome. An industry with outcomes of five firms in the period keeps its shock: its firms
    are exchanged among themselves. Firms of smaller ones, which would mostly keep their own outcomes, are among all of these.
    """
    left = panel.y.to_numpy() - own
    known = np.flatnonzero(np.isfinite(left))
    period = pd.factorize(panel.period[known])[0]
    cell = period
    if panel.industry is not None:
        industry = pd.factorize(panel.codes[panel.industry].iloc[known])[0]
        of_industry = pd.DataFrame({"period": period, "industry": industry}).groupby(["period", "industry"], dropna=False)
        large = of_industry["period"].transform("size") >= FEWEST_EXCHANGED
        cell = np.where(large, period.max() + 1 + of_industry.ngroup(), period)
    left[known] = left[known[within(rng, cell)]]
    return panel.with_outcomes(pd.Series(own + left, index=panel.X.index, name=panel.outcome))


def placebo_gains(stack: Entry, panel: Panel, folds: Folds, n: int, how: How) -> np.ndarray:
    """Return the gains in held-out R² of a stack's peers, refitted on n panels of exchanged outcomes.

    A draw in which it fails is left out.
    """
    rng = np.random.default_rng(0)
    own = explained(panel)
    gains = []
    for k in range(n):
        drawn = exchanged(panel, own, rng)
        # no network of it is shown
        refit = replace(stack, name=f"{stack.name}, placebo {k + 1} of {n}", control=True)
        results = fit_all([refit], drawn, folds, how._replace(kept=FoldStore(how.kept.folder, panel_digest(drawn))))
        if not any(result.error for result in results.values()):
            ours, base, without = squared_errors(refit.name, results)
            gains.append(float((without - ours) / max(base, 1e-300)))
    return np.array(gains)
