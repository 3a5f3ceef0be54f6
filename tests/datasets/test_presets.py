"""Presets, held to generated files of each source's schema."""

import numpy as np
import pandas as pd
import pytest

from peerattn.datasets.presets import PRESETS, month_ends, read_preset
from peerattn.exceptions import InputError

MONTHS = pd.date_range("2001-01-31", periods=6, freq="ME")


def grid(firm, period, labels, n=4):
    """Firms by months with a return and two characteristics; firm 2 skips the third month."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame([(10_000 + i, t, k) for i in range(n) for k, t in enumerate(labels)], columns=[firm, period, "k"])
    frame = frame[~((frame[firm] == 10_002) & (frame["k"] == 2))].reset_index(drop=True)
    frame["ret"] = rng.normal(0, 0.1, len(frame)).round(4)
    return frame


def after(frame, firm, months=1):
    """The return of a later month by a plain loop."""
    known = {(f, k): r for f, k, r in zip(frame[firm], frame["k"], frame["ret"])}
    return np.array([known.get((f, k + months), np.nan) for f, k in zip(frame[firm], frame["k"])])


def crsp():
    frame = grid("PERMNO", "date", MONTHS.strftime("%Y%m%d").astype(int))
    frame = frame.assign(SICCD=[3711, 0, 9999, 2911][0], PRC=-10.0, SHRCD=11, EXCHCD=1, gvkey="001", bm=1.0)
    return frame.rename(columns={"ret": "RET"})


def test_crsp_codes_filters_and_delisting():
    frame = crsp()
    returns = frame["RET"].copy()
    frame["RET"] = frame["RET"].astype(object)
    frame.loc[1, "RET"], frame.loc[2, "RET"] = "C", "-99.0"
    frame["PRC"] = "-10.0"  # as text, and a letter for a missing return of a delisting
    frame["DLRET"] = pd.Series(np.nan, frame.index, dtype=object)
    frame.loc[5, "DLRET"] = "A"
    frame.loc[3, "DLRET"] = -0.3
    frame.loc[frame["PERMNO"] == 10_003, "SHRCD"] = 73
    frame.loc[frame["PERMNO"] == 10_001, "SICCD"] = 9999
    panel = read_preset(frame, "crsp_compustat")
    cleaned = returns.astype(float).mask(returns.index.isin([1, 2]))
    cleaned[3] = (1 + cleaned[3]) * 0.7 - 1
    plain = frame.assign(ret=cleaned, k=frame["k"])
    kept = frame["PERMNO"] != 10_003
    np.testing.assert_allclose(panel.y.to_numpy(), after(plain, "PERMNO")[kept.to_numpy()])
    assert panel.outcome == "ret_next" and panel.industry == "siccd"
    assert panel.choice.characteristics == ("k", "ret", "prc", "bm") and (panel.X["prc"] == 10).all()
    assert panel.X.loc[10_001, "siccd"].isna().all() and (panel.X.loc[10_000, "siccd"] == "3711").all()
    assert panel.X.index.get_level_values("period")[0] == MONTHS[0]
    assert "shrcd in [10, 11]: 6 rows left out" in panel.description


def test_jensen_kelly_pedersen_takes_its_own_outcome():
    frame = grid("id", "eom", MONTHS.date).assign(
        ret_exc_lead1m=0.01, ret_exc=0.02, ret_local=0.02, obs_main=1, exch_main=1, primary_sec=1, common=1, excntry="USA",
        sic=3711, ff49=23, me=5.0, be_me=0.5, size_grp="large", gvkey="1", permno=1.0, ret_1_0=0.02,
    )  # fmt: skip
    frame.loc[0, "common"] = 0
    panel = read_preset(frame, "jensen_kelly_pedersen")
    assert panel.outcome == "ret_exc_lead1m" and len(panel.X) == len(frame) - 1
    assert panel.choice.characteristics == ("k", "me", "be_me", "ret_1_0") and panel.choice.codes == ("sic",)
    frame.loc[5, "excntry"] = "CAN"
    with pytest.raises(InputError, match="several countries .CAN, USA"):
        read_preset(frame, "jensen_kelly_pedersen")


def test_open_source_asset_pricing_needs_a_return():
    labels = MONTHS.year * 100 + MONTHS.month
    frame = grid("permno", "yyyymm", labels).assign(BM=1.0, Mom12m=0.2)
    panel = read_preset(frame, "open_source_asset_pricing")
    np.testing.assert_allclose(panel.y.to_numpy(), after(frame, "permno"))
    assert panel.choice.characteristics == ("k", "ret", "BM", "Mom12m")
    with pytest.raises(InputError, match="no 'ret', the month's return; merge it"):
        read_preset(frame.drop(columns="ret"), "open_source_asset_pricing")
    own = read_preset(frame.assign(y_next=1.0), "open_source_asset_pricing", outcome="y_next")
    assert own.outcome == "y_next"


@pytest.mark.parametrize("labelled", ["known", "predicted"])
def test_gu_kelly_xiu_timing_is_told_from_the_numbers(labelled):
    frame = grid("permno", "DATE", MONTHS.strftime("%Y%m%d").astype(int)).assign(mvel1=1.0, sic2=37.0)
    lagged = after(frame, "permno", months=-1)
    frame["mom1m"] = frame["ret"] if labelled == "known" else lagged
    panel = read_preset(frame, "gu_kelly_xiu")
    expected = after(frame, "permno") if labelled == "known" else frame["ret"].to_numpy()
    np.testing.assert_allclose(panel.y.to_numpy(), expected)
    assert panel.industry == "sic2" and ("ret" in panel.choice.characteristics) == (labelled == "known")
    frame["mom1m"] = np.random.default_rng(1).normal(size=len(frame))
    with pytest.raises(InputError, match="the timing of the rows is not known"):
        read_preset(frame, "gu_kelly_xiu")


def test_refusals():
    with pytest.raises(InputError, match="no preset is named 'crsp'. .*Known: crsp_compustat"):
        read_preset(crsp(), "crsp")
    with pytest.raises(InputError, match="the file has no 'permno', its firm. Near matches: 'permco'"):
        read_preset(crsp().rename(columns={"PERMNO": "permco"}), "crsp_compustat")
    with pytest.raises(InputError, match="10000 has 2001-01 twice"):
        read_preset(pd.concat([crsp(), crsp().iloc[:1]]), "crsp_compustat")
    with pytest.raises(InputError, match="no row is left"):
        read_preset(crsp().assign(EXCHCD=4), "crsp_compustat")
    with pytest.raises(InputError, match="is not a date"):
        month_ends(pd.Series([20011399]), "date")


def test_every_preset_names_its_source():
    for name, preset in PRESETS.items():
        assert preset.name == name and any(year in preset.source for year in ("2020", "2022", "2023", "Compustat"))
        assert preset.limits and (preset.outcome or preset.returns) and preset.industry
