"""The entries of a comparison: which task each model can do, and how each is fitted and predicts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from warnings import catch_warnings

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline

from peerattn.evaluation.measures.metrics import nowcast_score
from peerattn.evaluation.running.information import last_step
from peerattn.evaluation.running.inner_folds import parts_of, purged, random_rows
from peerattn.evaluation.running.inputs import LABELS, FoldRows, Frames
from peerattn.evaluation.running.pipelines import chosen_model, fit_features, keep_labels, reads_rows, searches, takes_panels
from peerattn.exceptions import InputError, LostPeriodWarning, expect, validate_arguments
from peerattn.models import CommonShocksRegressor, IndustryMeansRegressor, IndustryPeerRegressor, OwnHistoryRegressor, Reference
from peerattn.models.base import PanelEstimator, has_peers
from peerattn.models.forecasters import make_model, model_title
from peerattn.models.peer_weights import peer_weights
from peerattn.network import PeerNetwork
from peerattn.panel import Panel
from peerattn.render import show_label
from peerattn.types import ReferenceLike

Task = Literal["forecast", "nowcast"]
BOOSTING = model_title("boosting")
OTHERS_CHARACTERISTICS = "Own and others' characteristics"
ALL_OTHER_FIRMS = "All other firms (mean)"
INDUSTRY_BY_PERIOD = "Industry × period (mean)"
EXPLAINED = 100  # firms whose training peers are made: their time is that number × training rows × trees
STACK_WITHOUT = "Stack without peers"
RESERVED_NAMES = ("firm", "period", "outcome", "training_mean", STACK_WITHOUT)
FROZEN = ": a FrozenEstimator is never fitted again, and may have learned from tested periods. Pass the estimator itself."


def is_cross_attention(model: BaseEstimator) -> bool:
    """Return whether a model searches a reference universe (cross-attention)."""
    return getattr(last_step(model), "attention", None) == "cross"


def is_peer_model(model: BaseEstimator) -> bool:
    """Return whether a model, or the last step of it, is a regressor that uses peers."""
    final = last_step(model)
    return has_peers(final) and is_regressor(final)


def _grouped_by(model: BaseEstimator) -> tuple[Any, ...] | None:
    """Return what distinguishes means of a firm's group: its code (None = all other firms), shrinkage and weights; else None."""
    final = last_step(model)
    if not isinstance(final, IndustryPeerRegressor):
        return None
    return final.industry, final.shrinkage, final.value_weight


@validate_arguments
def supports(model: Any, task: Task) -> bool:
    """Return whether a model can do a task.

    Parameters
    ----------
    model : estimator
        A peer model of this package, a scikit-learn regressor, or a Pipeline of one; the last step counts.
    task : {"forecast", "nowcast"}
        ``"forecast"``: no outcome of the target period is used. ``"nowcast"``: the outcomes of a firm's
        peers of the same period are observed, its own is not.

    Returns
    -------
    bool
        A plain regressor can do both (it never sees peers' outcomes). A peer model forecasts unless it
        needs the target period's outcomes, and nowcasts only if it uses outcomes (of its reference, for
        cross-attention); a search nowcasts only with ``scoring=nowcast_score``.

    Raises
    ------
    InputError
        For an unknown task, or a model that is no estimator.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from peerattn.models import IndustryPeerRegressor
    >>> supports(Ridge(), "nowcast"), supports(IndustryPeerRegressor(), "nowcast")
    (True, True)
    """
    fits = hasattr(model, "fit") and not isinstance(model, type)
    expect(fits, "model", "an estimator with fit and predict, such as Ridge()", repr(model))
    final = last_step(model)
    if not is_peer_model(final):
        return True
    if is_cross_attention(model):
        return bool(task == getattr(final, "task", None))
    if task == "forecast":
        return not final.needs_outcomes
    return bool(final.reads_outcomes) and all(s.scoring is nowcast_score for s in searches(model))


@dataclass(frozen=True)
class Entry:
    """A model of a comparison under its name, ready to be fitted on a fold.

    Attributes
    ----------
    name : str
    model : estimator
        As the user passed it; it is cloned for each fold and never changed.
    task : {"forecast", "nowcast"}
    control : bool
        Whether ``compare`` added it.
    reference : Reference or None
        The candidate peers of cross-attention.
    """

    name: str
    model: Any
    task: Task = "forecast"
    control: bool = False
    reference: Reference | None = None

    @property
    def native(self) -> bool:
        """Whether it is a peer model, which is given codes as codes and rows with unknown outcomes as peers."""
        return is_peer_model(self.model)

    @property
    def observed_outcomes(self) -> bool:
        """Whether it observes outcomes of the period it predicts."""
        reads = is_peer_model(self.model) or isinstance(last_step(self.model), OwnHistoryRegressor)
        return reads and self.task == "nowcast"

    def fit(self, fold: FoldRows) -> Any:
        """Return a fitted clone."""
        model = clone(self.model)
        if takes_panels(model):
            return self._fit_to_panel(model, fold)
        known = fold.train.y.notna().to_numpy()
        if not reads_rows(model):
            X, y = self._read(fold, fold.train)
            return model.fit(X[known], y[known].to_numpy())
        if isinstance(model, Pipeline):
            return fit_features(model, fold.train)
        model.fit(fold.train.X[known], fold.train.y[known])  # a search splits frames of known outcomes
        if hasattr(model, "best_estimator_"):
            model.best_estimator_ = fit_features(clone(model.best_estimator_), fold.train)
        return model

    def _fit_to_panel(self, model: Any, fold: FoldRows) -> Any:
        """Return the model, which reads panels, fitted to all rows of the fold."""
        keep_labels(model)
        rows = fold.train
        # scores of scikit-learn take no unknown outcomes: of every setting they would be NaN
        if any(search.scoring not in (None, nowcast_score) for search in searches(model)):
            rows = fold.learned
        X, y = self._read(fold, rows)
        data = (X,) if isinstance(X, Panel) else (X, y)  # a panel holds its outcomes
        try:
            with catch_warnings(action="error", category=LostPeriodWarning):
                return model.fit(*data, **self._reference_of(model))
        except LostPeriodWarning as lost:
            raise InputError(f"model {self.name!r}: {lost}") from lost

    def predict_steps(self, model: BaseEstimator, fold: FoldRows) -> np.ndarray:
        """Return the predictions of each test row after each group of information, (n, steps); of most models one column.

        They are finite; otherwise an error names this model. Where outcomes have dates, a nowcast is given those of
        its own period alone: earlier ones are not surely known by then.
        """
        every = fold.call.X.index.get_level_values(LABELS[1])
        if not (fold.dated and self.observed_outcomes and every.nunique() > 1):
            X, y = self._read(fold, fold.call)
            fitted = chosen_model(model)
            predict = getattr(fitted, "predict_steps", fitted.predict)
            return self._checked(predict(X, **self._outcomes(y)), fold)
        parts = [np.flatnonzero(every == period) for period in every.unique()]
        found = [self.predict_steps(model, fold.with_call(fold.call.X.iloc[at], fold.call.y.iloc[at])) for at in parts]
        return np.concatenate(found)[np.argsort(np.concatenate(parts))][fold.scored]

    def network(self, model: BaseEstimator, fold: FoldRows, at: np.ndarray) -> PeerNetwork | None:
        """Return the peers of the rows of one period of the call; None for a model that has none.

        Those of a plain regressor are the firms whose training outcomes its predictions are made of.
        """
        if not self.native:
            return self._training_peers(model, fold, at)
        assert isinstance(fold.call, Panel)
        rows = fold.call
        if fold.dated and self.observed_outcomes:  # as in predictions
            rows = rows.take(at)
        X, y = self._read(fold, rows)
        model = chosen_model(model)
        if isinstance(model, Pipeline):
            if len(model) > 1:
                X = model[:-1].transform(X)
            model = model[-1]
        period = fold.call.period[at][0]
        # a class of a user's own may define peer_network, which network_at does not call
        definer = next(each for each in type(model).__mro__ if "peer_network" in vars(each))
        if not definer.__module__.startswith("peerattn."):
            network = model.peer_network(X, **self._outcomes(y))
            if network.is_dated:
                network = network.subset(periods=[period])
            return network
        return model.network_at(X, period, **self._outcomes(y))

    def _training_peers(self, model: BaseEstimator, fold: FoldRows, at: np.ndarray) -> PeerNetwork | None:
        if takes_panels(model) or reads_rows(model):
            return None
        rows = np.flatnonzero(at)
        # peers of all rows of a forest would take minutes
        rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), EXPLAINED)).round().astype(int)]
        y = fold.train.y
        call = fold.encoded(False).iloc[rows]
        known = y.notna().to_numpy()
        firm, period = map(str, call.index.names)
        try:
            return peer_weights(model, call, fold.encoded(True)[known], y[known], firm=firm, period=period)
        except ValueError:  # its predictions are no weighted sum of training outcomes
            return None

    def random_rows(self, panel: Panel, train: np.ndarray, horizon: int) -> list[str]:
        """Return what in the model validates on random rows of the training rows, or learns from unknown outcomes, in words."""
        known_at = None
        if panel.known_at is not None:
            known_at = pd.Series(panel.known_at, panel.X.index)
        if not takes_panels(self.model):
            train = train[panel.y.iloc[train].notna()]
        rows = self._labelled(panel.X.iloc[train], panel.y.iloc[train])
        return list(random_rows(self.model, *rows, horizon=horizon, known_at=known_at))

    def _read(self, fold: FoldRows, rows: Panel | Frames) -> tuple[Any, pd.Series]:
        """Return rows of the fold as the model reads them (a Panel, labelled frames, or numbers), and their outcomes."""
        if takes_panels(self.model):
            # searches, pipelines and a user's own classes get frames
            ours = isinstance(self.model, PanelEstimator) and type(self.model).__module__.startswith("peerattn.")
            if ours and isinstance(rows, Panel):
                return rows, rows.y
            return self._labelled(rows.X, rows.y)
        if reads_rows(self.model):
            return rows.X, rows.y
        return self._labelled(fold.encoded(rows is fold.train), rows.y)

    def _outcomes(self, y: pd.Series) -> dict[str, pd.Series]:
        """Return the outcomes that predict observes: the outcomes of the call, where the task and the model have it so."""
        if self.observed_outcomes and self.reference is None:
            return {"outcomes": y}
        return {}

    def _reference_of(self, model: BaseEstimator) -> dict[str, Reference]:
        if self.reference is None:
            return {}
        inner = model.estimator if isinstance(model, BaseSearchCV) else model
        if isinstance(inner, Pipeline):
            return {f"{inner.steps[-1][0]}__reference": self.reference}
        return {"reference": self.reference}

    def _labelled(self, X: pd.DataFrame, y: pd.Series) -> tuple[pd.DataFrame, pd.Series]:
        """Name the index levels as this model expects them, or the splitter of its search."""
        named = [last_step(self.model), *(search.cv for search in searches(self.model))]
        names: Any = {name: next((getattr(each, name) for each in named if hasattr(each, name)), name) for name in LABELS}
        return X.rename_axis(index=names), y.rename_axis(index=names)

    def _checked(self, predicted: object, fold: FoldRows) -> np.ndarray:
        index = fold.call.y.index
        values = np.asarray(predicted, dtype=float)
        who = f"model {self.name!r}:"
        if isinstance(predicted, pd.Series) and not predicted.index.equals(index):
            raise InputError(f"{who} its predictions carry other labels than the test rows.")
        n = len(index)
        # a stack predicts after each group of information
        steps = isinstance(predicted, pd.DataFrame) and len(values) == n
        if not (steps or values.shape in ((n,), (n, 1))):
            raise InputError(f"{who} predictions of shape {values.shape} for {n} test rows; one number per row is expected.")
        values = values.reshape(n, -1)
        broken = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(broken):
            first = " in ".join(map(show_label, index[broken[0]]))
            wording = f"{len(broken)} of {n} predictions are NaN or infinite (first: {first})"
            raise InputError(f"{who} {wording}; all models must predict the same rows.")
        return values[fold.scored]


def entries_of(
    models: Mapping[str, Any], task: Task, panel: Panel, reference: ReferenceLike, gaps: tuple[int, ...], horizon: int
) -> list[Entry]:
    """Return the models and the controls that are always there, each checked for the task.

    ``gaps`` are the periods between a row and the last one learned from, for controls that read a firm's past. Models that weigh
    their parts on held-out periods purge the horizon less one before these.

    Raises
    ------
    InputError
        For no models, a name that is not text or is reserved, an object that is not a regressor, or a model
        that cannot do the task.
    """
    such = "a dictionary of at least one name and model, such as {'Kernel': NadarayaWatsonRegressor()}"
    expect(isinstance(models, Mapping) and len(models) > 0, "models", such, f"{type(models).__name__} of length {len(models)}")
    entries = [_entry(name, purged(model, horizon), task, Reference.of(reference)) for name, model in models.items()]
    if reference is not None and not any(entry.reference for entry in entries):
        raise InputError('reference: no model uses it, as none has attention="cross"; leave it out, or add such a model.')
    return entries + _controls(task, panel, models, gaps)


def _controls(task: Task, panel: Panel, models: Mapping[str, Any], gaps: tuple[int, ...]) -> list[Entry]:
    """Return what ``compare`` adds, so that for each kind of information some model needs no peers.

    Own characteristics, linear and boosted; the firm's mean, its last value, and characteristics with the firm's past; what firms
    have in common: in nowcasts means of the period and of the industry's period, and their shocks beside all of the former;
    in forecasts the characteristics of all others, or of those of the industry. One that is among the models, by name or as the
    same mean of outcomes, is not added.
    """
    nowcasts = task == "nowcast"
    numbers = bool(panel.choice.characteristics)
    industry = panel.industry
    controls = [
        (nowcasts, ALL_OTHER_FIRMS, IndustryPeerRegressor(scheme="plain")),  # no industry is meant
        (nowcasts and industry is not None, INDUSTRY_BY_PERIOD, IndustryPeerRegressor(industry=industry)),
        *((numbers, model_title(name), make_model(name)) for name in ("ols", "boosting")),
        (numbers and not nowcasts, OTHERS_CHARACTERISTICS, IndustryMeansRegressor(industry=industry)),
        *((True, model_title(name), make_model(name)) for name in ("firm_mean", "last_value")),
        (True, model_title("own_history"), OwnHistoryRegressor(gaps=gaps)),
        (nowcasts, model_title("common_shocks"), CommonShocksRegressor(industry=industry, gaps=gaps)),
        (True, model_title("mean"), make_model("mean")),
    ]
    # the same mean under another name would be tested twice
    given = {_grouped_by(model) for model in models.values()} - {None}
    wanted = [(name, model) for applies, name, model in controls if applies and name not in models]
    return [Entry(name, model, task, control=True) for name, model in wanted if _grouped_by(model) not in given]


def _entry(name: object, model: BaseEstimator, task: Task, reference: Reference) -> Entry:
    if not isinstance(name, str) or not name.strip() or name in RESERVED_NAMES:
        reserved = ", ".join(map(repr, RESERVED_NAMES))
        raise InputError(f"models: a name must be text other than {reserved}, got {name!r}.")
    wrong = ""
    if isinstance(model, type):
        wrong = f" is the class {model.__name__}; pass an instance, {model.__name__}()."
    elif isinstance(model, str):
        wrong = f" is the text {model!r}: pass a list of ready names, [{model!r}, ...], or make_model({model!r})."
    elif not (hasattr(model, "fit") and hasattr(model, "__sklearn_tags__") and is_regressor(model)):
        first = "a class of your own derives from RegressorMixin first, then from BaseEstimator"
        wrong = f": expected a regressor with fit and predict ({first}), got {type(model).__name__}."
    elif isinstance(model, FrozenEstimator):
        wrong = FROZEN
    elif wrapped := _wrapped_in(last_step(model)):
        inside = f"{type(wrapped).__name__} inside {type(last_step(model)).__name__}"
        wrong = f": {inside} would be given neither codes nor outcomes of peers. Pass it by itself, in a Pipeline or a search."
    elif not supports(model, task):
        wrong = f" cannot do task={task!r}: {_advice(model, task)}"
    if wrong:
        raise InputError(f"model {name!r}{wrong}")
    if not is_cross_attention(model):
        return Entry(name, model, task)
    if reference.X is None or (reference.y is not None) != (task == "nowcast"):
        needed = {"forecast": "without", "nowcast": "with"}[task]
        raise InputError(f"model {name!r} uses a reference universe: pass reference=, {needed} outcomes for task={task!r}.")
    return Entry(name, model, task, reference=reference)


def _wrapped_in(final: BaseEstimator) -> PanelEstimator | None:
    """Return a model of panels that is part of an estimator of scikit-learn, which hands on plain rows; None without one."""
    if type(final).__module__.split(".")[0] != "sklearn":
        return None
    return next((part for part in parts_of(final) if isinstance(part, PanelEstimator)), None)


def _advice(model: BaseEstimator, task: Task) -> str:
    if task == "forecast":
        where = " (or set its task='forecast')" * ("task" in last_step(model).get_params())
        return f"it uses the outcomes of the period it predicts. Compare with task='nowcast'{where}."
    if any(search.scoring is not nowcast_score for search in searches(model)):
        return "its search scores without peers' outcomes. Set scoring=nowcast_score, or use task='forecast'."
    return "it does not use peers' outcomes. Construct it with task='nowcast', or compare with task='forecast'."
