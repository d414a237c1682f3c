"""Plots: the arrays behind them, that they draw, and the page that holds them."""

import dataclasses
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.plots import data as plot_data
from sahmc.plots.report import CITE, page, write_report

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
PLOTS = (
    sahmc.plot_energy,
    sahmc.plot_visits,
    sahmc.plot_theta,
    sahmc.plot_round_trips,
    sahmc.plot_pair,
    sahmc.plot_marginal,
)


@pytest.fixture(scope="module")
def runs(set2):
    options = {"draws": 300, "tune": 400, "chains": 8, "random_seed": 0, "progressbar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "tempered": sahmc.sample(set2.log_density, jnp.zeros(2), **options),
            "none": sahmc.sample(set2.log_density, jnp.zeros(2), tilt="none", **options),
            "paper": sahmc.sample(
                set2.log_density, jnp.zeros(2), tilt="step", theta="per-chain", adapt="always", **options
            ),
        }


def test_modes_are_ranked_by_mass(runs):
    label, mass = plot_data.ranked_modes(runs["tempered"].record)
    assert len(mass) == 3 and (np.diff(mass) <= 0).all() and np.isclose(mass.sum(), 1)
    weight = runs["tempered"].weight
    assert np.allclose([weight[label == k].sum() for k in range(3)], mass)


def test_the_path_of_theta_ends_where_theta_is(runs):
    result = runs["tempered"]
    path = plot_data.theta_lines(result.record)
    end = result.theta + np.log(result.desired)
    assert np.allclose(path.theta[-1], end - end[0], atol=1e-4)
    assert (np.diff(path.moves) >= 0).all() and 0 < path.frozen < path.moves[-1]
    late = path.theta[path.moves > path.frozen]
    assert np.allclose(late, late[-1]) and not np.allclose(path.theta[0], path.theta[-1])
    learning = plot_data.theta_lines(runs["paper"].record)
    assert not np.allclose(learning.theta[-1], learning.theta[-20])


def test_visits_and_marginals_are_shares(runs):
    for result in runs.values():
        share, desired = plot_data.visit_shares(result.record)
        assert np.isclose(share.sum(), 1) and np.isclose(desired.sum(), 1, atol=1e-5)
        found = plot_data.marginal(result.record)
        width = np.diff(found.edges)
        assert np.isclose((found.posterior * width).sum(), 1) and np.isclose((found.tilted * width).sum(), 1)


def test_the_coordinates_shown_are_those_that_tell_modes_apart(runs):
    result = runs["tempered"]
    noise = np.random.default_rng(0).normal(scale=30.0, size=(*result.energy.shape, 3))
    draws = dataclasses.replace(result.record.draws, leaves=(np.concatenate([noise, result.draws[..., :1]], axis=2),))
    assert plot_data.chosen_coordinates(dataclasses.replace(result.record, draws=draws), 1).names == ["x[3]"]
    assert plot_data.chosen_coordinates(runs["none"].record, 1).names == ["x[0]"]


@pytest.mark.parametrize("name", ["tempered", "none", "paper"])
def test_every_plot_draws(runs, name):
    for plot in PLOTS:
        ax = plot(runs[name])
        assert ax.get_title() and ax.get_xlabel() and ax.get_ylabel()
        assert ax.collections or ax.lines or ax.patches
    figure = sahmc.plot_overview(runs[name])
    assert len(figure.axes) == 6
    matplotlib.pyplot.close("all")


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
