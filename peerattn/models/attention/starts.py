"""Heads to start from: many random ones at once, successively halved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from peerattn.models.attention.descent import FINE_RATE, descend, finish
from peerattn.models.attention.heads import Settings, with_heads
from peerattn.models.attention.peer_module import PeerModule, PeerSpec
from peerattn.models.attention.projection import (
    RIDGE,
    penalty,
    products,
    ridge_solution,
    shared_parameters,
    squared_errors,
    summed,
)
from peerattn.models.attention.samples import Sample

# heads that start in a bracket; of ETA one goes on to its second rung, with ETA times the steps
STARTS, ETA = 24, 4
KEPT = 3  # starts that are kept
RATE = 0.5  # peak learning rate of Adam in a bracket: at small rates starts stay where they are
TURNS = 3  # how often, at most, all layers of a chain and each by itself are drawn anew ...
GAIN = 0.02  # ... as long as a bracket lowers the squared error by this share


def random_heads(
    spec: PeerSpec,
    n_heads: int,
    generator: torch.Generator,
    settings: Settings,
    like: PeerModule | None = None,
) -> PeerModule:
    """Return heads at their random start; what heads share is taken from ``like`` and stays fixed."""
    module = PeerModule(replace(spec, n_heads=n_heads), generator, settings.dtype).to(settings.device)
    if like is not None:
        known = dict(like.named_parameters())
        for name, parameter in shared_parameters(module).items():
            parameter.data.copy_(known[name])
            parameter.requires_grad_(False)
    return module


def beside(found: PeerModule, more: PeerModule) -> PeerModule:
    """Return one module with the heads of both; what heads share is the second's."""
    both = with_heads(more, torch.arange(more.spec.n_heads))
    both.spec = replace(more.spec, n_heads=found.spec.n_heads + more.spec.n_heads)
    theirs = more.per_head()
    both.replace({name: torch.cat([mine, theirs[name]]) for name, mine in found.per_head().items()})
    return both


def best_starts(
    spec: PeerSpec,
    known: PeerModule | None,
    shorter: PeerModule | None,
    sample: Sample,
    generator: torch.Generator,
) -> PeerModule:
    """Return the best of many starts, best first; those known from earlier periods compete.

    What heads share is learned with the first of them. Chains of several layers start from those ``shorter`` by one.
    """
    if shorter is not None:
        return _best_chains(spec, known, shorter, sample, generator)
    if spec.code_levels:
        within = _within_codes(spec, known, sample, generator)
        known = within if known is None else beside(known, within)
    starts = random_heads(spec, STARTS, generator, sample.settings, known)
    return _halved(starts, known, sample, generator)[0]


def alone(starts: PeerModule) -> list[PeerModule]:
    """Return the best starts, one head each."""
    return [with_heads(starts, torch.tensor([k])) for k in range(min(KEPT, starts.spec.n_heads))]


def jointly(
    starts: PeerModule, rival: PeerModule | None, spec: PeerSpec, sample: Sample, generator: torch.Generator
) -> PeerModule:
    """Return the best start and, one by one, the heads that lower the error most beside it, all optimised together.

    The set of all heads competes with its ``rival``, the set of an earlier period.
    """
    found = with_heads(starts, torch.arange(1))
    finish(found, sample, generator)
    for size in range(2, spec.n_heads + 1):
        more = random_heads(spec, STARTS, generator, sample.settings, found)
        more, _ = _halved(more, starts, sample, generator, found)
        sets = _beside_each(found, _first(more, KEPT))
        if rival is not None and size == spec.n_heads:
            sets = beside(rival, sets).requires_grad_(True)
        descend(sets, None, sample, generator, 2, FINE_RATE, size)
        found, _ = ranked(sets, None, sample, 1, size)
        finish(found, sample, generator)
    return found


def _first(starts: PeerModule, n: int) -> PeerModule:
    return with_heads(starts, torch.arange(min(n, starts.spec.n_heads)))


def _beside_each(found: PeerModule, more: PeerModule) -> PeerModule:
    """Return as many sets of heads as there are more, one after another: those found before and one more."""
    n = found.spec.n_heads
    both, k = beside(found, more), torch.arange(more.spec.n_heads)
    order = torch.cat([torch.arange(n).expand(len(k), n), n + k[:, None]], dim=1)
    return with_heads(both, order.flatten()).requires_grad_(True)


def _best_chains(
    spec: PeerSpec,
    known: PeerModule | None,
    shorter: PeerModule,
    sample: Sample,
    generator: torch.Generator,
) -> PeerModule:
    """Return the best chains of layers, which start from those that are shorter by one, at random, and from each other."""
    n = spec.n_layers

    def bracket(
        chains: PeerModule, places: Mapping[int, int], rivals: PeerModule | None
    ) -> tuple[PeerModule, float]:
        starts = random_heads(spec, STARTS * n, generator, sample.settings, known or shorter)
        _put(chains, starts, places)
        return _halved(starts, rivals, sample, generator)

    best, error = bracket(shorter, {k: k + 1 for k in range(n - 1)}, known)
    if known is not None:
        return best
    in_vain = 0
    for turn in range(TURNS * (n + 1)):
        kept = [] if turn % (n + 1) == 0 else [k for k in range(n) if k != turn % (n + 1) - 1]
        best, lower = bracket(best, {k: k for k in kept}, best)
        error, in_vain = (lower, 0) if lower < (1 - GAIN) * error else (error, in_vain + 1)
        if in_vain > n:
            break
    return best


def _halved(
    starts: PeerModule,
    rivals: PeerModule | None,
    sample: Sample,
    generator: torch.Generator,
    found: PeerModule | None = None,
) -> tuple[PeerModule, float]:
    """Return starts, successively halved, and their rivals, best first beside heads found before, and the error of the best."""
    descend(starts, found, sample, generator, 1, RATE)
    starts, _ = ranked(starts, found, sample, starts.spec.n_heads // ETA)
    descend(starts, found, sample, generator, 2, RATE, cycles=ETA)
    every = starts if rivals is None else beside(rivals, starts)
    return ranked(every, found, sample, every.spec.n_heads)


def _within_codes(
    spec: PeerSpec, known: PeerModule | None, sample: Sample, generator: torch.Generator
) -> PeerModule:
    """Return a head for each code, optimised from a look to the firms of its own level."""
    heads = random_heads(spec, len(spec.code_levels), generator, sample.settings, known)
    for code in range(len(spec.code_levels)):
        heads.look_within(code, code)
    descend(heads, None, sample, generator, 2, FINE_RATE)
    return heads


@torch.no_grad()
def _put(known: PeerModule, starts: PeerModule, places: Mapping[int, int]) -> None:
    """Put chains that are known into the starts, in turn: their layer k as layer ``places[k]``; other layers stay random.

    A layer sees what its predecessors add behind the inputs, so that what it looked for so far stands first.
    """
    known = _first(known, KEPT)
    H, S = known.n_heads, starts.n_heads
    theirs, layers = ([*module.earlier(), module] for module in (known, starts))
    for k, place in places.items():
        mine = dict(layers[place].named_parameters())
        for name, parameter in theirs[k].named_parameters():
            if name in ("query.weight", "query.bias", "key.weight", "combine", "prior_strength", "nobody"):
                each = parameter.unflatten(0, (H, -1))
                values = each.repeat(S // H, *[1] * (each.dim() - 1)).flatten(0, 1)
                at = (slice(None), slice(values.shape[1])) if values.dim() > 1 else slice(None)
                mine[name][at] = values


def ranked(
    starts: PeerModule, found: PeerModule | None, sample: Sample, n_kept: int, size: int = 1
) -> tuple[PeerModule, float]:
    """Return the best sets of ``size`` heads, best first, and the error of the best: squared, times the penalty's exponential."""
    gram, (_, n_targets) = summed(products(starts, found, sample, size))
    errors = squared_errors(gram, ridge_solution(gram, n_targets, RIDGE))
    errors = errors * penalty(starts, sample).detach().view(len(errors), size).sum(1).exp()
    best = errors.argsort().cpu()[:n_kept]
    heads = best[:, None] * size + torch.arange(size)
    return with_heads(starts, heads.flatten()), float(errors.min())
