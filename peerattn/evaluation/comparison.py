"""The result of a comparison: a table, its tests, every prediction, and the peer networks."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import DieboldMariano
from peerattn.evaluation.measures.information import InformationCoefficient
from peerattn.evaluation.measures.scores import Scores, score
from peerattn.evaluation.model_note import ModelNote
from peerattn.evaluation.report.files import PRINTED, ComparisonFiles
from peerattn.evaluation.running.fitting import Failure
from peerattn.exceptions import InputError, did_you_mean
from peerattn.panel.columns import ColumnChoice
from peerattn.render import Table, show_label

if TYPE_CHECKING:
    from peerattn.evaluation.inference.intervals import ConformalIntervals
    from peerattn.evaluation.inference.multiple_tests import ConfidenceSet, SuperiorAbility
    from peerattn.evaluation.inference.regressions import Calibration, FamaMacBethSlope
    from peerattn.evaluation.ladder import Ladder
    from peerattn.evaluation.leak_audit.runner import Audit
    from peerattn.evaluation.measures.portfolios import QuantilePortfolios, Weighting
    from peerattn.evaluation.steps import Nesting, Step
    from peerattn.models.attention.search_profile import SearchProfile
    from peerattn.network import PeerNetwork

#: Packages whose versions a comparison records.
PACKAGES = ("torch", "scikit-learn", "pandas", "numpy", "scipy", "statsmodels")


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(ComparisonFiles):
    """Models compared out of sample on one common sample; made by :func:`peerattn.evaluation.compare`.

    Attributes
    ----------
    predictions : DataFrame
        One row for each tested (firm, period): columns firm, period, outcome (NaN = unknown) and one for
        each model.
    training_mean : ndarray of length n
        The prevailing mean of each row: the mean of the outcomes its models learned from.
    models : tuple of ModelNote
        Those that could be fitted and asked.
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
        The columns taken as characteristics and codes, and those left.
    settings : dict of str to str
        Split and package versions.
    notes : tuple of str
        What a reader should know besides.
    window : str
        "expanding" or "rolling": of the rows learned from; "" where the split has none.
    failures : tuple of Failure
        Models that could not be fitted or asked: rows of the table, with their errors.
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
    configuration: str = ""

    @cached_property
    def _scored(self) -> Scores:
        return score(self.predictions, self.names, self.training_mean, self.baseline, self.horizon)

    @property
    def names(self) -> list[str]:
        """Names of the models, in the order of the table."""
        return [model.name for model in self.models]

    @property
    def ordering(self) -> list[str]:
        """Names of the models whose order of a period's firms says anything: all but the mean of all other firms."""
        return [model.name for model in self.models if model.orders_firms]

    @property
    def scores(self) -> pd.DataFrame:
        """All metrics as numbers: one row for each model; NaN where a number does not exist."""
        return self._scored.frame.copy()

    @property
    def n_trials(self) -> int:
        """Settings tried in all: those of every search, and one for each other model that was passed."""
        return sum(model.trials for model in self.models)

    @property
    def tests(self) -> dict[str, DieboldMariano]:
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
        return self.losses.index

    @cached_property
    def regressions(self) -> dict[str, tuple[FamaMacBethSlope, Calibration]]:
        """The Fama–MacBeth slope and the calibration of each model's predictions; made when first asked for."""
        from peerattn.evaluation.inference.regressions import calibration, fama_macbeth

        frame = self.predictions
        y, period = frame["outcome"], frame["period"]
        return {
            name: (
                fama_macbeth(y, frame[name], period, horizon=self.horizon),
                calibration(y, frame[name], period, firm=frame["firm"]),
            )
            for name in self.names
        }

    def table(self, metrics: Sequence[str] = PRINTED, *, stars: bool = False) -> pd.DataFrame:
        """Return the comparison as it prints, one row for each model.

        Parameters
        ----------
        metrics : sequence of str
            Keys of ``scores``, in the order wanted; also ``fm_slope``, ``fm_t`` (Fama–MacBeth) and ``cal_slope``, ``cal_p``
            (Mincer–Zarnowitz).
        stars : bool, default False
            Mark the DM t by its two-sided p-value: * below 10 %, ** below 5 %, *** below 1 %.

        Returns
        -------
        DataFrame
            Indexed by model. Numbers are unrounded; where there is none the cell says why, such as ``n/a
            (T=2)``. For numbers only take :attr:`scores`.
        """
        return self.as_table(metrics, stars=stars).to_frame().set_index("Model")

    def as_table(self, metrics: Sequence[str] = PRINTED, *, stars: bool = False) -> Table:
        """Return the comparison as a table that renders as text, HTML, LaTeX and Markdown; see :meth:`table`."""
        from peerattn.evaluation.report.table import comparison_table

        return comparison_table(self, metrics, stars)

    @property
    def sample(self) -> str:
        """The scored sample in words."""
        first, last = show_label(self.periods[0]), show_label(self.periods[-1])
        span = first if len(self.periods) == 1 else f"{first} to {last}"
        plural = "" if len(self.periods) == 1 else "s"
        return f"{self.n_outcomes:,} outcomes of {self.n_firms:,} firms in {len(self.periods)} period{plural} ({span})"

    def test(self, model: str, against: str | None = None, *, nesting: Nesting = "none") -> Step:
        """Test a model against another one (by default the baseline) with the test that fits; see :class:`Step`."""
        from peerattn.evaluation.steps import step

        return step(self, model, self.baseline if against is None else against, nesting=nesting)

    def confidence_set(self, *, size: float = 0.1, reps: int = 1000, random_state: int = 0) -> ConfidenceSet:
        """Return the models that cannot be told from the best; see :func:`model_confidence_set`."""
        from peerattn.evaluation.inference.multiple_tests import model_confidence_set

        return model_confidence_set(
            self.losses, size=size, horizon=self.horizon, reps=reps, random_state=random_state
        )

    def superior(self, *, size: float = 0.05, reps: int = 1000, random_state: int = 0) -> SuperiorAbility:
        """Test whether any model beats the baseline, the search accounted for; see :func:`superior_ability`."""
        from peerattn.evaluation.inference.multiple_tests import superior_ability

        return superior_ability(
            self.losses, self.baseline, size=size, horizon=self.horizon, reps=reps, random_state=random_state
        )

    def intervals(self, model: str, *, level: float = 0.95) -> ConformalIntervals:
        """Return conformal prediction intervals of a model; see :func:`conformal_intervals`."""
        from peerattn.evaluation.inference.intervals import conformal_intervals

        self._check_model(model)
        frame = self.predictions
        return conformal_intervals(
            frame["outcome"],
            frame[model],
            frame["period"],
            level=level,
            horizon=self.horizon,
            firm=frame["firm"],
        )

    @cached_property
    def ladder(self) -> Ladder | None:
        """The models that are rungs of the ladder, each against the one below; None where there are fewer than two."""
        from peerattn.evaluation.ladder import ladder_of

        return ladder_of(self)

    def portfolios(
        self, model: str, *, n_quantiles: int | None = None, weighting: Weighting = "equal"
    ) -> QuantilePortfolios:
        """Return portfolios of firms sorted by a model's prediction; see :func:`quantile_portfolios`.

        By default there are as many as the periods hold firms for: 10, 5 or 3. Where the outcome is no return (:attr:`is_return`)
        they are groups, and only their mean outcomes mean something. ``weighting="value"`` weighs firms by
        :attr:`market_value`; firms without one are left out.
        """
        from peerattn.evaluation.measures.portfolios import quantile_portfolios
        from peerattn.evaluation.measures.sorting import periods_per_year, usual_quantiles

        self._check_model(model)
        frame, weight = self.predictions, None
        if weighting not in ("equal", "value"):
            raise InputError(f"weighting: expected 'equal' or 'value', got {weighting!r}.")
        if weighting == "value":
            if self.market_value is None:
                raise InputError("weighting='value' needs market values: compare(..., market_value=COLUMN).")
            weight = self.market_value.loc[pd.MultiIndex.from_frame(frame[["firm", "period"]])].to_numpy()
            frame, weight = frame[~np.isnan(weight)], weight[~np.isnan(weight)]
        return quantile_portfolios(
            frame["outcome"],
            frame[model],
            frame["firm"],
            frame["period"],
            n_quantiles=n_quantiles or usual_quantiles(self),
            weight=weight,
            periods_per_year=periods_per_year(self.periods) or 1.0,
            horizon=self.horizon,
        )

    def _check_model(self, model: str) -> None:
        if model not in self.names:
            raise InputError(
                f"there is no model {model!r} among {', '.join(map(repr, self.names))}."
                f"{did_you_mean(model, self.names)}"
            )

    def by(self, groups: str | pd.Series, *, n_groups: int | None = None) -> pd.DataFrame:
        """Return the scores by year, size group or industry; see :func:`peerattn.evaluation.scores_by`."""
        from peerattn.evaluation.measures.groups import scores_by

        return scores_by(self, groups, n_groups=n_groups)

    def summary(self) -> list[str]:
        """Return the finding in plain words, a sentence or two each: who wins, by how much, and is it chance."""
        from peerattn.evaluation.report.verdict import verdict

        return verdict(self)

    def text(self, width: int | None = None) -> str:
        """Return the table and the finding as text.

        Parameters
        ----------
        width : int, optional
            Widest line, by default the terminal's.
        """
        import textwrap

        width = width or shutil.get_terminal_size((100, 24)).columns
        words = "\n".join(textwrap.fill(sentence, width) for sentence in self.summary())
        table = self.as_table()
        notes = "\n".join(textwrap.fill(note, width) for note in table.footnotes)
        bare = Table(table.title, table.columns, table.rows, table.alignment, table.formats)
        return f"{bare.text(width)}\n\n{notes}\n\n{words}"

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
