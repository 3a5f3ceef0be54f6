"""The options that several commands take, each written once, and the groups in which commands take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

#: Panels that need no file.
Dataset = Literal["grunfeld", "multiples", "russell", "simulated"]
#: Files whose columns are known.
PresetName = Literal["crsp_compustat", "jensen_kelly_pedersen", "open_source_asset_pricing", "gu_kelly_xiu"]
Task = Literal["forecast", "explain"]
Window = Literal["expanding", "rolling"]

_RETURN = (
    "The outcome is a simple return in decimals: portfolios are formed. [default: inferred from its name]"
)
_PRESET = "Read a file of a known source: its column names, timing and codes are known."
_FIRM, _PERIOD = "Names the firm. [default: firm]", "Names the period. [default: period]"
_SEED = "Random state of everything random. [default: 0]"
_PANEL = "Parquet, CSV or Arrow file, or a folder of Parquet files partitioned by period: one row per firm and period."
_CHARACTERISTICS = (
    "Columns to predict from. [default: all numeric columns except labels, codes and other outcomes]"
)
_MODELS = (
    "Of industry, industry_shrunk, industry_median, kernel, cross_sectional_ridge, cross_attention, attention, "
    "stacked_attention; zero, mean, firm_mean, last_value, ols, ridge, elastic_net, fama_macbeth, boosting, neighbors, "
    "industry_characteristics"
)
_CONTROLS = (
    f"{_MODELS}. To run one twice, give the second a name of your own: linear=attention, with --set linear.similarity=linear. "
    "OLS, boosting and means always run. [default: industry (if given), kernel, cross_attention (with --reference), attention; "
    "to explain, industry_median, too]"
)
_SET = "An option of a model, such as attention.n_heads=4 or attention.kappa=None; may be repeated."
_TASK = "forecast: no outcome of the period is used. explain: those of the peers are, never the firm's own. [default: forecast]"
_WINDOW = "Learn from all past periods, or from the last --train-periods. [default: expanding]"


def given_as(help: str, *names: str, default: Any = None, **more: Any) -> Any:
    """Return an option of a group, by default not given."""
    return field(default=default, metadata={"typer": typer.Option(*names, help=help, **more)})


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


def names_as(help: str) -> Any:
    """Return an option of a group that holds names of columns or models."""
    return given_as(help, metavar="A,B,...", callback=names)


PanelFile = Annotated[Path, typer.Argument(metavar="PANEL", help=_PANEL)]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="File written by peerattn fit.")]
Firm = Annotated[str | None, typer.Option(metavar="COLUMN", help=_FIRM)]
Period = Annotated[str | None, typer.Option(metavar="COLUMN", help=_PERIOD)]
Model = Annotated[str, typer.Option(metavar="NAME", help=f"{_MODELS}.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="MODEL.OPTION=VALUE", help=_SET)]
TaskName = Annotated[Task | None, typer.Option("--task", help=_TASK)]
Seed = Annotated[int | None, typer.Option(metavar="N", min=0, help=_SEED)]


@dataclass(kw_only=True)
class PanelOptions:
    """Which panel, and which of its columns."""

    panel: Path | None = field(default=None, metadata={"typer": typer.Argument(metavar="PANEL", help=_PANEL)})
    dataset: Dataset | None = given_as("Use a panel of the package instead of a file.", "--dataset")
    preset: PresetName | None = given_as(_PRESET, "--preset")
    firm: str | None = given_as(_FIRM, metavar="COLUMN")
    period: str | None = given_as(_PERIOD, metavar="COLUMN")
    outcome: str | None = given_as("What is predicted; empty where unknown.", metavar="COLUMN")
    characteristics: list[str] | None = names_as(_CHARACTERISTICS)
    codes: list[str] | None = names_as("Columns that are codes (sector, country).")
    industry: str | None = given_as("Code of the industry (SIC) that peers share.", metavar="COLUMN")
    seed: int | None = given_as(_SEED, metavar="N", min=0)


@dataclass(kw_only=True)
class SplitOptions(PanelOptions):
    """Which periods of the panel are tested, and which are learned from."""

    test_periods: int | None = given_as(
        "Periods tested, the last ones. [default: the last third]", metavar="N", min=1
    )
    refit_every: int | None = given_as(
        "Periods between refits. [default: such that there are 6]", metavar="N", min=1
    )
    window: Window | None = given_as(_WINDOW, "--window")
    train_periods: int | None = given_as("Length of the rolling window, in periods.", metavar="N", min=1)
    horizon: int | None = given_as("Periods until a row's outcome is known. [default: 1]", metavar="N", min=1)
    known_at: str | None = given_as(
        "Says in which period a row's outcome is known; no fit learns from it before.", metavar="COLUMN"
    )


@dataclass(kw_only=True)
class CompareOptions(SplitOptions):
    """What makes a comparison: the keys of a configuration."""

    models: list[str] | None = names_as(_CONTROLS)
    baseline: str | None = given_as(
        "Tested against: a name in the table. [default: the first]", metavar="NAME"
    )
    task: Task | None = given_as(_TASK, "--task")
    reference: Path | None = given_as(
        "The firms that answer in cross-attention: columns as in PANEL, the outcome to explain.",
        "--reference",
        metavar="FILE",
    )
    new_firms: int | None = given_as(
        "Test on firms never learned from as well: firms are dealt into N groups, each predicted by models fitted on "
        "the others.",
        metavar="N",
        min=2,
    )
    group_by: list[str] | None = names_as("Columns to report by, besides year and codes: numbers, in fifths.")
    limit: list[str] | None = given_as(
        "A known limit of the panel, for the report; may be repeated.", metavar="TEXT"
    )
    is_return: bool | None = given_as(_RETURN, "--is-return/--no-return")
    market_value: str | None = given_as(
        "Column of market values: portfolios are shown weighted by it as well.", metavar="COLUMN"
    )
    factors: str | None = given_as(
        "CSV or Parquet of factor returns in decimals, first column the period (2012-07-31, 201207): alphas of portfolios.",
        metavar="FILE",
    )
    outcome_horizon: int | None = given_as(
        "Periods after its label over which an outcome is realised, for --factors; 0: in its own. [default: 1 for *_next]",
        metavar="N",
        min=0,
    )
    audit: bool | None = given_as("Test each peer model for leaks; four more fits each.", "--audit")


def given(options: PanelOptions) -> dict[str, Any]:
    """Return the options that were given, as a configuration holds them."""
    found = {key: value for key, value in vars(options).items() if value is not None}
    return {key: str(value) if isinstance(value, Path) else value for key, value in found.items()}
