"""Tables and arrays: CSV and SciPy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, did_you_mean
from peerattn.network.base import BaseNetwork, Net
from peerattn.network.building import from_edges
from peerattn.render import csv_text, show_label, write_atomic


def to_csv(network: BaseNetwork, path: str | os.PathLike[str]) -> None:
    """Write all edges as CSV: ``period, firm, peer, weight``; an isolate has a row without a peer.

    Parameters
    ----------
    path : path-like
        The file. Text has no dtypes: for a faithful copy use :meth:`to_parquet`. A label that a spreadsheet would run
        as a formula (``=``, ``+``, ``-``, ``@`` first) is written with an apostrophe before it, which
        :meth:`from_csv` takes off.
    """
    frame = pd.concat([network.edges(), network.isolates.assign(peer="", weight=0.0)])
    frame = frame[["period", "firm", "peer", "weight"]].astype({"peer": object})
    for side in ("period", "firm", "peer"):
        frame[side] = [csv_text(show_label(label)) for label in frame[side]]
    write_atomic(path, frame.to_csv(index=False))


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
    for column in ("firm", "peer", "weight"):
        if column not in frame.columns:
            raise InputError(f"path: column {column!r} is missing.{did_you_mean(column, frame.columns)}")
    if "period" in frame.columns and (frame["period"] == "").all():
        frame = frame.drop(columns="period")
    labels = frame.columns.intersection(["period", "firm", "peer"])
    frame[labels] = frame[labels].replace(r"^'('*[=+\-@\t\r])", r"\1", regex=True)
    firms = pd.concat(
        [frame.drop(columns="peer"), frame.drop(columns="firm").rename(columns={"peer": "firm"})]
    )
    firms = firms.drop(columns="weight")[firms["firm"] != ""].drop_duplicates()
    edges = frame[frame["peer"] != ""]
    return from_edges(cls, edges, firms, name=name, signed=signed, row_normalized=row_normalized)


def to_scipy(network: BaseNetwork, period: Any = None) -> sparse.csr_array:
    """Return one period's weights as a SciPy sparse array; rows and columns as in :meth:`matrix`.

    Parameters
    ----------
    period : label, optional
        May be left out when there is only one.

    Returns
    -------
    scipy.sparse.csr_array, shape (n_firms, n_peers)
        An own copy.
    """
    return network.section(period)[1].csr().copy()
