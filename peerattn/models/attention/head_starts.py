"""Softmax heads from several starts, combined rather than selected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from peerattn.models.attention.lines import Lines
from peerattn.models.attention.members import Heads
from peerattn.models.attention.peer_module import PeerModule
from peerattn.models.pools import Section


@dataclass(frozen=True)
class HeadStarts:
    """Softmax heads from several starts: each a prediction of its own, which the candidates' problem weighs.

    ``names`` are the columns; ``mix`` the share of each in the network, its weight over their sum.
    """

    lines: Lines
    part: Heads
    names: tuple[str, ...]
    lengths: tuple[float, ...]

    def predict(
        self, sections: Sequence[Section], dtype: torch.dtype = torch.float64
    ) -> dict[str, list[np.ndarray]]:
        """Return the predictions of each start, by its name."""
        added = self.part.by_start(sections, dtype)
        of_name = {name: [k for k, other in enumerate(self.names) if other == name] for name in self.names}
        scaled = [each * np.array(self.lengths)[:, None, None] for each in added]
        own = self.lines.of(sections)
        return {
            name: [o + each[at].mean(axis=0) for o, each in zip(own, scaled, strict=True)]
            for name, at in of_name.items()
        }

    def weighed(self, weights: Mapping[str, float]) -> HeadStarts:
        """Return the starts that are named, mixed by their weights in the network (evenly where all are zero)."""
        kept = [k for k, name in enumerate(self.names) if name in weights]
        share = [weights[self.names[k]] / self.names.count(self.names[k]) for k in kept]
        total = sum(share)
        mix = tuple(each / total if total else 1 / len(kept) for each in share)
        part = replace(self.part, members=tuple(self.part.members[k] for k in kept), mix=mix)
        return replace(
            self,
            part=part,
            names=tuple(self.names[k] for k in kept),
            lengths=tuple(self.lengths[k] for k in kept),
        )

    def modules(self) -> list[PeerModule]:
        """Return the modules of all starts, in float64."""
        return [member.module() for member in self.part.members]

    def derivative(self, section: Section) -> Callable[[slice], np.ndarray]:
        """Return what gives the derivative of predictions by the peers' outcomes: signed weights."""
        mix = tuple(share * length for share, length in zip(self.part.mix, self.lengths, strict=True))
        return replace(self.part, mix=mix).derivative(section)
