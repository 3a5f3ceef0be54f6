"""Published figures beside ours, those that are missed too: the table of docs/guide/replication.md.

python benchmarks/replications.py    computes what takes seconds, reads the rest from benchmarks/results

Data: what is embedded, and ../shared/data (PEERATTN_SHARED_DATA).
"""

from __future__ import annotations

import json

import pandas as pd
import torch
from spillovers import TABLE_3
from spillovers import rows as spillovers

from peerattn import LinearInMeansRegressor, load_grunfeld, nn
from report import RESULTS, SHARED, publish

HERE = "benchmarks/replications.py"
Rows = list[dict[str, str | float]]


def row(what: str, published: str, ours: str, source: str, command: str = HERE) -> dict[str, str | float]:
    return {"figure": what, "published": published, "ours": ours, "source": source, "command": command}


def grunfeld() -> Rows:
    """Investment on value and capital, ten firms."""
    panel = load_grunfeld()
    now = panel.X.loc[panel.X.index.get_level_values("firm") != "American Steel"]
    X, y = now[["value", "capital"]], now["invest"]
    pooled, within = (LinearInMeansRegressor(effects=e).fit(X, y).results_.params for e in ((), ("firm",)))
    source = "Grunfeld (1958); Kleiber and Zeileis (2010)"
    both = {"pooled least squares": (".1156, .2307", pooled), "firm effects": (".1101, .3101", within)}
    return [
        row(f"Grunfeld, {name}: value, capital", published, f"{b['value']:.4f}, {b['capital']:.4f}", source)
        for name, (published, b) in both.items()
    ]


def employment() -> Rows:
    """Employment on two lags, wages, capital and output, year dummies."""
    data = pd.read_parquet(SHARED / "firm" / "uk_annual_empluk.parquet").sort_values(["firm", "year"])
    by_firm = data.groupby("firm", observed=True)
    names = "lemp1 lemp2 lwage lwage1 lcapital lcapital1 lcapital2 loutput loutput1 loutput2".split()
    for name in names:
        if name[-1].isdigit():
            data[name] = by_firm[name[:-1]].shift(int(name[-1]))
    X = data.rename(columns={"year": "period"}).set_index(["firm", "period"]).dropna(subset=[*names, "lemp"])
    model = LinearInMeansRegressor(effects=("period",))
    found = model.fit(X[names].astype(float), X["lemp"].astype(float)).results_
    b = found.params
    return [
        row(f"UK employment, least squares: two lags (n {found.nobs})", "1.0446, −.0765",
            f"{b['lemp1']:.4f}, {b['lemp2']:.4f}".replace("-", "−"), "Arellano and Bond (1991); Roodman (2009)")
    ]  # fmt: skip


def research() -> Rows:
    """Tobin's q on spillovers of research, in bubbles and outside."""
    found = [one for one in spillovers() if one["equation"] == TABLE_3]
    show = lambda name: ", ".join(f"{one[name]:.3f}" for one in found).replace("-", "−")  # noqa: E731
    return [
        row(f"Log Q: ln SPILLTEC, ln SPILLSIC, bubble × ln SPILLSIC (n {found[0]['n']:,})",
            show("expected").replace("0.", "."), show("ours"), "Haddad, Ho and Loualiche (2022)", "benchmarks/spillovers.py")
    ]  # fmt: skip


def parameters() -> Rows:
    """Published numbers of parameters, counted without memory."""
    with torch.device("meta"):
        stack = nn.Encoder(12, 768, 12)
    blocks = sum(p.numel() for p in stack.parameters())
    embeddings = (50_257 + 1_024) * 768
    final = 0 if any("norm" in name for name, _ in stack.named_children()) else 2 * 768
    counted = f"{blocks + embeddings + final:,}"
    return [row("GPT-2 small, parameters", "124,439,808", counted, "Radford et al. (2019)")]


def kept() -> Rows:
    """Figures of other benchmarks."""
    found: dict[tuple[str, str], str] = {}
    for one in json.loads((RESULTS / "sequence.json").read_text(encoding="utf-8"))["rows"]:
        for task in (one["task"], one["task"].split(",")[0]):
            found.setdefault((task, one["measure"]), str(one["model"]))
    command = "benchmarks/sequence.py"
    return [
        row("Cora, public split: accuracy", "GAT .830 ± .007; GCN .815", found["Cora, 500 labels to choose by", "accuracy"],
            "Veličković et al. (2018)", command),
        row("rt-polarity: accuracy", "CNN-rand .761 (tenfold)", found["rt-polarity", "accuracy"] + " (three held-out tenths)",
            "Kim (2014)", command),
        row("Tiny Shakespeare on a CPU: nats a character", "nanoGPT 1.88", found["Tiny Shakespeare", "nats"] + " (more steps)",
            "Karpathy (2022)", command),
        row("Multi30k en to de, test of 2016: BLEU", "41.0", found["Multi30k en to de (29,000 pairs, 1,000 tested)", "BLEU"],
            "Wu et al. (2021)", command),
    ]  # fmt: skip


def main() -> None:
    """Compute, read, publish."""
    rows = grunfeld() + (employment() + research() if SHARED.exists() else []) + parameters() + kept()
    publish("replications", "Published figures beside ours", rows)


if __name__ == "__main__":
    main()
