from __future__ import annotations

import os
from pathlib import Path

import pytest

from peerattn.exceptions import InputError
from peerattn.render import atomic_path, check_writable, write_atomic


def test_writes_text_and_bytes_with_the_usual_mode(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a.html", "α\n")
    assert (tmp_path / "a.html").read_bytes() == "α\n".encode()
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "a.html").stat().st_mode & 0o777 == 0o666 & ~mask
    write_atomic(str(tmp_path / "a.html"), b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = write_atomic(tmp_path / "a.txt", "old")
    with pytest.raises(RuntimeError), atomic_path(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing"):
        write_atomic(tmp_path / "missing" / "a.txt", "")
    with pytest.raises(InputError, match="folder"):
        write_atomic(tmp_path, "")


def test_check_writable_makes_folders_and_refuses_files(tmp_path: Path) -> None:
    assert check_writable(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="--out: expected a folder"):
            check_writable(path, argument="--out")


def test_a_folder_that_cannot_be_written_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(InputError, match="out: expected a folder you may write in, .*Permission denied"):
        check_writable(tmp_path)


def test_a_folder_of_another_kind_is_named():
    with pytest.raises(InputError, match="out: expected the path of a folder"):
        check_writable(3)
