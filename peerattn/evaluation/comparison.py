"""The result of a comparison: plain data, its scores and tests, and the functions that show it, bound as methods."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from peerattn.evaluation.description import PanelDescription
from peerattn.evaluation.inference.forecast_tests import ForecastTest
from peerattn.evaluation.inference.intervals import ConformalIntervals, conformal_intervals
from peerattn.evaluation.inference.multiple_tests import (
    ConfidenceSet,
    SuperiorAbility,
    model_confidence_set,
    superior_ability,
)
from peerattn.evaluation.inference.regressions import (
    Calibration,
    FamaMacBethSlope,
    calibration,
    fama_macbeth,
)
from peerattn.evaluation.measures.groups import scores_by
from peerattn.evaluation.measures.information import InformationCoefficient
from peerattn.evaluation.measures.scores import Scores, score
from peerattn.evaluation.measures.sorting import portfolios_of
from peerattn.evaluation.measures.valuation import named_like_log
from peerattn.evaluation.report import files, page
from peerattn.evaluation.report import table as tables
from peerattn.evaluation.report.methods import methods_paragraph
from peerattn.evaluation.report.verdict import verdict
from peerattn.evaluation.running.fitting import Failure
from peerattn.evaluation.steps import ladder_of, step
from peerattn.exceptions import unknown_name
from peerattn.panel.columns import ColumnChoice
from peerattn.render import show_label

if TYPE_CHECKING:
    from peerattn.evaluation.leak_audit.runner import Audit
    from peerattn.models.attention.search_profile import SearchProfile
    from peerattn.network import PeerNetwork


@dataclass(frozen=True)
class ModelNote:
    """One of the models of a comparison.

    Attributes
    ----------
    name : str
    kind : str
        "peer model", "plain regressor", or "level control" (the mean of all other firms, which compare adds).
    shown_outcomes : bool
        Whether it was shown the outcomes of each firm's peers.
    settings : str
        The estimator as it prints itself.
    trials : int
        Settings its search tried in each fit; 1 without a search.
    rung : int or None
        Its rung of the ladder, 0 (own characteristics) to 6 (stacked attention); None for what is no rung.
    """

    name: str
    kind: str
    shown_outcomes: bool
    settings: str
    trials: int = 1
    rung: int | None = None

    @property
    def looks_to_peers(self) -> bool:
        """Whether it is a peer model of this package."""
        return self.kind == "peer model"

    @property
    def orders_firms(self) -> bool:
        """Whether its order of a period's firms says anything: a mean of all others differs by the own outcome alone."""
        return self.kind != "level control"


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """Models compared out of sample on one common sample; made by :func:`peerattn.evaluation.compare`.

    Attributes
    ----------
    predictions : DataFrame
        One row for each tested (firm, period): columns firm, period, outcome (NaN = unknown) and one for
        each model.
    training_mean : ndarray of length n
        The prevailing mean of each row: the mean of the outcomes its models learned from.
    models : tuple of ModelNote
        Those that were fitted and predicted every row.
    baseline : str
        The model the others are tested against.
    task : str
        "forecast" or "explain".
    outcome : str
        Name of the outcome.
    horizon : int
        Forecast horizon in periods.
    networks : dict of str to PeerNetwork
        Of each peer model, for the last tested period.
    choice : ColumnChoice
        The columns taken as characteristics and codes, and those left out.
    settings : dict of str to str
        Split and package versions.
    notes : tuple of str
        What a reader should know besides.
    window : str
        "expanding" or "rolling": of the rows learned from; "" where the split has none.
    failures : tuple of Failure
        Models that could not be fitted, or could not predict: rows of the table, with their errors.
    profiles : dict of str to SearchProfile
        What the heads of each attention model search for, as fitted for the last tested period.
    sample_loss : DataFrame
        Rows, firms and periods left after each step from the panel to the scored sample.
    groups : dict of str to Series
        Groups of the rows of ``predictions``, which the report scores separately.
    limits : tuple of str
        Known limits of the panel.
    audit : dict of str to Audit
        Of the models that were audited.
    is_return : bool
        Whether the outcome is a simple return in decimals, so that portfolios can be formed on predictions.
    market_value : Series or None
        Of the rows of ``predictions``, indexed by (firm, period).
    caution : str
        Of the panel: a sentence that stands beside the finding.
    truth : PeerNetwork or None
        The network that made the data in the last tested period, where the panel is simulated.
    factors : DataFrame or None
        Factor returns in decimals by period, for the alphas of portfolios.
    description : PanelDescription or None
        Descriptive statistics of the panel.
    configuration : str
        What makes the comparison again, as TOML; of the command line.

    Notes
    -----
    The common-sample rule: all models are scored on the same rows, those of the tested periods whose outcome is known. A
    model that cannot predict one of them is not scored at all: it is a failure.
    """

    predictions: pd.DataFrame
    training_mean: np.ndarray
    models: tuple[ModelNote, ...]
    baseline: str
    task: str
    outcome: str
    horizon: int = 1
    networks: dict[str, PeerNetwork] = field(default_factory=dict)
    choice: ColumnChoice = ColumnChoice((), ())
    settings: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    window: str = "expanding"
    failures: tuple[Failure, ...] = ()
    profiles: dict[str, SearchProfile] = field(default_factory=dict)
    sample_loss: pd.DataFrame = field(default_factory=pd.DataFrame)
    groups: dict[str, pd.Series] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    audit: dict[str, Audit] = field(default_factory=dict)
    is_return: bool = False
    market_value: pd.Series | None = None
    caution: str = ""
    truth: PeerNetwork | None = None
    factors: pd.DataFrame | None = None
    description: PanelDescription | None = None
    configuration: str = ""

    # How it is shown and written: functions of report/ and measures/ that take a comparison, bound as methods.
    as_table = tables.as_table
    table = tables.table
    text = tables.text
    to_latex = tables.to_latex
    to_markdown = tables.to_markdown
    to_html = page.to_html
    to_excel = files.to_excel
    to_parquet = files.to_parquet
    edges = files.edges
    methods = methods_paragraph
    test = step
    portfolios = portfolios_of
    by = scores_by
    ladder = cached_property(ladder_of)

    @property
    def names(self) -> list[str]:
        """Names of the models, in the order of the table."""
        return [model.name for model in self.models]

    @property
    def peer_models(self) -> list[str]:
        """Names of the peer models."""
        return [model.name for model in self.models if model.looks_to_peers]

    @property
    def controls(self) -> list[str]:
        """Names of the models that use no peers of the firm's own."""
        return [model.name for model in self.models if not model.looks_to_peers]

    @property
    def ordering(self) -> list[str]:
        """Names of the models whose order of a period's firms says anything: all but the mean of all other firms."""
        return [model.name for model in self.models if model.orders_firms]

    @property
    def n_trials(self) -> int:
        """Settings tried in all: those of every search, and one for each other model that was passed."""
        return sum(model.trials for model in self.models)

    @cached_property
    def _scored(self) -> Scores:
        logs = named_like_log(self.outcome)
        return score(self.predictions, self.names, self.training_mean, self.baseline, self.horizon, logs)

    @property
    def scores(self) -> pd.DataFrame:
        """All metrics as numbers: one row for each model; NaN where a number does not exist."""
        return self._scored.frame.copy()

    @property
    def tests(self) -> dict[str, ForecastTest]:
        """The Diebold–Mariano test of each model against the baseline."""
        return dict(self._scored.tests)

    @property
    def rank_ics(self) -> dict[str, InformationCoefficient]:
        """The rank information coefficient of each model, with its series."""
        return dict(self._scored.rank_ics)

    @property
    def losses(self) -> pd.DataFrame:
        """Mean squared error of each scored period (rows) and model (columns)."""
        return self._scored.losses.copy()

    @cached_property
    def _known(self) -> pd.DataFrame:
        return self.predictions.loc[self.predictions["outcome"].notna(), ["firm", "period"]]

    @property
    def n_outcomes(self) -> int:
        """Number of scored rows."""
        return len(self._known)

    @property
    def n_firms(self) -> int:
        """Number of firms with a scored row."""
        return int(self._known["firm"].nunique())

    @property
    def periods(self) -> pd.Index:
        """The scored periods, in time order."""
        return self._scored.losses.index

    @property
    def span(self) -> str:
        """The first and the last scored period in words."""
        first, last = show_label(self.periods[0]), show_label(self.periods[-1])
        return first if len(self.periods) == 1 else f"{first} to {last}"

    @property
    def sample(self) -> str:
        """The scored sample in words."""
        n = len(self.periods)
        periods = f"{n} period{'s' if n > 1 else ''} ({self.span})"
        return f"{self.n_outcomes:,} outcomes of {self.n_firms:,} firms in {periods}"

    @cached_property
    def regressions(self) -> dict[str, tuple[FamaMacBethSlope, Calibration]]:
        """The Fama–MacBeth slope and the calibration of each model's predictions; computed on first use."""
        frame = self.predictions
        y, period = frame["outcome"], frame["period"]
        return {
            name: (
                fama_macbeth(y, frame[name], period, horizon=self.horizon),
                calibration(y, frame[name], period, firm=frame["firm"]),
            )
            for name in self.names
        }

    def confidence_set(self, *, size: float = 0.1) -> ConfidenceSet:
        """Return the models that may be the best; see :func:`model_confidence_set`."""
        return model_confidence_set(self.losses, size=size, horizon=self.horizon)

    def superior(self, *, size: float = 0.05) -> SuperiorAbility:
        """Test whether any model beats the baseline, the search accounted for; see :func:`superior_ability`."""
        return superior_ability(self.losses, self.baseline, size=size, horizon=self.horizon)

    def intervals(self, model: str, *, level: float = 0.95) -> ConformalIntervals:
        """Return conformal prediction intervals of a model; see :func:`conformal_intervals`."""
        self.check_model(model)
        frame = self.predictions
        columns = (frame[name] for name in ("outcome", model, "period"))
        return conformal_intervals(*columns, level=level, horizon=self.horizon, firm=frame["firm"])

    def check_model(self, *names: str) -> None:
        """Raise for a name that is not among the models."""
        for name in names:
            if name not in self.names:
                raise unknown_name("model", "model", name, self.names)

    @cached_property
    def _finding(self) -> tuple[str, ...]:
        return tuple(verdict(self))

    def summary(self) -> list[str]:
        """Return the finding in plain words: who wins, whether it is chance, whether peers help, what decides it."""
        return list(self._finding)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return (
            f"Comparison({self.task} of {self.outcome}: {len(self.models)} models, baseline {self.baseline!r}, "
            f"{self.n_firms} firms, {len(self.periods)} periods, {self.n_outcomes} outcomes)"
        )

    def _repr_html_(self) -> str:
        return self.as_table().html()

    def to_frame(self) -> pd.DataFrame:
        """Return :meth:`table`."""
        return self.table()
