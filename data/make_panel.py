"""Turn a CSV of firms and periods into a panel file (Parquet) that ``peerattn compare`` reads.

python data/make_panel.py firms.csv firms.parquet --firm gvkey --period datadate --every year --codes sic --next roa
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

from peerattn.exceptions import InputError, did_you_mean
from peerattn.panel import as_panel, canonical_codes
from peerattn.render import atomic_path

FREQUENCIES = {"year": "Y", "quarter": "Q", "month": "M"}


def make_panel(
    frame: pd.DataFrame,
    firm: str,
    period: str,
    *,
    every: str | None = None,
    codes: list[str],
    following: list[str],
) -> pd.DataFrame:
    """Return the panel, sorted by period and firm.

    Parameters
    ----------
    frame : DataFrame
        One row per firm and period; codes read as text.
    firm, period : str
        Columns with the labels.
    every : {"year", "quarter", "month"}, optional
        How far apart periods are. Periods become years (whole numbers), or the last day of their quarter or month.
    codes : list of str
        Columns that are codes: one spelling each, empty where unknown.
    following : list of str
        Columns whose value in the firm's next period becomes the outcome ``<column>_next``; needs ``every``.

    Raises
    ------
    InputError
        For a missing column, a date that is none, or a (firm, period) that comes twice.

    Examples
    --------
    >>> frame = pd.DataFrame({"gvkey": ["A", "A", "B"], "year": ["2001", "2002", "2001"], "roa": [0.1, 0.2, 0.3]})
    >>> make_panel(frame, "gvkey", "year", every="year", codes=[], following=["roa"])
      gvkey  year  roa  roa_next
    0     A  2001  0.1       0.2
    1     B  2001  0.3       NaN
    2     A  2002  0.2       NaN
    """
    for name in (firm, period, *codes, *following):
        if name not in frame.columns:
            raise InputError(f"there is no column {name!r}.{did_you_mean(name, frame.columns)}")
    if following and every is None:
        raise InputError(
            "--next needs --every: how far away is the next period, a year, a quarter or a month?"
        )
    panel = frame.assign(**{name: canonical_codes(frame[name]) for name in codes})
    spans = None if every is None else _spans(frame[period], FREQUENCIES[every])
    if spans is not None:
        panel[period] = spans.year if every == "year" else spans.to_timestamp(how="end").normalize()
    _refuse_twice(panel, firm, period)
    for name in following:
        assert spans is not None
        here = pd.MultiIndex.from_arrays([panel[firm], spans])
        after = pd.MultiIndex.from_arrays([panel[firm], spans + 1])
        panel[f"{name}_next"] = pd.Series(panel[name].to_numpy(), index=here).reindex(after).to_numpy()
    as_panel(
        panel, firm=firm, period=period, characteristics=()
    )  # refuses labels that are missing or cannot be sorted
    return panel.sort_values([period, firm], ignore_index=True)


def _spans(labels: pd.Series, frequency: str) -> pd.PeriodIndex:
    """Read years (2012), months (201206) and dates (2012-06-30) as spans of time."""
    text = labels.astype("str").str.strip().str.replace(r"\.0$", "", regex=True)
    text = text.str.replace(r"^(\d{4})(0[1-9]|1[0-2])$", r"\1-\2", regex=True)
    dates = pd.to_datetime(
        text.where(~text.str.fullmatch(r"\d{4}"), text + "-12"), errors="coerce", format="mixed"
    )
    if dates.isna().any():
        row = int(dates.isna().to_numpy().argmax())
        raise InputError(
            f"{labels.name!r}: row {row + 1} holds {labels.iloc[row]!r}, which is no year, month or date."
        )
    return pd.PeriodIndex(dates, freq=frequency)


def _refuse_twice(panel: pd.DataFrame, firm: str, period: str) -> None:
    twice = panel.loc[panel.duplicated([firm, period]), [firm, period]]
    if len(twice):
        shown = "; ".join(f"{f}, {p}" for f, p in twice.head(3).itertuples(index=False))
        raise InputError(f"{len(twice)} rows repeat a firm and period (such as {shown}): keep one of each.")


def main(arguments: list[str] | None = None) -> int:
    """Run the script; return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, metavar="CSV")
    parser.add_argument("target", type=Path, metavar="PARQUET")
    parser.add_argument("--firm", default="firm", help="column that names the firm (default: firm)")
    parser.add_argument("--period", default="period", help="column that names the period (default: period)")
    parser.add_argument("--every", choices=FREQUENCIES, help="how far apart periods are")
    parser.add_argument("--codes", default="", metavar="A,B", help="columns that are codes (SIC, sector)")
    parser.add_argument(
        "--next", default="", metavar="A,B", help="columns whose next value becomes an outcome, A_next"
    )
    given = parser.parse_args(arguments)
    codes, following = ([name for name in text.split(",") if name] for text in (given.codes, given.next))
    try:
        # codes and the firm's label as text: "0100" stays "0100"
        frame = pd.read_csv(given.source, dtype=dict.fromkeys([given.firm, *codes], "str"))
        panel = make_panel(
            frame, given.firm, given.period, every=given.every, codes=codes, following=following
        )
        with atomic_path(given.target) as temporary:
            panel.to_parquet(temporary, index=False)
    except (
        InputError,
        OSError,
        pd.errors.ParserError,
        pd.errors.EmptyDataError,
        UnicodeDecodeError,
    ) as error:
        print(f"make_panel: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    firms, periods = panel[given.firm].nunique(), panel[given.period].nunique()
    print(
        f"{given.target}: {len(panel):,} rows, {firms:,} firms, {periods} periods; columns {', '.join(panel.columns)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
