"""The command: how dataclasses become commands, exit codes, one line for bad input, one line for each warning."""

import contextlib
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from importlib import import_module
from inspect import Parameter, Signature, cleandoc
from typing import Annotated, Any, get_type_hints

import typer

from peerattn.cli.commands import COMMANDS
from peerattn.cli.options import Output
from peerattn.exceptions import InputError, PeerAttnWarning
from peerattn.foreign_text import visible

_UsageError: Any = typer.BadParameter.__base__  # click's, wherever this typer keeps it
STOPPED = 130
_DESCRIBED = re.compile(r"^(\w+)(?: : (\S+))?\n((?: {4}.+\n?)+)", re.MULTILINE)  # a field: placeholder, help
_LAST = ("quiet", "as_json")  # options that every command has

app = typer.Typer(name="peerattn", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def main() -> None:
    """Run the command and leave with its exit code."""
    sys.exit(run(sys.argv[1:]))


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
    except (KeyboardInterrupt, typer.Abort):
        print("peerattn: stopped.", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:  # the reader of our output has left; nothing is lost that anybody reads
        sys.stderr.close()
        return 0
    except Exception as error:
        message = _message(error)
        if message is None:
            print(visible(traceback.format_exc()), file=sys.stderr)
        wording = message or "this is a bug in peerattn; please report it with the lines above."
        print(f"peerattn: {visible(wording)}", file=sys.stderr)
        return 2 if message else 1


def _message(error: Exception) -> str | None:
    """Return in a line what the user can do something about; None for a bug."""
    if isinstance(error, _UsageError | InputError):
        return " ".join(getattr(error, "format_message", error.__str__)().split())
    if isinstance(error, OSError):
        return f"{error.filename or 'disk'}: {error.strerror or error}."
    full = isinstance(error, RuntimeError) and re.search("can't allocate memory|out of memory", str(error))
    if full or isinstance(error, MemoryError):
        why = (str(error).splitlines() or [""])[0]
        return f"not enough memory ({why}). Take fewer firms, periods or characteristics, or a machine with more memory."
    return None


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show our own warnings as one line each, once, without the place in the source."""
    printed: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", PeerAttnWarning)
        # other packages' warnings stay as they are
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
            if not issubclass(category, PeerAttnWarning):
                usual(message, category, *rest, **named)
            elif str(message) not in printed:
                printed.add(str(message))
                print(f"warning: {visible(str(message))}", file=sys.stderr)

        warnings.showwarning = show
        yield


def _show_version(wanted: bool) -> None:
    if wanted:
        from peerattn import __version__

        print(f"peerattn {__version__}")
        raise typer.Exit


@app.callback()
def _peerattn(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Cross-sectional attention for panels of firms: which peers each firm attends to, and whether they improve predictions."""


def _register(kind: type[Output]) -> None:
    """Make a dataclass a command: its fields are the options, its docstring the help, its ``example`` the end of it."""
    name = kind.__name__.lower()
    hints = get_type_hints(kind)
    described: dict[str, list[str]] = {}
    for each in reversed(kind.__mro__):
        # the help of an option is its description in the docstring
        described |= {name: rest for name, *rest in _DESCRIBED.findall(cleandoc(each.__doc__ or ""))}
    # typer reads a signature: one is made of the dataclass's fields
    parameters = []
    for one in sorted(fields(kind), key=lambda one: one.name in _LAST):
        names = one.metadata.get("names")
        if not names and hints[one.name] in (bool, bool | None):  # without a --no- of its own
            names = [f"--{one.name}"]
        placeholder, text = described.get(one.name, ("", ""))  # python -OO has no docstrings
        displayed = one.metadata.get("kind", typer.Option)(
            *(names or ()), metavar=placeholder or None, help=" ".join(text.split()), **one.metadata.get("more", {})
        )
        kept: Any = Annotated[hints[one.name], displayed]
        parameter = Parameter(one.name, Parameter.KEYWORD_ONLY, annotation=kept)
        if one.default is not MISSING:
            parameter = parameter.replace(default=one.default)
        parameters.append(parameter)

    def call(**values: Any) -> None:
        import_module(f"peerattn.cli.{name}").run(kind(**values))

    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    text = cleandoc(kind.__doc__ or "").partition("Attributes\n---")[0]
    app.command(name, help=text, epilog=f"Example:  peerattn {kind.example}")(call)


for _kind in COMMANDS:
    _register(_kind)
