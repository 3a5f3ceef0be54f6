"""From the options to a panel, models and a split."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from peerattn import datasets
from peerattn.cli.commands import Audit, Fit
from peerattn.cli.options import CompareOptions, Dataset, PanelOptions, given
from peerattn.cli.output import flat_frame
from peerattn.datasets.presets import PRESETS, read_preset
from peerattn.evaluation import NewFirms, WalkForward
from peerattn.exceptions import InputError, check_names, expect, naming
from peerattn.models.forecasters import make_model, model_names, model_title, needs_industry
from peerattn.models.reference import Reference
from peerattn.options import check_options
from peerattn.panel import Panel, find_period, read_panel, scan_panel
from peerattn.panel.columns import check_known
from peerattn.panel.files import KINDS
from peerattn.panel.time_order import timestamps
from peerattn.processes import joined, share

DEFAULT_MODELS = ("industry", "kernel", "cross_attention", "attention", "stack", "industry_median")
MOST_FITS = 3
_COLUMNS = ("firm", "period", "outcome", "industry", "characteristics", "codes", "known_at")


def take_panel(options: PanelOptions, training_rows: int | None = None) -> Panel:
    """Return the panel of a file or of an embedded dataset, and raise an error for options that name neither or both.

    ``training_rows``: whole periods of at most this number of rows, read from a file that may be larger than memory. Of several
    processes each has its share of the periods.
    """
    found = given(options)
    columns = {name: found[name] for name in _COLUMNS if name in found}
    path = options.panel
    dataset = options.dataset
    preset = options.preset
    which = f"a file or --dataset ({', '.join(get_args(Dataset))})"
    expect((path is None) != (dataset is None), "PANEL", which, "neither" if path is None else f"both {path} and {dataset}")
    if training_rows is not None and (path is None or preset):
        raise InputError("--training-rows: used with a file or folder, without --preset.")
    if path is None:
        _raise_first([*columns, *({"preset"} & found.keys())], f"--dataset {dataset}, whose columns are known")
        panel: Panel
        if dataset == "simulated":
            # characteristics less persistent than those of firms: 20 tested periods suffice for a test over time
            seed = options.seed or 0
            panel = datasets.simulate_panel(100, 60, 6, n_industries=10, persistence=0.5, random_state=seed)
        else:
            panel = getattr(datasets, f"load_{dataset}")()
    elif preset is not None:
        _raise_first([name for name in ("firm", "period", "known_at") if name in found], f"--preset {preset}, which knows them")
        panel = read_preset(path, preset, **columns)
    else:
        by_period = path.is_dir() or (joined() and path.suffix.lower() in KINDS)
        expect(not (by_period and "known_at" in columns), "--known-at", "one file", f"the folder {path}")
        if "outcome" not in columns:
            raise InputError(f"--outcome: name the column to predict; {path} has {', '.join(flat_frame(path).columns)}.")
        if by_period or training_rows is not None:
            stored = scan_panel(path, training_rows=training_rows, description=path.name, **columns)
            if training_rows is None and not joined():
                return stored.mapped()
            return stored.sample()
        panel = read_panel(path, description=path.name, **columns)
    if joined():
        return panel.take(panel.period.isin(panel.period.unique().sort_values()[share()]))
    return panel


def _raise_first(options: Sequence[str], where: str) -> None:
    named = ", ".join(f"--{name.replace('_', '-')}" for name in options)
    if options:
        raise InputError(f"{named}: not used with {where}; leave it out.")


def take_reference(options: CompareOptions, panel: Panel, task: str) -> Reference | None:
    """Return the firms that --reference names: the panel's columns, and its outcome in a nowcast."""
    if options.reference is None:
        return None
    labels = {options.firm or "firm": "firm", options.period or "period": "period"}
    frame = flat_frame(options.reference).rename(columns=labels)
    wanted = ["firm", *panel.columns]
    if task == "nowcast":
        wanted.append(panel.outcome)
    check_known("--reference", wanted, frame.columns)
    if "period" in frame and isinstance(panel.period, pd.DatetimeIndex):  # of a CSV file they are text
        frame["period"] = timestamps(pd.Index(frame["period"]))
    frame = frame.set_index([name for name in ("firm", "period") if name in frame])
    outcomes = frame[panel.outcome] if task == "nowcast" else None
    return Reference(frame[list(panel.columns)], outcomes)


def read_factors(path: Path | str | None) -> pd.DataFrame | None:
    """Return factor returns by period: a CSV or Parquet file whose first column is the period, the others in decimals.

    Raises
    ------
    InputError
        When the file cannot be read.
    """
    if path is None:
        return None
    with naming("--factors"):
        frame = flat_frame(path)
    table = frame.set_index(frame.columns[0])
    table.attrs["path"] = repr(str(path))
    return table


def limits_of(preset: str | None) -> tuple[str, ...]:
    """Return what a reader must know of a preset's source."""
    if preset is None:
        return ()
    return (f"Source: {PRESETS[preset].source}", *PRESETS[preset].limits)


def take_models(
    options: Audit | Fit | CompareOptions, wanted: list[str] | None, panel: Panel, reference: bool = False
) -> dict[str, Any]:
    """Return the requested models, by the name they are shown under, with their settings.

    ``wanted`` holds ready names, and names of the user's own for one of them, ``linear=attention``.
    """
    task = options.task or "forecast"
    settings = read_settings(options.settings)
    if wanted is None:
        has = panel.industry is not None
        fits = {"industry": has, "industry_median": has and task == "nowcast", "cross_attention": reference}
        wanted = [name for name in DEFAULT_MODELS if fits.get(name, True)]
    ready = {called(entry): entry.rpartition("=")[2].strip() for entry in wanted}
    expect(len(ready) == len(wanted), "--models", "each name once", ", ".join(wanted), "Name one yourself: linear=attention.")
    expect(bool(wanted), "--models", f"at least one of {', '.join(model_names())}", "none")
    check_names("--set", "model of this call", settings, ready)
    made = {}
    for own, name in ready.items():
        with naming("--models" if isinstance(options, CompareOptions) else "--model"):
            if needs_industry(name) and panel.industry is None:
                raise InputError(f"{name!r} needs --industry, the column with the industry's code.")
            model = make_model(name, task=task, industry=panel.industry, random_state=options.seed or 0)
        title = own
        if own == name:
            title = model_title(name, panel.industry)
        check_names("--set", f"option of {own}", settings.get(own, {}), model.get_params())
        made[title] = model.set_params(**settings.get(own, {}))
        with naming("--set"):
            check_options(model)
    return made


def take_model(options: Audit | Fit, panel: Panel) -> tuple[str, Any]:
    """Return the one model of ``fit`` and ``audit``, by the name it is shown under."""
    [found] = take_models(options, [options.model], panel).items()
    return found


def called(entry: str) -> str:
    """Return the name by which --set addresses an entry of --models.

    >>> called("attention"), called("linear=attention")
    ('attention', 'linear')
    """
    return entry.partition("=")[0].strip()


_PYTHON = {"None": None, "True": True, "False": False}


def read_settings(texts: list[str] | None) -> dict[str, dict[str, Any]]:
    """Return the options of models from MODEL.OPTION=VALUE.

    >>> read_settings(["attention.n_heads=4", "attention.kappa=None", "ridge.alpha=0.5"])
    {'attention': {'n_heads': 4, 'kappa': None}, 'ridge': {'alpha': 0.5}}
    """
    settings: dict[str, dict[str, Any]] = {}
    for text in texts or ():
        target, equals, value = map(str.strip, text.partition("="))
        name, _, option = map(str.strip, target.partition("."))
        whole = bool(equals and name and option)
        expect(whole, "--set", "MODEL.OPTION=VALUE, such as attention.n_heads=4", repr(text))
        try:
            read = json.loads(value)
        except json.JSONDecodeError:
            read = _PYTHON.get(value, value)  # or a word
        except RecursionError as error:
            raise InputError(f"--set: {name}.{option} is nested too deeply; pass a plain value.") from error
        settings.setdefault(name, {})[option] = read
    return settings


def take_split(panel: Panel, options: Audit | CompareOptions) -> WalkForward | NewFirms:
    """Return the split; by default a third of the periods is tested with at most three fits."""
    window = options.window or "expanding"
    if (window == "rolling") != (options.train_periods is not None):
        raise InputError("--window rolling and --train-periods go together: give both or neither.")
    tested = options.test_periods
    every = options.refit_every
    if every is None:
        # periods without a known outcome are neither tested nor learned from
        known = panel.y.dropna().index.get_level_values("period").nunique()
        spread_over = known // 3
        if tested is not None and tested < known:
            spread_over = tested
        every = max(1, -(-spread_over // MOST_FITS))
    # without --horizon outcomes are known once they are realised
    horizon = options.horizon or getattr(options, "outcome_horizon", None) or 1
    walk = WalkForward(tested, every, window=window, train_periods=options.train_periods, horizon=horizon)
    groups = getattr(options, "new_firms", None)
    if groups is None:
        return walk
    return NewFirms(walk, n_splits=groups, random_state=options.seed or 0)


def period_named(option: str, label: str, periods: pd.Index) -> Any:
    """Return the period that an option names."""
    with naming(option):
        return find_period(label, periods.unique().sort_values())
