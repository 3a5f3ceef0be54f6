"""The options that several commands take, each said once."""

from __future__ import annotations

from collections.abc import Sequence
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
_CHARACTERISTICS = "Columns to predict from. [default: every number that is no label, code or other outcome]"
_MODELS = (
    "Of industry, industry_shrunk, kernel, cross_sectional_ridge, attention, stacked_attention; zero, mean, firm_mean, "
    "last_value, ols, ridge, elastic_net, fama_macbeth, boosting, neighbors, industry_characteristics"
)
_SET = "An option of a model, such as attention.max_steps=300; as often as needed."

OptionalPanel = Annotated[Path | None, typer.Argument(metavar="PANEL", help=_PANEL)]
Panel = Annotated[Path, typer.Argument(metavar="PANEL", help=_PANEL)]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="What peerattn fit wrote. Open only files you trust.")
]
FromDataset = Annotated[
    Dataset | None, typer.Option("--dataset", help="Use an embedded panel instead of a file.")
]
FromPreset = Annotated[
    PresetName | None,
    typer.Option("--preset", help="The file is of a known source: its columns, timing and codes."),
]
Firm = Annotated[str | None, typer.Option(metavar="COLUMN", help="Names the firm. [default: firm]")]
Period = Annotated[str | None, typer.Option(metavar="COLUMN", help="Names the period. [default: period]")]
Outcome = Annotated[str | None, typer.Option(metavar="COLUMN", help="To predict; empty where unknown.")]
Characteristics = Annotated[list[str] | None, typer.Option(metavar="A,B,...", help=_CHARACTERISTICS)]
Codes = Annotated[
    list[str] | None, typer.Option(metavar="A,B,...", help="Columns that are codes (sector, country).")
]
Industry = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Code of the industry (SIC) that peers share.")
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B,...",
        help=f"{_MODELS}. OLS and the prevailing mean always run. [default: industry (where given), kernel, attention]",
    ),
]
Model = Annotated[str, typer.Option(metavar="NAME", help=f"{_MODELS}.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="MODEL.OPTION=VALUE", help=_SET)]
AskedTask = Annotated[
    Task | None,
    typer.Option(
        "--task",
        help="forecast: no outcome of the period is used. explain: the peers' outcomes are, never one's own. "
        "[default: forecast]",
    ),
]
TestPeriods = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Periods tested, the last ones. [default: the last third]"),
]
RefitEvery = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Periods from fit to fit. [default: for 6 fits]")
]
AskedWindow = Annotated[
    Window | None,
    typer.Option(
        "--window", help="Learn from all past periods, or from the last --train-periods. [default: expanding]"
    ),
]
TrainPeriods = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Length of the rolling window, in periods.")
]
Horizon = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Periods until a row's outcome is known. [default: 1]"),
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Random state of everything that draws. [default: 0]")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no column list: the result only.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for other programs.")]


def columns(
    firm: str | None,
    period: str | None,
    outcome: str | None,
    industry: str | None,
    characteristics: list[str] | None,
    codes: list[str] | None,
) -> dict[str, Any]:
    """Return the options that name a panel's columns, lists taken apart at their commas."""
    named = {"firm": firm, "period": period, "outcome": outcome, "industry": industry}
    return named | {"characteristics": names(characteristics), "codes": names(codes)}


def names(values: Sequence[str] | None) -> list[str] | None:
    """Return the names of a repeatable option, each of which may hold several with commas.

    >>> names(["a, b", "c", ""]), names(None)
    (['a', 'b', 'c'], None)
    """
    if values is None:
        return None
    return [name.strip() for value in values for name in value.split(",") if name.strip()]
