"""Random numbers for all chains, for one move or many at once.

Each number is a hash of the key of its move, the index of its chain and its own index. So it does not depend on the
batch size or on the device. The hash is Threefry-2x32 with 20 rounds (Salmon et al. 2011), as in ``jax.random``. It is
written out here so that it compiles into one loop with the code that uses it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Key, UInt32

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""The rotations of the rounds, in alternating groups of four."""
PARITY, ROUNDS = 0x1BD11BDA, 20
"""The constant in the third word of the key, and the number of rounds."""
NORMAL, UNIFORM, SHARED = (2**32 - i for i in (1, 2, 3))
"""The second word of the counter, one value for each use; values below 2^31 are for ``jax.random.fold_in``."""

Words = UInt32[Array, "..."]


def threefry(key: tuple[Words, Words], first: Words, second: Words) -> tuple[Words, Words]:
    """Return the two hash words of a two-word counter."""
    words = (*key, key[0] ^ key[1] ^ jnp.uint32(PARITY))
    first, second = first + words[0], second + words[1]
    for i in range(ROUNDS):
        turn = ROTATIONS[(i // 4) % 2][i % 4]
        first = first + second
        second = first ^ ((second << jnp.uint32(turn)) | (second >> jnp.uint32(32 - turn)))
        if i % 4 == 3:
            j = i // 4 + 1
            first, second = first + words[j % 3], second + words[(j + 1) % 3] + jnp.uint32(j)
    return first, second


class Noise(NamedTuple):
    """The random numbers of moves, flat along the last axis, chain after chain."""

    normal: tuple[Float[Array, "*moves numbers"], ...]
    """Standard normal numbers; those of a chain come from the first array, then from the second."""
    uniform: Float[Array, "*moves numbers"]
    """Uniform numbers on (0, 1)."""
    shared: Float[Array, "*moves shared"]
    """Uniform numbers shared by all chains."""

    def of_chains(self, chains: int, dim: int) -> tuple[Float[Array, "chains dim"], Float[Array, "chains uniforms"]]:
        """Return the numbers of one move as arrays (chain, number), with ``dim`` normal numbers for each chain."""
        normal = jnp.concatenate([part.reshape(chains, -1) for part in self.normal], axis=1)
        return normal[:, :dim], self.uniform.reshape(chains, -1)


def make_noise(
    keys: Key[Array, "*moves"], chains: int, dim: int, uniforms: int, shared: int, dtype: DTypeLike, first: int | Array
) -> Noise:
    """Return the noise of one or many moves, from their keys, for ``chains`` chains starting at index ``first``.

    Each chain has ``dim`` normal and ``uniforms`` uniform numbers; all chains together have ``shared`` uniform numbers.
    """
    words = jax.random.key_data(keys)[..., None, :]
    key, wide = (words[..., 0], words[..., 1]), dtype == jnp.float64

    def hashed(of_each: int, begin: int | Array, kind: int) -> tuple[Words, Words]:
        counter = jnp.asarray(begin * of_each, jnp.uint32) + jnp.arange(chains * of_each, dtype=jnp.uint32)
        return threefry(key, counter, jnp.full_like(counter, jnp.uint32(kind)))

    half = dim if wide else -(-dim // 2)
    normal, uniform = hashed(half, first, NORMAL), hashed(uniforms, first, UNIFORM)
    all_alike = jnp.arange(shared, dtype=jnp.uint32)
    together = threefry(key, all_alike, jnp.full_like(all_alike, jnp.uint32(SHARED)))
    if wide:
        return Noise((_normal64(*normal),), _uniform64(*uniform), _uniform64(*together))
    return Noise((_normal32(normal[0]), _normal32(normal[1])), _uniform32(uniform[0]), _uniform32(together[0]))


def _uniform32(word: Words) -> Float[Array, "..."]:
    """Return a uniform number: the middle of one of 2^23 equal parts of (0, 1)."""
    return (word >> jnp.uint32(9)).astype(jnp.float32) * jnp.float32(2**-23) + jnp.float32(2**-24)


def _normal32(word: Words) -> Float[Array, "..."]:
    """Return a normal number, from the middle of one of 2^24 equal parts of (-1, 1)."""
    within = (word >> jnp.uint32(8)).astype(jnp.float32) * jnp.float32(2**-23) - 1 + jnp.float32(2**-24)
    return jnp.float32(2**0.5) * jax.lax.erf_inv(within)


def _mantissa(high: Words, low: Words) -> Float[Array, "..."]:
    """Return a whole number below 2^52."""
    return (high >> jnp.uint32(6)).astype(jnp.float64) * 2**26 + (low >> jnp.uint32(6)).astype(jnp.float64)


def _uniform64(high: Words, low: Words) -> Float[Array, "..."]:
    """Return a uniform number: the middle of one of 2^52 equal parts of (0, 1)."""
    return _mantissa(high, low) * 2.0**-52 + 2.0**-53


def _normal64(high: Words, low: Words) -> Float[Array, "..."]:
    """Return a normal number, from the middle of one of 2^52 equal parts of (-1, 1)."""
    return jnp.sqrt(2.0) * jax.lax.erf_inv(_mantissa(high, low) * 2.0**-51 - 1 + 2.0**-52)
