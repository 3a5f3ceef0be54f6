"""Heads of known parameters in the place of found ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from peerattn.models.learners.heads.heads import Heads, Member
from peerattn.models.learners.heads.peer_module import PeerModule
from peerattn.models.stacking.weights import Column


@pytest.fixture(scope="session")
def plant():
    """Return what puts random heads of a shape in the place of those of a model fitted with ``kappa=None``."""

    def planted(model, *weights, seed=0, state=None, **shape):
        terms = model.stack_.fitted["heads"].terms
        spec = replace(model.stack_.fitted["heads"].members[0].spec, **shape)
        generator = torch.Generator().manual_seed(seed)
        members = []
        for _ in weights or (1.0,):
            module = PeerModule(spec, generator)
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
                for name, value in (state or {}).items():
                    module.get_parameter(name).copy_(torch.as_tensor(value))
            members.append(Member.from_module(module, np.arange(1.0, spec.n_heads + 1)))
        weights = weights or (1.0,)
        names = ["heads", *(f"heads, start {k}" for k in range(2, len(weights) + 1))]
        parts = {name: Heads((member,), terms, (1.0,)) for name, member in zip(names, members, strict=True)}
        model.stack_.fitted.update(parts)
        model.stack_.stages["peers"] = replace(
            model.stack_.stages["peers"],
            weights={Column(name): w for name, w in zip(names, weights, strict=True)},
        )
        model._set_heads()
        return model

    return planted
