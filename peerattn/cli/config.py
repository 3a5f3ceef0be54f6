"""The configuration of a comparison: a TOML file that makes the report again."""

from __future__ import annotations

import hashlib
import os
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from peerattn.cli.options import CompareOptions, given
from peerattn.exceptions import InputError, PeerAttnWarning, unknown_name, warn_user

if TYPE_CHECKING:
    from peerattn.evaluation import Comparison

DATA = "data (SHA-256 of what models see)"
_WORDS = {list: "a list of texts", int: "a whole number", bool: "true or false", str: "a text"}


def _kind(hint: Any) -> Any:
    """Return what an option is in TOML: a list, a whole number, a truth value, a text, or one of some texts.

    >>> [_kind(hint) for hint in (list[str] | None, int | None, Path | None, Literal["a", "b"] | None)]
    [<class 'list'>, <class 'int'>, <class 'str'>, ('a', 'b')]
    """
    one = get_args(hint)[0]  # of "... | None"
    kind = get_args(one) if get_origin(one) is Literal else get_origin(one) or one
    return kind if kind in _WORDS or isinstance(kind, tuple) else str


#: Keys of [compare], which are the names of the command's options, and the kind of each.
KEYS = {name: _kind(hint) for name, hint in get_type_hints(CompareOptions).items()}


class FiguresDifferWarning(PeerAttnWarning):
    """A configuration was run again and gave other figures, or cannot be expected to give the same."""


class Configuration(NamedTuple):
    """What makes a comparison: options, the models' settings, and the versions and digests it was made with."""

    options: CompareOptions
    settings: dict[str, dict[str, Any]]
    made: dict[str, Any]


def read_config(path: Path) -> Configuration:
    """Return the configuration of a file.

    Raises
    ------
    InputError
        For a file that cannot be read or is not valid TOML, and for keys or values that do not exist.
    """
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--config: cannot read {str(path)!r}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"--config: {path} is not valid TOML: {error}.") from error
    for section in read:
        if section not in ("compare", "set", "made"):
            raise InputError(
                f"--config: [{section}] is no section of a configuration; known are [compare], [set.MODEL] and [made]."
            )
    options, sets, made = (read.get(section, {}) for section in ("compare", "set", "made"))
    tables = [("compare", options), ("set", sets), ("made", made)]
    tables += [(f"set.{name}", table) for name, table in sets.items()] if isinstance(sets, dict) else []
    for name, table in tables:
        if not isinstance(table, dict):
            raise InputError(f"--config: [{name}] must be a section, got {name} = {table!r}.")
    for key, value in options.items():
        _check(key, value)
    return Configuration(CompareOptions(**options), _each(sets, _NULL, None), made)


def _check(key: str, value: Any) -> None:
    """Raise for an option that does not exist, or is of another kind."""
    if key not in KEYS:
        raise unknown_name("--config", "option of [compare]", key, KEYS)
    kind = KEYS[key]
    if isinstance(kind, tuple):
        fits, expected = value in kind, f"one of {', '.join(kind)}"
    else:
        fits, expected = type(value) is kind, _WORDS[kind]
    if not fits or (kind is list and any(type(entry) is not str for entry in value)):
        raise InputError(f"--config: {key}: expected {expected}, got {value!r}.")


_NULL = "null"  # as --set writes it; TOML has no such value


def _each(value: Any, old: Any, new: Any) -> Any:
    """Return settings with one value in place of another, at any depth."""
    if isinstance(value, dict):
        return {key: _each(entry, old, new) for key, entry in value.items()}
    if isinstance(value, list):
        return [_each(entry, old, new) for entry in value]
    return new if value == old and type(value) is type(old) else value


def panel_path(given: str, config: Path) -> Path:
    """Return the panel that a configuration names: beside it, or from here."""
    here, beside = Path(given), config.parent / given
    return here if here.is_absolute() or (here.exists() and not beside.exists()) else beside


def write_config(
    chosen: CompareOptions, settings: dict[str, dict[str, Any]], result: Comparison, folder: Path
) -> str:
    """Return the configuration as TOML; the panel's path is relative to the folder of the report."""
    import tomli_w

    found = given(chosen)
    options = {key: found[key] for key in KEYS if found.get(key) not in (None, [])}
    for name in options.keys() & {"panel", "reference"}:
        try:
            options[name] = Path(os.path.relpath(options[name], folder)).as_posix()
        except ValueError:  # another drive
            options[name] = str(Path(options[name]).resolve())
    made = {
        "data_sha256": result.settings[DATA],
        "predictions_sha256": predictions_digest(result),
        "python": ".".join(map(str, sys.version_info[:3])),
        **_versions(result),
    }
    sections = {"compare": options, "set": _each(settings, None, _NULL), "made": made}
    written = tomli_w.dumps({name: table for name, table in sections.items() if table})
    return f"# peerattn compare --config report.toml makes the report again.\n{written}"


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
        why.insert(0, "the data have changed")
    message = f"differ from those of the configuration's report ({'; '.join(why) or 'another machine?'})."
    warn_user(FiguresDifferWarning(f"figures {message}"))
    return f"figures: {message}"


def predictions_digest(result: Comparison) -> str:
    """Return the SHA-256 of all predictions, bit for bit."""
    digest = hashlib.sha256()
    for name in result.names:
        digest.update(name.encode() + result.predictions[name].to_numpy(dtype="<f8").tobytes())
    return digest.hexdigest()


def _versions(result: Comparison) -> dict[str, str]:
    from peerattn.evaluation.report.methods import versions_of

    return versions_of(result)
