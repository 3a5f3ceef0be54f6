"""``peerattn network``: the peers of firms, in a saved model."""

from typing import Any

import numpy as np

from peerattn.cli.commands import Network
from peerattn.cli.model_file import load_model
from peerattn.cli.output import report_line, working, writable_file, write_frame
from peerattn.cli.panels import period_named
from peerattn.evaluation.report.network import RELEVANCE, most_attended
from peerattn.exceptions import expect
from peerattn.network import PeerNetwork
from peerattn.render import Table

_KNOWN = (".parquet", ".csv", ".html", ".graphml", ".gexf")


def run(options: Network) -> None:
    """Make the network, write, print."""
    saved = load_model(options.model)
    place = options.out.resolve()
    expect(hasattr(saved.model, "peer_network"), "MODEL", "the file of a peer model, which has a network", saved.name)
    if not options.out.suffix:
        expect(not (options.at or options.firm), "--out", "a file, with --at or --firm", "a folder, which takes all periods")
        with working(options, f"networks of {saved.name}"):
            kept = {} if options.top_k is None else {"top_k": options.top_k}
            count = len(saved.write_by_period("networks", options.panel, options.out, **kept).periods)
        about = {"model": saved.name, "periods": count, "folder": str(place)}
        return report_line(options, f"networks of {count:,} periods in the folder {place}\n\n{RELEVANCE}", about)
    panel = saved.panel(options.panel)
    periods = panel.X.index.get_level_values("period")
    when = periods.max()
    if options.at is not None:
        when = period_named("--at", options.at, periods)
    # earlier periods are the past of its firms, as predict has it
    panel = panel.take(np.flatnonzero(periods <= when))
    observed = saved.observed(panel.y)
    writable_file(options.out, _KNOWN)
    with working(options, f"network of {saved.name}"):
        network = saved.model.network_at(saved.called(panel), when, **observed)
        text, result = _words(options, network, saved.name)  # a firm that is not found is an error before a file is written
        _write(options, network)
    return report_line(options, f"{text}\n\n{RELEVANCE}\nnetwork: {place}", result | {"file": str(place)})


def _write(options: Network, network: PeerNetwork) -> None:
    # the ending names the format
    kind = options.out.suffix.lower()
    if kind == ".html":
        network.to_explorer(options.out, top_k=options.top_k or 10)
    elif kind == ".csv" or (kind == ".parquet" and options.top_k is not None):
        write_frame(network.edges(top_k=options.top_k), options.out)
    else:
        getattr(network, f"to_{kind[1:]}")(options.out)


def _words(options: Network, network: PeerNetwork, name: str) -> tuple[str, dict[str, Any]]:
    """Return the peers of one firm, or the firms with the most weight, as text and for other programs."""
    isolates = list(network.isolates["firm"])
    firm = options.firm
    facts = {"model": name, "period": network.periods[0], "firms": len(network.firms), "isolates": isolates}
    if len(isolates) == len(network.firms):
        empty = "The network is empty: no peers were found that help, and the model predicts without them."
        return f"{network!r}\n\n{empty}", facts
    if firm is not None:
        peers = network.peers(firm, k=options.k)
        title = f"Peers of {firm} ({name})"
        table = Table.from_frame(peers, title=title, formats={"weight": ".4f"}, footnotes=[f"{peers.columns.name}."])
        text = str(table) if len(peers) else f"{firm} has no admissible peer in this period."
        return text, facts | {"firm": firm, "peers": peers}
    table = most_attended(network, f"Firms with the largest incoming weight ({name})", options.k)
    most = [{"firm": each, "given": weight} for each, weight in table.rows]
    return f"{network!r}\n\n{table}", facts | {"most_attended": most}
