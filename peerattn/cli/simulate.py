"""``peerattn simulate``: a panel whose directed network is known."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from peerattn.cli import options as o
from peerattn.cli.app import app


class Truth(StrEnum):
    """What determines the peers of a firm."""

    directed = "directed"
    symmetric = "symmetric"
    industry = "industry"


@app.command(
    epilog="Example:  peerattn simulate --firms 150 --periods 80 --signal-share 0.5 --seed 1 --out simulated.parquet"
)
def simulate(
    firms: Annotated[int, typer.Option(metavar="N", min=3, help="Firms in each period.")] = 150,
    periods: Annotated[int, typer.Option(metavar="N", min=1, help="Months.")] = 80,
    characteristics: Annotated[int, typer.Option(metavar="N", min=1, help="Characteristics.")] = 8,
    industries: Annotated[int, typer.Option(metavar="N", min=0, help="Industries; 0 for none.")] = 10,
    signal_share: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the outcome's variance that is predictable.")
    ] = 0.5,
    own_share: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of that which own characteristics predict.")
    ] = 0.3,
    truth: Annotated[Truth, typer.Option(help="What determines the peers of a firm.")] = Truth.directed,
    missing_share: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of characteristics that is missing.")
    ] = 0.0,
    seed: o.Seed = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The panel, as Parquet, CSV or Arrow.")] = Path(
        "simulated.parquet"
    ),
    network: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The true network, as Parquet. [default: not written]")
    ] = None,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Simulate a panel of firms whose directed peer network is known."""
    from peerattn.cli.output import FRAMES, say, working, writable_file, write_frame
    from peerattn.datasets import simulate_panel

    target = writable_file(out, FRAMES)
    true = writable_file(network, (".parquet",)) if network else None
    with working("simulating", quiet):
        made = simulate_panel(
            firms,
            periods,
            characteristics,
            signal_share=signal_share,
            own_share=own_share,
            truth=truth.value,
            n_industries=industries,
            missing_share=missing_share,
            random_state=seed or 0,
        )
        write_frame(made.X.assign(outcome=made.y).reset_index(), target)
        if true:
            made.network.to_parquet(true)
    code = " --industry industry" if industries else ""
    said = [f"{made!r}", f"panel: {target.resolve()}", *([f"true network: {true.resolve()}"] if true else [])]
    said.append(f"next: peerattn compare {target} --outcome outcome{code}")
    files = [str(path.resolve()) for path in (target, true) if path]
    say("\n".join(said), {"rows": len(made.X), "seed": seed or 0, "files": files}, as_json)
