"""The candidates that an estimator's options name, in the order of what they read."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.dummy import DummyRegressor

from peerattn.exceptions import InputError, check_one_of
from peerattn.models.learners import nonlinear
from peerattn.models.learners.common import SLOPES, PeriodMean, fit_code_shocks, fit_slopes_within
from peerattn.models.learners.covariance.covariance import Covariance
from peerattn.models.learners.covariance.fit import fit_covariance
from peerattn.models.learners.covariance.ridge import fit_ridge_covariance
from peerattn.models.learners.heads.heads import Heads, OwnSlopes
from peerattn.models.learners.heads.learner import HeadsLearner
from peerattn.models.learners.heads.nuisance import FitOwn
from peerattn.models.learners.heads.peer_module import PeerSpec
from peerattn.models.learners.heads.selection import InFull, selected, split
from peerattn.models.learners.history import fit_autoregression, fit_effect, fit_trees_with_past, fit_trend
from peerattn.models.learners.losses import squared_error
from peerattn.models.learners.protocol import Added, Learner, fit_added
from peerattn.models.learners.training import Problem, Training
from peerattn.models.stacking.groups import COMMON, HISTORY, NONLINEAR, PEERS, Candidate

D_CODE = 4  # width of a code's embedding
COVARIANCE = "covariance"
RIDGE = "ridge"
HEADS = "heads"
OWN_CODES = "own codes"  # the linear own part with codes: the model of attention without heads


def heads_and_own(model: BaseEstimator, problem: Problem, draws: np.ndarray) -> list[Candidate]:
    """Return the candidates of an attention model: its heads, and an own part of codes or by an estimator."""
    heads = heads_candidates(model, int(draws[1]))
    own = list[Candidate]()
    if not isinstance(model.own, str):
        own = own_candidates(problem, int(draws[2]), model.own)[:1]
    elif model.own != "none" and problem.code_levels:
        # heads see codes: without this the level of an industry would pass for its peers
        own = [Candidate(OWN_CODES, NONLINEAR, partial(_fit_own_codes, model, int(draws[2])))]
    if model.own == "curves":
        in_full = Candidate("curves", NONLINEAR, partial(_fit_curves_in_full, model, int(draws[2])))
        own.append(in_full if model.kappa is None else CURVES)
    if heads and problem.own and model.kappa is not None:
        own += controls_of_heads(model, problem)
    return own + heads


def controls_of_heads(model: BaseEstimator, problem: Problem) -> list[Candidate]:
    """Return models of the firm itself beyond which heads are tested: nonlinear ones, and slopes within periods.

    What a firm attends to depends on its characteristics, so that heads without any peer of use can predict as a curve does. And
    own slopes trained beside heads are net of what periods share, which those of least squares are not.
    """
    controls = [TREES]
    if model.own != "curves":  # there they are weighed
        controls = [CURVES, TREES]
    if problem.loss is squared_error and problem.dated and model.attention == "self":
        controls.append(slopes_within())
    return [replace(each, weighed=False) for each in controls]


#: The nonlinear own-firm models that there are for every loss.
CURVES = Candidate("curves", NONLINEAR, lambda t, _: nonlinear.fit_curves(t))
TREES = Candidate("trees", NONLINEAR, lambda t, _: nonlinear.fit_trees(t))


def curves_of(training: Training) -> FitOwn:
    """Return what fits curves to some cross-sections of the training rows: heads are trained beside them."""
    return lambda sections: nonlinear.fit_curves(replace(training, sections=sections))


def all_candidates(model: BaseEstimator, problem: Problem, draws: np.ndarray) -> list[Candidate]:
    """Return the candidates of the stack, in the order of the information that they use."""
    squared = problem.loss is squared_error
    found = own_candidates(problem, int(draws[2]), model.own)
    # common shocks are of a panel's periods; a reference of cross-attention has dates of its own
    if squared and problem.dated and problem.own and model.attention == "self":
        found += common_candidates(problem, range(len(problem.code_levels)))
    # a relation that was named, or another score, is a statement about heads: a covariance would not keep to it
    restricted = problem.terms.priors or model.similarity != "scaled_dot_product" or model.n_layers > 1
    if problem.outcomes and squared and not restricted and not problem.weighed and model.n_heads:
        found += covariance_candidates(int(draws[0]))
    return found + heads_candidates(model, int(draws[1]))


def _fit_own_codes(model: BaseEstimator, seed: int, training: Training, _: Any) -> InFull:
    """Fit the model of attention without heads: slopes on own characteristics and on vectors of own codes."""
    learner = _heads_learner(_spec(model), model, seed, training).without_heads()
    fitted = learner.fit(training.with_outcomes).heads_
    return InFull(OwnSlopes(fitted), fitted.size, fitted.mean_factor)


def _fit_curves_in_full(model: BaseEstimator, seed: int, training: Training, _: Any) -> InFull | None:
    """Fit curves, whose factor held-out periods give beside own codes; not to rows that are too few to hold some out."""
    problem = training.problem
    fitted = nonlinear.fit_curves(training)
    if fitted is None or not split(training.with_outcomes, problem.purge)[0]:
        return None
    *codes, curves = _heads_learner(_spec(model), model, seed, training).own_models()
    chosen = selected([curves], [], training.with_outcomes, problem.loss, problem.purge, codes, problem.within)
    return InFull(fitted, chosen.size, chosen.mean_factor)


def _fit_heads(spec: PeerSpec, model: BaseEstimator, seed: int, training: Training, _: Any) -> Heads:
    return _heads_learner(spec, model, seed, training).fit(training.with_outcomes).heads_


def _heads_learner(spec: PeerSpec, model: BaseEstimator, seed: int, training: Training) -> HeadsLearner:
    """Return the learner of heads; those that nothing else gives a weight find one by themselves."""
    problem = training.problem
    options: dict[str, Any] = {"shrinks": model.kappa is None, "averages": training.final, "purge": problem.purge}
    options["within"] = problem.within
    if model.own == "curves" or (model.kappa is not None and model.own not in ("linear", "none")):
        options["own_model"] = curves_of(training)
    return HeadsLearner(spec, problem.terms, problem.loss, seed, problem.dtype, problem.device, **options)


#: What a user calls the information that a learner uses, and its group.
INFORMATION = {"own": NONLINEAR, "history": HISTORY, "common": COMMON, "peers": PEERS}


def user_candidates(learners: Sequence[tuple[str, Any, str]]) -> list[Candidate]:
    """Return the user's own learners as candidates."""
    found = []
    for entry in learners:
        if not isinstance(entry, tuple | list) or len(entry) != 3 or not isinstance(entry[0], str):
            raise InputError(f"learners: expected (name, learner, information), got {entry!r}.")
        name, learner, information = entry
        check_one_of(information=(information, list(INFORMATION)))
        of_own = information == "own" and isinstance(learner, BaseEstimator) and is_regressor(learner)
        if isinstance(learner, type) or not (isinstance(learner, Learner) or of_own):
            raise InputError(
                f"learners: {name!r} must be an object, no class, with fit(sections), predict(sections) and "
                f'weights(section, rows) (peerattn.models.Learner), or with information "own" be a regressor; got {learner!r}.'
            )
        made = partial(_fit_users, name=name, learner=learner, group=INFORMATION[information])
        found.append(Candidate(name, INFORMATION[information], made))
    return found


def _fit_users(training: Training, _: Any, *, name: str, learner: Any, group: str) -> Added | nonlinear.Estimated:
    if isinstance(learner, Learner):
        return fit_added(training, name, learner, peers=group == PEERS, common=group == COMMON)
    return nonlinear.fit_estimator(training, learner)


def own_candidates(problem: Problem, seed: int, own: Any = "flexible") -> list[Candidate]:
    """Return what reads the firm itself alone: shapes of its characteristics, and its own past outcomes."""
    squared = problem.loss is squared_error
    found = list[Candidate]()
    flexible = isinstance(own, str) and own == "flexible"
    if not isinstance(own, str):
        found.append(Candidate("estimator", NONLINEAR, lambda t, _: nonlinear.fit_estimator(t, own)))
    elif flexible and not squared:
        found += [CURVES, TREES]
    elif flexible:
        found += [
            Candidate("mean", NONLINEAR, lambda t, _: nonlinear.fit_estimator(t, DummyRegressor(), by_place=True)),
            CURVES,
            TREES,
            Candidate("forest", NONLINEAR, lambda t, _: nonlinear.fit_forest(t, seed)),
            Candidate("line and forest", NONLINEAR, lambda t, _: nonlinear.fit_line_and_forest(t, seed)),
        ]
    if squared and problem.dated and problem.own:
        found.append(Candidate("firm effect", HISTORY, lambda t, _: fit_effect(t)))
        found.append(Candidate("firm trend", HISTORY, lambda t, _: fit_trend(t)))
        found.append(Candidate("autoregression", HISTORY, lambda t, _: fit_autoregression(t)))
        if flexible:
            found.append(Candidate("trees with past", HISTORY, lambda t, _: fit_trees_with_past(t)))
    return found


def slopes_within() -> Candidate:
    """Return the slopes of own characteristics within periods."""
    return Candidate(SLOPES, COMMON, lambda t, _: fit_slopes_within(t))


def common_candidates(problem: Problem, codes: Sequence[int]) -> list[Candidate]:
    """Return slopes within periods; and of observed outcomes what all firms, and those of codes (by position), share."""
    found = [slopes_within()]
    if problem.outcomes:
        found.append(Candidate("period", COMMON, lambda t, _: PeriodMean()))
        if codes:
            found.append(Candidate("codes x period", COMMON, lambda t, _: fit_code_shocks(t, codes)))
    return found


def covariance_candidates(seed: int, *, past: bool = True) -> list[Candidate]:
    """Return the learned covariance, which may read the past, and the ridge across firms as one."""

    def covariance(training: Training, start: Covariance | None) -> Covariance:
        problem = training.problem
        history = None
        if past and problem.dated and problem.reads_past:
            history = training.history
        options: dict[str, Any] = {"seed": seed, "dtype": problem.dtype, "device": problem.device}
        return fit_covariance(training.residuals, past=history, start=start, **options)

    def ridge(training: Training, _: Any) -> Covariance:
        return fit_ridge_covariance(training.residuals, training.problem.code_levels)

    return [Candidate(COVARIANCE, PEERS, covariance), Candidate(RIDGE, PEERS, ridge)]


def heads_candidates(model: BaseEstimator, seed: int) -> list[Candidate]:
    """Return attention heads, where there are any."""
    if not model.n_heads:
        return []
    return [Candidate(HEADS, PEERS, partial(_fit_heads, _spec(model), model, seed), trained=True)]


#: What values heads have in each task.
VALUES = {"forecast": "characteristics", "nowcast": "outcomes"}


def _spec(model: BaseEstimator) -> PeerSpec:
    symmetric = model.similarity == "symmetric"
    numbers = len(model.design_.number_names)
    own = "linear"
    if not isinstance(model.own, str) or model.own == "none":
        own = "none"
    return PeerSpec(
        n_characteristics=numbers,
        code_levels=tuple(len(levels) for levels in model.design_.levels.values()),
        d_code=D_CODE,
        n_heads=model.n_heads,
        d_head=min(model.d_head, max(numbers, D_CODE)),  # no more than characteristics
        n_layers=model.n_layers,
        values=VALUES[model.task],
        own=own,
        similarity="scaled_dot_product" if symmetric else model.similarity,
        symmetric=symmetric,
        n_priors=len(model.pair_terms_.soft),
        n_outputs=model._n_outputs(),
        null_peer=not any(prior.only for prior in model.pair_terms_.priors),
    )
