"""What made the draws, for as long as the process lives: it is not saved with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sahmc.kernels.jump import Jump
from sahmc.landscape.mode_finder import Scout, Sightings, lowest_draws, posterior_draws, spread_within
from sahmc.landscape.modes import Modes
from sahmc.models.positions import View
from sahmc.run.loop import Setup
from sahmc.tilt.target import TiltedTarget
from sahmc.tilt.tilts import NoTilt

BLOCK = 4096
"""Draws that are moved at once."""


@dataclass(frozen=True)
class Source:
    """``flat`` are the positions as vectors (chain, draw, dim); None if only something of them was kept."""

    setup: Setup
    step_scale: Any
    scout: Scout
    modes: Modes
    view: View
    flat: np.ndarray | None

    def sight(self, energy: np.ndarray, log_weight: np.ndarray) -> tuple[Sightings, int]:
        """The modes in the draws, whose ``energy`` includes the prior's; and the gradients spent."""
        assert self.flat is not None
        late = posterior_draws(self.flat, log_weight)
        scout = self.scout
        if not len(scout.draws):
            scout = replace(scout, scale=spread_within(late))
        return scout.with_draws(late).sight(self.flat, lowest_draws(self.flat, energy), self.modes)

    def rejuvenate(self, index: tuple[np.ndarray, ...], moves: int, seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
        """The draws of chains and times ``index`` after so many plain moves; which of them moved; their log density."""
        assert self.flat is not None
        kernel = self.setup.kernel
        kernel = kernel.kernel if isinstance(kernel, Jump) else kernel
        start = np.asarray(self.flat[index])
        one = jnp.ones(1, start.dtype)
        target = TiltedTarget(self.setup.program, NoTilt(), 0 * one, self.step_scale[:1] * one)
        key, parts = jax.random.key(seed), []
        for first in range(0, len(start), BLOCK):
            block = start[first : first + BLOCK]
            padded = np.concatenate([block, np.repeat(block[-1:], BLOCK - len(block), axis=0)])
            states = _moved(jax.random.fold_in(key, first), jnp.asarray(padded), kernel, target, moves)
            parts.append((np.asarray(states.position)[: len(block)], np.asarray(states.total_energy)[: len(block)]))
        end, energy = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self.view.all(end), (end != start).any(axis=1), -energy


@jax.jit
def _moved(rng_key: jax.Array, positions: jax.Array, kernel: Any, target: TiltedTarget, moves: Any) -> Any:
    step = jax.vmap(lambda key, state: kernel.step(key, state, target)[0])

    def body(i: Any, states: Any) -> Any:
        return step(jax.random.split(jax.random.fold_in(rng_key, i), len(positions)), states)

    return jax.lax.fori_loop(0, moves, body, jax.vmap(target.evaluate)(positions))
