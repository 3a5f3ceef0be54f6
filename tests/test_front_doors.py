"""Public functions refuse bad arguments by name; `benchmarks/front_doors.py` tries 10,000."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pytest

from peerattn import NewFirms, PeerNetwork, compare, read_panel, simulate_panel
from peerattn.evaluation import quantile_portfolios, r2_out_of_sample, rmse
from peerattn.evaluation.inference import network_bootstrap
from peerattn.exceptions import InputError, check_count, expect, validate_arguments
from peerattn.models.learners.heads import learner
from peerattn.models.learners.heads.training import TrainingOptions
from peerattn.network import heat_map, reciprocity, rollout
from peerattn.panel import as_panel, canonical_codes

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "front_doors.py"


def test_few_bad_arguments_end_in_another_librarys_error(monkeypatch):
    # heads must add something for a bootstrap of them; whether its refits have settled has tests of its own
    monkeypatch.setattr(learner, "DEFAULT", TrainingOptions(n_seeds=2, max_steps=150, max_draws=1))
    monkeypatch.setattr(network_bootstrap, "SETTLED", 100.0)
    spec = importlib.util.spec_from_file_location("front_doors", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    found = script.tried(150, seed=1)
    foreign = [line for line in found if line[2].startswith(("foreign", "hangs"))]
    assert len(foreign) <= 2, foreign


@validate_arguments
def door(
    x: int,
    *,
    n_draws: int = 3,
    kind: Literal["a", "b"] = "a",
    names: Sequence[str] = (),
    note: str | None = None,
    level: float = 0.9,
    parts: Sequence[PeerNetwork] = (),
) -> int:
    check_count(n_draws=n_draws)
    expect(0 < level < 1, "level", "a number between 0 and 1", level)
    if note == "bug":
        raise KeyError("of our own")
    return x


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": "1"}, "x: expected a whole number, got '1'"),
        ({"x": True}, "x: expected a whole number, got True"),
        ({"x": 1, "n_draws": 10**30}, "n_draws: expected at most 1,000,000"),
        ({"x": 1, "n_draws": 0}, "n_draws: expected at least 1, got 0"),
        ({"x": 1, "level": 90}, "level: expected a number between 0 and 1, got 90"),
        ({"x": 1, "parts": [None]}, "parts: expected a list of values, got"),
        ({"x": 1, "kind": "c"}, "kind: expected 'a' or 'b', got 'c'"),
        ({"x": 1, "names": "ab"}, "names: expected a list of names, got 'ab'"),
        ({"x": 1, "note": 3}, "note: expected text or None"),
        ({"x": 1, "n_draw": 3}, "door: .*Near matches: 'n_draws'"),
        ({}, "door: missing a required"),
    ],
)
def test_arguments_are_checked_by_their_annotations(arguments, message):
    with pytest.raises(InputError, match=message):
        door(**arguments)


def test_right_arguments_pass_and_errors_of_our_own_are_not_hidden():
    assert door(np.int64(3), names=pd.Index(["a"]), note="x") == 3
    with pytest.raises(KeyError, match="of our own"):
        door(1, note="bug")


def test_what_an_attack_found():
    panel = simulate_panel(8, 4, 2, random_state=0)
    frame = panel.X.assign(y=panel.y).reset_index()
    for call, name in (
        (lambda: read_panel(frame, outcome="y", codes=3), "codes"),
        (lambda: simulate_panel("x"), "n_firms"),
        (lambda: panel.network.peers(panel.network.firms[0], k=2.5), "k"),
        (lambda: as_panel(panel.X, panel.y, known_at=1.5), "known_at"),
        (lambda: NewFirms("x"), "walk"),
        (lambda: reciprocity("x"), "network"),
        (lambda: PeerNetwork.from_edges(3), "edges"),
        (lambda: canonical_codes(["0100"]), "column: expected Series"),
        (lambda: rollout(range(3)), "layers"),
        (lambda: simulate_panel(random_state=[None]), "random_state"),
        (lambda: r2_out_of_sample([1.0, 2.0], [1.0, 2.0], benchmark="x"), "benchmark must be numbers, one for each row"),
        (lambda: quantile_portfolios(["x"], [1.0], ["A"], [2001]), "outcome must be numbers, one for each row"),
        (lambda: rmse([1.0], [1.0], period={}), "period: expected one label for each row"),
        (lambda: heat_map(panel.network.mean(), ax=3), "ax: expected axes of matplotlib"),
        (lambda: PeerNetwork.from_networkx(3), "graphs: expected a networkx graph"),
        (lambda: panel.network.to_csv("x" * 300), "path: cannot write"),
        (lambda: rollout([panel.network, 3]), "layers: expected "),
        (lambda: compare({"a": None}, panel.X, panel.y, verbose=False), "'a'"),
    ):
        with pytest.raises(InputError, match=name):
            call()
