"""The page about a run."""

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sahmc.plots.report import CITE, page, write_report
from sahmc.results.records import Finding
from sahmc.results.result import Result

matplotlib = pytest.importorskip("matplotlib")


matplotlib.use("Agg")


def test_a_page_holds_everything(runs, tmp_path):
    text = page(runs["tempered"])
    for word in ("No findings", "Summary", "Modes", "Plots", "Settings", "How to cite", "x[1]", "random_seed"):
        assert word in text or (word == "No findings" and runs["tempered"].findings)
    assert not re.search(r"(src|href)=['\"](?!data:)", text) and "http" not in text.replace("http-equiv", "")
    bad = page(runs["paper"])
    assert bad.index("class='verdict") < bad.index("<h2>Summary")
    for finding in runs["paper"].findings:
        assert finding.code in bad
    with pytest.raises(ValueError, match="folder must exist"):
        write_report(runs["tempered"], tmp_path / "none" / "page.html")


def test_nothing_in_a_file_reaches_the_page_as_html(runs):
    """A crafted file may hold any text in its findings and settings."""
    bad = "<script>alert(1)</script>"
    record = runs["tempered"].record
    settings = {**record.settings, "versions": {"sahmc": bad}, "kernel": bad, bad: bad}
    crafted = dataclasses.replace(record, findings=(Finding(bad, bad, bad, 0.0, bad),), settings=settings)
    text = page(Result(crafted))
    assert "<script" not in text and "&lt;script&gt;" in text


def test_a_page_is_not_written_over_what_is_there(runs, tmp_path):
    (tmp_path / "run.nc").write_text("a run")
    (tmp_path / "page.html").write_text("a page")
    with pytest.raises(ValueError, match=r"a file like run\.html"):
        write_report(runs["tempered"], tmp_path / "run.nc", overwrite=True)
    with pytest.raises(ValueError, match="which exists"):
        write_report(runs["tempered"], tmp_path / "page.html")
    assert (tmp_path / "run.nc").read_text() == "a run" and (tmp_path / "page.html").read_text() == "a page"


def test_the_page_cites_the_authors_by_their_names():
    """Initials and family names as in CITATION.cff, where the first author is Jonghyun Yun."""
    lines = (Path(__file__).parent.parent.parent / "CITATION.cff").read_text().split("preferred-citation:")[1]
    families = re.findall(r"family-names: (\w+)", lines)
    given = re.findall(r"given-names: (.+)", lines)
    assert (given[0], families[0]) == ("Jonghyun", "Yun") and len(families) == len(given) == 4
    for family, names in zip(families, given, strict=True):
        initials = " ".join(f"{name[0]}." for name in names.split())
        assert f"{initials} {family}" in CITE, (initials, family)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium on this machine")
def test_a_browser_shows_the_page(runs, tmp_path):
    write_report(runs["tempered"], tmp_path / "page.html")
    picture = tmp_path / "page.png"
    subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1200,2600",
            f"--screenshot={picture}",
            f"file://{tmp_path / 'page.html'}",
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    shown = matplotlib.image.imread(picture)
    assert shown.shape[:2] == (2600, 1200) and (shown[..., :3].std(axis=(0, 1)) > 0.05).all()
