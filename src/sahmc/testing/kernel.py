"""Checks of the contract of a kernel: the promises it must keep before you can trust its draws."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from sahmc._support.validate import require, require_count, require_known, require_seed
from sahmc.hamiltonian.integrators import Flow
from sahmc.hamiltonian.spread import Spread
from sahmc.kernels.base import Kernel, TransitionInfo
from sahmc.testing.cases import CASES, HIGH, LOW, frozen_target
from sahmc.testing.invariance import check_invariance, grid_sampler, require_kernel
from sahmc.tilt.target import ChainState, TiltedTarget
from sahmc.tilt.tilts import NoTilt

FOUR_SIGMA = 6.3e-5
"""The p-value below which a kernel fails the test of invariance."""
STEP_SIZE = 0.4
"""The step size of kernels that leave theirs open."""
SAME_FLOW = ("step", "step with prior", "tempered")
"""The cases with the same dynamics as another case."""
START = (-1.3, -0.6)
"""A position in a well."""


class Check(NamedTuple):
    """One promise of the contract, with its measurement."""

    name: str
    passed: bool
    detail: str
    """The measurement, as text."""

    def __str__(self) -> str:
        return f"{'passed' if self.passed else 'FAILED'}  {self.name}: {self.detail}"


def check_kernel(
    kernel: Kernel,
    *,
    chains: int = 20_000,
    steps: int = 4,
    seed: int = 0,
    only: tuple[str, ...] | None = None,
    cases: tuple[str, ...] = tuple(CASES),
) -> tuple[Check, ...]:
    """Check a kernel against its contract, and raise an ``AssertionError`` that lists every broken promise.

    There are six checks, and ``only`` selects some of them by name. "invariance" moves ``chains`` exact draws by
    ``steps`` transitions under every tilt: the density must stay the same, and chains must move. "flow" checks that the
    ``flow``, if there is one, is reversible and preserves volume. "traces" checks that a new theta, step size or key
    compiles nothing. "dtypes" checks that float32 and float64 are preserved. "energies" checks energies that are
    infinite or not a number. "keys" checks the use of the key. ``cases`` selects some of the tilts.
    """
    require_kernel(kernel)
    for count, name in ((chains, "chains"), (steps, "steps")):
        require_count(count, name)
    require_seed(seed, "seed")
    for names, name in ((() if only is None else only, "only"), (cases, "cases")):
        ok = isinstance(names, Collection) and not isinstance(names, str) and not hasattr(names, "dtype")
        require(ok, f"{name} must be a list of names", names, "pass a list, or leave it out")
    if kernel.tunes_step_size or kernel.uses_spread:
        kernel = kernel.tuned(STEP_SIZE, Spread.unknown(2))
    parts: dict[str, Callable[[], Iterator[Check]]] = {
        "invariance": lambda: _invariance(kernel, cases, chains, steps, seed),
        "flow": lambda: _flow(kernel, cases),
        "traces": lambda: _traces(kernel),
        "dtypes": lambda: _dtypes(kernel),
        "energies": lambda: _energies(kernel),
        "keys": lambda: _keys(kernel),
    }
    for name in only or ():
        require_known(name, parts, "only")
    for name in cases:
        require_known(name, CASES, "cases")
    checks = tuple(check for name, part in parts.items() if only is None or name in only for check in part())
    broken = [str(check) for check in checks if not check.passed]
    if broken:
        raise AssertionError(f"{type(kernel).__name__} breaks the contract of a kernel:\n  " + "\n  ".join(broken))
    return checks


def _invariance(kernel: Kernel, cases: tuple[str, ...], chains: int, steps: int, seed: int) -> Iterator[Check]:
    """Compare moved draws with fresh ones under every tilt."""
    for case in cases:
        target = frozen_target(case, kernel.uses_gradient)
        draw = grid_sampler(target, LOW, HIGH)
        p_value, moved = check_invariance(kernel, target, draw, chains=chains, steps=steps, seed=seed)
        yield Check(f"invariance, {case}", p_value > FOUR_SIGMA, f"p = {p_value:.2g}")
        yield Check(f"moves, {case}", moved > 0.2, f"{moved:.0%} of chains moved in {steps} steps")


def _flow(kernel: Kernel, cases: tuple[str, ...]) -> Iterator[Check]:
    """Take three steps in float64 from several starts; only starts with solved steps count.

    Volume is estimated by finite differences. The median is used because a force may jump where a tilt bends.
    """
    rng = np.random.default_rng(0)
    starts = np.concatenate([rng.normal(0, 1.2, (32, 2)), rng.normal(0, 0.7, (32, 2))], axis=1)
    flip, h = np.array([1.0, 1.0, -1.0, -1.0]), 1e-3
    with jax.enable_x64(True):
        for case in (case for case in cases if case not in SAME_FLOW):
            target = frozen_target(case, kernel.uses_gradient, jnp.float64)
            level = jnp.int32(min(1, len(target.tilt.step_scale) - 1))
            flow = kernel.flow(target, level, jnp.asarray(kernel.step_size, jnp.float64))
            if flow is None:
                return

            def there(z: jax.Array, flow: Flow = flow, target: TiltedTarget = target) -> tuple[jax.Array, jax.Array]:
                state, momentum, solved = flow(target.evaluate(z[:2]), z[2:], 3)
                return jnp.concatenate([state.position, momentum]), jnp.asarray(solved)

            many = jax.jit(jax.vmap(there))
            end, solved = map(np.asarray, many(starts))
            back, again = map(np.asarray, many(flip * end))
            tame = solved & again
            off, gone = (np.abs(x - starts)[tame].max(initial=0.0) for x in (flip * back, end))
            good = tame.mean() > 0.5 and off < 1e-5 and gone > 1e-3
            detail = f"back to within {off:.1g} after {gone:.2g}, {tame.mean():.0%} of starts solved"
            yield Check(f"reversible, {case}", good, detail)
            sides = [np.stack([many(starts + sign * h * e)[0] for e in np.eye(4)], axis=1) for sign in (1, -1)]
            volume = (
                float(np.median(np.abs(np.linalg.det((sides[0] - sides[1]) / (2 * h)))[tame])) if tame.any() else np.nan
            )
            yield Check(f"volume, {case}", abs(volume - 1) < 1e-3, f"determinant {volume:.5f}")


def _stepper(kernel: Kernel) -> tuple[Callable[..., tuple[ChainState, TransitionInfo]], list[int]]:
    """Return one move of many chains, compiled as in ``sample``, and a list that counts its traces."""
    count = [0]

    @jax.jit
    def step(
        keys: jax.Array, states: ChainState, kernel: Kernel, target: TiltedTarget
    ) -> tuple[ChainState, TransitionInfo]:
        count[0] += 1
        kernel = kernel.refresh(jax.random.uniform(keys[0], (kernel.shared,)))
        return jax.vmap(kernel.step, (0, 0, None))(keys, states, target)

    return step, count


def _begin(
    target: TiltedTarget, chains: int, dtype: DTypeLike = jnp.float32, start: tuple[float, float] = START
) -> ChainState:
    """Return the states of ``chains`` that all begin at ``start``."""
    return jax.vmap(target.evaluate)(jnp.tile(jnp.asarray(start, dtype), (chains, 1)))


def _traces(kernel: Kernel) -> Iterator[Check]:
    """Count the traces of three moves with different key, theta and step size."""
    step, count = _stepper(kernel)
    target = frozen_target("tempered", kernel.uses_gradient)
    states = _begin(target, 8)
    other = jax.tree.map(
        lambda leaf: leaf * 1.01 if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf, kernel
    )
    for turn, used in enumerate((kernel, kernel, other)):
        target = target.with_theta(target.theta + turn)
        states, _ = step(jax.random.split(jax.random.key(turn), 8), states, used, target)
    yield Check("traces", count[0] == 1, f"{count[0]} for three moves of different key, theta and step size")


def _dtypes(kernel: Kernel) -> Iterator[Check]:
    """Compare the types of states before and after a move, in float32 and in float64."""
    for dtype in (jnp.float32, jnp.float64):
        with jax.enable_x64(dtype == jnp.float64):
            target = frozen_target("linear with prior", kernel.uses_gradient, dtype)
            states = _begin(target, 4, dtype)
            after, info = _stepper(kernel)[0](jax.random.split(jax.random.key(0), 4), states, kernel, target)
            same = jax.tree.map(lambda a, b: a.dtype == b.dtype and a.shape == b.shape, states, after)
            floats = [info.acceptance_rate, info.mechanical_acceptance, info.energy_error]
            good = all(jax.tree.leaves(same)) and all(x.dtype == dtype for x in floats)
            found = sorted({str(x.dtype) for x in jax.tree.leaves((after, floats))})
            yield Check(f"dtypes, {np.dtype(dtype).name}", good, f"state and energies in {', '.join(found)}")


def _energies(kernel: Kernel) -> Iterator[Check]:
    """Test a density that ends at |x| = 1, with an energy beyond that is infinite or not a number."""
    for name, outside in (("wall", -jnp.inf), ("not a number", jnp.nan)):

        def log_density(x: jax.Array, outside: float = outside) -> jax.Array:
            return jnp.where(jnp.abs(x[0]) > 1.0, outside, -0.5 * jnp.sum(x**2))

        target = TiltedTarget.build(log_density, jnp.zeros(2), NoTilt(), kernel.uses_gradient)
        step, _ = _stepper(kernel)
        states, left, wrong, flagged = _begin(target, 200, start=(0.2, -0.3)), 0, 0, 0
        for turn in range(40):
            states, info = step(jax.random.split(jax.random.key(turn), 200), states, kernel, target)
            left += int((~(jnp.abs(states.position[:, 0]) <= 1.0)).sum())
            wrong += int((~jnp.isfinite(states.energy)).sum())
            flagged += int((info.diverging | info.failed).sum())
        spread = float(jnp.std(states.position[:, 0]))
        good = left == wrong == 0 and 0.3 < spread < 0.8 and (name == "wall" or flagged > 0)
        detail = f"{left} states outside, {wrong} bad energies, spread {spread:.2f}, {flagged} moves flagged"
        yield Check(f"energies, {name}", good, detail)


def _keys(kernel: Kernel) -> Iterator[Check]:
    """Compare moves from one state with the same key and with different keys."""
    step, _ = _stepper(kernel)
    target = frozen_target("none", kernel.uses_gradient)
    states, keys = _begin(target, 500), jax.random.split(jax.random.key(3), 500)
    first, _ = step(keys, states, kernel, target)
    again, _ = step(keys, states, kernel, target)
    yield Check("same key, same move", bool((first.position == again.position).all()), "two runs compared")
    moved = first.position[(first.position != states.position).any(axis=1)]
    distinct = len(np.unique(np.asarray(moved), axis=0))
    good = len(moved) > 50 and distinct == len(moved)
    yield Check("other keys, other moves", good, f"{distinct} different of {len(moved)} moves from one state")
