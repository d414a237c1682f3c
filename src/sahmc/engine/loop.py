"""The compiled loop of moves, run in chunks; Python looks at the outcome between chunks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree, UInt32

from sahmc._support.chain_axis import Each, Groups, over_parts, parts, vmap
from sahmc._support.compiled import compiled
from sahmc._support.hosts import told_of_losses
from sahmc._support.noise import Noise
from sahmc._support.platform import on_accelerator
from sahmc._support.pytree import T
from sahmc.algorithm import noise_of
from sahmc.engine.devices import ONE, Devices
from sahmc.engine.interrupts import Interrupts
from sahmc.engine.move import (
    NEVER,
    Draw,
    MoveSums,
    RunState,
    Schedule,
    Setup,
    Snapshot,
    make_move,
    no_draw,
    no_sums,
    snapshot_of,
)

CHUNK_SECONDS = 0.3
"""The intended duration of a chunk, in seconds."""
FIRST_CHUNK, LONG_FIRST_CHUNK = 16, 256
"""The number of moves in the first chunk of a run, before their speed is known, and the maximum in that of a later
stage."""
CHUNK_BYTES = 2**26
"""The maximum number of bytes of draws in a chunk."""
CHUNK_DRAWS = 2048
"""The maximum number of draws in a chunk."""
BLOCK, BLOCK_NUMBERS = 16, 2**24
"""The number of moves for which random numbers are generated at once, and the maximum of these numbers. An accelerator
always makes the whole block of moves, since checking whether to stop would make it wait."""
SNAPSHOTS = 64
"""The number of moments of a stage at which theta is recorded."""
Carry = tuple[RunState, Draw, Snapshot, MoveSums]
"""What a move changes: the state, the slots of draws and snapshots, and the sums over moves."""


@partial(compiled, static_argnames=("capacity", "devices"))
def run_chunk(
    words: UInt32[Array, " words"],
    state: RunState,
    setup: Setup,
    schedule: Schedule,
    num: Int[Array, ""],
    done: Int[Array, ""],
    every: Int[Array, ""],
    capacity: int,
    devices: Devices = ONE,
) -> tuple[RunState, Draw, Snapshot, MoveSums]:
    """Make ``num`` moves of a stage, and return the state, draws, snapshots and sums over the moves.

    ``words`` are the words of the run's key. The stage has already made ``done`` moves. Every ``schedule.thin``-th move
    of the stage gives a draw, and every ``every``-th move a snapshot. The first slot of each is for the one that was in
    progress at ``done``. There is room for ``capacity`` draws. Chains are split over ``devices``.
    """
    loop = devices.split(partial(_loop, capacity=capacity, groups=devices.groups), state)
    return loop(words, state, setup, schedule, num, done, every)


def _loop(
    words: UInt32[Array, " words"],
    state: RunState,
    setup: Setup,
    schedule: Schedule,
    num: Int[Array, ""],
    done: Int[Array, ""],
    every: Int[Array, ""],
    capacity: int,
    groups: int | None,
) -> tuple[RunState, Draw, Snapshot, MoveSums]:
    """Make the moves of ``run_chunk`` for one device's share of the chains.

    ``groups`` is the total number of groups over all devices, or None.
    """
    block, waits = _block(setup, state), on_accelerator()
    rng_key = jax.random.wrap_key_data(words, impl="threefry2x32")

    mine = None if groups is None else Groups(groups // parts(), jnp.where(num < 0, 0, groups // parts()))
    each: Each = vmap if mine is None else mine

    def noise_from(t_key: Int[Array, ""]) -> tuple[Key[Array, " block"], Noise]:
        keys = jax.vmap(jax.random.fold_in, (None, 0))(rng_key, t_key + jnp.arange(block))
        if mine is None:
            return keys, noise_of(keys, setup.kernel, state.sahmc)
        made = mine.numbered(lambda i: noise_of(keys, setup.kernel, state.sahmc, mine.num, i))
        joined = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1).reshape(block, -1), made)
        return keys, joined._replace(shared=made.shared[0])

    def move(i: Int[Array, ""], randomness: tuple[Key[Array, ""], Noise], carry: Carry) -> Carry:
        (key, noise), (state, draws, snapshots, sums) = randomness, carry
        is_draw = (done + i + 1) % schedule.thin == 0
        new, draw, more = make_move(key, noise, state, setup, schedule, is_draw, each)
        live = i < num
        if waits:  # moves beyond the last one are made and discarded
            new, more = jax.tree.map(partial(jnp.where, live), (new, more), (state, zero))

        def into(size: Int[Array, ""] | int, slots: PyTree, values: PyTree) -> PyTree:
            slot = jnp.where(live, (done + i) // size - done // size, jax.tree.leaves(slots)[0].shape[0] - 1)
            return jax.tree.map(lambda all, new: all.at[slot].set(new), slots, values)

        draws = into(schedule.thin, draws, draw)
        snapshots = into(every, snapshots, snapshot_of(new))
        return new, draws, snapshots, jax.tree.map(jnp.add, sums, more)

    def moves(b: Int[Array, ""], carry: Carry) -> Carry:
        start, randomness = b * block, noise_from(carry[0].t_key)
        if waits:
            each = start + jnp.arange(block), randomness
            return jax.lax.scan(lambda carry, x: (move(*x, carry), None), carry, each)[0]

        def one(j: Int[Array, ""], carry: Carry) -> Carry:
            return move(start + j, jax.tree.map(lambda x: x[j], randomness), carry)

        return jax.lax.fori_loop(0, jnp.minimum(block, num - start), one, carry)

    draws = _room(no_draw(setup, state), capacity + 1)
    snapshots, zero = _room(snapshot_of(state), SNAPSHOTS + 2), no_sums(state)
    state, draws, snapshots, sums = jax.lax.fori_loop(
        0, (num + block - 1) // block, moves, (state, draws, snapshots, zero)
    )
    return state, draws, snapshots, over_parts(jax.tree.map(partial(jnp.sum, axis=0), sums))


def _block(setup: Setup, state: RunState) -> int:
    """Return the number of moves for which random numbers are generated at once."""
    chains, dim = state.sahmc.chains.position.shape
    return int(np.clip(BLOCK_NUMBERS // (chains * (dim + (setup.kernel.uniforms or 0))), 1, BLOCK))


def _room(like: T, size: int) -> T:
    """Return zeros with room for ``size`` pytrees such as ``like``, along a new leading axis."""
    return jax.tree.map(lambda x: jnp.zeros((size, *x.shape), x.dtype), like)


class Chunk(NamedTuple):
    """The outcome of some moves; all arrays but those of the state are NumPy arrays."""

    state: RunState
    draws: Draw | None
    """The draws, if they are to be stored."""
    snapshots: Snapshot
    visits: np.ndarray
    """The visits to each region in these moves."""
    moves: int
    """The number of these moves."""
    pace: int
    """An estimate, from these moves, of the number of moves that takes CHUNK_SECONDS."""
    sums: MoveSums
    """Sums over these moves."""


def chunks(
    rng_key: Key[Array, ""],
    state: RunState,
    setup: Setup,
    schedule: Schedule,
    draws: int,
    capacity: int,
    *,
    done: int = 0,
    every: int = NEVER,
    pace: int = FIRST_CHUNK,
    store: bool = True,
    devices: Devices = ONE,
    presses: Interrupts | None = None,
) -> Iterator[Chunk]:
    """Yield the rest of a stage of ``draws`` draws after ``done`` moves, in chunks of about ``CHUNK_SECONDS``.

    A chunk has room for ``capacity`` draws, and the first chunk makes ``pace`` moves. There is a snapshot after every
    ``every`` moves. ``store`` says whether to return draws. Chains are split over ``devices``. How chunks are cut does
    not affect the bits. If Ctrl-C was pressed in any process, all raise ``KeyboardInterrupt`` between the same two
    chunks.
    """
    presses = Interrupts() if presses is None else presses
    words, total, size = np.asarray(jax.random.key_data(rng_key)), draws * schedule.thin, pace
    setup, state, checked = devices.everywhere(setup), devices.spread(state), not devices.check
    while done < total:
        phase = done % schedule.thin
        size, stop = presses.heed(min(size, total - done, capacity * schedule.thin - phase))
        if stop:
            raise KeyboardInterrupt
        if not checked:
            size, checked = min(size, FIRST_CHUNK), True
            compare_with_one(words, state, setup, schedule, (size, done, every), capacity, devices)
        before = np.asarray(devices.whole(state.sahmc.theta.visits))
        began = time.perf_counter()
        with told_of_losses():
            state, kept, snapshots, sums = jax.block_until_ready(
                run_chunk(words, state, setup, schedule, *map(np.int32, (size, done, every)), capacity, devices)
            )
        rate = size / max(time.perf_counter() - began, 1e-9)
        complete = (phase + size) // schedule.thin if store else 0
        num_snapshots = (done + size) // every - done // every
        taken = _first(kept, complete), _first(snapshots, num_snapshots)
        whole, taken, sums = devices.whole((state, taken, sums))
        visits = np.asarray(whole.sahmc.theta.visits).astype(np.int64) - before
        state, whole = _forget_counts(state), _forget_counts(whole)
        done += size
        pace = max(FIRST_CHUNK, int(rate * CHUNK_SECONDS))
        yield Chunk(
            state=whole,
            draws=_cut(taken[0], complete) if store else None,
            snapshots=_cut(taken[1], num_snapshots),
            visits=visits,
            moves=size,
            pace=pace,
            sums=jax.tree.map(lambda total: np.asarray(total).item(), sums),
        )
        size = pace


def compare_with_one(
    words: np.ndarray,
    state: RunState,
    setup: Setup,
    schedule: Schedule,
    numbers: tuple[int, int, int],
    capacity: int,
    devices: Devices,
) -> None:
    """Make some moves on one device and on all of them; raise ``RuntimeError`` unless the bits agree.

    ``numbers`` are ``num``, ``done`` and ``every`` of ``run_chunk``.
    """
    many, one = (
        devices.whole(run_chunk(words, begin, given, schedule, *map(np.int32, numbers), capacity, on)[0])
        for begin, given, on in ((state, setup, devices), (*devices.whole((state, setup)), devices.alone))
    )
    differ = [
        jax.tree_util.keystr(path)
        for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(many), jax.tree.leaves(one), strict=True)
        if np.asarray(a).tobytes() != np.asarray(b).tobytes()
    ]
    if differ:
        raise RuntimeError(
            f"the first {numbers[0]} moves on {devices.num} devices and on one must have the same bits, but {differ} "
            "differ. Matrix products may be summed in another order for another number of chains: write them as sums "
            "of elementwise products, or leave check out, since the draws are right either way."
        )


@partial(jax.jit, static_argnames="rows")
def _rows(slots: PyTree, rows: int) -> PyTree:
    """Return the first ``rows`` slots of each array."""
    return jax.tree.map(lambda x: x[:rows], slots)


def _first(slots: T, num: int) -> T:
    """Return at least the first ``num`` slots of each array.

    On a CPU all slots are returned, since they are in memory already. On an accelerator the number is a power of two,
    so that few programs are compiled.
    """
    if not on_accelerator():
        return slots
    return _rows(slots, min(jax.tree.leaves(slots)[0].shape[0], 1 << max(0, num - 1).bit_length()))


def _cut(slots: T, num: int) -> T:
    """Return copies of the first ``num`` slots of each array, as NumPy arrays."""
    return jax.tree.map(lambda x: np.array(np.asarray(x)[:num]), slots)


@jax.jit
def _forget_counts(state: RunState) -> RunState:
    """Reduce the 32-bit visit counts, already summed elsewhere, to whether each region was ever visited."""
    theta = state.sahmc.theta
    visits = jnp.minimum(theta.visits, 1)
    return state._replace(sahmc=state.sahmc._replace(theta=theta._replace(visits=visits)))


def chunk_bytes(chains: int, dim: int) -> int:
    """Return the minimum number of bytes for the draws of a chunk and its random numbers."""
    return 4 * chains * ((dim + 8) * (chunk_capacity(chains, dim) + 1) + dim)


def chunk_capacity(chains: int, dim: int) -> int:
    """Return how many draws a chunk has room for, the same for runs of any length, so that they share compiled code."""
    return max(1, min(CHUNK_DRAWS, CHUNK_BYTES // (8 * chains * (dim + 8))))
