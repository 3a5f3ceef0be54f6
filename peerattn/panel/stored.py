"""A panel that stays in files: one cross-section at a time is read."""

import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import CodeWarning, InputError, reworded, validate_arguments
from peerattn.panel.columns import ColumnChoice, check_known, choose_columns
from peerattn.panel.files import Reader, Run, dataset_of, runs_of, schema_of
from peerattn.panel.labels import panel_labels
from peerattn.panel.memory import check_memory
from peerattn.panel.panel import Panel
from peerattn.panel.reading import as_panel
from peerattn.panel.words import read_numbers
from peerattn.processes import share
from peerattn.types import ColumnLike, PanelLike

#: float64 copies of its rows' characteristics: 29 were measured with curves (the stack's default), 9 without
COPIES_OF_FIT = 30
_FIRST = 2**12  # rows that columns are chosen by
_SINGLE = ("float", "halffloat", "bool", "int8", "uint8", "int16", "uint16")  # types that float32 holds


@dataclass(frozen=True, repr=False, eq=False)
class StoredPanel:
    """A panel in files, partitioned or sorted by period; made by :func:`scan_panel`.

    Accepted by ``fit``, ``predict``, ``peer_network`` and :func:`~peerattn.evaluation.compare`. Iterating over it gives
    a :class:`Panel` for each period, in order of time: memory holds the largest cross-section, not the panel.

    Attributes
    ----------
    periods : Index (T,)
        In order of time.
    sizes : ndarray (T,)
        Rows of each period.
    choice : ColumnChoice
        Which columns are characteristics and codes, and why others were left out.
    outcome : str or None
    training_rows : int or None
        The most rows that ``fit`` reads; None for all.

    Examples
    --------
    >>> import tempfile
    >>> from peerattn import simulate_panel
    >>> from peerattn.panel import scan_panel
    >>> panel = simulate_panel(10, 3, 2, random_state=0)
    >>> path = f"{tempfile.mkdtemp()}/panel.parquet"
    >>> frame = panel.X.assign(y_next=panel.y).reset_index().sort_values("period")
    >>> frame.to_parquet(path, index=False)
    >>> type(scan_panel(path, outcome="y_next")).__name__
    'StoredPanel'
    """

    files: tuple[Any, ...]
    schema: Any
    runs: tuple[tuple[Run, ...], ...]
    periods: pd.Index
    sizes: np.ndarray
    choice: ColumnChoice
    outcome: str | None
    training_rows: int | None
    options: dict[str, Any]  # of as_panel
    folder: Any = field(default=None)  # keeps a temporary folder as long as it is used

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def __iter__(self) -> Iterator[Panel]:
        """Yield each period's panel, in order of time."""
        return self.read(range(len(self.periods)))

    def read(self, at: Iterable[int]) -> Iterator[Panel]:
        """Yield the panels of the periods in these places; forwards is fastest."""
        used = self.choice.characteristics
        codes = self.choice.codes
        columns = dict.fromkeys([self.options["firm"], self.options["period"], self.outcome, *used, *codes])
        columns.pop(None, None)  # without an outcome
        # one reader a file stays open from period to period, so that a file is read once
        readers: dict[int, Reader] = {}
        for place in at:
            frames = []
            for run in self.runs[place]:
                if run.file not in readers:
                    readers[run.file] = Reader(self.files[run.file], self.schema, list(columns))
                frames.append(readers[run.file].take(run.start, run.stop))
                if run.stop == readers[run.file].rows:
                    del readers[run.file]
            frame = pd.concat(frames, ignore_index=True)
            with warnings.catch_warnings():  # scan_panel has named what is unusual
                warnings.simplefilter("ignore", CodeWarning)
                panel = as_panel(frame, outcome=self.outcome, characteristics=used, codes=codes, **self.options)
            yield replace(panel, index=panel.X.index, choice=self.choice)

    @property
    def order(self) -> np.ndarray:
        """Place among all rows of the files, one file after another, of each row in the order of ``read``."""
        before = np.cumsum([0, *(file.count_rows() for file in self.files)])
        runs = [run for several in self.runs for run in several]
        return np.concatenate([before[run.file] + np.arange(run.start, run.stop) for run in runs])

    def sample(self) -> Panel:
        """Return what ``fit`` reads, in memory: all periods, or evenly spaced ones of ``training_rows`` rows at most.

        Of these, one of several processes (:func:`~peerattn.training.data_parallel`) reads its share.

        Raises
        ------
        InputError
            Where it does not fit into memory, or one cross-section has more rows than ``training_rows``.
        """
        at = self.sampled[share()]
        n = len(self.choice.characteristics)
        rows = int(self.sizes[at].sum())
        per_row = 8 * COPIES_OF_FIT * max(n, 1)
        advice = "pass training_rows= to scan_panel, a sample of whole periods, or fewer characteristics; "
        advice += f"{per_row:,} bytes are reckoned for a row."
        check_memory(rows * per_row, f"fit on {rows:,} rows of {n} characteristics", advice)
        return joined([panel.sorted() for panel in self.read(at)])

    @property
    def sampled(self) -> np.ndarray:
        """Places of the periods that ``fit`` reads: the first, the last, and others at even distances."""
        T = len(self.periods)
        most = self.training_rows
        if most is None or len(self) <= most:
            return np.arange(T)
        # the most periods that fit, evenly spaced: unequal sizes make the number a search
        for count in range(min(T, most // max(1, int(self.sizes.min()))), 0, -1):
            # from the end, so that the last period is always among them
            at = np.unique(np.linspace(T - 1, 0, count).round().astype(int))
            if self.sizes[at].sum() <= most:
                return at
        fewer = f"{most:,} are fewer than the {int(self.sizes[-1]):,} rows of period {self.periods[-1]}"
        raise InputError(f"training_rows: {fewer}. Whole cross-sections are read; allow at least as many.")

    def mapped(self) -> Panel:
        """Return the whole panel, its characteristics in a temporary file that is mapped into memory, column by column.

        The file takes 4 bytes a value (8 where a column is no float32) and goes with the panel. Labels, codes and outcomes are in
        memory; what is taken of the characteristics is read then.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        names = list(self.choice.characteristics)
        dtype = "float64"
        if all(str(self.schema.field(name).type) in _SINGLE for name in names):
            dtype = "float32"
        folder = tempfile.TemporaryDirectory(prefix="peerattn-", ignore_cleanup_errors=True)
        path = Path(folder.name, "characteristics")
        shape = (max(len(names), 1), len(self))
        with reworded(f"{path}: cannot be written", kinds=(OSError, ValueError)):
            matrix = np.memmap(path, dtype, "w+", shape=shape)
            panels = []
            start = 0
            for panel in (each.sorted() for each in self):
                matrix[: len(names), start : start + len(panel)] = panel.characteristics[names].to_numpy().T
                panels.append(replace(panel, characteristics=panel.characteristics[[]]))
                start += len(panel)
                matrix.flush()
        folder.cleanup()  # where files have no name of their own any more, they go with the last who reads them
        characteristics = pd.DataFrame(matrix[: len(names)].T, columns=names, copy=False)
        return replace(joined(panels), characteristics=characteristics)

    def __repr__(self) -> str:
        read = len(self.sampled)
        fits = ""
        if read != len(self.periods):
            fits = f", fit reads {read:,} periods"
        sizes = f"{len(self):,} rows, {len(self.periods):,} periods, {len(self.choice.characteristics)}"
        return f"StoredPanel({sizes} characteristics, outcome={self.outcome!r}{fits})"


@validate_arguments
def scan_panel(
    source: Any,
    *,
    outcome: ColumnLike | None = None,
    firm: ColumnLike = "firm",
    period: ColumnLike = "period",
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    industry: ColumnLike | None = None,
    training_rows: int | None = None,
    description: str = "",
) -> StoredPanel:
    """Look through a panel that may be larger than memory, and choose its columns; rows are read when they are used.

    Parameters
    ----------
    source : path, pyarrow.dataset.Dataset, or iterator of frames
        A Parquet or Arrow file sorted by period, a folder of such files (``period=2001-01/part.parquet``, as Hive names them,
        or each with some of the periods), or frames of one or more whole periods each. An iterator is written to a temporary
        folder, once, because a panel is read more than once.
    outcome : str, optional
        Column of the outcome; NaN means unknown. ``fit`` needs one.
    firm, period : str, default "firm", "period"
        Columns with the labels.
    characteristics : sequence of str, optional
        By default every numeric column except firm, period, outcome, codes and whatever looks like another outcome or
        an undeclared code, as :func:`read_panel` chooses them; dtypes are those of the first rows.
    codes : sequence of str, default ()
        Columns that are codes (sector, country, ...), whatever their dtype.
    industry : str, optional
        A code column that names each firm's industry; counted among the codes.
    training_rows : int, optional
        The most rows that ``fit`` reads: whole periods, evenly spaced from the first to the last. By default all, or an error
        where they do not fit into memory. Medians, scales and whatever else is learned come from these rows; ``purge`` and a
        firm's past outcomes then count the periods that are read.
    description : str, default ""

    Returns
    -------
    StoredPanel

    Raises
    ------
    InputError
        For a missing file or column, rows of one period that are not contiguous, or labels that cannot be used.

    Notes
    -----
    One pass over the column of periods, of one file at a time. Memory: that column. Later a cross-section and a row group of a
    Parquet file are in memory; write row groups of some 25,000 rows (``row_group_size=``) where columns are many.

    Examples
    --------
    >>> frame = pd.DataFrame({"firm": ["A", "B", "A"], "period": [2001, 2001, 2002], "size": [1.0, 2.0, 3.0]})
    >>> panel = scan_panel(iter([frame[:2], frame[2:]]))
    >>> panel
    StoredPanel(3 rows, 2 periods, 1 characteristics, outcome=None)
    >>> [len(section) for section in panel]
    [2, 1]
    """
    import pyarrow as pa

    with reworded(f"{source}: cannot be read by period", kinds=(pa.ArrowException, OSError, ValueError)):
        dataset, folder = dataset_of(source)
        files = [file for file in dataset.get_fragments() if file.count_rows()]
        if not files:
            raise InputError(f"{source}: the panel has no rows.")
        schema, wrong = schema_of(dataset, files)
        for argument, name in {"firm": firm, "period": period, "outcome": outcome, "industry": industry}.items():
            check_known(argument, [name], schema.names)
        check_known("characteristics", characteristics or (), schema.names)
        for name in [firm, period, outcome, *(characteristics or ())]:
            if kinds := wrong.get(str(name)):
                raise InputError(f"column {name!r} holds {kinds}: write one type in all files.")
        # which columns are numbers is seen in some rows, before all are read
        first = Reader(files[0], schema, schema.names).take(0, min(_FIRST, files[0].count_rows()))
        declared = list(dict.fromkeys(name for name in (*codes, industry) if name is not None))
        for name in {outcome, *(characteristics or schema.names)} - {None, firm, period, *declared}:
            # a period alone may not tell how its numbers are written
            if (text := read_numbers(first[name])) is not None:
                remedy = "write them as numbers, or declare it in codes"
                raise InputError(f"column {name!r} holds numbers as text, such as {text.note}: {remedy}.")
        choice = choose_columns(first, labels=(firm, period), outcome=outcome, characteristics=characteristics, codes=declared)
        labels, runs = runs_of(files, schema, period)
    # periods of files are read by the rules for frames
    found = panel_labels(pd.DataFrame({firm: 0, period: labels}), firm, period)
    assert found is not None
    places, periods = pd.factorize(found.period, sort=True)
    by_period: list[list[Run]] = [[] for _ in periods]
    for place, run in zip(places, runs, strict=True):
        by_period[place].append(run)
    return StoredPanel(
        tuple(files),
        schema,
        tuple(map(tuple, by_period)),
        pd.Index(periods),
        np.array([sum(run.stop - run.start for run in several) for several in by_period]),
        choice,
        outcome,
        training_rows,
        {"industry": industry, "firm": firm, "period": period, "description": description},
        folder,
    )


def joined(panels: Sequence[Panel]) -> Panel:
    """Return sorted panels of one period each, in order of time, as one."""
    first = panels[0]
    labels = first.labels.append([panel.labels for panel in panels[1:]])
    if first.outcomes is not None:
        first = replace(first, outcomes=np.concatenate([panel.outcomes for panel in panels]))
    return replace(
        first,
        characteristics=pd.concat([panel.characteristics for panel in panels], ignore_index=True),
        codes=pd.concat([panel.codes for panel in panels], ignore_index=True),
        firm=labels.get_level_values("firm"),
        period=labels.get_level_values("period"),
        order=np.arange(len(labels)),
        index=labels,
    )


def in_files(argument: str, X: PanelLike, *, outcome: str | None, **options: Any) -> StoredPanel:
    """Return a panel in files, scanned with these options unless it was; ``argument`` is the one that names its outcome."""
    if not isinstance(X, StoredPanel):
        return scan_panel(X, outcome=outcome, **options)
    if outcome not in (None, X.outcome):
        raise InputError(f"{argument}: the stored panel holds the outcome {X.outcome!r}, not {outcome!r}.")
    return X


def is_stored(X: PanelLike) -> bool:
    """Return whether something is a panel to be read by period: a stored one, a path, a dataset, or an iterator of frames."""
    return isinstance(X, StoredPanel | str | Path | Iterator) or hasattr(X, "get_fragments")
