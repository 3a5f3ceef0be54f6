"""The options that several commands take, each written once, and the groups in which commands take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class Dataset(StrEnum):
    """Panels that need no file."""

    grunfeld = "grunfeld"
    simulated = "simulated"


class PresetName(StrEnum):
    """Files whose columns are known."""

    crsp_compustat = "crsp_compustat"
    jensen_kelly_pedersen = "jensen_kelly_pedersen"
    open_source_asset_pricing = "open_source_asset_pricing"
    gu_kelly_xiu = "gu_kelly_xiu"


class Task(StrEnum):
    """Predict from characteristics, or explain beside the peers' outcomes."""

    forecast = "forecast"
    explain = "explain"


class Window(StrEnum):
    """Learn from all past periods, or from the last ones."""

    expanding = "expanding"
    rolling = "rolling"


_PANEL = "Parquet, CSV or Arrow file: one row per firm and period."
_CHARACTERISTICS = (
    "Columns to predict from. [default: all numeric columns except labels, codes and other outcomes]"
)
_MODELS = (
    "Of industry, industry_shrunk, kernel, cross_sectional_ridge, attention, stacked_attention; zero, mean, firm_mean, "
    "last_value, ols, ridge, elastic_net, fama_macbeth, boosting, neighbors, industry_characteristics"
)
_CONTROLS = (
    f"{_MODELS}. OLS, boosting and the mean always run. [default: industry (if given), kernel, attention]"
)
_SET = "An option of a model, such as attention.max_steps=300; may be repeated."
_TASK = (
    "forecast: no outcome of the period is used. explain: those of the peers are, never the firm's own. "
    "[default: forecast]"
)
_WINDOW = "Learn from all past periods, or from the last --train-periods. [default: expanding]"


def _option(help: str, *names: str, metavar: str | None = None, **more: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, **more)


Panel = Annotated[Path, typer.Argument(metavar="PANEL", help=_PANEL)]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="File written by peerattn fit. Open only files you trust.")
]
FromPreset = Annotated[
    PresetName | None, _option("The file is of a known source: its columns, timing and codes.", "--preset")
]
Firm = Annotated[str | None, _option("Names the firm. [default: firm]", metavar="COLUMN")]
Period = Annotated[str | None, _option("Names the period. [default: period]", metavar="COLUMN")]
Model = Annotated[str, _option(f"{_MODELS}.", metavar="NAME")]
Settings = Annotated[list[str] | None, _option(_SET, "--set", metavar="MODEL.OPTION=VALUE")]
AskedTask = Annotated[Task | None, _option(_TASK, "--task")]
Seed = Annotated[int | None, _option("Random state of everything random. [default: 0]", metavar="N", min=0)]
Quiet = Annotated[bool, _option("No progress and no column list: the result only.", "--quiet")]
AsJson = Annotated[bool, _option("Print the result as JSON, for other programs.", "--json")]


@dataclass(kw_only=True)
class PanelOptions:
    """Which panel, and which of its columns; a list may hold several names with commas."""

    panel: Annotated[Path | None, typer.Argument(metavar="PANEL", help=_PANEL)] = None
    dataset: Annotated[Dataset | None, _option("Use an embedded panel instead of a file.", "--dataset")] = (
        None
    )
    preset: FromPreset = None
    firm: Firm = None
    period: Period = None
    outcome: Annotated[str | None, _option("To predict; empty where unknown.", metavar="COLUMN")] = None
    characteristics: Annotated[list[str] | None, _option(_CHARACTERISTICS, metavar="A,B,...")] = None
    codes: Annotated[
        list[str] | None, _option("Columns that are codes (sector, country).", metavar="A,B,...")
    ] = None
    industry: Annotated[
        str | None, _option("Code of the industry (SIC) that peers share.", metavar="COLUMN")
    ] = None
    seed: Seed = None


@dataclass(kw_only=True)
class SplitOptions:
    """Which periods are tested, and which are learned from."""

    test_periods: Annotated[
        int | None, _option("Periods tested, the last ones. [default: the last third]", metavar="N", min=1)
    ] = None
    refit_every: Annotated[
        int | None, _option("Periods from fit to fit. [default: for 6 fits]", metavar="N", min=1)
    ] = None
    window: Annotated[Window | None, _option(_WINDOW, "--window")] = None
    train_periods: Annotated[
        int | None, _option("Length of the rolling window, in periods.", metavar="N", min=1)
    ] = None
    horizon: Annotated[
        int | None, _option("Periods until a row's outcome is known. [default: 1]", metavar="N", min=1)
    ] = None


@dataclass(kw_only=True)
class CompareOptions(SplitOptions, PanelOptions):
    """What makes a comparison: the keys of a configuration."""

    models: Annotated[list[str] | None, _option(_CONTROLS, metavar="A,B,...")] = None
    baseline: Annotated[
        str | None, _option("Tested against: a name in the table. [default: the first]", metavar="NAME")
    ] = None
    task: AskedTask = None
    group_by: Annotated[
        list[str] | None,
        _option("Columns to report by, besides year and industry; numbers in fifths.", metavar="A,B,..."),
    ] = None
    limit: Annotated[
        list[str] | None,
        _option("A known limit of the panel, for the report; may be repeated.", metavar="TEXT"),
    ] = None
    is_return: Annotated[
        bool | None,
        _option(
            "The outcome is a simple return in decimals: portfolios are formed. [default: inferred from its name]",
            "--is-return/--no-return",
        ),
    ] = None
    market_value: Annotated[
        str | None,
        _option("Column of market values: portfolios are shown weighted by it as well.", metavar="COLUMN"),
    ] = None
    audit: Annotated[
        bool | None, _option("Try to find a leak in each peer model: four more fits each.", "--audit")
    ] = None


COLUMNS = ("firm", "period", "outcome", "industry", "characteristics", "codes")


def given(options: Any) -> dict[str, Any]:
    """Return the options that were given, as a configuration holds them: lists of names taken apart at their commas."""
    found = {key: value for key, value in vars(options).items() if value is not None}
    apart = {k: names(v) for k, v in found.items() if isinstance(v, list) and k != "limit"}
    return {key: str(v) if isinstance(v, Path | StrEnum) else v for key, v in (found | apart).items()}


def names(values: Sequence[str] | None) -> list[str] | None:
    """Return the names of a repeatable option, each of which may hold several with commas.

    >>> names(["a, b", "c", ""]), names(None)
    (['a', 'b', 'c'], None)
    """
    if values is None:
        return None
    return [name.strip() for value in values for name in value.split(",") if name.strip()]
