"""Text that others wrote commands no terminal and is no formula, whichever door it takes."""

import csv
import warnings

import numpy as np
import pandas as pd
import pytest

from peerattn import cli, read_panel
from peerattn.exceptions import CodeWarning, InputError
from peerattn.foreign_text import visible
from peerattn.network import PeerNetwork
from peerattn.render import csv_label, csv_of, csv_text

ESCAPES = ["\x1b]0;title\x07", "\x9b2J", "a\rb", "\u202egnp", "\x08\x08", "\ud800"]


@pytest.mark.parametrize("escape", ESCAPES[:-1])
def test_errors_warnings_and_panels(escape):
    name = f"x{escape}"
    frame = pd.DataFrame({"firm": ["A", "B"], "period": 2001, name: [1.0, 2.0], f"z{escape}": ["a", "b"], "y": [0.1, 0.2]})
    panel = read_panel(frame, outcome="y")
    with pytest.raises(InputError) as error:
        read_panel(frame, outcome="nope")
    for text in (str(panel), repr(panel), str(error.value), str(CodeWarning(name)), str(panel.choice)):
        assert escape not in text and visible(text) == text
    assert name in panel.choice.characteristics  # the name itself is what it was


@pytest.mark.parametrize("escape", ESCAPES[:4])
def test_commands(escape, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"firm": np.repeat(list("ABCDEFGH"), 6), "period": np.tile(range(2001, 2007), 8)})
    frame[f"x{escape}"], frame["roa_next"] = rng.normal(size=48), rng.normal(size=48)
    frame.to_parquet("p.parquet")
    ridge = ["--outcome", "roa_next", "--model", "ridge"]
    calls = [
        ["describe", "p.parquet"],
        ["describe", "p.parquet", "--json"],
        ["fit", "p.parquet", *ridge, "--out", "m.model"],
        ["fit", "p.parquet", "--outcome", "nope", "--model", "ridge", "--out", "m.model"],
        ["compare", "p.parquet", "--outcome", f"no{escape}"],
        ["predict", "m.model", "p.parquet", "--out", f"{escape}.txt"],
    ]
    for call in calls:
        cli.run(call)
        out, err = capfd.readouterr()
        assert escape not in out + err and out + err, call
        assert "\x1b" not in out, call


LABELS = ["Acme\r=cmd|' /C calc'!A0", "\n=1+1", "@x", "'=A", "-5", "＝1", "plain", 'say "so"', "a,b"]


def test_no_cell_of_a_csv_file_is_a_formula(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(csv_of(pd.DataFrame({"=head": LABELS, "x": -1.5})), encoding="utf-8", newline="")
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert len(rows) == len(LABELS) + 1 and {len(row) for row in rows} == {2}
    assert not [cell for row in rows for cell in row[:1] if cell.startswith(("=", "+", "-", "@", "\n", "\r", "＝"))]
    assert [csv_label(row[0]) for row in rows[1:]] == LABELS == [csv_label(csv_text(label)) for label in LABELS]


def test_a_network_comes_back_with_its_labels(tmp_path):
    n = len(LABELS)
    weights = (np.ones((n, n)) - np.eye(n)) / (n - 1)
    PeerNetwork.from_matrices({2001: (pd.Index(LABELS), None, weights)}).to_csv(tmp_path / "n.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sorted(PeerNetwork.from_csv(tmp_path / "n.csv").labels) == sorted(LABELS)
