"""The candidates that an estimator's options name, in the order of what they read."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from peerattn.models.attention.common import fit_common
from peerattn.models.attention.heads import Settings
from peerattn.models.attention.judging import COMMON, HISTORY, SHAPE, Candidate
from peerattn.models.attention.losses import squared_error
from peerattn.models.attention.own_history import fit_history
from peerattn.models.attention.own_shape import fit_curves, fit_estimator, shaped
from peerattn.models.attention.peer_module import PeerSpec
from peerattn.models.attention.peers import covariance_candidates, heads_candidate
from peerattn.models.attention.training import Problem, Training
from peerattn.processes import joined

D_CODE = 4  # width of a code's embedding


def candidates_of(
    model: Any, problem: Problem, settings: Settings, draws: np.ndarray, weighed: bool
) -> list[Candidate]:
    """Return the candidates of an attention model; ``weighed``: rows have frequency weights."""
    heads = [heads_candidate(_spec(model), settings, int(draws[1]))] if model.n_heads else []
    if model.kappa is None:
        return heads
    found = _shapes(model.own, problem)
    if problem.loss is squared_error and problem.dated and problem.own and not joined():
        found += _histories(model.own)
        if problem.outcomes and model.attention == "self":
            found += _common(list(model.design_.levels))
    if _reads_covariance(model, problem, settings, weighed):
        found += covariance_candidates(settings, int(draws[0]))
    return found + heads


def _shapes(own: Any, problem: Problem) -> list[Candidate]:
    """Return what the firm's own characteristics say beyond lines."""
    if not isinstance(own, str):
        return [Candidate("estimator", SHAPE, lambda t, *_: shaped(fit_estimator(t, own)))]
    if own != "flexible" or problem.loss is not squared_error or joined():
        return []
    return [
        Candidate("curves", SHAPE, lambda t, *_: shaped(fit_curves(t, products=False))),
        Candidate("products", SHAPE, lambda t, *_: shaped(fit_curves(t, products=True))),
        Candidate("trees", SHAPE, lambda t, *_: shaped(fit_estimator(t))),
    ]


def _histories(own: Any) -> list[Candidate]:
    """Return what the firm's own past outcomes say."""
    found = [
        Candidate("firm effect", HISTORY, lambda t, *_: fit_history(t, lag=False)),
        Candidate("autoregression", HISTORY, lambda t, *_: fit_history(t, lag=True)),
    ]
    if own == "flexible":
        found.append(
            Candidate("trees with past", HISTORY, lambda t, *_: fit_history(t, lag=True, trees=True))
        )
    return found


def _common(codes: list[str]) -> list[Candidate]:
    """Return what is common to a period, and to each code's level in it."""

    def common(training: Training, *_: Any, code: int | None) -> Any:
        return fit_common(training, code)

    names = {"period": None} | {f"{name} x period": c for c, name in enumerate(codes)}
    return [Candidate(name, COMMON, partial(common, code=code)) for name, code in names.items()]


def _reads_covariance(model: Any, problem: Problem, settings: Settings, weighed: bool) -> bool:
    """Whether a covariance is learned: where no option is of pairs or weights."""
    restricted = settings.terms.priors or model.similarity != "scaled_dot_product" or model.n_layers > 1
    squared = problem.loss is squared_error
    return problem.outcomes and squared and not restricted and not weighed and model.n_heads > 0


def _spec(model: Any) -> PeerSpec:
    symmetric, numbers = model.similarity == "symmetric", len(model.design_.number_names)
    return PeerSpec(
        n_characteristics=numbers,
        code_levels=tuple(len(levels) for levels in model.design_.levels.values()),
        d_code=D_CODE,
        n_heads=model.n_heads,
        d_head=min(model.d_head, max(numbers, D_CODE)),  # no more than characteristics
        n_layers=model.n_layers,
        values=model.values,
        own="linear" if isinstance(model.own, str) and model.own != "none" else "none",
        similarity="scaled_dot_product" if symmetric else model.similarity,
        symmetric=symmetric,
        n_priors=len(model.pair_terms_.soft),
        n_outputs=model._n_outputs(),
        nobody=not any(prior.only for prior in model.pair_terms_.priors),
    )
