"""Spreadsheets: a sheet for each frame, in which text is text and never a formula."""

import io
import math
import re
import zipfile
from collections.abc import Mapping
from datetime import date
from itertools import chain, count
from pathlib import Path
from typing import Any

import pandas as pd

from peerattn.exceptions import expect, extra
from peerattn.render.cells import frame_cell, is_number
from peerattn.render.escape import printable
from peerattn.render.files import File, write_atomic


def write_workbook(path: File, sheets: Mapping[str, pd.DataFrame]) -> Path:
    """Write an Excel workbook.

    Parameters
    ----------
    path : path-like
        Ends in ``.xlsx``. It is replaced whole or not at all.
    sheets : mapping of str to DataFrame
        Frames by the name of their sheet; the index is not written.

    Returns
    -------
    pathlib.Path
        The file written.

    Raises
    ------
    InputError
        When openpyxl is missing, the name does not end in .xlsx, or the file cannot be written.

    Notes
    -----
    Text is written as text whatever it starts with: ``=HYPERLINK(...)`` as a firm's name is shown and not run. Missing and
    infinite numbers are empty cells.
    """
    expect(Path(path).suffix.lower() == ".xlsx", "path", "a name that ends in .xlsx", repr(str(path)))
    book = extra("openpyxl", "excel", "An Excel file").Workbook()
    book.remove(book.active)
    for name, frame in sheets.items():
        sheet = book.create_sheet(_sheet_name(name, book.sheetnames))
        for row in (list(frame.columns), *frame.itertuples(index=False, name=None)):
            sheet.append([_cell(value) for value in row])
        for column in sheet.columns:
            # the first rows are enough to choose a width
            widest = max(len(str(cell.value)) for cell in column[:200])
            sheet.column_dimensions[column[0].column_letter].width = min(max(widest + 2, 8), 60)
            for cell in column:
                if isinstance(cell.value, str):
                    cell.data_type = "s"  # openpyxl takes what begins with "=" for a formula
        sheet.freeze_panes = "B2"
    made = io.BytesIO()
    book.save(made)
    return write_atomic(path, _undated(made))


def _undated(made: io.BytesIO) -> bytes:
    """Return a workbook without the time it was made: equal frames give equal bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            # everything but the time is copied as it is
            part = old.read(name)
            if name == "docProps/core.xml":
                part = re.sub(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", b"1980-01-01T00:00:00Z", part)
            new.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _cell(value: object) -> object:
    cell: Any = frame_cell(value)
    if cell is not None and isinstance(value, date) and not isinstance(value, pd.Timestamp):
        return value
    if is_number(cell):
        if not math.isfinite(cell):
            return None
        return int(cell) if float(cell).is_integer() else float(cell)
    if cell is None:
        return cell
    return printable(cell)[:32_767]


def _sheet_name(name: str, used: list[str]) -> str:
    """Return a name that Excel allows: at most 31 characters, none of them special, and no other sheet's."""
    plain = re.sub(r"[\\/*?:\[\]']", " ", printable(name)).strip()[:28] or "Sheet"
    names = chain([plain], (f"{plain} {k}" for k in count(2)))
    return next(name for name in names if name not in used)
