"""What test_processes.py runs in each of two processes: ``torchrun --nproc-per-node=2 two_processes.py FOLDER``."""

import json
import sys
import warnings
from contextlib import ExitStack, contextmanager
from itertools import repeat
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from sklearn.linear_model import LinearRegression

from peerattn import (
    CrossSectionalRidge,
    InputError,
    PeerAttentionClassifier,
    PeerAttentionRegressor,
    cli,
    simulate_panel,
)
from peerattn.models.attention.base import PanelStack
from peerattn.models.learners.covariance import fit as covariance_fit
from peerattn.models.learners.heads import learner, sampling
from peerattn.models.learners.heads.training import TrainingOptions
from peerattn.panel import scan_panel
from peerattn.processes import data_parallel, process, share
from peerattn.training import train

FEW = {"random_state": 0, "n_heads": 1, "own": "none", "codes": ["industry"]}
JOINT = {**FEW, "kappa": None, "own": "linear"}
#: Few steps, in which what two sums differ by in the last bit does not grow.
SHORT = [
    (learner, "DEFAULT", TrainingOptions(n_seeds=4, max_steps=4, max_draws=2)),
    (covariance_fit, "FEWEST_STEPS", 6),
    (PanelStack, "_dtype", lambda model, dated: torch.float64),
]


def panel():
    """Return a panel with a gap in the characteristics, and peers."""
    made = simulate_panel(12, 24, 2, n_industries=3, sharpness=2.0, random_state=0)
    X = made.X.copy()
    X.iloc[::17, 0] = np.nan
    return X, made.y


def fits(X, y):
    """Yield fits by name; parts that are judged find nothing, and are soon given up."""
    noise = y.sample(frac=1, random_state=0).set_axis(y.index)
    yield "searched", PeerAttentionRegressor(**FEW), noise
    yield "covariance", PeerAttentionRegressor(task="nowcast", **FEW), noise
    yield "quantile", PeerAttentionRegressor(loss=0.8, **JOINT), y
    yield "classes", PeerAttentionClassifier(**JOINT), y > 0
    yield "outcomes", PeerAttentionRegressor(task="nowcast", **JOINT), y


def fitted(name, model, X, y, **options):
    """Return the model, fitted; where names say so a step has few rows, so that a process may have none of them."""
    few = [(sampling, "ROWS", 12)] if name in ("searched", "classes") else []
    with changed(SHORT + few):
        return model.fit(X, y, **options)


@contextmanager
def changed(constants):
    """Set constants for a while."""
    with ExitStack() as each:
        for module, constant, value in constants:
            each.enter_context(patch.object(module, constant, value))
        yield


def predicted(model, X, y):
    """Return the predictions of a fitted model, and what held-out periods said of its parts."""
    call = model.predict_proba if isinstance(model, PeerAttentionClassifier) else model.predict
    found = call(X, **({"outcomes": y} if model.needs_outcomes else {})).ravel()
    return np.concatenate([found, model.evidence_[["factor", "t", "loss_reduction"]].to_numpy().ravel()])


def losses(rows):
    """Return the loss curve of a regression on these rows of forty."""
    x = torch.randn(40, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    slope = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    target = x[rows, 1] - 2 * x[rows, 3]
    record = train(
        [slope],
        lambda z: (z @ slope - target).square().mean(),
        repeat(x[rows]),
        max_steps=100,
        learning_rate=0.1,
    )
    return record.losses


def complaint(fit, *arguments, **named):
    """Return what a fit says that is refused."""
    try:
        fit(*arguments, **named)
    except InputError as error:
        return str(error)
    return "nothing"


def complaints(X, y, mine):
    """Return what each misuse is told."""
    model = PeerAttentionRegressor(**JOINT)
    own = PeerAttentionRegressor(**{**JOINT, "own": LinearRegression(), "kappa": 1.0})
    return {
        "twice": complaint(model.fit, X, y),
        "own": complaint(own.fit, X[mine], y[mine]),
        "ridge": complaint(CrossSectionalRidge().fit, X[mine], y[mine]),
    }


def main(folder):
    """Fit everything together with the other process."""
    X, y = panel()
    found = {}
    with data_parallel():
        time = X.index.get_level_values("period")
        mine = np.asarray(time.isin(time.unique()[share()]))
        for name, model, outcome in fits(X, y):
            found[name] = fitted(name, model, X[mine], outcome[mine])
        stored = scan_panel(folder / "panel.parquet", outcome="y", codes=["industry"])
        read = stored.sample().period.unique().tolist()
        found["stored"] = PeerAttentionRegressor(**JOINT).fit(stored)
        curve, said, number = losses(slice(process(), None, 2)), complaints(X, y, mine), process()
    options = [
        "--outcome",
        "y",
        "--codes",
        "industry",
        "--set",
        "attention.kappa=null",
        "--set",
        "attention.own=none",
    ]
    until = ["--until", str(time.unique()[-2].date()), "--out", str(folder / "a.model")]
    for _ in range(2):  # the group of processes outlives a fit
        code = cli.run(["fit", str(folder / "panel.parquet"), *options, *until])
    refused = cli.run(
        [
            "fit",
            str(folder / "panel.parquet"),
            *options[:4],
            "--model",
            "boosting",
            "--out",
            str(folder / "b.model"),
        ]
    )
    predictions = {name: predicted(model, X, y) for name, model in found.items()}
    np.savez(folder / f"{number}.npz", curve=curve, **predictions)
    read = [str(label) for label in read]
    (folder / f"{number}.json").write_text(json.dumps({"said": said, "read": read, "codes": [code, refused]}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with changed(SHORT):
        main(Path(sys.argv[1]))
