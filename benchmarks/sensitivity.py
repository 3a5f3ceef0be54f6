"""Do constants matter, and is each rule of attention heads worth having? Constants halved and doubled, rules left out.

Run: ``python benchmarks/sensitivity.py [--stage constants|heads|full ...]``. Every fit is stored at once in
``benchmarks/results/sensitivity/``; a run that was stopped goes on where it stopped. Constants are tried on panels that were not
used to choose them.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from heads_in_full import CELLS
from linearmodels.datasets import wage_panel
from sklearn.base import clone

from peerattn.datasets import simulate_panel
from peerattn.exceptions import PeerAttnWarning
from peerattn.models import PeerAttentionRegressor, StackedPeerRegressor
from peerattn.models.learners import linear, nonlinear, past_outcomes
from peerattn.models.learners import training as problems
from peerattn.models.learners.covariance import fit as covariance
from peerattn.models.learners.heads import learner, peer_module, selection, training
from peerattn.models.stacking import evidence, origins, weights
from report import RESULTS, SHARED, options, publish, stored

STORE = RESULTS / "sensitivity"
FIRMS = 150  # of the real panels
Data = tuple[pd.DataFrame, pd.Series, np.ndarray]


@dataclass(frozen=True)
class Change:
    """An attribute of a module or class with another value, and options of the estimator."""

    rule: str
    value: str = ""
    owner: Any = None
    name: str = ""
    new: Any = None
    options: dict[str, Any] = field(default_factory=dict)


def with_option(rule: str, value: str = "", **changed: Any) -> Change:
    """Return heads trained with these fields of :class:`TrainingOptions`."""
    return Change(rule, value, learner, "DEFAULT", replace(training.DEFAULT, **changed))


def one_draw(rule: str, value: str = "", **changed: Any) -> Change:
    """Return heads of one draw of seeds trained with these fields: further draws would make up for a part of what is changed."""
    return with_option(rule, value, **{"max_draws": 1} | changed)


def with_values(name: str, *values: Any) -> list[Change]:
    """Return heads trained with other values of a field of :class:`TrainingOptions`."""
    return [one_draw(name, str(value), **{name: value}) for value in values]


def constant(owner: Any, name: str, *values: Any) -> list[Change]:
    """Return a constant at other values."""
    return [Change(name, str(value), owner, name, value) for value in values]


def cycle_with_decay(seeds: Any, sample: Any, objective: Any, how: training.TrainingOptions, generator: Any) -> None:
    """Train as the package does, without the last cycle, which has no weight decay."""
    if how.weight_decays != (0.0,):
        CYCLE(seeds, sample, objective, how, generator)


def the_best_alone(*given: Any) -> tuple[int, ...]:
    """Return the fit of least held-out loss, without those within one standard error of it."""
    return AS_GOOD(*given)[:1]


AS_GOOD = selection._as_good_as_the_best
CYCLE = training._cycle
#: Of the stack; where half or double has no meaning, the nearest that has.
CONSTANTS: list[Change] = [
    *(Change("kappa", str(value), options={"kappa": value}) for value in (0.5, 2.0)),
    *constant(origins, "SHARES", (1 / 2, 3 / 4), (3 / 4, 7 / 8)),
    *constant(problems, "FEW_ROWS", 25, 100),
    *constant(weights, "FEW_PERIODS", 2, 6),
    *constant(evidence, "POWER", 0.1, 0.4),
    *constant(nonlinear, "KNOTS", 3, 10),
    *constant(nonlinear, "TREES", 75, 300),
    *constant(nonlinear, "FOREST", 50, 200),
    *constant(nonlinear, "ROWS_OF_TREE", 2000, 8000),
    *constant(nonlinear, "LEAF", (3, 10), (10, 40)),
    *constant(linear, "CLIP", 2.0, 8.0),
    *constant(past_outcomes, "WINDOW", 4, 192),
    *constant(covariance, "RANK", 3, 12),
    *constant(covariance, "POWER", 0.25, 1.0),
    *constant(covariance, "MOST_STEPS", 30, 120),
    *constant(covariance, "LEARNING_RATE", 0.03, 0.12),
]
#: Of heads at their defaults.
HEADS: list[Change] = [
    Change("no second cycle, of heads combined across seeds", owner=training, name="FEW", new=0.0),
    one_draw("the best seed alone", window=1.0),
    one_draw("all seeds averaged", window=-np.inf),
    Change("no last steps without weight decay", owner=training, name="_cycle", new=cycle_with_decay),
    Change("no period effects in the objective", owner=training, name="common_variance", new=lambda sections: 0.0),
    *with_values("n_seeds", 6, 24),
    *with_values("max_steps", 150, 600),
    *with_values("learning_rate", 0.02, 0.08),
    *with_values("weight_decays", (0.15,), (0.6,)),
    *constant(peer_module, "SHARP", 1.0, 4.0),
    one_draw("up to five draws of seeds", max_draws=5),
]
#: Of heads in full, which no test keeps out.
FULL: list[Change] = [
    with_option("one weight decay, none chosen", weight_decays=(0.3,)),
    with_option("the larger weight decay, none chosen", weight_decays=(1.5,)),
    Change("the best weight decay alone", owner=selection, name="_as_good_as_the_best", new=the_best_alone),
    Change("no equal weights on firms of one code", owner=learner.HeadsLearner, name="_fallbacks", new=lambda self, sections: []),
    Change("no second factor, of the period's mean", owner=selection, name="factor_of_means", new=lambda *given: 1.0),
    with_option("one draw of seeds", max_draws=1),
]


def simulated(n_firms: int, n_periods: int, share: float, n_networks: int = 1, n_test: int = 6) -> Data:
    """Return directed networks; the last periods are held out."""
    panel = simulate_panel(n_firms, n_periods, 4, signal_share=share, d_head=3, n_networks=n_networks, random_state=9001)
    period = panel.X.index.get_level_values("period")
    return panel.X, panel.y, np.asarray(period < panel.network.periods[-n_test])


def with_common_shocks() -> Data:
    """Return one directed network, and a shock of each period to all firms, as large as what else the outcome has."""
    X, y, train = SHORT.load()
    period = y.index.get_level_values("period")
    shocks = pd.Series(np.random.default_rng(0).normal(size=period.nunique()), period.unique().sort_values())
    return X, y + y.std() * shocks.loc[period].to_numpy(), train


def wages() -> Data:
    """Return next year's log wage of young men (Vella and Verbeek 1998)."""
    frame = wage_panel.load().rename(columns={"nr": "firm", "year": "period"}).set_index(["firm", "period"])
    frame = frame[frame.index.get_level_values("firm").isin(frame.index.levels[0][:FIRMS])]
    y = frame.groupby(level="firm")["lwage"].shift(-1)
    X = frame[["lwage", "exper", "hours", "married", "union", "educ"]].astype(float)
    return X, y, np.asarray(X.index.get_level_values("period") < 1985)


def spillovers() -> Data:
    """Return log Tobin's q of the same year (Bloom, Schankerman and Van Reenen 2013)."""
    frame = pd.read_parquet(SHARED / "firm" / "bsv_spillovers.parquet").rename(columns={"year": "period"})
    columns = ["ln_rd_stock_lag", "ln_capital_lag", "ln_employment_lag", "rd_stock_to_capital_lag"]
    frame = frame.drop_duplicates(["firm", "period"]).dropna(subset=["ln_q", *columns])
    frame = frame.set_index(["firm", "period"]).sort_index()
    frame = frame[frame.index.get_level_values("firm").isin(frame.index.levels[0][:FIRMS])]
    X = frame[columns].astype(float).assign(ff49=frame["ff49"].astype(str))
    return X, frame["ln_q"], np.asarray(X.index.get_level_values("period") < 1997)


@dataclass(frozen=True)
class Panel:
    """Data and the task on them."""

    load: Callable[[], Data]
    task: str
    within: bool = False  # errors are deviations from their period's mean


SHORT = Panel(partial(simulated, 40, 30, 0.5), "forecast")
WAGES = Panel(wages, "forecast")
LOG_Q = Panel(spillovers, "nowcast")
OF_STACK = {"simulated": SHORT, "wages": WAGES, "log q": LOG_Q}
OF_HEADS = {
    "share .5, 40 × 24": SHORT,
    "share .3, 120 × 54": Panel(partial(simulated, 120, 60, 0.3), "forecast"),
    "common shocks, share .5, 40 × 24": Panel(with_common_shocks, "forecast", within=True),
    "two networks, share .5, 150 × 54": Panel(partial(simulated, 150, 60, 0.5, 2), "forecast"),
    "log q": LOG_Q,
}
IN_FULL = {
    "wages": WAGES,
    "log q": LOG_Q,
    "investment rate": Panel(CELLS["US investment rate"].load, "nowcast"),
    "price to book": Panel(CELLS["S&P price to book"].load, "nowcast"),
    "EBIT over assets": Panel(CELLS["Russell 3000, EBIT over assets"].load, "forecast"),
}


@contextmanager
def changed(change: Change | None) -> Iterator[None]:
    """Give an attribute another value, wherever in the package it was imported."""
    if change is None or change.owner is None:
        yield
        return
    default = getattr(change.owner, change.name)
    modules = [module for key, module in sys.modules.items() if key.startswith("peerattn.models")]
    homes = [each for each in [change.owner, *modules] if getattr(each, change.name, None) is default]
    try:
        for home in homes:
            setattr(home, change.name, change.new)
        yield
    finally:
        for home in homes:
            setattr(home, change.name, default)


def measured(model: Any, panel: Panel, change: Change | None) -> dict[str, float]:
    """Return the mean squared error of the held-out periods, and the CPU seconds of the fit."""
    X, y, train = panel.load()
    if change is not None:
        model = clone(model).set_params(**change.options)
    with changed(change):
        start = time.process_time()
        model.fit(X[train], y[train])
        seconds = time.process_time() - start
    given = {"outcomes": y[~train]} if panel.task == "nowcast" else {}
    errors = y[~train] - np.asarray(model.predict(X[~train], **given))
    if panel.within:
        errors -= errors.groupby(level="period").transform("mean")
    return {"error": float((errors**2).mean()), "seconds": seconds}


def table(
    name: str, model: Callable[..., Any], panels: dict[str, Panel], changes: list[Change], base: Change | None = None
) -> list[dict[str, Any]]:
    """Return for each change and panel the error, and the mean time of a fit, over those without the change.

    A ``base`` is changed in all fits.
    """
    rows: list[dict[str, Any]] = []
    for change in changes:
        row: dict[str, Any] = {"model": name, "rule or constant": change.rule, "value": change.value}
        seconds = []
        for panel_name, panel in panels.items():
            key = f"{name} {panel_name}".replace("/", " of ")
            made = model(task=panel.task, random_state=0)
            usual = stored(STORE / f"{key}.json", partial(measured, made, panel, base))
            path = STORE / f"{key} {change.rule} {change.value}.json".replace("&", "and")
            with changed(base):
                found = stored(path, partial(measured, made, panel, change))
            row[panel_name] = found["error"] / usual["error"]
            seconds.append(found["seconds"] / usual["seconds"])
        row["time"] = float(np.mean(seconds))
        rows.append(row)
    return rows


def main() -> None:
    """Fit all and publish the tables."""
    stage = options(__doc__, stage={"constants": 0, "heads": 0, "full": 0}).stage
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", PeerAttnWarning)
    ratio = "Mean squared error of held-out periods over that of the default, and time of a fit over that of the default."
    simulations = (
        "Simulated: directed networks, share of the variance due to peers, firms × training periods; forecasts. Errors beside "
        "common shocks are deviations from their period's mean."
    )
    real = (
        "wages: next year's log wage of 150 men, forecast. log q: Tobin's q of 150 firms of Bloom, Schankerman and Van Reenen "
        "(2013), nowcast."
    )
    if "constants" in stage:
        rows = table("stack", StackedPeerRegressor, OF_STACK, CONSTANTS)
        publish("sensitivity", "Each constant of the stack halved and doubled", rows, [ratio, simulations, real])
    if "heads" in stage:
        rows = table("heads", PeerAttentionRegressor, OF_HEADS, HEADS, one_draw("one draw"))
        draws = "Over one draw of seeds, as in all rows but the last; by default draws are averaged until their networks agree."
        publish("ablations_heads", "Rules and constants of heads at their defaults", rows, [ratio, draws, simulations, real])
    if "full" in stage:
        rows = table("full", partial(PeerAttentionRegressor, kappa=None), IN_FULL, FULL)
        publish(
            "ablations_full",
            "Rules of heads in full",
            rows,
            [ratio, real, "Others: as in heads_in_full.py, EBIT over assets a forecast."],
        )


if __name__ == "__main__":
    main()
