"""``peerattn simulate``: a panel whose directed network is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import typer

from peerattn.cli import options as o
from peerattn.cli.app import command
from peerattn.cli.output import FRAMES, Output, writable_file, write_frame

Truth = Literal["directed", "symmetric", "industry"]


def _share(default: float, help: str) -> Any:
    return typer.Option(default, metavar="SHARE", help=help)


@command(
    epilog="Example:  peerattn simulate --firms 150 --periods 80 --signal-share 0.5 --seed 1 --out simulated.parquet"
)
def simulate(
    *,
    firms: int = typer.Option(150, metavar="N", min=3, help="Firms in each period."),
    periods: int = typer.Option(80, metavar="N", min=1, help="Months."),
    characteristics: int = typer.Option(8, metavar="N", min=1, help="Characteristics."),
    industries: int = typer.Option(10, metavar="N", min=0, help="Industries; 0 for none."),
    signal_share: float = _share(0.5, "Share of the outcome's variance that is predictable."),
    own_share: float = _share(0.3, "Share of that which own characteristics predict."),
    truth: Truth = typer.Option("directed", help="What determines the peers of a firm."),
    missing_share: float = _share(0.0, "Share of characteristics that is missing."),
    seed: o.Seed = None,
    out: Path = typer.Option(
        "simulated.parquet", metavar="FILE", help="The panel, as Parquet, CSV or Arrow."
    ),
    network: Path | None = typer.Option(
        None, metavar="FILE", help="The true network, as Parquet. [default: not written]"
    ),
    output: Output,
) -> None:
    """Simulate a panel of firms whose directed peer network is known."""
    from peerattn.datasets import simulate_panel

    target = writable_file(out, FRAMES)
    true = writable_file(network, (".parquet",)) if network else None
    with output.working("simulating"):
        made = simulate_panel(
            firms,
            periods,
            characteristics,
            signal_share=signal_share,
            own_share=own_share,
            truth=truth,
            n_industries=industries,
            missing_share=missing_share,
            random_state=seed or 0,
        )
        write_frame(made.X.assign(outcome=made.y).reset_index(), target)
        if true:
            made.network.to_parquet(true)
    code = " --industry industry" if industries else ""
    message = [
        f"{made!r}",
        f"panel: {target.resolve()}",
        *([f"true network: {true.resolve()}"] if true else []),
    ]
    message.append(f"next: peerattn compare {target} --outcome outcome{code}")
    files = [str(path.resolve()) for path in (target, true) if path]
    output.say("\n".join(message), {"rows": len(made.X), "seed": seed or 0, "files": files})
