import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LassoCV, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from peerattn.evaluation import NewFirms, WalkForward, audit, compare, nowcast_score
from peerattn.evaluation.leak_audit import checks, runner
from peerattn.evaluation.leak_audit import columns as marks
from peerattn.evaluation.leak_audit.checks import columns
from peerattn.evaluation.leak_audit.columns import Rows
from peerattn.evaluation.running.inner_folds import random_rows
from peerattn.exceptions import InputError
from peerattn.models import (
    CovariancePeerRegressor,
    CrossSectionalRidge,
    FamaMacBethRegressor,
    FirmMeanRegressor,
    IndustryMeansRegressor,
    IndustryPeerRegressor,
    LastValueRegressor,
    LinearInMeansRegressor,
    NadarayaWatsonRegressor,
    OwnCharacteristicsRegressor,
    OwnHistoryRegressor,
    PeerAttentionRegressor,
    PrecomputedPeerRegressor,
    Prior,
)
from peerattn.models.forecasters import make_model
from peerattn.network import PeerNetwork
from peerattn.panel import Panel, read_panel

OWN = "the own outcome does not move the own prediction"
FUTURE = "future values change nothing"
ORDER = "row order, index order and batch size change nothing"
SAMPLE = "the sample does not depend on labels"
TRAINING = "scalers and everything fitted saw training rows only"
COLUMNS = "no outcome and no numeric code among the characteristics"
LEARNED = "what it knows was learned from training rows"
MEMORY = "one fit leaves nothing behind for another"
PLACEBO = "permuted labels leave no gain"
VALIDATION = "nothing is validated on random rows"
NETWORKS = "no network was made of tested outcomes"
CV, TWO_FITS = WalkForward(4, 4), WalkForward(4, 2)

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point


@pytest.fixture(scope="module", autouse=True)
def _each_once():
    """Rows are looked at once, however many models are audited on them."""
    found = {}

    def once(check):
        def looked(rows):
            key = check.__name__, pickle.dumps(vars(rows))
            if key not in found:
                found[key] = check(rows)
            return found[key]

        return looked

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(checks, "columns", once(checks.columns))
        patched.setattr(marks, "left_out", once(marks.left_out))
        yield


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(8)
    index = pd.MultiIndex.from_product([[f"F{i:02d}" for i in range(32)], range(2000, 2014)], names=["firm", "period"])
    index = index[rng.random(len(index)) < 0.92]
    firm = index.get_level_values(0).str[1:].astype(int)
    year = index.get_level_values(1)
    X = pd.DataFrame({"size": rng.normal(size=len(index)), "lev": 3 + rng.gamma(2, size=len(index))}, index=index)
    X["sic"] = np.array(["3711", "2911", "6021", "7372"])[firm % 4]
    shock = rng.normal(size=(4, 14))[firm % 4, year - 2000]
    y = 0.6 * X["size"] + shock + 0.7 * rng.normal(size=len(index))
    return X, y.where(rng.random(len(index)) > 0.05).rename("roa")


class OwnOutcome(IndustryPeerRegressor):
    """Mixes the own outcome into the prediction."""

    def predict(self, X, *, outcomes=None):
        return super().predict(X, outcomes=outcomes) + 0.5 * outcomes.fillna(0.0)


class OwnGroup(IndustryPeerRegressor):
    """A group mean with the own firm in it."""

    def predict(self, X, *, outcomes=None):
        keys = [X.index.get_level_values("period"), X["sic"]]
        return outcomes.groupby(keys).transform("mean").fillna(0.0)


class TwoLayers(IndustryPeerRegressor):
    """Outcomes read twice: j reads i, then i reads j."""

    def predict(self, X, *, outcomes=None):
        once = super().predict(X, outcomes=outcomes.fillna(0.0))
        return super().predict(X, outcomes=once)


class FutureInTheCall(Ridge):
    """Centres the rows asked for by the mean of all periods of the call."""

    def predict(self, X):
        return super().predict(X - X.mean())


class RowOrder(Ridge):
    def predict(self, X):
        return super().predict(X) + 0.01 * np.arange(len(X))


class FirstLevelIsFirm(Ridge):
    def predict(self, X):
        first = pd.factorize(X.index.get_level_values(0), sort=True)[0]
        return super().predict(X) + 0.1 * first


class Batches(IndustryPeerRegressor):
    """Peers are those of a mini-batch of 32 rows, whatever their period."""

    def predict(self, X, *, outcomes=None):
        shown = outcomes.fillna(outcomes.mean())
        batch = np.arange(len(X)) // 32
        count = shown.groupby(batch).transform("count")
        return (shown.groupby(batch).transform("sum") - shown) / (count - 1)


class TrainingOrder(IndustryPeerRegressor):
    def fit(self, X, y):
        super().fit(X, y)
        self.first_ = float(X["size"].iloc[0])
        return self

    def predict(self, X, *, outcomes=None):
        return super().predict(X, outcomes=outcomes) + self.first_


class ScalerOfTheCall(Ridge):
    """Refits its scaler on the rows asked for."""

    def predict(self, X):
        return super().predict((X - X.mean()) / X.std())


class Lookup(Ridge):
    """Was given all outcomes when it was built."""

    def __init__(self, table=None, alpha=1.0):
        super().__init__(alpha=alpha)
        self.table = table

    def predict(self, X):
        return self.table.reindex(X.index).fillna(0.0).to_numpy()


class Effects(Lookup):
    """Adds what a table says of the firm or the period."""

    def predict(self, X):
        level = int(isinstance(next(iter(pd.Series(self.table).index)), int))
        effect = pd.Series(X.index.get_level_values(level)).map(self.table).fillna(0.0)
        return Ridge.predict(self, X) + effect.to_numpy()


KNOWN = {}


class Closure(Ridge):
    """Remembers outcomes where nobody looks."""

    def predict(self, X):
        return KNOWN["y"].reindex(X.index).fillna(0.0).to_numpy()


class SampleByLabel(WalkForward):
    """Drops test rows with a low outcome."""

    def split(self, X, y=None, groups=None):
        for train, test in super().split(X, y):
            yield train, test[y.iloc[test].to_numpy() > 0]


class NoPurge(WalkForward):
    """Says horizon 3, purges none."""

    def folds(self, X, y=None):
        return WalkForward(self.test_periods, self.refit_every).folds(X, y)


@pytest.fixture
def only(monkeypatch):
    """Return what leaves an audit the check of one claim: where the others are beside the point."""
    checks = dict(runner.CHECKS)

    def only(claim):
        monkeypatch.setattr(runner, "CHECKS", {claim: checks[claim]})

    return only


def check(model, panel, **options):
    X, y = panel
    return audit(model, X, y, **({"cv": CV, "codes": ["sic"], "n_placebo": 1} | options))


@pytest.mark.parametrize(
    ("model", "task", "claim"),
    [
        (OwnGroup(industry="sic"), "nowcast", OWN),
        (TwoLayers(industry="sic"), "nowcast", OWN),
        (FutureInTheCall(), "forecast", FUTURE),
        (RowOrder(), "forecast", ORDER),
        (Batches(industry="sic"), "nowcast", ORDER),
        (TrainingOrder(industry="sic"), "nowcast", ORDER),
        (ScalerOfTheCall(), "forecast", TRAINING),
    ],
)
def test_planted_leaks_are_found(panel, only, model, task, claim):
    only(claim)
    assert claim in check(model, panel, task=task).refuted


def test_an_own_outcome_in_the_prediction_is_found_by_moving_it_and_by_permuting_all(panel):
    found = check(OwnOutcome(industry="sic"), panel, task="nowcast", n_placebo=5)
    assert {OWN, PLACEBO} <= set(found.refuted)


def test_a_model_that_takes_the_first_level_for_the_firm_is_found(panel, only):
    """Where the model is handed the index as it is (plain regressors get levels in our order, too)."""
    X, y = panel
    only(ORDER)
    assert ORDER in audit(FirstLevelIsFirm(), X[["size"]], y, CV, n_placebo=1).refuted


def test_a_model_that_carries_outcomes_is_found(panel, only):
    X, y = panel
    KNOWN["y"] = y
    assert LEARNED in check(Closure(), panel, n_placebo=1).refuted
    found = check(Lookup(table=y), panel, n_placebo=1)
    assert {TRAINING, LEARNED} <= set(found.refuted)
    assert "table, a table of" in str(found)
    only(TRAINING)
    for level in ("firm", "period"):
        means = y.groupby(level=level).mean()
        other = pd.Series(np.random.default_rng(0).normal(size=len(means)), means.index)
        for table, leaks in ((means, True), (means.to_dict(), True), (other, False)):
            assert (TRAINING in check(Effects(table), panel, n_placebo=1).refuted) == leaks


def test_a_scaler_fitted_before_is_found(panel):
    X, y = panel
    numbers = pd.DataFrame({"size": [1.0, 2.0, 3.0], "lev": [1.0, 2.0, 3.0]})
    scaler = FrozenEstimator(StandardScaler().fit(numbers))
    found = audit(make_pipeline(scaler, Ridge()), X[["size", "lev"]], y, CV, n_placebo=1)
    assert TRAINING in found.refuted and "fitted before" in str(found)
    with pytest.raises(InputError, match="a FrozenEstimator is never fitted again"):
        audit(FrozenEstimator(Ridge().fit(numbers, [1.0, 2.0, 3.0])), X[["size", "lev"]], y, CV, n_placebo=1)


def test_columns_standardised_over_all_rows_are_found(panel):
    X, y = panel
    scaled = X.assign(size=StandardScaler().fit_transform(X[["size"]])[:, 0])
    found = audit(Ridge(), scaled, y, CV, n_placebo=1)
    assert found.refuted == [TRAINING] and "'size' is standardised or centred over all rows" in str(found)
    by_period = X.assign(size=X.groupby(level="period")["size"].transform(lambda v: (v - v.mean()) / v.std(ddof=0)))
    assert audit(Ridge(), by_period, y, CV, n_placebo=1).passed


def test_splits_that_leak_are_found(panel, only):
    only(FUTURE)
    assert FUTURE in check(Ridge(), panel, cv=KFold(4, shuffle=True, random_state=0)).refuted
    assert FUTURE in check(Ridge(), panel, cv=NoPurge(4, 2, horizon=3)).refuted
    only(SAMPLE)
    assert SAMPLE in check(Ridge(), panel, cv=SampleByLabel(4, 2)).refuted


def test_columns_that_are_outcomes_or_codes_are_found(panel):
    X, y = panel
    bad = X.assign(sic4=X["sic"].astype(int), copy=2 * y.fillna(0))
    found = audit(Ridge(), bad, y, CV, n_placebo=1)
    assert found.refuted == [COLUMNS]
    line = next(line for line in found.lines if line.claim == COLUMNS)
    for word in ("'sic4' is a code", "'copy' is a function of the outcome"):
        assert word in line.evidence
    assert audit(Ridge(), bad, y, CV, characteristics=["size", "lev"], codes=["sic"], n_placebo=1).passed


def planted(X, y, name):
    """A characteristic made of the outcome."""
    firms, full = y.groupby(level="firm"), y.fillna(y.mean())
    size = X["size"] + 0.3
    return {
        "rank within the period": y.groupby(level="period").rank(),
        "exponential": np.exp(y),
        "cube, less": -(full**3),
        "logistic, rounded": (1 / (1 + np.exp(-full))).round(6),
        "the firm's mean outcome": firms.transform("mean"),
        "the firm's mean of other years": (firms.transform("sum") - full) / (firms.transform("count") - 1),
        "standardised": (size - size.mean()) / size.std(),
    }[name]


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("rank within the period", COLUMNS),
        ("exponential", COLUMNS),
        ("cube, less", COLUMNS),
        ("logistic, rounded", COLUMNS),
        ("the firm's mean outcome", COLUMNS),
        ("the firm's mean of other years", COLUMNS),
        ("standardised", TRAINING),
    ],
)
def test_characteristics_made_of_outcomes_or_of_all_rows_are_found(panel, name, claim):
    X, y = panel
    bad = X[["lev"]].assign(planted=planted(X, y, name))
    found = audit(Ridge(), bad, y, WalkForward(4, 4), n_placebo=1)
    assert found.refuted == [claim] and "'planted'" in str(found)


def test_lasting_characteristics_are_not_mistaken_for_mean_outcomes():
    """A firm's lasting level explains its mean outcome almost wholly, earlier and later years alike."""
    rng = np.random.default_rng(1)
    index = pd.MultiIndex.from_product([range(40), range(2000, 2014)], names=["firm", "period"])
    level = np.repeat(rng.normal(size=40), 14)
    past = pd.Series(level + rng.normal(size=560), index=index)
    X = pd.DataFrame({"level": level, "size": 10 + level + 0.1 * rng.normal(size=560)}, index=index)
    X["own past"] = past.groupby(level="firm").transform(lambda v: v.shift().expanding().mean())
    assert audit(Ridge(), X, past.rename("roa"), WalkForward(4, 4), n_placebo=1).passed


class LaterFits(Ridge):
    """Leaks from the second fit on: knows outcomes once it has learned from more than the first fold's rows."""

    def fit(self, X, y):
        self.later_ = X.index.get_level_values("period").max() > KNOWN["first"]
        return super().fit(X, y)

    def predict(self, X):
        return KNOWN["y"].reindex(X.index).fillna(0.0).to_numpy() if self.later_ else super().predict(X)


def test_a_leak_that_starts_in_a_later_fit_is_found(panel, only):
    only(LEARNED)
    KNOWN.update(
        y=panel[1],
        first=panel[0].index[TWO_FITS.folds(panel[0], panel[1])[0].train].get_level_values(1).max(),
    )
    found = check(LaterFits(), panel, cv=TWO_FITS)
    assert LEARNED in found.refuted and "in fit 2: " in str(found)


def network_of(y, form):
    table = y.unstack(0).sort_index()
    matrices = {}
    for period in table.index:
        here = table.loc[period].fillna(0.0)
        v = here.to_numpy()
        W = {
            "close": np.exp(-np.abs(v[:, None] - v)),
            "nearest": np.argsort(np.argsort(np.abs(v[:, None] - v), axis=1), axis=1) <= 5,
            "winners": np.tile(np.exp(v), (len(v), 1)),
            "correlation": np.maximum(table.corr(min_periods=3).fillna(0).to_numpy(), 0),
        }[form].astype(float)
        np.fill_diagonal(W, 0.0)
        sums = W.sum(axis=1, keepdims=True)
        W = np.divide(W, sums, out=np.zeros_like(W), where=sums > 0)
        matrices[period if form != "correlation" else None] = (table.columns, table.columns, W)
    return PeerNetwork.from_matrices(matrices)


@pytest.mark.parametrize("form", ["close", "nearest", "winners", "correlation"])
def test_networks_made_of_tested_outcomes_are_found(panel, only, form):
    X, y = panel
    only(NETWORKS)
    model = PrecomputedPeerRegressor(network=network_of(y, form))
    assert NETWORKS in check(model, panel, task="nowcast", n_placebo=1).refuted


@pytest.mark.parametrize("form", ["close", "correlation"])
def test_networks_made_of_earlier_outcomes_are_no_leak(panel, only, form):
    X, y = panel
    only(NETWORKS)
    earlier = y[y.index.get_level_values("period") < 2009]
    given = network_of(earlier, form)
    assert NETWORKS not in check(PrecomputedPeerRegressor(network=given), panel, task="nowcast", n_placebo=1).refuted


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (GridSearchCV(Ridge(), {"alpha": [1.0, 10.0]}, cv=KFold(3, shuffle=True)), "GridSearchCV"),
        (GridSearchCV(Ridge(), {"alpha": [1.0, 10.0]}), "GridSearchCV"),
        (make_pipeline(StandardScaler(), LassoCV(alphas=[0.01, 0.1, 1.0])), "LassoCV"),
        (HistGradientBoostingRegressor(early_stopping=True, max_iter=5), "stops early on random rows"),
        (GradientBoostingRegressor(n_estimators=3, n_iter_no_change=2), "stops early on random rows"),
    ],
    ids=["shuffled", "default folds", "lasso", "hist boosting", "boosting"],
)
def test_validation_on_random_rows_is_found_and_refused(panel, only, model, word):
    only(VALIDATION)
    found = check(model, panel, n_placebo=1)
    assert VALIDATION in found.refuted and word in str(found)
    X, y = panel
    with pytest.raises(InputError, match=f"model 'Tuned': .*{word}.*never validated on random rows"):
        compare({"Tuned": model}, X, y, cv=CV, codes=["sic"], decomposition=False, verbose=False)


@pytest.mark.parametrize("name", ["elastic_net", "boosting", "ridge"])
def test_ready_models_validate_on_no_random_rows(panel, name):
    assert check(make_model(name), panel, n_placebo=1).passed
    many = pd.DataFrame(
        {"size": np.arange(12_000.0)},
        index=pd.MultiIndex.from_product([range(1200), range(10)], names=["firm", "period"]),
    )
    assert list(random_rows(make_model(name), many, many["size"])) == []


def test_a_model_that_breaks_on_changed_input_is_refuted_by_its_error(panel):
    class Brittle(Ridge):
        def predict(self, X):
            if len(X.index.get_level_values("period").unique()) == 1:
                raise ValueError("more than one period, please")
            return super().predict(X)

    found = check(Brittle(), panel)
    assert ORDER in found.refuted and "raised ValueError: more than one period, please" in str(found)


FEW = {"n_heads": 2, "kappa": None}
OPTIONS = {
    "defaults": {},
    "outcomes, tied, prior": {"task": "nowcast", "similarity": "symmetric", "prior": "sic"},
    "stacked, ranks": {"n_layers": 2, "n_heads": 1, "scale": "rank", "own": "linear"},
    "stacked outcomes": {"task": "nowcast", "n_layers": 2, "n_heads": 1},
    "evidence decides, purged": {"kappa": 0.0, "purge": 1, "own": "linear"},
    "evidence decides, outcomes": {"kappa": 0.0, "task": "nowcast"},
    "raw, dot product, huber, prior only": {
        "scale": None, "similarity": "dot_product", "loss": "huber", "own": "linear", "prior": Prior("sic", only=True),
    },
    "gaussian outcomes, no own term": {"similarity": "gaussian", "task": "nowcast", "own": "none"},
    "own group, additive, quantile": {
        "prior": Prior("group", exclude=True), "similarity": "additive", "task": "nowcast", "loss": 0.9,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def few_firms(panel):
    """Half the firms, from 2002 on."""
    X, y = panel
    kept = (X.index.get_level_values(0) < "F16") & (X.index.get_level_values(1) >= 2002)
    return X[kept], y[kept]


@pytest.mark.parametrize("name", OPTIONS)
def test_attention_passes_in_every_option(few_firms, name):
    """And changes neither the model nor the panel."""
    X, y = few_firms
    X = X.assign(group=pd.Series(X.index.get_level_values(0).str[:2], index=X.index)) if name.startswith("own group") else X
    options = OPTIONS[name]
    task = options.get("task", "forecast")
    cv = TWO_FITS if name == "defaults" else CV
    before, model = (X.copy(), y.copy()), PeerAttentionRegressor(**(FEW | options))
    found = audit(model, X, y, cv, codes=["sic"], task=task, n_placebo=1)
    assert found.passed, str(found)
    pd.testing.assert_frame_equal(X, before[0])
    pd.testing.assert_series_equal(y, before[1])
    assert model.random_state is None and not hasattr(model, "members_")


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_cross_attention_passes(few_firms, task):
    X, y = few_firms
    reference = X.rename(index=lambda firm: f"R{firm}", level="firm")
    outcomes = np.random.default_rng(0).normal(size=len(y))
    given = reference if task == "forecast" else (reference, outcomes)
    model = PeerAttentionRegressor(attention="cross", task=task, **FEW)
    found = audit(model, X, y, CV, task=task, reference=given, n_placebo=1, codes=["sic"])
    assert found.passed, str(found)


@pytest.mark.parametrize(
    "model",
    [
        IndustryPeerRegressor(),
        IndustryPeerRegressor(industry="sic", min_peers=3),
        IndustryPeerRegressor(industry="sic", shrinkage=3.0, value_weight="lev"),
        NadarayaWatsonRegressor(),
        NadarayaWatsonRegressor(codes=["sic"], degree=1),
        NadarayaWatsonRegressor(kernel="epanechnikov", neighbors=5),
        CrossSectionalRidge(codes=["sic"]),
        CrossSectionalRidge(scale="rank", alpha=10.0),
        CrossSectionalRidge(scale=None),
    ],
    ids=str,
)
@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_fixed_peers_pass(few_firms, model, task):
    found = check(model, few_firms, task=task, n_placebo=1)
    assert found.passed, str(found)
    assert ("training outcomes turned upside down" in str(found)) == (task == "forecast")


def same_industry(X):
    firms = pd.Index(sorted(set(X.index.get_level_values("firm"))))
    group = firms.str[1:].astype(int).to_numpy() % 4
    W = (group[:, None] == group[None, :]) - np.eye(len(firms))
    return PeerNetwork.from_matrices({None: (firms, firms, W / W.sum(axis=1, keepdims=True))})


def of_chance(X):
    """Groups of one size identify the effect of peers' outcomes hardly at all; a network of chance does."""
    firms = pd.Index(sorted(set(X.index.get_level_values("firm"))))
    W = (np.random.default_rng(0).random((len(firms), len(firms))) < 0.1) * (1.0 - np.eye(len(firms)))
    W[W.sum(axis=1) == 0, 0] = 1.0
    return PeerNetwork.from_matrices({None: (firms, firms, W / W.sum(axis=1, keepdims=True))})


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_given_networks_pass(panel, few_firms, task):
    for model in (
        PrecomputedPeerRegressor(network=same_industry(panel[0])),
        LinearInMeansRegressor(network=of_chance(panel[0])),
    ):
        found = check(model, few_firms, task=task, n_placebo=1)
        assert found.passed, str(found)


@pytest.mark.parametrize(
    "model",
    [
        FamaMacBethRegressor(),
        FirmMeanRegressor(),
        IndustryMeansRegressor(industry="sic"),
        LastValueRegressor(),
        LinearRegression(),
        DummyRegressor(),
        RandomForestRegressor(n_estimators=5),
        make_pipeline(StandardScaler(), Ridge()),
        GridSearchCV(Ridge(), {"alpha": [1.0, 10.0]}, cv=WalkForward(2, 2)),
    ],
    ids=[
        "fama-macbeth",
        "firm mean",
        "industry means",
        "last value",
        "ols",
        "mean",
        "forest",
        "pipeline",
        "search",
    ],
)
def test_plain_regressors_pass(panel, model):
    found = check(model, panel)
    assert found.passed, str(found)


def test_new_firms_pass(panel):
    assert check(Ridge(), panel, cv=NewFirms(CV, n_splits=3)).passed


def test_searches_explain_and_pass(panel):
    search = GridSearchCV(
        CrossSectionalRidge(codes=["sic"]),
        {"alpha": [1.0, 100.0]},
        cv=WalkForward(2, 2),
        scoring=nowcast_score,
    )
    assert check(search, panel, task="nowcast", n_placebo=1).passed


def test_what_an_audit_shows(panel):
    X, y = panel
    flat = X.assign(roa=y, other_next=1.0).reset_index()
    found = audit(CrossSectionalRidge(), flat, outcome="roa", codes=["sic"], cv=CV, task="nowcast")
    assert found.passed and repr(found) == "Audit(nowcast: no claim refuted)"
    assert str(found).count("passed") == 11 and "REFUTED" not in str(found)
    assert list(found.to_frame().columns) == ["claim", "passed", "evidence"]
    assert "<table" in found._repr_html_()
    taken: Panel = read_panel(flat, outcome="roa", codes=["sic"])
    assert audit(CrossSectionalRidge(), taken, cv=CV, task="nowcast", n_placebo=1).passed
    with pytest.raises(InputError, match="n_placebo"):
        check(Ridge(), panel, n_placebo=0)
    with pytest.raises(InputError, match="cannot do task='nowcast'"):
        check(PeerAttentionRegressor(), panel, task="nowcast")


def later(values, by):
    """The firm's value so many periods later."""
    return values.groupby(level="firm").shift(-by)


MADE = {
    "square": lambda X, y: y**2,
    "sign": lambda X, y: np.sign(y),
    "next period's": lambda X, y: later(y, 1),
    "industry's mean": lambda X, y: y.groupby([X["sic"], y.index.get_level_values("period")]).transform("mean"),
    "centred average": lambda X, y: (later(X["size"], -1) + X["size"] + later(X["size"], 1)) / 3,
}


def said_of(X, y):
    """The evidence of the columns' line, which is empty where it passes."""
    firm, when = (pd.factorize(X.index.get_level_values(k), sort=True)[0] for k in ("firm", "period"))
    line, _ = columns(Rows.of(X, y.to_numpy(), firm, when))
    return "" if line.passed else line.evidence


@pytest.mark.parametrize("name", MADE)
def test_functions_of_outcomes_are_no_characteristics(panel, name):
    X, y = panel
    assert "'extra'" in said_of(X.assign(extra=MADE[name](X, y)), y)


def test_missing_values_codes_and_pairs_that_outcomes_decide_are_found(panel):
    X, y = panel
    noise = pd.Series(np.random.default_rng(0).normal(size=len(X)), X.index)
    known = y.notna()
    for changed in (
        X.assign(extra=noise.where(y > y.median())),
        X.assign(extra=pd.cut(y, 4, labels=list("abcd")).astype(object)),
        X.assign(extra=noise, other=y - noise),
    ):
        assert "'extra'" in said_of(changed[known], y[known])
    assert said_of(X.assign(extra=noise)[known], y[known]) == ""


def test_outcomes_known_later_than_they_are_learned_from_are_found(panel):
    X, y = panel
    late = X.assign(known_at=X.index.get_level_values("period") + 3)
    options = {"characteristics": ["size", "lev"], "n_placebo": 1}
    assert "future values change nothing" in audit(Ridge(), late, y, CV, **options).refuted
    waits = WalkForward(4, 2, horizon=3, known_at=late["known_at"])  # a date for each row, by its labels
    assert audit(Ridge(), late, y, waits, **options).passed
    on_time = X.assign(known_at=X.index.get_level_values("period"))
    assert audit(Ridge(), on_time, y, CV, **options).passed


class Late(WalkForward):
    """Learns from all earlier rows, whenever their outcomes are known."""


def test_a_panel_says_when_outcomes_are_known(panel):
    """Every fourth report is filed two years late: a split that learns from it before, and its use before, are refuted."""
    X, y = panel
    year, late = X.index.get_level_values("period"), np.arange(len(X)) % 4 == 0
    frame = X.assign(roa=y, filed=year + 1 + 2 * late).reset_index()
    options = {"outcome": "roa", "codes": ["sic"], "known_at": "filed"}
    read = read_panel(frame, **options)
    assert audit(Ridge(), read, cv=CV, n_placebo=1).passed
    found = audit(Ridge(), read, cv=Late(4, 2), n_placebo=1)
    assert FUTURE in found.refuted and "outcomes that are known after the origin" in str(found)
    with pytest.raises(InputError, match="cv: Late learns from [0-9]+ rows whose outcome is not yet known .* in 2010"):
        compare({"Ridge": Ridge()}, read, cv=Late(4, 2), decomposition=False, verbose=False)
    last = later(y, -1)
    known = last.where(later(pd.Series(late, X.index), -1).eq(False))
    for column, leaks in ((last, True), (known, False)):
        held = read_panel(frame.assign(last=column.to_numpy()), **options)
        found = audit(Ridge(), held, cv=CV, n_placebo=1)
        assert (FUTURE in found.refuted) == leaks, str(found)
        assert ("'last' is the outcome of 1 periods before, in " in str(found)) == leaks


def test_an_explanation_of_dated_outcomes_depends_on_no_order_of_index_levels(panel):
    X, y = panel
    frame = X.assign(roa=y, filed=X.index.get_level_values("period") + 1).reset_index()
    read = read_panel(frame, outcome="roa", codes=["sic"], known_at="filed")
    found = audit(IndustryPeerRegressor(industry="sic"), read, cv=WalkForward(4, 4), task="nowcast", n_placebo=1)
    assert found.passed, str(found)


def test_the_order_of_training_rows_means_nothing_where_outcomes_have_dates(panel):
    """The shuffled training rows had lost their dates, so that a model of the firms' past was another."""
    X, y = panel
    model = CovariancePeerRegressor(codes=["sic"], random_state=0)
    found = audit(model, X, y, WalkForward(4, 4, horizon=2), task="nowcast", codes=["sic"], n_placebo=1)
    assert found.passed, str(found)


def test_dates_of_another_kind_are_refused_and_missing_ones_are_never(panel):
    X, y = panel
    with pytest.raises(InputError, match="known_at: expected labels of the type of X's periods"):
        audit(Ridge(), X.assign(known_at="soon"), y, CV, characteristics=["size"])
    never = X.assign(known_at=np.where(np.arange(len(X)) % 9 > 0, X.index.get_level_values("period"), np.nan))
    assert FUTURE in audit(Ridge(), never, y, CV, characteristics=["size"], n_placebo=1).refuted


def test_columns_of_a_frame_are_looked_at_wherever_the_outcome_stands(panel):
    X, y = panel
    frame = X.assign(roa=y, copy=np.exp(y)).reset_index()
    assert COLUMNS in audit(Ridge(), frame, outcome="roa", codes=["sic"], cv=CV, n_placebo=1).refuted


class Keeps(Ridge):
    """All its instances share what they learned."""

    def fit(self, X, y):
        KNOWN.setdefault("seen", {}).update(zip(np.asarray(X)[:, 0].round(9), y))
        return super().fit(X, y)

    def predict(self, X):
        own = super().predict(X)
        return np.array([KNOWN["seen"].get(x, found) for x, found in zip(np.asarray(X)[:, 0].round(9), own)])


def test_a_memory_between_fits_is_found(panel):
    KNOWN.pop("seen", None)
    X, y = panel
    assert MEMORY in audit(Keeps(), X[["size", "lev"]], y, CV, n_placebo=1).refuted


@pytest.mark.parametrize(
    "model", [OwnCharacteristicsRegressor(effects=["firm"]), OwnHistoryRegressor()], ids=["effects", "history"]
)
def test_a_model_may_know_what_firms_were_like(model):
    """Firm effects are most of the outcome: with another firm's characteristics, they are predicted all the same."""
    rng = np.random.default_rng(2)
    index = pd.MultiIndex.from_product([range(24), range(2000, 2016)], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=384)}, index)
    y = X["size"] + 2 * np.repeat(rng.normal(size=24), 16) + 0.3 * rng.normal(size=384)
    assert audit(model, X, y, CV, n_placebo=2).passed
