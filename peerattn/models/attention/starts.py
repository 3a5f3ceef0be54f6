"""Heads to start from: many random ones at once, successively halved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from peerattn.models.attention.descent import descend, explore, finish
from peerattn.models.attention.projection import errors
from peerattn.models.attention.samples import ETA, Sample
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec

STARTS = 24  # heads that start in a bracket
KEPT = 3  # starts that are kept
TURNS = 3  # how often, at most, all layers of a chain and each by itself are drawn anew ...
GAIN = 0.02  # ... as long as a bracket lowers the squared error by this share


class Bracket:
    """Draws heads of a specification, and halves them on a sample."""

    def __init__(self, spec: PeerSpec, sample: Sample, generator: torch.Generator):
        self.spec = spec
        self.sample = sample
        self.generator = generator

    def random(self, n_heads: int, like: PeerModule | None) -> PeerModule:
        """Return heads at their random start; what heads share is taken from ``like`` and stays fixed."""
        settings = self.sample.settings
        spec = replace(self.spec, n_heads=n_heads)
        module = PeerModule(spec, self.generator, settings.dtype).to(settings.device)
        if like is not None:
            module.embeddings.load_state_dict(like.embeddings.state_dict())
            module.embeddings.requires_grad_(False)
        return module

    def first(self, known: PeerModule | None) -> tuple[PeerModule, PeerModule | None]:
        """Return the best of many starts after their first rung, and the rivals of the second: heads known from earlier periods.

        What heads share is learned with the first of them.
        """
        if self.spec.code_levels:  # a head for each code, which first looks to the firms of its own level
            within = self.random(len(self.spec.code_levels), known)
            for code in range(len(self.spec.code_levels)):
                within.look_within(code, code)
            descend(within, None, self.sample, self.generator)
            known = within if known is None else known.accompanying(within)
        return self.halving(self.random(STARTS, known), None), known

    def jointly(self, starts: PeerModule, rival: PeerModule | None) -> PeerModule:
        """Return the best start and, one by one, the heads that lower the error most beside it, all optimised together.

        The set of all heads competes with its ``rival``, the set of an earlier period.
        """
        found = starts.take([0])
        finish(found, self.sample, self.generator)
        for size in range(2, self.spec.n_heads + 1):
            more = self.further(self.halving(self.random(STARTS, found), found), starts, found)[0]
            n_more = min(KEPT, more.spec.n_heads)
            sets = [h for k in range(n_more) for h in (*range(size - 1), size - 1 + k)]
            competing = found.accompanying(more).take(sets)
            if rival is not None and size == self.spec.n_heads:
                competing = rival.accompanying(competing)
            competing.requires_grad_(True)
            descend(competing, None, self.sample, self.generator, size)
            found = self.ranked(competing, None, 1, size)[0]
            finish(found, self.sample, self.generator)
        return found

    def halving(self, starts: PeerModule, found: PeerModule | None) -> PeerModule:
        """Return the best quarter of starts after the first rung, best first beside heads found before."""
        explore(starts, found, self.sample, self.generator)
        return self.ranked(starts, found, starts.spec.n_heads // ETA)[0]

    def further(
        self, starts: PeerModule, rivals: PeerModule | None, found: PeerModule | None = None
    ) -> tuple[PeerModule, float]:
        """Return starts after their second rung, and their rivals, best first beside heads found before; and the least error."""
        descend(starts, found, self.sample, self.generator, cycles=ETA)
        every = starts if rivals is None else rivals.accompanying(starts)
        return self.ranked(every, found, every.spec.n_heads)

    def ranked(
        self, starts: PeerModule, found: PeerModule | None, n_kept: int, size: int = 1
    ) -> tuple[PeerModule, float]:
        """Return the best sets of ``size`` heads, best first, and the error of the best."""
        error = errors(starts, found, self.sample, size)
        heads = error.argsort()[:n_kept, None] * size + torch.arange(size)
        return starts.take(heads.flatten()), float(error.min())

    def chains(self, known: PeerModule | None, shorter: PeerModule) -> PeerModule:
        """Return the best chains of layers, which start from those that are shorter by one, at random, and from each other."""
        n = self.spec.n_layers

        def bracket(
            chains: PeerModule, places: Mapping[int, int], rivals: PeerModule | None
        ) -> tuple[PeerModule, float]:
            starts = self.random(STARTS * n, known or shorter)
            put(chains.take(range(min(KEPT, chains.spec.n_heads))), starts, places)
            return self.further(self.halving(starts, None), rivals)

        best, error = bracket(shorter, {k: k + 1 for k in range(n - 1)}, known)
        if known is not None:
            return best
        futile = 0
        for turn in range(TURNS * (n + 1)):
            anew = turn % (n + 1) - 1  # the layer that is drawn anew; −1: all of them
            places = {k: k for k in range(n) if k != anew} if anew >= 0 else {}
            best, lower = bracket(best, places, best)
            error, futile = (lower, 0) if lower < (1 - GAIN) * error else (error, futile + 1)
            if futile > n:
                break
        return best


@torch.no_grad()
def put(known: PeerModule, starts: PeerModule, places: Mapping[int, int]) -> None:
    """Put chains that are known into the starts, in turn: their layer k as layer ``places[k]``; other layers stay random.

    A layer sees what its predecessors add behind the inputs, so that what it looked for so far stands first.
    """
    times = starts.spec.n_heads // known.spec.n_heads
    for k, place in places.items():
        into = starts.layers()[place]
        layer = known.layers()[k]
        for name, parameter in layer.named_parameters(recurse=False):
            if name not in ("value", "own_slope", "intercept"):
                into.get_parameter(name)[:, : parameter.shape[1]] = parameter.repeat(
                    times, *[1] * (parameter.dim() - 1)
                )
