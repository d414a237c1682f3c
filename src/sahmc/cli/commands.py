"""The commands: each takes its arguments and returns an exit status. Slow imports are made only when needed."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sahmc.paper import NAMES

if TYPE_CHECKING:
    from sahmc.results.precision import Precision
    from sahmc.results.result import Result

GOOD, CRASHED, WRONG, DOUBTFUL, INTERRUPTED, UNREAD = 0, 1, 2, 3, 130, 141
"""Exit statuses. ``CODES`` of the command line explains all but the last, which is that of a closed pipe."""


def write_example(args: argparse.Namespace) -> int:
    """Write an example model."""
    from sahmc._support.validate import require
    from sahmc.cli.model_file import EXAMPLE

    must, todo = "nothing is written over another file", "choose another name"
    require(not args.file.exists(), must, f"{args.file}, which exists", todo)
    must, todo = "the folder must exist", "make it, or choose another"
    require(args.file.parent.is_dir(), must, str(args.file.parent), todo)
    with args.file.open("x") as file:
        file.write(EXAMPLE.format(name=args.file.name))
    print(f"Wrote {args.file}. Next: sahmc sample {args.file} --out run.nc")
    return GOOD


def sample_model(args: argparse.Namespace) -> int:
    """Draw from a model in a file."""
    _check_output(args)
    _join(args)
    import jax

    from sahmc.cli.model_file import load_model
    from sahmc.sampling import sample

    if args.x64:
        jax.config.update("jax_enable_x64", True)
    model, init = load_model(args.model, args.init, args.data)
    with _start_told(args), _progress_lines(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the summary has the findings
        result = sample(
            model,
            init,
            draws=args.draws,
            tune=args.tune,
            chains=args.chains,
            thin=args.thin,
            random_seed=args.seed,
            kernel=args.kernel,
            tilt=args.tilt,
            target_accept=args.target_accept,
            until=_precision(args),
            max_time=args.max_time,
            max_gradients=args.max_gradients,
            checkpoint=args.checkpoint,
            devices=_devices(args),
            progressbar=not args.quiet,
        )
    return _finish(result, args)


def resume_run(args: argparse.Namespace) -> int:
    """Resume a run from its checkpoint folder."""
    _check_output(args)
    _join(args)
    from sahmc.sampling import resume

    with _progress_lines(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = resume(args.checkpoint, draws=args.draws, devices=_devices(args), progressbar=not args.quiet)
    return _finish(result, args)


def _precision(args: argparse.Namespace) -> Precision | None:
    """Return the target precision; None without one."""
    from sahmc.results.precision import Precision

    asked = {name: getattr(args, name) for name in ("mass", "ess", "log_evidence")}
    return None if all(value is None for value in asked.values()) else Precision(**asked)


@contextmanager
def _start_told(args: argparse.Namespace) -> Iterator[None]:
    """Report a missing start in terms of the options of ``sahmc sample``."""
    from sahmc.models.starts import NoStartError

    try:
        yield
    except NoStartError:
        raise ValueError(
            "chains must be told where to start; got neither --init nor init in the file. To fix it, pass --init 0,0 "
            f"or --init '{{\"mu\": [0, 1]}}', or write init = ... into {args.model.partition(':')[0]}."
        ) from None


@contextmanager
def _progress_lines() -> Iterator[None]:
    """Show the log of a run on standard error if that is not a terminal, where progress bars cannot be shown."""
    import logging

    log, lines = logging.getLogger("sahmc"), logging.StreamHandler(sys.stderr)
    lines.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    before = log.level
    log.addHandler(lines)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(lines)
        log.setLevel(before)


def _join(args: argparse.Namespace) -> None:
    """Join other processes, if there are any."""
    if args.hosts is None:
        return
    from sahmc._support.hosts import join_hosts
    from sahmc._support.validate import require

    if args.hosts == "auto":
        join_hosts()
        return
    address, *numbers = args.hosts.split(",")
    ok = len(numbers) == 2 and all(part.isdigit() for part in numbers) and ":" in address
    require(ok, "--hosts is auto or ADDRESS,N,I", args.hosts, "write node1:1234,2,0 for the first of two")
    join_hosts(address, *map(int, numbers))


def _devices(args: argparse.Namespace) -> int | str | None:
    """Return the requested devices."""
    from sahmc._support.validate import require

    asked = args.devices
    ok = asked in (None, "all") or asked.isdigit()
    require(ok, "--devices is a number or all", asked, "write --devices 4")
    return int(asked) if asked is not None and asked.isdigit() else asked


def _check_output(args: argparse.Namespace) -> None:
    """Raise a ValueError before the run if its result could not be saved as requested."""
    from sahmc.results.files import check_target

    if args.out is not None:
        _require_new(args.out, args.overwrite)
        check_target(args.out, args.overwrite)


def _require_new(path: Path, overwrite: bool) -> None:
    """Raise a ValueError if the file exists and may not be overwritten."""
    from sahmc._support.validate import require

    must, todo = "nothing is written over another file", "choose another name, or pass --overwrite"
    require(overwrite or not path.exists(), must, f"{path}, which exists", todo)


def _finish(result: Result, args: argparse.Namespace) -> int:
    import jax

    if jax.process_index():  # the first process has the whole result
        return GOOD
    from sahmc.cli.output import is_doubtful, print_result

    if args.out is not None:
        result.save(args.out, overwrite=args.overwrite)  # save first: printing may fail
    print_result(result, args.json)
    if args.out is not None:
        print(f"\nSaved {args.out}. Next: sahmc report {args.out}", file=sys.stderr if args.json else sys.stdout)
    return DOUBTFUL if is_doubtful(result) else GOOD


def show_summary(args: argparse.Namespace) -> int:
    """Print the summary of a saved run."""
    from sahmc.cli.output import is_doubtful, print_result
    from sahmc.results.result import Result

    result = Result.load(args.run_file)
    print_result(result, args.json)
    return DOUBTFUL if is_doubtful(result) else GOOD


def compare_runs(args: argparse.Namespace) -> int:
    """Compare the models of saved runs."""
    from sahmc._support.validate import require
    from sahmc.cli.output import is_doubtful, print_comparison
    from sahmc.comparison import compare
    from sahmc.results.result import Result

    files = {str(path): path for path in args.run_files}
    must, todo = "compare needs two runs or more", "write: sahmc compare one.nc two.nc"
    require(len(files) > 1, must, ", ".join(files), todo)
    stems = [path.stem for path in files.values()]
    names = stems if len(set(stems)) == len(stems) else list(files)
    results = {name: Result.load(path) for name, path in zip(names, files.values(), strict=True)}
    doubtful = [name for name, result in results.items() if is_doubtful(result)]
    print_comparison(compare(results, loo=False), doubtful, args.json)  # files have no log likelihoods
    return DOUBTFUL if doubtful else GOOD


def report_run(args: argparse.Namespace) -> int:
    """Write the report page of a saved run."""
    _require_pictures()
    from sahmc.plots.report import write_report

    return _write(args, ".html", partial(write_report, overwrite=args.overwrite))


def plot_run(args: argparse.Namespace) -> int:
    """Plot the overview of a saved run."""
    _require_pictures()
    from sahmc.plots.figures import plot_overview, save_figure

    return _write(args, ".png", lambda result, out: save_figure(plot_overview(result), out, overwrite=args.overwrite))


def _write(args: argparse.Namespace, suffix: str, write: Callable[[Result, Path], None]) -> int:
    """Write a file about a saved run, named after it if the user gave no name."""
    from sahmc.results.result import Result

    out = args.out or args.run_file.with_suffix(suffix)
    _require_new(out, args.overwrite)
    write(Result.load(args.run_file), out)
    print(f"Wrote {out}")
    return GOOD


def _require_pictures() -> None:
    """Raise a ValueError before the run if figures cannot be drawn."""
    from sahmc._support.validate import require_library

    require_library("matplotlib", "plots")


def show_demo(args: argparse.Namespace) -> int:
    """Show three modes, sampled by SAHMC and by plain HMC."""
    _require_pictures()
    from sahmc.cli.demo import run_demo

    with _progress_lines():
        run_demo(args.out, args.seed)
    return GOOD


def reproduce_paper(args: argparse.Namespace) -> int:
    """Run experiments of the paper."""
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
    _require_pictures()
    everything = args.action == "all"
    for name in NAMES if everything else [args.name]:
        try:
            run_experiment(name, args.out / name, quick=args.quick, seeds=args.seeds, data=args.data)
        except NoDataError as error:
            if not everything:
                raise ValueError(str(error)) from error
            print(f"  {name} left out: {error}")
    return GOOD
