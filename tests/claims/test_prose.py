"""How source and pages speak: a function's docstring begins with a verb, and sentences of pages are short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import sahmc

SOURCE = Path(sahmc.__file__).parent
ROOMS = sorted({path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py")})
WORDS = """
Accept Add Advance Apply Ask Assign Average Begin Build Call Carry Check Choose Climb Close Collect Combine Compare
Complete Compute Convert Cool Copy Count Cut Decide Declare Describe Divide Draw End Estimate Evaluate Examine Extend
Fetch Fill Find Fit Flatten Follow Format Forget Freeze Give Go Group Grow Heat Hold Iterate Join Jump Keep Kick Label
Learn Let Line List Load Look Lose Make Map Mark Measure Merge Move Name Normalise Note Open Parse Pick Pickle Plan
Plot Pool Prepare Print Put Raise Read Record Reduce Register Relax Remember Remove Render Repeat Replace Report
Resample Restore Resume Return Roll Run Sample Save Say Scale Score Search See Set Shift Show Simulate Solve Sort
Spend Split Start Stay Stop Store Summarise Take Tell Test Trace Try Tune Turn Undo Update Use Validate Visit Wait
Warm Weigh Wrap Write Yield
"""
VERBS = set(WORDS.split())
"""Verbs with which docstrings of functions begin; add one that is missing."""
FRAGMENTS = ("Of ", "Whose ", "Which ", "And ", "With ", "Without ", "For ")
"""Beginnings of what is no whole sentence."""


ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("**/*.md"))]
WRITTEN = [page for page in PAGES if "results" not in page.parts and not page.stem.endswith(("_table", "_bars"))]
WRITTEN = [page for page in WRITTEN if page.stem not in ("contributing", "changes")]
"""The pages that people wrote; commands made the others, or they only include another."""
MOST_WORDS, MOST_ON_AVERAGE = 35, 15.0
"""The most words of a sentence, and of one on average, on a page."""


class Said:
    """A docstring, and what it is of."""

    def __init__(self, where: str, kind: str, text: str):
        self.where, self.kind, self.text = where, kind, text

    @property
    def first(self) -> str:
        return self.text.split()[0].rstrip(",.:;")


def docstrings(path: Path) -> Iterator[Said]:
    """Docstrings of the functions, properties, classes and constants of a file."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        where = f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 1)}"
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            text = ast.get_docstring(node)
            if text:
                yield Said(f"{where} {node.name}", _kind(node), text)
        body = node.body if isinstance(node, (ast.Module, ast.ClassDef)) else []
        for one, two in pairwise(body):
            value = getattr(two, "value", None) if isinstance(one, (ast.Assign, ast.AnnAssign)) else None
            if isinstance(two, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield Said(f"{path.relative_to(SOURCE)}:{two.lineno}", "constant", value.value.strip())


def _kind(node: ast.FunctionDef | ast.ClassDef) -> str:
    if isinstance(node, ast.ClassDef):
        return "class"
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    return "property" if "property" in decorators else "function"


def faults(path: Path) -> list[str]:
    found = []
    for said in docstrings(path):
        verb = said.first in VERBS
        if said.kind == "function" and not verb:
            found.append(f"{said.where}: begin with a verb: {said.text.splitlines()[0]}")
        if said.kind != "function" and (said.text.startswith(FRAGMENTS) or (verb and said.kind != "class")):
            found.append(f"{said.where}: begin with a noun: {said.text.splitlines()[0]}")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_are_sentences(room):
    files = sorted((SOURCE / room).rglob("*.py")) if (SOURCE / room).is_dir() else [SOURCE / room]
    assert [fault for path in files for fault in faults(path)] == []


def test_a_fragment_is_caught(monkeypatch, tmp_path):
    monkeypatch.setattr(f"{__name__}.SOURCE", tmp_path)
    (tmp_path / "a.py").write_text(
        'SIZE = 3\n"""Of which two are seen."""\n\n\ndef f():\n    """The modes."""\n\n\n'
        'def g():\n    """Return it."""\n'
    )
    caught = [fault.split(": ")[1] for fault in faults(tmp_path / "a.py")]
    assert sorted(caught) == ["begin with a noun", "begin with a verb"]


def sentences(text: str) -> list[int]:
    """The number of words of each sentence of a page: no code, tables, headings or addresses of links."""
    text = re.sub(r"^\s*(```|:::|---\n|\$\$).*?(```|:::|---|\$\$)\s*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^\s*([|#<]|!\[).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]+`|\$[^$]+\$", "code", re.sub(r"\]\([^)]*\)", "]", text))
    paragraphs = re.split(r"\n\s*(?:\n|[-*+] |\d+\. )", text)
    parts = [part for paragraph in paragraphs for part in re.split(r"(?<=[.!?])[)*\"]*\s+", paragraph)]
    return [len(words) for part in parts if (words := re.findall(r"[A-Za-z][\w'-]*", part))]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_of_pages_are_short(page):
    lengths = sentences(page.read_text())
    assert max(lengths) <= MOST_WORDS and sum(lengths) / len(lengths) <= MOST_ON_AVERAGE


@pytest.mark.parametrize("room", ROOMS)
def test_sentences_of_docstrings_are_short(room):
    files = sorted((SOURCE / room).rglob("*.py")) if (SOURCE / room).is_dir() else [SOURCE / room]
    said = [(said.where, said.text) for path in files for said in docstrings(path)]
    said += [(str(path.relative_to(SOURCE)), ast.get_docstring(ast.parse(path.read_text())) or "") for path in files]
    assert [where for where, text in said if max(sentences(text), default=0) > MOST_WORDS] == []


def test_a_long_sentence_is_caught():
    assert max(sentences("A short one.\n\n- " + "word " * 36 + "\n\n```sh\n" + "code " * 50 + "\n```\n")) == 36
