"""Errors and warnings of the package, one place for all of them, and the checks of arguments that raise them."""

import difflib
import importlib
import re
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from inspect import Parameter, signature
from numbers import Integral
from types import FunctionType
from typing import Any, TypeVar, cast, get_type_hints

from peerattn.foreign_text import VisibleText

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

__all__ = [
    "BoundedOutcomeWarning", "CodeWarning", "DroppedColumnWarning", "GeneratedRegressorWarning", "InputError", "IsolateWarning",
    "LabelWarning", "LostPeriodWarning", "MissingExtraError", "PeerAttnWarning", "PossibleLeakWarning", "SharedPeriodWarning",
    "SmallCrossSectionWarning", "UnitWarning", "UnknownArgument", "WrongType",
]  # fmt: skip


class InputError(VisibleText, ValueError):
    """Input that cannot be used; the message names the argument, what came, and what to do."""


class MissingExtraError(InputError, ImportError):
    """A package that only some functions need is not installed; the message names the extra that brings it."""


class PeerAttnWarning(VisibleText, UserWarning):
    """Base class of every warning this package gives."""


class PossibleLeakWarning(PeerAttnWarning):
    """A characteristic looks like the outcome itself."""


class LabelWarning(PeerAttnWarning):
    """Columns look like labels of firms or periods, but were not named as such."""


class CodeWarning(PeerAttnWarning):
    """A numeric column looks like a code, or a code column is used as a number."""


class IsolateWarning(PeerAttnWarning):
    """Some firms have no admissible peer; their peer term is zero."""


WHERE_ISOLATES = " They are listed in peer_network(...).isolates."  # of no use in a printed table


class SmallCrossSectionWarning(PeerAttnWarning):
    """A cross-section is much smaller than those the model was fitted on."""


class LostPeriodWarning(PeerAttnWarning):
    """A model fitted with periods was given an array without them."""


class DroppedColumnWarning(PeerAttnWarning):
    """A characteristic without any training value was left out."""


class SharedPeriodWarning(PeerAttnWarning):
    """Rows are predicted whose periods, but not they themselves, were learned from."""


class BoundedOutcomeWarning(PeerAttnWarning):
    """Observed outcomes far beyond the training outcomes count as a bound."""


class UnitWarning(PeerAttnWarning):
    """Returns look like per cent, where decimals are expected; a characteristic is the same in all rows, or in all but one."""


class GeneratedRegressorWarning(PeerAttnWarning):
    """A regressor was itself estimated; its sampling error is not in the standard errors."""


def warn_user(message: Warning | str) -> None:
    """Warn at the line that called this package, however many functions are between."""
    frame = sys._getframe(1)
    level = 2
    caller = 2
    ours = True
    while frame.f_back:
        name = frame.f_globals.get("__name__", "")
        # contextlib's decorators come between the caller and the decorated function
        ours = name.split(".")[0] == __package__ or (ours and name == "contextlib")
        frame = frame.f_back
        level = level + 1
        if ours:
            caller = level
    warnings.warn(message, stacklevel=caller)


def check_names(argument: str, what: str, names: Iterable[object], options: Iterable[object]) -> None:
    """Raise an InputError for the first of these names that is not among the options: it shows the nearest, and the first 24.

    >>> check_names("codes", "column", ["lev", "sics"], ["sic", "lev"])
    Traceback (most recent call last):
    peerattn.exceptions.InputError: codes: no column is named 'sics'. Near matches: 'sic'. Known: sic, lev.
    """
    known = list(options)
    for name in names:
        if name not in known:
            displayed = (", ".join(map(str, known[:24])) or "none") + ", ..." * (len(known) > 24)
            raise InputError(f"{argument}: no {what} is named {name!r}.{did_you_mean(name, known)} Known: {displayed}.")


def did_you_mean(name: object, options: Iterable[object]) -> str:
    """Return a sentence with the options nearest to ``name``, or an empty string.

    >>> did_you_mean("XON", ["XOM", "IBM"])
    " Near matches: 'XOM'."
    """
    lowered = {str(option).lower(): str(option) for option in options}
    wanted = str(name).lower()
    near = difflib.get_close_matches(wanted, lowered, cutoff=0.5)
    near += [low for low in lowered if wanted in low and low not in near][: 3 - len(near)]
    if not near:
        return ""
    return f" Near matches: {', '.join(repr(lowered[low]) for low in near)}."


@contextmanager
def reworded(what: str, remedy: str = "", kinds: type[Exception] | tuple[type[Exception], ...] = Exception) -> Iterator[None]:
    """Turn what other libraries raise about a file, a formula or a model, in a dozen classes of errors, into bad input."""
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        # of the operating system the reason alone: the path is in the wording
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())[:200] or type(error).__name__
        raise InputError(f"{what} ({reason}).{remedy}") from error


@contextmanager
def naming(argument: str) -> Iterator[None]:
    """Begin an error with the argument or option it is about, in place of the function's own."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{argument}: {re.sub('^(path|models): ', '', str(error))}") from error


def expect(holds: bool, name: str, what: str, got: object, remedy: str = "") -> None:
    """Raise an InputError where something does not hold: what is expected of an argument, what came, and what to do.

    >>> expect(False, "split", "'words' or 'spaces'", repr("tabs"))
    Traceback (most recent call last):
    peerattn.exceptions.InputError: split: expected 'words' or 'spaces', got 'tabs'.
    """
    if not holds:
        raise InputError(f"{name}: expected {what}, got {got}. {remedy.strip()}".rstrip())


def check_at_least(least: int, **numbers: Any) -> None:
    """Raise an InputError that names the first of these numbers that is no integer of at least ``least``.

    >>> check_at_least(1, n_heads=0)
    Traceback (most recent call last):
    peerattn.exceptions.InputError: n_heads: expected an integer of at least 1, got 0.
    """
    for name, number in numbers.items():
        right = isinstance(number, Integral) and not isinstance(number, bool) and int(number) >= least
        expect(right, name, f"an integer of at least {least}", repr(number))


def check_count(**numbers: int | None) -> None:
    """Raise an InputError that names the first of these numbers of draws, peers and the like that is below 1 or above a million.

    >>> check_count(n_draws=0)
    Traceback (most recent call last):
    peerattn.exceptions.InputError: n_draws: expected at least 1, got 0.
    """
    for name, number in numbers.items():
        if number is not None:
            expect(number >= 1, name, "at least 1", repr(number))
            expect(number <= 1_000_000, name, "at most 1,000,000", repr(number))


def check_share(**numbers: Any) -> None:
    """Raise an InputError that names the first of these numbers that is not above 0 and at most 1."""
    for name, number in numbers.items():
        expect(0 < number <= 1, name, "a share above 0 and at most 1", repr(number))


def check_one_of(**choices: tuple[Any, Sequence[Any]]) -> None:
    """Raise an InputError that names the first of these arguments whose value is none of its options.

    >>> check_one_of(kernel=("gausian", ["gaussian", "uniform"]))
    Traceback (most recent call last):
    peerattn.exceptions.InputError: kernel must be one of ['gaussian', 'uniform'], got 'gausian'. Near matches: 'gaussian'.
    """
    for name, (value, options) in choices.items():
        listed = hasattr(value, "__len__") and not isinstance(value, str | tuple)  # frames and arrays pass for hashable
        if isinstance(value, bool) or listed or not isinstance(value, Hashable) or value not in options:
            near = did_you_mean(value, options)
            raise InputError(f"{name} must be one of {list(options)}, got {value!r}.{near}")


def extra(module: str, name: str, needed_by: str) -> Any:
    """Return a module that an extra of this package brings, or an error that explains how to install it.

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


class UnknownArgument(InputError, TypeError):
    """An argument that a function or class does not have."""


class WrongType(InputError, TypeError):
    """Data of a type that cannot be used; scikit-learn's checks expect a TypeError."""


@contextmanager
def reworded_values(numbers: str = "X and y must hold numbers (of a frame, X may hold codes as text, too)") -> Iterator[None]:
    """Turn what other libraries raise about the values of X or y into the error of this package."""
    try:
        yield
    except Exception as error:
        arrow = type(error).__module__ == "pyarrow.lib"
        wording = str(error)
        no_number = wording.startswith(("could not convert", "float() argument"))
        if isinstance(error, InputError) or not (arrow or no_number or isinstance(error, ValueError | OverflowError)):
            raise
        if arrow or isinstance(error, UnicodeError):
            wording = f"X holds text that is no valid Unicode: replace or drop such characters ({ascii(wording)[:200]})."
        elif no_number:
            wording = f"{numbers}: {wording}"
        if isinstance(error, TypeError):
            raise WrongType(wording) from error
        raise InputError(wording) from error


_hints_of = cache(get_type_hints)  # at the first call, when all names of a module are there
_shape_of = cache(signature)


def _check_arguments(function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise an InputError for the first argument of a call that is not what its annotation names."""
    # beartype is loaded by the first call, and not by "import peerattn"
    from peerattn.kinds import choices, in_short, in_words, is_kind

    shape = _shape_of(function)
    try:
        given = shape.bind(*args, **options).arguments
    except TypeError as error:
        unknown = [name for name in options if name not in shape.parameters]
        known = [name for name in shape.parameters if name != "self"]
        near = "".join(did_you_mean(name, known) or f" Its arguments are {', '.join(known)}." for name in unknown[:1])
        who = function.__qualname__
        if args and len(known) < len(shape.parameters):  # of a method: the class of the object, which may be a subclass
            who = f"{type(args[0]).__name__}.{function.__name__}"
        raise UnknownArgument(f"{who}: {error}.{near}") from None
    hints = _hints_of(function)
    for name, value in given.items():
        several = shape.parameters[name].kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        if not several and not is_kind(value, hints.get(name, Any)):
            wanted = in_words(hints[name])
            text = isinstance(value, str)
            remedy = f": write [{value!r}]" * (text and "a list" in wanted)
            near = did_you_mean(value, choices(hints[name])) if text else ""
            raise InputError(f"{name}: expected {wanted}, got {in_short(value)}{remedy}.{near}")


def validate_arguments(function: Function) -> Function:
    """Check the arguments of a public function by its annotations, before anything is computed.

    A wrong one raises an :class:`InputError` that names it, what came and what is expected, with the nearest name where the
    argument itself is unknown. Annotations give kinds; ranges are checked where a number is used, and what arrays and frames
    hold where they are read.
    """

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        _check_arguments(function, args, options)
        try:
            return function(*args, **options)
        except UnicodeEncodeError as error:  # half of a pair of surrogates, in a label, a name or a path
            raise InputError(f"text that is no valid Unicode, {error.object[:60]!a}: replace or drop it.") from error
        except TypeError as error:  # options that are passed on, as to predict
            if "unexpected keyword argument" in str(error) and any(repr(name) in str(error) for name in options):
                raise UnknownArgument(f"{function.__qualname__}: {str(error).rstrip('.')}.") from error
            raise

    return cast(Function, call)


def validate_methods(made: Class) -> Class:
    """Check the arguments of a class and of its public methods by :func:`validate_arguments`."""
    for name, method in list(vars(made).items()):
        if isinstance(method, FunctionType) and (name == "__init__" or not name.startswith("_")):
            setattr(made, name, validate_arguments(method))
    return made
