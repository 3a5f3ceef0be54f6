"""``peerattn network``: the peers of firms, in a saved model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from peerattn.cli.app import command
from peerattn.cli.options import SavedModelOptions, option
from peerattn.cli.output import Output, writable_file, write_frame
from peerattn.cli.panels import period_named
from peerattn.exceptions import InputError

if TYPE_CHECKING:
    from peerattn.network import PeerNetwork

_KNOWN = (".parquet", ".csv", ".html", ".graphml", ".gexf")


@command
@dataclass(kw_only=True)
class Network(SavedModelOptions, Output):
    """Write the peer network of a saved model, and print the firms with the largest incoming weight.

    Attributes
    ----------
    at : PERIOD
        The period, such as 2012 or 2012-06. [default: the last one]
    firm : FIRM
        Print the peers of this firm.
    k : N
        Number of peers printed.
    top_k : N
        Number of peers kept of each firm. [default: all; 10 in .html]
    out : FILE
        As .parquet, .csv (edges), .html (explorer), .graphml or .gexf; or a folder, for all periods, one at a time.
    """

    example: ClassVar = "network roa.model panel.parquet --at 2012 --firm XOM --out network.html"
    at: str | None = None
    firm: str | None = None
    k: int = option("-k", default=10, min=1)
    top_k: int | None = option(min=1)
    out: Path = Path("network.parquet")

    def run(self) -> None:
        """Make the network, write, print."""
        from peerattn.cli.model_file import load_model
        from peerattn.evaluation.report.network import RELEVANCE

        saved, place = load_model(self.model), self.out.resolve()
        if not hasattr(saved.model, "peer_network"):
            raise InputError(
                f"MODEL: {saved.name} is not a peer model and has no network; name the file of one."
            )
        if not self.out.suffix:
            if self.at or self.firm:
                raise InputError(
                    "--out: a folder takes the networks of all periods; leave out --at and --firm."
                )
            with self.working(f"networks of {saved.name}"):
                chosen = {} if self.top_k is None else {"top_k": self.top_k}
                count = len(saved.write_by_period("networks", self.panel, self.out, **chosen).periods)
            about = {"model": saved.name, "periods": count, "folder": str(place)}
            self.say(f"networks of {count:,} periods in the folder {place}\n\n{RELEVANCE}", about)
            return
        panel = saved.panel(self.panel)
        periods = panel.X.index.get_level_values("period")
        here = periods == (periods.max() if self.at is None else period_named("--at", self.at, periods))
        writable_file(self.out, _KNOWN)
        with self.working(f"network of {saved.name}"):
            network = saved.model.peer_network(panel.X[here], **saved.shown(panel.y[here]))
            self._write(network)
        text, result = self._words(network, saved.name)
        self.say(f"{text}\n\n{RELEVANCE}\nnetwork: {place}", result | {"file": str(place)})

    def _write(self, network: PeerNetwork) -> None:
        kind = self.out.suffix.lower()
        if kind == ".html":
            network.to_explorer(self.out, top_k=self.top_k or 10)
        elif kind == ".csv" or (kind == ".parquet" and self.top_k is not None):
            write_frame(network.edges(top_k=self.top_k), self.out)
        else:
            getattr(network, f"to_{kind[1:]}")(self.out)

    def _words(self, network: PeerNetwork, name: str) -> tuple[str, dict[str, Any]]:
        """Return the peers of one firm, or the firms with the most weight, as text and for other programs."""
        from peerattn.evaluation.report.network import most_looked_to
        from peerattn.panel import find_firm
        from peerattn.render import Table

        isolates = list(network.isolates["firm"])
        facts = {
            "model": name,
            "period": network.periods[0],
            "firms": len(network.firms),
            "isolates": isolates,
        }
        label = None if self.firm is None else find_firm(self.firm, network.labels)
        if len(isolates) == len(network.firms):
            empty = (
                "The network is empty: no peers were found that help, and the model predicts without them."
            )
            return f"{network!r}\n\n{empty}", facts
        if self.firm is not None:
            peers = network.peers(label, k=self.k)
            table = Table.from_frame(peers, title=f"Peers of {self.firm} ({name})", formats={"weight": ".4f"})
            text = str(table) if len(peers) else f"{self.firm} has no admissible peer in this period."
            return text, facts | {"firm": self.firm, "peers": peers}
        table = most_looked_to(network, f"Firms with the largest incoming weight ({name})", self.k)
        most = [{"firm": firm, "given": weight} for firm, weight in table.rows]
        return f"{network!r}\n\n{table}", facts | {"most_looked_to": most}
