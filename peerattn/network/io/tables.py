"""Tables and arrays: CSV and SciPy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, checked
from peerattn.network.base import BaseNetwork, Net, as_plain
from peerattn.network.building import from_edges
from peerattn.panel.columns import refuse_unknown
from peerattn.render import csv_text, show_label, write_atomic


@checked
def to_csv(network: BaseNetwork, path: str | os.PathLike[str]) -> None:
    """Write all edges as CSV: ``period, firm, peer, weight``; an isolate has a row without a peer.

    Parameters
    ----------
    path : path-like
        The file. Text has no dtypes: for a faithful copy use :meth:`to_parquet`. A network that was learned from outcomes has a
        fifth column, ``learned_until``. A label that a spreadsheet would run
        as a formula (``=``, ``+``, ``-``, ``@`` first) is written with an apostrophe before it, which
        :meth:`from_csv` takes off.
    """
    frame = pd.concat([network.edges(), network.isolates.assign(peer="", weight=0.0)])
    frame = frame[["period", "firm", "peer", "weight"]].astype({"peer": object})
    for side in ("period", "firm", "peer"):
        frame[side] = [csv_text(show_label(label)) for label in frame[side]]
    if network.learned_until is not None:
        frame["learned_until"] = csv_text(as_plain(network.learned_until))
    write_atomic(path, frame.to_csv(index=False))


@checked
def from_csv(
    cls: type[Net],
    path: str | os.PathLike[str],
    *,
    name: str = "",
    signed: bool = False,
    row_normalized: bool = True,
) -> Net:
    """Read edges that :meth:`to_csv` wrote, or any CSV file with those columns; labels come as text.

    Parameters
    ----------
    path : path-like
        The file.
    name, signed, row_normalized
        As in :meth:`PeerNetwork.from_matrices`.

    Returns
    -------
    PeerNetwork
        Square and sparse inside; a period's firms are those its rows name.

    Raises
    ------
    InputError
        When the file is missing, a column is missing, or weights are bad.
    """
    if not Path(path).is_file():
        raise InputError(f"path: there is no file {str(path)!r}.")
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    refuse_unknown("path", ("firm", "peer", "weight"), frame.columns)
    if "period" in frame.columns and (frame["period"] == "").all():
        frame = frame.drop(columns="period")
    labels = frame.columns.intersection(["period", "firm", "peer", "learned_until"])
    frame[labels] = frame[labels].replace(r"^'('*[=+\-@\t\r])", r"\1", regex=True)
    firms = pd.concat(
        [frame.drop(columns="peer"), frame.drop(columns="firm").rename(columns={"peer": "firm"})]
    )
    firms = firms[firms.columns.intersection(["period", "firm"])][firms["firm"] != ""].drop_duplicates()
    edges = frame[frame["peer"] != ""]
    return from_edges(cls, edges, firms, name=name, signed=signed, row_normalized=row_normalized)


@checked
def to_scipy(network: BaseNetwork, period: Any = None) -> sparse.csr_array:
    """Return one period's weights as a SciPy sparse array; rows and columns as in :meth:`matrix`.

    Parameters
    ----------
    period : label, optional
        May be left out when there is only one.

    Returns
    -------
    scipy.sparse.csr_array, shape (n_firms, n_peers)
        An own copy. It does not say what the weights were learned from: give it back by ``replaced(learned_until=)``.
    """
    return network.section(period)[1].csr().copy()


@checked
def from_edge_file(
    cls: type[Net],
    path: str | os.PathLike[str],
    *,
    firm: str = "firm",
    peer: str = "peer",
    weight: str | None = None,
    period: str | None = None,
    both_ways: bool = False,
    dtype: Any = None,
    name: str = "",
) -> Net:
    r"""Read links that another source has observed: supply chains, text-based peers, common analysts, co-search, ownership.

    Parameters
    ----------
    path : path-like
        CSV, text separated by tabs (``.tsv``, ``.txt``), Parquet or Stata; ``.gz``, ``.zip`` and the like are unpacked.
    firm, peer : str
        Columns of the firm and of the firm it is linked to, such as ``"gvkey1"`` and ``"gvkey2"``.
    weight : str, optional
        Column of the strength of a link, such as ``"score"``; default: every link is 1.
    period : str, optional
        Column of the period; default: links without a date.
    both_ways : bool, default False
        A link holds both ways, and the file has it once.
    dtype : mapping of str to type, optional
        Types of columns, as in :func:`pandas.read_csv`: ``{"gvkey1": str, "gvkey2": str}`` keeps leading zeros.
    name : str, optional
        Default: the name of the file.

    Returns
    -------
    PeerNetwork
        Rows need not sum to one. A firm that has no link in the file is unknown, not unlinked. Of weights that were learned
        from outcomes a column ``learned_until``, or ``edges()`` of a network written to Parquet, says so; of any other file
        nothing is known, and models use it in all periods: ``network.replaced(learned_until=2004)`` declares it.

    Raises
    ------
    InputError
        When the file or a column is missing, or a link is given twice.

    Examples
    --------
    >>> import tempfile
    >>> from peerattn.network import PeerNetwork
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "tnic.tsv"
    ...     _ = path.write_text("year\tgvkey1\tgvkey2\tscore\n2001\t001690\t012141\t0.2\n")
    ...     links = PeerNetwork.from_edge_file(path, firm="gvkey1", peer="gvkey2", weight="score", period="year",
    ...                                        dtype={"gvkey1": str, "gvkey2": str})
    >>> links.edges()
       period    firm    peer  weight
    0    2001  001690  012141     0.2
    """
    kind = next((s for s in map(str.lower, Path(path).suffixes[::-1]) if s in _READERS), ".csv")
    try:
        frame = _READERS[kind](path, dtype)
    except Exception as error:  # readers and unpackers raise anything
        raise InputError(f"path: cannot read {str(path)!r} ({error}).") from error
    wanted = {"period": period, "firm": firm, "peer": peer, "weight": weight}
    columns = {column: role for role, column in wanted.items() if column is not None}
    for column, role in columns.items():
        refuse_unknown(role, [column], frame.columns)
    told = frame.columns.intersection(["learned_until"]).difference(list(columns))
    edges = frame[[*columns, *told]].rename(columns=columns).assign(**{} if weight else {"weight": 1.0})
    if both_ways:
        turned = edges.rename(columns={"firm": "peer", "peer": "firm"})
        edges = pd.concat([edges, turned]).drop_duplicates(edges.columns.drop("weight").tolist())
    negative = bool((edges["weight"] < 0).any())
    made = from_edges(cls, edges, signed=negative, row_normalized=False)
    return made.replaced(name=name or Path(path).name)


_READERS: dict[str, Callable[[Any, Any], pd.DataFrame]] = {
    ".csv": lambda path, dtype: pd.read_csv(path, dtype=dtype),
    ".tsv": lambda path, dtype: pd.read_csv(path, sep="\t", dtype=dtype),
    ".txt": lambda path, dtype: pd.read_csv(path, sep="\t", dtype=dtype),
    ".parquet": lambda path, dtype: pd.read_parquet(path).astype(dtype or {}),
    ".dta": lambda path, dtype: pd.read_stata(path).astype(dtype or {}),
}
