import subprocess
import sys

import pytest

from sahmc import __version__
from sahmc.cli import main


def test_help_answers_without_jax():
    code = "import sys, sahmc.cli; sahmc.cli.main(['--help'])"
    check = f"import atexit, sys; atexit.register(lambda: print('jax' in sys.modules)); {code}"
    run = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert "demo" in run.stdout and run.stdout.strip().endswith("False")


def test_version_and_no_command(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert __version__ in capsys.readouterr().out
    assert main([]) == 2


def test_demo_prints_masses_and_draws(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "deep" / "demo.png"), "--seed", "1"]) == 0
    out = capsys.readouterr().out
    assert "truth" in out and "0.333" in out and "SAHMC" in out and "never left the mode" in out
    assert (tmp_path / "deep" / "demo.png").stat().st_size > 20_000


def test_demo_says_when_the_picture_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["demo", "--out", str(tmp_path / "file" / "demo.png")]) == 2
    assert capsys.readouterr().err.startswith("sahmc: ")
