"""A transformer over the firms of a period, weighed by held-out periods."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize_scalar
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from peerattn.exceptions import InputError
from peerattn.models.attention.base import MOST, PanelStack
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.firm_transformer import TransformerSpec
from peerattn.models.learners.losses import Loss, huber, loss_of, squared_error
from peerattn.models.learners.training import Problem, Training
from peerattn.models.learners.transformer import TransformerLearner, TransformerTraining
from peerattn.models.mixins import PanelRegressorMixin
from peerattn.models.networks import NetworkMaker, RowWeights
from peerattn.models.stacking.candidates import common_candidates, own_candidates
from peerattn.models.stacking.groups import NONLINEAR, PEERS, Candidate
from peerattn.models.stacking.origins import outcomes_of
from peerattn.models.transformer_results import chosen_layer, portfolio_table, squared_error_of, table_of_heads
from peerattn.network import PeerNetwork, rollout
from peerattn.panel.panel import Panel
from peerattn.training.prunable import PrunableHeads
from peerattn.types import OutcomesLike, PanelLike

TRANSFORMER = "transformer"
CONTROL = "network without attention"


@dataclass(eq=False, repr=False, kw_only=True)
class PeerTransformerRegressor(PanelRegressorMixin, PrunableHeads, PanelStack):
    r"""A transformer over the firms of a period, beside the firm's own part.

    .. math:: \hat y_i = \text{own}_i + c \, (f(r^L_i) - \text{own}_i), \qquad
              r^0_i = x_i W_E + \textstyle\sum_g e_{g(i)}, \qquad r^l = \text{block}_l(r^{l-1})

    Tokens are the firms of a period, without positions; a block is :class:`~peerattn.nn.TransformerBlock`: multi-head attention
    to the other firms of the period, a feed-forward network, residuals and normalisation. Peers may therefore be used in any
    shape: products with own characteristics, thresholds, absolute values. The own part is least squares and, where held-out
    periods choose them, the same network without attention, slopes within periods, and in a nowcast the shocks of a period and
    of codes; c is what held-out later periods show of the transformer beside them,
    weighed as in :class:`~peerattn.models.StackedPeerRegressor`. With ``task="nowcast"`` the outcomes of the other firms are
    inputs of their tokens and the own one never is: with several layers firms are split into folds, each predicted with its own
    fold hidden.

    Parameters
    ----------
    attention : {"self", "cross", False}, default "self"
        "self": to the other firms of the period; "cross": to a ``reference``; False: the same network without attention, a
        control.
    task : {"forecast", "nowcast"}, default "forecast"
        Whether tokens of peers hold characteristics and codes alone, or their outcome of the period, too.
    loss : {"squared_error", "huber", "rank", "sharpe"}, default "squared_error"
        What the network learns by. "rank": the mean information coefficient, the correlation of ranks within periods, with
        ranks softened; predictions are in units of the outcome. "sharpe": the Sharpe ratio of the portfolio whose weights are
        the predictions (maximum Sharpe ratio regression); outcomes are then returns, ``predict`` gives portfolio weights
        (absolute weights add up to 1 in the average training period), and the network is used alone (``portfolio_`` compares).
    own : {"linear", "none", "flexible"} or scikit-learn estimator, default "linear"
        Own part beside the network without attention: least squares; nothing; least squares, curves, boosting and forests; least
        squares and an estimator.
    n_layers, n_heads, d_model : int, default 1, 2, 32
        Blocks, heads in each, width of a firm's state; the feed-forward network is twice as wide.
    n_seeds : int, default 2
        Networks from different random starts, whose predictions are averaged.
    max_steps : int, default 400
        Most steps of training; on fewer rows there are fewer.
    scale : {"standard", "rank", None}, default "standard"
        As in :class:`PeerAttentionRegressor`.
    codes : sequence of str, default ()
        Columns that are codes; columns of dtype category or string are codes in any case. Each level has a learned vector.
    kappa : float or None, default 1.0
        Standard errors that the score of own parts must exceed to get weight, and twice that many of the transformer. None: it
        is used in full.
    purge : int, default 0
        Periods before each held-out block that are not learned from. With outcomes over h periods, h − 1.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.
    random_state : int, RandomState or None, default None
        Initial values and order of the periods.
    precision : {"auto", "float32", "bfloat16"}, default "auto"
        Of products of matrices in training; "auto" is bfloat16 on a GPU that has it, else float32.
    verbose : bool, default False
        Show a progress bar for each fit of a network.

    Attributes
    ----------
    evidence_, gain_, stability_ : DataFrame
        As in :class:`PeerAttentionRegressor`.
    heads_ : DataFrame
        Every head, by seed and layer; empty where the transformer was not selected. :func:`peerattn.evaluation.head_importance`
        gives what each is worth.
    portfolio_ : DataFrame
        With ``loss="sharpe"``: Sharpe ratio and t on held-out later periods of the portfolio, of the same network without
        attention, and of a linear one.

    Notes
    -----
    A firm without an admissible peer gets its own part. Weights of attention show what a layer uses, not what a prediction rests
    on (Jain and Wallace 2019), and are no causal peer effects. Training stops early by the last 15 % of the periods, a gap of
    ``purge`` before them. With fewer than 50 rows of known outcome nothing is tested: least squares.

    References
    ----------
    Vaswani et al. (2017), Attention is all you need, NeurIPS. Kelly, Kuznetsov, Malamud and Xu (2025), Artificial intelligence
    asset pricing models, NBER working paper 33351. Devlin et al. (2019), BERT, NAACL (masked inputs). Jain and Wallace (2019),
    Attention is not explanation, NAACL.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> index = pd.MultiIndex.from_product([range(20), range(2000, 2010)], names=["firm", "period"])
    >>> X = pd.DataFrame(rng.normal(size=(200, 2)), index=index, columns=["size", "leverage"])
    >>> y = X["size"] + 0.5 * rng.normal(size=200)
    >>> model = PeerTransformerRegressor(random_state=0).fit(X, y)
    >>> float(model.evidence_.loc["peers", "factor"])  # no peers in these data
    0.0
    """

    attention: str | bool = "self"
    task: str = "forecast"
    loss: str = "squared_error"
    own: Any = "linear"
    n_layers: int = 1
    n_heads: int = 2
    d_model: int = 32
    n_seeds: int = 2
    max_steps: int = 400
    scale: str | None = "standard"
    codes: Sequence[str] = ()
    kappa: float | None = 1.0
    purge: int = 0
    firm: str = "firm"
    period: str = "period"
    random_state: int | np.random.RandomState | None = None
    precision: str = "auto"
    verbose: bool = False
    _parameter_constraints = PanelStack._parameter_constraints | {
        "attention": [StrOptions({"self", "cross"}), Options(bool, {False})],
        "loss": [StrOptions({"squared_error", "huber", "rank", "sharpe"})],
        "own": [StrOptions({"linear", "none", "flexible"}), HasMethods(["fit", "predict"])],
        **dict.fromkeys(("n_layers", "n_heads", "d_model", "n_seeds"), [Interval(Integral, 1, MOST, closed="both")]),
        "max_steps": [Interval(Integral, 1, None, closed="left")],
        "precision": [StrOptions({"auto", "float32", "bfloat16"})],
        "verbose": ["boolean"],
    }

    # ------------------------------------------------------------------ learning

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.d_model % self.n_heads:
            raise InputError(f"n_heads: expected a divisor of d_model={self.d_model}, got {self.n_heads}. Change one of them.")
        if self.loss == "sharpe" and self.task != "forecast":
            raise InputError('loss="sharpe" needs task="forecast": a portfolio is formed before returns are observed.')

    def _learn(self, training: Rows, panel: Panel, device: str = "cpu") -> None:
        if not panel.dated:
            if self.loss in ("rank", "sharpe"):
                raise InputError(f"loss={self.loss!r} needs periods, and X carries none: set firm and period as its index.")
            device = "cpu"  # arrays are learned in float64
        super()._learn(training, panel, device)
        if self.loss == "sharpe":
            self.portfolio_ = self._portfolios(training, panel, device)

    def _portfolios(self, training: Rows, panel: Panel, device: str) -> pd.DataFrame:
        """Compare the portfolio with that of the same network without attention, and a linear one."""
        problem = replace(self._problem(panel.dated, weighed=False), device=device)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        learners = {}
        if self.attention is not False:
            learners[TRANSFORMER] = self._learner(problem, seed, attends=True)
        learners[CONTROL] = self._learner(problem, seed, attends=False)
        return portfolio_table(self._training_sections(training, panel), problem, learners)

    @property
    def _kappa(self) -> float | None:
        # weights of a portfolio do not add up with an own part that predicts returns
        return None if self.loss == "sharpe" else self.kappa

    def _problem(self, dated: bool, weighed: bool) -> Problem:
        problem = super()._problem(dated, weighed)
        return replace(problem, own=problem.own and self.loss != "sharpe")

    def _standardise_outcomes(self, training: Rows) -> Rows:
        if self.loss != "sharpe":
            return super()._standardise_outcomes(training)
        # a portfolio earns the level of returns, too
        self.y_center_ = 0.0
        self.y_scale_ = float(np.nanstd(training.outcomes)) or 1.0
        return self._in_units(training)

    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        if self.loss != "sharpe":
            return super()._attend(section)
        outputs, isolated = self._outputs(section)
        return outputs[:, 0] / len(outputs), isolated

    def _candidates(self, problem: Problem, draws: np.ndarray) -> list[Candidate]:
        """Return own candidates, the network without attention among them, and the transformer."""
        attends = self.attention is not False
        # without attention it is a nonlinear own-firm model
        group = PEERS if attends else NONLINEAR
        transformer = transformer_candidate(TRANSFORMER, group, self._learner(problem, int(draws[1]), attends))
        if self._kappa is None:
            return [transformer]
        own = [each for each in own_candidates(problem, int(draws[2]), self.own) if each.group == NONLINEAR]
        if attends:
            transformer = self.as_learner(TRANSFORMER, problem, int(draws[1]))
            # a network without attention shows what is gained by its shape, not by peers
            own.append(transformer_candidate(CONTROL, NONLINEAR, self._learner(problem, int(draws[0]), attends=False)))
        if problem.loss is squared_error and problem.dated and problem.own and self.attention != "cross":
            own += common_candidates(problem, range(len(problem.code_levels)))
        return [*own, transformer]

    def as_learner(self, name: str, problem: Problem, seed: int) -> Candidate:
        """Return the transformer of these options as a peer learner of a stack."""
        # of other seeds than the network without attention among own models: by chance none is nearer to that than the other
        control = self._learner(problem, (seed + 1) % 2**31, attends=False)
        return transformer_candidate(name, PEERS, self._learner(problem, seed, attends=True), control)

    def _learner(self, problem: Problem, seed: int, attends: bool) -> TransformerLearner:
        spec = TransformerSpec(
            code_levels=problem.code_levels, n_outputs=problem.n_outputs, outcomes=problem.outcomes and attends, attends=attends,
            d_model=self.d_model, n_heads=self.n_heads, n_layers=self.n_layers, d_feedforward=2 * self.d_model,
        )  # fmt: skip
        dtype = str(problem.dtype).removeprefix("torch.")
        progress = type(self).__name__ if self.verbose else None
        how = TransformerTraining(
            loss=self.loss, n_seeds=self.n_seeds, max_steps=self.max_steps, seed=seed, dtype=dtype, device=problem.device,
            precision=self.precision, progress=progress, purge=problem.purge,
        )  # fmt: skip
        return TransformerLearner(spec, how)

    def _loss(self) -> Loss:
        if self.loss == "huber":
            return huber
        return squared_error

    # ------------------------------------------------------------------ heads

    def _set_heads(self) -> None:
        """List the heads of the fitted transformer."""
        self.heads_ = table_of_heads(self.n_heads_by_layer())

    @property
    def _transformer(self) -> TransformerLearner | None:  # None where it was not selected
        found = self.stack_.fitted.get(TRANSFORMER)
        assert found is None or isinstance(found, TransformerLearner)
        return found

    def _module(self) -> torch.nn.ModuleList:
        check_is_fitted(self, "stack_")
        learner = self._transformer
        if learner is None or not learner.spec.attends:
            return torch.nn.ModuleList()
        return learner.modules()

    def _keep(self, module: torch.nn.Module) -> None:
        if self._transformer is not None:
            pruned = replace(self._transformer)
            pruned.keep(module)
            self.stack_ = replace(self.stack_, fitted=self.stack_.fitted | {TRANSFORMER: pruned})
        self._set_heads()

    def _loss_sums(
        self, module: torch.nn.ModuleList, X: PanelLike, y: OutcomesLike, **given: Any
    ) -> Iterator[tuple[Tensor, int]]:
        """Yield the squared error of each cross-section's known outcomes, in units of training."""
        learner = self._transformer
        _, sections = self._gate_call(X, **given)
        truth = self._check(X, y, fitting=False).outcomes
        if learner is None or truth is None or not np.isfinite(truth).any():
            raise InputError("y: the importance of heads is measured on known outcomes, got none.")
        targets = (truth - self.y_center_) / self.y_scale_
        for section in sections:
            with_targets = replace(section, focal=replace(section.focal, y=targets[section.at]))
            if np.isfinite(targets[section.at]).any():
                yield squared_error_of(learner, module, self._as_seen(with_targets))

    # ------------------------------------------------------------------ networks

    def peer_network(
        self, X: PanelLike, *, layer: int | None = None, head: int | None = None, top_k: int | None = None, **given: Any
    ) -> PeerNetwork:
        """Return the attention of a layer when ``predict`` is called with the same arguments.

        Parameters
        ----------
        X, **given
            As in ``predict``.
        layer : int, optional
            From 0; by default the last. Seeds and heads are averaged evenly.
        head : int, optional
            One row of ``heads_`` alone.
        top_k : int, optional
            Keep only so many peers of each firm, those of the largest weight.

        Returns
        -------
        PeerNetwork
            ``W[i, j]`` is the weight firm *i* puts on peer *j*; rows sum to one (less with ``top_k``). All firms are isolates
            where the transformer was not selected.
        """
        return self._network_of(self._network_maker(layer, head, top_k), X, **given)

    def rollout(self, X: PanelLike, *, residual: float = 0.5, **given: Any) -> PeerNetwork:
        """Return what all layers add up to: how much of each firm's input reaches each prediction.

        Parameters
        ----------
        X, **given
            As in ``predict``.
        residual : float, default 0.5
            Share of a firm's state that passes by the attention of a layer, see :func:`peerattn.network.rollout`.
        """
        layers = [self.peer_network(X, layer=layer, **given) for layer in range(self.n_layers)]
        return rollout(layers, residual=residual)

    def search_profile(self, X: PanelLike = None) -> NoReturn:
        """Raise an error: scores of tokens are not a product of characteristics."""
        check_is_fitted(self, "stack_")
        raise InputError(f"search_profile() needs attention heads, which {type(self).__name__} does not have.")

    def _network_maker(  # type: ignore[override]
        self, layer: int | None = None, head: int | None = None, top_k: int | None = None
    ) -> NetworkMaker:
        check_is_fitted(self, "stack_")
        which = chosen_layer(self.heads_, self.n_layers, layer, head)
        return partial(self._network, weights=partial(self._of_layer, **which), top_k=top_k, signed=False)

    def _of_layer(self, section: CrossSection, **which: Any) -> RowWeights:
        if self._transformer is None:
            return lambda rows: np.zeros((rows.stop - rows.start, len(section.peers)))
        return partial(self._transformer.weights, self._as_seen(section), **which)


def transformer_candidate(
    name: str, group: str, learner: TransformerLearner, without_attention: TransformerLearner | None = None
) -> Candidate:
    """Return a transformer as a candidate, its scale fitted to the loss by which it learns, and the control of its test."""
    loss = learner.training.loss

    def make(training: Training, start: TransformerLearner | None) -> TransformerLearner:
        fitted = replace(learner).fit(training.residuals, start)
        if training.problem.loss is not squared_error or loss == "rank":
            _scale_to_loss(fitted, training)
        if loss == "sharpe":
            # absolute weights of the average period add up to one
            gross = np.mean([np.abs(weights).mean() for weights in fitted.predict(training.residuals)])
            fitted.scale /= float(gross) or 1.0
        return fitted

    control = None
    if without_attention is not None:
        control = transformer_candidate(f"{name}, without attention", group, without_attention)
    return Candidate(name, group, make, control)


def _scale_to_loss(learner: TransformerLearner, training: Training) -> None:
    """Multiply what a learner adds by the number of least loss (Friedman 2001), in place."""
    base = np.concatenate([section.own_term for section in training.residuals])
    added = np.concatenate(learner.predict(training.residuals)) - base
    y, weight = outcomes_of(training.sections)
    loss = lambda factor: float(loss_of(training.problem.loss, base + factor * added, y) @ weight)  # noqa: E731
    learner.scale *= float(minimize_scalar(loss, bounds=(0.0, 16.0), method="bounded").x)
