"""Size and power: how often each test rejects at 5 % where nothing is there, as it was and as it is, and where something is.

python benchmarks/sizes.py [--replications 600] [--log sizes.jsonl]

A refusal counts as no rejection. With --log every finished case is appended to a JSON-lines file and not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from arch.bootstrap import MCS, SPA
from linearmodels.iv import IV2SLS
from scipy import stats
from statsmodels.regression.linear_model import OLS

from peerattn.evaluation import (
    calibration,
    diebold_mariano,
    giacomini_white,
    model_confidence_set,
    paired_test,
    peer_r2_test,
    superior_ability,
)
from peerattn.evaluation.inference.forecast_tests import mean_test
from peerattn.exceptions import PeerAttnWarning
from peerattn.models import LinearInMeansRegressor, wild_cluster_p
from peerattn.models.two_stage import two_stage
from peerattn.network import Difference, PeerNetwork, dyadic_regression, mrqap
from report import Row, publish

LEVEL = 0.05
Rng = np.random.Generator
Found = tuple[float | None, float | None]  # p-values as it was and as it is; None = refused


def autoregression(rng: Rng, n: int, rho: float, size: tuple[int, ...] = (), horizon: int = 1) -> np.ndarray:
    """Stationary autoregressions summed over ``horizon`` periods, (*size, n)."""
    x = rng.normal(size=(*size, n + horizon - 1))
    x[..., 0] /= np.sqrt(1 - rho**2)
    for t in range(1, x.shape[-1]):
        x[..., t] += rho * x[..., t - 1]
    total = np.cumsum(np.concatenate([np.zeros((*size, 1)), x], axis=-1), axis=-1)
    return total[..., horizon:] - total[..., :-horizon]


# ---------------------------------------------------------------- the mean of a series over periods


def newey_west(x: np.ndarray, horizon: int, lags: int | None = None) -> float:
    """The t-statistic that was used: Bartlett lags max(h − 1, ⌊4 (T/100)^{2/9}⌋)."""
    rule = max(horizon - 1, int(4 * (len(x) / 100) ** (2 / 9))) if lags is None else lags
    fit = OLS(x, np.ones_like(x)).fit(cov_type="HAC", cov_kwds={"maxlags": min(rule, len(x) - 1)})
    return float(fit.tvalues[0])


def of_means(test: str, n: int, rho: float, horizon: int) -> Callable[[Rng, float], Found]:
    def draw(rng: Rng, effect: float) -> Found:
        x = autoregression(rng, n, rho, horizon=horizon)
        x = x + effect * 3 * np.sqrt(horizon) / ((1 - rho) * np.sqrt(n)) * np.sqrt(horizon)
        t = newey_west(x, horizon, horizon - 1 if test == "Giacomini–White" else None)
        base, period = np.full(n, 9.0), np.arange(n)
        if test == "Diebold–Mariano":
            factor = np.sqrt((n + 1 - 2 * horizon + horizon * (horizon - 1) / n) / n)
            now = diebold_mariano(base - x, base, period, horizon=horizon).p_value
            return 2 * stats.t.sf(abs(t) * factor, n - 1), now
        if test == "Giacomini–White":
            t = np.sqrt(n) * x.mean() / np.sqrt(np.mean(x**2)) if horizon == 1 else t
            now = giacomini_white(base - x, base, period, horizon=horizon, conditional=False).p_value
            return 2 * stats.norm.sf(abs(t)), now
        return 2 * stats.norm.sf(abs(t)), mean_test(x, horizon).p_value

    return draw


def conditional(n: int) -> Callable[[Rng, float], Found]:
    def draw(rng: Rng, effect: float) -> Found:
        x = rng.normal(size=n) + effect * 3 / np.sqrt(n)
        Z = x[1:, None] * np.column_stack([np.ones(n - 1), x[:-1]])
        wald = n - 1 - OLS(np.ones(n - 1), Z).fit().ssr
        return stats.chi2.sf(wald, 2), giacomini_white(9.0 - x, np.full(n, 9.0), np.arange(n)).p_value

    return draw


def of_many(n: int, rho: float, best: bool = False) -> Callable[[Rng, float], Found]:
    """Does one of three models beat the benchmark, or is the benchmark not among the best? As it was: bootstraps of blocks."""
    block = int(np.ceil(n ** (1 / 3)))

    def draw(rng: Rng, effect: float) -> Found:
        gains = (autoregression(rng, n, rho) + autoregression(rng, n, rho, (3,))).T
        gains[:, 0] += effect * 3 * np.sqrt(2) / ((1 - rho) * np.sqrt(n))
        losses = pd.DataFrame(np.column_stack([np.zeros(n), -gains]), columns=["base", "a", "b", "c"]) + 9.0
        options: dict[str, Any] = {"block_size": block, "reps": 300, "bootstrap": "stationary", "seed": 0}
        if best:
            kept = MCS(losses, LEVEL, method="R", **options)
            kept.compute()
            return float(kept.pvalues["Pvalue"]["base"]), float(model_confidence_set(losses).p_values["base"])
        spa = SPA(losses["base"], losses[["a", "b", "c"]], **options)
        spa.compute()
        now = superior_ability(losses, "base").p_value
        return float(spa.pvalues["consistent"]), None if np.isnan(now) else now

    return draw


# ---------------------------------------------------------------- networks over periods


def of_paired(clusters: int, largest: float, tails: float = np.inf) -> Callable[[Rng, float], Found]:
    """Gains of two periods, shocks shared in clusters of unequal size, one with a larger sd; as it was: Student's t."""
    size = np.linspace(40, 160, clusters).astype(int)
    sd = np.sqrt(size) * np.where(np.arange(clusters) == clusters // 2, largest, 1.0)
    cluster = np.repeat(np.arange(clusters), size)
    period = np.arange(len(cluster)) % 2

    def draw(rng: Rng, effect: float) -> Found:
        shock = rng.normal(size=clusters) if np.isinf(tails) else rng.standard_t(tails, clusters)
        gain = (sd * shock / size)[cluster] + effect * 3 * np.sqrt(np.sum(sd**2)) / size.sum()
        found = paired_test(20.0 - gain, np.full(len(gain), 20.0), cluster, period, clustered_by="industry")
        return float(2 * stats.t.sf(abs(found.statistic or 0.0), clusters - 1)), found.p_value

    return draw


def of_networks(periods: int, n: int = 14) -> Callable[[Rng, float], Found]:
    """One persistent network, one characteristic; as it was: firms exchanged anew in each period."""
    firms = [f"F{k:02d}" for k in range(n)]
    off = ~np.eye(n, dtype=bool)

    def draw(rng: Rng, effect: float) -> Found:
        x = rng.normal(size=n)
        gap = np.abs(x[:, None] - x)
        W = np.exp(rng.normal(size=(n, n)) + rng.normal(size=n) - effect * gap) * off
        W /= W.sum(axis=1, keepdims=True)
        network = PeerNetwork.from_matrices({t: (firms, None, W) for t in range(periods)})
        now = mrqap(
            network,
            {"gap": Difference(pd.Series(x, firms))},
            n_permutations=99,
            random_state=int(rng.integers(1e9)),
        )
        w = W[off] - W[off].mean()
        observed, extreme = abs(w @ gap[off]), 0
        for _ in range(99):
            orders = (rng.permutation(n) for _ in range(periods))
            extreme += abs(sum(w @ gap[np.ix_(o, o)][off] for o in orders)) >= periods * observed
        return (1 + extreme) / 100, float(now.pvalues.iloc[0])

    return draw


def of_peer_r2(rho: float, n: int = 40, periods: int = 12) -> Callable[[Rng, float], Found]:
    index = pd.MultiIndex.from_product([range(n), range(periods)], names=["firm", "period"])
    group = np.arange(n) % 8
    code = pd.Series(np.repeat(group, periods).astype(str), index=index)
    average = (group[:, None] == group) - np.eye(n)
    average /= average.sum(axis=1, keepdims=True)

    def signed_r2(y: np.ndarray) -> np.ndarray:
        a, b = y - y.mean(axis=0), average @ y
        cross = (a * b).sum(axis=0)
        return np.sign(cross) * cross**2 / ((a**2).sum(axis=0) * ((b - b.mean(axis=0)) ** 2).sum(axis=0))

    def draw(rng: Rng, effect: float) -> Found:
        y = autoregression(rng, periods, rho, (n,))
        y = y + effect * autoregression(rng, periods, rho, (8,))[group]
        seed = int(rng.integers(1e9))
        now = peer_r2_test(pd.Series(y.ravel(), index), {"code": code}, n_permutations=49, random_state=seed)
        shuffled = [signed_r2(rng.permuted(y, axis=0)).mean() for _ in range(49)]
        before = (1 + sum(s >= signed_r2(y).mean() for s in shuffled)) / 50
        return before, float(now.frame["p_value"].iloc[0])

    return draw


def of_dyads(firm_effects: float, n: int) -> Callable[[Rng, float], Found]:
    firms, off = [f"F{k:02d}" for k in range(n)], ~np.eye(n, dtype=bool)
    i, j = np.nonzero(off)

    def draw(rng: Rng, effect: float) -> Found:
        x = rng.normal(size=n)
        gap = np.abs(x[:, None] - x)
        noise = firm_effects * (rng.normal(size=(n, 1)) + rng.normal(size=n)) + rng.normal(size=(n, n))
        W = (20 + noise - 2 * effect * gap) * off
        network = PeerNetwork.from_matrices({None: (firms, None, W)}, row_normalized=False)
        now = float(dyadic_regression(network, {"gap": Difference(pd.Series(x, firms))}).pvalues["gap"])
        D, y = np.column_stack([np.ones(len(i)), gap[off]]), W[off]
        bread = np.linalg.inv(D.T @ D)
        b = bread @ D.T @ y
        s = D * (y - D @ b)[:, None]
        by_firm, by_pair = np.zeros((n, 2)), np.zeros((n * n, 2))
        np.add.at(by_firm, i, s)
        np.add.at(by_firm, j, s)
        np.add.at(by_pair, np.minimum(i, j) * n + np.maximum(i, j), s)
        v = (bread @ (by_firm.T @ by_firm - by_pair.T @ by_pair) @ bread)[1, 1]
        before = 2 * stats.norm.sf(abs(b[1]) / np.sqrt(v)) if v > 0 else 0.0
        return before, None if np.isnan(now) else now

    return draw


# ---------------------------------------------------------------- regressions


def of_calibration(dependence: str, n: int = 50, periods: int = 20) -> Callable[[Rng, float], Found]:
    firm, period = (a.ravel() for a in np.meshgrid(np.arange(n), np.arange(periods)))

    def draw(rng: Rng, effect: float) -> Found:
        forecast, error = rng.normal(size=(2, n * periods))
        if dependence == "lasting firms":
            forecast, error = forecast + rng.normal(size=n)[firm], error + rng.normal(size=n)[firm]
        if dependence == "common shocks":
            forecast, error = (
                forecast + rng.normal(size=periods)[period],
                error + rng.normal(size=periods)[period],
            )
        y = (1 - effect) * forecast + error
        before = calibration(y, forecast, period).p_value
        return before, calibration(y, forecast, period, firm=firm).p_value

    return draw


def of_peer_effects(shock: str, n: int = 60, periods: int = 8) -> Callable[[Rng, float], Found]:
    """H0: the effect of peers' outcomes is its true .4; as it was: no period effects, normal critical values."""
    index = pd.MultiIndex.from_product([range(n), range(periods)], names=["firm", "period"])

    def draw(rng: Rng, effect: float) -> Found:
        W = (rng.random((n, n)) < 0.03) * (1 - np.eye(n))
        W[W.sum(axis=1) == 0, 0] = 1.0
        W[0, 0], W[0, 1] = 0.0, 1.0
        W /= W.sum(axis=1, keepdims=True)
        common = rng.normal(size=periods) if shock else np.zeros(periods)
        x = rng.normal(size=(n, periods)) + (common if shock == "correlated" else 0.0)
        true = 0.4 - 0.6 * effect
        y = np.linalg.solve(
            np.eye(n) - true * W, x + 0.3 * W @ x + common + 0.3 * rng.normal(size=(n, periods))
        )
        X, outcome = pd.DataFrame({"size": x.ravel()}, index), pd.Series(y.ravel(), index)
        p = []
        for effects in ((), ("period",)):
            found = LinearInMeansRegressor(network=pd.DataFrame(W), effects=effects).fit(X, outcome).results_
            t = (found.params["peers' outcome"] - 0.4) / found.std_errors["peers' outcome"]
            p.append(2 * (stats.t.sf(abs(t), found.freedom) if effects else stats.norm.sf(abs(t))))
        return p[0], p[1]

    return draw


def of_few_clusters(clusters: int, each: int = 12) -> Callable[[Rng, float], Found]:
    group = np.repeat(np.arange(clusters), each)

    def draw(rng: Rng, effect: float) -> Found:
        x, z = rng.normal(size=(2, clusters))[:, group] + rng.normal(size=(2, len(group)))
        e = rng.normal(size=clusters)[group] + rng.normal(size=len(group))
        w = z + 0.5 * e + rng.normal(size=len(group))
        y = effect * 1.5 * w + e
        one = pd.DataFrame({"one": 1.0, "x": x})
        found = two_stage(y, one, w, pd.DataFrame({"z": z}), clusters=pd.DataFrame({"firm": group}))
        t = found.params.iloc[-1] / found.std_errors.iloc[-1]
        plain = IV2SLS(y, one, w, z).fit(cov_type="clustered", clusters=group)
        before = float(plain.tstats.iloc[-1]) * np.sqrt(clusters / (clusters - 1))
        return 2 * stats.norm.sf(abs(before)), 2 * stats.t.sf(abs(t), found.freedom)

    return draw


# ---------------------------------------------------------------- fixed effects, few clusters, weak instruments


def clustered_t(y: np.ndarray, x: np.ndarray, group: np.ndarray, null: float = 0.0) -> float:
    """The p value of a slope with clustered errors against the normal, a constant in the regression."""
    fit = OLS(y, np.column_stack([np.ones(len(y)), x])).fit(cov_type="cluster", cov_kwds={"groups": group})
    return float(2 * stats.norm.sf(abs((fit.params[1] - null) / fit.bse[1])))


def of_wild_bootstrap(clusters: int, each: int = 15) -> Callable[[Rng, float], Found]:
    """One regressor that differs by cluster and row, half of the clusters three times as noisy."""
    group = np.repeat(np.arange(clusters), each)

    def draw(rng: Rng, effect: float) -> Found:
        x = rng.normal(size=clusters)[group] + rng.normal(size=len(group))
        e = (1 + 2 * (group % 2)) * (rng.normal(size=clusters)[group] + rng.normal(size=len(group)))
        y, one = effect * x + e, np.ones((len(group), 1))
        return clustered_t(y, x, group), wild_cluster_p(y, one, x[:, None], group, n_draws=199)

    return draw


def of_absorbed(effects: tuple[str, ...], n: int = 60, periods: int = 8) -> Callable[[Rng, float], Found]:
    """Firms' levels, and shocks of industries where these are absorbed, in both x and y; as it was: period effects alone."""
    index = pd.MultiIndex.from_product([range(n), range(periods)], names=["firm", "period"])
    sic = np.arange(n) % 6

    def draw(rng: Rng, effect: float) -> Found:
        level = rng.normal(size=(n, 1)) + ("sic×period" in effects) * rng.normal(size=(6, periods))[sic]
        x = level + rng.normal(size=(n, periods))
        y = effect * 0.2 * x + level + rng.normal(size=(n, periods))
        X = pd.DataFrame({"size": x.ravel(), "sic": np.repeat(sic.astype(str), periods)}, index)
        outcome = pd.Series(y.ravel(), index)
        before = LinearInMeansRegressor(codes=("sic",)).fit(X, outcome).results_.pvalues["size"]
        return float(before), float(
            LinearInMeansRegressor(effects=effects).fit(X, outcome).results_.pvalues["size"]
        )

    return draw


def of_calibration_within(n: int = 50, periods: int = 20) -> Callable[[Rng, float], Found]:
    firm, period = (a.ravel() for a in np.meshgrid(np.arange(n), np.arange(periods)))

    def draw(rng: Rng, effect: float) -> Found:
        level = rng.normal(size=n)[firm]
        forecast = level + rng.normal(size=n * periods)
        y = (1 - effect) * forecast + level + rng.normal(size=periods)[period] + rng.normal(size=n * periods)
        before = calibration(y, forecast, period, firm=firm).p_value
        return before, calibration(y, forecast, period, firm=firm, effects=("firm", "period")).p_value

    return draw


def of_calibration_few(periods: int = 6, n: int = 50) -> Callable[[Rng, float], Found]:
    """As it was: refused; the column "before" is the clustered t against the normal."""
    firm, period = (a.ravel() for a in np.meshgrid(np.arange(n), np.arange(periods)))

    def draw(rng: Rng, effect: float) -> Found:
        forecast, error = (rng.normal(size=periods)[period] + rng.normal(size=n * periods) for _ in range(2))
        y = (1 - effect) * forecast + error
        now = calibration(y, forecast, period, firm=firm, n_bootstrap=199).p_value
        return clustered_t(y, forecast, period, 1.0), now

    return draw


def of_dyads_within(n: int) -> Callable[[Rng, float], Found]:
    """Popular firms are large: peers' effects in regressor and weight; as it was: a constant."""
    firms, off = [f"F{k:02d}" for k in range(n)], ~np.eye(n, dtype=bool)

    def draw(rng: Rng, effect: float) -> Found:
        popular = rng.normal(size=n)
        x = popular + rng.normal(size=(n, 1)) + rng.normal(size=(n, n))
        W = (20 + popular + rng.normal(size=(n, 1)) + rng.normal(size=(n, n)) + effect * 0.3 * x) * off
        network = PeerNetwork.from_matrices({None: (firms, None, W)}, row_normalized=False)
        given = {"x": pd.DataFrame(x, firms, firms)}
        before = dyadic_regression(network, given).pvalues["x"]
        return float(before), float(dyadic_regression(network, given, effects=("firm", "peer")).pvalues["x"])

    return draw


def of_peer_r2_within(n: int = 40, periods: int = 8) -> Callable[[Rng, float], Found]:
    """Peers have the same lasting level; nothing else in common."""
    index = pd.MultiIndex.from_product([range(n), range(periods)], names=["firm", "period"])
    group = np.arange(n) % 8
    code = pd.Series(np.repeat(group, periods).astype(str), index=index)

    def draw(rng: Rng, effect: float) -> Found:
        y = rng.normal(size=8)[group][:, None] + rng.normal(size=(n, periods))
        y = pd.Series((y + effect * 0.6 * rng.normal(size=(8, periods))[group]).ravel(), index)
        seed = int(rng.integers(1e9))
        p = [peer_r2_test(y, {"code": code}, effects=e, n_permutations=49, random_state=seed).frame["p_value"].iloc[0]
             for e in ((), ("firm",))]  # fmt: skip
        return float(p[0]), float(p[1])

    return draw


def of_weak_instruments(strength: float, n: int = 300) -> Callable[[Rng, float], Found]:
    """One instrument, errors of both stages correlated .95; as it was: t of two-stage least squares."""

    def draw(rng: Rng, effect: float) -> Found:
        z, u = rng.normal(size=(2, n))
        w = strength * z + 0.95 * u + np.sqrt(1 - 0.95**2) * rng.normal(size=n)
        one = pd.DataFrame({"one": np.ones(n)})
        found = two_stage(effect * 3 * w + u, one, w, pd.DataFrame({"z": z}))
        assert found.identification is not None
        return float(found.pvalues.iloc[-1]), found.identification.ar_p

    return draw


CASES: dict[tuple[str, str], tuple[Callable[[Rng, float], Found], float, float]] = {}  # draw, effect, cost


def _add(test: str, case: str, draw: Callable[[Rng, float], Found], effect: float, cost: float = 1.0) -> None:
    CASES[test, case] = draw, effect, cost


for _test in ("Diebold–Mariano", "t of a mean (IC, spread, Fama–MacBeth)", "Giacomini–White"):
    for _n, _rho, _h in ((10, 0.0, 1), (12, 0.0, 1), (12, 0.5, 1), (20, 0.0, 1), (20, 0.5, 1), (20, 0.9, 1), (60, 0.9, 1),
                         (120, 0.0, 1), (120, 0.5, 1), (120, 0.9, 1), (48, 0.0, 12), (120, 0.0, 12), (120, 0.9, 12)):  # fmt: skip
        _case = (
            f"T = {_n}, "
            + ("independent" if _rho == 0 else f"AR({_rho:g})")
            + (f", horizon {_h}" if _h > 1 else "")
        )
        _add(_test, _case, of_means(_test, _n, _rho, _h), 1.0, 0.25)
for _n, _rho in ((12, 0.0), (20, 0.0), (20, 0.5), (20, 0.9), (60, 0.9), (120, 0.0), (120, 0.5), (120, 0.9)):
    _case = f"T = {_n}, {'independent' if _rho == 0 else f'AR({_rho:g})'}"
    _add("any of three models superior", _case, of_many(_n, _rho), 1.0)
for _n, _rho in ((20, 0.0), (20, 0.5), (120, 0.0), (120, 0.9)):
    _case = f"T = {_n}, {'independent' if _rho == 0 else f'AR({_rho:g})'}"
    _add("confidence set leaves a best model out", _case, of_many(_n, _rho, best=True), 1.0)
for _n, _largest, _df in (
    (11, 1, np.inf),
    (11, 3, np.inf),
    (11, 10, np.inf),
    (11, 10, 3),
    (40, 1, np.inf),
    (40, 10, np.inf),
):
    _case = f"{_n} industries, " + (f"one with {_largest} times the sd" if _largest > 1 else "alike")
    _add(
        "paired, few periods",
        _case + (f", t({_df})" if np.isfinite(_df) else ""),
        of_paired(_n, _largest, _df),
        1.0,
        0.5,
    )
for _n in (13, 120):
    _add("Giacomini–White, conditional", f"T = {_n}, independent", conditional(_n), 1.0, 0.25)
for _t in (1, 5, 12):
    _add("mrqap", f"persistent network, T = {_t}, 14 firms", of_networks(_t), 0.7)
for _rho in (0.0, 0.5, 0.9):
    _case = "independent" if _rho == 0 else f"AR({_rho:g})"
    _add("peer_r2_test", f"T = 12, 40 firms, {_case}", of_peer_r2(_rho), 0.6)
for _n in (20, 25, 40):
    for _fe in (0.0, 1.0):
        _add(
            "dyadic_regression",
            f"{_n} firms, {'firm effects' if _fe else 'independent'}",
            of_dyads(_fe, _n),
            0.3,
        )
for _case in ("independent", "lasting firms", "common shocks"):
    _add("calibration", f"20 periods, 50 firms, {_case}", of_calibration(_case), 0.3)
for _case in ("", "uncorrelated", "correlated"):
    _add(
        "LinearInMeans",
        f"8 periods, 60 firms, {_case or 'no'} common shock",
        of_peer_effects(_case),
        1.0,
        3.0,
    )
for _n in (10, 40):
    _add("two-stage, clustered", f"{_n} clusters", of_few_clusters(_n), 1.0)
for _n in (6, 10, 20):
    _add("wild cluster bootstrap", f"{_n} clusters, half of them noisier", of_wild_bootstrap(_n), 1.5)
_add("LinearInMeans, effects", "levels of firms", of_absorbed(("firm", "period")), 1.0, 3.0)
_add(
    "LinearInMeans, effects",
    "levels of firms, shocks of industries",
    of_absorbed(("firm", "sic×period")),
    1.0,
    3.0,
)
_add("calibration, effects", "levels of firms in forecast and error", of_calibration_within(), 0.3)
_add("calibration, bootstrap", "6 periods with common shocks", of_calibration_few(), 0.5, 2.0)
for _n in (25, 40):
    _add("dyadic_regression, effects", f"{_n} firms, popular ones are large", of_dyads_within(_n), 1.0)
_add("peer_r2_test, effects", "peers share a lasting level", of_peer_r2_within(), 1.0)
for _s in (0.02, 0.5):
    _add("Anderson–Rubin", f"first stage {_s:g}", of_weak_instruments(_s), 0.1)


def run(test: str, case: str, replications: int) -> Row:
    """Rejections of one case, under the null and with an effect."""
    draw, effect, cost = CASES[test, case]
    count, start = max(int(replications / cost), 100), time.process_time()
    child = np.random.SeedSequence(zlib.crc32(f"{test}|{case}".encode())).spawn(count + count // 3)
    p = [draw(np.random.default_rng(seed), 0.0) for seed in child[:count]]
    other = [draw(np.random.default_rng(seed), effect)[1] for seed in child[count:]]
    rejects = [
        float(np.mean([value is not None and value < LEVEL for value in column])) for column in zip(*p)
    ]
    refused = float(np.mean([now is None for _, now in p]))
    power = float(np.mean([value is not None and value < LEVEL for value in other]))
    return {
        "test": test,
        "case": case,
        "size before": rejects[0],
        "size": rejects[1],
        "refused": refused,
        "power": power,
        "replications": count,
        "seconds": round(time.process_time() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--replications", type=int, default=600, help="of the fast cases; the slow ones take a part of it"
    )
    parser.add_argument("--log", type=Path, help="JSON lines; cases that are there are not run again")
    options = parser.parse_args()
    warnings.simplefilter("ignore", PeerAttnWarning)
    done: dict[tuple[str, str], Row] = {}
    if options.log and options.log.exists():
        rows = [json.loads(line) for line in options.log.read_text(encoding="utf-8").splitlines()]
        done = {(row["test"], row["case"]): row for row in rows}
    for test, case in CASES:
        if (test, case) not in done:
            done[test, case] = run(test, case, options.replications)
            if options.log:
                with options.log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(done[test, case]) + "\n")
    rows = [{k: v for k, v in done[key].items() if k != "seconds"} for key in CASES]
    seconds = sum(float(row["seconds"]) for row in done.values())
    publish(
        "sizes",
        f"Rejections of a true null at {LEVEL:.0%}, before and now, and power",
        rows,
        [
            "Before: Newey–West t with the former lags against Student's t or the normal; firms exchanged anew in each period; "
            "the sum over pairs that share a firm; clusters by period alone; no period effects; normal critical values; without "
            "the effects; of paired tests, Student's t with G − 1 degrees of freedom; "
            "Hansen's test and the model confidence set by bootstraps of blocks; of Anderson–Rubin, the t of "
            "two-stage least squares.",
            "To hold: 3 to 8 % under independence, at most 10 % under dependence. A refusal counts as no rejection.",
            "Power: rejections where something is there: a mean of three standard errors, or the effect in benchmarks/sizes.py.",
            f"{seconds:.0f} CPU seconds, one thread. Simulation error of a size of 5 %: 0.9 points with 600 replications.",
        ],
    )


if __name__ == "__main__":
    main()
