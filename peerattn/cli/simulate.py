"""``peerattn simulate``: a panel whose directed network is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from peerattn.cli.app import command
from peerattn.cli.options import option
from peerattn.cli.output import FRAMES, Output, writable_file, write_frame

Truth = Literal["directed", "symmetric", "industry"]


@command
@dataclass(kw_only=True)
class Simulate(Output):
    """Simulate a panel of firms whose directed peer network is known.

    Attributes
    ----------
    firms : N
        Firms in each period.
    periods : N
        Months.
    characteristics : N
        Characteristics.
    industries : N
        Industries; 0 for none.
    signal_share : SHARE
        Share of the outcome's variance that is predictable.
    own_share : SHARE
        Share of that which own characteristics predict.
    truth
        What determines the peers of a firm.
    missing_share : SHARE
        Share of characteristics that is missing.
    seed : N
        Random state of everything random. [default: 0]
    out : FILE
        The panel, as Parquet, CSV or Arrow.
    network : FILE
        The true network, as Parquet. [default: not written]
    """

    example: ClassVar = (
        "simulate --firms 150 --periods 80 --signal-share 0.5 --seed 1 --out simulated.parquet"
    )
    firms: int = option(default=150, min=3)
    periods: int = option(default=80, min=1)
    characteristics: int = option(default=8, min=1)
    industries: int = option(default=10, min=0)
    signal_share: float = 0.5
    own_share: float = 0.3
    truth: Truth = "directed"
    missing_share: float = 0.0
    seed: int | None = option(min=0)
    out: Path = Path("simulated.parquet")
    network: Path | None = None

    def run(self) -> None:
        """Simulate, write, print."""
        from peerattn.datasets import simulate_panel

        writable_file(self.out, FRAMES)
        files = {"panel": self.out.resolve()}
        if self.network:
            files["true network"] = writable_file(self.network, (".parquet",)).resolve()
        shares = {
            name: getattr(self, name) for name in ("signal_share", "own_share", "truth", "missing_share")
        }
        with self.working("simulating"):
            made = simulate_panel(
                self.firms,
                self.periods,
                self.characteristics,
                n_industries=self.industries,
                random_state=self.seed or 0,
                **shares,
            )
            write_frame(made.X.assign(outcome=made.y).reset_index(), self.out)
            if self.network:
                made.network.to_parquet(self.network)
        code = " --industry industry" if self.industries else ""
        lines = [repr(made), *(f"{what}: {path}" for what, path in files.items())]
        lines.append(f"next: peerattn compare {self.out} --outcome outcome{code}")
        result = {"rows": len(made.X), "seed": self.seed or 0, "files": list(map(str, files.values()))}
        self.say("\n".join(lines), result)
