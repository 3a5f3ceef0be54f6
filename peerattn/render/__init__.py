"""Tables, the style of figures, escaping, pages, progress bars and safe writing: how results are shown.

For users: tables, and the style of figures. The rest serves the modules that show results.
"""

from peerattn.render.cells import MINUS, show_label, with_minus
from peerattn.render.escape import csv_label, csv_of, csv_text, escape, figure_text, latex_text, markdown_text, printable
from peerattn.render.figure import INK, PALETTE, figure_style, svg, weight_colours
from peerattn.render.files import File, atomic_path, check_writable, unfinished, write_atomic
from peerattn.render.page import Block, Code, Frame, Picture, Section, page
from peerattn.render.progress import CLEAR, progress_bar
from peerattn.render.regression import STARS, Regression, regression_table
from peerattn.render.table import Shown, Table
from peerattn.render.workbook import write_workbook

__all__ = ["PALETTE", "Regression", "Table", "figure_style", "regression_table", "svg", "weight_colours"]
