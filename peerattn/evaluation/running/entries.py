"""The entries of a comparison: which task each model can do, and how each is fitted and asked to predict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from sklearn.base import clone, is_regressor
from sklearn.dummy import DummyRegressor
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline

from peerattn.evaluation.running.fold_rows import FoldRows
from peerattn.evaluation.running.information import information_of, last_step
from peerattn.evaluation.running.inner_folds import random_rows
from peerattn.evaluation.running.inputs import LABELS
from peerattn.evaluation.running.scoring import explain_score
from peerattn.exceptions import InputError, checked
from peerattn.models import CommonShocksRegressor, IndustryMeansRegressor, OwnHistoryRegressor
from peerattn.models.attention.reference import Reference
from peerattn.models.base import PeerRegressor
from peerattn.models.forecasters import make_model, model_title
from peerattn.models.industry import IndustryPeerRegressor
from peerattn.models.panel_model import PanelModel
from peerattn.models.peer_features import PeerFeatures
from peerattn.models.peer_weights import peer_weights
from peerattn.panel import Panel
from peerattn.render import show_label

if TYPE_CHECKING:
    from peerattn.network import PeerNetwork

Task = Literal["forecast", "explain"]
OWN_CHARACTERISTICS = model_title("ols")
BOOSTING = model_title("boosting")
PREVAILING_MEAN = model_title("mean")
OWN_HISTORY, COMMON_SHOCKS = model_title("own_history"), model_title("common_shocks")
OTHERS_CHARACTERISTICS = "Own and others' characteristics"
ALL_OTHER_FIRMS = "All other firms (mean)"
INDUSTRY_BY_PERIOD = "Industry × period (mean)"
EXPLAINED = 100  # firms whose training peers are made: their time is that number × training rows × trees
RESERVED_NAMES = ("firm", "period", "outcome")


def searches(model: Any) -> Iterator[BaseSearchCV]:
    """Yield the searches a model is wrapped in."""
    while isinstance(model, Pipeline | BaseSearchCV):
        if isinstance(model, BaseSearchCV):
            yield model
        model = model.steps[-1][1] if isinstance(model, Pipeline) else model.estimator


def trials(fitted: Any) -> int:
    """Return how many settings were tried to fit a model: those of its search, 1 without one."""
    return max((len(search.cv_results_["params"]) for search in searches(fitted)), default=1)


def is_cross_attention(model: Any) -> bool:
    """Tell whether a model searches a reference universe (cross-attention)."""
    return getattr(last_step(model), "attention", None) == "cross"


def is_peer_model(model: Any) -> bool:
    """Tell whether a model, or the last step of it, uses peers (a ``PeerRegressor``)."""
    return isinstance(last_step(model), PeerRegressor)


def takes_panels(model: Any) -> bool:
    """Tell whether a model, or the last step of it, reads panels itself and needs no encoding."""
    return isinstance(last_step(model), PanelModel)


def reads_panels(model: Any) -> bool:
    """Tell whether a model is handed a Panel as it is: searches, pipelines and a user's own classes get frames."""
    return isinstance(model, PanelModel) and type(model).__module__.startswith("peerattn.")


def reads_rows(model: Any) -> bool:
    """Tell whether a plain regressor comes after peer features, which read labels and codes as they are."""
    return isinstance(model, Pipeline) and isinstance(model[0], PeerFeatures)


def _grouped_by(model: Any) -> tuple[Any, ...] | None:
    """Return what tells apart means of a firm's group: its code (None = all other firms), shrinkage and weights; else None."""
    final = last_step(model)
    if not isinstance(final, IndustryPeerRegressor):
        return None
    return final.industry, final.shrinkage, final.value_weight


@checked
def supports(model: Any, task: Task) -> bool:
    """Tell whether a model can do a task.

    Parameters
    ----------
    model : estimator
        A peer model of this package, a scikit-learn regressor, or a Pipeline of one; the last step counts.
    task : {"forecast", "explain"}
        ``"forecast"``: no outcome of the target period is used. ``"explain"``: the outcomes of a firm's
        peers of the same period are shown, its own is not.

    Returns
    -------
    bool
        A plain regressor can do both (it never sees peers' outcomes). A peer model forecasts unless it
        needs the target period's outcomes, and explains only if it reads outcomes (of its reference, for
        cross-attention); a search explains only with ``scoring=explain_score``.

    Raises
    ------
    InputError
        For an unknown task.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from peerattn.models import IndustryPeerRegressor
    >>> supports(Ridge(), "explain"), supports(IndustryPeerRegressor(), "explain")
    (True, True)
    """
    final = last_step(model)
    if not isinstance(final, PeerRegressor):
        return True
    if is_cross_attention(model):
        return bool(task == getattr(final, "task", None))
    if task == "forecast":
        return not final.needs_outcomes
    return bool(final.reads_outcomes) and all(s.scoring is explain_score for s in searches(model))


@dataclass(frozen=True)
class Entry:
    """A model of a comparison under its name, ready to be fitted on a fold.

    Attributes
    ----------
    name : str
    model : estimator
        As the user passed it; it is cloned for each fold and never changed.
    native : bool
        A peer model, which is given codes as codes and rows with unknown outcomes as peers.
    shown_outcomes : bool
        Whether it is shown the outcomes of peers (task "explain").
    own_only : bool
        Whether it is given characteristics without codes (the linear controls).
    control : bool
        Whether ``compare`` added it.
    reference : Reference or None
        The firms that answer, for cross-attention.
    """

    name: str
    model: Any
    native: bool
    shown_outcomes: bool = False
    own_only: bool = False
    control: bool = False
    reference: Reference | None = None

    @property
    def information(self) -> tuple[str, str]:
        """The step of the model among ``STEPS``, and what it reads in words."""
        step, reads = information_of(self.model, "explain" if self.shown_outcomes else "forecast")
        return step, "own x" if self.own_only and reads == "own x, codes" else reads

    def fit(self, fold: FoldRows) -> Any:
        """Return a fitted clone."""
        model = clone(self.model)
        if takes_panels(self.model):
            if fold.train is not None and reads_panels(model):  # checked once, for all of them
                return model.fit(fold.train, **self._reference_of(model))
            return model.fit(*self._labelled(fold.X_train, fold.y_train), **self._reference_of(model))
        known = fold.y_train.notna().to_numpy()
        rows = fold.X_train if reads_rows(model) else fold.encoded("train", self.own_only)
        y = fold.y_train if reads_rows(model) else fold.y_train.to_numpy()
        return model.fit(rows[known], y[known])

    def predict(self, model: Any, fold: FoldRows) -> np.ndarray:
        """Return one finite prediction for each test row, or raise naming this model."""
        if not takes_panels(self.model):
            rows = fold.X_call if reads_rows(model) else fold.encoded("call", self.own_only)
            return self._checked(model.predict(rows), fold)
        if fold.call is not None and reads_panels(model):
            return self._checked(model.predict(fold.call, **self._outcomes(fold.call.y)), fold)
        X, y = self._labelled(fold.X_call, fold.y_call)
        return self._checked(_fitted(model).predict(X, **self._outcomes(y)), fold)

    @property
    def shows_peers(self) -> bool:
        """Whether its peers belong in the report: those of the models passed, and of gradient boosting."""
        return self.name == BOOSTING or not self.control

    def network(self, model: Any, fold: FoldRows, at: np.ndarray) -> PeerNetwork | None:
        """Return the peers of some rows of the call; None for a model that has none.

        Those of a plain regressor are the firms whose training outcomes its predictions are made of.
        """
        if not self.native:
            return None if takes_panels(self.model) else self._training_peers(model, fold, at)
        X, y = self._labelled(fold.X_call[at], fold.y_call[at])
        model = _fitted(model)
        if isinstance(model, Pipeline):
            X, model = model[:-1].transform(X) if len(model) > 1 else X, model[-1]
        return model.peer_network(X, **self._outcomes(y))

    def _training_peers(self, model: Any, fold: FoldRows, at: np.ndarray) -> PeerNetwork | None:
        if reads_rows(model):
            return None
        rows = np.flatnonzero(at)
        rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), EXPLAINED)).round().astype(int)]
        known = fold.y_train.notna().to_numpy()
        train, call = fold.encoded("train", self.own_only)[known], fold.encoded("call", self.own_only)
        try:
            firm, period = map(str, call.index.names)
            return peer_weights(model, call.iloc[rows], train, fold.y_train[known], firm=firm, period=period)
        except ValueError:  # its predictions are no weighted sum of training outcomes
            return None

    def random_rows(self, X: pd.DataFrame, y: pd.Series) -> list[str]:
        """Return what in the model validates on random rows of the training rows it is fitted on, in words."""
        if takes_panels(self.model):
            X, y = self._labelled(X, y)
        else:
            X, y = X[y.notna()], y[y.notna()]
        return list(random_rows(self.model, X, y))

    def _outcomes(self, y: pd.Series) -> dict[str, pd.Series]:
        """Return what predict is shown: the outcomes of the call, where the task and the model have it so."""
        return {"outcomes": y} if self.shown_outcomes and self.reference is None else {}

    def _reference_of(self, model: Any) -> dict[str, Reference]:
        if self.reference is None:
            return {}
        inner = model.estimator if isinstance(model, BaseSearchCV) else model
        prefix = f"{inner.steps[-1][0]}__" if isinstance(inner, Pipeline) else ""
        return {f"{prefix}reference": self.reference}

    def _labelled(self, X: pd.DataFrame, y: pd.Series) -> tuple[pd.DataFrame, pd.Series]:
        """Name the index levels as this model expects them."""
        final = last_step(self.model)
        names: Any = dict(zip(LABELS, (final.firm, final.period)))
        return X.rename_axis(index=names), y.rename_axis(index=names)

    def _checked(self, predicted: Any, fold: FoldRows) -> np.ndarray:
        call, values = fold.X_call, np.asarray(predicted, dtype=float)
        wrong = ""
        if isinstance(predicted, pd.Series) and not predicted.index.equals(call.index):
            wrong = "its predictions carry other labels than the test rows."
        elif values.shape not in ((len(call),), (len(call), 1)):
            wrong = f"predictions of shape {values.shape} for {len(call)} test rows; one number per row is expected."
        elif len(broken := np.flatnonzero(~np.isfinite(values.reshape(-1)))):
            firm, period = map(show_label, call.index[broken[0]])
            wrong = (
                f"{len(broken)} of {len(values)} predictions are NaN or infinite (first: {firm} in {period}); all models "
                "must predict the same rows."
            )
        if wrong:
            raise InputError(f"model {self.name!r}: {wrong}")
        return values.reshape(-1)[fold.scored]


def _fitted(model: Any) -> Any:
    """Return the estimator that a fitted search chose, or the model itself."""
    if isinstance(model, Pipeline):
        name, final = model.steps[-1]
        return Pipeline([*model.steps[:-1], (name, _fitted(final))]) if any(searches(final)) else model
    return _fitted(model.best_estimator_) if isinstance(model, BaseSearchCV) else model


def entries_of(
    models: Mapping[str, Any], task: Task, panel: Panel, reference: Any = None, gaps: tuple[int, ...] = (1,)
) -> list[Entry]:
    """Return the models and the controls that are always there, each checked for the task.

    ``gaps`` are the periods between a row and the last one learned from, for controls that read a firm's past.

    Raises
    ------
    InputError
        For no models, a name that is not text or is reserved, an object that is not a regressor, or a model
        that cannot do the task.
    """
    if not isinstance(models, Mapping) or not models:
        raise InputError(
            "models must be a dictionary of at least one name and model, such as "
            "{'Kernel': NadarayaWatsonRegressor()}; "
            f"got {'an empty one' if isinstance(models, Mapping) else type(models).__name__}."
        )
    given = None if reference is None else Reference.of(reference)
    entries = [_entry(name, model, task, given) for name, model in models.items()]
    if given is not None and not any(entry.reference for entry in entries):
        raise InputError(
            'reference: no model uses it, as none has attention="cross"; leave it out, or add such a model.'
        )
    return entries + [entry for entry in _controls(task, panel, models, gaps) if entry.name not in models]


def _controls(task: Task, panel: Panel, models: Mapping[str, Any], gaps: tuple[int, ...]) -> Iterator[Entry]:
    """Yield what ``compare`` adds, so that at each step of information some model needs no peers.

    Own characteristics, linear and boosted; the firm's mean, its last value, and characteristics with the firm's past; what firms
    have in common: in explanations means of the period and of the industry's period, and their shocks beside all of the former;
    in forecasts the characteristics of all others, or of those of the industry.
    """
    if task == "explain":
        means = {ALL_OTHER_FIRMS: IndustryPeerRegressor(scheme="plain")}  # no industry is meant
        if panel.industry is not None:
            means[INDUSTRY_BY_PERIOD] = IndustryPeerRegressor(industry=panel.industry)
        given = {_grouped_by(model) for model in models.values()}
        for name, mean in means.items():
            if _grouped_by(mean) not in given:
                yield Entry(name, mean, native=True, shown_outcomes=True, control=True)
    if panel.choice.characteristics:
        yield Entry(OWN_CHARACTERISTICS, make_model("ols"), native=False, control=True)
        yield Entry(BOOSTING, make_model("boosting"), native=False, control=True)
        if task == "forecast":
            others = IndustryMeansRegressor(industry=panel.industry)
            yield Entry(OTHERS_CHARACTERISTICS, others, native=False, control=True)
    for name in ("firm_mean", "last_value"):
        yield Entry(model_title(name), make_model(name), native=False, own_only=True, control=True)
    shown = task == "explain"
    yield Entry(OWN_HISTORY, OwnHistoryRegressor(gaps=gaps), native=False, shown_outcomes=shown, control=True)
    if shown:
        common = CommonShocksRegressor(industry=panel.industry, gaps=gaps)
        yield Entry(COMMON_SHOCKS, common, native=False, shown_outcomes=True, control=True)
    yield Entry(PREVAILING_MEAN, DummyRegressor(), native=False, own_only=True, control=True)


def _entry(name: Any, model: Any, task: Task, reference: Reference | None) -> Entry:
    if not isinstance(name, str) or not name.strip() or name in RESERVED_NAMES:
        raise InputError(
            f"models: a name must be text other than {', '.join(map(repr, RESERVED_NAMES))}, got {name!r}."
        )
    if isinstance(model, type):
        raise InputError(
            f"model {name!r} is the class {model.__name__}; pass an instance, {model.__name__}()."
        )
    if isinstance(model, str):
        raise InputError(
            f"model {name!r} is the text {model!r}: pass a list of ready names, [{model!r}, ...], or make_model({model!r})."
        )
    if not hasattr(model, "fit") or not is_regressor(model):
        raise InputError(
            f"model {name!r}: expected a regressor with fit and predict, got {type(model).__name__}."
        )
    if not supports(model, task):
        raise InputError(f"model {name!r} cannot do task={task!r}: {_advice(model, task)}")
    native, across = is_peer_model(model), is_cross_attention(model)
    if across and (reference is None or (reference.y is not None) != (task == "explain")):
        needed = "with" if task == "explain" else "without"
        raise InputError(
            f"model {name!r} uses a reference universe: pass reference=, {needed} outcomes for task={task!r}."
        )
    shown = task == "explain" and (native or isinstance(last_step(model), OwnHistoryRegressor))
    return Entry(name, model, native, shown_outcomes=shown, reference=reference if across else None)


def _advice(model: Any, task: Task) -> str:
    if task == "forecast":
        return "it reads the outcomes of the period it predicts. Set task='forecast', or compare with task='explain'."
    if any(search.scoring is not explain_score for search in searches(model)):
        return "its search scores without peers' outcomes. Set scoring=explain_score, or use task='forecast'."
    return "it does not read peers' outcomes. Set task='explain', or compare with task='forecast'."
