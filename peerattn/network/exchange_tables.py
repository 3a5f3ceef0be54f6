"""To and from tables: Parquet, CSV, SciPy and xarray."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, did_you_mean
from peerattn.network import parquet, partitions
from peerattn.network.building import network_from_edges, sections_from_matrices
from peerattn.network.store import NetworkStore
from peerattn.render import show_label, write_atomic


class TableExchange(NetworkStore):
    """A network that can be written as tables and read back."""

    def to_parquet(self, path: str | os.PathLike[str], *, partitioned: bool = False) -> None:
        """Write the network as tidy edges in Parquet; :meth:`from_parquet` gives all of it back.

        Parameters
        ----------
        path : path-like
            The file, or the folder of a partitioned network. It is replaced whole or not at all.
        partitioned : bool, default False
            Make a folder with one file for each period, ``period=2012-06-30/edges.parquet``, which pandas, Arrow,
            DuckDB and Spark read as one table and of which one can read single periods.

        Raises
        ------
        InputError
            When it cannot be written, or a folder is there that holds no network.
        """
        if partitioned:
            partitions.write_partitions(self, path)
        else:
            parquet.write_parquet(self, path)

    @classmethod
    def from_parquet(cls, path: str | os.PathLike[str]) -> Self:
        """Read a network that :meth:`to_parquet` wrote.

        Parameters
        ----------
        path : path-like
            The file, or the folder of a partitioned network.

        Returns
        -------
        PeerNetwork
            Equal to the one written: weights, isolates, label dtypes, name and kind.

        Raises
        ------
        InputError
            When the file is missing, cut off, or not a network.
        """
        read = partitions.read_partitions if Path(path).is_dir() else parquet.read_parquet
        return cls(**read(path))

    def to_scipy(self, period: Any = None) -> sparse.csr_array:
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
        return self.section(period)[1].csr().copy()

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write all edges as CSV: ``period, firm, peer, weight``; an isolate has a row without a peer.

        Parameters
        ----------
        path : path-like
            The file. Text has no dtypes: for a faithful copy use :meth:`to_parquet`.
        """
        blocks = []
        for label, section in self.sections():
            i, j, w = section.entries()
            alone = section.rows[section.isolates()]
            firms = pd.Series(self.labels.take(np.concatenate([section.rows[i], alone]))).map(show_label)
            peers = [show_label(peer) for peer in self.labels.take(section.columns[j])]
            blocks.append(
                pd.DataFrame(
                    {
                        "period": show_label(label),
                        "firm": firms,
                        "peer": peers + [""] * len(alone),
                        "weight": np.concatenate([w.astype(np.float64), np.zeros(len(alone))]),
                    }
                )
            )
        write_atomic(path, pd.concat(blocks).to_csv(index=False))

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str = "",
        signed: bool = False,
        row_normalized: bool = True,
    ) -> Self:
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
        both = [frame[[*key, "firm"]], frame[[*key, "peer"]].rename(columns={"peer": "firm"})]
        firms = pd.concat(both).drop_duplicates()
        edges = frame[frame["peer"] != ""]
        labels, periods, sections = network_from_edges(edges, firms[firms["firm"] != ""])
        return cls(labels, periods, sections, name=name, signed=signed, row_normalized=row_normalized)

    def to_xarray(self) -> Any:
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
        rows, columns = (self.labels.get_indexer_for(side) for side in (self.firms, self.reference))
        values = np.full((len(self.periods), len(rows), len(columns)), np.nan)
        for t, (_, section) in enumerate(self.sections()):
            i, j = np.searchsorted(rows, section.rows), np.searchsorted(columns, section.columns)
            values[t][np.ix_(i, j)] = section.dense()
        periods = self.periods if self.is_dated else pd.Index([0])
        return array(
            values,
            coords={"period": periods, "firm": self.firms, "peer": self.reference},
            dims=("period", "firm", "peer"),
            name=self.name or None,
            attrs={"signed": self.signed, "row_normalized": self.row_normalized, "dated": self.is_dated},
        )

    @classmethod
    def from_xarray(cls, array: Any) -> Self:
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
                raise InputError(
                    f"array: expected the dimensions period, firm, peer; got {tuple(array.dims)}."
                )
        array = array.transpose("period", "firm", "peer")
        firms, peers = (array.indexes[side].rename(None) for side in ("firm", "peer"))
        matrices: dict[Any, Any] = {}
        for t, period in enumerate(array.indexes["period"]):
            weights = array.values[t]
            here = ~np.isnan(weights)
            i, j = here.any(axis=1), here.any(axis=0)
            key = period if array.attrs.get("dated", True) else None
            matrices[key] = (firms[i], peers[j], weights[np.ix_(i, j)])
        labels, periods, sections = sections_from_matrices(matrices)
        return cls(
            labels,
            periods,
            sections,
            name=array.name or "",
            signed=bool(array.attrs.get("signed", False)),
            row_normalized=bool(array.attrs.get("row_normalized", True)),
        )
