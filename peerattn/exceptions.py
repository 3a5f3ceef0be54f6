"""Errors and warnings of the package, one place for all of them."""

import difflib
import importlib
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, signature, unwrap
from numbers import Integral, Real
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import Any, ForwardRef, Literal, TypeVar, Union, cast, get_args, get_origin

from peerattn.foreign_text import VisibleText


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
    """Returns look like per cent, where decimals are expected; or a characteristic is the same in all rows."""


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
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{what} ({reason}).{remedy}") from error


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


def check_share(most: float = 1, **numbers: Any) -> None:
    """Raise an InputError that names the first of these numbers that is not above 0 and at most ``most``."""
    for name, number in numbers.items():
        expect(0 < number <= most, name, f"a share above 0 and at most {most}", repr(number))


def check_one_of(**choices: tuple[Any, Sequence[Any]]) -> None:
    """Raise an InputError that names the first of these arguments whose value is none of its options.

    >>> check_one_of(kernel=("gausian", ["gaussian", "uniform"]))
    Traceback (most recent call last):
    peerattn.exceptions.InputError: kernel must be one of ['gaussian', 'uniform'], got 'gausian'. Near matches: 'gaussian'.
    """
    for name, (value, options) in choices.items():
        if isinstance(value, bool) or not isinstance(value, Hashable) or value not in options:
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


MOST = {"n_jobs": 1024}  # of a number that counts work; others that begin with n_ at most a million
_MILLION = 1_000_000
#: And what begins with n_: at least 1, or 0 where that is the default.
_COUNTS = ("k", "top_k", "horizon", "width", "d_head")
_SHARES = ("level", "quantile", "size", "share")  # strictly between 0 and 1
_COLUMNS = ("firm", "period", "outcome", "industry", "value_weight", "known_at")

Door = TypeVar("Door", bound=Callable[..., Any])
Kind = tuple[Callable[[Any], Any], str]  # whether a value is of it, and what is expected


class UnknownArgument(InputError, TypeError):
    """An argument that a function or class does not have."""


class WrongType(InputError, TypeError):
    """Data of a type that cannot be used; scikit-learn's checks expect a TypeError."""


def checked(door: Door) -> Door:
    """Check the arguments of a public function, or of the public methods of a class, by their annotations.

    A wrong one raises an :class:`InputError` that names it, what came and what is expected, with the nearest name where the
    argument itself is unknown. Annotations are checked as far as they concern a scalar, text, a choice, a list of names,
    a mapping, a function or a class of this package; what arrays and frames hold is checked where they are read. A number of
    draws, processes and the like (``n_...``) is at least 1 (0 where that is the default) and at most a million, a level or
    share between 0 and 1.
    """
    if isinstance(door, type):
        for name, value in list(vars(door).items()):
            if isinstance(value, FunctionType) and (not name.startswith("_") or name == "__init__"):
                setattr(door, name, checked(value))
        return door
    shape = signature(door)
    kinds: dict[str, Kind] = {}
    defaults = {
        name: each.default
        for name, each in shape.parameters.items()
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) and name not in ("self", "cls")
    }

    @wraps(door)
    def call(*args: Any, **options: Any) -> Any:
        unknown = [name for name in options if name not in defaults]
        try:
            bound = shape.bind(*args, **options).arguments
        except TypeError as error:
            near = "".join(did_you_mean(name, defaults) for name in unknown[:1])
            raise UnknownArgument(f"{door.__qualname__}: {error}.{near}") from None
        if not kinds:
            kinds.update({n: _kind(_evaluated(shape.parameters[n].annotation, door)) for n in defaults})
        given = {n: bound[n] for n in defaults if bound.get(n, defaults[n]) is not defaults[n]}
        for name, value in given.items():
            _check(name, value, kinds[name], defaults[name])
        try:
            return door(*args, **options)
        except InputError:
            raise
        except UnicodeEncodeError as error:  # half of a pair of surrogates, in a label, a name or a path
            raise InputError(f"text that is no valid Unicode, {error.object[:60]!a}: replace or drop it.") from error
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, OSError) as error:
            if isinstance(error, TypeError) and unknown and "unexpected keyword" in str(error):
                raise UnknownArgument(f"{door.__qualname__}: {error}.") from error
            odd = {name: _oddness(value, kinds[name]) for name, value in given.items()}
            name = max(odd, key=lambda key: odd[key], default="")
            if not name or not odd[name] or hasattr(error, "__notes__"):
                raise
            why = " ".join(f"{type(error).__name__}: {error}".split())[:120]
            kind = WrongType if isinstance(error, TypeError) else InputError
            raise kind(f"{name}: cannot be used, got {_short(given[name])} ({why}).") from error

    return cast(Door, call)


def _check(name: str, value: Any, kind: Kind, default: Any) -> None:
    """Raise for a value of another kind, and for a count, share or seed outside its range."""
    fits, wording = kind
    named = name in _COLUMNS and isinstance(value, str | int | tuple)  # columns need not be named by text
    if not named and not fits(value):
        remedy = f": write [{value!r}]" if isinstance(value, str) and "list" in wording else ""
        raise InputError(f"{name}: expected {wording}, got {_short(value)}{remedy}.")
    if not isinstance(value, Real):
        return
    size = cast(float, value)
    counts = name.startswith("n_") or name in _COUNTS
    least = min(1, default) if isinstance(default, int) else 1
    most = MOST.get(name, _MILLION)
    for wrong, wanted in (
        (counts and name != "n_jobs" and size < least, f"at least {least}"),
        (counts and not abs(size) <= most, f"at most {most:,}"),
        (name in _SHARES and not 0 < size < 1, "a number between 0 and 1"),
        (name == "random_state" and not 0 <= size < 2**32, f"a whole number from 0 to {2**32 - 1}"),
    ):
        if wrong:
            raise InputError(f"{name}: expected {wanted}, got {_short(value)}.")


def _evaluated(annotation: Any, door: Any) -> Any:
    """Return what an annotation means; Any where nothing can be checked here (names imported for type checkers alone)."""
    if annotation is Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, unwrap(door).__globals__)  # our own source
    except Exception:
        return Any


def _kind(annotation: Any) -> Kind:
    """Return what checks whether a value is of a kind, and what is expected; all values are of a kind that is not checked here.

    >>> _kind(int | None)[1], _kind(Literal["seeds", "folds"])[1]
    ('a whole number or None', "'seeds' or 'folds'")
    """
    origin = get_origin(annotation)
    parts = get_args(annotation)
    if isinstance(annotation, TypeVar):
        bound = annotation.__bound__
        if isinstance(bound, ForwardRef):
            bound = getattr(sys.modules[annotation.__module__], bound.__forward_arg__, Any)
        return _kind(bound)
    if origin in (Union, UnionType):
        fits, wording = zip(*map(_kind, parts))
        return lambda value: any(fit(value) for fit in fits), " or ".join(dict.fromkeys(wording))
    if origin is Literal:
        options = " or ".join(map(repr, parts))
        return lambda value: any(type(value) is type(part) and value == part for part in parts), options
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin in (Sequence, Iterable, list, tuple):
        named = parts[0] is str  # columns need not be named by text
        each = _kind(Hashable if named else parts[0])[0]
        unseen = origin is tuple or parts[0] is Any

        def are(value: Any) -> bool:
            listed = hasattr(value, "__iter__") and not isinstance(value, str | bytes)
            return listed and (unseen or isinstance(value, Iterator) or all(map(each, value)))

        return are, "a list of names" if named else "a list of values"
    if origin in (Mapping, dict):
        held = _kind(parts[1])[0]
        return lambda value: isinstance(value, Mapping) and all(map(held, value.values())), "a dictionary"
    name = str(getattr(origin or annotation, "__name__", annotation))
    if name in _HAS:
        return lambda value: hasattr(value, _HAS[name]) and not isinstance(value, str | bytes), name
    ours = isinstance(annotation, type) and annotation.__module__.startswith(_OURS)
    ours = ours or annotation in (Path, Hashable)
    return lambda value: not ours or isinstance(value, annotation), name


def _is_truth(value: Any) -> bool:
    """Whether a value is True or False, Python's or numpy's."""
    return isinstance(value, bool) or type(value).__name__ == "bool"


_PLAIN: dict[Any, Kind] = {
    int: (lambda value: isinstance(value, Integral) and not _is_truth(value), "a whole number"),
    float: (lambda value: isinstance(value, Real) and not _is_truth(value) and value == value, "a number"),
    bool: (_is_truth, "True or False"),
    str: (lambda value: isinstance(value, str), "text"),
    NoneType: (lambda value: value is None, "None"),
}
#: What functions, paths, tables and arrays of any library have.
_HAS = {
    "Callable": "__call__", "PathLike": "__fspath__",
    "DataFrame": "columns", "Index": "get_indexer", "Series": "to_frame", "ndarray": "__len__",
}  # fmt: skip
_OURS = ("peerattn.", "numpy.random.")  # modules whose classes are meant as they are named


def _oddness(value: Any, kind: Kind) -> int:
    """Return how unlikely data are to be what a failing function expects: 2 never right, 1 seldom, 0 may be right."""
    unsaid = kind[1] == "Any"
    ours = type(value).__module__.startswith("peerattn.")
    if ours or hasattr(value, "get_params") or hasattr(value, "period"):
        return 0
    if hasattr(value, "__len__") and not isinstance(value, str):
        size = getattr(value, "size", None)
        numbers = getattr(value, "select_dtypes", lambda kind: value)("number")
        text = getattr(getattr(value, "dtype", None), "kind", "") == "O" or getattr(numbers, "size", 1) == 0
        hollow = not len(value) or size == 0 or text or getattr(value, "ndim", 1) > 2
        if hollow or isinstance(value, set | bytes):
            return 2
        return int(unsaid and (size is None or size < 4))
    if isinstance(value, str):
        return int(unsaid or "\x00" in value or len(value) > 255)  # no name of a file
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9:
        return int(unsaid)
    return 2


def _short(value: object) -> str:
    """Return the value as a message shows it: its first characters, and its type."""
    try:
        return f"{repr(value)[:60]} ({type(value).__name__})"
    except Exception:  # a repr of somebody else's may raise anything
        return type(value).__name__
