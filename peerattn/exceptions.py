"""Errors and warnings of the package, one place for all of them."""

from __future__ import annotations

import difflib
import importlib
import sys
import warnings
from collections.abc import Iterable
from typing import Any


class InputError(ValueError):
    """Input that cannot be used; the message names the argument, what came, and what to do."""


class MissingExtraError(InputError, ImportError):
    """A package that only some functions need is not installed; the message names the extra that brings it."""


class PeerAttnWarning(UserWarning):
    """Base class of every warning this package gives."""


class PossibleLeakWarning(PeerAttnWarning):
    """A characteristic looks like the outcome itself."""


class LabelWarning(PeerAttnWarning):
    """Columns look like labels of firms or periods, but were not named as such."""


class CodeWarning(PeerAttnWarning):
    """A numeric column looks like a code, or a code column is used as a number."""


class IsolateWarning(PeerAttnWarning):
    """Some firms have no admissible peer; their peer term is zero."""


class SmallCrossSectionWarning(PeerAttnWarning):
    """A cross-section is much smaller than those the model was fitted on."""


class LostPeriodWarning(PeerAttnWarning):
    """A model fitted with periods was given an array without them."""


class DroppedColumnWarning(PeerAttnWarning):
    """A characteristic without any training value was left out."""


class GeneratedRegressorWarning(PeerAttnWarning):
    """A regressor was itself estimated; its sampling error is not in the standard errors."""


def warn_user(message: Warning | str) -> None:
    """Warn at the line that called this package, however many functions are between."""
    frame, level, caller, inside = sys._getframe(1), 2, 2, True
    while frame.f_back:
        name = frame.f_globals.get("__name__", "")
        # a decorator made by contextlib stands between the caller and the decorated function
        ours = name.split(".")[0] == __package__ or (inside and name == "contextlib")
        inside, frame, level = ours, frame.f_back, level + 1
        caller = level if ours else caller
    warnings.warn(message, stacklevel=caller)


def unknown_name(argument: str, what: str, name: object, options: Iterable[object]) -> InputError:
    """Return the error for a name that is not among the options: it shows the nearest, and the first twelve.

    >>> unknown_name("codes", "column", "sics", ["sic", "lev"])
    InputError("codes: no column is named 'sics'. Near matches: 'sic'. Known: sic, lev.")
    """
    known = [str(option) for option in options]
    shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "") if known else "none"
    return InputError(f"{argument}: no {what} is named {name!r}.{did_you_mean(name, known)} Known: {shown}.")


def did_you_mean(name: object, options: Iterable[object], n: int = 3) -> str:
    """Return a sentence with the options nearest to ``name``, or an empty string.

    >>> did_you_mean("XON", ["XOM", "IBM"])
    " Near matches: 'XOM'."
    """
    spelled = {str(option): option for option in options}
    lowered = {key.lower(): key for key in spelled}
    wanted = str(name).lower()
    near = difflib.get_close_matches(wanted, lowered, n=n, cutoff=0.5)
    near += [low for low in lowered if wanted in low and low not in near][: n - len(near)]
    if not near:
        return ""
    return f" Near matches: {', '.join(repr(lowered[low]) for low in near)}."


def extra(module: str, name: str, needed_by: str) -> Any:
    """Return a module that an extra of this package brings, or say how to install it.

    Raises
    ------
    MissingExtraError
        When it is not installed: which function needs it, and the command that installs it.

    Examples
    --------
    >>> extra("no_such_module", "spatial", "to_libpysal")
    Traceback (most recent call last):
    peerattn.exceptions.MissingExtraError: to_libpysal needs no_such_module: pip install 'peerattn[spatial]'.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != package:
            raise
        raise MissingExtraError(f"{needed_by} needs {package}: pip install 'peerattn[{name}]'.") from error
