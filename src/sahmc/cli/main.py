"""The command line. Heavy imports wait until a command needs them, so that --help answers at once."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sahmc._version import __version__
from sahmc.kernels import KERNELS
from sahmc.paper import NAMES
from sahmc.tilt import TILTS

if TYPE_CHECKING:
    from sahmc.results.result import Result

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

GOOD, DOUBTFUL, WRONG, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses; ``CODES`` tells them to users."""
CODES = "Exit status: 0 good, 1 the run has findings of severity error, 2 bad usage, 130 interrupted."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; ``argv`` are the words after ``sahmc``, from the shell if None."""
    arguments = parser().parse_args(argv)
    if arguments.command is None:
        parser().print_help()
        return WRONG
    try:
        return int(arguments.run(arguments))
    except (ValueError, OSError) as error:
        if arguments.debug:
            raise
        print(f"sahmc: {error}", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        if arguments.debug:
            raise
        print("sahmc: interrupted before there were draws", file=sys.stderr)
        return INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; each command leaves its function in ``run`` of the arguments."""
    top = argparse.ArgumentParser(
        prog="sahmc",
        description="Draws from posteriors with many modes: Stochastic Approximation Hamiltonian Monte Carlo.\n\n"
        "  sahmc init model.py                    write an example model, with comments\n"
        "  sahmc sample model.py --out run.nc     draw from it\n"
        "  sahmc report run.nc                    look at what came out, in a browser",
        epilog=CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"sahmc {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _add_run_commands(commands)
    _add_result_commands(commands)
    _add_show_commands(commands)
    return top


def _command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int], help: str, description: str
) -> argparse.ArgumentParser:
    """Add a command, which ``run`` carries out; ``help`` is its line in the list of commands."""
    made = commands.add_parser(name, help=help, description=description, epilog=CODES)
    made.add_argument("--debug", action="store_true", help="show where in the code an error comes from")
    made.set_defaults(run=run)
    return made


def _add_run_commands(commands: Commands) -> None:
    """Add what makes a run: init, sample and resume."""
    make = _command(
        commands,
        "init",
        _init,
        "write an example model, with comments",
        "Write a model file to start from. `sahmc sample` runs it as it is.",
    )
    make.add_argument("file", type=Path, nargs="?", default=Path("model.py"), help="the file (default: %(default)s)")
    sample = _command(
        commands,
        "sample",
        _sample,
        "draw from a model in a file",
        "Draw from the log density or model in a Python file, or from a Stan program, print a summary and findings, "
        "and save the result.",
    )
    _add_sample_options(sample)
    _add_output_options(sample)
    resume = _command(
        commands,
        "resume",
        _resume,
        "go on with a run that was killed or interrupted",
        "Go on with the run in a checkpoint folder, to the same bits as if it had never stopped. The model is stored "
        "there by pickle, which can run any code: resume only what you trust.",
    )
    resume.add_argument("checkpoint", type=Path, metavar="FOLDER", help="what --checkpoint of `sahmc sample` named")
    _add_output_options(resume)


def _add_sample_options(sample: argparse.ArgumentParser) -> None:
    """Add the model and the settings of a run to ``sahmc sample``."""
    sample.add_argument(
        "model",
        metavar="FILE.py[:NAME]",
        help="a file with a function log_density or a model, or NAME in it; FILE.stan",
    )
    sample.add_argument("--data", metavar="FILE.json", help="the data of a Stan program")
    sample.add_argument("--init", metavar="X,X,..|NAME", help="where chains start (default: init in the file)")
    sample.add_argument(
        "--draws", type=int, default=1000, metavar="N", help="draws of each chain (default: %(default)s)"
    )
    sample.add_argument("--tune", type=int, default=1000, metavar="N", help="warm-up iterations (default: %(default)s)")
    sample.add_argument("--chains", type=int, default=32, metavar="N", help="chains (default: %(default)s)")
    sample.add_argument("--thin", type=int, default=1, metavar="N", help="keep every N-th draw (default: %(default)s)")
    sample.add_argument("--seed", type=int, metavar="N", help="random seed (default: a random one, which is recorded)")
    sample.add_argument("--kernel", default=next(iter(KERNELS)), help=f"{', '.join(KERNELS)} (default: %(default)s)")
    sample.add_argument("--tilt", default=next(iter(TILTS)), help=f"{', '.join(TILTS)} (default: %(default)s)")
    sample.add_argument("--target-accept", type=float, default=0.8, metavar="P", help="(default: %(default)s)")
    sample.add_argument("--x64", action="store_true", help="compute in double precision")
    sample.add_argument(
        "--checkpoint", type=Path, metavar="FOLDER", help="keep the run there, to resume it after a crash"
    )


def _add_output_options(command: argparse.ArgumentParser) -> None:
    """Add where the result goes, and whether there are progress bars."""
    command.add_argument("--out", type=Path, metavar="RUN", help="save the result: run.nc, or run.zarr")
    command.add_argument("--overwrite", action="store_true", help="write over --out if it exists")
    command.add_argument("--quiet", action="store_true", help="no progress bars")
    command.add_argument("--devices", metavar="N|all", help="split the chains over devices (default: one)")
    command.add_argument(
        "--hosts",
        metavar="auto|ADDRESS,N,I",
        help="join this process with others: found by Slurm or MPI, or process I of N, the first at ADDRESS host:port",
    )


def _add_result_commands(commands: Commands) -> None:
    """Add what looks at a saved run: summary, report and plot."""
    summary = _command(
        commands, "summary", _summary, "print the summary of a run", "Print the table, the modes and the findings."
    )
    summary.add_argument("run_file", type=Path, metavar="RUN", help="what --out of `sahmc sample` named")
    report = _command(
        commands,
        "report",
        _report,
        "write a page about a run",
        "Write one HTML page with findings, summary, modes and plots.",
    )
    report.add_argument("run_file", type=Path, metavar="RUN", help="what --out of `sahmc sample` named")
    report.add_argument("--out", type=Path, metavar="PAGE", help="the page (default: RUN with the ending .html)")
    report.add_argument("--overwrite", action="store_true", help="write over the page if it exists")
    plot = _command(commands, "plot", _plot, "draw the overview of a run", "Draw six plots of a run on one sheet.")
    plot.add_argument("run_file", type=Path, metavar="RUN", help="what --out of `sahmc sample` named")
    plot.add_argument("--out", type=Path, metavar="PNG", help="the picture (default: RUN with the ending .png)")
    plot.add_argument("--overwrite", action="store_true", help="write over the picture if it exists")


def _add_show_commands(commands: Commands) -> None:
    """Add what needs no model of one's own: demo, paper and completion."""
    demo = _command(
        commands,
        "demo",
        _demo,
        "three modes from one: SAHMC beside plain HMC",
        "Sample the paper's three-mode mixture with default settings, every chain started in one mode, and plain HMC "
        "with as many gradients; print the mode masses beside the truth and draw a picture.",
    )
    demo.add_argument("--out", type=Path, default=Path("demo.png"), help="the picture (default: %(default)s)")
    demo.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    paper = _command(
        commands,
        "paper",
        _paper,
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
    paper.add_argument("--out", type=Path, metavar="FOLDER", default=Path("out/paper"), help="(default: %(default)s)")
    complete = _command(
        commands,
        "completion",
        _completion,
        "print a script for shell completion",
        "Print a script that completes sahmc's commands: sahmc completion bash >> ~/.bashrc",
    )
    complete.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def _init(args: argparse.Namespace) -> int:
    from sahmc.cli.model_file import EXAMPLE

    with args.file.open("x") as file:
        file.write(EXAMPLE.format(name=args.file.name))
    print(f"Wrote {args.file}. Next: sahmc sample {args.file} --out run.nc")
    return GOOD


def _sample(args: argparse.Namespace) -> int:
    _check_output(args)
    _join(args)
    import jax

    from sahmc.cli.model_file import load_model
    from sahmc.sampling import sample

    if args.x64:
        jax.config.update("jax_enable_x64", True)
    loaded = load_model(args.model, args.init, args.data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the summary has the findings
        result = sample(
            loaded.model,
            loaded.init,
            draws=args.draws,
            tune=args.tune,
            chains=args.chains,
            thin=args.thin,
            random_seed=args.seed,
            kernel=args.kernel,
            tilt=args.tilt,
            target_accept=args.target_accept,
            checkpoint=args.checkpoint,
            devices=_devices(args),
            progressbar=not args.quiet,
        )
    return _finish(result, args)


def _resume(args: argparse.Namespace) -> int:
    _check_output(args)
    _join(args)
    from sahmc.sampling import resume

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = resume(args.checkpoint, devices=_devices(args), progressbar=not args.quiet)
    return _finish(result, args)


def _join(args: argparse.Namespace) -> None:
    """Join other processes, if there are any."""
    if args.hosts is None:
        return
    from sahmc._support.validate import require
    from sahmc.run.hosts import join_hosts

    if args.hosts == "auto":
        join_hosts()
        return
    address, *numbers = args.hosts.split(",")
    ok = len(numbers) == 2 and all(part.isdigit() for part in numbers) and ":" in address
    require(ok, "--hosts is auto or ADDRESS,N,I", args.hosts, "write node1:1234,2,0 for the first of two")
    join_hosts(address, *map(int, numbers))


def _devices(args: argparse.Namespace) -> int | str | None:
    """Return the devices that were asked for."""
    from sahmc._support.validate import require

    asked = args.devices
    ok = asked in (None, "all") or asked.isdigit()
    require(ok, "--devices is a number or all", asked, "write --devices 4")
    return int(asked) if asked is not None and asked.isdigit() else asked


def _check_output(args: argparse.Namespace) -> None:
    """Raise a ValueError if the result could not be saved as asked: before the work, not after it."""
    from sahmc.results.files import check_target

    if args.out is not None:
        check_target(args.out, args.overwrite)


def _finish(result: Result, args: argparse.Namespace) -> int:
    import jax

    if jax.process_index():  # the first process has it all
        return GOOD
    code = _print(result)
    if args.out is not None:
        result.save(args.out, overwrite=args.overwrite)
        print(f"\nSaved {args.out}. Next: sahmc report {args.out}")
    return code


def _print(result: Result) -> int:
    """Print the summary and the modes, and return the exit status that goes with them."""
    print(result.summary())
    if result.mode_assignment is not None and len(result.mode_assignment.energy) > 1:
        print(f"\nModes:\n{result.modes()}")
    return DOUBTFUL if any(finding.severity == "error" for finding in result.findings) else GOOD


def _summary(args: argparse.Namespace) -> int:
    from sahmc.results.result import Result

    return _print(Result.load(args.run_file))


def _report(args: argparse.Namespace) -> int:
    from sahmc.plots.report import write_report
    from sahmc.results.result import Result

    out = args.out or args.run_file.with_suffix(".html")
    write_report(Result.load(args.run_file), out, overwrite=args.overwrite)
    print(f"Wrote {out}")
    return GOOD


def _plot(args: argparse.Namespace) -> int:
    from sahmc.plots.figures import plot_overview, save_figure
    from sahmc.results.result import Result

    out = args.out or args.run_file.with_suffix(".png")
    save_figure(plot_overview(Result.load(args.run_file)), out, overwrite=args.overwrite)
    print(f"Wrote {out}")
    return GOOD


def _demo(args: argparse.Namespace) -> int:
    from sahmc.cli.demo import run_demo

    run_demo(args.out, args.seed)
    return GOOD


def _paper(args: argparse.Namespace) -> int:
    from sahmc._support.validate import require, require_count
    from sahmc.paper.experiment import run_experiment
    from sahmc.paper.pima_data import NoDataError

    if args.action == "list":
        print("\n".join(f"{name:<12} {title}" for name, title in NAMES.items()))
        return GOOD
    named = (args.name is not None) == (args.action == "run")
    require(named, "run takes the name of an experiment, and all takes none", args.name, "try: sahmc paper list")
    if args.seeds is not None:
        require_count(args.seeds, "--seeds")
    everything = args.action == "all"
    for name in NAMES if everything else [args.name]:
        try:
            run_experiment(name, args.out / name, quick=args.quick, seeds=args.seeds, data=args.data)
        except NoDataError as error:
            if not everything:
                raise ValueError(str(error)) from error
            print(f"  {name} left out: {error}")
    return GOOD


def _completion(args: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError as error:
        raise ValueError("shell completion needs shtab; install it with: pip install 'sahmc[cli]'") from error
    print(shtab.complete(parser(), args.shell))
    return GOOD


if __name__ == "__main__":
    sys.exit(main())
