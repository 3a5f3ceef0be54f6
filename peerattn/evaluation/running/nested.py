"""The stack whose predictions after each group of information decompose held-out R²."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.model_note import ModelNote
from peerattn.evaluation.running.entries import STACK_WITHOUT, Entry, Task, purged
from peerattn.evaluation.running.fitting import STACK, Failure, FoldResult
from peerattn.evaluation.running.information import COMMON, information_of
from peerattn.exceptions import InputError
from peerattn.models import CommonShocksRegressor, OwnHistoryRegressor
from peerattn.models.forecasters import make_model
from peerattn.models.stacked import StackedPeerRegressor
from peerattn.models.stacking.evidence import STEPS


def default_stack(entries: Sequence[Entry]) -> Entry | None:
    """Return the user's stack of the comparison's task whose options are the defaults."""
    free = {"random_state", "purge", "firm", "period"}
    for entry in entries:
        if isinstance(entry.model, StackedPeerRegressor):
            usual = StackedPeerRegressor(task=entry.task).get_params()
            given = entry.model.get_params()
            if all(given[key] == value for key, value in usual.items() if key not in free):
                return entry
    return None


def stack_entry(task: Task, horizon: int, selected: Sequence[str]) -> Entry:
    """Return the stack that decomposes held-out R²."""
    if STACK in selected:
        raise InputError(
            f"models: the name {STACK!r} is that of the stack which compare adds, and yours has other options. Give yours "
            "another name, or pass decomposition=False."
        )
    return Entry(STACK, purged(make_model("stack", task=task), horizon), task, control=True)


def decomposition_of(
    stack: Entry | None, fits: dict[str, list[FoldResult]], notes: list[ModelNote], failures: Sequence[Failure]
) -> dict[str, Any]:
    """Return what nested models predict, or why there are none; the stack without peers is one more model of the comparison."""
    steps = {name: np.concatenate([f.steps for f in of]) for name, of in fits.items() if of[0].steps is not None}
    nested: dict[str, Any] = {"without_peers": pd.DataFrame({name: found[:, -2] for name, found in steps.items()})}
    if stack is None:
        return nested | {"undecomposed": "the comparison was not decomposed (decomposition=False)"}
    if stack.name not in fits:
        reason = next(failure.error for failure in failures if failure.model == stack.name)
        return nested | {"undecomposed": f"the stack failed: {reason}"}
    fits[STACK_WITHOUT] = [FoldResult(STACK_WITHOUT, f.fold, f.steps[:, -2]) for f in fits[stack.name] if f.steps is not None]
    without = CommonShocksRegressor() if stack.task == "nowcast" else OwnHistoryRegressor()
    at = [note.name for note in notes].index(stack.name)
    reads = information_of(without, stack.task)[1]
    notes.insert(at + 1, ModelNote(STACK_WITHOUT, COMMON, reads, "the stack without its last group", control=True))
    return nested | {"stack": stack.name, "steps": pd.DataFrame(steps[stack.name], columns=STEPS)}
