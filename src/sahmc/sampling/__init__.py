"""The functions ``sample`` and ``resume``: what a user may ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Array, Key

from sahmc._support.hints import with_hints
from sahmc._support.types import PositionFn
from sahmc.checkpoint.journal import Journal
from sahmc.engine.loop import chunk_capacity
from sahmc.engine.settings import Settings
from sahmc.engine.stage import StageRunner
from sahmc.engine.start import Prepared, start_chains
from sahmc.kernels.base import Kernel
from sahmc.progress.display import progress
from sahmc.progress.progress import Progress
from sahmc.results.precision import Precision
from sahmc.results.result import Result
from sahmc.sampling.session import Request, make, warned
from sahmc.tilt.gain import Gain
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
from sahmc.tilt.tilts import Tilt
from sahmc.warmup.tempered import WarmupContext
from sahmc.warmup.warmup import WarmedUp, warm_up


@with_hints
def sample(
    model: object = None,
    initvals: object = None,
    *,
    model_args: tuple[object, ...] = (),
    model_kwargs: Mapping[str, object] | None = None,
    draws: int | np.integer = Settings.draws,
    tune: int | np.integer = Settings.tune,
    chains: int | np.integer = Settings.chains,
    random_seed: object = None,
    target_accept: float = Settings.target_accept,
    kernel: str | Kernel = Settings.kernel,
    tilt: str | Tilt = Settings.tilt,
    partition: EnergyPartition | TemperatureLadder | None = None,
    gain: Gain | float | int | None = None,
    desired: object = None,
    theta: Literal["shared", "per-chain"] = Settings.theta,
    adapt: Literal["tune", "always"] = Settings.adapt,
    thin: int | np.integer = Settings.thin,
    jumps: bool = Settings.jumps,
    reference: bool = Settings.reference,
    symmetries: object = Settings.symmetries,
    keep: PositionFn | None = None,
    save_warmup: bool = Settings.save_warmup,
    until: Precision | None = None,
    max_time: float | int | None = None,
    max_gradients: float | int | None = None,
    checkpoint: str | Path | None = None,
    devices: object = None,
    check: Literal["serial"] | None = None,
    progressbar: bool = True,
    callback: Callable[[Progress], None] | None = None,
) -> Result:
    """Draw from a posterior that may have many modes.

    Parameters
    ----------
    model
        A function from one position (any pytree of float arrays) to its log density, up to a constant, written with
        ``jax.numpy``; a ``Model``; or a model of NumPyro, PyMC, Bambi or BridgeStan as it is. None, the default, takes
        the PyMC model of the surrounding ``with`` block.
    initvals
        One position, from which every chain starts; a list of positions, one for each chain; or a function from a JAX
        key to a position. If the model names its variables, pass a dict of these instead of each position. The result
        of another run gives a warm start, on new data for example. Chains then start from its draws, and its ladder,
        metric and theta replace pilot and climb. None, the default, lets the model draw the starts; a bare log density
        cannot.
    model_args
        The positional arguments of a NumPyro model, a tuple; empty by default.
    model_kwargs
        The keyword arguments of a NumPyro model, a dict; none by default.
    draws
        The number of draws kept of each chain, an int. Default 1000.
    tune
        The number of warm-up iterations before the draws, an int: pilot, climb, learning of theta. Default 1000.
    chains
        The number of chains, an int. They run in parallel and learn together; a few dozen cost little more than one.
        Default 32.
    random_seed
        An int, a NumPy ``Generator`` or a JAX key. If None, the default, a seed is chosen at random.
        ``Result.settings`` records it.
    target_accept
        The target acceptance probability of step-size tuning, a float in (0, 1). The default 0.8 suits HMC; use about
        0.3 for a random walk.

    Other parameters
    ----------------
    kernel
        How chains move: "hmc" (the default), "nuts", "rmhmc", "random_walk", or an object such as
        ``sahmc.HMC(metric="dense")``.
    tilt
        The function of the energy that flattens the barriers, with learnt weights theta: "tempered" (the default),
        "linear", "step" (the paper's), "none" (plain HMC), or an object with its partition.
    partition
        The regions of the tilt: an ``EnergyPartition`` for the step and linear tilts, a ``TemperatureLadder`` for the
        tempered one. If None, the default, the warm-up finds them.
    gain
        The gain with which theta learns: a ``Gain``, or a number, its t0, counted in moves as in the paper. If None,
        the default, t0 is a twentieth of the adaptation, and the gain decays as levels are visited.
    desired
        The desired visiting frequencies, one positive number for each region of a given partition. If None, the
        default, they are equal.
    theta
        Whether theta is "shared", so that all chains learn it together (the default), or one "per-chain" (the paper).
    adapt
        When theta learns: only during "tune", after which it is averaged and frozen (the default), or "always" (the
        paper). Draws are exact once theta is frozen. While it learns they are right only in the limit of a small gain.
        If theta moves by a nat before its chains have passed between the modes, it drives them, and no weight corrects
        that.
    thin
        The number of iterations per kept draw, an int; the last of them is kept. Default 1.
    jumps
        Whether chains also jump between the modes that the warm-up found, a bool. Draws are right either way. Without
        jumps, chains pass between modes only over the top of the ladder. Default True.
    reference
        Whether the ladder may end in a reference, a bool: a normalised density that the warm-up fits to the modes it
        finds. Hot levels are then proper, and ``log_evidence`` is known. A reference is used for a log density without
        a separate prior, and if the path to the prior is long. Otherwise, or if you give the partition, the ladder ends
        in heat or in the prior. Draws are right either way. Default True.
    symmetries
        The symmetries that give modes equivalent copies (label switching). "auto", the default, looks for them if
        positions have named arrays; None ignores them. You can also pass a list of ``Permute``, ``Flip`` and functions
        from position to position, which is checked and used. The search counts copies as one mode, draws cover all of
        them equally, and ``Result.relabel`` carries the draws to one copy.
    keep
        A function, written with ``jax.numpy``, of a position, or of the variables of a model that names them. Its value
        is kept instead of the draw. If None, the default, the whole draw is kept.
    save_warmup
        Whether to keep draws of the adaptation too, from every eighth move or fewer, in ``Result.warmup_draws``; a
        bool. Default False.
    until
        A target precision, a ``sahmc.Precision`` such as ``Precision(mass=0.01, ess=400)``. After the first ``draws``
        of each chain, further rounds follow until the target is met. If a limit comes first, that is a finding. If
        None, the default, there is one round.
    max_time
        The time limit of the call in seconds, a number: draws stop early enough for the result to be ready. The warm-up
        is never cut short. If None, the default, there is no limit.
    max_gradients
        The maximum number of gradients of warm-up and draws, a number: fewer draws are made if they would cost more.
        The search for modes in the draws comes on top. If None, the default, there is no limit.
    checkpoint
        A folder in which the run is recorded as it goes on. After a crash, repeat the call or use ``sahmc.resume``; the
        run continues, to the same bits. Draws stay on disk and may exceed the memory. If None, the default, nothing is
        written.
    devices
        The devices over which chains are split evenly: the number of them, a list, a mesh, or "all". None, the default,
        means JAX's default device, or all devices of all processes joined by ``sahmc.join_hosts``. On CPUs the draws
        have the same bits on any number of devices.
    check
        "serial" repeats the first moves of each stage on one device, and raises ``RuntimeError`` if their bits differ.
        If None, the default, nothing is compared.
    progressbar
        Whether to show progress, a bool: bars on a terminal or in a notebook, elsewhere log lines of the logger "sahmc"
        at level INFO. Default True.
    callback
        A function that receives a ``Progress`` a few times a second; none by default.

    Look at ``findings`` of the result first: they report any problem with the run, and a warning lists them too.
    ``warmup`` shows what the warm-up chose.

    If you give the partition and a kernel with step size and metric, there is no pilot run. Theta then starts from
    zero, and the algorithm is exactly the paper's.
    """
    settings = Settings(
        draws=draws,
        tune=tune,
        chains=chains,
        target_accept=target_accept,
        kernel=kernel,
        tilt=tilt,
        partition=partition,
        gain=gain,
        desired=desired,
        theta=theta,
        adapt=adapt,
        thin=thin,
        jumps=jumps,
        reference=reference,
        symmetries=symmetries,
        keep=keep,
        save_warmup=save_warmup,
    )
    request = Request(model, initvals, settings, model_args, model_kwargs, until, max_time, max_gradients)
    return warned(
        make(
            request,
            random_seed,
            checkpoint=checkpoint,
            devices=devices,
            check=check,
            progressbar=progressbar,
            callback=callback,
        )
    )


@with_hints
def resume(
    checkpoint: str | Path,
    *,
    draws: int | np.integer | None = None,
    devices: object = None,
    check: Literal["serial"] | None = None,
    progressbar: bool = True,
    callback: Callable[[Progress], None] | None = None,
) -> Result:
    """Go on with the run in a folder as if it had never stopped, or read back a complete one.

    The model and the other arguments of ``sample`` were pickled with it, so resume only checkpoints you trust.

    Parameters
    ----------
    checkpoint
        The folder that was passed to ``sample``.
    draws
        The total number of draws of each chain, an int. A shorter run is extended to it, bit for bit as if you had
        asked for this number at first. If None, the default, the run makes the number last asked for.
    devices, check
        The devices over which chains are split, and whether to compare with one of them, as for ``sample``. They may
        differ from those of the original run, in kind and in number.
    progressbar
        Whether to show progress, as for ``sample``. Default True.
    callback
        A function that receives a ``Progress``, as for ``sample``; none by default.
    """
    request, seed = Request.stored(checkpoint, draws)
    return warned(
        make(
            request,
            seed,
            checkpoint=checkpoint,
            devices=devices,
            check=check,
            progressbar=progressbar,
            callback=callback,
        )
    )


def warm_up_only(ready: Prepared, rng_key: Key[Array, ""]) -> WarmedUp:
    """Run the warm-up alone, and return everything needed to make draws in a loop outside ``sample``."""
    with progress(ready.plan.stages, False, None) as report:
        started = start_chains(ready)
        runner = StageRunner(rng_key, chunk_capacity(*ready.positions.shape), report, Journal())
        return warm_up(WarmupContext(runner, ready.energy_fn, ready.plan), started.state, shown=started.minima)
