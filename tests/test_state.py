"""Files of fitted state: what goes in comes out, and whatever is wrong with a file is refused with its reason."""

import json
import pickle

import numpy as np
import pytest
from safetensors.numpy import save_file

import peerattn.store.sealed as state
from peerattn.exceptions import InputError
from peerattn.store.sealed import read_state, write_state

ARRAYS = {
    "x": np.arange(6.0).reshape(2, 3),
    "transposed": np.arange(6, dtype=np.int32).reshape(2, 3).T,
    "scalar": np.array(1.5),
    "empty": np.zeros((0, 4), dtype=np.float32),
    "flags": np.array([True, False]),
    "firm": np.array([["XOM", "é"], ["", "漢字"]]),
    "month": np.array(["2012-06", "NaT"], dtype="datetime64[M]"),
    "lag": np.array([3], dtype="timedelta64[D]"),
}
SPEC = {"alpha": 0.5, "names": ["a", "β"], "nested": {"none": None, "gap": float("inf")}}


@pytest.fixture
def path(tmp_path):
    write_state(tmp_path / "model", ARRAYS, SPEC, "Model")
    return tmp_path / "model"


def test_what_goes_in_comes_out(path):
    arrays, spec = read_state(path, "Model")
    assert spec == SPEC and arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype and arrays[name].shape == array.shape
        np.testing.assert_array_equal(arrays[name], array)


def test_equal_content_gives_equal_bytes_in_any_order(path, tmp_path):
    write_state(tmp_path / "again", dict(reversed(ARRAYS.items())), SPEC, "Model")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_a_failed_write_leaves_the_old_file(path):
    before = path.read_bytes()
    with pytest.raises(InputError, match="arrays: expected numbers, booleans, text or dates, got dtype object in 'bad'"):
        write_state(path, {"bad": np.array([object()])}, {}, "Model")
    with pytest.raises(InputError, match="spec: expected what JSON holds"):
        write_state(path, {}, {"bad": object()}, "Model")
    assert path.read_bytes() == before and len(list(path.parent.iterdir())) == 1


def test_every_truncation_is_refused(path):
    content = path.read_bytes()
    for length in [*range(0, len(content), 37), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match="path: .* (another origin, cut off or damaged|changed or damaged)"):
            read_state(path, "Model")


def test_every_changed_bit_is_refused(path):
    content = path.read_bytes()
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(InputError, match="^path: "):
            read_state(path, "Model")


def test_another_kind_and_a_missing_file_are_refused(path):
    with pytest.raises(InputError, match="expected a saved Other, got a saved Model"):
        read_state(path, "Other")
    with pytest.raises(InputError, match="cannot read .*No such file"):
        read_state(path.with_name("none"), "Model")


def test_a_newer_version_is_refused(path, monkeypatch):
    monkeypatch.setattr(state, "VERSION", 2)
    write_state(path, ARRAYS, SPEC, "Model")
    monkeypatch.undo()
    with pytest.raises(InputError, match="format version 2, .* reads version 1. Upgrade peerattn"):
        read_state(path, "Model")


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


@pytest.mark.parametrize("disguise", [b"", (8).to_bytes(8, "little")])
def test_a_pickle_is_never_loaded(path, disguise):
    path.write_bytes(disguise + pickle.dumps(Trap()))
    with pytest.raises(InputError, match="another origin"):
        read_state(path, "Model")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"peerattn": "[]"}, {"peerattn": "no JSON"}])
def test_other_safetensors_files_are_refused(path, metadata):
    save_file({"x": np.ones(2)}, path, metadata=metadata)
    with pytest.raises(InputError, match="another origin"):
        read_state(path, "Model")


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 100, 10_000])
def test_noise_is_refused(tmp_path, length):
    (tmp_path / "noise").write_bytes(np.random.default_rng(length).bytes(length))
    with pytest.raises(InputError, match="another origin, cut off or damaged"):
        read_state(tmp_path / "noise", "Model")


def test_the_specification_is_plain_json(path):
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert json.loads(header["__metadata__"]["peerattn"])["spec"] == SPEC
