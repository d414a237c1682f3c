import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


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
        left = float((names["weight"] * (names["x"] < 0)).sum() / names["weight"].sum())
        assert abs(left - 0.5) < 0.1
    else:
        assert (abs(names["mean"] + 2 / 3) < 4 * names["mcse"]).all()
