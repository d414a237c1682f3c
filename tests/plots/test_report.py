"""The page about a run."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sahmc.plots.report import CITE, page, write_report

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
