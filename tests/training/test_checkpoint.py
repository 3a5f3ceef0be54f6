"""Checkpoints: stages on disk are read instead of made; folders that are not one's own are refused."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from peerattn.exceptions import InputError
from peerattn.training import Checkpoint
from peerattn.training.checkpoint import remove_checkpoint

MADE_FROM = {"data": "a", "seed": "1"}


class Stopped(BaseException):
    """Stands for a signal that ends the process."""


def test_leftovers_of_a_killed_write_are_no_matter(tmp_path):
    (tmp_path / ".fit.checkpoint.x1.part").write_bytes(b"half")
    Checkpoint(tmp_path, MADE_FROM)
    remove_checkpoint(tmp_path)
    assert not tmp_path.exists()


def test_remove_leaves_what_is_not_a_checkpoint(tmp_path):
    Checkpoint(tmp_path, MADE_FROM)
    (tmp_path / "mine.txt").write_text("kept")
    remove_checkpoint(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_removal_that_is_killed_leaves_a_checkpoint(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path, MADE_FROM)
    for _ in range(12):
        with checkpoint.stage():
            checkpoint.finish({}, {})
    unlink, left = Path.unlink, iter(range(12))

    def stopping(path, **options):
        if next(left, None) is None:
            raise Stopped
        unlink(path, **options)

    with monkeypatch.context() as patched, pytest.raises(Stopped):
        patched.setattr(Path, "unlink", stopping)
        remove_checkpoint(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["fit.checkpoint"]
    Checkpoint(tmp_path, MADE_FROM)


def finished(folder):
    checkpoint = Checkpoint(folder, MADE_FROM)
    with checkpoint.stage():
        checkpoint.finish({"x": np.arange(9.0)}, {})
    return folder / "1.checkpoint"


def test_another_fit_is_refused_by_name(tmp_path):
    finished(tmp_path)
    with pytest.raises(InputError, match="of a fit with other data, seed. Repeat that fit"):
        Checkpoint(tmp_path, {"data": "b", "seed": "2"})


def test_a_stage_of_another_fit_is_refused(tmp_path):
    for name in ("mine", "theirs"):
        Checkpoint(tmp_path / name, {"data": name})
    theirs = Checkpoint(tmp_path / "theirs", {"data": "theirs"})
    with theirs.stage():
        theirs.finish({}, {})
    os.replace(tmp_path / "theirs" / "1.checkpoint", tmp_path / "mine" / "1.checkpoint")
    mine = Checkpoint(tmp_path / "mine", {"data": "mine"})
    with mine.stage(), pytest.raises(InputError, match="of a fit with other data"):
        mine.load()


@pytest.mark.parametrize("damage", [lambda b: b[:-20], lambda b: b"", lambda b: b[:-1] + bytes([b[-1] ^ 1])])
def test_a_damaged_stage_is_refused_and_made_again_once_deleted(tmp_path, damage):
    path = finished(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    checkpoint = Checkpoint(tmp_path, MADE_FROM)
    with checkpoint.stage(), pytest.raises(InputError, match="^checkpoint: .* Delete this file"):
        checkpoint.load()
    path.unlink()
    checkpoint = Checkpoint(tmp_path, MADE_FROM)
    with checkpoint.stage():
        assert checkpoint.load() is None


def test_stages_that_are_copied_over_one_another_are_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path, MADE_FROM)
    for k in range(2):
        with checkpoint.stage():
            checkpoint.finish({"x": np.full(2, k)}, {})
    (tmp_path / "1.checkpoint").write_bytes((tmp_path / "2.checkpoint").read_bytes())
    checkpoint = Checkpoint(tmp_path, MADE_FROM)
    with checkpoint.stage(), pytest.raises(InputError, match="checkpoint: .*copy of another file"):
        checkpoint.load()


def test_a_damaged_head_is_refused(tmp_path):
    finished(tmp_path)
    (tmp_path / "fit.checkpoint").write_bytes(b"cut off")
    with pytest.raises(InputError, match="^checkpoint: .* Delete the folder to start anew"):
        Checkpoint(tmp_path, MADE_FROM)


def test_folders_that_cannot_be_used_are_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(InputError, match="checkpoint: expected a new or empty folder.*holds 'mine.txt'"):
        Checkpoint(tmp_path, MADE_FROM)
    with pytest.raises(InputError, match="checkpoint: expected a folder"):
        Checkpoint(tmp_path / "mine.txt", MADE_FROM)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_takes_no_more_leaves_the_last_state(tmp_path, monkeypatch, code):
    path = finished(tmp_path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(code, os.strerror(code))

    checkpoint = Checkpoint(tmp_path, MADE_FROM)
    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with (
        checkpoint.stage(),
        pytest.raises(InputError, match=f"checkpoint: cannot write .*{os.strerror(code)}"),
    ):
        checkpoint.finish({"x": np.ones(2)}, {})
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 2
