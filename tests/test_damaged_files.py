"""Every file the package reads back: damaged, planted, or of a newer version, it ends in the package's own error."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "damaged_files.py"


def test_500_damaged_files_end_in_errors_and_nothing_of_them_runs(tmp_path):
    spec = importlib.util.spec_from_file_location("damaged_files", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    *found, (_, _, payload) = script.tried(tmp_path, 500, seed=1)
    assert len(found) >= 500
    assert [line for line in found if line[2] != "InputError"] == []
    assert payload == "did not run"


def test_the_payload_would_run(tmp_path):
    """The test above can fail: the planted pickle does what it should never be allowed to do."""
    import pickle

    spec = importlib.util.spec_from_file_location("damaged_files", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    pickle.loads(pickle.dumps(script.Payload(tmp_path / "it ran"))).close()
    assert (tmp_path / "it ran").exists()
    with pytest.raises(script.InputError):
        script.peerattn.load(tmp_path / "it ran")
