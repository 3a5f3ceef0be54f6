"""Whether a value is of the kind that an annotation names, by beartype, and that kind in words."""

import reprlib
from collections.abc import Collection, Hashable, Mapping, Sequence
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
from beartype import BeartypeConf, FrozenDict
from beartype.door import is_bearable
from beartype.vale import Is, IsInstance

_LIST = Annotated[Collection[Any], ~IsInstance[str, bytes]]
#: Numbers of numpy count as Python's and lists of pandas as lists; True is no number, NaN none, and text is no list of names.
_KINDS = {
    int: Annotated[Integral, ~IsInstance[bool]],
    float: Annotated[Real, ~IsInstance[bool] & Is[lambda number: number == number]],
    bool: bool | np.bool_,
    # columns need not be named by text
    Sequence[str]: Annotated[_LIST, Is[lambda names: all(isinstance(name, Hashable) for name in names)]],
    Sequence[float]: Annotated[_LIST, Is[lambda numbers: all(isinstance(number, Real) for number in numbers)]],
}
_CONF = BeartypeConf(hint_overrides=FrozenDict(_KINDS))
_WORDS = {
    int: "a whole number", float: "a number", bool: "True or False", str: "text", NoneType: "None", Hashable: "a label",
    Sequence: "a list of values", Sequence[float]: "a list of numbers", Sequence[str]: "a list of names",
    list[str]: "a list of names", Mapping: "a dictionary", dict: "a dictionary",
}  # fmt: skip


def is_kind(value: object, hint: Any) -> bool:
    """Return whether a value is what an annotation names.

    >>> is_kind(np.int64(3), int | None), is_kind(True, int), is_kind("size", Sequence[str])
    (True, False, False)
    """
    return is_bearable(value, hint, conf=_CONF)


def in_words(hint: Any) -> str:
    """Return what an annotation names.

    >>> in_words(int | None), in_words(Literal["seeds", "folds"])
    ('a whole number or None', "'seeds' or 'folds'")
    """
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return " or ".join(map(in_words, get_args(hint)))
    if origin is Literal:
        return " or ".join(map(repr, get_args(hint)))
    kind = origin or hint
    if origin is Mapping and get_args(hint)[1] is not Any:
        return f"a dictionary whose values are each {in_words(get_args(hint)[1])}"
    return _WORDS.get(hint) or _WORDS.get(kind) or str(getattr(kind, "__name__", kind))


def choices(hint: Any) -> list[Any]:
    """Return the values that an annotation lists.

    >>> choices(Literal["seeds", "folds"] | None)
    ['seeds', 'folds']
    """
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [value for part in get_args(hint) for value in choices(part)]


def in_short(value: object) -> str:
    """Return the beginning of a value and its type.

    >>> in_short("abc")
    "'abc' (str)"
    """
    return f"{reprlib.repr(value)} ({type(value).__name__})"
