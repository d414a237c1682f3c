"""Who may import whom: rooms, one direction, no circles. Imports inside functions and for types only count too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sahmc

SOURCE = Path(sahmc.__file__).parent

MAY_IMPORT = {
    "_version": "",
    "_support": "",
    "models": "_support",
    "tilt": "models _support",
    "results.records": "tilt models _support",
    "progress": "_support",
    "symmetry": "models _support",
    "hamiltonian": "tilt _support",
    "modes": "symmetry results.records tilt models _support",
    "barrier": "tilt models _support",
    "results": "symmetry results.records tilt models _support",
    "kernels": "modes symmetry hamiltonian tilt _support",
    "checkpoint": "results.records tilt _support",
    "algorithm": "kernels tilt _support",
    "testing": "kernels hamiltonian tilt models _support",
    "engine": "algorithm checkpoint progress kernels modes symmetry results.records tilt models _support _version",
    "warmup": "engine kernels modes symmetry hamiltonian results.records tilt models _support",
    "sampling": "warmup engine checkpoint progress kernels results symmetry results.records tilt models _support "
    "_version",
    "plots": "results barrier results.records models _support",
    "comparison": "plots results _support",
    "interop": "sampling engine algorithm kernels hamiltonian tilt models _support",
    "numpyro": "interop models _support",
    "paper": "sampling engine algorithm kernels hamiltonian results tilt models testing _support _version",
    "cli": "comparison paper plots sampling engine results kernels tilt models testing _support _version",
    "__main__": "cli",
    "__init__": "numpyro testing comparison interop sampling engine algorithm progress barrier symmetry plots results "
    "results.records kernels hamiltonian tilt models _support _version",
}
"""The rooms, from the cellar up, and what each may import besides its own files."""
RECORDS = ("sahmc.results.records", "sahmc.results.warmup_record")
"""Plain data of a run: the one part of the results that may be known to those who make them."""


def modules(source: Path) -> dict[str, Path]:
    """Every module by its dotted name; a package by the name of its folder."""
    found = {}
    for path in sorted([*source.rglob("*.py"), *source.glob("*.pyi")]):
        parts = [source.name, *path.relative_to(source).with_suffix("").parts]
        if parts[-1] == "__init__" and (len(parts) > 2 or path.suffix == ".pyi"):
            parts.pop()
        if parts == [source.name, "__init__"]:
            continue  # the names are in the stub beside it
        found[".".join(parts)] = path
    return found


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Modules of this library that a file imports, wherever in the file, by a statement or by a name in a string."""
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package[: len(package) - node.level + 1], node.module or ""]).rstrip(".")
            origin = base if node.level else node.module or ""
            for alias in node.names:
                whole = f"{origin}.{alias.name}"
                yield from (one for one in ([whole] if whole in known else [origin]) if one in known)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = re.fullmatch(r"(sahmc(?:\.\w+)+):\w+", node.value)
            if match:
                yield match[1]


def arrows(source: Path) -> set[tuple[str, str]]:
    known = modules(source)
    return {(name, other) for name, path in known.items() for other in imports(name, path, known) if other != name}


def room(module: str) -> str:
    if module in RECORDS:
        return "results.records"
    return module.split(".")[1] if "." in module else "__init__"


def forbidden(found: set[tuple[str, str]]) -> list[str]:
    """Arrows that run against the direction."""
    return sorted(
        f"{one} -> {two}"
        for one, two in found
        if room(one) != room(two) and room(two) not in MAY_IMPORT[room(one)].split()
    )


def circles(found: set[tuple[str, str]]) -> list[list[str]]:
    """Groups of files that import each other, in a circle however long."""
    reach = {one: {two for a, two in found if a == one} for one in {a for a, _ in found} | {b for _, b in found}}
    changed = True
    while changed:
        changed = False
        for one, seen in reach.items():
            more = set().union(*(reach[two] for two in seen)) - seen if seen else set()
            if more:
                reach[one], changed = seen | more, True
    return sorted(
        {tuple(sorted(two for two in seen if one in reach[two])) for one, seen in reach.items() if one in seen}
    )


def test_rooms_import_downwards_only():
    assert forbidden(arrows(SOURCE)) == []


def test_there_are_no_circles():
    assert circles(arrows(SOURCE)) == []


def test_no_more_is_allowed_than_is_used():
    used = {(room(one), room(two)) for one, two in arrows(SOURCE)}
    assert [
        (one, two) for one, allowed in MAY_IMPORT.items() for two in allowed.split() if (one, two) not in used
    ] == []


def test_every_file_lives_in_a_room():
    assert {room(name) for name in modules(SOURCE)} == set(MAY_IMPORT)


@pytest.mark.parametrize(
    ("file", "line", "caught"),
    [
        ("results/summary.py", "from sahmc.engine.loop import Draw", "sahmc.results.summary -> sahmc.engine.loop"),
        ("tilt/theta.py", "def f():\n    from sahmc.kernels.hmc import HMC", "sahmc.tilt.theta -> sahmc.kernels.hmc"),
        ("checkpoint/journal.py", "import sahmc.sampling", "sahmc.checkpoint.journal -> sahmc.sampling"),
        (
            "kernels/base.py",
            "if False:\n    from sahmc.results import result",
            "sahmc.kernels.base -> sahmc.results.result",
        ),
        ("models/energy.py", 'HOME = "sahmc.tilt.tilts:NoTilt"', "sahmc.models.energy -> sahmc.tilt.tilts"),
    ],
)
def test_a_planted_import_is_caught(file, line, caught, tmp_path):
    copy = planted(tmp_path, file, line)
    assert forbidden(arrows(copy)) == [caught]


def test_a_planted_circle_is_caught(tmp_path):
    copy = planted(
        tmp_path, "tilt/gain.py", "from sahmc.tilt.theta import pool\nfrom sahmc.tilt.target import ChainState"
    )
    assert circles(arrows(copy)) == []
    copy = planted(tmp_path, "tilt/tilts.py", "def f():\n    from sahmc.tilt.target import ChainState")
    assert circles(arrows(copy)) == [("sahmc.tilt.target", "sahmc.tilt.tilts")]


def planted(folder: Path, file: str, line: str) -> Path:
    """A copy of the source with a line added to one of its files."""
    copy = folder / "sahmc"
    for name, path in modules(SOURCE).items():
        target = copy / path.relative_to(SOURCE)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.write_text(path.read_text())
        assert name
    target = copy / file
    target.write_text(target.read_text() + f"\n\n{line}\n")
    return copy
