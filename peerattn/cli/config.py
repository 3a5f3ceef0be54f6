"""The configuration of a comparison: a TOML file that makes the report again."""

import hashlib
import os
import platform
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import tomli_w

from peerattn.cli.options import CompareOptions, given
from peerattn.evaluation import Comparison
from peerattn.evaluation.report.words import versions_of
from peerattn.exceptions import InputError, PeerAttnWarning, check_names, expect, reworded, validate_arguments, warn_user

DATA = "data (SHA-256 of what models see)"
PATHS = ("panel", "reference", "factors")


class FiguresDifferWarning(PeerAttnWarning):
    """A configuration was run again and gave other figures, or cannot be expected to give the same."""


def read_config(path: Path) -> tuple[CompareOptions, dict[str, Any]]:
    """Return the options of a file, its panel where it lies, and the versions and digests that it was made with.

    Raises
    ------
    InputError
        For a file that cannot be read or is not valid TOML, and for keys or values that do not exist.
    """
    unread = f"--config: cannot read {str(path)!r}: it is missing, or is not valid TOML"
    with reworded(unread, kinds=(OSError, ValueError, RecursionError)):
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    sections = {"compare": {}, "made": {}} | read
    check_names("--config", "section", sections, ("compare", "made"))
    for name, table in sections.items():
        expect(isinstance(table, dict), f"--config: [{name}]", "a section", f"{name} = {table!r}")
    return _options(sections["compare"], path), sections["made"]


def _options(table: dict[str, Any], path: Path) -> CompareOptions:
    """Return the options of a table, of which each is one of the command's, and of its type."""
    check_names("--config", "option of [compare]", table, [one.name for one in fields(CompareOptions)])
    for key, value in table.items():
        texts = not isinstance(value, list) or all(type(entry) is str for entry in value)
        expect(texts, f"--config: {key}", "a list of texts", repr(value))
    paths = {name: panel_path(table[name], path) for name in PATHS if isinstance(table.get(name), str)}
    try:
        return validate_arguments(CompareOptions)(**table | paths)
    except InputError as error:
        raise InputError(f"--config: {error}".replace(" or None", "")) from error  # TOML has no None


def panel_path(given: str, config: Path) -> Path:
    """Return the panel that a configuration names: beside it, or from here."""
    here = Path(given)
    accompanying = config.parent / given
    if here.is_absolute() or (here.exists() and not accompanying.exists()):
        return here
    return accompanying


def write_config(chosen: CompareOptions, result: Comparison, folder: Path) -> str:
    """Return the configuration as TOML; the panel's path is relative to the folder of the report."""
    # TOML has no empty value
    options = {key: value for key, value in given(chosen).items() if value != []}
    for name in options.keys() & {*PATHS}:
        try:
            options[name] = Path(os.path.relpath(options[name], folder)).as_posix()
        except ValueError:  # another drive
            options[name] = str(Path(options[name]).resolve())
    written = tomli_w.dumps({"compare": options, "made": _made(result)})
    return f"# peerattn compare --config report.toml makes the report again.\n{written}"


def check_again(made: dict[str, Any], result: Comparison) -> str:
    """Return in words whether a run of a configuration gave the figures it was written with; warn where not."""
    if not made:
        return ""
    now = _made(result)
    if made.get("predictions_sha256") == now["predictions_sha256"]:
        return "figures: the same as in the configuration's report, to the bit"
    words = {"data_sha256": "the data have changed", "predictions_sha256": ""}
    changed = {name: new for name, new in now.items() if made.get(name) not in (None, new)}
    why = [words.get(name, f"{name} is {new}, was {made[name]}") for name, new in changed.items()]
    reasons = "; ".join(filter(None, why)) or "another machine?"
    message = f"figures differ from those of the configuration's report ({reasons})."
    warn_user(FiguresDifferWarning(message))
    return message.replace(" ", ": ", 1)


def _made(result: Comparison) -> dict[str, str]:
    """Return what a report was made with: SHA-256 of what models saw and of all predictions, bit for bit, and versions."""
    # of the bits: rounded figures may agree where predictions do not
    digest = hashlib.sha256()
    for name in result.names:
        digest.update(name.encode() + result.predictions[name].to_numpy(dtype="<f8").tobytes())
    made = {"data_sha256": result.settings[DATA], "predictions_sha256": digest.hexdigest()}
    return made | {"python": platform.python_version()} | versions_of(result)
