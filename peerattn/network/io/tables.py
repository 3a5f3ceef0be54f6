"""Tables and arrays: CSV, SciPy and xarray."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, did_you_mean
from peerattn.render import csv_text, show_label, write_atomic

if TYPE_CHECKING:
    from peerattn.network.peer_network import PeerNetwork


def to_csv(network: PeerNetwork, path: str | os.PathLike[str]) -> None:
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
    cls: type[PeerNetwork],
    path: str | os.PathLike[str],
    *,
    name: str = "",
    signed: bool = False,
    row_normalized: bool = True,
) -> PeerNetwork:
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
    frame["weight"] = pd.to_numeric(frame["weight"], errors="coerce")
    if "period" in frame.columns and (frame["period"] == "").all():
        frame = frame.drop(columns="period")
    key = [column for column in ("period",) if column in frame.columns]
    for side in (*key, "firm", "peer"):
        frame[side] = frame[side].str.replace(r"^'('*[=+\-@\t\r])", r"\1", regex=True)
    both = [frame[[*key, "firm"]], frame[[*key, "peer"]].rename(columns={"peer": "firm"})]
    firms = pd.concat(both).drop_duplicates()
    return cls.from_edges(
        frame[frame["peer"] != ""],
        firms[firms["firm"] != ""],
        name=name,
        signed=signed,
        row_normalized=row_normalized,
    )


def to_scipy(network: PeerNetwork, period: Any = None) -> sparse.csr_array:
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


def to_xarray(network: PeerNetwork) -> Any:
    """Return the weights as an ``xarray.DataArray`` with the dimensions period, firm and peer.

    Returns
    -------
    xarray.DataArray, shape (n_periods, n_firms, n_peers)
        Dense: 8 bytes a cell. NaN where the firm or the peer is not there in that period, 0 where a firm that is
        there puts no weight; ``name`` and the attributes ``signed``, ``row_normalized``, ``dated`` as here.

    Raises
    ------
    ImportError
        When xarray is not installed (``pip install peerattn[xarray]``).
    """
    array = import_module("xarray").DataArray
    rows, columns = (network.labels.get_indexer_for(side) for side in (network.firms, network.reference))
    values = np.full((len(network.periods), len(rows), len(columns)), np.nan)
    for t, (_, section) in enumerate(network.sections()):
        i, j = np.searchsorted(rows, section.rows), np.searchsorted(columns, section.columns)
        values[t][np.ix_(i, j)] = section.dense()
    periods = network.periods if network.is_dated else pd.Index([0])
    facts = {"signed": network.signed, "row_normalized": network.row_normalized, "dated": network.is_dated}
    coords = {"period": periods, "firm": network.firms, "peer": network.reference}
    return array(values, coords=coords, dims=tuple(coords), name=network.name or None, attrs=facts)


def from_xarray(cls: type[PeerNetwork], array: Any) -> PeerNetwork:
    """Make a network from a DataArray with the dimensions period, firm and peer, as :meth:`to_xarray` gives it.

    Parameters
    ----------
    array : xarray.DataArray
        A row or column that is NaN throughout a period is a firm that is not there.

    Returns
    -------
    PeerNetwork
        Dense inside; firms in the array's order.

    Raises
    ------
    InputError
        When a dimension is missing, or some weights of a firm that is there are NaN.
    """
    for dimension in ("period", "firm", "peer"):
        if dimension not in array.dims:
            raise InputError(f"array: expected the dimensions period, firm, peer; got {tuple(array.dims)}.")
    array = array.transpose("period", "firm", "peer")
    firms, peers = (array.indexes[side].rename(None) for side in ("firm", "peer"))
    matrices: dict[Any, Any] = {}
    for t, period in enumerate(array.indexes["period"]):
        weights = array.values[t]
        here = ~np.isnan(weights)
        i, j = here.any(axis=1), here.any(axis=0)
        key = period if array.attrs.get("dated", True) else None
        matrices[key] = (firms[i], peers[j], weights[np.ix_(i, j)])
    kind = {
        "signed": array.attrs.get("signed", False),
        "row_normalized": array.attrs.get("row_normalized", True),
    }
    return cls.from_matrices(matrices, name=array.name or "", **kind)
