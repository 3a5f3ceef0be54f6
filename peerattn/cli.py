"""The command line: ``peerattn compare``. Exit code 0 = done, 2 = bad input, 1 = a bug."""

from __future__ import annotations

import contextlib
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peerattn.exceptions import InputError, PeerAttnWarning, did_you_mean

if TYPE_CHECKING:
    from peerattn.datasets import SimulatedPanel
    from peerattn.evaluation import Comparison, WalkForward
    from peerattn.network import PeerNetwork
    from peerattn.panel import PanelFrame

_UsageError: Any = typer.BadParameter.__base__  # click's, wherever this typer keeps it
DEFAULT_MODELS = ("industry", "kernel", "attention")
MOST_FITS = 6
STOPPED = 130

_CHARACTERISTICS_HELP = (
    "Columns to predict from. [default: every number that is no label, code or other outcome]"
)
_MODELS_HELP = (
    "Of industry, industry_shrunk, kernel, cross_sectional_ridge, attention; zero, mean, firm_mean, last_value, ols, ridge, "
    "elastic_net, fama_macbeth, boosting, neighbors, industry_characteristics. OLS and the prevailing mean always run. "
    "[default: industry (where given), kernel, attention]"
)
_TASK_HELP = "forecast: no outcome of the period is used. explain: the peers' outcomes are, never one's own."

app = typer.Typer(
    name="peerattn",
    help="Cross-sectional attention for panels of firms: whom each firm looks to, and whether it helps to predict.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class Dataset(StrEnum):
    """Panels that need no file."""

    grunfeld = "grunfeld"
    simulated = "simulated"


class Task(StrEnum):
    """Predict from characteristics, or explain beside the peers' outcomes."""

    forecast = "forecast"
    explain = "explain"


class Window(StrEnum):
    """Learn from all past periods, or from the last ones."""

    expanding = "expanding"
    rolling = "rolling"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and leave with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the command; return 0 when done, 2 for bad input (one line on stderr), 1 for a bug (with its traceback)."""
    try:
        with _plain_warnings():
            code = app(args=list(arguments) or ["--help"], prog_name="peerattn", standalone_mode=False)
            sys.stdout.flush()
        if code == STOPPED:  # typer turns Ctrl-C into this code
            raise KeyboardInterrupt
        return int(code or 0)
    except (_UsageError, InputError) as error:
        message = error.format_message() if isinstance(error, _UsageError) else str(error)
        print(f"peerattn: {' '.join(message.split())}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        print("peerattn: stopped.", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:  # the reader of our output has left; nothing is lost that anybody reads
        sys.stderr.close()
        return 0
    except Exception:
        traceback.print_exc()
        print("peerattn: this is a bug in peerattn; please report it with the lines above.", file=sys.stderr)
        return 1


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


def _show_version(asked: bool) -> None:
    if asked:
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


@app.command(
    epilog="Example:  peerattn compare panel.parquet --firm permno --period date --outcome ret_next --industry sic "
    "--test-periods 24 --refit-every 12 --out report"
)
def compare(
    panel: Annotated[
        Path | None,
        typer.Argument(metavar="PANEL", help="Parquet, CSV or Arrow file: one row per firm and period."),
    ] = None,
    dataset: Annotated[Dataset | None, typer.Option(help="Use an embedded panel instead of a file.")] = None,
    firm: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Names the firm. [default: firm]")
    ] = None,
    period: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Names the period. [default: period]")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="To predict; empty where unknown.")
    ] = None,
    characteristics: Annotated[
        list[str] | None, typer.Option(metavar="A,B,...", help=_CHARACTERISTICS_HELP)
    ] = None,
    codes: Annotated[
        list[str] | None, typer.Option(metavar="A,B,...", help="Columns that are codes (sector, country).")
    ] = None,
    industry: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Code of the industry (SIC) that peers share.")
    ] = None,
    models: Annotated[list[str] | None, typer.Option(metavar="A,B,...", help=_MODELS_HELP)] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Tested against: a name in the table. [default: the first]"),
    ] = None,
    task: Annotated[Task, typer.Option(help=_TASK_HELP)] = Task.forecast,
    test_periods: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Periods tested, the last ones. [default: the last third]"),
    ] = None,
    refit_every: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help=f"Periods from fit to fit. [default: for {MOST_FITS} fits]"),
    ] = None,
    window: Annotated[
        Window, typer.Option(help="Learn from all past periods, or from the last --train-periods.")
    ] = Window.expanding,
    train_periods: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Length of the rolling window, in periods.")
    ] = None,
    horizon: Annotated[
        int, typer.Option(metavar="N", min=1, help="Periods until a row's outcome is known.")
    ] = 1,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Random state of everything that draws.")] = 0,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for report.html, table.txt, predictions.parquet.")
    ] = Path("report"),
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No progress and no column list: the table and the path only.")
    ] = False,
) -> None:
    """Compare models out of sample on a panel and write the report."""
    from peerattn.render import check_writable

    columns = {"firm": firm, "period": period, "outcome": outcome, "industry": industry}
    lists = {"characteristics": _names(characteristics), "codes": _names(codes)}
    taken = _take_panel(panel, dataset, {**columns, **lists}, seed)
    chosen = _models(_names(models), taken, task.value, seed)
    cv = _walk_forward(taken, test_periods, refit_every, window.value, train_periods, horizon)
    folder = check_writable(out, argument="--out")  # found out before the work, not after it
    if not quiet:
        print(f"{taken}\nmodels: {', '.join(chosen)}, and the controls\n{_in_words(cv)}\n", flush=True)
    result = _compare(chosen, taken, cv, baseline, task.value, verbose=not quiet)
    _write(result, folder)
    if dataset is Dataset.simulated:
        print(_against_truth(result, _simulated(seed).network), end="\n\n")
    print(f"{result}\n\nreport: {(folder / 'report.html').resolve()}")


def _names(values: Sequence[str] | None) -> list[str] | None:
    """Return the names of a repeatable option, each of which may hold several with commas."""
    if values is None:
        return None
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def _take_panel(path: Path | None, dataset: Dataset | None, columns: dict[str, Any], seed: int) -> PanelFrame:
    """Return the panel of a file or of an embedded dataset, and refuse what says neither or both."""
    given = {name: value for name, value in columns.items() if value is not None}
    if (path is None) == (dataset is None):
        came = "neither came" if path is None else f"both {path} and --dataset {dataset} came"
        raise InputError(f"PANEL: a file or --dataset ({', '.join(Dataset)}) is needed, {came}.")
    if path is not None:
        return _read(path, given)
    if given:
        named = ", ".join(f"--{name}" for name in given)
        raise InputError(
            f"{named}: of no use with --dataset {dataset}, whose columns are known; leave it out."
        )
    from peerattn.datasets import load_grunfeld

    if dataset is Dataset.grunfeld:
        return load_grunfeld()
    return _simulated(seed).frame


def _simulated(seed: int) -> SimulatedPanel:
    from peerattn.datasets import simulate_panel

    return simulate_panel(100, 60, 6, n_industries=10, random_state=seed)


def _read(path: Path, given: dict[str, Any]) -> PanelFrame:
    from peerattn.panel.frames import read_frame
    from peerattn.panel.reading import read_panel

    frame = read_frame(path)
    if "outcome" not in given:
        raise InputError(
            f"--outcome: name the column to predict; {path} has {', '.join(map(str, frame.columns))}."
        )
    return read_panel(frame, description=path.name, **given)


def _models(names: list[str] | None, panel: PanelFrame, task: str, seed: int) -> dict[str, Any]:
    """Return the models asked for, by the name they are shown under."""
    from peerattn.models.forecasters import make_models, model_names, needs_industry

    if names is None:
        names = [name for name in DEFAULT_MODELS if name != "industry" or panel.industry]
    for name in names:
        if name not in model_names():
            known = ", ".join(model_names())
            raise InputError(
                f"--models: there is no model {name!r}.{did_you_mean(name, model_names())} Known: {known}."
            )
        if needs_industry(name) and panel.industry is None:
            raise InputError(f"--models: {name!r} needs --industry, the column with the industry's code.")
    if not names:
        raise InputError(f"--models: name at least one of {', '.join(model_names())}.")
    return make_models(names, task=task, industry=panel.industry, random_state=seed)


def _walk_forward(
    panel: PanelFrame,
    test_periods: int | None,
    refit_every: int | None,
    window: str,
    train_periods: int | None,
    horizon: int,
) -> WalkForward:
    from peerattn.evaluation import WalkForward

    if (window == "rolling") != (train_periods is not None):
        raise InputError("--window rolling and --train-periods go together: give both or neither.")
    if refit_every is None:
        known = panel.y.dropna().index.get_level_values("period").nunique()
        tested = known // 3 if test_periods is None or test_periods >= known else test_periods
        refit_every = max(1, -(-tested // MOST_FITS))
    return WalkForward(
        test_periods,
        refit_every,
        window=window,  # type: ignore[arg-type]
        train_periods=train_periods,
        horizon=horizon,
    )


def _in_words(cv: WalkForward) -> str:
    tested = (
        "the last third of the periods" if cv.test_periods is None else f"the last {cv.test_periods} periods"
    )
    learned = "all before" if cv.train_periods is None else f"the {cv.train_periods} periods before"
    every = "each period" if cv.refit_every == 1 else f"every {cv.refit_every} periods"
    return f"tested: {tested}; fitted on {learned}, refitted {every}"


def _compare(
    models: dict[str, Any],
    panel: PanelFrame,
    cv: WalkForward,
    baseline: str | None,
    task: str,
    *,
    verbose: bool,
) -> Comparison:
    from peerattn.evaluation import compare as compare_models

    return compare_models(models, panel, cv=cv, baseline=baseline, task=task, verbose=verbose)


def _against_truth(result: Comparison, truth: PeerNetwork) -> str:
    """Say how far each model's network agrees with the true one, over all pairs of the last tested period."""
    import numpy as np

    found = []
    for name, network in result.networks.items():
        period = network.periods[-1]
        true = truth.matrix(period)
        learned = network.matrix(period).reindex(index=true.index, columns=true.columns, fill_value=0.0)
        pairs = ~np.eye(len(true), dtype=bool)
        weights = learned.to_numpy()[pairs]
        agreement = np.corrcoef(weights, true.to_numpy()[pairs])[0, 1] if np.ptp(weights) > 0 else 0.0
        found.append(f"{name} {agreement:.2f}")
    return f"correlation with the true weights: {', '.join(found)}"


def _write(result: Comparison, folder: Path) -> None:
    from peerattn.render import write_atomic

    try:
        result.to_html(folder / "report.html")
        result.to_parquet(folder / "predictions.parquet")
        write_atomic(folder / "table.txt", f"{result}\n")
    except OSError as error:
        raise InputError(f"--out: cannot write in {str(folder)!r}: {error.strerror or error}.") from error
