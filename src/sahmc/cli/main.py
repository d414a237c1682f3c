"""The command line. Slow imports are made only when a command needs them, so that --help answers at once."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from sahmc._support.sealed_files import FULL
from sahmc._support.words import wrapped
from sahmc._version import __version__
from sahmc.cli.commands import (
    CRASHED,
    GOOD,
    INTERRUPTED,
    UNREAD,
    WRONG,
    compare_runs,
    plot_run,
    report_run,
    reproduce_paper,
    resume_run,
    sample_model,
    show_demo,
    show_summary,
    write_example,
)
from sahmc.engine.settings import Settings
from sahmc.kernels import KERNELS
from sahmc.paper import NAMES
from sahmc.tilt import TILTS

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]

CODES = (
    "Exit status: 0 good, 1 something broke on the way, 2 bad usage or input, 3 the run is complete but has findings "
    "of severity error, 130 interrupted before there were draws."
)
"""The meaning of exit statuses, for the help text."""
JSON_HELP = "print one JSON object in place of text"
"""The help text of ``--json``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; ``argv`` are its arguments, None for those of the process."""
    arguments = parser().parse_args(argv)
    if arguments.command is None:
        parser().print_help()
        return WRONG
    try:
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except (ValueError, OSError) as error:
        if arguments.debug:
            raise
        print(f"sahmc: {error}", file=sys.stderr)
        return CRASHED if getattr(error, "errno", None) in FULL else WRONG
    except (Exception, SystemExit) as error:  # the last from a model that leaves: that is no success
        if arguments.debug:
            raise
        print(f"sahmc: {type(error).__name__}: {error}\n(--debug shows where it comes from)", file=sys.stderr)
        return CRASHED
    except KeyboardInterrupt:
        if arguments.debug:
            raise
        print("sahmc: interrupted before there were draws", file=sys.stderr)
        return INTERRUPTED


class Parser(argparse.ArgumentParser):
    """A parser that suggests the command you probably meant."""

    names: Sequence[str] = ()
    """The names of the commands."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit."""
        from sahmc._support.validate import nearest

        given = re.search(r"invalid choice: '(.*?)'", message)
        meant = nearest(given[1], self.names) if given else None
        super().error(message if meant is None else f"{message}; did you mean {meant!r}?")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; parsed arguments hold the function of the command as ``run``."""
    top = Parser(
        prog="sahmc",
        description="Draws from posteriors with many modes:\nStochastic Approximation Hamiltonian Monte Carlo.\n\n"
        "  sahmc init model.py                    write an example model, with comments\n"
        "  sahmc sample model.py --out run.nc     draw from it\n"
        "  sahmc report run.nc                    look at what came out, in a browser",
        epilog=wrapped(CODES, ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"sahmc {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _add_run_commands(commands)
    _add_result_commands(commands)
    _add_show_commands(commands)
    top.names = tuple(commands.choices)
    return top


def _command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int], help: str, description: str
) -> argparse.ArgumentParser:
    """Add a command with the function ``run``; ``help`` is its line in the list of commands."""
    made = commands.add_parser(name, help=help, description=description, epilog=CODES)
    made.add_argument("--debug", action="store_true", help="show where in the code an error comes from")
    made.set_defaults(run=run)
    return made


def _add_run_commands(commands: Commands) -> None:
    """Add the commands that make a run: init, sample and resume."""
    make = _command(
        commands,
        "init",
        write_example,
        "write an example model, with comments",
        "Write a model file to start from. `sahmc sample` runs it as it is.",
    )
    make.add_argument("file", type=Path, nargs="?", default=Path("model.py"), help="the file (default: %(default)s)")
    sample = _command(
        commands,
        "sample",
        sample_model,
        "draw from a model in a file",
        "Draw from the log density or model in a Python file, or from a Stan program, print a summary and findings, "
        "and save the result.",
    )
    _add_sample_options(sample)
    _add_output_options(sample)
    resume = _command(
        commands,
        "resume",
        resume_run,
        "go on with a run that was killed or interrupted",
        "Go on with the run in a checkpoint folder, to the same bits as if it had never stopped. The model is stored "
        "there by pickle, which can run any code: resume only what you trust.",
    )
    resume.add_argument("checkpoint", type=Path, metavar="FOLDER", help="what --checkpoint of `sahmc sample` named")
    resume.add_argument("--draws", type=int, metavar="N", help="go on to N draws of each chain in all")
    _add_output_options(resume)


def _add_sample_options(sample: argparse.ArgumentParser) -> None:
    """Add the options for the model and the settings of a run to ``sahmc sample``."""
    sample.add_argument(
        "model",
        metavar="FILE.py[:NAME]",
        help="a file with a function log_density or a model, or NAME in it; FILE.stan",
    )
    sample.add_argument("--data", metavar="FILE.json", help="the data of a Stan program")
    sample.add_argument(
        "--init",
        metavar="X,X,..|NAME|JSON",
        help="where chains start: numbers, something in the file, or JSON such as '{\"mu\": [0, 1]}', as text or in "
        "FILE.json; a list of dicts is one for each chain (default: init in the file)",
    )
    sample.add_argument(
        "--draws", type=int, default=Settings.draws, metavar="N", help="draws of each chain (default: %(default)s)"
    )
    sample.add_argument(
        "--tune", type=int, default=Settings.tune, metavar="N", help="warm-up iterations (default: %(default)s)"
    )
    sample.add_argument(
        "--chains", type=int, default=Settings.chains, metavar="N", help="chains (default: %(default)s)"
    )
    sample.add_argument(
        "--thin", type=int, default=Settings.thin, metavar="N", help="keep every N-th draw (default: %(default)s)"
    )
    sample.add_argument("--seed", type=int, metavar="N", help="random seed (default: a random one, which is recorded)")
    sample.add_argument("--kernel", default=Settings.kernel, help=f"{', '.join(KERNELS)} (default: %(default)s)")
    sample.add_argument("--tilt", default=Settings.tilt, help=f"{', '.join(TILTS)} (default: %(default)s)")
    sample.add_argument(
        "--target-accept",
        type=float,
        default=Settings.target_accept,
        metavar="P",
        help="acceptance rate to aim at (default: %(default)s)",
    )
    sample.add_argument("--mass", type=float, metavar="E", help="go on until no mass of a mode has a larger error")
    sample.add_argument("--ess", type=float, metavar="N", help="go on until no effective sample size is smaller")
    sample.add_argument("--log-evidence", type=float, metavar="E", help="go on until the log evidence has this error")
    sample.add_argument("--max-time", type=float, metavar="S", help="stop after S seconds (default: no limit)")
    sample.add_argument("--max-gradients", type=float, metavar="N", help="stop after N gradients (default: no limit)")
    sample.add_argument("--x64", action="store_true", help="compute in double precision")
    sample.add_argument(
        "--checkpoint", type=Path, metavar="FOLDER", help="keep the run there, to resume it after a crash"
    )


def _add_output_options(command: argparse.ArgumentParser) -> None:
    """Add the options for the output file, the printed format and the progress bar."""
    command.add_argument("--out", type=Path, metavar="RUN", help="save the result: run.nc, or run.zarr")
    command.add_argument("--overwrite", action="store_true", help="write over --out if it exists")
    command.add_argument("--json", action="store_true", help=JSON_HELP)
    command.add_argument("--quiet", action="store_true", help="no progress, neither bars nor lines")
    command.add_argument("--devices", metavar="N|all", help="split the chains over devices (default: one)")
    command.add_argument(
        "--hosts",
        metavar="auto|ADDRESS,N,I",
        help="join this process with others: found by Slurm or MPI, or process I of N, the first at ADDRESS host:port",
    )


def _add_result_commands(commands: Commands) -> None:
    """Add the commands for saved runs: summary, compare, report and plot."""
    summary = _command(
        commands, "summary", show_summary, "print the summary of a run", "Print the table, the modes and the findings."
    )
    summary.add_argument("run_file", type=Path, metavar="RUN", help="what --out of `sahmc sample` named")
    summary.add_argument("--json", action="store_true", help=JSON_HELP)
    compared = _command(
        commands,
        "compare",
        compare_runs,
        "compare the models of runs by their evidence",
        "Print log evidence, Bayes factors and probabilities of the models of two runs or more on the same data, the "
        "most probable first. Models are called by the names of their files.",
    )
    compared.add_argument("run_files", type=Path, nargs="+", metavar="RUN", help="what --out of `sahmc sample` named")
    compared.add_argument("--json", action="store_true", help=JSON_HELP)
    report = _command(
        commands,
        "report",
        report_run,
        "write a page about a run",
        "Write one HTML page with findings, summary, modes and plots.",
    )
    report.add_argument("run_file", type=Path, metavar="RUN", help="what --out of `sahmc sample` named")
    report.add_argument("--out", type=Path, metavar="PAGE", help="the page (default: RUN with the ending .html)")
    report.add_argument("--overwrite", action="store_true", help="write over the page if it exists")
    plot = _command(commands, "plot", plot_run, "draw the overview of a run", "Draw six plots of a run on one sheet.")
    plot.add_argument("run_file", type=Path, metavar="RUN", help="what --out of `sahmc sample` named")
    plot.add_argument("--out", type=Path, metavar="PNG", help="the picture (default: RUN with the ending .png)")
    plot.add_argument("--overwrite", action="store_true", help="write over the picture if it exists")


def _add_show_commands(commands: Commands) -> None:
    """Add the commands that need no model from the user: demo, paper and completion."""
    demo = _command(
        commands,
        "demo",
        show_demo,
        "three modes from one: SAHMC beside plain HMC",
        "Sample the paper's three-mode mixture with default settings, every chain started in one mode, and plain HMC "
        "with as many gradients; print the mode masses beside the truth and draw a picture.",
    )
    demo.add_argument(
        "--out", type=Path, default=Path("demo.png"), metavar="PNG", help="the picture (default: %(default)s)"
    )
    demo.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default: %(default)s)")
    paper = _command(
        commands,
        "paper",
        reproduce_paper,
        "reproduce a table or figure of the paper",
        "Run an experiment of the paper and write its table, with the published numbers beside ours, and its pictures. "
        "What is computed is remembered in the folder, so that an interrupted run goes on. Experiments: "
        + "; ".join(f"{name}, {title}" for name, title in NAMES.items())
        + ".",
    )
    paper.add_argument("action", choices=("list", "run", "all"), help="list the experiments, run one, or run all")
    paper.add_argument("name", nargs="?", choices=tuple(NAMES), metavar="NAME", help="which one to run")
    paper.add_argument("--quick", action="store_true", help="a small version, in minutes")
    paper.add_argument("--seeds", type=int, metavar="N", help="runs (default: as many as the paper made; quick: 3)")
    paper.add_argument(
        "--data", type=Path, metavar="FILE", help="the Pima data, CSV or ARFF (default: cache or OpenML)"
    )
    paper.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        default=Path("out/paper"),
        help="where tables and pictures go (default: %(default)s)",
    )
    complete = _command(
        commands,
        "completion",
        _completion,
        "print a script for shell completion",
        "Print a script that completes sahmc's commands: sahmc completion bash >> ~/.bashrc",
    )
    complete.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="the shell")


def _completion(args: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError as error:
        raise ValueError("shell completion needs shtab; install it with: pip install 'sahmc[cli]'") from error
    print(shtab.complete(parser(), args.shell))
    return GOOD


if __name__ == "__main__":
    sys.exit(main())
