"""What is checked of the models of a comparison before any is fitted."""

from itertools import product

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from peerattn.evaluation.running.entries import FROZEN, Entry
from peerattn.evaluation.running.fitting import Folds
from peerattn.evaluation.running.information import information_of, peer_features
from peerattn.evaluation.running.inner_folds import parts_of
from peerattn.evaluation.running.pipelines import reads_rows
from peerattn.exceptions import InputError
from peerattn.panel import Panel


def check_entries(entries: list[Entry], panel: Panel, folds: Folds, horizon: int) -> None:
    """Raise, before any fit, for a wrong declaration, a code that was left out of the columns, or validation on random rows."""
    for entry in entries:
        information_of(entry.model, entry.task)
        if any(isinstance(part, FrozenEstimator) for part in parts_of(entry.model)):
            raise InputError(f"model {entry.name!r}{FROZEN}")
        past = panel.known_at is not None and any(features.of == "outcomes" for features in peer_features(entry.model))
        if past and not (reads_rows(entry.model) and isinstance(entry.model, Pipeline)):
            wording = "its PeerFeatures(of='outcomes') would not know when outcomes are known (known_at)"
            raise InputError(f"model {entry.name!r}: {wording}. Make them the first step of a pipeline.")
        for step in dict(getattr(entry.model, "steps", [("", entry.model)])).values():
            given = [getattr(step, argument, None) for argument in ("industry", "codes", "over")]
            given += [name for part in given if isinstance(part, list | tuple) for name in part]
            for name in given:
                if isinstance(name, str) and name in panel.choice.left:
                    left = f"{name!r}, which was left out ({panel.choice.left[name]})"
                    raise InputError(f"model {entry.name!r} uses the column {left}: pass codes=[{name!r}].")
    walk = f"WalkForward(k, k, horizon={horizon}{', known_at=...' * (panel.known_at is not None)})"
    for entry, (train, _) in product([entry for entry in entries if not entry.control], folds):
        if found := entry.random_rows(panel, train, horizon):
            shared = "Firms of one period share its shocks, so a panel is never validated on random rows"
            remedy = f"search with GridSearchCV(..., cv={walk}), or pass early_stopping=False"
            raise InputError(f"model {entry.name!r}: {found[0]}. {shared}: {remedy}.")
