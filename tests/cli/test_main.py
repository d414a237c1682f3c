"""The command line, as a person uses it."""

import importlib.util
import inspect
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from sahmc._version import __version__
from sahmc.cli.main import main, parser
from sahmc.cli.model_file import load_model
from sahmc.cli.output import print_comparison
from sahmc.comparison import Comparison

pytest.importorskip("matplotlib").use("Agg")
COLUMNS = ("log_evidence", "bayes_factor", "probability")
QUICK = ["--draws", "200", "--tune", "300", "--chains", "8", "--seed", "0", "--quiet"]


def said(capsys, *args):
    code = main([str(arg) for arg in args])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.slow
def test_demo_prints_masses_and_draws(tmp_path, capsys):
    picture = tmp_path / "deep" / "demo.png"
    code, out, _ = said(capsys, "demo", "--out", picture)
    assert code == 0 and picture.stat().st_size > 10_000
    assert "0.333" in out and "SAHMC" in out and "plain HMC" in out


def test_help_teaches_and_does_not_import_jax():
    script = "import sys; from sahmc.cli.main import parser; print(parser().format_help()); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("False")
    assert "sahmc init model.py" in done.stdout and "Exit status" in done.stdout


def test_help_fits_a_terminal_and_the_docs_know_it_all(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    page = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()
    top = parser()
    commands = next(action.choices for action in top._actions if action.dest == "command")
    for name, command in {"": top, **commands}.items():
        assert all(len(line) <= 80 for line in command.format_help().splitlines())
        assert f"`sahmc {name}" in page
    options = {option for action in commands["sample"]._actions for option in action.option_strings}
    assert options - {"-h", "--help"} <= set(re.findall(r"--[\w-]+", page))


def test_resume_says_that_it_may_run_code(capsys):
    with pytest.raises(SystemExit):
        main(["resume", "--help"])
    assert "resume only what you trust" in " ".join(capsys.readouterr().out.split())


def test_without_a_command_the_help_is_shown(capsys):
    assert main([]) == 2 and "COMMAND" in capsys.readouterr().out


def test_from_an_empty_folder_to_a_report(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = said(capsys, "init")
    assert code == 0 and "sahmc sample model.py" in out
    code, out, err = said(capsys, "sample", "model.py", "--out", "run.nc", "--checkpoint", "kept", *QUICK)
    assert code == 0 and not err
    assert "location[1]" in out and "Modes:" in out and "sahmc report run.nc" in out
    code, again, _ = said(capsys, "summary", "run.nc")
    assert code == 0 and again.strip() in out
    code, resumed, _ = said(capsys, "resume", "kept")
    assert code == 0 and resumed.strip() == again.strip()
    code, longer, _ = said(capsys, "resume", "kept", "--draws", str(int(QUICK[QUICK.index("--draws") + 1]) + 10))
    assert code == 0 and longer.strip() != again.strip()
    assert "log of the integral of exp(log density)" in again
    check_json(said(capsys, "summary", "run.nc", "--json"))
    check_json(said(capsys, "resume", "kept", "--json", "--out", "other.nc"))
    check_comparison(capsys)
    assert said(capsys, "report", "run.nc")[0] == 0 and (tmp_path / "run.html").stat().st_size > 50_000
    assert said(capsys, "plot", "run.nc", "--out", "sheet.png")[0] == 0 and (tmp_path / "sheet.png").exists()
    for command, path in (("report", "run.html"), ("plot", "sheet.png")):
        code, _, err = said(capsys, command, "run.nc", "--out", path)
        assert code == 2 and "--overwrite" in err
        assert said(capsys, command, "run.nc", "--out", path, "--overwrite")[0] == 0
        whole = Path("run.nc").read_bytes()
        assert said(capsys, command, "run.nc", "--out", "run.nc", "--overwrite")[0] == 2
        assert Path("run.nc").read_bytes() == whole


def check_json(answer):
    """One object on standard output, of the run of the example: two thirds and one third, a known integral."""
    code, out, _ = answer
    found = json.loads(out)
    assert code == 0 and found["trusted"] is True
    assert found["findings"] == [] or {"code", "severity", "sentence", "advice"} <= set(found["findings"][0])
    assert set(found["summary"]) == {"location[0]", "location[1]", "log_scale"}
    row = found["summary"]["log_scale"]
    assert abs(row["mean"]) < 4 * row["mcse"] and {"sd", "ess", "r_hat"} <= set(row)
    masses = [mode["mass"] for mode in found["modes"]]
    assert abs(masses[0] - 2 / 3) < 4 * found["modes"][0]["mcse"] and len(masses) == 2
    evidence = found["log_evidence"]
    assert abs(evidence["mean"] - 1.5 * math.log(2 * math.pi)) < 4 * evidence["mcse"] and evidence["prior"] is False
    assert found["settings"]["random_seed"] == 0 and found["num_gradients"] > 0


def check_comparison(capsys):
    """Two runs of one model, saved as run.nc and other.nc: a Bayes factor of 1 within its error."""
    code, out, _ = said(capsys, "compare", "run.nc", "other.nc")
    assert code == 0 and "Bayes factor" in out and "Cross-validation" not in out
    assert all(len(line) <= 80 for line in out.splitlines()) and {"run", "other"} <= set(out.split())
    code, out, _ = said(capsys, "compare", "run.nc", "other.nc", "--json")
    found = json.loads(out)
    assert code == 0 and found["trusted"] is True and "exp(log density)" in found["notes"][0]
    assert set(found["models"]) == {"run", "other"}
    second = list(found["models"].values())[1]
    assert abs(second["log_bayes_factor"]) < 4 * second["log_bayes_factor_error"]
    Path("deep").mkdir()
    Path("deep/run.nc").write_bytes(Path("run.nc").read_bytes())
    assert "deep/run.nc" in said(capsys, "compare", "run.nc", "deep/run.nc")[1]


def test_a_comparison_of_runs_with_errors_says_so(capsys):
    inspect.unwrap(print_comparison)(Comparison(["a", "b"], dict.fromkeys(COLUMNS, np.ones(2))), ["b"], False)
    assert "Do not trust this: there are errors in b." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "position"),
    [
        ("1,2", [1.0, 2.0]),
        ("[1, 2]", [1.0, 2.0]),
        ('{"mu": [1, 2.5], "s": 3}', {"mu": [1.0, 2.5], "s": 3.0}),
        ('{"deep": {"er": [[1, 2], [3, 4]]}}', {"deep": {"er": [[1.0, 2.0], [3.0, 4.0]]}}),
        ('[{"mu": 1}, {"mu": 2}]', [{"mu": 1.0}, {"mu": 2.0}]),
        ("there.json", {"mu": 7.0}),
        ("named", {"mu": 0.5}),
    ],
)
def test_starts_are_numbers_names_or_json(given, position, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text("named = {'mu': 0.5}\ndef log_density(x):\n    return 0.0\n")
    (tmp_path / "there.json").write_text('{"mu": 7}')
    _, init = load_model("m.py", given, None)
    assert all(np.asarray(leaf).dtype.kind == "f" for leaf in jax.tree.leaves(init))
    many = isinstance(position, list) and isinstance(position[0], dict)
    for one, two in zip(init, position, strict=True) if many else [(init, position)]:
        assert (one.tolist() if hasattr(one, "tolist") else plain(one)) == two


def plain(position):
    return {k: plain(v) if isinstance(v, dict) else np.asarray(v).tolist() for k, v in position.items()}


def test_a_crash_is_told_apart_from_bad_input(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crash.py").write_text("def log_density(x):\n    raise RuntimeError('no such file of mine')\n")
    code, _, err = said(capsys, "sample", "crash.py", "--init", "0,0", *QUICK)
    assert code == 1 and "RuntimeError: no such file of mine" in err and "--debug" in err and "Traceback" not in err
    with pytest.raises(RuntimeError, match="of mine"):
        main(["sample", "crash.py", "--init", "0,0", *QUICK, "--debug"])
    (tmp_path / "leaves.py").write_text("import sys\n\ndef log_density(x):\n    sys.exit(0)\n")
    code, _, err = said(capsys, "sample", "leaves.py", "--init", "0,0", *QUICK)
    assert code == 1 and "SystemExit: 0" in err


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "sahmc.cli.main", "init", str(tmp_path / "model.py")]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.returncode == 141 and not done.stderr and (tmp_path / "model.py").exists()


@pytest.mark.parametrize(
    ("args", "missing", "extra"),
    [
        (["sample", "good.py", "--init", "0,0", "--out", "run.nc"], "h5netcdf", "io"),
        (["sample", "good.py", "--init", "0,0", "--out", "run.zarr"], "zarr", "io"),
        (["summary", "there.nc"], "h5netcdf", "io"),
        (["report", "there.nc"], "matplotlib", "plots"),
        (["plot", "there.nc"], "matplotlib", "plots"),
        (["demo"], "matplotlib", "plots"),
        (["paper", "run", "mixture"], "matplotlib", "plots"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_computed(args, missing, extra, tmp_path, capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    monkeypatch.setattr("sahmc.sampling.session.make_plan", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text("def log_density(x):\n    return -(x**2).sum()\n")
    (tmp_path / "there.nc").write_text("something")
    code, _, err = said(capsys, *args)
    assert code == 2 and f"pip install 'sahmc[{extra}]'" in err


def test_a_run_that_is_not_to_be_trusted_exits_with_three_and_tells_programs_why(tmp_path, capsys):
    """Two modes far apart, plain HMC, chains started in both: they disagree."""
    (tmp_path / "far.py").write_text(
        "import jax\n"
        "import jax.numpy as jnp\n"
        "def both(key):\n    return 40.0 * jnp.sign(jax.random.normal(key)) * jnp.ones(2)\n"
        "def log_density(x):\n    return jnp.logaddexp(-0.5*jnp.sum((x-40)**2), -0.5*jnp.sum((x+40)**2))\n"
    )
    loud = [word for word in QUICK if word != "--quiet"]
    code, out, err = said(capsys, "sample", tmp_path / "far.py", "--init", "both", "--tilt", "none", *loud, "--json")
    found = json.loads(out)
    assert code == 3 and found["trusted"] is False and found["log_evidence"] is None
    assert ("rhat", "error") in {(finding["code"], finding["severity"]) for finding in found["findings"]}
    lines = err.splitlines()  # which tell of the progress, since there is no terminal
    assert "compiling; then" in lines[0] and "draw done" in lines[-1]
    assert all(re.match(r"\d\d:\d\d:\d\d \w", line) for line in lines)


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["sample", "none.py"], "sahmc init none.py"),
        (["sample", "model.txt"], "FILE.py"),
        (["sample", "broken.py"], "line 2"),
        (["sample", "leaves.py"], "leaves.py does not run: SystemExit"),
        (["sample", "empty.py"], "log_density"),
        (["sample", "good.py:other"], "log_density"),
        (["sample", "good.py", "--init", "a,b"], "--init"),
        (["sample", "named.py", "--init", '{"loc": 0}'], "which are 'loc'; got 'location'"),
        (["sample", "good.py", "--init", '{"mu": "zero"}'], "--init"),
        (["sample", "good.py", "--init", '{"mu": [1, [2]]}'], "--init"),
        (["sample", "good.py", "--init", '{"mu": '], "--init"),
        (["sample", "good.py"], "--init"),
        (["sample", "good.py", "--init", "0,0", "--draws", "0"], "draws"),
        (["sample", "good.py", "--init", "0,0", "--kernel", "gibbs"], "kernel"),
        (["sample", "good.py", "--init", "0,0", "--out", "run.csv"], "run.nc"),
        (["sample", "good.py", "--init", "0,0", "--out", "none/run.nc"], "folder must exist"),
        (["sample", "good.py", "--init", "0,0", "--out", "there.nc"], "--overwrite"),
        (["sample", "good.py", "--init", "0,0", "--ess", "-1"], "ess must be a positive number"),
        (["sample", "good.py", "--init", "0,0", "--max-time", "0"], "max_time must be a positive number"),
        (["resume", "none"], "holds none"),
        (["summary", "none.nc"], "does not exist"),
        (["summary", "good.py"], "cannot be read"),
        (["compare", "there.nc"], "two runs or more"),
        (["compare", "there.nc", "there.nc"], "two runs or more"),
        (["compare", "there.nc", "good.py"], "there.nc cannot be read"),
        (["init", "good.py"], "nothing is written over another file"),
    ],
)
def test_bad_usage_is_told_without_a_traceback(args, word, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("x = 1\nx.y.z\n")
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "leaves.py").write_text("import sys\n\nsys.exit()\n")
    (tmp_path / "good.py").write_text("def log_density(x):\n    return -(x**2).sum()\n")
    (tmp_path / "named.py").write_text("def log_density(x):\n    return -(x['location'] ** 2)\n")
    (tmp_path / "there.nc").write_text("something")
    code, _, err = said(capsys, *args)
    assert code == 2 and word in err and "Traceback" not in err
    with pytest.raises((ValueError, OSError)):
        main([*args, "--debug"])


def test_completion(capsys):
    pytest.importorskip("shtab")
    code, out, _ = said(capsys, "completion", "bash")
    assert code == 0 and "sahmc" in out and "report" in out


def test_usage_errors_of_the_parser_exit_with_two(capsys):
    for args in (["smaple"], ["sample"], ["sample", "a.py", "--draws", "many"]):
        with pytest.raises(SystemExit) as stop:
            main(args)
        assert stop.value.code == 2 and "usage: sahmc" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--devices", "two"), "--devices is a number or all"),
        (("--devices", "1000"), "at most the"),
        (("--hosts", "node1"), "--hosts is auto or ADDRESS,N,I"),
    ],
)
def test_devices_and_hosts_that_make_no_sense_are_told_of(tmp_path, capsys, monkeypatch, option, told):
    monkeypatch.chdir(tmp_path)
    said(capsys, "init")
    code, _, err = said(capsys, "sample", "model.py", *option, *QUICK)
    assert code == 2 and told in err


def test_the_module_is_the_command():
    asked = [sys.executable, "-m", "sahmc", "--version"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert __version__ in told


@pytest.mark.parametrize(("word", "told"), [("sampel", "did you mean 'sample'?"), ("xyz", "invalid choice: 'xyz'")])
def test_the_command_that_was_probably_meant_is_said(capsys, word, told):
    with pytest.raises(SystemExit) as end:
        main([word, "model.py"])
    err = capsys.readouterr().err
    assert end.value.code == 2 and told in err and (word == "sampel") == ("did you mean" in err)
