"""Running a comparison: fits in parallel, kept at once, and models that fail."""

import importlib
import linecache
import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from peerattn.evaluation import WalkForward, compare
from peerattn.evaluation.running.entries import BOOSTING, OTHERS_CHARACTERISTICS, Entry
from peerattn.evaluation.running.fitting import FoldResult
from peerattn.evaluation.running.store import DamagedPieceWarning, FoldStore
from peerattn.exceptions import InputError
from peerattn.models import CovariancePeerRegressor, IndustryPeerRegressor, PeerAttentionRegressor
from peerattn.models.forecasters import model_title
from peerattn.models.learners.heads.training import TrainingOptions
from peerattn.panel import read_panel

CV, ONE = WalkForward(test_periods=4, refit_every=2), WalkForward(test_periods=4, refit_every=4)

pytestmark = pytest.mark.usefixtures("fewest_steps", "blank_pictures")  # what is found is beside the point


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(5)
    index = pd.MultiIndex.from_product([[f"F{i:02d}" for i in range(12)], range(2001, 2013)])
    X = pd.DataFrame(rng.normal(size=(len(index), 2)), index, ["size", "lev"]).rename_axis(["firm", "period"])
    X["sic"] = [["3711", "2911", "3570"][int(firm[1:]) % 3] for firm, _ in index]
    return X, (X["size"] + rng.normal(size=len(index))).rename("roa_next")


class Counting(Ridge):
    """Counts its fits in a file, and is killed in the one asked for."""

    def __init__(self, path="", killed_in=0, alpha=1.0):
        super().__init__(alpha=alpha)
        self.path, self.killed_in = path, killed_in

    def fit(self, X, y):
        with open(self.path, "a") as file:
            file.write("x")
        if fits(self.path) == self.killed_in:
            raise KeyboardInterrupt
        return super().fit(X, y)


class Short(PeerAttentionRegressor):
    """Trains few steps in another process, too, where no constant is patched."""

    def fit(self, X, y=None, **options):
        with pytest.MonkeyPatch.context() as patched:
            options_of = "peerattn.models.learners.heads.learner.DEFAULT"
            patched.setattr(options_of, TrainingOptions(n_seeds=2, window=1.0, max_steps=3, max_draws=1))
            return super().fit(X, y, **options)


class Whereabouts(Ridge):
    """Predicts 1 on a Dask worker, 0 elsewhere."""

    def predict(self, X):
        from distributed import get_worker

        try:
            get_worker()
        except ValueError:
            return np.zeros(len(X))
        return np.ones(len(X))


class Fragile(Ridge):
    """Fails where it learns from more than so many rows."""

    def __init__(self, most=0, alpha=1.0):
        super().__init__(alpha=alpha)
        self.most = most

    def fit(self, X, y):
        if len(y) > self.most:
            raise ZeroDivisionError(f"{len(y)} rows are too many")
        return super().fit(X, y)


class Trap:
    """Fails the test when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def fits(path):
    return len(open(path).read())


def run(panel, models, **options):
    X, y = panel
    return compare(models, X, y, industry="sic", **{"cv": CV, "decomposition": False, "verbose": False} | options)


@pytest.mark.full_search  # other processes take all steps in any case
def test_figures_are_the_same_however_many_run_and_wherever(panel):
    panel = [rows[rows.index.get_level_values("period") < 2006] for rows in panel]
    distributed = pytest.importorskip("distributed")
    joblib = pytest.importorskip("joblib")
    models = {
        "Peers": IndustryPeerRegressor(industry="sic"),
        "Attention": Short(n_heads=1, own="linear", kappa=None, random_state=0),
    }
    cv = WalkForward(2, 2)
    one = run(panel, models, cv=cv)
    two = run(panel, models, cv=cv, n_jobs=2)
    with (
        # two workers: on a single core joblib does not ask the cluster
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        dask = run(panel, models, cv=cv)
        there = run(panel, {"Where": Whereabouts()}, cv=cv)
    assert (there.predictions["Where"] == 1).all()
    for other in (two, dask):
        pd.testing.assert_frame_equal(one.predictions, other.predictions, check_exact=True)
        assert str(one) == str(other)
        assert all(network.equals(other.networks[name]) for name, network in one.networks.items())


def test_a_killed_comparison_goes_on_and_repeats_nothing(panel, tmp_path):
    counted, store = tmp_path / "fits", tmp_path / "store"
    cv = WalkForward(test_periods=3, refit_every=1)
    dying = {"Ridge": Counting(str(counted), killed_in=3)}
    with pytest.raises(KeyboardInterrupt):
        run(panel, dying, cv=cv, store=store)
    before = {path.name: path.stat().st_mtime_ns for path in store.iterdir()}
    assert len(before) == 2 * 8  # two folds of the model and the seven controls
    assert all(name.endswith(".fit") for name in before)
    again = run(panel, dying, cv=cv, store=store)
    assert fits(counted) == 3 + 1  # the third is tried again, the first two are not
    after = {path.name: path.stat().st_mtime_ns for path in store.iterdir()}
    assert len(after) == 3 * 8 and before.items() <= after.items()
    fresh = run(panel, dying, cv=cv)
    pd.testing.assert_frame_equal(again.predictions, fresh.predictions, check_exact=True)
    assert str(again) == str(fresh)


def test_the_stack_of_the_decomposition_is_kept_as_every_fit(panel, tmp_path):
    cv = WalkForward(2, 2)
    first = run(panel, {"Ridge": Ridge()}, cv=cv, decomposition=True, store=tmp_path)
    kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = run(panel, {"Ridge": Ridge()}, cv=cv, decomposition=True, store=tmp_path)
    assert kept == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} and len(kept) == 9
    pd.testing.assert_frame_equal(first.steps, again.steps, check_exact=True)
    assert str(first) == str(again) and first.note(first.stack).selected == again.note(again.stack).selected


def test_a_fit_is_found_by_what_it_was_made_from(panel, tmp_path):
    counted = tmp_path / "fits"
    X, y = panel
    ridge = {"Ridge": Counting(str(counted))}
    first = run(panel, ridge, store=tmp_path)
    run(panel, {"Ridge": Counting(str(counted), alpha=2.0)}, store=tmp_path)
    assert fits(counted) == 4
    run((X.assign(size=X["size"].round(3)), y), ridge, store=tmp_path)
    assert fits(counted) == 6
    run((X.sample(frac=1, random_state=0), y), ridge, store=tmp_path)  # the same panel in another order
    assert fits(counted) == 6
    for path in tmp_path.glob("*.fit"):
        path.write_bytes(path.read_bytes()[:50])
    with pytest.warns(DamagedPieceWarning, match="cut off or damaged. The fit is made again"):
        again = run(panel, ridge, store=tmp_path)
    assert fits(counted) == 8
    pd.testing.assert_frame_equal(first.predictions, again.predictions, check_exact=True)


def test_a_model_of_changed_code_is_fitted_again(panel, tmp_path, monkeypatch):
    """The class, a function and a constant that it refers to, and a class it inherits from, in a module of the user."""
    parts = {
        "base": "class Base(Ridge):\n    more = 0",
        "constant": "SHIFT = 1.0",
        "helper": "def moved(values):\n    return values + SHIFT",
        "model": "class Mine(Base):\n    def predict(self, X):\n        return moved(super().predict(X))",
    }
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def predictions(**changed):
        text = "\n\n\n".join(["from sklearn.linear_model import Ridge", *(parts | changed).values()])
        (folder / "my_models.py").write_text(text + "\n\n\nclass Unused:\n    pass\n")
        sys.modules.pop("my_models", None)
        importlib.invalidate_caches()
        linecache.clearcache()
        model = importlib.import_module("my_models").Mine()
        return run(panel, {"Mine": model}, store=tmp_path / "store").predictions["Mine"].to_numpy()

    def pieces():
        return len(list((tmp_path / "store").iterdir()))

    first = predictions()
    kept = pieces()
    np.testing.assert_array_equal(predictions(), first)
    assert pieces() == kept
    for n, (name, text) in enumerate(
        {
            "constant": "SHIFT = 2.0",
            "helper": "def moved(values):\n    return values + 2 * SHIFT",
            "base": "class Base(Ridge):\n    more = 1",
        }.items(),
        1,
    ):
        changed = predictions(**{name: text})
        np.testing.assert_allclose(changed - first, 0.0 if name == "base" else 1.0)
        assert pieces() == kept + 2 * n  # two folds of one model; the controls are found


def test_a_piece_is_never_run_and_any_changed_bit_is_found(panel, tmp_path):
    models = {"Peers": IndustryPeerRegressor(industry="sic")}
    first = run(panel, models, cv=ONE, store=tmp_path)
    paths = sorted(tmp_path.iterdir())
    rng = np.random.default_rng(0)
    contents = [path.read_bytes() for path in paths]
    for turn in range(3):  # each file damaged in each of three ways, all at once
        for k, (path, whole) in enumerate(zip(paths, contents, strict=True)):
            at = int(rng.integers(len(whole)))
            flipped = whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]
            path.write_bytes([pickle.dumps(Trap()), flipped, contents[k - 1]][(k + turn) % 3])
        with pytest.warns(DamagedPieceWarning) as found:
            again = run(panel, models, cv=ONE, store=tmp_path)
        assert sum(issubclass(one.category, DamagedPieceWarning) for one in found) == len(paths)
        pd.testing.assert_frame_equal(first.predictions, again.predictions, check_exact=True)
    with warnings.catch_warnings():  # all were made again
        warnings.simplefilter("error", DamagedPieceWarning)
        run(panel, models, cv=ONE, store=tmp_path)


def test_fits_that_are_copied_over_one_another_are_made_again(panel, tmp_path):
    models = {"Peers": IndustryPeerRegressor(industry="sic")}
    first = run(panel, models, cv=ONE, store=tmp_path)
    one, other, *_ = sorted(tmp_path.iterdir())
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])
    with pytest.warns(DamagedPieceWarning, match="is a copy of another file"):
        again = run(panel, models, cv=ONE, store=tmp_path)
    pd.testing.assert_frame_equal(first.predictions, again.predictions, check_exact=True)
    assert all(network.equals(again.networks[name]) for name, network in first.networks.items())


def test_a_model_that_cannot_be_stored_is_named(panel, tmp_path):
    class Local(Ridge):
        pass

    with pytest.raises(InputError, match="store: model 'Local' cannot be stored"):
        run(panel, {"Local": Local()}, store=tmp_path)


def test_a_model_that_fails_is_a_row(panel):
    models = {"Ridge": Ridge(), "Fragile": Fragile(most=100), "Peers": IndustryPeerRegressor(industry="sic")}
    result = run(panel, models)
    means = [OTHERS_CHARACTERISTICS, "Firm's mean", "Last value", model_title("own_history"), model_title("mean")]
    assert result.names == ["Ridge", "Peers", model_title("ols"), BOOSTING, *means]
    (failure,) = result.failures
    assert (failure.model, failure.fold) == ("Fragile", 2)
    assert failure.error == "ZeroDivisionError: 120 rows are too many"
    assert result.table().loc["Fragile"].tolist()[:2] == ["failed", ""]
    assert "Fragile failed in fit 2 and is not scored: ZeroDivisionError: 120 rows" in " ".join(str(result).split())
    without = run(panel, {name: model for name, model in models.items() if name != "Fragile"})
    pd.testing.assert_frame_equal(result.predictions, without.predictions, check_exact=True)


def test_failures_are_tried_again(panel, tmp_path):
    models = {"Ridge": Ridge(), "Fragile": Fragile(most=1)}
    first, again = (run(panel, models, cv=ONE, store=tmp_path).failures for _ in range(2))
    assert first == again


def test_a_baseline_that_fails_has_a_stand_in(panel):
    result = run(panel, {"Fragile": Fragile(), "Ridge": Ridge()}, cv=ONE)
    assert result.baseline == model_title("mean")
    assert "The baseline 'Fragile' failed" in result.notes[0]


def test_where_every_model_fails_the_first_error_is_raised(panel):
    with pytest.raises(ZeroDivisionError) as caught:
        run(panel, {"Fragile": Fragile(), "Too": Fragile()}, cv=ONE)
    assert "model 'Fragile'" in "".join(caught.value.__notes__)


def test_jobs(panel):
    with pytest.raises(InputError, match="n_jobs: expected"):
        run(panel, {"Ridge": Ridge()}, n_jobs=0)


def test_audits_are_kept(panel, tmp_path):
    counted = tmp_path / "fits"
    models = {"Peers": IndustryPeerRegressor(industry="sic"), "Ridge": Counting(str(counted))}
    cv = WalkForward(2, 2)
    result = run(panel, models, cv=cv, audit=["Ridge"], store=tmp_path / "store")
    assert result.audit["Ridge"].passed and fits(counted) > 1
    done = fits(counted)
    again = run(panel, models, cv=cv, audit=["Ridge"], store=tmp_path / "store")
    assert again.audit == result.audit and fits(counted) == done
    assert list(run(panel, models, cv=cv, audit=True).audit) == ["Peers"]
    with pytest.raises(InputError, match="audit: no model is named 'Ridg'"):
        run(panel, models, audit=["Ridg"])


def test_an_explanation_reads_no_past_that_is_known_later():
    """An outcome that becomes known in 2040 moves no later explanation, of its own firm or another; one known at once does."""
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(14), range(2000, 2016)], names=["firm", "period"])
    firm, period = (index.get_level_values(level) for level in index.names)
    y = rng.normal(size=(14, 16)).cumsum(axis=1).ravel()
    frame = pd.DataFrame({"x": rng.normal(size=len(y)), "y": y, "known": period + 1}, index)
    at = (firm == 3) & (period == 2012)
    models = {"covariance": CovariancePeerRegressor(random_state=0)}

    def explained(frame, **dates):
        panel = read_panel(frame.reset_index(), outcome="y", **dates)
        cv, options = WalkForward(5, 5), {"task": "nowcast", "decomposition": False, "verbose": False}
        found = compare(models, panel, cv=cv, **options).predictions.set_index(["firm", "period"])
        return found[["covariance", model_title("own_history")]]

    frame.loc[at, "known"] = 2040
    moved = frame.assign(y=frame["y"] + 5.0 * at)
    later = [(3, t) for t in range(2013, 2016)]
    pd.testing.assert_frame_equal(explained(frame, known_at="known").loc[later], explained(moved, known_at="known").loc[later])
    now = [explained(each.drop(columns="known")).loc[later] for each in (frame, moved)]
    assert ((now[0] - now[1]).abs().max() > 0).all()


def test_without_a_folder_nothing_is_kept():
    kept = FoldStore()
    key = kept.key(Entry("Ridge", Ridge()), np.arange(3), np.arange(3, 5), False)
    kept.save(key, FoldResult("Ridge", 0, np.zeros(2)))
    assert kept.load(key, FoldResult) is None
