"""Pipelines, searches and other estimators around a model: what of them predicts, and how they are fitted to panels."""

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline

from peerattn.evaluation.running.information import last_step, steps_of
from peerattn.models import PanelEstimator, PeerFeatures
from peerattn.panel import Panel


def searches(model: object) -> list[BaseSearchCV]:
    """Return the searches a model is wrapped in."""
    return [step for step in steps_of(model) if isinstance(step, BaseSearchCV)]


def trials(fitted: object) -> int:
    """Return how many settings were tried to fit a model: those of its search, 1 without one."""
    return max((len(search.cv_results_["params"]) for search in searches(fitted)), default=1)


def takes_panels(model: BaseEstimator) -> bool:
    """Return whether a model, or the last step of it, reads panels itself and needs no encoding."""
    return isinstance(last_step(model), PanelEstimator)


def reads_rows(model: BaseEstimator) -> bool:
    """Return whether a plain regressor comes after peer features, which read labels and codes as they are."""
    inner = model.estimator if isinstance(model, BaseSearchCV) else model
    return isinstance(inner, Pipeline) and isinstance(inner[0], PeerFeatures)


def keep_labels(model: BaseEstimator) -> None:
    """Let the transformers before a model of panels return frames: without labels all periods would be one."""
    for pipeline in (step for step in steps_of(model) if isinstance(step, Pipeline)):
        for _, transformer in pipeline.steps[:-1]:
            if hasattr(transformer, "set_output"):
                transformer.set_output(transform="pandas")


def fit_features(model: Pipeline, train: Panel) -> Pipeline:
    """Fit a pipeline whose peer features are made of all firms, and what follows of those of known outcome."""
    features = model[0].fit_transform(train)  # a Panel holds the dates at which outcomes are known
    known = train.y.notna().to_numpy()
    rest = model[1:].fit(features[known], train.y[known])
    return Pipeline([model.steps[0], *rest.steps])


def chosen_model(model: BaseEstimator) -> Any:
    """Return the estimator that a fitted search chose, or the model itself."""
    if isinstance(model, BaseSearchCV):
        return chosen_model(model.best_estimator_)
    if isinstance(model, Pipeline) and searches(model):
        *before, (name, final) = model.steps
        return Pipeline([*before, (name, chosen_model(final))])
    return model
