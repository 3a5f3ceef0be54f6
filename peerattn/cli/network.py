"""``peerattn network``: the peers of firms, in a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from peerattn.cli import options as o
from peerattn.cli.app import command
from peerattn.cli.output import Output, writable_file, write_frame
from peerattn.cli.panels import period_named
from peerattn.exceptions import InputError

if TYPE_CHECKING:
    from peerattn.network import PeerNetwork

_KNOWN = (".parquet", ".csv", ".html", ".graphml", ".gexf")


@command(epilog="Example:  peerattn network roa.model panel.parquet --at 2012 --firm XOM --out network.html")
def network(
    *,
    model: o.ModelFile,
    panel: o.PanelFile,
    at: str | None = typer.Option(
        None, metavar="PERIOD", help="The period, such as 2012 or 2012-06. [default: the last one]"
    ),
    firm: str | None = typer.Option(None, metavar="FIRM", help="Print the peers of this firm."),
    k: int = typer.Option(10, "-k", metavar="N", min=1, help="Number of peers printed."),
    top_k: int | None = typer.Option(
        None, metavar="N", min=1, help="Number of peers kept of each firm. [default: all; 10 in .html]"
    ),
    out: Path = typer.Option(
        "network.parquet",
        metavar="FILE",
        help="As .parquet, .csv (edges), .html (explorer), .graphml or .gexf; or a folder, for all periods, one at a time.",
    ),
    output: Output,
) -> None:
    """Write the peer network of a saved model, and print the firms with the largest incoming weight."""
    from peerattn.cli.model_file import load_model
    from peerattn.evaluation.report.network import RELEVANCE

    saved = load_model(model)
    if not hasattr(saved.model, "peer_network"):
        raise InputError(f"MODEL: {saved.name} is not a peer model and has no network; name the file of one.")
    if not out.suffix:
        if at or firm:
            raise InputError("--out: a folder takes the networks of all periods; leave out --at and --firm.")
        with output.working(f"networks of {saved.name}"):
            chosen = {} if top_k is None else {"top_k": top_k}
            stored = saved.write_by_period("networks", panel, out, **chosen)
        message = f"networks of {len(stored.periods):,} periods in the folder {out.resolve()}\n\n{RELEVANCE}"
        about = {"model": saved.name, "periods": len(stored.periods), "folder": str(out.resolve())}
        output.say(message, about)
        return
    taken = saved.panel(panel)
    labels = taken.X.index.get_level_values("period")
    when = labels.max() if at is None else period_named("--at", at, labels)
    target = writable_file(out, _KNOWN)
    here = labels == when
    shown = {"outcomes": taken.y[here]} if saved.shows_outcomes else {}
    with output.working(f"network of {saved.name}"):
        found = saved.model.peer_network(taken.X[here], **shown)
        _write(found, target, top_k)
    text, result = _words(found, saved.name, firm, k)
    result["file"] = str(target.resolve())
    output.say(f"{text}\n\n{RELEVANCE}\nnetwork: {target.resolve()}", result)


def _write(network: PeerNetwork, path: Path, top_k: int | None) -> None:
    kind = path.suffix.lower()
    if kind == ".html":
        network.to_explorer(path, top_k=top_k or 10)
    elif kind == ".csv" or (kind == ".parquet" and top_k is not None):
        write_frame(network.edges(top_k=top_k), path)
    else:
        getattr(network, f"to_{kind[1:]}")(path)


def _words(network: PeerNetwork, name: str, firm: str | None, k: int) -> tuple[str, dict[str, Any]]:
    """Return the peers of one firm, or the firms with the most weight, as text and for other programs."""
    from peerattn.evaluation.report.network import most_looked_to
    from peerattn.panel import find_firm
    from peerattn.render import Table

    label = None if firm is None else find_firm(firm, network.labels)
    facts: dict[str, Any] = {"model": name, "period": network.periods[0], "firms": len(network.firms)}
    facts["isolates"] = list(network.isolates["firm"])
    if len(facts["isolates"]) == facts["firms"]:
        empty = "The network is empty: no peers were found that help, and the model predicts without them."
        return f"{network!r}\n\n{empty}", facts
    if firm is not None:
        peers = network.peers(label, k=k)
        table = Table.from_frame(peers, title=f"Peers of {firm} ({name})", formats={"weight": ".4f"})
        text = str(table) if len(peers) else f"{firm} has no admissible peer in this period."
        return text, facts | {"firm": firm, "peers": peers}
    table = most_looked_to(network, f"Firms with the largest incoming weight ({name})", k)
    most = [{"firm": looked_to, "given": weight} for looked_to, weight in table.rows]
    return f"{network!r}\n\n{table}", facts | {"most_looked_to": most}
