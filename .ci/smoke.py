"""Try the installed package, without the repository: python .ci/smoke.py, from any folder. Prints one line when all is well."""

import importlib.metadata
import subprocess
import sys
import tempfile
from pathlib import Path

import peerattn

# numpy, pandas and the rest come after this line, so that the light import is seen
heavy = {"torch", "pandas", "sklearn"} & set(sys.modules)
assert not heavy, f"import peerattn loads {heavy}"
assert peerattn.__version__ == importlib.metadata.version("peerattn")
assert (Path(peerattn.__file__).parent / "py.typed").is_file()


def smoke(folder: Path) -> None:
    """Fit, predict, look, save, compare, and the command line."""
    from peerattn import (
        IndustryPeerRegressor,
        NadarayaWatsonRegressor,
        PeerAttentionRegressor,
        WalkForward,
        compare,
        load_grunfeld,
        simulate_panel,
    )
    from peerattn.network import PeerNetwork, heat_map

    panel = simulate_panel(20, 18, 3, n_industries=3, sharpness=2.0, random_state=0)
    X, y = panel.X, panel.y
    model = PeerAttentionRegressor(n_heads=1, d_head=2, random_state=0).fit(X, y)
    model.save(folder / "model.safetensors")
    loaded = PeerAttentionRegressor.load(folder / "model.safetensors")
    assert (loaded.predict(X) == model.predict(X)).all()
    network = model.peer_network(X)
    network.to_parquet(folder / "network.parquet")
    assert PeerNetwork.from_parquet(folder / "network.parquet").firms.equals(network.firms)
    heat_map(network, "2001-06").figure.savefig(folder / "network.pdf")
    network.to_explorer(folder / "network.html")

    models = {"Industry": IndustryPeerRegressor(industry="industry"), "Kernel": NadarayaWatsonRegressor()}
    result = compare(models, X, y, cv=WalkForward(6, 6), verbose=False)
    result.to_html(folder / "report.html")
    assert (
        result.names[:2] == ["Industry", "Kernel"]
        and "Kernel" in str(result)
        and len(load_grunfeld().X) == 220
    )

    command = [
        sys.executable,
        "-m",
        "peerattn",
        "compare",
        "--dataset",
        "grunfeld",
        "--models",
        "mean,kernel",
    ]
    made = subprocess.run(
        [*command, "--test-periods", "4", "--out", str(folder / "report")], capture_output=True, text=True
    )
    assert made.returncode == 0 and (folder / "report" / "report.html").is_file(), made.stderr


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("Agg")
    with tempfile.TemporaryDirectory() as name:
        smoke(Path(name))
    versions = {
        name: importlib.metadata.version(name) for name in ("numpy", "pandas", "scikit-learn", "torch")
    }
    print(f"peerattn {peerattn.__version__} works, from {Path(peerattn.__file__).parent}, with {versions}")
