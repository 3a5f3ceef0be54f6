"""What the pages say is so: their code runs and prints what they show, their commands run, their links lead somewhere."""

import re
import shlex
from contextlib import nullcontext
from pathlib import Path

import pytest
import typer
from joblib import parallel_config
from matplotlib.image import imread

import peerattn
import peerattn.cli  # noqa: F401 - adds the commands
from peerattn.cli.app import app, run
from peerattn.evaluation.inference import network_bootstrap
from peerattn.models.learners import nonlinear as shape

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "data").glob("*.md")])
NO_CODE = {  # pages without Python
    *("command-line.md", "index.md", "panel-files.md", "leaks.md", "glossary.md", "weights.md", "limitations.md"),
    *("lead-lag.md", "real-sentences.md", "replication.md", "decisions.md"),
}
WITH_CODE = sorted(
    [
        ROOT / "README.md",
        ROOT / "docs" / "tutorial.md",
        *(
            page
            for part in ("guide", "examples", "core", "background")
            for page in (ROOT / "docs" / part).glob("*.md")
            if page.name not in NO_CODE
        ),
    ]
)
#: Heads are trained further here: two pages print what is found.
FULL = {name: {"n_seeds": n, "max_steps": 300, "max_draws": 1} for name, n in (("README.md", 6), ("tutorial.md", 12))}
#: Trees of controls: all of them where the page's figures depend on their number.
TREES = {"README.md": (150, 100), "tutorial.md": (15, 15), "valuation.md": (150, 100)}
#: Heads are kept as trained where they are pruned or refitted; whether refits have settled has tests of its own.
KEPT = {"networks.md", "transformer.md"}
#: Folders that the site's build writes, and those of the scripts that it runs.
MADE_FROM = {"learn": "course", "learn_core": "core_course", "gallery": "figures"}
WRITES_REPORT = [ROOT / "README.md", ROOT / "docs" / "guide" / "compare.md"]


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Return (line, text) of each fenced block of a language."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in found]


def shown_output(page: Path) -> list[str | None]:
    """Return, for each Python block, the text block right below it: what it prints."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n.*?^```\n(?:\n```text\n(.*?)^```)?", text, flags=re.DOTALL | re.MULTILINE)
    return [match.group(1) for match in found]


def with_marks(page: Path) -> object:
    """Return the page as a parameter, marked where it needs a full search."""
    marks = [pytest.mark.full_search(**FULL[page.name])] if page.name in FULL else []
    if page.name == "fixed-effects.md":  # where some firms are alone in their industry
        marks.append(pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning"))
    return pytest.param(page, id=page.name, marks=marks)


@pytest.mark.parametrize("page", [with_marks(page) for page in WITH_CODE])
def test_code_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch, capsys, fewest, in_full):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    names: dict[str, object] = {"__name__": "page"}
    found = blocks(page, "python")
    assert found
    with (
        nullcontext() if page.name in FULL else fewest(),
        in_full() if page.name in KEPT else nullcontext(),
        parallel_config(backend="sequential"),  # other processes would import the package again and train all steps
    ):
        for trees, n in zip(("TREES", "FOREST"), TREES.get(page.name, ()), strict=False):
            monkeypatch.setattr(shape, trees, n)
        if page.name in KEPT:
            monkeypatch.setattr(network_bootstrap, "SETTLED", 100.0)
        for (line, text), shown in zip(found, shown_output(page), strict=True):
            capsys.readouterr()
            exec(compile("\n" * line + text, str(page), "exec"), names)
            printed = capsys.readouterr().out
            assert shown is None or shown.split() == printed.split(), printed
    assert page not in WRITES_REPORT or (tmp_path / "report.html").is_file()
    if page.name == "README.md":
        drawn, shown = (imread(where / "peers.png") for where in (tmp_path, ROOT / "docs" / "_static"))
        assert drawn.shape == shown.shape and abs(drawn - shown).mean() < 0.02  # the figure is that of these lines


def test_code_is_only_where_it_is_run():
    assert [page for page in PAGES if blocks(page, "python")] == WITH_CODE


def commands() -> list[str]:
    found = [text for page in PAGES for _, text in blocks(page, "console")]
    return [
        line.removeprefix("$ ").removeprefix("torchrun --nproc-per-node=2 -m ").partition(" #")[0].strip()
        for text in found
        for line in text.splitlines()
        if line
    ]


def test_the_commands_of_the_command_line_page_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    [(_, text)] = blocks(ROOT / "docs" / "guide" / "command-line.md", "console")
    for line in text.splitlines():
        assert run(shlex.split(line.removeprefix("$ peerattn "))) == 0, line
        printed = capsys.readouterr().out
    assert "No claim was refuted" in printed
    assert {"network.html", "predictions.csv", "report", "again", "true.parquet"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("command", [line for line in commands() if line.startswith("peerattn ")])
def test_peerattn_commands_parse(command):
    """The command and its options exist; what they name is the user's, so the work itself is left out."""
    name, *arguments = shlex.split(command)[1:]
    group = typer.main.get_command(app)
    try:
        group.commands[name].make_context(name, arguments)
    except typer.Exit as left:  # --help
        assert left.exit_code == 0


def test_other_commands_are_known():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for line in commands():
        program, argument, *_ = [*shlex.split(line), ""]
        if program == "make":
            assert argument in targets
        elif program == "python":
            assert (ROOT / argument).is_file(), line
        else:
            assert program == "peerattn", line


def source_of(target: Path) -> Path:
    """Return what a page of the site is made from, where the build makes it: a script of a gallery."""
    path = target.resolve()
    folder = MADE_FROM.get(path.parent.name)
    if folder is None or path.exists():
        return path
    name = "GALLERY_HEADER.rst" if path.stem == "index" else f"{path.stem}.py"
    return ROOT / "docs" / folder / name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert target.startswith("https://") or source_of(page.parent / target).exists(), target
