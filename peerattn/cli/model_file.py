"""Fitted models on disk: the estimator, the columns it reads, and what it was made with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from peerattn import __version__
from peerattn.cli.commands import Fit
from peerattn.cli.output import flat_frame
from peerattn.datasets.presets import PRESETS, read_preset
from peerattn.evaluation.running.entries import Entry, is_peer_model
from peerattn.evaluation.running.pipelines import takes_panels
from peerattn.exceptions import InputError, naming, validate_methods
from peerattn.models import CovariancePeerRegressor, OwnHistoryRegressor
from peerattn.panel import Panel, StoredPanel, read_panel, scan_panel
from peerattn.panel.knowledge import dated_by_horizon
from peerattn.store.objects import load_estimator, save_estimator
from peerattn.types import OutcomesLike

_PACKAGES = ("torch", "scikit-learn", "numpy", "pandas")  # that a fitted model depends on
_READ = ("firm", "period", "characteristics", "codes", "industry")  # of a file, by read_panel


@validate_methods
@dataclass(frozen=True)
class SavedModel:
    """A fitted model and how its panel is read.

    Attributes
    ----------
    model : fitted estimator
    name : str
    task : str
    firm, period, outcome : str
        Columns of the source.
    characteristics, codes : sequence of str
    industry, preset : str or None
    versions : dict of str to str
    horizon : int
        Periods until an outcome is known.
    """

    model: Any
    name: str
    task: str
    firm: str
    period: str
    outcome: str
    characteristics: Sequence[str]
    codes: Sequence[str]
    industry: str | None = None
    preset: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    horizon: int = 1

    @classmethod
    def of(cls, fitted: Any, name: str, panel: Panel, options: Fit) -> SavedModel:
        """Return a model fitted on the panel that the options name."""
        source: Any = options if options.preset is None else PRESETS[options.preset]
        labels = (source.firm or "firm", source.period or "period")
        choice = panel.choice
        columns = (*labels, panel.outcome, choice.characteristics, choice.codes, panel.industry)
        made_with = {"peerattn": __version__} | {package: version(package) for package in _PACKAGES}
        return cls(fitted, name, options.task or "forecast", *columns, options.preset, made_with, options.horizon or 1)

    def save(self, path: Path) -> None:
        """Write the model, whole or not at all; ``peerattn.load`` reads it, too."""
        about = dict(vars(self))
        save_estimator(about.pop("model"), path, about)

    def panel(self, source: Path) -> Panel:
        """Return a file's panel, read as the training panel was; the outcome may be missing.

        Raises
        ------
        InputError
            For a file without the model's columns.
        """
        chosen: dict[str, Any] = {name: getattr(self, name) for name in _READ}
        if self.preset is not None:
            del chosen["firm"], chosen["period"]
            # an outcome that the preset makes is no column of the file
            if self.outcome not in ("ret_next", PRESETS[self.preset].outcome):
                chosen["outcome"] = self.outcome
            return read_preset(source, self.preset, **chosen)
        frame = flat_frame(source)
        if self.outcome not in frame:
            frame = frame.assign(**{self.outcome: float("nan")})
        return read_panel(frame, outcome=self.outcome, **chosen)

    def write_by_period(self, what: str, source: Path, folder: Path, **options: Any) -> StoredPanel:
        """Write ``what``, the predictions or networks of a panel in files, one period at a time; return that panel."""
        if self.preset is not None or not hasattr(self.model, "write_predictions"):
            raise InputError(f"--out: {self.name} is not predicted by period; name a file, not a folder.")
        observed = self.observed(self.outcome)
        # these hand outcomes on from period to period, whenever they are known; others leave out the last ones themselves (purge)
        if observed and self.horizon > 1 and isinstance(self.model, CovariancePeerRegressor | OwnHistoryRegressor):
            raise InputError(f"--out: {self.name} was fitted with --horizon {self.horizon}; name a file, not a folder.")
        columns = {name: getattr(self, name) for name in _READ}
        stored = scan_panel(source, outcome=observed.get("outcomes"), **columns)
        getattr(self.model, f"write_{what}")(stored, folder, **observed, **options)
        return stored

    def predict(self, panel: Panel) -> pd.Series:
        """Return a prediction for each row; a nowcast uses the observed outcomes of the panel's peers."""
        observed = self.observed(panel.y)
        return pd.Series(self.model.predict(self.called(panel), **observed), index=panel.X.index, name="prediction")

    def called(self, panel: Panel) -> Panel | pd.DataFrame:
        """Return a panel as the model is called with it: with the dates of its outcomes where a nowcast has a longer horizon."""
        dated = dated_by_horizon(panel, self.task, self.horizon)
        return dated if dated is not panel and takes_panels(self.model) else panel.X

    def observed(self, outcomes: OutcomesLike) -> dict[str, Any]:
        """Return the outcomes of peers (or the name of their column) as an argument, where the model uses them."""
        task: Any = self.task
        if not Entry(self.name, self.model, task).observed_outcomes:
            return {}
        if not isinstance(outcomes, pd.Series) or outcomes.notna().any():
            return {"outcomes": outcomes}
        if is_peer_model(self.model):
            needs = f"PANEL: the model predicts {self.outcome!r} from its peers' values, and"
            raise InputError(f"{needs} the file holds none; add the column.")
        return {}


def load_model(path: Path) -> SavedModel:
    """Return a saved model; no code of the file is run.

    Raises
    ------
    InputError
        For a file that is missing, damaged, or was not written by ``peerattn fit``.
    """
    with naming("MODEL"):
        model, about = load_estimator(path)
        if not isinstance(about, dict):
            raise InputError(f"{str(path)!r} was saved in Python, without the columns that it uses: open it with peerattn.load.")
        return SavedModel(model, **about)
