"""Heads to start from: many random ones at once, successively halved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from peerattn.models.attention.descent import FINE_RATE, descend
from peerattn.models.attention.heads import Settings, with_heads
from peerattn.models.attention.peer_module import PeerModule, PeerSpec
from peerattn.models.attention.projection import (
    RIDGE,
    products,
    ridge_solution,
    shared_parameters,
    squared_errors,
    summed,
)
from peerattn.models.attention.samples import Sample

STARTS, ETA = 24, 4  # heads that start in a bracket, and one in how many goes on to its second rung
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
    found: PeerModule,
    left: PeerModule | None,
    training: Sample,
    generator: torch.Generator,
) -> PeerModule:
    """Return the best of many starts beside the heads found before, best first; those left from the last search compete.

    What heads share is learned with the first of them.
    """
    if spec.n_layers > 1:
        return _best_chains(spec, found, left, training, generator)
    best = left
    if spec.code_levels:
        within = _within_codes(spec, found, left, training, generator)
        best = within if left is None else beside(left, within)
    starts = random_heads(spec, STARTS, generator, training.settings, found if found.spec.n_heads else best)
    return _halved(starts, best, found, training, generator)[0]


def _best_chains(
    spec: PeerSpec,
    found: PeerModule,
    left: PeerModule | None,
    training: Sample,
    generator: torch.Generator,
) -> PeerModule:
    """Return the best chains of layers, which start from those that are shorter by one, at random, and from each other."""
    n = spec.n_layers
    shorter = best_starts(replace(spec, n_layers=n - 1), found, None, training, generator)
    like = found if found.spec.n_heads else left or shorter

    def bracket(
        known: PeerModule, places: Mapping[int, int], rivals: PeerModule | None
    ) -> tuple[PeerModule, float]:
        starts = random_heads(spec, STARTS * n, generator, training.settings, like)
        _put(known, starts, places)
        return _halved(starts, rivals, found, training, generator)

    best, error = bracket(shorter, {k: k + 1 for k in range(n - 1)}, left)
    if left is not None:
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
    found: PeerModule,
    training: Sample,
    generator: torch.Generator,
) -> tuple[PeerModule, float]:
    """Return the best of starts, successively halved, and of their rivals, best first, and the squared error of the best."""
    descend(starts, found, training, generator, 1, RATE)
    starts, _ = ranked(starts, found, training, starts.spec.n_heads // ETA)
    descend(starts, found, training, generator, 2, RATE)
    return ranked(starts if rivals is None else beside(rivals, starts), found, training, KEPT)


def _within_codes(
    spec: PeerSpec, found: PeerModule, left: PeerModule | None, training: Sample, generator: torch.Generator
) -> PeerModule:
    """Return a head for each code, optimised from a look to the firms of its own level."""
    like = found if found.spec.n_heads else left
    heads = random_heads(spec, len(spec.code_levels), generator, training.settings, like)
    for code in range(len(spec.code_levels)):
        heads.look_within(code, code)
    descend(heads, found, training, generator, 2, FINE_RATE)
    return heads


@torch.no_grad()
def _put(known: PeerModule, starts: PeerModule, places: Mapping[int, int]) -> None:
    """Put chains that are known into the starts, in turn: their layer k as layer ``places[k]``; other layers stay random.

    A layer sees what its predecessors add behind the inputs, so that what it looked for so far stands first.
    """
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


def ranked(starts: PeerModule, found: PeerModule, training: Sample, n_kept: int) -> tuple[PeerModule, float]:
    """Return the best starts, best first, and the squared error of the best."""
    gram, (_, n_targets) = summed(products(starts, found, training))
    errors = squared_errors(gram, ridge_solution(gram, n_targets, RIDGE))
    order = errors.argsort().cpu()
    return with_heads(starts, order[:n_kept]), float(errors.min())
