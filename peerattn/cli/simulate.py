"""``peerattn simulate``: a panel whose directed network is known."""

from peerattn.cli.commands import Simulate
from peerattn.cli.output import FRAMES, report_line, working, writable_file, write_frame
from peerattn.datasets import simulate_panel

_PASSED_ON = ("signal_share", "own_share", "truth", "missing_share")  # to simulate_panel, as they are


def run(options: Simulate) -> None:
    """Simulate, write, print."""
    files = {"panel": writable_file(options.out, FRAMES).resolve()}
    if options.network:
        files["true network"] = writable_file(options.network, (".parquet",), "--network").resolve()
    with working(options, "simulating"):
        made = simulate_panel(
            *(options.firms, options.periods, options.characteristics),
            n_industries=options.industries,
            random_state=options.seed or 0,
            **{name: getattr(options, name) for name in _PASSED_ON},
        )
        write_frame(made.X.assign(outcome=made.y).reset_index(), options.out)
        if options.network:
            made.network.to_parquet(options.network)
    code = " --industry industry" if options.industries else ""
    lines = [repr(made), *(f"{what}: {path}" for what, path in files.items())]
    lines.append(f"next: peerattn compare {options.out} --outcome outcome{code}")
    result = {"rows": len(made.X), "seed": options.seed or 0, "files": list(map(str, files.values()))}
    report_line(options, "\n".join(lines), result)
