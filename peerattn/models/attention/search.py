"""The search for attention heads: head after head, and layer after layer, as long as held-out periods speak for it."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from peerattn.models.attention.descent import FINE_RATE, descend, finish
from peerattn.models.attention.heads import Settings, average_unseen_codes, with_heads
from peerattn.models.attention.origins import row_keys
from peerattn.models.attention.peer_module import PeerModule, PeerSpec
from peerattn.models.attention.projection import held_out_losses, solve
from peerattn.models.attention.samples import Sample
from peerattn.models.attention.starts import beside, best_starts, random_heads
from peerattn.models.pools import Section

HELD_OUT = 0.2  # share of the periods on which another head must show what it adds
MIN_CLUSTERS = 5  # held-out periods from which a standard error by period can be taken
ERRORS = 2.0  # standard errors by which a further head must lower the held-out loss ...
LONGER = 1.0  # ... and by which longer chains must (Breiman et al. 1984)


def find_heads(
    spec: PeerSpec,
    sections: Sequence[Section],
    settings: Settings,
    seed: int,
    warm: Sequence[PeerModule] = (),
) -> list[PeerModule]:
    r"""Return up to ``spec.n_heads`` heads that lower the squared error of the targets ``focal.y`` of the sections.

    Given weights, the loss is a ridge regression in value vectors (or slopes), which is solved exactly; only scores are
    optimised (variable projection):

    .. math:: \min_\theta\; N \log \min_{a, b} \Big[\sum_t \| M_t (y_t - X_t a - V_t(\theta) b) \|^2
              + \lambda_b (\|a\|^2 + \|b\|^2)\Big] + \lambda_\theta \|\theta\|^2

    V are the columns of a head, the weighted means of its peers' features (or outcomes); X are own inputs and the columns of
    heads found before; M takes out the period's mean, the generalised least squares of common shocks that are most of the
    variance (``values="characteristics"``; of outcomes, only a constant is taken out, since the mean of all others is the
    period's mean less the own outcome). With ``own="none"`` nothing is taken out.

    For each head a bracket of ``STARTS`` random heads is optimised at once, and the best quarter goes on with twice the rows
    a step; heads found on earlier periods (``warm``) compete, and so does one head for each code, which starts from the firms
    of its own level. A further head is kept
    if it lowers the squared error on the last fifth of the periods by two standard errors. All are then optimised together.

    Heads of several layers are chains i ← j ← k, and most random chains find nothing: whom j looks to matters only to the
    firms that look to j, so that neither layer shows what the other one has to learn. In one bracket the last layers of a
    chain therefore start from the best heads that are shorter by one layer (the firm's peers are known, their peers are
    searched). Then all layers, and each layer of the best chains by itself, are drawn anew in turn, until none of it lowers
    the squared error any more (iterated local search). Longer chains are taken if they lower the log of the shorter ones'
    squared error, period by period on the last fifth of the periods, by one standard error: where the truth is short they
    have the larger error, since they fit more.

    The best starts are returned beside it, each optimised by itself: their mean is steadier than any of them, and the
    candidates' problem weighs them all (combined, not selected).

    Returns
    -------
    list of PeerModule
        The heads together; then the best other starts, a head each. In float64, with own term and value vectors (or slopes) by
        ridge regression.

    References
    ----------
    Golub and Pereyra (1973), SIAM Journal on Numerical Analysis 10.
    Jamieson and Talwalkar (2016), Non-stochastic best arm identification, AISTATS.
    Lourenço, Martin and Stützle (2003), Iterated local search, in: Handbook of Metaheuristics.
    """
    generator = torch.Generator().manual_seed(seed)
    training, held_out = (Sample(part, settings) for part in split(sections))
    everything, one = Sample(sections, settings), replace(spec, n_layers=1)
    known = _together([m for m in warm if m.spec.n_layers == 1], settings)
    nobody = random_heads(one, 0, generator, settings)
    singles = best_starts(one, nobody, known, training, generator)
    best = _grown(singles, one, training, held_out, generator)
    for n_layers in range(2, spec.n_layers + 1):
        known = _together([m for m in warm if m.spec.n_layers == n_layers], settings)
        deeper = replace(spec, n_layers=n_layers)
        chains = best_starts(deeper, random_heads(deeper, 0, generator, settings), known, training, generator)
        longer = _grown(chains, deeper, training, held_out, generator)
        shorter_loss, longer_loss = (_settled(m, training, held_out, generator).log() for m in (best, longer))
        fall = shorter_loss - longer_loss  # in logs: a period counts by the share of its loss that is saved
        if not fall.mean() > LONGER * fall.std() / len(fall) ** 0.5:
            break
        best = longer
    finish(best, everything, generator)
    others = with_heads(singles, torch.arange(1, singles.spec.n_heads)).requires_grad_(True)
    if others.spec.n_heads:
        descend(others, None, everything, generator, 2, FINE_RATE)
    found = [best, *(with_heads(others, torch.tensor([k])) for k in range(others.spec.n_heads))]
    wide = Sample(sections, replace(settings, dtype=torch.float64))
    for module in found:
        average_unseen_codes(module, sections)
        solve(module.double(), wide)
    return found


def _together(warm: Sequence[PeerModule], settings: Settings) -> PeerModule | None:
    """Return the heads of earlier fits as one module, to start from; what they share is the first one's."""
    found: PeerModule | None = None
    for module in warm:
        found = copy.deepcopy(module) if found is None else beside(copy.deepcopy(module), found)
    return None if found is None else found.to(settings.dtype)


def _settled(module: PeerModule, training: Sample, held_out: Sample, generator: torch.Generator) -> Tensor:
    """Return the held-out losses (T,) of the heads, optimised together."""
    finish(module, training, generator)
    return held_out_losses(module, None, training, held_out, joint=True)[0].clamp(min=1e-30)


def _grown(
    starts: PeerModule, spec: PeerSpec, training: Sample, held_out: Sample, generator: torch.Generator
) -> PeerModule:
    """Return head after head from the best start on, as long as each lowers the held-out loss; at least one."""
    nobody = random_heads(spec, 0, generator, training.settings)
    without = before = held_out_losses(nobody, None, training, held_out)[0]
    found = nobody
    while found.spec.n_heads < spec.n_heads:
        if found.spec.n_heads:
            starts = best_starts(spec, found, starts, training, generator)
        grown = beside(found, with_heads(starts, torch.arange(1)))
        fall = before - held_out_losses(grown, None, training, held_out, joint=True)[0]
        worth = _is_worth(fall, without)
        if worth or not found.spec.n_heads:
            found = grown
        if not worth or found.spec.n_heads == spec.n_heads:
            break
        finish(found, training, generator)
        before = held_out_losses(found, None, training, held_out, joint=True)[0]
    return found


def split(sections: Sequence[Section]) -> tuple[list[Section], list[Section]]:
    """Return training and held-out sections: the last periods are held out; where periods are few, a fifth of the firms."""
    n = round(len(sections) * HELD_OUT)
    if n >= MIN_CLUSTERS:
        return list(sections[:-n]), list(sections[-n:])
    one_in, n_blocks = round(1 / HELD_OUT), math.ceil(MIN_CLUSTERS / len(sections))
    training, held_out = [], []
    for section in sections:
        identity = section.focal.identity if section.period is not None else row_keys(section.focal)
        number = np.where(identity < 0, np.arange(len(identity)), identity)
        chosen = number % one_in == 0
        training.append(_focal(section, ~chosen))
        held_out += [_focal(section, chosen & (number // one_in % n_blocks == k)) for k in range(n_blocks)]
    training, held_out = ([s for s in part if len(s.focal)] for part in (training, held_out))
    return (training, held_out) if training and held_out else (list(sections), list(sections))


def _focal(section: Section, chosen: np.ndarray) -> Section:
    at = np.flatnonzero(chosen)
    return replace(section, at=at, focal=section.focal.take(at))


def _is_worth(fall: Tensor, without: Tensor) -> bool:
    """Tell whether a fall of the held-out losses (T,) is beyond its standard error."""
    share = fall / without.sum().clamp(min=1e-30)
    error = float(share.std()) * len(share) ** 0.5 if len(share) > 1 else math.inf
    return float(share.sum()) > ERRORS * error
