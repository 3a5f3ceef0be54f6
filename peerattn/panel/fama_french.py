"""Fama–French industries from SIC codes: 12, 48 and 49 groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, checked
from peerattn.panel.codes import canonical_codes

#: SIC codes of each industry, in order of its number; the last, "Other", takes every code that no other one names.
#: Source: Kenneth R. French, Data Library, industry definitions ("Siccodes12", "Siccodes48", "Siccodes49"),
#: https://mba.tuck.dartmouth.edu/pages/faculty/ken.french/data_library.html; neighbouring ranges are joined.
FF12 = {
    "NoDur": "100-999 2000-2399 2700-2749 2770-2799 3100-3199 3940-3989",
    "Durbl": "2500-2519 2590-2599 3630-3659 3710-3711 3714 3716 3750-3751 3792 3900-3939 3990-3999",
    "Manuf": (
        "2520-2589 2600-2699 2750-2769 3000-3099 3200-3569 3580-3629 3700-3709 3712-3713 3715 "
        "3717-3749 3752-3791 3793-3799 3830-3839 3860-3899"
    ),
    "Enrgy": "1200-1399 2900-2999",
    "Chems": "2800-2829 2840-2899",
    "BusEq": "3570-3579 3660-3692 3694-3699 3810-3829 7370-7379",
    "Telcm": "4800-4899",
    "Utils": "4900-4949",
    "Shops": "5000-5999 7200-7299 7600-7699",
    "Hlth": "2830-2839 3693 3840-3859 8000-8099",
    "Money": "6000-6999",
    "Other": "",
}
FF48 = {
    "Agric": "100-299 700-799 910-919 2048",
    "Food": "2000-2046 2050-2063 2070-2079 2090-2092 2095 2098-2099",
    "Soda": "2064-2068 2086-2087 2096-2097",
    "Beer": "2080 2082-2085",
    "Smoke": "2100-2199",
    "Toys": "920-999 3650-3652 3732 3930-3931 3940-3949",
    "Fun": "7800-7833 7840-7841 7900 7910-7911 7920-7933 7940-7949 7980 7990-7999",
    "Books": "2700-2749 2770-2771 2780-2799",
    "Hshld": (
        "2047 2391-2392 2510-2519 2590-2599 2840-2844 3160-3161 3170-3172 3190-3199 3229-3231 3260 "
        "3262-3263 3269 3630-3639 3750-3751 3800 3860-3861 3870-3873 3910-3911 3914-3915 3960-3962 "
        "3991 3995"
    ),
    "Clths": "2300-2390 3020-3021 3100-3111 3130-3131 3140-3151 3963-3965",
    "Hlth": "8000-8099",
    "MedEq": "3693 3840-3851",
    "Drugs": "2830-2831 2833-2836",
    "Chems": "2800-2829 2850-2879 2890-2899",
    "Rubbr": "3031 3041 3050-3053 3060-3099",
    "Txtls": "2200-2284 2290-2295 2297-2299 2393-2395 2397-2399",
    "BldMt": (
        "800-899 2400-2439 2450-2459 2490-2499 2660-2661 2950-2952 3200 3210-3211 3240-3241 3250-3259 "
        "3261 3264 3270-3275 3280-3281 3290-3293 3295-3299 3420-3433 3440-3442 3446 3448-3452 "
        "3490-3499 3996"
    ),
    "Cnstr": "1500-1511 1520-1549 1600-1799",
    "Steel": "3300 3310-3317 3320-3325 3330-3341 3350-3357 3360-3379 3390-3399",
    "FabPr": "3400 3443-3444 3460-3479",
    "Mach": "3510-3536 3538 3540-3569 3580-3582 3585-3586 3589-3599",
    "ElcEq": "3600 3610-3613 3620-3621 3623-3629 3640-3646 3648-3649 3660 3690-3692 3699",
    "Autos": "2296 2396 3010-3011 3537 3647 3694 3700 3710-3711 3713-3716 3790-3792 3799",
    "Aero": "3720-3721 3723-3725 3728-3729",
    "Ships": "3730-3731 3740-3743",
    "Guns": "3480-3489 3760-3769 3795",
    "Gold": "1040-1049",
    "Mines": "1000-1039 1050-1119 1400-1499",
    "Coal": "1200-1299",
    "Oil": "1300 1310-1339 1370-1382 1389 2900-2912 2990-2999",
    "Util": "4900 4910-4911 4920-4925 4930-4932 4939-4942",
    "Telcm": "4800 4810-4813 4820-4822 4830-4841 4880-4892 4899",
    "PerSv": (
        "7020-7021 7030-7033 7200 7210-7212 7214-7217 7219-7221 7230-7231 7240-7241 7250-7251 "
        "7260-7299 7395 7500 7510-7515 7520-7549 7600 7620 7622-7623 7629-7631 7640-7641 7690-7699 "
        "8100-8499 8600-8699 8800-8899"
    ),
    "BusSv": (
        "2750-2759 3993 4220-4229 7218 7300 7310-7342 7349-7353 7359-7372 7374-7385 7389-7394 "
        "7396-7397 7399 7519 8700 8710-8713 8720-8721 8730-8734 8740-8748 8900-8911 8920-8999"
    ),
    "Comps": "3570-3579 3680-3689 3695 7373",
    "Chips": "3622 3661-3666 3669-3679 3810 3812",
    "LabEq": "3811 3820-3827 3829-3839",
    "Paper": "2520-2549 2600-2639 2670-2699 2760-2761 3950-3955",
    "Boxes": "2440-2449 2640-2659 3220-3221 3410-3412",
    "Trans": (
        "4000-4013 4040-4049 4100 4110-4121 4130-4131 4140-4142 4150-4151 4170-4173 4190-4200 "
        "4210-4219 4230-4231 4240-4249 4400-4700 4710-4712 4720-4749 4780 4782-4785 4789"
    ),
    "Whlsl": (
        "5000 5010-5015 5020-5023 5030-5060 5063-5065 5070-5078 5080-5088 5090-5094 5099-5100 "
        "5110-5113 5120-5122 5130-5172 5180-5182 5190-5199"
    ),
    "Rtail": (
        "5200 5210-5231 5250-5251 5260-5261 5270-5271 5300 5310-5311 5320 5330-5331 5334 5340-5349 "
        "5390-5400 5410-5412 5420-5469 5490-5500 5510-5579 5590-5700 5710-5722 5730-5736 5750-5799 "
        "5900 5910-5912 5920-5932 5940-5990 5992-5995 5999"
    ),
    "Meals": "5800-5829 5890-5899 7000 7010-7019 7040-7049 7213",
    "Banks": "6000 6010-6036 6040-6062 6080-6082 6090-6100 6110-6113 6120-6179 6190-6199",
    "Insur": "6300 6310-6331 6350-6351 6360-6361 6370-6379 6390-6411",
    "RlEst": "6500 6510 6512-6515 6517-6532 6540-6541 6550-6553 6590-6599 6610-6611",
    "Fin": "6200-6299 6700 6710-6726 6730-6733 6740-6779 6790-6795 6798-6799",
    "Other": "",
}
#: The 48 with computers split into hardware and software; software takes prepackaged programs from business services.
_REDEFINED = {
    "BusSv": (
        "2750-2759 3993 4220-4229 7218 7300 7310-7342 7349-7353 7359-7369 7374 7376-7385 7389-7394 "
        "7396-7397 7399 7519 8700 8710-8713 8720-8721 8730-8734 8740-8748 8900-8911 8920-8999"
    ),
    "Hardw": "3570-3579 3680-3689 3695",
    "Softw": "7370-7373 7375",
}
FF49 = {
    name: _REDEFINED.get(name, FF48.get(name, ""))
    for old in FF48
    for name in (("Hardw", "Softw") if old == "Comps" else (old,))
}
FAMA_FRENCH = {12: FF12, 48: FF48, 49: FF49}


def _codes_to_numbers(industries: int) -> np.ndarray:
    """Return the industry's number, from 0, of every SIC code from 0 to 9999."""
    table = FAMA_FRENCH[industries]
    numbers = np.full(10_000, len(table) - 1)
    for number, ranges in enumerate(table.values()):
        for both in ranges.split():
            first, _, last = both.partition("-")
            numbers[int(first) : int(last or first) + 1] = number
    return numbers


@checked
def sic_to_fama_french(sic: Any, industries: int = 49) -> Any:
    """Return the Fama–French industry of SIC codes.

    Parameters
    ----------
    sic : Series, sequence, or one code
        SIC codes as numbers or text; 0, 9999 and NaN mean unknown.
    industries : {12, 48, 49}, default 49
        Which set.

    Returns
    -------
    Series of str on the index of ``sic`` (one str or None for one code)
        Short names such as "BusEq"; NA = unknown. A code that no industry names is "Other".

    Raises
    ------
    InputError
        For another set, or values that are not SIC codes.

    Notes
    -----
    Kenneth French leaves codes outside his lists without an industry, and assigns codes by CRSP's historical SIC and
    Compustat's; here such codes are "Other", and the code given is used.

    References
    ----------
    Fama, E. F. and French, K. R. (1997), Industry costs of equity, Journal of Financial Economics 43(2); definitions of
    Kenneth R. French's Data Library.

    Examples
    --------
    >>> sic_to_fama_french(3711, 49), sic_to_fama_french("7372", 12)
    ('Autos', 'BusEq')
    >>> sic_to_fama_french(pd.Series([100, 7372, None], index=["A", "B", "C"]), 49).tolist()
    ['Agric', 'Softw', nan]
    """
    if industries not in FAMA_FRENCH:
        raise InputError(f"industries must be one of {list(FAMA_FRENCH)}, got {industries!r}.")
    single = np.ndim(sic) == 0
    column = sic if isinstance(sic, pd.Series) else pd.Series([sic] if single else list(sic))
    codes = canonical_codes(column.rename("sic"))
    known = codes.notna()
    broken = codes[known & ~codes.str.fullmatch(r"\d{4}").fillna(False).astype(bool)]
    if len(broken):
        raise InputError(f"sic: {broken.iloc[0]!r} is not a SIC code: up to four digits are expected.")
    names = np.array(list(FAMA_FRENCH[industries]), dtype=object)
    found = pd.Series(None, index=column.index, name=column.name, dtype="str")
    found[known] = names[_codes_to_numbers(industries)[codes[known].astype(int)]]
    return found if not single else (str(found.iloc[0]) if known.iloc[0] else None)
