"""What torch raises, as bad input that names the arguments: found out once a call has failed, at no cost before."""

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from peerattn.exceptions import InputError, check_arguments, validate_arguments

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)


def torch_reworded(function: Function) -> Function:
    """Turn an error of torch into an InputError: the argument of a wrong type, or what all arguments were.

    For functions that are called in every step of training, whose arguments are not looked at beforehand.
    """

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*args, **options)
        try:
            return function(*args, **options)
        except (InputError, torch.OutOfMemoryError):
            raise
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            given = check_arguments(function, args, options)
            came = ", ".join(f"{name} {_in_words(value)}" for name, value in given.items() if name not in ("self", "cls"))
            reason = " ".join(str(error).split())[:300]
            wanted = f"{function.__qualname__}: expected arguments whose types and shapes fit each other"
            raise InputError(f"{wanted}, got {came} ({reason}).") from error

    return cast(Function, call)


def checked(function: Function) -> Function:
    """Check the arguments before, by their annotations, and reword what torch raises."""
    careful = validate_arguments(torch_reworded(function))

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling():  # one graph, without the checks
            return function(*args, **options)
        return careful(*args, **options)

    return cast(Function, call)


def checked_module(made: Class) -> Class:
    """Check the arguments of a module's constructor, and reword what torch raises in its methods."""
    for name, method in list(vars(made).items()):
        if name == "__init__":
            setattr(made, name, checked(method))
        elif isinstance(method, classmethod):
            setattr(made, name, classmethod(checked(method.__func__)))
        elif isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(made, name, torch_reworded(method))
    return made


def _in_words(value: object) -> str:
    from peerattn.kinds import in_short

    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    return in_short(value)
