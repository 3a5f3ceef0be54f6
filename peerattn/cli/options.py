"""The options of the commands: each is written once, as a field of a group that the commands inherit.

The docstring of a class describes its fields, and is what ``--help`` shows: after the colon comes the placeholder of the
value.
"""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

import typer

#: Panels that need no file.
Dataset = Literal["grunfeld", "multiples", "russell", "simulated"]
#: Files whose columns are known.
PresetName = Literal["crsp_compustat", "jensen_kelly_pedersen", "open_source_asset_pricing", "gu_kelly_xiu"]
Task = Literal["forecast", "nowcast"]
Window = Literal["expanding", "rolling"]
Truth = Literal["directed", "symmetric", "industry"]


def option(*names: str, default: Any = None, **more: Any) -> Any:
    """Return an option with what its type does not give: other names, bounds."""
    return field(default=default, metadata={"names": names, "more": more})


def argument(default: Any = MISSING) -> Any:
    """Return what is given without a name; required where it has no default."""
    return field(default=default, metadata={"kind": typer.Argument})


def names(values: Sequence[str] | None) -> list[str] | None:
    """Return the names of a repeatable option, each of which may hold several with commas.

    >>> names(["a, b", "c", ""]), names(None)
    (['a', 'b', 'c'], None)
    """
    if values is None:
        return None
    found = [name.strip() for value in values for name in value.split(",") if name.strip()]
    if values and not found:
        raise typer.BadParameter(f"expected at least one name, got {', '.join(map(repr, values))}.")
    return found


@dataclass(kw_only=True)
class Output:
    """How a command prints its result.

    Attributes
    ----------
    quiet
        Print the result only: no progress, no list of columns.
    as_json
        Print the result as JSON, for other programs.
    """

    example: ClassVar[str]
    quiet: bool = False
    as_json: bool = option("--json", default=False)


@dataclass(kw_only=True)
class PanelOptions:
    """Which panel, and which of its columns.

    Attributes
    ----------
    panel : PANEL
        Parquet, CSV or Arrow file, or a folder of Parquet files partitioned by period: one row per firm and period.
    dataset
        Use a panel of the package instead of a file.
    preset
        Read a file of a known source: its column names, timing and codes are known.
    firm : COLUMN
        Names the firm. [default: firm]
    period : COLUMN
        Names the period. [default: period]
    outcome : COLUMN
        What is predicted; empty where unknown.
    characteristics : A,B,...
        Columns to predict from. [default: all numeric columns except labels, codes and other outcomes]
    codes : A,B,...
        Columns that are codes (sector, country).
    industry : COLUMN
        Code of the industry (SIC) that peers share.
    seed : N
        Random state of everything random. [default: 0]
    """

    panel: Path | None = argument(None)
    dataset: Dataset | None = None
    preset: PresetName | None = None
    firm: str | None = None
    period: str | None = None
    outcome: str | None = None
    characteristics: list[str] | None = option(callback=names)
    codes: list[str] | None = option(callback=names)
    industry: str | None = None
    seed: int | None = option(min=0)


@dataclass(kw_only=True)
class HorizonOption:
    """When outcomes are known.

    Attributes
    ----------
    horizon : N
        Periods until a row's outcome is known. [default: 1]
    """

    horizon: int | None = option(min=1)


@dataclass(kw_only=True)
class SplitOptions:
    """Which periods of the panel are tested, and which are learned from.

    Attributes
    ----------
    test_periods : N
        Periods tested, the last ones. [default: the last third]
    refit_every : N
        Periods between refits. [default: such that there are at most 3]
    window
        Learn from all past periods, or from the last --train-periods. [default: expanding]
    train_periods : N
        Length of the rolling window, in periods.
    known_at : COLUMN
        Period in which a row's outcome is known; no fit learns from it before.
    """

    test_periods: int | None = option(min=1)
    refit_every: int | None = option(min=1)
    window: Window | None = None
    train_periods: int | None = option(min=1)
    known_at: str | None = None


@dataclass(kw_only=True)
class Settings:
    """What is set of models.

    Attributes
    ----------
    settings : MODEL.OPTION=VALUE
        An option of a model, such as attention.n_heads=4 or attention.kappa=None; may be repeated.
    """

    settings: list[str] | None = option("--set")


@dataclass(kw_only=True)
class CompareOptions(Settings, SplitOptions, HorizonOption, PanelOptions):
    """What makes a comparison: the keys of a configuration.

    Attributes
    ----------
    models : A,B,...
        Of industry, industry_shrunk, industry_median, kernel, cross_sectional_ridge, covariance, cross_attention, attention,
        two_layer_attention, transformer, stack; zero, mean, firm_mean, last_value, ols, ridge, elastic_net, fama_macbeth,
        boosting, neighbors, own_history, common_shocks, industry_characteristics. To run one twice, give the second a name of
        your own: symmetric=attention, with --set symmetric.similarity=symmetric. OLS, boosting, firm history and means always
        run. [default: industry (if given), kernel, cross_attention (with --reference), attention, stack; in a nowcast
        industry_median, too]
    baseline : NAME
        Tested against: a name of --models or in the table. [default: the first]
    task
        forecast: no outcome of the period is used. nowcast: those of the other firms are, never the own one. [default:
        forecast]
    reference : FILE
        The candidate peers of cross-attention: columns as in PANEL, with the outcome for a nowcast.
    new_firms : N
        Test on firms never learned from as well: firms are split into N groups, each predicted by models fitted on the
        others.
    group_by : A,B,...
        Columns to report by, besides year and codes: numbers, in fifths.
    limit : TEXT
        A known limit of the panel, for the report; may be repeated.
    is_return
        The outcome is a simple return in decimals: portfolios are formed. [default: inferred from its name]
    market_value : COLUMN
        Column of market values: portfolios are shown weighted by it as well.
    factors : FILE
        CSV or Parquet of factor returns in decimals, first column the period (2012-07-31, 201207). Forecasts: alphas of
        portfolios. Nowcasts: the outcome is net of them, with loadings of earlier periods.
    outcome_horizon : N
        Periods after its label over which an outcome is realised, for --factors; 0: in its own. [default: 1 for *_next; nowcasts
        otherwise 0] Also the default of --horizon.
    decomposition
        Decompose held-out R² by one stack, and answer whether peers help. [default: decomposition]
    placebo : N
        Refits of the stack on outcomes exchanged between firms: what its peers gain there. [default: 0]
    audit
        Test each peer model for leaks; five to ten more fits each.
    """

    models: list[str] | None = option(callback=names)
    baseline: str | None = None
    task: Task | None = None
    reference: Path | None = None
    new_firms: int | None = option(min=2)
    group_by: list[str] | None = option(callback=names)
    limit: list[str] | None = None
    is_return: bool | None = option("--is-return/--no-return")
    market_value: str | None = None
    factors: Path | None = None
    outcome_horizon: int | None = option(min=0)
    decomposition: bool | None = option("--decomposition/--no-decomposition")
    placebo: int | None = option(min=0)
    audit: bool | None = None


@dataclass(kw_only=True)
class ModelOptions(Settings):
    """One model, and what it is for.

    Attributes
    ----------
    model : NAME
        Of industry, industry_shrunk, industry_median, kernel, cross_sectional_ridge, covariance, attention,
        two_layer_attention, transformer, stack; zero, mean, firm_mean, last_value, ols, ridge, elastic_net, fama_macbeth,
        boosting, neighbors, own_history, common_shocks, industry_characteristics.
    task
        forecast: no outcome of the period is used. nowcast: those of the other firms are, never the own one. [default:
        forecast]
    """

    model: str = "attention"
    task: Task | None = None


@dataclass(kw_only=True)
class SavedModelOptions:
    """A saved model, and the panel that it reads.

    Attributes
    ----------
    model : MODEL
        File written by peerattn fit.
    panel : PANEL
        Parquet, CSV or Arrow file, or a folder of Parquet files partitioned by period: one row per firm and period.
    """

    model: Path = argument()
    panel: Path = argument()


def given(options: PanelOptions) -> dict[str, Any]:
    """Return the options of a comparison that were given."""
    found = {one.name: getattr(options, one.name, None) for one in fields(CompareOptions)}
    return {name: value for name, value in found.items() if value is not None}
