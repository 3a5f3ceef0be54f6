"""Periods are in the order of time wherever they go: models, splits, networks, files."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from peerattn import WalkForward, compare
from peerattn.exceptions import InputError
from peerattn.models import (
    CrossSectionalRidge,
    FamaMacBethRegressor,
    LastValueRegressor,
    PrecomputedPeerRegressor,
)
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.past_outcomes import History
from peerattn.network import PeerNetwork
from peerattn.panel import as_panel, scan_panel
from peerattn.panel.knowledge import sorted_periods
from peerattn.panel.time_order import check_comparable

QUARTERS = [f"Q{quarter} {year}" for year in (2002, 2003) for quarter in (1, 2, 3, 4)]
ORDERED = pd.CategoricalDtype(QUARTERS, ordered=True)


def quarters(seed=0, n_firms=12):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(n_firms), range(8)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(len(index), 2)), index, ["size", "lev"])
    y = pd.Series(X["size"] + np.repeat(rng.normal(size=n_firms), 8), index, name="y")
    return X, y


def labelled(X, kind):
    flat = X.reset_index()
    text = flat["period"].map(dict(enumerate(QUARTERS)))
    return flat.assign(period=text.astype(ORDERED) if kind == "categories" else text)


@pytest.mark.parametrize("kind", ["categories", "text"])
@pytest.mark.parametrize("model", [LastValueRegressor(), FamaMacBethRegressor(), CrossSectionalRidge()])
def test_quarters_by_any_name_are_in_the_order_of_time(model, kind):
    X, y = quarters()
    flat = labelled(X, kind)
    expected = model.fit(X, y).predict(X)
    np.testing.assert_array_equal(model.fit(flat, y.to_numpy()).predict(flat), expected)
    one = flat[flat["period"] == "Q4 2002"]  # a single period is labelled as in the whole
    assert as_panel(one).period.equals(as_panel(flat).sorted().period[36:48])


@pytest.mark.parametrize("kind", ["categories", "text"])
def test_no_later_outcome_is_a_firms_past(kind):
    X, y = quarters()
    panel = as_panel(labelled(X, kind), y.to_numpy()).sorted()
    sections = []
    for period, at in panel.cross_sections():
        n = at.stop - at.start
        rows = Rows(
            np.zeros((n, 0)),
            np.zeros((n, 0)),
            panel.outcomes[at],
            None,
            np.arange(n),
            panel.firm[at],
            panel.firm[at],
        )
        sections.append(CrossSection(period, at, rows, rows))
    history = History.of(sections[::-1])
    for place, section in enumerate(sections):
        seen = history.before(section.period, panel.firm[:12], 8)
        assert (seen[:, 8 - place :] != 0).all() and not seen[:, : 8 - place].any()
        known = History.of(sections[:place]).before(section.period, panel.firm[:12], 8) if place else 0
        np.testing.assert_array_equal(seen, known)


def test_splits_and_measures_take_quarters():
    X, y = quarters()
    flat = labelled(X, "categories")
    (fold,) = WalkForward(test_periods=1).folds(flat, y.to_numpy())
    assert list(map(str, fold.periods)) == ["2003Q4"] and len(fold.train_periods) == 7
    codes, periods = sorted_periods(flat["period"].astype(str))
    assert codes.tolist() == X.index.get_level_values(1).tolist() and len(periods) == 8
    told, plain = (
        compare({"ridge": CrossSectionalRidge()}, frame, y.to_numpy(), cv=WalkForward(2), decomposition=False, verbose=False)
        for frame in (flat, X)
    )
    np.testing.assert_allclose(told.scores["r2_mean"], plain.scores["r2_mean"], rtol=1e-12)
    known = flat["period"].astype(str).where(flat["firm"] > 2, "Q4 2003")
    (fold,) = WalkForward(test_periods=1, known_at=known).folds(flat, y.to_numpy())
    assert len(fold.train) == 7 * 12  # an outcome that is known in the tested period is known


def test_a_network_of_a_later_quarter_is_not_used():
    X, y = quarters()
    flat = labelled(X, "text")
    first, later = (pd.DataFrame(np.roll(np.eye(12), k, axis=1), range(12), range(12)) for k in (1, 2))
    network = PeerNetwork.from_matrices({"Q1 2003": later, "Q1 2002": first}, row_normalized=False)
    assert list(map(str, network.periods)) == ["2002Q1", "2003Q1"]
    model = PrecomputedPeerRegressor(network=network).fit(flat, y.to_numpy())
    found = model.predict(flat, outcomes=y.to_numpy())
    own = flat["period"] == "Q4 2002"
    np.testing.assert_allclose(found[own], np.roll(y.to_numpy()[own], -1))


@pytest.mark.parametrize("labels", [["pre", "crisis", "post"], [2003, 2002, 2001], ["2001-03", "2001-02", "2001-01"]])
def test_categories_in_an_order_of_their_own_are_refused(labels):
    X = pd.DataFrame({"firm": 1, "period": pd.Categorical(labels, labels, ordered=True), "size": 1.0})
    for read in (as_panel, lambda frame: WalkForward(1).folds(frame, np.ones(3))):
        with pytest.raises(InputError, match="'period'.*(ordered categories|no dates).*integers"):
            read(X)
    with pytest.raises(InputError, match="ordered categories.*integers"):
        PeerNetwork.from_edges(X.assign(peer=2, weight=1.0))


@pytest.mark.parametrize("kind", ["categories", "text", "periods"])
def test_stored_panels_are_in_the_order_of_time(kind, tmp_path):
    X, y = quarters()
    flat = labelled(X, kind).assign(y=y.to_numpy())
    if kind == "periods":
        flat["period"] = pd.PeriodIndex(pd.period_range("2002Q1", periods=8, freq="Q")[X.index.codes[1]])
    flat = flat.sort_values(["period", "firm"])
    flat.to_parquet(tmp_path / "whole.parquet")
    (tmp_path / "parts").mkdir()
    for number, (_, part) in enumerate(flat.groupby("period", observed=True, sort=False)):
        part.to_parquet(tmp_path / "parts" / f"{number}.parquet")
    expected = as_panel(flat, outcome="y").sorted()
    for source in ("whole.parquet", "parts"):
        stored = scan_panel(tmp_path / source, outcome="y")
        assert list(map(str, stored.periods)) == [f"{y}Q{q}" for y in (2002, 2003) for q in (1, 2, 3, 4)]
        found = stored.mapped()
        assert found.period.equals(expected.period)
        np.testing.assert_array_equal(found.outcomes, expected.outcomes)


@pytest.mark.parametrize(
    "labels",
    [
        ["FY98", "FY99", "FY00", "FY01"],
        ["Q1'01", "Q2'01", "Q3'01", "Q4'01", "Q1'02"],
        [f"{month:02d}-{year:02d}" for year in (1, 2) for month in range(1, 13)],
        ["wave 1", "wave 2", "wave 10"],
    ],
)
def test_text_that_names_no_date_is_refused(labels):
    X = pd.DataFrame({"firm": 1, "period": labels, "size": 1.0})
    with pytest.raises(InputError, match="'period' holds text that names no dates.*integers"):
        as_panel(X)
    whole = X.assign(period=[f"FY{2001 + k}" for k in range(len(labels))])
    assert as_panel(whole).period.tolist() == whole["period"].tolist()


@pytest.mark.parametrize(
    ("asked", "known", "refused"),
    [
        ([200112], [2000, 2001], True),
        (["2001"], [2000], True),
        (pd.period_range("2001", periods=1, freq="Y"), pd.period_range("2000-01", periods=1, freq="M"), True),
        (pd.to_datetime(["2001"]).tz_localize("UTC"), pd.to_datetime(["2000"]), True),
        ([20001231], [200011], True),
        ([20001], [2000], True),  # the first quarter
        (["2000-10"], ["2000-8", "2000-9"], True),
        (["12/2000"], ["2000-11"], True),
        ([150_000], [90_000, 110_000], False),  # hours since some day
        ([200_001], [199_990, 200_010], False),  # ... of which some look like months
        ([200112], [199901], False),
        ([2002], [2000, 2001], False),
        ([], ["2001"], False),
    ],
)
def test_periods_of_another_kind_than_those_of_fit_are_refused(asked, known, refused):
    with pytest.raises(InputError, match="cannot be compared with those of fit") if refused else nullcontext():
        check_comparable(pd.Index(asked), pd.Index(known))


@pytest.mark.parametrize(
    ("periods", "known", "wrong"),
    [
        ([20000131, 20000229, 20000331], 202112, True),
        ([200001, 200002, 200003], 20000115, True),
        (["2000-01", "2000-02", "2000-03"], "12/2021", True),
        (["2000-01", "2000-02", "2000-03"], "2000", True),
        (["2000-01", "2000-02", "2000-03"], "2021-12", False),
    ],
)
def test_dates_of_knowledge_are_written_as_periods_are(periods, known, wrong):
    """A number or a text that sorts before a period may be years after it."""
    index = pd.MultiIndex.from_product([["A", "B"], periods], names=["firm", "period"])
    X, y = pd.DataFrame({"size": np.arange(6.0)}, index), pd.Series(1.0, index)
    split = WalkForward(1, known_at=pd.Series(known, index))
    if not wrong:
        assert [len(fold.train) for fold in split.folds(X, y)] == [0]
        return
    with pytest.raises(InputError, match="known_at: expected labels of the type of X's periods"):
        list(split.folds(X, y))
