"""Published coefficients on spillovers of research beside ours: a network that is given, firm and year effects.

python benchmarks/spillovers.py    PEERATTN_SHARED_DATA names the folder where firm/bsv_spillovers.parquet lies
"""

from __future__ import annotations

import pandas as pd

from peerattn import LinearInMeansRegressor
from report import SHARED, publish

TEC, SIC, BUBBLE = "ln SPILLTEC", "ln SPILLSIC", "bubble × ln SPILLSIC"
POWERS = [f"(R&D / capital)^{k}" for k in range(1, 7)]
INDUSTRY = ["rd_zero_lag", "ln_industry_sales", "ln_industry_sales_lag"]
ALONE, PAPER = "no other control", "controls of Bloom et al. (2013)"
TABLE_3 = "Haddad et al. (2022), Table 3, column 1"

# columns, clustered by, rows counted by, and for each coefficient what is expected with its standard error
EQUATIONS = {
    ALONE: ([TEC, SIC], "firm", None, {TEC: (0.568, 0.168), SIC: (-0.059, 0.055)}),
    PAPER: ([TEC, SIC, *POWERS, *INDUSTRY], "firm", None, {TEC: (0.337, 0.168), SIC: (-0.085, 0.052)}),
    TABLE_3: (
        [TEC, SIC, BUBBLE, "bubble", "bubble × R&D / capital", *POWERS, *INDUSTRY],
        "period",
        "n_source_rows",
        {TEC: (0.405, 0.145), SIC: (-0.088, 0.016), BUBBLE: (0.152, 0.027)},
    ),
}


def panel() -> pd.DataFrame:
    """Return the regressors beside log Q, by firm and year."""
    data = pd.read_parquet(SHARED / "firm" / "bsv_spillovers.parquet").rename(columns={"year": "period"})
    data = data.set_index(["firm", "period"]).astype({"bubble": float, "rd_zero_lag": float})
    share = data["rd_stock_to_capital_lag"]
    powers = {name: share**k for k, name in enumerate(POWERS, start=1)}
    data = data.rename(columns={"ln_spilltec_lag": TEC, "ln_spillsic_lag": SIC}).assign(**powers)
    times = {BUBBLE: data[SIC], "bubble × R&D / capital": share}
    return data.assign(**{name: data["bubble"] * column for name, column in times.items()})


def rows() -> list[dict[str, str | float]]:
    """Return expected coefficients and standard errors beside ours."""
    data, found = panel(), []
    for name, (columns, cluster, counted, expected) in EQUATIONS.items():
        kept = data.dropna(subset=["ln_q", *columns])
        weight = None if counted is None else kept[counted]
        model = LinearInMeansRegressor(effects=("firm", "period"), cluster=cluster)
        ours = model.fit(kept[columns], kept["ln_q"], sample_weight=weight).results_
        n = len(kept) if weight is None else int(weight.sum())
        for regressor, (b, error) in expected.items():
            found.append(
                {"equation": name, "regressor": regressor, "expected": b, "s.e. expected": error,
                 "ours": ours.params[regressor], "s.e. ours": ours.std_errors[regressor], "n": n}
            )  # fmt: skip
    return found


def main() -> None:
    """Measure and publish."""
    publish("spillovers", "Log Q on spillovers of research", rows(), [
        "Firm and year effects; errors clustered by firm, in Table 3 by year. Controls: powers of R&D stock over capital, no "
        "R&D, the industry's sales and those of the year before; in Table 3 bubbles in the industry, too. Expected: as published "
        "in Table 3 (Haddad, Ho and Loualiche, Bubbles and the value of innovation), else an independent computation on these "
        "data of Bloom, Schankerman and Van Reenen.",
        "Table 3 rests on a file that holds some firm-years two or three times. Here they are once, with their number, by which "
        "they are counted; if such rows differ in what counts as a bubble, the last digit may. Our standard errors of Table 3 "
        "count each firm-year once, and are by the jackknife, larger with few years.",
    ])  # fmt: skip


if __name__ == "__main__":
    main()
