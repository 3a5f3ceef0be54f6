"""Names of the kinds of input that public functions take; what arrived is found out by the one gate in ``peerattn.panel``."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, TypeAlias

#: A Panel; a DataFrame indexed by (firm, period), of pandas, polars, Arrow or DuckDB; an array (one cross-section); or a
#: panel in files: a path, a Dataset, a StoredPanel, an iterator of frames.
PanelLike: TypeAlias = object
#: One number (or class) a row: a Series, aligned by its labels; an array or list, aligned by position; None where there is
#: none; of a panel in files the name of the column.
OutcomesLike: TypeAlias = object
#: The candidate peers of cross-attention: a Reference, a frame, or a pair (X_ref, y_ref).
ReferenceLike: TypeAlias = object
#: Firms or periods, one label a row.
LabelsLike: TypeAlias = object
if TYPE_CHECKING:
    #: A column by its name: text, or what else pandas takes for one.
    ColumnLike: TypeAlias = str
else:
    ColumnLike = Hashable
