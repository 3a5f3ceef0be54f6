"""With the core requirements alone the package works, and what needs more names the extra that brings it."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXTRAS = "typer rich jinja2 tomli_w linearmodels pyhdfe openpyxl libpysal polars distributed dask arch spreg".split()
BLOCKED = f"""
import sys


class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Absent)
"""
WORK = """
import peerattn
from peerattn.models.learners import nonlinear
from peerattn.models.learners.heads import learner, training
# what is found is beside the point
learner.DEFAULT = training.TrainingOptions(n_seeds=2, window=1.0, max_steps=3, max_draws=1)
nonlinear.TREES = nonlinear.FOREST = 3
from peerattn.evaluation import WalkForward
from peerattn.network import SameCode, dyadic_regression, heat_map
panel = peerattn.simulate_panel(12, 14, 2, n_industries=2, random_state=0)
models = {
    "Industry": peerattn.IndustryPeerRegressor(industry="industry"),
    "Kernel": peerattn.NadarayaWatsonRegressor(bandwidth=1.0),
}
result = peerattn.compare(models, panel.X, panel.y, cv=WalkForward(2, 2), decomposition=False, verbose=True)
assert "Kernel" in str(result)
attention = peerattn.PeerAttentionRegressor(n_heads=1, d_head=2, random_state=0)
network = attention.fit(panel.X, panel.y).peer_network(panel.X)
network.mean().to_parquet(out + "/n.parquet")
network.to_graphml(out + "/n.graphml", network.periods[0])
heat_map(network.mean()).figure.savefig(out + "/n.pdf")
dyadic_regression(network, {"same": SameCode(panel.X["industry"])}).to_latex(out + "/t.tex")
"""
NEEDS = {
    "excel": "from peerattn.render import write_workbook; import pandas; write_workbook('a.xlsx', {'a': pandas.DataFrame()})",
    "html": "from peerattn.render import page; page('a', [])",
    "spatial": "from peerattn.network import PeerNetwork as N; "
    "N.from_matrices({None: ('AB', None, [[0, 1], [1, 0]])}).to_libpysal()",
    "regressions": "from peerattn.panel.effects import net_of; import pandas, numpy; "
    "net_of(pandas.DataFrame({'a': [0, 1]}), numpy.eye(2))",
    "cli": "import peerattn.cli",
}


# each is tried in the same process, and what it ends in is printed
TRY_EACH = """
import json
found = {}
for name, script in needs.items():
    try:
        exec(script, {})
    except Exception as error:
        found[name] = [type(error).__name__, str(error)]
print(json.dumps(found))
"""


def run(script: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", BLOCKED + script], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    """The folder that one process has written to."""
    return tmp_path_factory.mktemp("core")


@pytest.fixture(scope="module")
def tried(out) -> dict[str, list[str]]:
    """The kind and the message of the error in which each of ``NEEDS`` ends, after the work that the core does alone."""
    done = run(f"import matplotlib; matplotlib.use('Agg'); out = {str(out)!r}\n{WORK}\nneeds = {NEEDS!r}\n{TRY_EACH}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_core_is_enough(tried, out):
    assert {path.name for path in out.iterdir()} == {"n.parquet", "n.graphml", "n.pdf", "t.tex"}


@pytest.mark.parametrize("name", NEEDS)
def test_what_needs_more_names_its_extra(name, tried):
    kind, message = tried[name]
    assert kind == "MissingExtraError" and f"pip install 'peerattn[{name}]'" in message
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert name in project["optional-dependencies"]


def test_the_core_is_short():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {requirement.partition(">")[0] for requirement in project["dependencies"]}
    assert names == set(
        "numpy pandas scipy scikit-learn statsmodels torch pyarrow joblib safetensors matplotlib networkx beartype".split()
    )
