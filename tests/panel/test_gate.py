"""The gate: one checked panel whatever came in, rows back in the order they came."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from peerattn.exceptions import CodeWarning, InputError, LabelWarning, PossibleLeakWarning, UnitWarning
from peerattn.panel import as_panel, check_panel


class Anything(RegressorMixin, BaseEstimator):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


FIRMS, YEARS = list("DBAC"), [2002, 2001, 2003]
INDEX = pd.MultiIndex.from_product([FIRMS, YEARS], names=["firm", "period"])


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(12, 2)), index=INDEX, columns=["size", "lev"])
    return X.assign(sector=list("xyzxyzxyzxyz")).sample(frac=1, random_state=1)


@pytest.fixture
def y(X):
    return pd.Series(np.random.default_rng(1).normal(size=12), index=X.index, name="roa")


def fit_gate(X, y=None, **options):
    estimator = Anything()
    return estimator, check_panel(estimator, X, np.zeros(len(X)) if y is None else y, fitting=True, **options)


def test_rows_are_sorted_by_period_and_firm_and_come_back(X, y):
    _, panel = fit_gate(X, y)
    assert panel.period.tolist() == sorted(panel.period)
    assert panel.firm.tolist() == list("ABCD") * 3
    assert panel.outcomes.tolist() == y[pd.MultiIndex.from_arrays([panel.firm, panel.period])].tolist()
    np.testing.assert_array_equal(panel.restore(panel.outcomes), y)
    assert [(p, s.stop - s.start) for p, s in panel.cross_sections()] == [(2001, 4), (2002, 4), (2003, 4)]
    assert panel.characteristics.columns.tolist() == ["size", "lev"]
    assert panel.codes.columns.tolist() == ["sector"]


def test_the_same_panel_from_every_kind_of_frame(X, y):
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    flat = X.reset_index()
    _, expected = fit_gate(X, y)
    frames = [
        X.swaplevel(),
        X.sample(frac=1, random_state=3),
        flat,
        flat.set_index("firm"),
        flat.convert_dtypes(),
        flat.convert_dtypes(dtype_backend="pyarrow"),
        flat.assign(firm=flat["firm"].astype("category"), period=flat["period"].astype("category")),
        flat.assign(period=flat["period"].astype(float), sector=flat["sector"].astype("category")),
        polars.from_pandas(flat),
        pyarrow.Table.from_pandas(flat),
    ]
    for frame in frames:
        _, panel = fit_gate(frame)
        pd.testing.assert_frame_equal(panel.characteristics, expected.characteristics)
        pd.testing.assert_frame_equal(panel.codes, expected.codes)
        assert panel.firm.tolist() == expected.firm.tolist()
        assert panel.period.tolist() == expected.period.tolist()


def test_integer_firms_and_mixed_firms(X, y):
    flat = X.reset_index()
    _, panel = fit_gate(flat.assign(firm=flat["firm"].map({"A": 10, "B": 9, "C": 100, "D": 1})))
    assert panel.firm.tolist() == [1, 9, 10, 100] * 3
    with pytest.raises(InputError, match="'firm' holds numbers such as 10? and text such as '9': give all firms one type"):
        fit_gate(flat.assign(firm=flat["firm"].map({"A": 10, "B": "9", "C": 100, "D": 1})))


def test_arrays_and_frames_without_labels_are_one_cross_section(X):
    estimator, panel = fit_gate(X.reset_index(drop=True)[["size", "lev"]])
    assert (panel.dated, panel.firm) == (False, None)
    assert len(list(panel.cross_sections())) == 1
    assert panel.order.tolist() == list(range(12))
    _, panel = fit_gate(X[["size", "lev"]].to_numpy())
    assert not panel.dated


# ---------------------------------------------------------------- bad input


def test_duplicates_show_three(X):
    doubled = pd.concat([X, X.iloc[:4]])
    with pytest.raises(InputError) as error:
        fit_gate(doubled)
    shown = ", ".join(f"({f}, {p})" for f, p in X.index[:3])
    assert f"X has 4 duplicated (firm, period) rows, such as {shown}: keep one row" in str(error.value)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_names_the_column(X, value):
    X.iloc[5, 1] = value
    with pytest.raises(InputError, match="X contains infinity in column 'lev' .1 rows, first: row 5.: replace it by NaN"):
        fit_gate(X)


def test_infinity_in_y(X, y):
    with pytest.raises(InputError, match="y contains infinity in 1 rows"):
        fit_gate(X, y.mask(y == y.max(), np.inf))


def test_outcomes_among_the_characteristics(X):
    with pytest.raises(InputError, match="'roa_next' hold next period's outcomes and would leak the future"):
        fit_gate(X.assign(roa_next=1.0))


def test_labels_of_y_differ(X, y):
    with pytest.raises(InputError, match=r"labels of y are not those of X.*y lacks .*; y has .*which X lacks"):
        fit_gate(X, y.rename({"A": "Z"}))


def test_empty_frames(X):
    with pytest.raises(InputError, match=r"X has 0 sample.s. .shape=.0, 3..*minimum of 1"):
        fit_gate(X.iloc[:0])
    with pytest.raises(InputError, match=r"X has 0 feature.s. .shape=.12, 0."):
        fit_gate(X[[]])
    with pytest.raises(InputError, match=r"X has 0 feature.s."):
        fit_gate(X.reset_index()[["firm", "period"]])


def test_y_is_required(X):
    with pytest.raises(InputError, match="Anything requires y to be passed, but the target y is None"):
        check_panel(Anything(), X, None, fitting=True)


def test_arrays_with_missing_y_are_refused_as_in_sklearn(X):
    numbers = X[["size", "lev"]].to_numpy()
    with pytest.raises(ValueError, match="Input y contains NaN"):
        fit_gate(numbers, np.r_[np.nan, np.zeros(11)])
    with pytest.raises(ValueError, match="Input X contains infinity"):
        fit_gate(np.where(numbers == numbers.max(), np.inf, numbers))


@pytest.mark.parametrize(
    "values, message",
    [
        (pd.Timestamp("2001-01-01"), "column 'bad' of X holds datetime64.*a characteristic is a number"),
        (pd.Period("2001-01"), r"column 'bad' of X holds period\[M\]"),
        (1j, "column 'bad' of X holds complex128"),
    ],
)
def test_columns_that_are_no_numbers(X, values, message):
    with pytest.raises(InputError, match=message):
        fit_gate(X.assign(bad=values))


def test_mixed_objects_are_no_numbers(X):
    with pytest.raises(InputError, match="column 'bad' of X holds object"):
        fit_gate(X.assign(bad=pd.Series([1, "a"] * 6, index=X.index, dtype=object)))


def test_repeated_column_names(X):
    with pytest.raises(InputError, match="X has several columns named 'size': column names must be unique"):
        fit_gate(pd.concat([X, X[["size"]]], axis=1))


# ---------------------------------------------------------------- columns of fit and of predict


def test_columns_differ_from_those_of_fit(X):
    estimator, _ = fit_gate(X)
    with pytest.raises(ValueError, match="(?s)feature names should match.*unseen at fit time:\n- leverage"):
        check_panel(estimator, X.rename(columns={"lev": "leverage"}), fitting=False)
    with pytest.raises(ValueError, match="(?s)feature names should match.*now missing:\n- lev"):
        check_panel(estimator, X.drop(columns="lev"), fitting=False)
    with pytest.raises(ValueError, match="same order"):
        check_panel(estimator, X[["lev", "size", "sector"]], fitting=False)


def test_columns_named_by_numbers(X):
    estimator, _ = fit_gate(X.set_axis([10, 20, 30], axis=1))
    with pytest.raises(InputError, match=r"X has columns \[20, 10, 30\], but fit had \[10, 20, 30\]"):
        check_panel(estimator, X.set_axis([20, 10, 30], axis=1), fitting=False)


@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")
def test_arrays_meet_frames_by_position(X):
    numbers = X[["size", "lev"]]
    named, _ = fit_gate(numbers)
    panel = check_panel(named, numbers.to_numpy(), fitting=False)
    assert panel.characteristics.columns.tolist() == ["size", "lev"]
    unnamed, _ = fit_gate(numbers.to_numpy())
    panel = check_panel(unnamed, numbers, fitting=False)
    assert panel.characteristics.columns.tolist() == [0, 1]


def test_codes_stay_codes_whatever_their_dtype_at_predict(X):
    X = X.assign(sic=["0100", "3711"] * 6)
    estimator, fitted = fit_gate(X)
    assert estimator.code_columns_ == ("sector", "sic")
    for column in (X["sic"].astype(int), X["sic"].astype(float), X["sic"].astype("category")):
        panel = check_panel(estimator, X.assign(sic=column), fitting=False)
        assert panel.codes["sic"].tolist() == fitted.codes["sic"].tolist()
    for nothing in (None, np.nan):
        panel = check_panel(estimator, X.assign(sic=nothing), fitting=False)
        assert panel.codes["sic"].isna().all()


def test_codes_that_fit_did_not_have_are_named(X):
    X = X.assign(group=["01", "12"] * 6)
    estimator, _ = fit_gate(X)
    for lost in ("1", "001", 1, 1.0):
        with pytest.raises(InputError, match="code 'group' holds '0*1', and fit had '01': a reader has dropped or added"):
            check_panel(estimator, X.assign(group=[lost, 12] * 6), fitting=False)
    with pytest.warns(CodeWarning, match="code 'group' holds no value of fit .* but '77': all count as unknown"):
        check_panel(estimator, X.assign(group="77"), fitting=False)
    check_panel(estimator, X.assign(group=["77", "12"] * 6), fitting=False)  # some are new
    grouped, _ = fit_gate(X)
    check_panel(grouped, X.assign(group="77"), fitting=False, groupings=["group"])  # groups of the call itself


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_arrays_cannot_carry_codes(X):
    estimator, _ = fit_gate(X)
    with pytest.raises(InputError, match="X is an array, but fit read codes in 'sector': pass a DataFrame"):
        check_panel(estimator, np.zeros((4, 3)), fitting=False)
    with pytest.raises(InputError, match=r"codes=\['sector'\] names columns, but X is an array"):
        fit_gate(np.zeros((4, 3)), codes=["sector"])


def test_text_where_fit_had_numbers(X):
    estimator, _ = fit_gate(X)
    with pytest.raises(InputError, match="column 'lev' of X holds (str|object): a characteristic is a number"):
        check_panel(estimator, X.assign(lev="high"), fitting=False)


# ---------------------------------------------------------------- codes and leaks


def test_declared_codes(X):
    _, panel = fit_gate(X.assign(sic=[100, 3711] * 6), codes=["sic"])
    assert set(panel.codes["sic"]) == {"0100", "3711"}
    with pytest.raises(InputError, match="codes: no column is named 'sics'. Near matches: 'sic'"):
        fit_gate(X.assign(sic=1), codes=["sics"])
    with pytest.raises(InputError, match=r"codes: expected a list of names.*write \['sector'\]"):
        fit_gate(X, codes="sector")


@pytest.mark.parametrize("values", [[100, 3711] * 6, [100.0, 3711.0] * 6, [100.0, np.nan] * 6])
def test_undeclared_numeric_codes_warn(X, values):
    with pytest.warns(CodeWarning, match="column 'sic' looks like a code but is used as a number; declare it in codes="):
        fit_gate(X.assign(sic=values))


def test_fractions_named_like_a_code_do_not_warn(X):
    fit_gate(X.assign(sic_share=np.linspace(0, 1, 12)))


def test_firms_that_differ_by_blanks_alone_are_said_to_be(X, y):
    flat = X.reset_index()
    flat["firm"] = flat["firm"].where(flat["period"] > 2001, flat["firm"] + " ")
    with pytest.warns(LabelWarning, match=r"firms '([A-D]) ?' and '\1 ?' differ by blanks alone and count as two \(4 such\)"):
        fit_gate(flat, y.to_numpy())


def test_a_code_that_names_the_firm_is_refused():
    index = pd.MultiIndex.from_product([range(12), [2001, 2002]], names=["firm", "period"])
    X = pd.DataFrame({"size": np.arange(24.0), "ticker": [f"T{k // 2}" for k in range(24)]}, index=index)
    with pytest.raises(InputError, match="X: code 'ticker' has 12 levels for 12 firms, nearly one a firm: it is an identity"):
        fit_gate(X)
    with pytest.raises(InputError, match="codes: code 'ticker' has 12 levels"):
        fit_gate(X, codes=["ticker"])


def test_a_code_that_changes_over_time_is_no_identity():
    """Forty firms in twenty industries, of others in later years: 40 levels, and 20 in each year."""
    index = pd.MultiIndex.from_product([range(40), range(2001, 2011)], names=["firm", "period"])
    firm, year = (index.get_level_values(name).to_numpy() for name in ("firm", "period"))
    industry = [f"I{k}" for k in firm % 20 + 20 * (year > 2005)]
    X = pd.DataFrame({"size": np.arange(400.0), "industry": industry}, index)
    fit_gate(X)
    with pytest.raises(InputError, match="'industry' has 80 levels for 40 firms"):
        fit_gate(X.assign(industry=[f"I{k}" for k in firm + 40 * (year > 2005)]))


def test_levels_are_counted_over_the_firms_that_answer_too():
    """Twelve firms in eleven industries look to a universe of 447: industries are groups there."""
    index = pd.MultiIndex.from_product([range(12), [2001, 2002]], names=["firm", "period"])
    X = pd.DataFrame({"size": np.arange(24.0), "industry": [f"I{min(k // 2, 10)}" for k in range(24)]}, index=index)
    names = [f"U{k}" for k in range(447)]
    universe = pd.DataFrame({"size": 1.0, "industry": [f"I{k % 40}" for k in range(447)]}, index=pd.Index(names, name="firm"))
    with pytest.raises(InputError) as refused:
        fit_gate(X)
    assert "industry" in str(refused.value)
    fit_gate(X, universe=universe)
    with pytest.raises(InputError) as refused:  # one level a firm there, too
        fit_gate(X, universe=universe.assign(industry=names))
    assert "identity" in str(refused.value)


def test_a_characteristic_that_is_the_outcome_warns(X, y):
    with pytest.warns(PossibleLeakWarning, match="'copy': correlation with the outcome 'roa' is above 0.98"):
        fit_gate(X.assign(copy=y), y)


@pytest.mark.parametrize("value", [1e6, -np.float64(400.0)])
def test_one_value_that_makes_a_characteristic_flat_warns(value):
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(20), range(2001, 2006)], names=["firm", "period"])
    frame = pd.DataFrame({"size": rng.normal(size=100), "rare": 1.0 * (np.arange(100) == 7)}, index)
    frame.loc[(3, 2002), "size"] = value
    with pytest.warns(UnitWarning, match=r"'size': one value, .* \(3, 2002\), makes up 100% of its variance") as caught:
        fit_gate(frame, rng.normal(size=100))
    assert len(caught) == 1, "an indicator of a single firm is none"


def test_a_panel_is_examined_once(X):
    panel = as_panel(X.assign(size=1.0), np.arange(12.0))
    with pytest.warns(UnitWarning, match="'size': the same value in all rows"):
        examined = check_panel(Anything(), panel, fitting=True)
    part = examined.take(examined.period == 2001)  # as inner fits and folds do
    assert check_panel(Anything(), part, fitting=True) is not None  # without a warning, which would be an error
    assert not panel.examined
