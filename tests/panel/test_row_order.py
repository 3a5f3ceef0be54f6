"""All attributes of a panel have its rows in one order, so that a mask made of one fits the others."""

import numpy as np
import pandas as pd
import pytest

from peerattn import load_russell, simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import LastValueRegressor
from peerattn.panel import as_panel, read_panel

FRAME = pd.DataFrame(
    {
        "firm": np.repeat(["C", "A", "B"], 4),
        "period": np.tile([2004, 2001, 2003, 2002], 3),
        "size": np.arange(12.0),
        "sector": np.repeat(["x", "y", "z"], 4),
    }
).assign(roa=lambda f: f["size"] + 100 * (f["period"] > 2002), filed=lambda f: f["period"] + 2)
CAME_IN = {
    "by firm": FRAME.sort_values(["firm", "period"]),
    "by period": FRAME.sort_values(["period", "firm"]),
    "newest first": FRAME.sort_values("period", ascending=False),
    "shuffled": FRAME.sample(frac=1, random_state=0),
}


def frame_of(order, folder):
    return CAME_IN[order].set_index(["firm", "period"])


def swapped(order, folder):
    return CAME_IN[order].set_index(["period", "firm"])


def flat(order, folder):
    return CAME_IN[order]


def in_csv(order, folder):
    CAME_IN[order].to_csv(folder / "panel.csv", index=False)
    return folder / "panel.csv"


def in_parquet(order, folder):
    CAME_IN[order].to_parquet(folder / "panel.parquet", index=False)
    return folder / "panel.parquet"


@pytest.mark.parametrize("order", CAME_IN)
@pytest.mark.parametrize("source", [frame_of, swapped, flat, in_csv, in_parquet])
def test_all_attributes_have_one_order(source, order, tmp_path):
    panel = read_panel(source(order, tmp_path), outcome="roa", codes=["sector"], known_at="filed")
    came = CAME_IN[order]
    assert panel.firm.tolist() == came["firm"].tolist() and panel.period.tolist() == came["period"].tolist()
    assert panel.X.index.equals(panel.labels) and panel.y.index.equals(panel.labels)
    np.testing.assert_array_equal(panel.X["size"], came["size"])
    np.testing.assert_array_equal(panel.characteristics["size"], came["size"])
    assert panel.codes["sector"].tolist() == panel.X["sector"].tolist() == came["sector"].tolist()
    np.testing.assert_array_equal(panel.y, came["roa"])
    np.testing.assert_array_equal(panel.outcomes, came["roa"])
    assert panel.known_at.tolist() == came["filed"].tolist()
    early = panel.period < 2003
    assert set(panel.X[early].index.get_level_values("period")) == {2001, 2002}
    assert panel.y[early].max() < 100


@pytest.mark.parametrize("panel", [load_russell(), simulate_panel(10, 4, 2, missing_share=0.2, random_state=0)])
def test_masks_of_the_datasets_fit(panel):
    middle = panel.period.unique().sort_values()[2]
    assert (panel.X[panel.period < middle].index.get_level_values("period") < middle).all()
    assert (panel.X[panel.firm == panel.firm[0]].index.get_level_values("firm") == panel.firm[0]).all()
    earlier, later = panel.before(middle), panel.since(middle)
    assert earlier.period.max() < middle == later.period.min() and len(earlier) + len(later) == len(panel)
    pd.testing.assert_frame_equal(earlier.X, panel.X[panel.period < middle])


@pytest.mark.parametrize(
    "kind, start",
    [
        (lambda p: p, 2003),
        (lambda p: 100 * p + 6, 200306),
        (lambda p: 100 * p + 6, "2003"),
        (lambda p: pd.Timestamp(f"{p}-06-30"), "2003-06"),
        (lambda p: pd.Timestamp(f"{p}-06-30"), pd.Timestamp("2003-06-30")),
        (lambda p: pd.Period(str(p), "Y"), pd.Period("2003", "Y")),
        (lambda p: f"{p}-06", "2003-06"),
    ],
)
@pytest.mark.parametrize("order", CAME_IN)
def test_before_and_since(order, kind, start):
    came = CAME_IN[order]
    frame = came.assign(period=came["period"].map(kind), filed=came["filed"].map(kind))
    panel = as_panel(frame, outcome="roa", known_at="filed", characteristics=["size"])
    earlier, later = panel.before(start), panel.since(start)
    early = (came["period"] < 2003).to_numpy()
    assert earlier.X["size"].tolist() == came["size"][early].tolist()
    assert later.X["size"].tolist() == came["size"][~early].tolist()
    # the outcomes of 2002 are known in 2004
    assert earlier.y.isna().tolist() == (came["period"][early] == 2002).tolist()
    pd.testing.assert_series_equal(later.y, panel.y[~early])


@pytest.mark.parametrize(
    "kind", [lambda months: months, lambda months: months.to_period("M"), lambda months: months.year * 100 + months.month]
)
def test_before_a_year_uses_no_outcome_that_is_known_later_in_that_year(kind):
    months = pd.date_range("2004-01-31", periods=24, freq="ME")
    frame = pd.DataFrame(
        {"firm": "A", "period": kind(months), "size": 1.0, "roa": 1.0, "filed": kind(months + pd.offsets.MonthEnd(3))}
    )
    panel = read_panel(frame, outcome="roa", known_at="filed")
    # that of October 2004 is known in January 2005, the first month that is left
    for label in ("2005", "2005-01", 2005):
        assert panel.before(label).y.notna().tolist() == [True] * 10 + [False] * 2
    # without a later period, those of the beginning of 2005 at the latest
    assert panel.before("2005").before("2005").y.notna().sum() <= 10


def test_dates_of_outcomes_are_compared_with_periods_where_they_are_read():
    with pytest.raises(
        InputError, match="known_at: expected labels of the type of X's periods .such as 200401, yyyymm., got 2005, years"
    ):
        read_panel(
            pd.DataFrame({"firm": "A", "period": [200401], "size": 1.0, "roa": 1.0, "filed": 2005}),
            outcome="roa",
            known_at="filed",
        )


def test_before_and_since_say_what_is_wrong():
    panel = as_panel(FRAME, outcome="roa")
    with pytest.raises(InputError, match="no row is before 2001; the panel has 2001 to 2004"):
        panel.before(2001)
    with pytest.raises(InputError, match="no row is since 2005"):
        panel.since(2005)
    with pytest.raises(InputError, match="'soon' cannot be compared with the periods"):
        panel.before("soon")
    with pytest.raises(InputError, match="carries no period"):
        as_panel(np.zeros((3, 2))).before(2001)
    never = as_panel(FRAME.assign(filed=np.nan), outcome="roa", known_at="filed", characteristics=["size"])
    assert never.before(2003).y.isna().all()
    with pytest.raises(InputError, match="not in the order of time"):
        list(panel.cross_sections())


@pytest.mark.parametrize("order", CAME_IN)
def test_a_model_fitted_on_rows_before_a_period_predicts_alike(order):
    panel = as_panel(CAME_IN[order], outcome="roa", characteristics=["size"])
    model = LastValueRegressor().fit(panel.before(2003))
    assert np.asarray(model.predict(panel.since(2003))).max() < 100
