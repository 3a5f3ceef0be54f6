"""The search for attention heads: many random starts, head after head, and layer after layer."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

import torch

from peerattn.models.attention.descent import finish
from peerattn.models.attention.projection import solve
from peerattn.models.attention.samples import Sample
from peerattn.models.attention.starts import KEPT, Bracket
from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.heads.heads import Settings, average_unseen_codes
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec

TOGETHER = "heads"
ALONE = "heads, mean of starts"
SHORTER = "heads, one layer less"
Found = dict[str, list[PeerModule]]


def find_heads(
    spec: PeerSpec,
    sections: Sequence[CrossSection],
    settings: Settings,
    seed: int,
    warm: Sequence[PeerModule] = (),
) -> Iterator[Found]:
    r"""Yield heads that lower the squared error of the targets ``focal.y`` of the sections.

    Given weights, the loss is a ridge regression in value vectors (or slopes), which is solved exactly; only scores are
    optimised (variable projection):

    .. math:: \min_\theta\; N \log \min_{a, b} \Big[\sum_t \| M_t (y_t - X_t a - V_t(\theta) b) \|^2
              + \lambda_b (\|a\|^2 + \|b\|^2)\Big] + \lambda_\theta \|\theta\|^2

    V are the columns of a head, the weighted means of its peers' features (or outcomes); X are own inputs and the columns of
    heads found before; M takes out θ of the period's mean, :math:`\theta_t = 1 - (1 + n_t \tau)^{-1/2}`, the generalised least
    squares of common shocks, whose variance is τ times that of a row (random effects of periods; ``values="characteristics"``.
    Of outcomes, only a constant is taken out, since the mean of all others is the period's mean less the own outcome). What all
    firms of a period look to alike shows in its mean alone, and counts by what that says. With ``own="none"`` nothing is taken
    out.

    A bracket of ``STARTS`` random heads is optimised at once, and the best quarter goes on (successive halving): by L-BFGS where
    it can read all rows, else with four times the steps and at a lower rate. Heads found on earlier periods (``warm``) compete,
    and so does one head for each code, which starts from the firms of its own level. Heads are ranked by what is minimised, the
    penalty included.
    A set of ``spec.n_heads`` heads starts from the best one. A further head is drawn beside those found: the best candidates
    are each optimised together with them, and the best set goes on.

    Heads of several layers are chains i ← j ← k, and most random chains find nothing: whom j looks to matters only to the
    firms that look to j, so that neither layer shows what the other one has to learn. In one bracket the last layers of a
    chain therefore start from the best heads that are shorter by one layer (the firm's peers are known, their peers are
    searched). Then all layers, and each layer of the best chains by itself, are drawn anew in turn, until none of it lowers
    the squared error any more (iterated local search).

    The next of three rounds is searched when it is asked for, where the heads of the one before help: the best starts after the
    first rung of the bracket, one head each (of single layers); these after the second rung; and the set.

    No number of heads or layers is chosen here: the mean of the best starts, one head each, the set, and the set of one layer
    less are predictions of their own, which the candidates' problem weighs (combined, not selected).

    Yields
    ------
    dict of list of PeerModule
        By name: the best starts after the first rung, a head each; these after the second, and the set of one layer less, where
        there are several layers; the set. In float64, with own term and value vectors (or slopes) by ridge regression.

    References
    ----------
    Golub and Pereyra (1973), SIAM Journal on Numerical Analysis 10.
    Jamieson and Talwalkar (2016), Non-stochastic best arm identification, AISTATS.
    Liu and Nocedal (1989), On the limited memory BFGS method for large scale optimization, Mathematical Programming 45.
    Lourenço, Martin and Stützle (2003), Iterated local search, in: Handbook of Metaheuristics.
    Wallace and Hussain (1969), The use of error components models, Econometrica 37: θ.
    """
    generator = torch.Generator().manual_seed(seed)
    sample = Sample(sections, settings)
    starts: PeerModule | None = None
    together: list[PeerModule] = []
    for n_layers in range(1, spec.n_layers + 1):
        bracket = Bracket(replace(spec, n_layers=n_layers), sample, generator)
        earlier = [copy.deepcopy(m).to(settings.dtype) for m in warm if m.spec.n_layers == n_layers]
        known = reduce(PeerModule.accompanying, earlier) if earlier else None
        if starts is None:
            starts, known = bracket.first(known)
            if spec.n_layers == 1:
                early = starts if known is None else bracket.ranked(known.accompanying(starts), None, KEPT)[0]
                yield {ALONE: _standalone(early, sample)}
            starts = bracket.further(starts, known)[0]
        else:
            starts = bracket.chains(known, starts)
        if n_layers == spec.n_layers:
            _solved(together, sample)
            yield {ALONE: _standalone(starts, sample)} | ({SHORTER: together} if together else {})
        rival = next((m for m in earlier if m.spec.n_heads == spec.n_heads > 1), None)
        together = [bracket.jointly(starts, rival)]
    yield {TOGETHER: _solved(together, sample)}


def refit_heads(
    heads: list[PeerModule], sections: Sequence[CrossSection], settings: Settings, seed: int
) -> None:
    """Optimise heads further on other cross-sections, each set from where it stands, in place; what is linear is solved."""
    generator = torch.Generator().manual_seed(seed)
    sample = Sample(sections, settings)
    for module in heads:
        finish(module.to(settings.dtype), sample, generator)
    _solved(heads, sample)


def _standalone(starts: PeerModule, sample: Sample) -> list[PeerModule]:
    """Return the best starts, one head each."""
    return _solved([starts.take([k]) for k in range(min(KEPT, starts.spec.n_heads))], sample)


def _solved(heads: list[PeerModule], sample: Sample) -> list[PeerModule]:
    """Return heads as they are reported: what is linear solved, in place."""
    for module in heads:
        average_unseen_codes(module, sample.sections)
    solve(heads, sample)
    return heads
