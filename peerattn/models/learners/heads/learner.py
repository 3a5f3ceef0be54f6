"""The learner of attention heads: fitted to cross-sections, it predicts, and gives its weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Self

import numpy as np
import torch

from peerattn.exceptions import InputError
from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.batches import Sample
from peerattn.models.learners.heads.heads import Heads, Member, average_unseen_codes, contribution_spreads
from peerattn.models.learners.heads.nuisance import FitOwn, fit_nuisance
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec
from peerattn.models.learners.heads.selection import Fit, Predict, Selection, selected
from peerattn.models.learners.heads.training import (
    DEFAULT,
    TrainingOptions,
    equal_weights,
    in_window,
    loss_reductions,
    make_objective,
    train_seeds,
)
from peerattn.models.learners.linear import CLIP
from peerattn.models.learners.losses import Loss, squared_error
from peerattn.models.learners.priors import NO_TERMS, PairTerms, Prior
from peerattn.network import PeerNetwork

KEYS = 2**15  # of peers, heads and seeds in a step
FEW_SEEDS = 4  # are trained however large pools are
FIRMS = 500  # focal firms of a cross-section whose weights are compared


@dataclass
class HeadsLearner:
    r"""Attention heads beside an own part, trained by AdamW.

    .. math:: \hat y_i = own_i + x_i b + \sum_h \sum_{j \in pool(i) \cup \{null\}} \alpha^h_{ij} v^h_j

    Own slopes b, on characteristics and code vectors, are trained beside the heads.

    Several seeds are trained at once, and some of them find no network. The prediction is the mean of those in Occam's window
    (Madigan and Raftery 1994), whose training loss L falls nearly as far below that of the own part as the smallest does:

    .. math:: \log L_{own} - \log L_s \ge 0.85 \, \max_r (\log L_{own} - \log L_r)

    Where many networks fit alike, their mean predicts better than any of them, and depends less on the random state. Where
    nearly all seeds are outside the window they are stuck, as with two networks, of which each seed has found one at most:
    heads are then combined across seeds by orthogonal matching pursuit (Pati, Rezaiifar and Krishnaprasad 1993), and trained for
    a second cycle.

    Parameters
    ----------
    spec : PeerSpec
        Number and form of the heads.
    terms : PairTerms, optional
        What is known of pairs of firms beforehand.
    loss : callable, default squared error
        Any differentiable loss of a row.
    seed : int, default 0
    dtype, device
        Where and in what precision training takes place. Fitted heads are arrays in float64.
    options : TrainingOptions, optional
    shrinks : bool, default True
        Whether weight decays and a factor of what heads add are chosen on held-out later periods: not where a stack weighs the
        heads, which then have the first decay.
    averages : bool, default True
        Whether more seeds are drawn where their networks differ, until others would give much the same: not at an earlier
        origin.
    equal : bool, default False
        Scores are not learned: weights are equal on all firms that ``terms`` allow.
    purge : int, default 0
        Periods before held-out ones that are not learned from, as their outcomes are not known by then.
    within : bool, default False
        Whether the factor of what heads add is that of differences within periods.
    own_model : callable, optional
        Fits a nonlinear own-firm model to cross-sections. Heads are trained beside what it predicts beyond a line, cross-fitted,
        with a slope of its own in each seed (:func:`fit_nuisance`): they do not follow it.

    Attributes
    ----------
    heads_ : Heads
        After ``fit``.

    Examples
    --------
    >>> from peerattn.models.cross_section import Rows
    >>> import pandas as pd
    >>> rng, sections = np.random.default_rng(0), []
    >>> for period in range(4):
    ...     x = rng.normal(size=(6, 1))
    ...     firms = pd.RangeIndex(6)
    ...     rows = Rows(x, np.zeros((6, 0), int), x[::-1, 0], None, np.arange(6), firms, firms)
    ...     sections.append(CrossSection(period, slice(0, 6), rows, rows, own=(np.zeros((6, 1)), np.zeros((6, 1)))))
    >>> learner = HeadsLearner(PeerSpec(1, n_heads=1), options=TrainingOptions(max_steps=5)).fit(sections)
    >>> learner.weights(sections[0], slice(0, 6)).shape
    (6, 6)

    References
    ----------
    Madigan and Raftery (1994), Model selection and accounting for model uncertainty in graphical models using Occam's window,
    Journal of the American Statistical Association 89.
    Pati, Rezaiifar and Krishnaprasad (1993), Orthogonal matching pursuit, Asilomar Conference on Signals, Systems and Computers.
    """

    spec: PeerSpec
    terms: PairTerms = NO_TERMS
    loss: Loss = squared_error
    seed: int = 0
    dtype: torch.dtype = torch.float32
    device: str | torch.device = "cpu"
    options: TrainingOptions = field(default_factory=lambda: DEFAULT)
    shrinks: bool = True
    averages: bool = True
    equal: bool = False
    purge: int = 0
    within: bool = False
    own_model: FitOwn | None = None

    def fit(self, sections: Sequence[CrossSection]) -> Self:
        """Train heads on cross-sections.

        Parameters
        ----------
        sections : sequence of CrossSection
            In order of time. Targets are the outcomes of the focal rows, ``own`` is what the own part predicts. With outcomes as
            values, those of the peers are what their own part leaves.

        Raises
        ------
        InputError
            When a cross-section has no outcomes or no own part.
        """
        for section in sections:
            if section.focal.y is None or section.own is None:
                raise InputError("sections: expected outcomes and an own part, got a cross-section without. Set both.")
        options = _of_size(self.options, self.spec, sections)
        learner = replace(self, options=options)._with(options.weight_decays[:1])
        chosen = Selection()
        if self.shrinks:
            tried = [learner._with((decay,)) for decay in options.weight_decays]
            fallbacks = learner._fallbacks(sections)
            of_fits = [each._predictor for each in tried]
            of_fallbacks = [each._predictor for each in fallbacks]
            own = learner.own_models() if self.spec.n_heads else []
            chosen = selected(of_fits, of_fallbacks, sections, self.loss, self.purge, own, self.within)
            learner = learner._with(tuple(options.weight_decays[k] for k in chosen.fits))
            if chosen.fallback is not None:
                learner = fallbacks[chosen.fallback]
        n_draws = 1
        if self.averages and chosen.size and self.spec.n_heads and not learner.equal:
            n_draws = self.options.max_draws
        heads = learner._trained(sections, n_draws, measured=sections)
        self.heads_ = replace(heads, size=chosen.size, mean_factor=chosen.mean_factor)
        return self

    def own_models(self) -> list[Fit]:
        """Return what is fitted to the firm itself beside least squares: slopes on codes, and the nonlinear own-firm model."""
        own = list[Fit]()
        if self.spec.code_levels and self.spec.own == "linear":
            own.append(self.without_heads()._predictor)
        if self.own_model is not None:
            own.append(self._own_predictor)
        return own

    def without_heads(self) -> Self:
        """Return the learner of own slopes alone, on characteristics and code vectors: what heads are compared with."""
        return replace(self, spec=replace(self.spec, n_heads=0, n_layers=1), terms=NO_TERMS, own_model=None)

    def _with(self, weight_decays: tuple[float, ...]) -> Self:
        return replace(self, options=replace(self.options, weight_decays=weight_decays))

    def _fallbacks(self, sections: Sequence[CrossSection]) -> list[Self]:
        """Return heads of equal weights on related firms, by each code and prior: where scores show nothing, industry peers."""
        nothing = self.spec.values == "characteristics" and not self.spec.n_characteristics
        if nothing or not self.spec.n_heads or self.spec.n_layers > 1 or self.loss is not squared_error:
            return []
        imposed = [prior for prior in self.terms.priors if prior.only]
        among = [Prior(code, only=True) for code in self.terms.columns]
        among += [replace(prior, only=True) for prior in self.terms.soft if isinstance(prior.source, PeerNetwork)]
        related = [[*imposed, relation] for relation in among if relation not in imposed]
        if imposed:
            related.append(imposed)
        # values are those of an industry's mean: outliers count, as far as training has any
        clip = max(float(np.abs(section.peers.x).max(initial=CLIP)) for section in sections)
        # embeddings of the code would be constants of its levels
        spec = replace(self.spec, n_heads=1, null_peer=False, code_levels=(), n_priors=0, clip=clip)
        one = replace(self, spec=spec, equal=True)
        return [replace(one, terms=replace(self.terms, priors=tuple(priors))) for priors in related]

    def _trained(self, sections: Sequence[CrossSection], n_draws: int, measured: Sequence[CrossSection]) -> Heads:
        """Return heads of so many draws of seeds at most, whose contributions are ``measured`` on these cross-sections."""
        nuisance = None
        if self.own_model is not None:
            nuisance = fit_nuisance(self.own_model, sections, self.loss, self.within)
        if nuisance is None:
            sample = Sample(sections, self.terms, self.dtype, self.device)
            return self._heads(self._drawn(sample, n_draws), measured)
        sample = Sample(sections, self.terms, self.dtype, self.device, nuisance.values)
        learner = replace(self, spec=replace(self.spec, nuisance=True))
        heads = learner._heads(learner._drawn(sample, n_draws), measured)
        slope = sum(mix * float(member.state["nuisance_slope"][0]) for mix, member in zip(heads.mix, heads.members, strict=True))
        return replace(heads, nuisance=replace(nuisance.function, factor=slope * nuisance.function.factor))

    def _drawn(self, sample: Sample, most: int) -> list[list[PeerModule]]:
        """Return modules of several draws of seeds, by weight decay.

        There are so many draws, ``most`` at most, that the network of others would be much the same.
        """
        largest = max(sample.sections, key=lambda section: len(section.focal))
        draws = list[list[Seeds]]()
        networks = dict[PeerModule, np.ndarray]()
        for number in range(most):
            draws.append(replace(self, seed=self.seed + number)._draw(sample))
            # seeds of one weight decay are compared: a smaller one fits training rows better
            kept = [modules_in_window(of_decay, self.options.window) for of_decay in zip(*draws, strict=True)]
            if number + 1 == most:
                break
            for module in chain(*(seeds.modules for seeds in draws[-1])):
                heads = self._heads([[module]], [largest])
                networks[module] = heads.weights(largest)(slice(0, FIRMS)).ravel().astype(np.float32)
            of_draws = [[networks[module] for module in chain(*of_draw)] for of_draw in zip(*kept, strict=True)]
            if number > 0:
                agreement = reliability([np.mean(of_draw, axis=0) for of_draw in of_draws if of_draw])
            elif any(seeds.combined for seeds in draws[0]):  # they have the same heads from the start
                agreement = 0.0
            else:  # its seeds share batches, so that their mean may be no closer to that of others than each of them
                agreement = mean_correlation(of_draws[0])
            # the correlation of a single pair of draws is too uncertain to end with
            if agreement >= self.options.stable and number != 1:
                break
        return [list(chain(*of_decay)) for of_decay in kept]

    def _heads(self, fitted: Sequence[Sequence[PeerModule]], sections: Sequence[CrossSection]) -> Heads:
        """Return the mean over weight decays of the mean of their modules."""
        modules = list(chain(*fitted))
        spreads = contribution_spreads(modules, sections, self.terms, self.dtype)
        mix = tuple(1 / len(fitted) / len(of_decay) for of_decay in fitted for _ in of_decay)
        return Heads(tuple(map(Member.from_module, modules, spreads)), self.terms, mix)

    def _predictor(self, sections: Sequence[CrossSection]) -> Predict:
        """Return the predictions of heads that are trained on cross-sections."""
        return self._trained(sections, 1, measured=sections[-1:]).predict

    def _own_predictor(self, sections: Sequence[CrossSection]) -> Predict:
        """Return the predictions of the nonlinear own-firm model; of least squares where it cannot be fitted."""
        assert self.own_model is not None
        fitted = self.own_model(sections)
        if fitted is None:
            return lambda later: [section.own_term for section in later]
        return fitted.predict

    def _draw(self, sample: Sample) -> list["Seeds"]:
        """Return one draw of seeds of each weight decay, trained: those that are averaged, the best one first."""
        objective = make_objective(sample, self.loss, self.spec)
        if self.equal:
            return [Seeds([equal_weights(self.spec, sample, objective).double().cpu()])]
        found = []
        for decay in self.options.weight_decays:
            options = replace(self.options, weight_decays=(decay,))
            trained = train_seeds(self.spec, sample, objective, options, torch.Generator("cpu").manual_seed(self.seed))
            seeds = trained.seeds
            # what is fitted predicts in float64, and on the CPU, wherever and in whatever precision it was trained
            modules = [seeds.seed(number).rescale(objective.unit).double().cpu() for number in range(seeds.spec.n_seeds)]
            for module in modules:
                average_unseen_codes(module, sample.sections)
            found.append(Seeds(modules, partial(loss_reductions, seeds, sample, objective), trained.combined))
        return found

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return the own part plus what heads add before any factor, (n_focal, K) each; their own outcomes are not used."""
        return self.heads_.predict(sections)

    def weights(self, section: CrossSection, rows: slice) -> np.ndarray:
        """Return the weights of some focal rows on their peers, (n_rows, n_peers); rows sum to one."""
        return self.heads_.network(section)(rows)


@dataclass(frozen=True)
class Seeds:
    """Trained seeds of one draw and weight decay, and what gives the fall of the log training loss of each, (n_seeds,).

    ``combined``: whether they were trained from starts of the same heads.
    """

    modules: list[PeerModule]
    reductions: Callable[[], torch.Tensor] = partial(torch.zeros, 1)
    combined: bool = False

    @cached_property
    def loss_reductions(self) -> torch.Tensor:
        """The fall of the log training loss of each seed: measured where draws are compared."""
        return self.reductions()


def modules_in_window(draws: Sequence[Seeds], window: float) -> list[list[PeerModule]]:
    """Return of each draw the modules in Occam's window of all draws.

    Those of a single draw are all in it: they were chosen so in training.
    """
    if len(draws) == 1:
        return [draws[0].modules]
    draw_of = [k for k, draw in enumerate(draws) for _ in draw.modules]
    modules = [module for draw in draws for module in draw.modules]
    inside = set(in_window(torch.cat([draw.loss_reductions for draw in draws]), window))
    return [[modules[m] for m in sorted(inside) if draw_of[m] == k] for k in range(len(draws))]


def _of_size(options: TrainingOptions, spec: PeerSpec, sections: Sequence[CrossSection]) -> TrainingOptions:
    """Return the options with as many seeds as a step can hold where pools are large."""
    if not spec.n_heads:  # own slopes are the same from every start
        return replace(options, n_seeds=1)
    wanted = options.n_seeds
    if spec.n_heads == 1:  # a seed of one head is stuck in a local optimum more often than one of several
        wanted *= 2
    widest = max(len(section.peers) for section in sections)
    # seeds are one batch dimension: a step holds the keys of all of them
    affordable = KEYS // (widest * spec.n_heads)
    return replace(options, n_seeds=min(wanted, max(FEW_SEEDS, affordable)))


def reliability(networks: Sequence[np.ndarray]) -> float:
    r"""Return the expected correlation of the mean of networks with the mean of as many others; 0 of a single one.

    With r the mean correlation of two of k networks: :math:`k r / (1 + (k - 1) r)` (Spearman 1910; Brown 1910).
    """
    k = len(networks)
    r = mean_correlation(networks)
    return k * r / (1 + (k - 1) * r)


def mean_correlation(networks: Sequence[np.ndarray]) -> float:
    """Return the mean correlation of two of these networks, 1 of flat ones; 0 of a single one."""
    k = len(networks)
    if k < 2:
        return 0.0
    # own weights, and forbidden ones, are zero in all
    there = np.any(networks, axis=0)
    values = [network[there] for network in networks]
    if not there.any() or min(np.std(value) for value in values) == 0:
        return 1.0
    return float((np.corrcoef(values).sum() - k) / (k * (k - 1)))
