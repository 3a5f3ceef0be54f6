"""Results of regressions: one vocabulary, and the table of a paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, check_at_least, expect, validate_arguments
from peerattn.render.cells import formatted, with_minus
from peerattn.render.files import File
from peerattn.render.table import Shown, Table

#: Levels of one, two and three stars.
STARS = (0.1, 0.05, 0.01)
Parentheses = Literal["std_errors", "tstats", "pvalues"]
_SHOWN = {"std_errors": "Standard errors", "tstats": "t statistics", "pvalues": "p values"}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Regression(Shown):
    """What every regression of this package reports, in linearmodels' words.

    Attributes
    ----------
    params, std_errors, pvalues : Series
        Coefficients, standard errors and two-sided p values against zero, by regressor; NaN where there is none.
    nobs : int
        Observations.
    rsquared : float
        Share of the variance explained.
    freedom : int or None
        Degrees of freedom of t; None: the normal distribution.
    title : str
        Shown above the table.
    notes : sequence of str
        What a reader needs to know about the estimates, below the table.
    effects : sequence of str, default ()
        What was absorbed, such as firm and period.

    Examples
    --------
    >>> from peerattn import simulate_panel
    >>> panel = simulate_panel(10, 3, 2, n_industries=2, random_state=0)
    >>> from peerattn.network import SameCode, dyadic_regression
    >>> found = dyadic_regression(panel.network, {"same industry": SameCode(panel.X["industry"])})
    >>> found.nobs > 0
    True
    """

    params: pd.Series
    std_errors: pd.Series
    pvalues: pd.Series
    nobs: int
    rsquared: float
    freedom: int | None = None
    title: str = "Regression"
    notes: Sequence[str] = ()
    effects: Sequence[str] = ()
    _below: ClassVar[Parentheses] = "std_errors"  # each coefficient, in the table of a paper
    _displayed: ClassVar[str] = "summary"

    @property
    def tstats(self) -> pd.Series:
        """Coefficients over their standard errors."""
        return self.params / self.std_errors

    def conf_int(self, level: float = 0.95) -> pd.DataFrame:
        """Return confidence intervals, columns lower and upper; NaN where there is no p value."""
        from scipy import stats

        expect(0 < level < 1, "level", "a number between 0 and 1", level)
        # the normal distribution where degrees of freedom are unknown
        distribution = stats.norm() if self.freedom is None else stats.t(self.freedom)
        width = distribution.ppf((1 + level) / 2) * self.std_errors.where(self.pvalues.notna())
        return pd.DataFrame({"lower": self.params - width, "upper": self.params + width})

    def to_frame(self) -> pd.DataFrame:
        """Return params, std_errors, tstats, pvalues, and the lower and upper end of 95 % intervals, by regressor."""
        names = ("params", "std_errors", "tstats", "pvalues")
        return pd.DataFrame({name: getattr(self, name) for name in names}).join(self.conf_int())

    def _footnotes(self) -> list[str]:
        """What a reader needs to know about the estimates."""
        return list(self.notes)

    def _figures(self) -> dict[str, object]:
        """Figures below the coefficients in a paper's table, besides observations and R²."""
        return {f"{name} effects": "yes" for name in self.effects}

    def summary(self) -> Table:
        """Return the estimates as a table in linearmodels' form."""
        rows = list(self.to_frame().rename(index=str).itertuples(name=None))
        fit = "" if np.isnan(self.rsquared) else f", R² {self.rsquared:.3f}"
        heads = ("", "Parameter", "Std. Err.", "T-stat", "P-value", "Lower CI", "Upper CI")
        formats = ("", "#.4g", "#.3g", ".2f", ".3f", "#.4g", "#.4g")
        notes = [f"{self.nobs:,} observations{fit}.", *self._footnotes()]
        return Table(self.title, heads, rows, formats=formats, footnotes=notes)

    def to_latex(self, path: File | None = None, *, label: str = "", **observed: Any) -> str:
        """Return :func:`~peerattn.render.regression_table` in LaTeX (booktabs), and write it where a path is given."""
        return self._in_paper(observed).to_latex(path, label=label)

    def to_markdown(self, path: File | None = None, **observed: Any) -> str:
        """Return :func:`~peerattn.render.regression_table` in Markdown, and write it where a path is given."""
        return self._in_paper(observed).to_markdown(path)

    def _in_paper(self, observed: dict[str, Any]) -> Table:
        return regression_table(self, **{"parentheses": self._below} | observed)

    def __repr__(self) -> str:
        observed = ", ".join(f"{name}={value:.4g}" for name, value in list(self.params.items())[:4])
        more = ", ..." * (len(self.params) > 4)
        return f"{type(self).__name__}({observed}{more}, nobs={self.nobs:,})"


def estimates(names: Any, *columns: Any) -> dict[str, Any]:
    """Return coefficients, standard errors and p values as a :class:`Regression` takes them, by regressor."""
    found = zip(("params", "std_errors", "pvalues"), columns, strict=True)
    return {name: pd.Series(list(values), names) for name, values in found}


def as_regression(result: Any) -> Regression:
    """Return a fitted result of linearmodels or statsmodels as a :class:`Regression`; one of this package as it is.

    Raises
    ------
    InputError
        For an object without coefficients, standard errors and p values.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> as_regression(sm.OLS([1.0, 2.0, 4.0, 4.0], pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0]})).fit())
    Regression(size=1.1, nobs=4)
    """
    if isinstance(result, Regression):
        return result
    errors = getattr(result, "std_errors", getattr(result, "bse", None))  # linearmodels, statsmodels
    if errors is None or not hasattr(result, "params") or not hasattr(result, "pvalues"):
        hint = "; pass its results_" if hasattr(result, "results_") else ""
        wanted = "a regression of this package, linearmodels or statsmodels, or a mapping of heads to such"
        raise InputError(f"results: expected {wanted}; got {type(result).__name__}{hint}.")
    # arrays have no names: statsmodels keeps them in the model
    named = isinstance(result.params, pd.Series)
    names = result.params.index if named else pd.Index(result.model.exog_names)
    effects = tuple(map(str, getattr(result, "included_effects", ())))
    if effects:  # linearmodels has names of its own for the two levels of the index
        levels = dict(zip(("Entity", "Time"), map(str, result.fitted_values.index.names)))
        effects = tuple(levels.get(name, name) for name in effects)
    # the second name: panels of linearmodels
    kind = getattr(result, "cov_type", None) or getattr(result, "_cov_type", None)
    freedom = getattr(result, "df_resid", None)
    return Regression(
        **estimates(names, result.params, errors, result.pvalues),
        rsquared=float(getattr(result, "rsquared", getattr(result, "prsquared", np.nan))),
        nobs=int(result.nobs),
        freedom=None if freedom is None else int(freedom),
        notes=[f"Covariance: {kind}."] if kind else [],
        effects=effects,
    )


@validate_arguments
def regression_table(
    results: Any,
    *,
    parentheses: Parentheses = "std_errors",
    stars: Sequence[float] = STARS,
    labels: Mapping[str, str] | None = None,
    decimals: int = 3,
    caption: str | None = None,
) -> Table:
    r"""Return the table of a paper: a column for each regression, coefficients with stars, errors in parentheses below.

    Parameters
    ----------
    results : Regression, or mapping of str to Regression
        Columns by their heads: of this package, of linearmodels or of statsmodels, side by side.
    parentheses : {"std_errors", "tstats", "pvalues"}, default "std_errors"
        Shown below each coefficient.
    stars : sequence of float, default (0.1, 0.05, 0.01)
        A star for each level that the p value is below; empty: none.
    labels : mapping of str to str, optional
        Regressors as a reader knows them; those named come first, in this order.
    decimals : int, default 3
        Of coefficients below 1000 in size; at least this many digits of small ones.
    caption : str, optional
        By default the title of the first regression.

    Returns
    -------
    Table
        ``.text()``, ``.to_latex(label="tab:peers")``, ``.to_markdown()``, ``.html()``, ``.to_frame()``.

    Examples
    --------
    >>> one = Regression(params=pd.Series({"size": -0.5}), std_errors=pd.Series({"size": 0.1}),
    ...                  pvalues=pd.Series({"size": 0.001}), nobs=120, rsquared=0.25)
    >>> print(regression_table({"(1)": one}, labels={"size": "Size"}, caption="").text())
                        (1)
    -----------------------
    Size          −0.500***
                    (0.100)
    Observations        120
    R²                0.250
    <BLANKLINE>
    Standard errors in parentheses. * p < 0.1, ** p < 0.05, *** p < 0.01.
    """
    if not isinstance(results, Mapping):
        results = {"(1)": results}
    columns = {head: as_regression(result) for head, result in results.items()}
    expect(bool(columns), "results", "a regression, or a mapping of heads to regressions", "an empty one")
    check_at_least(0, decimals=decimals)
    levels = sorted(stars, reverse=True)
    expect(all(0 < level < 1 for level in levels), "stars", "levels between 0 and 1", repr(stars))
    frames = [result.to_frame().rename(index=str) for result in columns.values()]
    # in the order in which they first appear
    known = dict.fromkeys(name for frame in frames for name in frame.index)
    labels = labels or {}
    rows: list[list[str]] = []
    for name in dict.fromkeys([*(name for name in labels if name in known), *known]):
        cells = [_pair(frame, name, parentheses, levels, decimals) for frame in frames]
        rows += [[head, *entries] for head, entries in zip((labels.get(name, name), ""), zip(*cells))]
    figures = [{"Observations": each.nobs, "R²": each.rsquared} | each._figures() for each in columns.values()]
    below = dict.fromkeys(key for each in figures for key in each)
    if all(np.isnan(result.rsquared) for result in columns.values()):
        del below["R²"]
    decimals_of = {"R²": 3}
    rows += [[name, *(_figure(each.get(name), decimals_of.get(name, 2)) for each in figures)] for name in below]
    notes = [f"{_SHOWN[parentheses]} in parentheses."]
    if levels:
        marks = ", ".join(f"{'*' * (k + 1)} p < {level:g}" for k, level in enumerate(levels))
        notes[0] += f" {marks}."
    notes += _of_columns({head: result._footnotes() for head, result in columns.items()})
    if caption is None:
        caption = next(iter(columns.values())).title
    return Table(caption, ("", *columns), rows, alignment="l" + "r" * len(columns), footnotes=notes)


def _of_columns(wording: Mapping[str, list[str]]) -> list[str]:
    """Return each note once, with the heads of its columns before it where it is not that of all.

    >>> _of_columns({"(1)": ["All.", "One."], "(2)": ["All."]})
    ['All.', '(1): One.']
    """
    # a note that all columns share is written once
    heads = {note: [head for head in wording if note in wording[head]] for notes in wording.values() for note in notes}
    return [note if len(at) == len(wording) else f"{', '.join(at)}: {note}" for note, at in heads.items()]


def _pair(frame: pd.DataFrame, name: str, accompanying: str, levels: list[float], decimals: int) -> tuple[str, str]:
    """Return a coefficient with its stars, and the entry below it; empty where the regressor is absent."""
    if name not in frame.index:
        return "", ""
    value, p, below = frame.loc[[name], ["params", "pvalues", accompanying]].to_numpy()[0]
    marks = "*" * sum(p < level for level in levels)
    places = {"tstats": 2, "pvalues": 3}.get(accompanying, decimals)
    entry = _fixed(value, decimals) + marks
    if np.isnan(below):
        return entry, ""
    return entry, f"({_fixed(below, places)})"


def _fixed(value: float, decimals: int) -> str:
    """Return a number with a real minus sign; a small one with as many digits as it takes to show some.

    >>> _fixed(-0.5, 3), _fixed(0.000123, 3), _fixed(12345.6, 3)
    ('−0.500', '0.000123', '12,346')
    """
    if not np.isfinite(value):
        return "n/a"
    spec = f".{decimals}f"
    if abs(value) >= 1000:
        spec = ",.0f"
    elif 0 < abs(value) < 10.0**-decimals:
        spec = f".{decimals}g"
    return with_minus(formatted(value, spec), value)


def _figure(value: object, decimals: int) -> str:
    if isinstance(value, float):
        return _fixed(value, decimals)
    if isinstance(value, int):
        return f"{value:,}"
    return str(value or "")
