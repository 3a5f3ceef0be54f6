"""The commands: what each is called with.

What a command does is ``run`` in the module of its name, which is loaded when the command is called.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from peerattn.cli import options as o


@dataclass(kw_only=True)
class Audit(o.ModelOptions, o.SplitOptions, o.HorizonOption, o.PanelOptions, o.Output):
    """Test a model for leaks. Prints, for this panel and split, one line for each rule, with its evidence.

    Fits the model eight times, five where the split has one fold; ten or six times a peer model in a forecast.
    """

    example: ClassVar = "audit panel.parquet --outcome roa_next --industry sic --test-periods 4"


@dataclass(kw_only=True)
class Compare(o.CompareOptions, o.Output):
    """Compare models out of sample on a panel and write the report.

    Attributes
    ----------
    jobs : N
        Fits that run at once; -1 for all cores. Figures stay the same. [default: all cores from 5,000 rows on, else 1]
    config : FILE
        A report.toml: make its report again. Options given beside it win.
    fresh
        Repeat all fits. [default: reuse the finished fits in DIR/fits]
    out : DIR
        Folder for the report, tables, predictions, edges and report.toml.
    """

    example: ClassVar = "compare panel.parquet --firm permno --outcome ret_next --industry sic --test-periods 24 --out report"
    jobs: int | None = None
    config: Path | None = None
    fresh: bool = False
    out: Path = Path("report")


@dataclass(kw_only=True)
class Describe(o.Output):
    """Describe a file. Prints its labels, characteristics, codes and outcomes, how unbalanced it is, and how much is missing.

    Attributes
    ----------
    panel : PANEL
        Parquet, CSV or Arrow file, or a folder of Parquet files partitioned by period: one row per firm and period.
    firm : COLUMN
        Names the firm. [default: firm]
    period : COLUMN
        Names the period. [default: period]
    """

    example: ClassVar = "describe panel.parquet --firm permno --period date"
    panel: Path = o.argument()
    firm: str | None = None
    period: str | None = None


@dataclass(kw_only=True)
class Fit(o.ModelOptions, o.HorizonOption, o.PanelOptions, o.Output):
    """Fit one model on a panel and save it, for predict and network.

    Started by torchrun --nproc-per-node=2 -m peerattn fit, two processes fit an attention model together, each on its periods;
    a file is then sorted by period.

    Attributes
    ----------
    until : PERIOD
        Learn from this period and those before, by --horizon from what is known by the next one. [default: all]
    training_rows : N
        Read N rows at most: whole periods, evenly spaced. PANEL is then a Parquet or Arrow file sorted by period, or a folder.
        [default: all]
    out : FILE
        The fitted model, a .model file.
    """

    example: ClassVar = "fit panel.parquet --outcome roa_next --industry sic --until 2010 --out roa.model"
    until: str | None = None
    training_rows: int | None = o.option(min=1)
    out: Path = Path("peer.model")


@dataclass(kw_only=True)
class Network(o.SavedModelOptions, o.Output):
    """Write the peer network of a saved model. Prints the firms with the largest incoming weight, or the peers of one firm.

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
        As .parquet, .csv (edges), .html (explorer), .graphml or .gexf; or a folder, for all periods, one at a
        time; PANEL is then sorted by period.
    """

    example: ClassVar = "network roa.model panel.parquet --at 2012 --firm XOM --out network.html"
    at: str | None = None
    firm: str | None = None
    k: int = o.option("-k", default=10, min=1)
    top_k: int | None = o.option(min=1)
    out: Path = Path("network.parquet")


@dataclass(kw_only=True)
class Predict(o.SavedModelOptions, o.Output):
    """Predict every row of a panel with a saved model.

    Attributes
    ----------
    out : FILE
        Predictions, as Parquet, CSV or Arrow; or a folder, written a period at a time, for panels larger than memory;
        PANEL is then sorted by period.
    """

    example: ClassVar = "predict roa.model panel.parquet --out predictions.parquet"
    out: Path = Path("predictions.parquet")


@dataclass(kw_only=True)
class Simulate(o.Output):
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
        Share of rows (a firm in a period) that is absent.
    seed : N
        Random state of everything random. [default: 0]
    out : FILE
        The panel, as Parquet, CSV or Arrow.
    network : FILE
        The true network, as Parquet. [default: not written]
    """

    example: ClassVar = "simulate --firms 150 --signal-share 0.5 --seed 1 --out simulated.parquet"
    firms: int = o.option(default=150, min=3)
    periods: int = o.option(default=80, min=1)
    characteristics: int = o.option(default=8, min=1)
    industries: int = o.option(default=10, min=0)
    signal_share: float = 0.5
    own_share: float = 0.3
    truth: o.Truth = "directed"
    missing_share: float = 0.0
    seed: int | None = o.option(min=0)
    out: Path = Path("simulated.parquet")
    network: Path | None = None


COMMANDS = (Audit, Compare, Describe, Fit, Network, Predict, Simulate)
