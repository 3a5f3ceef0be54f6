"""Digests of what a result is made from: a changed constant is noticed, however it reaches a model."""

import importlib
import sys

import pandas as pd
import pytest

from peerattn.panel import as_panel
from peerattn.panel.panel import panel_digest
from peerattn.store.digest import hash_of

HEAD = "import functools\nimport numpy as np\nfrom sklearn.linear_model import Ridge\nfrom other import O\n"
KINDS = {
    "module constant": "S = @@\nclass Mine(Ridge):\n    def predict(self, X): return S",
    "class attribute": "S = @@\nclass Mine(Ridge):\n    shift = S",
    "default argument": "S = @@\nclass Mine(Ridge):\n    def plus(self, s=S): return s",
    "decorator argument": "S = @@\ndef by(s): return lambda f: f\nclass Mine(Ridge):\n    @by(S)\n    def f(self): pass",
    "dict": "S = {'shift': @@}\nclass Mine(Ridge):\n    def predict(self, X): return S['shift']",
    "array": "S = np.array([@@])\nclass Mine(Ridge):\n    def predict(self, X): return S[0]",
    "instance": "class Box:\n    s = @@\nbox = Box()\nclass Mine(Ridge):\n    def predict(self, X): return box.s",
    "partial": "def plus(p, s): return p + s\nadd = functools.partial(plus, s=@@)\nclass Mine(Ridge):\n    pass",
    "cached function": "S = @@\n@functools.lru_cache\ndef s(): return S\nclass Mine(Ridge):\n    def f(self): return s()",
    "environment of a closure": "def make(s):\n    return lambda: s\nf = make(@@)\nclass Mine(Ridge):\n    pass",
}


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return what writes a module of the user, and another that it imports from, and imports both anew."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def written(text, other="0.0"):
        (tmp_path / "other.py").write_text(f"O = {other}\n")
        (tmp_path / "mine.py").write_text(HEAD + text)
        for name in ("mine", "other"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("mine")

    yield written
    for name in ("mine", "other"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_constant_changes_the_digest(module, kind):
    text = KINDS[kind]
    first = hash_of(module(text.replace("@@", "0.0")).Mine())
    assert hash_of(module(text.replace("@@", "0.0")).Mine()) == first
    assert hash_of(module(text.replace("@@", "5.0")).Mine()) != first
    assert hash_of(module(text.replace("@@", "0.0"), other="5.0").Mine()) != first  # imported from elsewhere


def test_models_of_installed_packages_do_not_depend_on_the_users_code(module):
    from sklearn.linear_model import Ridge

    before = hash_of(Ridge())
    module("S = 1")
    assert hash_of(Ridge()) == before != hash_of(Ridge(alpha=2.0))


def test_what_no_file_holds_cannot_be_hashed(monkeypatch):
    notebook = type(sys)("notebook")
    exec("class Mine:\n    pass", vars(notebook))
    monkeypatch.setitem(sys.modules, "notebook", notebook)
    with pytest.raises(TypeError, match="no file holds the code of 'notebook'"):
        hash_of(notebook.Mine())


@pytest.mark.parametrize("kind", ["text", "number"])
def test_the_order_of_a_category_counts(kind):
    sizes = ["small", "medium", "large"] if kind == "text" else [3, 1, 2]
    X = pd.DataFrame({"firm": list("ABC"), "period": 2001, "x": [1.0, 2.0, 3.0], "size": sizes})

    def digest(order, ordered=True):
        dtype = pd.CategoricalDtype(order, ordered=ordered)
        return panel_digest(as_panel(X.astype({"size": dtype}), [1.0, 2.0, 3.0]))

    assert digest(sizes) == digest(sizes) != digest(sizes[::-1])
    assert digest(sizes) != digest(sizes, ordered=False) == digest(sizes[::-1], ordered=False)
