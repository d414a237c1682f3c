import runpy
from pathlib import Path

import numpy as np
import pytest

from sahmc.tilt.importance import log_normalise, weighted_mean

FOLDER = Path(__file__).parent.parent.parent / "examples"
SHORT = ("mixture_of_regressions",)
LONG = ("galaxy_mixture", "neural_network", "sensor_network", "sinusoid_period", "transfection")
EXAMPLES = [
    path for path in sorted(FOLDER.glob("*.py")) if path.stem not in (*SHORT, *LONG, "compare", "label_switching")
]


@pytest.mark.parametrize("name", [*SHORT, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)])
def test_sahmc_is_right_where_nuts_is_not(name, tmp_path, monkeypatch):
    """NUTS is the twin that must be caught; with the network, where it needs no help, both are right."""
    monkeypatch.syspath_prepend(FOLDER)
    found = runpy.run_path(str(FOLDER / f"{name}.py"))["main"](["--quick", "--out", str(tmp_path / "picture.png")])
    error = np.hypot(found["mcse"], found.get("truth_error", 0.0))
    assert (abs(found["masses"] - found["truth"]) < 4 * error).all() and (error < 0.15).all()
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    if name == "neural_network":
        assert (found["prediction_gap"] < 4).all()
        return
    assert found["nuts_rhat"] > 2
    if name != "transfection":  # two chains in either mode have the right mean
        assert (abs(found["nuts_masses"] - found["truth"]) > 4 * error).any()


@pytest.mark.slow
def test_every_label_has_its_share(tmp_path, monkeypatch):
    """NUTS is the twin that must be caught, but for the network."""
    monkeypatch.syspath_prepend(FOLDER)
    out = tmp_path / "picture.png"
    found = runpy.run_path(str(FOLDER / "label_switching.py"))["main"](["--quick", "--out", str(out)])
    assert out.stat().st_size > 10_000 and len(found) == 4
    for name, (nuts, ours) in found.items():
        share = 1 / len(ours.mean)
        assert (abs(ours.mean - share) < 4 * ours.mcse).all() and ours.mcse.max() < 0.05
        assert nuts.rhat > 1.2 or "Network" in name


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_is_right(path, tmp_path, capsys):
    names = runpy.run_path(str(path))
    if path.stem == "energy_barrier":
        [(known, found, after)] = names["main"](["--quick", "--out", str(tmp_path / "barrier.png")])
        assert abs(found.height - known) < 0.01 and found.converged
        for pairs in after.values():
            assert all(-0.1 < barrier.tilted_height - height < 0.01 for height, barrier in pairs)
        assert "| set 2 | (0, 0) | (6, 6) | 20.04 / 20.04 |" in capsys.readouterr().out
        assert (tmp_path / "barrier.png").stat().st_size > 10_000
    elif path.stem == "own_kernel":
        mass, mcse = names["main"](["--quick"])
        assert (abs(mass - 1 / 3) < 4 * mcse).all() and (mcse < 0.02).all()
        assert "passed  invariance, tempered with prior" in capsys.readouterr().out
    elif path.stem == "own_loop":
        weight = np.exp(log_normalise(np.asarray(names["log_weight"], float).T))
        left, mcse = weighted_mean((np.asarray(names["x"]).T < 0).astype(float), weight)
        assert abs(left - 0.5) < 4 * mcse and mcse < 0.04
    else:
        assert (abs(names["mean"] + 2 / 3) < 4 * names["mcse"]).all()
