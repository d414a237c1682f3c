"""What README and docs say: their code is code, their links lead somewhere, and a package index shows no dead ones."""

import ast
import functools
import importlib.metadata
import re
import tomllib
from pathlib import Path

import jax
import numpy as np
import pytest

import sahmc
from sahmc.cli.main import main
from sahmc.models.convert import as_model

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|#)([^)#\s]+)[^)]*\)")


def blocks(page: Path, kind: str = "python") -> list[str]:
    """Code of the blocks of one kind; lines that are for the notebook alone are left out."""
    found = re.findall(rf"^```{re.escape(kind)}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [re.sub(r"^[%:].*\n", "", code, flags=re.MULTILINE) for code in found]


def dead_links(page: Path) -> list[str]:
    return [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_is_code_and_links_lead_somewhere(page):
    assert dead_links(page) == []
    for code in [*blocks(page), *blocks(page, "{code-cell} ipython3")]:
        ast.parse(code)


def test_a_dead_link_is_caught(tmp_path):
    (tmp_path / "page.md").write_text(
        "[here](page.md#top), [there](there.md), ![](figures/none.png), [web](https://a.b)"
    )
    assert dead_links(tmp_path / "page.md") == ["there.md", "figures/none.png"]


def stale_files(text: str) -> list[str]:
    """Return the files that are named in backticks, with or without a folder, and exist nowhere."""
    named = re.findall(r"`((?:[\w.-]+/)*[\w-]+\.pyi?)`", text)
    kept = {
        path.name: path
        for folder in ("src", "tests", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*.py*")
    }
    folders = (ROOT, ROOT / "src" / "sahmc", ROOT / "src", ROOT / "docs")
    gone = [name for name in named if "/" in name and not any((folder / name).exists() for folder in folders)]
    return [*gone, *(name for name in named if "/" not in name and name not in kept and name not in THEIRS)]


def stale_names(text: str) -> list[str]:
    """Return the public names in backticks, such as ``sahmc.Model``, that do not exist."""
    found = []
    for name in re.findall(r"`sahmc((?:\.[A-Za-z]\w*)+)", text):
        try:
            functools.reduce(getattr, name[1:].split("."), sahmc)
        except AttributeError:
            found.append(name[1:])
    return found


THEIRS = ("model.py", "my_model.py")
"""Files that a reader of the pages writes."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page):
    text = page.read_text()
    assert [name for name in stale_files(text) + stale_names(text) if "NAME" not in name] == []


def test_a_stale_name_is_caught():
    assert stale_files("in `run/nothing.py`, `nothing.py`, `tilt/theta.py` and `theta.py`") == [
        "run/nothing.py",
        "nothing.py",
    ]


def test_front_page_shows_the_example_that_is_run():
    """``examples/three_modes.py``, whose answer is checked with the other examples."""
    example = (ROOT / "examples" / "three_modes.py").read_text()
    assert blocks(ROOT / "README.md")[0] == example.split('"""\n\n', 1)[1]


def test_package_index_has_no_links_into_the_source():
    text = (ROOT / "README.md").read_text()
    assert LINK.search(text)
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]
    for change in hatch["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    assert LINK.search(text) is None and "`docs/getting_started.md`" in text


def test_models_of_getting_started_are_one_model(monkeypatch):
    """In NumPyro, in PyMC and as a log density, at random places; Stan's is given the same data."""
    pytest.importorskip("pymc")
    page, said, data = ROOT / "docs" / "getting_started.md", [], []
    monkeypatch.setattr(sahmc, "sample", lambda model, *args, **kwargs: said.append(model))
    monkeypatch.setattr(sahmc, "from_stan", lambda program, values: data.append(values))
    names: dict = {"sahmc": sahmc}
    for code in [blocks(page, "{code-cell} ipython3")[0], *blocks(page)]:
        exec(code, names)
    places = 4 * jax.random.normal(jax.random.key(0), (10, 2))
    expected = log_densities(as_model(names["model"], (names["distance"],)), [{"place": place} for place in places])
    pymc, _, density = said
    for found in (
        log_densities(as_model(pymc), [{"place": place} for place in places]),
        log_densities(as_model(density), list(places)),
    ):
        assert np.ptp(found - expected) < 1e-4 * np.ptp(expected)
    assert data == [{"station": names["stations"].tolist(), "distance": names["distance"].tolist()}]


def log_densities(model: sahmc.Model, positions: list) -> np.ndarray:
    parts = (model.log_prior, model.log_likelihood) if model.has_prior else (model.log_density,)
    return np.array([sum(float(part(position)) for part in parts) for position in positions])


def test_the_version_is_said_once():
    """All that speaks of a version takes it from one file, or agrees with it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"] and "version" not in project["project"]
    source = ROOT / project["tool"]["hatch"]["version"]["path"]
    version = re.search(r'^__version__ = "(.*)"$', source.read_text(), flags=re.MULTILINE)[1]
    assert sahmc.__version__ == version
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)[1] == version
    released = re.search(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1]
    assert version.partition(".dev")[0] == released
    said = [path for path in (ROOT / "src").rglob("*.py") if f'"{version}"' in path.read_text()]
    assert said == [source]
    installed = importlib.metadata.distribution("sahmc")
    if "editable" not in (installed.read_text("direct_url.json") or ""):  # that of an editable one is as old as it is
        assert installed.version == version


def test_the_command_line_says_the_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out == f"sahmc {sahmc.__version__}\n"
