"""Missing values and codes become numbers in one documented way."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from peerattn.exceptions import DroppedColumnWarning, InputError
from peerattn.panel import PanelEncoder
from peerattn.panel.design import weighted_median

NAN = np.nan


def panel(values, periods, **codes):
    index = pd.MultiIndex.from_arrays([range(len(values)), periods], names=["firm", "period"])
    return pd.DataFrame({"size": values, **codes}, index=index)


def test_missing_takes_the_median_of_its_cross_section():
    X = panel([1.0, NAN, 3.0, 8.0, 10.0, NAN, 30.0], [1, 1, 1, 1, 2, 2, 2])
    encoded = PanelEncoder().fit_transform(X)
    assert encoded["size"].tolist() == [1, 3, 3, 8, 10, 20, 30]
    assert encoded["size_missing"].tolist() == [0, 1, 0, 0, 0, 1, 0]
    assert encoded.index.equals(X.index)


def test_column_missing_throughout_a_period_takes_the_training_median():
    X = panel([1.0, 2.0, 9.0, NAN, NAN], [1, 1, 1, 2, 2])
    assert PanelEncoder().fit_transform(X)["size"].tolist() == [1, 2, 9, 2, 2]


def test_later_periods_do_not_move_the_training_median():
    encoder = PanelEncoder().fit(panel([1.0, NAN, 3.0], [1, 1, 1]))
    test = panel([100.0, NAN, NAN], [2, 2, 3])
    assert encoder.transform(test)["size"].tolist() == [100, 100, 2]


def test_indicator_only_where_training_has_missing_values():
    encoder = PanelEncoder().fit(panel([1.0, 2.0], [1, 1]))
    encoded = encoder.transform(panel([NAN, 2.0, 4.0], [2, 2, 2]))
    assert encoded.columns.tolist() == ["size"]
    assert encoded["size"].tolist() == [3, 2, 4]


def test_column_without_any_training_value_is_dropped_with_one_warning():
    X = panel([1.0, 2.0], [1, 1], other=[NAN, NAN])
    with pytest.warns(DroppedColumnWarning, match="no training value at all in 'other': left out") as warned:
        encoder = PanelEncoder().fit(X)
    assert len(warned) == 1
    assert encoder.transform(X.assign(other=7.0)).columns.tolist() == ["size"]


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.DroppedColumnWarning")
def test_nothing_to_learn_from():
    with pytest.raises(InputError, match="no characteristic with a known training value, and no code"):
        PanelEncoder().fit(panel([NAN, NAN], [1, 1]))


def test_codes_are_one_hot_and_unknown_is_all_zero():
    X = panel([1.0, 2.0, 3.0, 4.0], [1] * 4, sic=[100, "3711", None, "9999"])
    encoder = PanelEncoder(codes=["sic"]).fit(X)
    assert encoder.get_feature_names_out().tolist() == ["size", "sic=0100", "sic=3711"]
    assert encoder.transform(X).iloc[:, 1:].to_numpy().tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]
    unseen = encoder.transform(panel([1.0, 2.0], [2, 2], sic=["2911", "0100"]))
    assert unseen.iloc[:, 1:].to_numpy().tolist() == [[0, 0], [1, 0]]


def test_row_order_is_kept():
    rng = np.random.default_rng(0)
    X = panel(rng.normal(size=30), np.repeat([3, 1, 2], 10), sic=rng.choice(["0100", "3711"], 30))
    X.iloc[::4, 0] = NAN
    encoder = PanelEncoder().fit(X)
    shuffled = X.sample(frac=1, random_state=0)
    pd.testing.assert_frame_equal(encoder.transform(shuffled), encoder.transform(X).loc[shuffled.index])
    pd.testing.assert_frame_equal(PanelEncoder().fit(shuffled).transform(X), encoder.transform(X))


def test_in_a_pipeline_with_a_plain_regressor():
    X = panel([1.0, NAN, 3.0, 8.0], [1] * 4, sic=["0100", "3711", "0100", None])
    model = make_pipeline(PanelEncoder(), LinearRegression()).fit(X, [1.0, 2.0, 3.0, 4.0])
    assert np.isfinite(model.predict(X)).all()


def test_weighted_median_counts_rows():
    rng = np.random.default_rng(0)
    for n in range(1, 8):
        values, weights = rng.normal(size=n), rng.integers(0, 4, size=n)
        weights[0] = 1
        assert weighted_median(values, weights) == pytest.approx(np.median(np.repeat(values, weights)))
    assert np.isnan(weighted_median(np.array([NAN])))
