"""The devices that share the chains: one mesh axis, theta copied to each, and integer counts summed over all."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax.typing import ArrayLike
from jaxtyping import PyTree

from sahmc._support.chain_axis import AXIS
from sahmc._support.hosts import replicated, told_of_losses
from sahmc._support.validate import Given, require
from sahmc.engine.move import RunState, Snapshot

GROUPS = 8
"""The number of groups of chains on CPUs, where devices are named. Groups run one after the other by the same program,
so the bits are the same on 1, 2, 4 and 8 devices."""
ALL = "all"
"""The word for all devices of all processes."""


@dataclass(frozen=True)
class Devices:
    """The devices on which chains move, of this process or of several."""

    mesh: Mesh | None = None
    """The mesh over which chains are split; None for a single device."""
    first: jax.Device | None = None
    """The device of this process for everything else; None for JAX's default device."""
    groups: int | None = None
    """The number of groups over all devices, run one after the other; None if chains are not grouped."""
    check: bool = False
    """Whether the first moves of each stage are compared with the same moves on one device."""

    @property
    def num(self) -> int:
        """The number of devices."""
        return 1 if self.mesh is None else self.mesh.size

    @property
    def alone(self) -> Devices:
        """A single device, with the chains in the same groups."""
        return Devices(None, self.first, self.groups)

    def split(self, loop: Callable[..., PyTree], state: RunState) -> Callable[..., PyTree]:
        """Return ``loop``, a function (words, state, ...), with chains split over the devices."""
        if self.mesh is None:
            return loop
        here, own = _layout(state)
        slots = P(None, AXIS)
        snapshot = Snapshot(theta=slots if own else P(), trips=slots)  # type: ignore[arg-type]
        return jax.shard_map(
            loop,
            mesh=self.mesh,
            in_specs=(P(), here, P(), P(), P(), P(), P()),
            out_specs=(here, slots, snapshot, P()),
            check_vma=False,
        )

    def everywhere(self, tree: PyTree) -> PyTree:
        """Return arrays with a copy on every device."""
        return self._placed(tree, jax.tree.map(lambda _: P(), tree))

    def spread(self, state: RunState) -> RunState:
        """Return a state whose chains are split over the devices."""
        return self._placed(state, _layout(state)[0])

    def whole(self, tree: PyTree) -> PyTree:
        """Return whole arrays in this process's memory, if there are several devices; all processes call together."""
        if self.mesh is None:
            return tree
        mesh = self.mesh

        def fetched(x: ArrayLike) -> np.ndarray:
            if not isinstance(x, jax.Array) or x.is_fully_addressable or x.is_fully_replicated:
                return np.asarray(x)
            return np.asarray(replicated(x, mesh).addressable_data(0))

        with told_of_losses():
            return jax.tree.map(fetched, tree)

    def _placed(self, tree: PyTree, layout: PyTree) -> PyTree:
        """Return arrays, which every process holds whole, placed on the devices by a pytree of specs."""
        if self.mesh is None:
            return tree
        mesh = self.mesh

        def put(x: ArrayLike, spec: P) -> jax.Array:
            whole = np.asarray(x)
            return jax.make_array_from_callback(whole.shape, NamedSharding(mesh, spec), lambda at: whole[at])

        return jax.tree.map(put, tree, layout)


ONE = Devices()
"""JAX's default device, alone."""


def _layout(state: RunState) -> tuple[RunState, bool]:
    """Return the spec of each array of a state, and whether each chain has its own theta."""
    own = state.sahmc.theta.theta.ndim == 2
    split, copied = jax.tree.map(lambda _: P(AXIS), state), jax.tree.map(lambda _: P(), state)
    theta = (split if own else copied).sahmc.theta._replace(num_averaged=P())
    return copied._replace(sahmc=split.sahmc._replace(theta=theta), trips=split.trips, glimpses=split.glimpses), own


def parse_devices(devices: Given, check: Given, chains: int) -> Devices:
    """Return the devices that ``devices`` and ``check`` of ``sample`` describe, or raise ``ValueError``.

    ``chains`` is the number of chains, which must divide evenly among them.
    """
    ok = check is None or (isinstance(check, str) and check == "serial")
    require(ok, 'check must be "serial" or None', check, "leave it out")
    several = jax.process_count() > 1
    if isinstance(devices, Mesh):
        found = list(devices.devices.flat)
    elif devices is None:
        found = jax.devices() if several else []
    elif isinstance(devices, str) and devices == ALL:
        found = jax.devices()
    elif isinstance(devices, (int, np.integer)) and not isinstance(devices, bool):
        known = len(jax.devices())
        must = f"devices must be at most the {known} that JAX sees, and at least 1"
        require(1 <= devices <= known, must, devices, "lower it, or see jax.devices()")
        found = jax.devices()[: int(devices)]
    else:
        found = list(devices) if isinstance(devices, (list, tuple)) else [devices]
        ok = bool(found) and all(isinstance(device, jax.Device) for device in found)
        must = 'devices must be a number, a list of devices, a mesh, "all" or None'
        require(ok, must, devices, "pass one of them, such as jax.devices()[:2]")
    if not found:
        return ONE
    require(len(set(found)) == len(found), "devices must be different ones", devices, "name each once")
    mine = [device for device in found if device.process_index == jax.process_index()]
    must = "every process that JAX has joined must have a device among them"
    asked = {device.process_index for device in found}
    require(len(asked) == jax.process_count(), must, f"devices of processes {sorted(asked)}", "leave devices out")
    must = f"chains must be a multiple of the {len(found)} devices"
    nearest = -(-chains // len(found)) * len(found)
    require(chains % len(found) == 0, must, chains, f"pass chains={nearest}")
    mesh = Mesh(np.array(found), (AXIS,)) if len(found) > 1 else None
    groups = max(math.gcd(GROUPS, chains), len(found)) if mine[0].platform == "cpu" else None
    if groups is not None and groups % len(found):
        groups = len(found)
    return Devices(mesh, mine[0], groups, check is not None and mesh is not None)
