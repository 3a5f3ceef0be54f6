"""A panel from a formula, as linearmodels and R's fixest write them; its terms are computed row by row."""

import ast
import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, check_names, extra, reworded, validate_arguments
from peerattn.panel.columns import is_number, read_with_warning
from peerattn.panel.frames import flat, read_frame
from peerattn.panel.labels import panel_labels
from peerattn.panel.panel import Panel, as_float
from peerattn.panel.reading import read_panel

# a dot that stands alone, outside of numbers and names
_ALL = re.compile(r"(?<![\w.)`])\.(?![\w.(])")
#: Functions of each number by itself, besides numpy's universal functions (``np.sqrt``).
_FUNCTIONS = ("I", "abs", "exp", "exp2", "log", "log2", "log10")  # formulaic's exp10 is a tenth power
_OF_NUMPY = ("where", "clip", "isclose", "nan_to_num")
_METHODS = ("abs", "between", "clip", "fillna", "isin", "isna", "notna", "round")
#: ``fillna(method=)`` and ``nan_to_num(copy=)`` reach beyond the row, or change the frame.
_OPTIONS = ("lower", "upper", "inclusive", "decimals", "a_min", "a_max", "min", "max")
#: What gives a number where one is missing, on purpose.
_OF_MISSING = re.compile(r"\b(fillna|isna|notna|nan_to_num|isnan|isfinite|fmax|fmin)\(")
_OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.List, ast.Tuple)


class Read(NamedTuple):
    """A column that an expression reads, of the row's own period or of one so many before."""

    column: str
    lag: int


@validate_arguments
def from_formula(formula: str, frame: Any, *, firm: str = "firm", period: str = "period", **options: Any) -> Panel:
    """Return the panel of a formula such as ``"roa_next ~ size + log(assets) | sic + year"``.

    Parameters
    ----------
    formula : str
        Outcome ~ characteristics | codes. Characteristics may be functions and interactions, as formulaic writes them:
        ``log(assets)``, ``size:lev``, ``{size > 3}``. Code columns follow the bar; the names of firm and period may
        be among them, and are labels in any case. ``roa_next ~ .`` takes every column that :func:`read_panel` would, without
        those that the outcome is computed from.
    frame : DataFrame or path
        One row for each firm and period.
    firm, period : str, default "firm", "period"
        Names of the labels.
    **options
        Of :func:`read_panel`: ``industry``, ``known_at``, ``description``.

    Returns
    -------
    Panel
        For every estimator's ``fit``, for ``compare`` and ``audit``.

    Raises
    ------
    InputError
        For a formula without ``~``, a column that does not exist, a term that depends on other rows, or a column of the
        outcome among the characteristics.

    Notes
    -----
    A term whose columns are missing in a row is missing there, a condition (``{size > 3}``) as well, unless it is of missing
    values (``size.isna()``, ``size.fillna(0)``); no row is dropped, for every firm is a peer. A term is computed
    from its own row: arithmetic, comparisons, ``log``, ``exp``, ``abs``, numpy's functions of each number (``np.sqrt``),
    ``np.where``, ``clip``. What depends on other rows (``scale(size)``, ``bs(size)``, ``size - size.mean()``, ranks) would learn
    from tested rows, and raises an error. ``lag(size)`` and ``lag(size, 2)`` are the firm's own values one and two periods
    earlier, by the periods of the panel; missing where the firm has no such row. The outcome is an expression, as in R:
    ``log(price) - log(lag(price))`` is a difference.

    Examples
    --------
    >>> frame = pd.DataFrame({"firm": list("AB"), "period": 2001, "roa": [0.1, 0.2], "assets": [1.0, 2.0], "sic": [3711, 100]})
    >>> panel = from_formula("roa ~ log(assets) | sic + period", frame)
    >>> panel.outcome, list(panel.characteristics), list(panel.codes)
    ('roa', ['log(assets)'], ['sic'])
    """
    left, tilde, right = formula.partition("~")
    terms, _, after = right.partition("|")
    outcome = left.strip()
    if not (tilde and outcome and terms.strip()) or "~" in right:
        raise InputError(f"formula: expected 'outcome ~ characteristics | codes', got {formula!r}.")
    frame = flat(read_frame(frame))
    codes = [name for name in map(str.strip, after.split("+")) if name and name not in (firm, period)]
    for argument, names in {"firm": [firm], "period": [period], "formula": codes}.items():
        check_names(argument, "column", names, frame.columns)
    options |= {"firm": firm, "period": period, "codes": codes}
    # a plain name is a column, whatever characters it has
    if outcome in frame:
        y = frame[outcome]
        sources = [outcome]
    else:  # an expression, not a sum of terms: a - b is a difference
        table, of_outcome = _columns("{" + outcome.strip("{}") + "}", frame, firm, period)
        y = table.iloc[:, 0]
        sources = sorted({each.column for each in of_outcome if not each.lag})

    # every other column, by the rule of read_panel
    others = frame.drop(columns=sources).assign(**{outcome: y})
    if terms.strip() == ".":
        return read_panel(others, outcome=outcome, **options)
    if _ALL.search(terms):
        chosen = read_panel(others, outcome=outcome, **options).choice.characteristics
        # in parentheses, so that -x behind the dot removes a term of all
        every = "(" + " + ".join(f"`{name}`" for name in chosen) + ")"
        terms = _ALL.sub(lambda _: every, terms)

    x, read = _columns(terms.strip(), frame, firm, period)
    for name in sources:
        if Read(name, lag=0) in read:
            both = f"the outcome {outcome!r} is computed from {name!r}, which is among the characteristics, too"
            raise InputError(f"formula: {both}. Write lag({name}) for its earlier values, or leave it out.")
        if any(each.column == name and each.lag for each in read) and options.get("known_at") is not None:
            remedy = "Leave it out: models of firm history use past outcomes from when they are known."
            raise InputError(f"formula: lag() of {name!r}, of the outcome, may not be known yet by known_at. {remedy}")
    labels = dict.fromkeys([firm, period, *codes, options.get("industry"), options.get("known_at")])
    held = frame[[name for name in labels if name in frame]]
    for name in x.columns.intersection(held.columns):
        raise InputError(f"formula: {name!r} is a label, a code or a date; leave it out of the characteristics.")
    table = pd.concat([held, x], axis=1).assign(**{outcome: y})
    return read_panel(table, outcome=outcome, characteristics=x.columns.tolist(), **options)


def _columns(terms: str, frame: pd.DataFrame, firm: str, period: str) -> tuple[pd.DataFrame, set[Read]]:
    """Return the columns of terms, and what they read; raise where one is not computed row by row."""
    formulaic = extra("formulaic", "regressions", "from_formula")

    def lag(values: pd.Series, k: int = 1) -> pd.Series:
        """Return the firm's value k periods earlier."""
        if not isinstance(k, int) or k < 1:
            raise InputError(f"formula: lag() takes a whole number of periods of at least 1, got {k!r}.")
        labels = panel_labels(frame, firm, period)
        assert labels is not None  # both columns are there
        when = pd.factorize(labels.period, sort=True)[0]
        # by label, not by position: a firm that misses a period has no value there
        earlier = pd.Series(np.asarray(values), index=[labels.firm, when + k])
        return pd.Series(earlier.reindex(pd.MultiIndex.from_arrays([labels.firm, when])).array, frame.index)

    read: dict[str, set[Read]] = {}
    with reworded(f"formula: {terms!r} cannot be read"):
        parsed = formulaic.Formula(f"{terms} - 1")
        for factor in {factor for term in parsed for factor in term.factors}:
            if factor.eval_method.value == "lookup":
                read[factor.expr] = {Read(factor.expr, lag=0)}
            elif factor.eval_method.value == "python":
                read[factor.expr] = columns_read(factor.expr)
        every = set[Read]().union(*read.values())
        names = {each.column for each in every}
        check_names("formula", "column", names, frame.columns)
        frame = frame.assign(**_numbers(frame, names - {firm, period}))
        found = parsed.get_model_matrix(frame, na_action="ignore", output="pandas", context={"lag": lag})
        for name, (kind, _) in found.model_spec.encoder_state.items():
            if kind.value == "categorical":
                remedy = f"A code follows the bar: | {name}. Digits as text become numbers by pandas.to_numeric."
                raise InputError(f"formula: {name!r} is no number. {remedy}")
    table = pd.DataFrame(found)
    for term, at in found.model_spec.term_indices.items():
        # a condition is no number where what it compares is missing
        parts = [read[factor.expr] for factor in term.factors if factor.expr in read and not _OF_MISSING.search(factor.expr)]
        reads = set[Read]().union(*parts)
        columns = [frame[name] for name, k in reads if not k] + [lag(frame[name], k) for name, k in reads if k]
        if columns and (missing := pd.concat(columns, axis=1).isna().any(axis=1)).any():
            for name in table.columns[at]:
                table[name] = table[name].astype(float).mask(missing)
    return table, every


def _numbers(frame: pd.DataFrame, names: Collection[str]) -> dict[Any, np.ndarray]:
    """Return the columns that hold numbers, as text or objects, too, as floats; of text with a warning."""
    columns = [read_with_warning(frame[name]) for name in frame.columns if name in names]
    return {column.name: as_float(column) for column in columns if is_number(column)}


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
    [Read(column='assets', lag=0), Read(column='assets', lag=1)]
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
    return {Read(quoted.get(name, name), lag) for name, lag in _walk(tree, 0)}


def _walk(node: ast.expr, lag: int) -> Iterator[tuple[str, int]]:
    """Yield the names that a node reads, and by how many periods they are lagged."""
    match node:
        case ast.Name(id=name):
            yield name, lag
        case ast.Constant() | ast.Attribute(value=ast.Name(id="np"), attr="nan" | "pi" | "e" | "inf"):
            return
        case ast.Call(func=ast.Name(id="lag"), args=[inner, *given], keywords=named):
            k = [ast.literal_eval(each) for each in (*given, *(option.value for option in named))]
            yield from _walk(inner, lag + (k or [1])[0])
        case ast.Call() if _of_one_row(node):
            parts = [*node.args, *(option.value for option in node.keywords)]
            if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) != "np":  # a method of a column
                parts.append(node.func.value)
            for each in parts:
                yield from _walk(each, lag)
        # a matrix product mixes rows
        case ast.BinOp(op=ast.MatMult()):
            raise _error(node)
        case ast.Compare() if any(isinstance(each, ast.In | ast.NotIn | ast.Is | ast.IsNot) for each in node.ops):
            raise _error(node)
        case _ if isinstance(node, _OPERATIONS):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from _walk(child, lag)
        case _:
            raise _error(node)


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
