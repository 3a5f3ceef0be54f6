"""What an expression of a formula reads, and an error where it depends on other rows than its own."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from peerattn.exceptions import InputError

#: Functions of each number by itself, besides numpy's universal functions (``np.sqrt``).
_FUNCTIONS = ("I", "abs", "exp", "exp2", "exp10", "log", "log2", "log10")
_OF_NUMPY = ("where", "clip", "isclose", "nan_to_num")
_METHODS = ("abs", "between", "clip", "fillna", "isin", "isna", "notna", "round")
#: ``fillna(method=)`` and ``nan_to_num(copy=)`` reach beyond the row, or change the frame.
_OPTIONS = ("lower", "upper", "inclusive", "decimals", "a_min", "a_max", "min", "max")
_OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.List, ast.Tuple)


class Read(NamedTuple):
    """A column that an expression reads, of the row's own period or of an earlier one."""

    column: str
    lagged: bool


def columns_read(expression: str) -> set[Read]:
    """Return the columns that an expression reads.

    Parameters
    ----------
    expression : str
        As Python; names that are no identifiers stand in backticks.

    Raises
    ------
    InputError
        For whatever is not computed row by row: only what is known to be so is allowed.

    Examples
    --------
    >>> sorted(columns_read("log(assets) - lag(assets)"))
    [Read(column='assets', lagged=False), Read(column='assets', lagged=True)]
    >>> columns_read("size - size.mean()")
    Traceback (most recent call last):
    peerattn.exceptions.InputError: formula: 'size.mean()' is not known to be computed row by row...
    """
    quoted: dict[str, str] = {}

    def identifier(found: re.Match[str]) -> str:
        name = f"_column{len(quoted)}"
        quoted[name] = found[1]
        return name

    # names in backticks are no identifiers of Python: each gets one for the parse
    tree = ast.parse(re.sub("`([^`]+)`", identifier, expression).strip(), mode="eval").body
    return {Read(quoted.get(name, name), lagged) for name, lagged in _walk(tree, False)}


def _walk(node: ast.expr, lagged: bool) -> Iterator[tuple[str, bool]]:
    """Yield the names that a node reads, and whether inside ``lag()``."""
    match node:
        case ast.Name(id=name):
            yield name, lagged
        case ast.Constant() | ast.Attribute(value=ast.Name(id="np"), attr="nan" | "pi" | "e" | "inf"):
            return
        case ast.Call(func=ast.Name(id="lag"), args=[inner, *_]):
            yield from _walk(inner, True)
        case ast.Call() if _of_one_row(node):
            for each in (*_column_of(node.func), *node.args, *(option.value for option in node.keywords)):
                yield from _walk(each, lagged)
        # a matrix product mixes rows
        case ast.BinOp(op=ast.MatMult()):
            raise _error(node)
        case ast.Compare() if any(isinstance(each, ast.In | ast.NotIn | ast.Is | ast.IsNot) for each in node.ops):
            raise _error(node)
        case _ if isinstance(node, _OPERATIONS):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from _walk(child, lagged)
        case _:
            raise _error(node)


def _column_of(function: ast.expr) -> list[ast.expr]:
    """Return the column whose method a function is; none for numpy's functions, which are no methods."""
    match function:
        case ast.Attribute(value=ast.Name(id="np")):
            return []
        case ast.Attribute(value=column):
            return [column]
    return []


def _of_one_row(call: ast.Call) -> bool:
    """Whether a call computes each number from its own row."""
    if any(option.arg not in _OPTIONS for option in call.keywords):
        return False
    match call.func:
        case ast.Name(id=name):
            return name in _FUNCTIONS
        case ast.Attribute(value=ast.Name(id="np"), attr=name):
            universal = getattr(np, name, None)
            if not isinstance(universal, np.ufunc):
                return name in _OF_NUMPY
            # with a signature, as matmul, it is a product of whole columns; an argument more is where the result is written
            return universal.signature is None and len(call.args) <= universal.nin and universal.nout == 1
        case ast.Attribute(attr="isin"):  # among constants: another column would be all its rows
            return not any(isinstance(part, ast.Name) for each in call.args for part in ast.walk(each))
        case ast.Attribute(attr=name):
            return name in _METHODS
    return False


def _error(node: ast.expr) -> InputError:
    return InputError(
        f"formula: {ast.unparse(node)!r} is not known to be computed row by row. Means, ranks, splines and the like learn from "
        "all rows, tested ones, too: put them in a Pipeline. Write lag(x) for the firm's earlier value, and any other "
        "function as a column of the frame."
    )
