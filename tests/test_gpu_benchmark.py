"""The benchmark of a GPU runs on a CPU in tiny settings, gives no figures there, and says so."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("gpu", BENCHMARKS / "gpu.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu", module)
    spec.loader.exec_module(module)
    text = tmp_path / "sequence" / "tinyshakespeare" / "input.txt"
    text.parent.mkdir(parents=True)
    text.write_text("To be, or not to be. " * 20)
    monkeypatch.setattr(module, "SHARED", tmp_path)
    return module


def test_without_a_gpu_it_says_that_figures_need_one(script, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--tasks", "layer", "language"])
    monkeypatch.setattr(script, "publish", lambda *parts: pytest.fail("tiny settings are no results"))
    script.main()
    *rows, last = capsys.readouterr().out.splitlines()
    assert last == script.NEEDS_GPU
    assert len(rows) == 7 and all(math.isfinite(float(line.split(" | ")[1])) for line in rows)


@pytest.mark.gpu
def test_heads_on_a_gpu_predict_what_the_cpu_predicts(script):
    (row,) = script.heads("cuda", script.Sizes(panels=((100, 40),)))
    assert row["figure"] >= 0.9999
