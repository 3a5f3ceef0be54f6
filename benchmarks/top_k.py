"""The 50 strongest peers of 50,000 firms: ours against a bare blocked product + exp + top-k.

python benchmarks/top_k.py
"""

from __future__ import annotations

import argparse

import torch

from peerattn.nn import top_k_weights
from report import median_ratio, publish, side_by_side


@torch.no_grad()
def bare(query: torch.Tensor, key: torch.Tensor, k: int, rows: int) -> None:
    """Do the least that gives unnormalised weights: no own row left out, no denominators, no shift."""
    scale = query.shape[1] ** -0.5
    for block in query.split(rows):
        (block @ key.T).mul_(scale).exp_().topk(k)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=50_000)
    parser.add_argument("--d", type=int, default=8)
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    n, k = options.n, options.k
    shape = (options.heads, n, options.d)
    x, z = (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    own = torch.arange(n)

    sizes = (32, 64, 128)
    trial = side_by_side({str(rows): lambda rows=rows: bare(x[0, :4096], z[0], k, rows) for rows in sizes}, 3)
    rows = int(min(trial, key=lambda name: min(trial[name])))
    seconds = side_by_side(
        {
            "bare": lambda: bare(x[0], z[0], k, rows),
            "ours": lambda: top_k_weights(x, z, k, exclude=(own, own)),
        },
        options.repeats,
    )
    publish(
        "top_k",
        f"Top {k} of {n:,} firms, heads: {options.heads}, d = {options.d}",
        [
            {
                "what": f"bare product + exp + top-k, blocks of {rows} rows",
                "seconds": min(seconds["bare"]),
                "ratio": 1.0,
            },
            {
                "what": "top_k_weights, own row left out, exact denominators, seconds per head",
                "seconds": min(seconds["ours"]) / options.heads,
                "ratio": median_ratio(seconds["ours"], seconds["bare"]) / options.heads,
            },
        ],
        [
            f"{torch.get_num_threads()} threads, torch {torch.__version__}, float32, median ratio of "
            f"{options.repeats} paired repeats; seconds are the fastest. Figure to reach: at most 1.5.",
            f"The bare rows per block are the fastest of {sizes}.",
        ],
    )


if __name__ == "__main__":
    main()
