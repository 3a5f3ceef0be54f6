"""The audits of a comparison: one for each requested model, in parallel, and stored like its fits."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from peerattn.evaluation.leak_audit.checks import AuditLine
from peerattn.evaluation.leak_audit.runner import Audit, audit_entry
from peerattn.evaluation.running.entries import Entry
from peerattn.evaluation.running.fitting import Folds
from peerattn.evaluation.running.store import FoldStore
from peerattn.panel import Panel
from peerattn.render import progress_bar
from peerattn.training import one_thread


def run_audits(
    chosen: list[Entry],
    panel: Panel,
    cv: Any,
    folds: Folds,
    task: str,
    *,
    n_jobs: int | None,
    kept: FoldStore | None,
    verbose: bool,
) -> dict[str, Audit]:
    """Return the audit of each model; one that raises is an audit whose only claim is refuted by what it raised."""
    from joblib import Parallel, delayed

    keys = {c.name: _key(kept, c, folds) for c in chosen} if kept else {}
    found = {name: audit for name, key in keys.items() if kept and (audit := kept.load(key, Audit))}
    left = [entry for entry in chosen if entry.name not in found]
    with progress_bar("audit" if verbose and chosen else None, len(chosen), len(found)) as advance:
        calls = (delayed(_one)(entry, panel, cv, task) for entry in left)
        for name, audit in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(calls):
            found[name] = audit
            if kept is not None:
                kept.save(keys[name], audit)
            advance(name)
    return {entry.name: found[entry.name] for entry in chosen}


def _key(kept: FoldStore, entry: Entry, folds: Folds) -> str:
    train, test = (np.concatenate([fold[side] for fold in folds]) for side in (0, 1))
    made_from = kept.key(entry, train, test, with_network=False)
    return hashlib.sha256(f"audit|{made_from}".encode()).hexdigest()[:40]


def _one(entry: Entry, panel: Panel, cv: Any, task: str) -> tuple[str, Audit]:
    with one_thread():
        try:
            return entry.name, audit_entry(entry, panel, cv, task)
        except Exception as error:  # whatever the model raises is the finding
            model = " ".join(str(entry.model).split())
            return entry.name, Audit(model, task, (AuditLine.raised("it can be audited", error),))
