from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import InputError
from peerattn.render import Table, escape, printable, show_label


def test_numbers_go_right_and_unknown_ones_say_so() -> None:
    table = Table("T", ("Model", "R2", "n"), [("a", -0.5, 12345), ("b", float("nan"), None)])
    assert table.alignment == "lrr"
    assert table.cells() == [["a", "-0.500", "12,345"], ["b", "n/a", ""]]
    assert table.text().splitlines()[2:] == [
        "Model      R2       n",
        "---------------------",
        "a      -0.500  12,345",
        "b         n/a",
    ]


def test_zero_has_no_sign() -> None:
    assert Table("", ("x",), [(-0.0001,)]).cells() == [["0.000"]]
    assert Table("", ("x",), [(-0.0001,)], formats=(".1%",)).cells() == [["0.0%"]]


def test_a_wide_table_comes_in_blocks_that_fit() -> None:
    columns = ("Model", *(f"column {i}" for i in range(8)))
    table = Table("Wide", columns, [("SIC peers", *map(float, range(8)))], footnotes=("a long note " * 12,))
    lines = table.text(width=40).splitlines()
    assert max(map(len, lines)) <= 40
    assert sum(line.startswith("Model") for line in lines) == 3
    assert all(f"column {i}" in table.text(width=40) for i in range(8))


def test_every_name_is_escaped_in_html() -> None:
    evil = "<img src=x onerror=alert(1)>\"'&"
    table = Table(evil, (evil,), [(evil,)], footnotes=(evil,))
    assert "<img" not in table.html()
    assert table.html().count("&lt;img") == 5  # title twice: as caption and as label
    assert table._repr_html_() == table.html()


def test_a_terminal_is_not_driven_by_names() -> None:
    text = Table("", ("firm",), [("\x1b[31mred\nnext\u202e",)]).text()
    assert "\x1b" not in text and "\u202e" not in text
    assert len(text.splitlines()) == 3
    assert printable("a\tb") == "a b"
    assert escape("\x00") == "\ufffd"


def test_wide_characters_keep_columns_straight() -> None:
    lines = Table("", ("firm", "x"), [("東芝", 1.0), ("Sony", 1.0)]).text().splitlines()
    assert lines[2] == "東芝  1.000" and lines[3] == "Sony  1.000"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": [("a",)]}, "2 cells"),
        ({"rows": [("a", 1)], "alignment": "lx"}, "alignment"),
        ({"rows": [("a", 1)], "formats": (".3f",)}, "formats"),
    ],
)
def test_misshapen_tables_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Table("", ("m", "x"), **arguments)  # type: ignore[arg-type]


def test_from_frame_shows_labels_and_keeps_numbers() -> None:
    frame = pd.DataFrame({"period": [pd.Timestamp("2012-06-30"), pd.NaT], "weight": [1 / 3, 2.0]})
    table = Table.from_frame(frame, title="Peers", formats={"weight": ".1f"})
    assert table.cells() == [["2012-06-30", "0.3"], ["", "2.0"]]
    assert table.to_frame()["weight"].tolist() == [1 / 3, 2.0]
    assert show_label(pd.Timestamp("2012-06-30 09:30")) == "2012-06-30 09:30:00"


@pytest.mark.parametrize(
    ("label", "shown"),
    [(("F00", np.int64(2019)), "(F00, 2019)"), (("F00", pd.Timestamp("2012-06-30")), "(F00, 2012-06-30)"), (np.int64(7), "7")],
)
def test_labels_of_numpy_are_shown_as_they_are_written(label: object, shown: str) -> None:
    assert show_label(label) == shown
