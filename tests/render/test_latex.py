import re

import pandas as pd
import pytest

from peerattn.exceptions import InputError
from peerattn.render import Table, latex_text, markdown_text, write_workbook

NASTY = "a\\b{c}$d$ &e %f #g_h ~i^j <k> |l| \"m\" ²†−×≤≥→–—… \n*n* `o` [p](q) !r =1+1 東 s--t---u ''v''"
COMMANDS = {
    "textbackslash{}": "\\", "textasciitilde{}": "~", "textasciicircum{}": "^", "textless{}": "<", "textgreater{}": ">",
    "textbar{}": "|", "textquotedbl{}": '"', "ldots{}": "…", "textendash{}": "–", "textemdash{}": "—",
    "textasciigrave{}": "`", "{": "{", "}": "}", "$": "$", "&": "&", "%": "%", "#": "#", "_": "_",
}  # fmt: skip
MATH = {"^2": "²", "\\dagger": "†", "-": "−", "\\times": "×", "\\leq": "≤", "\\geq": "≥", "\\rightarrow": "→"}


def read_latex(text):
    """What LaTeX would typeset, by a reader that knows nothing of the writer."""
    out, at = "", 0
    while at < len(text):
        rest = text[at:]
        command = next((c for c in COMMANDS if rest.startswith("\\" + c)), None)
        math = re.match(r"\$([^$]+)\$", rest)
        if command is not None:
            out, at = out + COMMANDS[command], at + 1 + len(command)
        elif math:
            out, at = out + MATH[math[1]], at + math.end()
        elif rest.startswith("{}"):
            at += 2
        else:
            assert rest[0] not in "\\{}$&%#_^~`" and not re.match("--|''", rest), rest
            out, at = out + rest[0], at + 1
    return out


def test_latex_is_read_back_as_it_was():
    assert read_latex(latex_text(NASTY)) == NASTY.replace("\n", " ")


def test_markdown_escapes_every_mark():
    assert re.sub(r"\\([\W_])", r"\1", markdown_text(NASTY)) == NASTY.replace("\n", " ")
    assert not re.search(r"(?<!\\)[*_`|<>\[\]]", markdown_text("*_`|<>[]"))


def test_a_row_that_starts_like_an_option():
    text = Table("", ("A", "B"), (("x", 1.0), ("[2pt]", 2.0), ("*", 3.0))).to_latex(label="tab:a")
    assert "\\\\\n{}[2pt] &" in text and "\n{}* &" in text and r"\label{tab:a}" in text


def test_workbooks(tmp_path):
    frame = pd.DataFrame({"=A1": ["=1+1", "@x", None], "n": [1.5, float("nan"), float("inf")], "t": pd.Timestamp("2001-01-31")})
    openpyxl = pytest.importorskip("openpyxl")
    path = write_workbook(tmp_path / "b.xlsx", {"a/b": frame, "a:b": frame, "x" * 40: frame})
    book = openpyxl.load_workbook(path)
    assert book.sheetnames == ["a b", "a b 2", "x" * 28]
    rows = [[cell.value for cell in row] for row in book["a b"].iter_rows()]
    assert rows == [
        ["=A1", "n", "t"],
        ["=1+1", 1.5, "2001-01-31"],
        ["@x", None, "2001-01-31"],
        [None, None, "2001-01-31"],
    ]
    assert book["a b"]["A1"].data_type == "s" and book["a b"]["A2"].data_type == "s"
    with pytest.raises(InputError, match="ends in .xlsx"):
        write_workbook(tmp_path / "b.xls", {})
