"""The lecture's own task on real returns: does last month's return of other firms forecast a firm's return?

Run: ``python benchmarks/industry_lead.py [--stage rules attention] [--spans 2005 2009]``. ``us_monthly_2000_2012`` (Moskowitz and
Grinblatt 1999; Hou 2007). Each rule is one column, or two, beside twelve own characteristics ranked within the month, by least
squares net of the month's mean, each month weighted by its inverse variance; its *peer part* is what it adds to own
characteristics alone. Every result is stored at once in ``benchmarks/results/industry_lead/``.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from peerattn.evaluation import prune
from peerattn.exceptions import PeerAttnWarning
from peerattn.models import CrossSectionalRidge, PeerAttentionRegressor, Prior
from report import RESULTS, SHARED, options, publish, stored

STORE = RESULTS / "industry_lead"
SPANS = {"2005": "2009", "2009": "2013"}  # first tested year, and the year after the last
OWN = ["rev1", "mom12_2", "mom6_2", "vol1", "vol12", "maxret", "beta", "ivol", "ldolvol12", "volchg", "lamihud", "hi52"]
LAST_RETURN = "last_return"
OUTCOME = "next_return"
CODES = ["sic3", "ff49"]
BOTH = [LAST_RETURN, "ldolvol12"]
MODELS: dict[str, tuple[Prior | None, list[str]]] = {
    "attention, last return alone": (None, [LAST_RETURN]),
    "attention": (None, BOTH),
    "attention within SIC-3": (Prior("sic3", only=True), BOTH),
}
NOTHING = 1e-5  # standard deviation of what heads add, in those of the outcome, below which they were shrunk to nothing
NETWORK_MONTHS = 6  # last tested months in which the weight within industries is measured


def load() -> pd.DataFrame:
    """Return the panel, sorted by month: own characteristics as ranks from −.5 to .5, last and next return clipped, codes."""
    frame = pd.read_parquet(SHARED / "firm" / "us_monthly_2000_2012.parquet")
    frame = frame[frame["ret_next"].notna()].rename(columns={"date": "period"})
    frame[OUTCOME] = frame["ret_next"].astype(float).clip(-0.5, 1.0)
    frame[LAST_RETURN] = frame["rev1"].astype(float).clip(-0.5, 1.0)
    months = frame.groupby("period")
    for name in OWN:
        frame[name] = months[name].rank(pct=True).fillna(0.5) - 0.5
    frame["sic3"] = pd.to_numeric(frame["sic"], errors="coerce") // 10
    frame["ff49"] = pd.to_numeric(frame["ff49"], errors="coerce")
    return frame.sort_values(["period", "firm"]).reset_index(drop=True)


def demeaned(frame: pd.DataFrame, values: np.ndarray | pd.Series) -> np.ndarray:
    """Return values net of their month's mean."""
    column = pd.Series(np.asarray(values), frame.index)
    return (column - column.groupby(frame["period"]).transform("mean")).to_numpy()


def mean_of_others(frame: pd.DataFrame, code: str) -> pd.Series:
    """Return last month's mean return of the other firms of the same code; NaN where there are none."""
    known = frame[code].notna()
    groups = frame[LAST_RETURN][known].groupby([frame["period"][known], frame[code][known]])
    count = groups.transform("count")
    others = (groups.transform("sum") - frame[LAST_RETURN][known]) / (count - 1).where(count > 1)
    return others.reindex(frame.index)


def rules(frame: pd.DataFrame) -> dict[str, list[np.ndarray]]:
    """Return the columns of each rule."""
    month = frame.groupby("period")[LAST_RETURN].transform("mean")
    ff49 = mean_of_others(frame, "ff49").fillna(month)
    sic3 = mean_of_others(frame, "sic3").fillna(ff49)
    small = -frame["ldolvol12"]
    return {
        "FF49 mean": [ff49.to_numpy()],
        "SIC-3 mean": [sic3.to_numpy()],
        "SIC-3 mean, and times smallness": [sic3.to_numpy(), (sic3 * small).to_numpy()],
        "cross-sectional ridge": [ridge(frame)],
    }


def ridge(frame: pd.DataFrame) -> np.ndarray:
    """Return what the other firms' last returns give for a firm's: leave-one-out ridge on characteristics and codes.

    The penalty is chosen on months before the first tested one. Rank of the last return is no input: it is the outcome.
    """
    X = with_codes(frame, [name for name in OWN if name != "rev1"])
    y = pd.Series(frame[LAST_RETURN].to_numpy(), X.index)
    train = (frame["period"] < min(SPANS)).to_numpy()
    return np.asarray(CrossSectionalRidge().fit(X[train], y[train]).predict(X, outcomes=y))


def with_codes(frame: pd.DataFrame, numbers: list[str]) -> pd.DataFrame:
    """Return characteristics and codes, indexed by (firm, period)."""
    X = frame.set_index(["firm", "period"])[numbers].astype(float)
    for code in CODES:
        number = pd.Series(frame[code].to_numpy(), X.index)
        X[code] = number.map("{:.0f}".format).where(number.notna()).astype("category")
    return X


@dataclass(frozen=True)
class Span:
    """Training rows, tested rows, and what own characteristics alone predict of the outcome net of the month's mean."""

    frame: pd.DataFrame
    train: np.ndarray
    test: np.ndarray
    y: np.ndarray
    variance: np.ndarray  # of the month, by row

    @classmethod
    def of(cls, frame: pd.DataFrame, first: str) -> Span:
        """Return the span that is tested from this year on."""
        y = demeaned(frame, frame[OUTCOME])
        variance = pd.Series(y**2).groupby(frame["period"].to_numpy()).transform("mean").to_numpy()
        month = frame["period"]
        return cls(frame, (month < first).to_numpy(), ((month >= first) & (month < SPANS[first])).to_numpy(), y, variance)

    def fitted(self, columns: list[np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        """Return the prediction for these rows, by default the tested ones, by own characteristics and these columns."""
        X = np.column_stack([demeaned(self.frame, self.frame[name]) for name in OWN] + [demeaned(self.frame, c) for c in columns])
        weighted = X[self.train] / self.variance[self.train, None]
        coefficients = np.linalg.solve(weighted.T @ X[self.train], weighted.T @ self.y[self.train])
        return X[self.test if rows is None else rows] @ coefficients

    def monthly(self, peer_part: np.ndarray, own: np.ndarray) -> dict[str, list[float]]:
        """Return for each tested month the decile spread, the rank IC and the score of the peer part, and squared errors."""
        found: dict[str, list[float]] = {name: [] for name in ("spread", "ic", "score", "error", "own_error", "square")}
        rows = np.flatnonzero(self.test)
        for at in pd.Series(np.arange(len(rows))).groupby(self.frame["period"].to_numpy()[rows]).indices.values():
            part = peer_part[at]
            y = self.y[rows[at]]
            spread, ic = ranked(part, y)
            found["spread"].append(spread)
            found["ic"].append(ic)
            found["score"].append(float((part * (y - own[at])).sum() / self.variance[rows[at]].mean()))
            within = own[at] + part
            found["error"].append(float(((y - (within - within.mean())) ** 2).sum()))
            found["own_error"].append(float(((y - (own[at] - own[at].mean())) ** 2).sum()))
            found["square"].append(float((y**2).sum()))
        return found


def ranked(part: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return decile spread and rank correlation of a month; zero where the peer part has no ranks."""
    if part.std() == 0:
        return 0.0, 0.0
    order = np.argsort(part, kind="stable")
    n = len(order) // 10
    spread = y[order[-n:]].mean() - y[order[:n]].mean()
    return float(spread), float(np.corrcoef(pd.Series(part).rank(), pd.Series(y).rank())[0, 1])


def rule(span: Span, columns: list[np.ndarray]) -> dict[str, list[float]]:
    """Return the monthly figures of a rule."""
    own = span.fitted([])
    return span.monthly(span.fitted(columns) - own, own)


def attention(frame: pd.DataFrame, first: str, prior: Prior | None, numbers: list[str]) -> dict[str, Any]:
    """Return the monthly figures of attention heads in full, and the share of their weight within the SIC-3 industry.

    As in the rules, heads have the last return (and size) of other firms, and forecast what own characteristics leave.
    """
    span = Span.of(frame, first)
    own = span.fitted([], span.train | span.test)
    inputs = frame.assign(**{LAST_RETURN: demeaned(frame, frame[LAST_RETURN])})
    X = with_codes(inputs, numbers)
    left = np.full(len(frame), np.nan)
    left[span.train | span.test] = span.y[span.train | span.test] - own
    y = pd.Series(left, X.index)
    weight = pd.Series(span.variance[span.train].mean() / span.variance, X.index)
    start = time.process_time()
    model = PeerAttentionRegressor(prior=prior, kappa=None, random_state=0)
    model.fit(X[span.train], y[span.train], loss_weight=weight[span.train])
    seconds = time.process_time() - start
    # what heads add to the model's own part is one column beside own characteristics, as that of a rule
    known = span.train | span.test
    added = np.zeros(len(frame))
    added[known] = np.asarray(model.predict(X[known])) - np.asarray(prune(model, []).predict(X[known]))
    nothing = added.std() < NOTHING * y.std()
    found: dict[str, Any] = rule(span, [] if nothing else [added])
    months = np.unique(frame["period"][span.test])[-NETWORK_MONTHS:]
    at = frame["period"].isin(months).to_numpy()
    network = model.peer_network(X[at])
    shares = []
    chances = []
    for month in network.periods:
        W = network.matrix(month)
        sic3 = X["sic3"].xs(month, level="period").astype(object).reindex(W.index)
        known = sic3.notna().to_numpy()
        same = (sic3.to_numpy()[:, None] == sic3.to_numpy()[None, :]) & known[:, None]
        np.fill_diagonal(same, False)
        rows = same.any(axis=1)
        shares.append(float((W.to_numpy() * same)[rows].sum(axis=1).mean()))
        chances.append(float(same[rows].sum(axis=1).mean() / (len(W) - 1)))
    return found | {"within": float(np.mean(shares)), "chance": float(np.mean(chances)), "seconds": seconds}


def t_value(values: list[float]) -> float:
    """Return the t value of a monthly series' mean."""
    series = np.array(values)
    if series.std() == 0:
        return 0.0
    return float(series.mean() / series.std(ddof=1) * len(series) ** 0.5)


def row_of(name: str, tested: str, found: dict[str, Any]) -> dict[str, str | float]:
    """Return the row of one rule and one span."""
    square = sum(found["square"])
    row: dict[str, str | float] = {
        "peer part": name,
        "tested": tested,
        "decile spread, % a month": 100 * float(np.mean(found["spread"])),
        "t": t_value(found["spread"]),
        "rank IC": float(np.mean(found["ic"])),
        "t of IC": t_value(found["ic"]),
        "t of score": t_value(found["score"]),
        "R² within months": 1 - sum(found["error"]) / square,
        "own part alone": 1 - sum(found["own_error"]) / square,
        "weight within SIC-3": found.get("within", ""),
        "by chance": found.get("chance", ""),
    }
    return row


def pooled(each: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the monthly figures of several spans, one after another; shares of weight are averaged."""
    lists = {name: sum((one[name] for one in each), []) for name, value in each[0].items() if isinstance(value, list)}
    if "within" in each[0]:
        lists |= {name: float(np.mean([one[name] for one in each])) for name in ("within", "chance")}
    return lists


def main() -> None:
    """Run the stages and publish the table of all that is stored."""
    arguments = options(__doc__, stage={"rules": None, "attention": None}, spans=SPANS)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", PeerAttnWarning)
    frame = load()
    names = ["FF49 mean", "SIC-3 mean", "SIC-3 mean, and times smallness", "cross-sectional ridge"]
    if "rules" in arguments.stage:
        columns = rules(frame)
        for first in arguments.spans:
            for name in names:
                stored(STORE / f"{name} {first}.json", partial(rule, Span.of(frame, first), columns[name]))
    if "attention" in arguments.stage:
        for first in arguments.spans:
            for name, (prior, numbers) in MODELS.items():
                stored(STORE / f"{name} {first}.json", partial(attention, frame, first, prior, numbers))
    rows: list[dict[str, str | float]] = []
    for name in [*names, *MODELS]:
        paths = {first: STORE / f"{name} {first}.json".replace(" ", "_") for first in SPANS}
        kept = {first: stored(path, dict) for first, path in paths.items() if path.exists()}
        for first, found in kept.items():
            rows.append(row_of(name, f"{first} to {int(SPANS[first]) - 1}", found))
        if len(kept) == len(SPANS):
            rows.append(row_of(name, "both", pooled(list(kept.values()))))
    notes = [
        "Peer part: what a rule adds to own characteristics alone. Decile spread: mean next return of the tenth with the largest "
        "peer part less that of the smallest, equal weights; costs are not modelled. t values over months.",
        "Rules: least squares, months weighted by their inverse variance. Cross-sectional ridge: what the other firms' last "
        "returns give for a firm's last return, by characteristics and codes, in the place of the industry's mean.",
        "Attention: heads in full (kappa=None) at defaults, of last return, size (but in the first) and the codes SIC-3 and "
        "FF49, on what own characteristics leave, one seed, what they add as one column like that of a rule; where they predict "
        "nothing of held-out months, weights are equal within the code that does best there; weight within SIC-3 beside what "
        "equal weights on all firms would have.",
        "Inputs of attention were chosen after fits with all twelve characteristics had been tested on 2005 to 2008, where the "
        "defaults shrink heads to nothing: its figures there are not of untouched data.",
        "The panel has firms that were alive at the end of 2017, with the codes of then.",
    ]
    publish("industry_lead", "Last month's return of other firms: what it adds to own characteristics", rows, notes)


if __name__ == "__main__":
    main()
