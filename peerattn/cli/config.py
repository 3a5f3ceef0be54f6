"""The configuration of a comparison: a TOML file that makes the report again."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tomllib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerattn.cli.options import Dataset
from peerattn.exceptions import InputError, PeerAttnWarning, did_you_mean

if TYPE_CHECKING:
    from peerattn.evaluation import Comparison

DATA = "data (SHA-256 of what models see)"
#: Keys of [compare], which are the names of the command's options.
KEYS = (
    "panel", "dataset", "preset", "firm", "period", "outcome", "characteristics", "codes", "industry", "models", "baseline",
    "task", "test_periods", "refit_every", "window", "train_periods", "horizon", "seed", "group_by", "limit", "is_return",
    "market_value", "audit",
)  # fmt: skip
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("characteristics", "codes", "models", "group_by", "limit"), list),
    **dict.fromkeys(("test_periods", "refit_every", "train_periods", "horizon", "seed"), int),
    **dict.fromkeys(("is_return", "audit"), bool),
}
_WORDS = {list: "a list of texts", int: "a whole number", bool: "true or false", str: "a text"}


class FiguresDifferWarning(PeerAttnWarning):
    """A configuration was run again and gave other figures, or cannot be expected to give the same."""


def read_config(path: Path) -> dict[str, Any]:
    """Return the configuration of a file: its options, the models' settings, and what the report was made with.

    Raises
    ------
    InputError
        For a file that is not there or no TOML, and for keys or values that do not exist.
    """
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--config: cannot read {str(path)!r}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"--config: {path} is no TOML: {error}.") from error
    for section in read:
        if section not in ("compare", "set", "made"):
            raise InputError(
                f"--config: there is no section [{section}]; known are [compare], [set.MODEL] and [made]."
            )
    options, sets, made = (read.get(section, {}) for section in ("compare", "set", "made"))
    tables = [("compare", options), ("set", sets), ("made", made)]
    tables += [(f"set.{name}", table) for name, table in sets.items()] if isinstance(sets, dict) else []
    for name, table in tables:
        if not isinstance(table, dict):
            raise InputError(f"--config: [{name}] must be a section, got {name} = {table!r}.")
    for key, value in options.items():
        _check(key, value)
    return {"options": options, "set": sets, "made": made}


def _check(key: str, value: Any) -> None:
    """Raise for an option that does not exist, or is of another kind."""
    if key not in KEYS:
        raise InputError(f"--config: [compare] has no {key!r}.{did_you_mean(key, KEYS)}")
    kind: Any = _KINDS.get(key, str)
    fits = type(value) is kind and (kind is not list or all(type(entry) is str for entry in value))
    if not fits:
        raise InputError(f"--config: {key} = {value!r}: {_WORDS[kind]} was expected.")
    if key == "dataset" and value not in list(Dataset):
        raise InputError(f"--config: dataset = {value!r}: one of {', '.join(Dataset)} was expected.")


def panel_path(given: str, config: Path) -> Path:
    """Return the panel that a configuration names: beside it, or from here."""
    here, beside = Path(given), config.parent / given
    return here if here.is_absolute() or (here.exists() and not beside.exists()) else beside


def write_config(
    options: dict[str, Any], settings: dict[str, dict[str, Any]], result: Comparison, folder: Path
) -> str:
    """Return the configuration as TOML; the panel's path is told from the folder of the report."""
    options = {key: options[key] for key in KEYS if options.get(key) not in (None, [])}
    if "panel" in options:
        try:
            options["panel"] = Path(os.path.relpath(options["panel"], folder)).as_posix()
        except ValueError:  # another drive
            options["panel"] = str(Path(options["panel"]).resolve())
    made = {
        "data_sha256": result.settings[DATA],
        "predictions_sha256": predictions_digest(result),
        "python": ".".join(map(str, sys.version_info[:3])),
        **_versions(result),
    }
    lines = ["# peerattn compare --config report.toml makes the report again.", "[compare]", *_lines(options)]
    for name, values in settings.items():
        lines += ["", f"[set.{_key(name)}]", *_lines(values)]
    return "\n".join([*lines, "", "[made]", *_lines(made)]) + "\n"


def check_again(made: dict[str, Any], result: Comparison) -> str:
    """Return in words whether a run of a configuration gave the figures it was written with; warn where not."""
    if not made:
        return ""
    if made.get("predictions_sha256") == predictions_digest(result):
        return "figures: the same as in the configuration's report, to the bit"
    why = [
        f"{name} is {now}, was {made[name]}"
        for name, now in _versions(result).items()
        if made.get(name) not in (None, now)
    ]
    if made.get("data_sha256") != result.settings[DATA]:
        why.insert(0, "the data are others")
    said = (
        f"figures differ from those of the configuration's report ({'; '.join(why) or 'another machine?'})."
    )
    warnings.warn(FiguresDifferWarning(said), stacklevel=2)
    return f"figures: {said.removeprefix('figures ')}"


def predictions_digest(result: Comparison) -> str:
    """Return the SHA-256 of all predictions, bit for bit."""
    digest = hashlib.sha256()
    for name in result.names:
        digest.update(name.encode() + result.predictions[name].to_numpy(dtype="<f8").tobytes())
    return digest.hexdigest()


def _versions(result: Comparison) -> dict[str, str]:
    from peerattn.evaluation.comparison import PACKAGES

    return {name: result.settings[name] for name in ("peerattn", *PACKAGES) if name in result.settings}


def _lines(values: dict[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in values.items()]


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return _text(str(value))


def _text(text: str) -> str:
    """Return a TOML string: JSON's, in which TOML wants the delete character escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
