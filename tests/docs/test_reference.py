"""The reference: each public object has an example, each page leads to the objects that it uses."""

import ast
import importlib
import inspect
import operator
import re
import types
from pathlib import Path

import pytest

import peerattn

ROOT = Path(__file__).resolve().parents[2]
MODULES = ["models", "evaluation", "network", "panel", "datasets", "sequence", "nn", "training", "render"]
PARTS = ("guide", "examples", "core", "background")
PAGES = sorted(page for part in PARTS for page in (ROOT / "docs" / part).glob("*.md"))
#: Pages that introduce no object.
OVERVIEWS = {"index.md", "decisions.md", "glossary.md", "limitations.md"}
#: What a call returns, shown by the example of the call; bases and protocols; what needs files or processes of its own.
SHOWN_ELSEWHERE = {
    *("Identification", "PanelClassifierMixin", "PanelEstimator", "PanelRegressorMixin", "SearchProfile", "TwoStage"),
    *("Audit", "AuditLine", "Calibration", "Claims", "Comparison", "Comparisons", "ConfidenceSet"),
    *("Failure", "FamaMacBethSlope", "Fold", "ForecastTest", "Gain", "Influence", "InformationCoefficient"),
    *("gain_by", "gain_by_firm", "scores_by", "pricing_errors", "prune", "pruning_curve"),
    *("MarginalEffects", "ModelNote", "NetworkBootstrap", "PanelDescription", "QuantilePortfolios"),
    *("Validation", "load_bert", "load_gpt2", "data_parallel"),
}


def public(module: str) -> dict[str, object]:
    """Return the public classes and functions of a module."""
    home = importlib.import_module(f"peerattn.{module}")
    found = {name: getattr(home, name) for name in home.__all__}
    return {
        name: value
        for name, value in found.items()
        if inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, Warning))
    }


@pytest.mark.parametrize("module", MODULES)
def test_every_public_object_has_an_example(module):
    without = [name for name, value in public(module).items() if ">>>" not in (inspect.getdoc(value) or "")]
    assert sorted(set(without) - SHOWN_ELSEWHERE) == []


def test_every_method_of_a_network_has_an_example():
    from peerattn import PeerNetwork

    public_names = [name for name in vars(PeerNetwork) if not name.startswith("_")]
    methods = {name: getattr(PeerNetwork, name) for name in public_names}
    described = {name: inspect.getdoc(method) or "" for name, method in methods.items() if callable(method)}
    assert [name for name, text in described.items() if ">>>" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_leads_to_the_reference(page):
    targets = re.findall(r"\{py:\w+\}`~peerattn\.(\w+)\.([\w.]+)`", page.read_text(encoding="utf-8"))
    assert targets or page.name in OVERVIEWS
    for module, name in targets:
        value = importlib.import_module(f"peerattn.{module}")
        for part in name.split("."):
            value = getattr(value, part)


#: What the reference shows beside the modules.
BESIDE = {"peerattn.load"}


def docstrings() -> dict[str, str]:
    """Return every name that has a place in the reference, and its docstring; of members inherited from elsewhere none."""
    found = {name: getattr(peerattn, name.partition(".")[2]) for name in BESIDE}
    for home in [*MODULES, "exceptions"]:
        module = importlib.import_module(f"peerattn.{home}")
        found |= {module.__name__: module} | {f"{module.__name__}.{name}": getattr(module, name) for name in module.__all__}
    for name, value in list(found.items()):
        if inspect.isclass(value):
            found |= {f"{name}.{part}": getattr(value, part) for part in dir(value) if not part.startswith("_")}
    texts = {}
    for name, value in found.items():
        raw = getattr(value, "fget", value)
        home = getattr(inspect.unwrap(raw) if callable(raw) else raw, "__module__", None) or "peerattn"
        texts[name] = (inspect.getdoc(value) or "") if home.startswith("peerattn") else ""
    return texts


def test_references_of_docstrings_lead_somewhere():
    texts, lost = docstrings(), []
    for name, text in texts.items():
        for target in re.findall(r":(?:func|class|meth|attr|mod|exc):`~?([\w.]+)`", text):
            parts = name.split(".")
            if not texts.keys() & {".".join([*parts[:k], target]) for k in range(len(parts) + 1)}:
                lost.append(f"{name}: {target}")
    assert not lost


def test_bars_stand_in_code_or_formulas():
    """To Sphinx |t| is a substitution, and an undefined one ends the build."""
    code = re.compile(r"``.*?``|:math:`.*?`|\.\. math::.*?(?=\n\S|\Z)|>>>.*?(?=\n\n|\Z)", re.DOTALL)
    found = {name: re.findall(r"(?<!\w)\|\w[^|\n]*\|", code.sub("", text)) for name, text in docstrings().items()}
    assert found and not {name: bars for name, bars in found.items() if bars}


def stated(text: str) -> dict[str, str]:
    """Return the type of each parameter that a docstring describes, as it is written there."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n---|\Z)", text, flags=re.DOTALL | re.MULTILINE)
    lines = re.findall(r"^([\w*, ]+) : (.+)$", section.group(1) if section else "", flags=re.MULTILINE)
    return {name.strip("* "): kind for names, kind in lines for name in names.split(",")}


def test_docstrings_state_the_defaults_of_signatures():
    missing, other = [], []
    for name, text in docstrings().items():
        value = operator.attrgetter(name.partition(".")[2])(peerattn)
        kinds = stated(text)
        for parameter in inspect.signature(value).parameters.values() if kinds and callable(value) else ():
            kind = kinds.get(parameter.name, "ignored")
            if isinstance(parameter.default, type | types.FunctionType) or kind in ("ignored", "None"):  # none, or made anew
                continue
            if not re.search(r"defaults? |optional|or None$", kind):
                missing.append(f"{name}: {parameter.name} = {parameter.default!r}")
            single = re.search(r"default ([-\d.e]+|\(.*\)|\"\w*\"|True|False|None)$", kind)
            if single and ast.literal_eval(single[1]) != parameter.default:
                other.append(f"{name}: {parameter.name} = {parameter.default!r}, {kind}")
    assert not missing and not other
