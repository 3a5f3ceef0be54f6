"""The command: how functions become commands, exit codes, one line for bad input, one line for each warning."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from peerattn.exceptions import InputError, PeerAttnWarning

_UsageError: Any = typer.BadParameter.__base__  # click's, wherever this typer keeps it
STOPPED = 130
_LESS = "Take fewer firms, periods or characteristics, or a machine with more memory."

app = typer.Typer(
    name="peerattn",
    help="Cross-sectional attention for panels of firms: whom each firm looks to, and whether it helps to predict.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def command(*, epilog: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command; a parameter that is a dataclass becomes one option for each of its fields."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(function).parameters.items():
            one = parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY)
            parameters += _options(groups[name]) if name in groups else [one]

        @functools.wraps(function)
        def call(**values: Any) -> None:
            for name, kind in groups.items():
                values[name] = kind(**{option.name: values.pop(option.name) for option in fields(kind)})
            function(**values)

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(epilog=epilog)(call)
        return function

    return register


def _options(group: Any) -> list[inspect.Parameter]:
    """Return the fields of a group as parameters that typer reads."""
    hints, keyword = get_type_hints(group), inspect.Parameter.KEYWORD_ONLY
    found = []
    for option in fields(group):
        kind: Any = Annotated[hints[option.name], option.metadata["typer"]]
        found.append(inspect.Parameter(option.name, keyword, default=option.default, annotation=kind))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and leave with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code.

    0 when done; 2 for bad input, a full disk or too little memory (one line on stderr); 1 for a bug (with its traceback).
    """
    try:
        with _plain_warnings():
            code = app(args=list(arguments) or ["--help"], prog_name="peerattn", standalone_mode=False)
            sys.stdout.flush()
        if code == STOPPED:  # typer turns Ctrl-C into this code
            raise KeyboardInterrupt
        return int(code or 0)
    except (_UsageError, InputError) as error:
        message = error.format_message() if isinstance(error, _UsageError) else str(error)
        message = " ".join(message.split()).replace("Value error, ", "")  # the parser's prefix, not ours
        return _refused(message)
    except (KeyboardInterrupt, typer.Abort):
        print("peerattn: stopped.", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:  # the reader of our output has left; nothing is lost that anybody reads
        sys.stderr.close()
        return 0
    except MemoryError as error:
        return _refused(f"not enough memory ({error}). {_LESS}")
    except OSError as error:
        return _refused(f"{error.filename or 'disk'}: {error.strerror or error}.")
    except Exception as error:
        if isinstance(error, RuntimeError) and re.search("can't allocate memory|out of memory", str(error)):
            return _refused(f"not enough memory ({str(error).splitlines()[0]}). {_LESS}")
        traceback.print_exc()
        print("peerattn: this is a bug in peerattn; please report it with the lines above.", file=sys.stderr)
        return 1


def _refused(message: str) -> int:
    print(f"peerattn: {message}", file=sys.stderr)
    return 2


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show our own warnings as one line each, once, without the place in the source."""
    shown: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", PeerAttnWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
            if not issubclass(category, PeerAttnWarning):
                usual(message, category, *rest, **named)
            elif str(message) not in shown:
                shown.add(str(message))
                print(f"warning: {message}", file=sys.stderr)

        warnings.showwarning = show
        yield


def _show_version(wanted: bool) -> None:
    if wanted:
        from peerattn import __version__

        print(f"peerattn {__version__}")
        raise typer.Exit


@app.callback()
def _peerattn(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Cross-sectional attention for panels of firms: whom each firm looks to, and whether it helps to predict."""
