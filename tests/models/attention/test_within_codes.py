"""A search also starts from the firms of one's own industry."""

import torch

from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec


def test_a_head_that_looks_within_a_code_prefers_firms_of_the_same_level_to_all_others():
    levels = 12
    spec = PeerSpec(
        n_characteristics=3, code_levels=(4, levels), d_code=4, n_heads=2, d_head=8, n_layers=1, values="characteristics",
        own="linear", similarity="scaled_dot_product", symmetric=False, n_priors=0, n_outputs=1,
    )  # fmt: skip
    for seed in range(5):
        module = PeerModule(spec, torch.Generator().manual_seed(seed))
        module.look_within(1, 1)
        x = torch.randn(1, levels, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        looking = torch.cat([x, module.embeddings[1][None, 1:]], dim=-1)
        query, key = looking[0] @ module.query[1], looking[0] @ module.key[1]
        scores = query @ key.T
        assert (scores.argmax(1) == torch.arange(levels)).all()
        assert torch.allclose(scores.diag(), scores.diag()[0].expand(levels))  # whatever the characteristics
