"""The sample of a comparison: what the panel holds (Table 1), what was lost on the way to the scored rows, groups, and limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, check_names, expect, validate_arguments
from peerattn.network import PeerNetwork
from peerattn.panel import Panel, as_panel, sic_to_fama_french
from peerattn.panel.columns import ColumnChoice, named_like_return
from peerattn.render import File, Shown, Table, show_label
from peerattn.scaling import ROUNDING
from peerattn.types import ColumnLike, OutcomesLike, PanelLike

MOST_GROUPS = 30
SIZE_GROUPS = 5
MUCH_MISSING = 0.2
FAR_OUT = 0.5  # share of all squared deviation held by one row in a hundred
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
Labels = Mapping[str, str | tuple[str, str]]
_HEADS = {"mean": "Mean", "p50": "Median", "between": "Between firms", "missing": "Missing"}


@dataclass(frozen=True, eq=False, repr=False)
class PanelDescription(Shown):
    """Descriptive statistics of a panel's outcome and characteristics; made by :func:`describe_panel`.

    Attributes
    ----------
    frame : DataFrame
        One row a variable: N, mean, sd, quantiles, the share of the variance between firms (R² on firm means), and the share of
        rows where it is missing.
    names : dict of str to str
        Variables as a reader knows them.
    definitions : dict of str to str
        What they are, and in which unit.
    n_firms, n_periods : int
    """

    _displayed = "as_table"

    frame: pd.DataFrame
    names: dict[str, str]
    definitions: dict[str, str]
    n_firms: int
    n_periods: int

    def to_frame(self) -> pd.DataFrame:
        """Return ``frame``."""
        return self.frame.copy()

    def as_table(self, title: str = "Descriptive statistics") -> Table:
        """Return the description as a table that renders as text, HTML, LaTeX and Markdown."""
        heads = [_HEADS.get(column, column.upper()) for column in self.frame.columns]
        special = {"N": "", "Between firms": ".2f", "Missing": ".1%"}
        rows = [(self.names[str(name)], int(count), *rest) for name, count, *rest in self.frame.itertuples()]
        formats = [special.get(head, "#.3g") for head in heads]
        size = f"{self.n_firms:,} firms, {self.n_periods} period{'s' * (self.n_periods != 1)}"
        notes = [f"{size}. Between firms: share of the variance that firms' means explain."]
        notes += [f"{self.names[name]}: {wording.rstrip('.')}." for name, wording in self.definitions.items()]
        return Table(title, ("Variable", *heads), rows, "l" + "r" * len(heads), ("", *formats), notes)

    def to_latex(self, path: File | None = None, *, caption: str = "Descriptive statistics", label: str = "") -> str:
        """Return the table as LaTeX (booktabs), and write it where a path is given."""
        return self.as_table(caption).to_latex(path, label=label)

    def to_markdown(self, path: File | None = None, *, caption: str = "Descriptive statistics") -> str:
        """Return the table as Markdown, and write it where a path is given."""
        return self.as_table(caption).to_markdown(path)

    def __repr__(self) -> str:
        return f"PanelDescription({len(self.frame)} variables, {self.n_firms:,} firms, {self.n_periods} periods)"


@validate_arguments
def describe_panel(
    X: PanelLike,
    y: OutcomesLike = None,
    *,
    labels: Labels | None = None,
    quantiles: Sequence[float] = QUANTILES,
    firm: ColumnLike = "firm",
    period: ColumnLike = "period",
    codes: Sequence[str] = (),
) -> PanelDescription:
    """Return Table 1: N, mean, standard deviation and quantiles of the outcome and each characteristic.

    Parameters
    ----------
    X : Panel or DataFrame
        As for every estimator. Codes are not described.
    y : Series, optional
        The outcome, the first row of the table; a Panel holds its own.
    labels : mapping of str to str or (str, str), optional
        Variables as a reader knows them, or that and their definition with the unit:
        ``{"size": ("Size", "log of total assets, in million dollars")}``. Those named come first, in this order.
    quantiles : sequence of float, default (.05, .25, .5, .75, .95)
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.
    codes : sequence of str, default ()
        Columns that are codes.

    Returns
    -------
    PanelDescription
        Prints as a table; ``to_latex``, ``to_markdown``, ``to_frame``.

    Raises
    ------
    InputError
        For a label of what is not there, or a quantile outside 0 to 1.

    Examples
    --------
    >>> X = pd.DataFrame({"firm": list("AABB"), "period": [1, 2, 1, 2], "size": [1.0, 2.0, 5.0, None]})
    >>> found = describe_panel(X, [0.1, 0.2, 0.3, 0.4], labels={"size": ("Size", "log of assets, in million dollars")})
    >>> found.to_frame().loc["size", ["n", "mean", "p50", "missing"]].round(3).tolist()
    [3.0, 2.667, 2.0, 0.25]
    """
    expect(all(0 <= q <= 1 for q in quantiles), "quantiles", "numbers between 0 and 1", list(quantiles))
    panel = as_panel(X, y, firm=firm, period=period, codes=codes)
    outcome = {}
    if panel.outcomes is not None:
        name = str(panel.outcome)
        if panel.outcome in panel.characteristics:  # a row for each of the two
            name = f"{name} (outcome)"
        outcome[name] = panel.outcomes
    columns = outcome | {str(name): column.to_numpy() for name, column in panel.characteristics.items()}
    labels = labels or {}
    check_names("labels", "variable", labels, [*columns, *map(str, panel.codes.columns)])
    # the outcome first, then variables with a label in the user's order
    order = dict.fromkeys([*outcome, *(name for name in labels if name in columns), *columns])
    owners = np.arange(len(panel)) if panel.firm is None else pd.factorize(panel.firm)[0]
    table = pd.DataFrame({name: columns[name] for name in order}, pd.RangeIndex(len(panel)), dtype=float)
    # a label is a name, or a name and its definition
    plain = {name: (label, "") for name, label in labels.items() if isinstance(label, str)}
    pairs = {name: (name, "") for name in order} | dict(labels) | plain
    names = {name: pairs[name][0] for name in order}
    definitions = {name: pairs[name][1] for name in order if pairs[name][1]}
    frame = _statistics(table.where(np.isfinite(table)), owners, quantiles).rename_axis("variable")
    return PanelDescription(frame, names, definitions, len(np.unique(owners)), panel.period.nunique())


def _statistics(table: pd.DataFrame, firm: np.ndarray, quantiles: Sequence[float]) -> pd.DataFrame:
    frame = pd.DataFrame({"n": table.count().astype(float), "mean": table.mean(), "sd": table.std()})
    frame = frame.join(table.quantile(list(quantiles)).T.rename(columns=lambda q: f"p{100 * q:g}"))
    total = ((table - table.mean()) ** 2).sum()
    rest = ((table - table.groupby(firm).transform("mean")) ** 2).sum()
    return frame.assign(between=(1 - rest / total).where(total > 0), missing=table.isna().mean())


@dataclass(frozen=True)
class PanelFacts:
    """What a report states of the panel behind a comparison.

    Attributes
    ----------
    choice : ColumnChoice
        The columns taken as characteristics and codes, and those left out.
    sample_loss : DataFrame
        Rows, firms and periods left after each step from the panel to the scored sample.
    groups : dict of str to Series
        Groups of the tested rows, which the report scores separately.
    limits : tuple of str
        Known limits of the panel.
    is_return : bool
        Whether the outcome is a simple return in decimals, so that portfolios can be formed on predictions.
    market_value : Series or None
        Of the tested rows, indexed by (firm, period).
    caution : str
        A sentence shown beside the finding.
    truth : PeerNetwork or None
        The network that made the data in the last tested period, where the panel is simulated.
    factors : DataFrame or None
        Factor returns in decimals by period, for the alphas of portfolios.
    description : PanelDescription or None
    numbers : ndarray (n, p) or None
        Characteristics of the tested rows, standardised, for the power of the test.
    """

    choice: ColumnChoice = ColumnChoice((), ())
    sample_loss: pd.DataFrame = field(default_factory=pd.DataFrame)
    groups: dict[str, pd.Series] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    is_return: bool = False
    market_value: pd.Series | None = None
    caution: str = ""
    truth: PeerNetwork | None = None
    factors: pd.DataFrame | None = None
    description: PanelDescription | None = None
    numbers: np.ndarray | None = None

    @property
    def codes(self) -> dict[str, pd.Series]:
        """The groups that are codes, not fifths of a number."""
        return {name: group for name, group in self.groups.items() if not name.endswith(", fifths")}


def sample_loss(panel: Panel, tested: np.ndarray) -> pd.DataFrame:
    """Return how many rows, firms and periods are left after each step from the panel to the scored sample.

    Parameters
    ----------
    panel : Panel
    tested : ndarray
        Positions of the tested rows.

    Returns
    -------
    DataFrame
        One row a step, with the rows lost in it.
    """
    firm = panel.labels.get_level_values(0)
    period = panel.period
    # each step is a subset of the one before
    among = np.isin(np.arange(len(panel)), tested)
    steps = {
        "in the panel": among | True,
        "of tested periods": period.isin(period[among]),
        "tested by the split": among,
        "scored: outcome known": among & panel.y.notna().to_numpy(),
    }
    left = {step: (kept.sum(), firm[kept].nunique(), period[kept].nunique()) for step, kept in steps.items()}
    frame = pd.DataFrame.from_dict(left, orient="index", columns=["rows", "firms", "periods"])
    frame["rows lost"] = -frame["rows"].diff().fillna(0).astype(int)
    return frame.rename_axis("step").reset_index()


def groups_of(panel: Panel, tested: np.ndarray, names: Sequence[str]) -> dict[str, pd.Series]:
    """Return the group of each tested row, indexed by (firm, period), by the name of what groups it.

    Codes are always there where they have few enough levels, because firms of one code share its shocks; SIC codes are shown as
    Fama and French's 12 industries. Numbers are cut into fifths of each period, and so is how long each firm has been in the
    panel, where firms differ in it.
    """
    check_names("groups", "column", names, panel.columns)
    found = {}
    for name in pd.Index([*names, panel.industry, *panel.codes], dtype=object).dropna().unique():
        column = panel.X[name].iloc[tested]
        if name in panel.characteristics:
            found[f"{name}, fifths"] = _fifths(column)
        elif str(name).lower() in _SIC and column.nunique() > MOST_GROUPS:
            found[f"Fama–French 12 industry from {name}"] = sic_to_fama_french(column, 12).astype(object)
        elif column.nunique() <= MOST_GROUPS:
            found[name] = column.astype(object)
        elif name in names:
            raise InputError(f"groups: {name!r} has {column.nunique()} levels, more than {MOST_GROUPS}. Pass a broader code.")
    when = pd.Series(pd.factorize(panel.X.index.get_level_values(1), sort=True)[0], panel.X.index)
    # young firms may be predicted worse than old ones
    age = (when - when.groupby(level=0).transform("min")).iloc[tested]
    if age.groupby(level=1).nunique().median() >= SIZE_GROUPS:
        found["periods in the panel, fifths"] = _fifths(age)
    return {name: group.astype(object).where(group.notna(), "unknown") for name, group in found.items()}


def _fifths(values: pd.Series) -> pd.Series:
    """Return the fifth of its period that each value is in."""
    fifth = np.ceil(values.groupby(level=1).rank(pct=True) * SIZE_GROUPS).clip(1, SIZE_GROUPS)
    return fifth.map(lambda k: f"{k:.0f}" + _END.get(k, ""), na_action="ignore")


def market_values(panel: Panel, tested: np.ndarray, name: str) -> pd.Series:
    """Return the market value of each tested row, indexed by (firm, period); NaN where unknown."""
    check_names("market_value", "characteristic", [name], panel.characteristics)
    found = panel.X[name].iloc[tested].astype(float)
    if len(wrong := found[found <= 0]):
        came = f"{wrong.iloc[0]:g} for {show_label(wrong.index[0])}"
        raise InputError(f"market_value: {name!r} is {came}; pass the market value itself, no logarithm and no rank.")
    return found


_SIC = {"sic", "sic4", "siccd", "sich", "hsiccd"}
_STATIC = "Codes that never change within a firm, perhaps today's and not those of the time"
_END = {1: " (lowest)", SIZE_GROUPS: " (highest)"}


def found_limits(panel: Panel, tested: np.ndarray) -> list[str]:
    """Return what the panel itself shows of its limits: survivors, static codes, gaps, outliers among the tested rows.

    What cannot be seen in the numbers (revised data, a look-ahead in the source) has to be stated by their author.
    """
    limits = []
    firm = np.asarray(panel.firm)
    last = pd.Series(panel.period).groupby(firm).max()
    if panel.period.nunique() >= 3 and (last == panel.period.max()).all():
        limits.append("No firm leaves before the last period: these may be survivors, which flatters predictions and returns.")
    changes = {str(name): column.groupby(firm).nunique().max() for name, column in panel.codes.items()}
    static = [name for name, most in changes.items() if most <= 1]
    if static and len(set(firm)) < len(firm):
        limits.append(f"{_STATIC}: {', '.join(static)}.")
    missing = panel.characteristics.isna().mean()
    gaps = [f"{name} {share:.0%}" for name, share in missing[missing > MUCH_MISSING].items()]
    if gaps:
        limits.append(f"Often missing: {', '.join(gaps)} of all rows.")
    # whether a few outcomes decide R²
    y = panel.y.iloc[tested].dropna()
    deviation = np.sort((y.to_numpy() - y.mean()) ** 2)[::-1]
    share = deviation[: max(len(deviation) // 100, 1)].sum() / max(deviation.sum(), 1e-300)
    if len(deviation) >= 200 and share > FAR_OUT:
        limits.append(
            f"Outliers decide: one tested outcome in a hundred has {share:.0%} of the squared deviation. See the rank IC."
        )
    return limits


def as_return(outcome: str, y: np.ndarray, declared: bool | None) -> tuple[bool, list[str]]:
    """Return whether an outcome is a simple return in decimals, as was declared or as its name has it, and what to note.

    Raises
    ------
    InputError
        Where it is declared to be one and falls below −1: nobody loses more than everything, so these are per cent or logarithms.
    """
    found = declared or (declared is None and named_like_return(outcome))
    least = float(np.nanmin(y, initial=0.0))
    if not found or least >= -1:
        return found, []
    why = f"{outcome} falls to {least:.4g}, below -1, so it is no simple return in decimals; divide per cent by 100."
    if declared:
        raise InputError(f"is_return: {why}")
    return False, [f"Outcomes are not treated as returns: {why}"]


def panel_facts(
    panel: Panel, tested: np.ndarray, groups: Sequence[str], limits: Sequence[str], value: str | None, labels: Labels | None
) -> PanelFacts:
    """Return what the report states of the panel; ``value`` names market values."""
    numbers = panel.X[list(panel.choice.characteristics)].iloc[tested].astype(float)
    # a constant column has no scale
    constant = numbers.std() <= ROUNDING * numbers.mean().abs()
    standard = (numbers - numbers.mean()) / numbers.std().where(~constant, 1.0)
    market_value = None
    if value is not None:
        market_value = market_values(panel, tested, value)
        groups = [*groups, value]  # by fifths of them scores are shown, too
    return PanelFacts(
        choice=panel.choice,
        sample_loss=sample_loss(panel, tested),
        groups=groups_of(panel, tested, groups),
        limits=(*map(str, limits), *found_limits(panel, tested)),
        market_value=market_value,
        caution=panel.caution,
        description=describe_panel(panel, labels=labels),
        numbers=standard.fillna(0.0).to_numpy(),
    )
