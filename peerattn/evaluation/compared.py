"""What a comparison holds: predictions of all models on one common sample, and what is known of models and panel."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import ForecastTest, periods_needed
from peerattn.evaluation.leak_audit.runner import Audit
from peerattn.evaluation.measures.information import InformationCoefficient
from peerattn.evaluation.measures.scores import ORDER_METRICS, Scores, score
from peerattn.evaluation.measures.valuation import named_like_log
from peerattn.evaluation.running.entries import STACK_WITHOUT
from peerattn.evaluation.running.fitting import Failure
from peerattn.evaluation.running.information import COMMON, OWN, PEERS
from peerattn.evaluation.sample import PanelFacts
from peerattn.exceptions import check_names, validate_methods
from peerattn.models.learners.heads.search_profile import SearchProfile
from peerattn.network import PeerNetwork
from peerattn.render import show_label


@dataclass(frozen=True)
class ModelNote:
    """One of the models of a comparison.

    Attributes
    ----------
    name : str
    information : str
        The last group of information that it uses: "own characteristics", "firm history", "common shocks" or "peers".
    reads : str
        What it reads, in words.
    settings : str
        The estimator as it prints itself.
    trials : int
        Settings its search tried in each fit; 1 without a search.
    control : bool
        Whether ``compare`` added it.
    fits : int
        How often it was fitted.
    selected : dict of str to (tuple of str, int)
        Of a model that selects, for each group: the parts of the last fit in which any was selected, and in how many fits.
    untested : dict of str to str
        Of a stack, for groups that were tested in no fit: why.
    """

    name: str
    information: str = OWN
    reads: str = "own x"
    settings: str = ""
    trials: int = 1
    control: bool = False
    fits: int = 1
    selected: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    untested: dict[str, str] = field(default_factory=dict)

    @property
    def fits_with_peers(self) -> int | None:
        """In how many fits peers were selected; None for a model that does not test whether they are."""
        return self.selected.get(PEERS, ((), None))[1]

    def selected_in(self, group: str) -> str:
        """Return what was selected of a group, in words."""
        parts, n = self.selected[group]
        if group in self.untested:
            return f"not tested: {self.untested[group]}"
        if not n:
            return "nothing selected"
        return ", ".join(parts) + f" (in {n} of {self.fits} fits)" * (n < self.fits)

    @property
    def averages_others(self) -> bool:
        """Whether ``compare`` added it, and it is a mean of other firms' outcomes alone."""
        return self.control and self.information == COMMON and "own" not in self.reads

    @property
    def uses_peers(self) -> bool:
        """Whether it weighs chosen peers; means of all firms or of an industry choose none."""
        return self.information == PEERS


@validate_methods
@dataclass(frozen=True, repr=False, eq=False)
class Compared:
    """The data of a comparison; its attributes are described at :class:`~peerattn.evaluation.Comparison`."""

    without_name: ClassVar[str] = STACK_WITHOUT
    predictions: pd.DataFrame
    training_mean: np.ndarray
    models: tuple[ModelNote, ...]
    baseline: str
    task: str
    outcome: str
    horizon: int = 1
    networks: dict[str, PeerNetwork] = field(default_factory=dict)
    profiles: dict[str, SearchProfile] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    panel: PanelFacts = PanelFacts()
    audit: dict[str, Audit] = field(default_factory=dict)
    placebo: np.ndarray = field(default_factory=lambda: np.empty(0))
    configuration: str = ""
    stack: str | None = None
    undecomposed: str = "the comparison was not decomposed"
    steps: pd.DataFrame = field(default_factory=pd.DataFrame)
    without_peers: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def names(self) -> list[str]:
        """Names of the models, in the order of the table."""
        return [model.name for model in self.models]

    @property
    def peer_models(self) -> list[str]:
        """Names of the models that weigh chosen peers."""
        return [model.name for model in self.models if model.uses_peers]

    @property
    def controls(self) -> list[str]:
        """Names of the models that weigh no chosen peers."""
        return [model.name for model in self.models if not model.uses_peers]

    def note(self, name: str) -> ModelNote:
        """Return what is known of a model."""
        self.check_model(name)
        return next(model for model in self.models if model.name == name)

    @cached_property
    def known(self) -> pd.DataFrame:
        """The scored rows of ``predictions``, with the prevailing mean as the column ``training_mean``."""
        # rows without an outcome were peers of the others, and cannot be scored
        frame = self.predictions.assign(training_mean=self.training_mean)
        return frame[frame["outcome"].notna()]

    @property
    def is_constant(self) -> bool:
        """Whether the outcome is the same in all scored rows, so that nothing can be tested."""
        return bool(self.known["outcome"].nunique() == 1)

    @property
    def few_periods(self) -> bool:
        """Whether the scored periods are too few for a test over time."""
        return len(self.periods) < periods_needed(self.horizon)

    @cached_property
    def scored(self) -> Scores:
        """Metrics, rank correlations, tests against the baseline and losses by period."""
        logs = named_like_log(self.outcome)
        found = score(self.known, self.names, self.baseline, self.horizon, logs)
        found.frame.loc[[name for name in self.names if not self.has_order(name)], list(ORDER_METRICS)] = np.nan
        return found

    @property
    def scores(self) -> pd.DataFrame:
        """All metrics as numbers: one row for each model; NaN where a number does not exist."""
        return self.scored.frame.copy()

    def has_order(self, name: str) -> bool:
        """Whether a model's order of firms can be scored: a mean of all others falls in the own outcome, correlation −1."""
        return not (self.task == "nowcast" and self.note(name).averages_others)

    @property
    def tests(self) -> dict[str, ForecastTest]:
        """The Diebold–Mariano test of each model against the baseline."""
        return dict(self.scored.tests)

    @property
    def rank_ics(self) -> dict[str, InformationCoefficient]:
        """The rank information coefficient of each model, with its series."""
        return dict(self.scored.rank_ics)

    @property
    def losses(self) -> pd.DataFrame:
        """Mean squared error of each scored period (rows) and model (columns)."""
        return self.scored.losses.copy()

    @property
    def n_outcomes(self) -> int:
        """Number of scored rows."""
        return len(self.known)

    @property
    def n_firms(self) -> int:
        """Number of firms with a scored row."""
        return int(self.known["firm"].nunique())

    @property
    def periods(self) -> pd.Index:
        """The scored periods, in time order."""
        return self.scored.losses.index

    @property
    def span(self) -> str:
        """The first and the last scored period in words."""
        return " to ".join(map(show_label, self.periods[[0, -1]].unique()))

    @property
    def sample(self) -> str:
        """The scored sample in words."""
        n = len(self.periods)
        return f"{self.n_outcomes:,} outcomes of {self.n_firms:,} firms in {n} period{'s' * (n > 1)} ({self.span})"

    def check_model(self, *names: str) -> None:
        """Raise for a name that is not among the models."""
        check_names("model", "model", names, self.names)

    def __repr__(self) -> str:
        size = f"{self.n_firms} firms, {len(self.periods)} periods, {self.n_outcomes} outcomes"
        return f"Comparison({self.task} of {self.outcome}: {len(self.models)} models, baseline {self.baseline!r}, {size})"
