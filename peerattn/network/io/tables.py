"""Tables and arrays: CSV, edge files, SciPy, and Parquet, from which all of a network comes back."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from safetensors.numpy import load, save
from scipy import sparse

from peerattn.exceptions import reworded
from peerattn.network.base import Net, Network, as_plain
from peerattn.network.building import from_edges
from peerattn.network.cross_section import Array, CrossSection, frozen, place_in
from peerattn.panel.columns import check_known, warn_of_words
from peerattn.panel.csv_file import read_csv_file
from peerattn.panel.frames import read_frame
from peerattn.render import csv_label, csv_of, show_label, write_atomic
from peerattn.store.sealed import FOREIGN, KEY, read_sealed, seal, with_header, without_header

if TYPE_CHECKING:
    import pyarrow as pa


def to_csv(network: Network, path: str | os.PathLike[str]) -> None:
    """Write all edges as CSV: ``period, firm, peer, weight``; an isolate has a row without a peer.

    Parameters
    ----------
    path : path-like
        The file. Text has no dtypes: for a faithful copy use :meth:`to_parquet`. A network that was learned from outcomes has a
        fifth column, ``learned_until``. A label that a spreadsheet would run
        as a formula (``=``, ``+``, ``-``, ``@`` first) is written with an apostrophe before it, which
        :meth:`from_csv` takes off.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/network.csv"
    >>> network.to_csv(path)
    >>> print(open(path).readline().strip())
    period,firm,peer,weight
    """
    # isolates have no edge, and would be lost
    frame = pd.concat([network.edges(), network.isolates.assign(peer="", weight=0.0)])
    frame = frame[["period", "firm", "peer", "weight"]].astype({"peer": object})
    for side in ("period", "firm", "peer"):
        frame[side] = [show_label(label) for label in frame[side]]
    if network.learned_until is not None:
        frame["learned_until"] = str(as_plain(network.learned_until))
    write_atomic(path, csv_of(frame))


def from_csv(cls: type[Net], path: str | os.PathLike[str], **kind: Any) -> Net:
    """Read edges that :meth:`to_csv` wrote, or any CSV file with those columns; labels come as whole numbers or text.

    Parameters
    ----------
    path : path-like
        The file.
    **kind
        ``name``, ``signed``, ``row_normalized`` as in :meth:`PeerNetwork.from_matrices`.

    Returns
    -------
    PeerNetwork
        Square and sparse inside; a period's firms are those its rows name. Firms are integers where the labels of all are whole
        numbers without zeros before them, otherwise text; periods likewise.

    Raises
    ------
    InputError
        When the file is missing, a column is missing, or weights are bad.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/network.csv"
    >>> network.to_csv(path)
    >>> float(PeerNetwork.from_csv(path).matrix().loc["A", "B"])
    0.75
    """
    with reworded(f"path: no file of edges can be read from {str(path)!r}"):
        # all as text: a firm called NA or 007 is no number
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    check_known("path", ("firm", "peer", "weight"), frame.columns)
    if "period" in frame.columns and (frame["period"] == "").all():
        frame = frame.drop(columns="period")
    labels = frame.columns.intersection(["period", "firm", "peer", "learned_until"])
    frame[labels] = frame[labels].map(csv_label)
    # a row without a peer says that the firm was there
    edges = frame[frame["peer"] != ""]
    kinds = {name: "int64" for name in labels.drop(["firm", "peer"]) if _are_whole(frame[name])}
    if _are_whole(frame["firm"], edges["peer"]):
        kinds["firm"] = "int64"
        edges = edges.astype({"peer": "int64"})
    frame, edges = (part.astype(kinds) for part in (frame, edges))
    keys = frame.columns.intersection(["period", "firm"])
    peers = edges.drop(columns="firm").rename(columns={"peer": "firm"})
    return from_edges(cls, edges, pd.concat([frame[keys], peers[keys]]).drop_duplicates(), **kind)


def _are_whole(*texts: pd.Series) -> bool:
    """Return whether texts are those of whole numbers; 0100 is a code."""
    return all(text.str.fullmatch(r"0|-?[1-9][0-9]{0,17}").all() for text in texts)


def to_scipy(network: Network, period: Hashable = None) -> sparse.csr_array:
    """Return one period's weights as a SciPy sparse array; rows and columns as in :meth:`matrix`.

    Parameters
    ----------
    period : label, optional
        May be left out when there is only one.

    Returns
    -------
    scipy.sparse.csr_array, shape (n_firms, n_peers)
        A copy. It does not record what the weights were learned from: restore it by ``replaced(learned_until=)``.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> network.to_scipy().shape
    (3, 3)
    """
    return network.section(period)[1].csr().copy()


def from_edge_file(
    cls: type[Net],
    path: str | os.PathLike[str],
    *,
    firm: str = "firm",
    peer: str = "peer",
    weight: str | None = None,
    period: str | None = None,
    dtype: Any = None,
    name: str = "",
) -> Net:
    r"""Read links that another source has observed: supply chains, text-based peers, common analysts, co-search, ownership.

    Parameters
    ----------
    path : path-like
        CSV, text separated by tabs (``.tsv``, ``.txt``), Parquet or Stata; ``.gz``, ``.zip`` and the like are unpacked.
    firm, peer : str, default "firm", "peer"
        Columns of the firm and of the firm it is linked to, such as ``"gvkey1"`` and ``"gvkey2"``.
    weight : str, optional
        Column of the strength of a link, such as ``"score"``; default: every link is 1.
    period : str, optional
        Column of the period; default: links without a date.
    dtype : mapping of str to type, optional
        Types of columns, as in ``pandas.read_csv``: ``{"gvkey1": str, "gvkey2": str}`` keeps leading zeros.
    name : str, optional
        Default: the name of the file.

    Returns
    -------
    PeerNetwork
        Rows need not sum to one. A firm that has no link in the file is unknown, not unlinked. Of weights that were learned
        from outcomes a column ``learned_until``, or ``edges()`` of a network written to Parquet, records it; of any other file
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
    with reworded(f"path: cannot read {str(path)!r}"):
        frame = _edge_frame(Path(path), dtype)
    wanted = {"period": period, "firm": firm, "peer": peer, "weight": weight}
    columns = {column: role for role, column in wanted.items() if column is not None}
    for column, role in columns.items():
        check_known(role, [column], frame.columns)
    for name_of_firms in (firm, peer):
        warn_of_words(frame[name_of_firms])
    informed = frame.columns.intersection(["learned_until"]).difference(list(columns))
    edges = frame[[*columns, *informed]].rename(columns=columns)
    if weight is None:
        edges["weight"] = 1.0
    # nothing in a file shows whether its links are signed
    negative = bool((pd.to_numeric(edges["weight"], errors="coerce") < 0).any())
    return from_edges(cls, edges, signed=negative, row_normalized=False, name=name or Path(path).name)


def _edge_frame(path: Path, dtype: type | Mapping[str, type] | None) -> pd.DataFrame:
    """Return a file of edges as a frame, words such as NA as they are written."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] in ([".parquet"], [".dta"]):
        return read_frame(path).astype(dtype or {})
    if ".dta" in suffixes:  # packed
        return pd.read_stata(path).astype(dtype or {})
    separator = "\t" if {*suffixes} & {".tsv", ".txt"} else ","
    if not isinstance(dtype, Mapping):
        return read_csv_file(path, separator, None if dtype is str else ())
    texts = [name for name, kind in dtype.items() if kind in (str, "str", "string", object)]
    return read_csv_file(path, separator, texts).astype({name: kind for name, kind in dtype.items() if name not in texts})


_ARRAYS = "peerattn.arrays"
_EXPECTED = "a network that to_parquet wrote (of other edges make one: PeerNetwork.from_edges(pandas.read_parquet(path)))"


def to_parquet(network: Network, path: str | os.PathLike[str], *, place: str = "") -> None:
    """Write the network as tidy edges in Parquet; :meth:`from_parquet` gives all of it back.

    Columns ``period, firm, peer, weight``, one row for each weight that is not zero, row groups of one period
    each (a reader with a filter on ``period`` reads only these); the file's metadata hold each period's firms and peers
    (isolates too), the name, the kind and the stability, under a seal that shows any change.

    Parameters
    ----------
    path : path-like
        The file. It is replaced whole or not at all.
    place : str, default ""
        What the file is for (a model, a run): :meth:`from_parquet` raises an error for another purpose.

    Raises
    ------
    InputError
        When it cannot be written, or labels are of a kind Parquet has no type for.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/network.parquet"
    >>> network.to_parquet(path)
    >>> PeerNetwork.from_parquet(path).equals(network)
    True
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    one = min(1, len(network.labels), len(network.periods))
    example = {"period": network.periods[:one], "firm": network.labels[:one], "peer": network.labels[:one]}
    # float32 stays float32 where all periods are
    dtype = np.result_type(*(section.weights.dtype for _, section in network.sections()), np.float32)
    frame = pd.DataFrame(example).assign(weight=np.zeros(one, dtype))
    with reworded("to_parquet: no type for these labels", " Make them text.", (pa.ArrowInvalid, pa.ArrowTypeError)):
        schema = pa.Schema.from_pandas(frame, preserve_index=False)
    content = io.BytesIO()
    with pq.ParquetWriter(content, schema, compression="zstd") as writer:
        for position, (_, section) in enumerate(network.sections()):
            # a row group of one period: a reader with a filter on it reads only this
            edges = network.replaced([section], periods=network.periods[[position]]).edges()
            writer.write_table(pa.Table.from_pandas(edges, schema=schema, preserve_index=False))
        arrays, header = held_facts(network, place)
        writer.add_key_value_metadata({_ARRAYS: base64.b64encode(arrays), KEY: header})
    write_atomic(path, seal(content.getvalue()))


def from_parquet(cls: type[Net], path: str | os.PathLike[str], *, place: str | None = None) -> Net:
    """Read a network that :meth:`to_parquet` wrote.

    Parameters
    ----------
    path : path-like
        The file.
    place : str, optional
        What the file must be for; default: not checked.

    Returns
    -------
    PeerNetwork
        Equal to the one written: weights, isolates, label dtypes, name, kind and stability.

    Raises
    ------
    InputError
        When the file is missing, cut off, not a network, is for something else, or was changed after it was written.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/network.parquet"
    >>> network.to_parquet(path)
    >>> len(PeerNetwork.from_parquet(path).firms)
    3
    """
    import pyarrow.parquet as pq

    from peerattn.store.objects import decoded

    content = read_sealed(path, _EXPECTED)
    with reworded(FOREIGN):
        file = pq.ParquetFile(io.BytesIO(content))
        header, stored = (file.metadata.metadata[name.encode()] for name in (KEY, _ARRAYS))
        arrays, tree = without_header(load(base64.b64decode(stored)), header, path, "network", place)
        facts = decoded(tree["facts"], arrays)
        labels, periods, sections = (facts.pop(name) for name in ("labels", "periods", "sections"))
        edges = file.read(["firm", "peer", "weight"])
        return cls(labels, periods, _sections(sections, labels, edges), **facts)


def held_facts(network: Network, place: str = "") -> tuple[bytes, str]:
    """Return everything of a network that is not an edge, as a file holds it: arrays and a header."""
    from peerattn.store.objects import encoded

    sections = [
        (s.n_edges, s.rows, None if s.is_square else s.columns, s.is_sparse, str(s.weights.dtype)) for _, s in network.sections()
    ]
    parts = {"labels": network.labels, "periods": network.periods, "stability": network.stability}
    arrays: dict[str, Array] = {}
    tree = encoded(network.facts() | parts | {"sections": sections}, arrays, "network")
    stored, header = with_header(arrays, {"facts": tree}, "network", place)
    return save(stored), header


def _sections(kept: list[Any], labels: pd.Index, edges: pa.Table) -> Iterator[CrossSection]:
    """Read the cross-sections from what is known of them and the edges of all periods, in their order."""
    start = 0
    for count, rows, others, is_sparse, dtype in kept:
        columns = rows if others is None else others
        here = edges.slice(start, count).to_pandas()
        start += count
        i, j = (
            place_in(members, labels.get_indexer_for(pd.Index(here[side])))
            for side, members in (("firm", rows), ("peer", columns))
        )
        # the file holds edges alone: firms without one come from the facts
        weights = sparse.csr_array((here["weight"].to_numpy(dtype=dtype), (i, j)), shape=(len(rows), len(columns)))
        yield CrossSection(rows, columns, frozen(weights if is_sparse else weights.toarray()))
