"""The reference: each public object has an example, each page leads to the objects that it uses."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = ["models", "evaluation", "network", "panel", "datasets", "sequence", "nn", "training", "render"]
PARTS = ("guide", "examples", "core", "background")
PAGES = sorted(page for part in PARTS for page in (ROOT / "docs" / part).glob("*.md"))
#: Pages that introduce no object.
OVERVIEWS = {"index.md", "decisions.md", "glossary.md", "limitations.md"}
#: What a call returns, shown by the example of the call; bases and protocols; what needs files or processes of its own.
SHOWN_ELSEWHERE = {
    *("Identification", "PanelClassifierMixin", "PanelEstimator", "PanelRegressorMixin", "SearchProfile", "TwoStage"),
    *("Audit", "AuditLine", "Calibration", "Claims", "Comparison", "Comparisons", "ConfidenceSet", "DieboldMariano"),
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
