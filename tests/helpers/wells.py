"""Wells with known barriers between them."""

import jax.numpy as jnp

import sahmc

A, ORIGIN, B = "at (a, a)", "at the origin", "at (b, b)"


def modes_of(target):
    low, high = (-6.0, 4.0) if "-6" in target.name else (-8.0, 6.0)
    return {A: jnp.full(2, low), ORIGIN: jnp.zeros(2), B: jnp.full(2, high)}


def barrier_between(target, one, other, **settings):
    modes = modes_of(target)
    return sahmc.energy_barrier(target.log_density, modes[one], modes[other], **settings)


SCALES = {"tiny": 1e-4, "plain": 1.0, "huge": 1e4}


def bent_wells(position):
    """Wells at plain = -1 and 1, joined by a valley, bent in the other two, over a saddle of height 8 at plain = 0."""
    tiny, plain, huge = (jnp.sum(position[name]) / scale for name, scale in SCALES.items())
    across = 12.5 * (tiny - 2 * plain**2) ** 2 + 0.5 * (huge - 3 * plain - 4 * (1 - plain**2)) ** 2
    return -(8 * (plain**2 - 1) ** 2 + across)


def well(side):
    return {"tiny": jnp.array([2e-4]), "plain": jnp.asarray(1.0 * side), "huge": jnp.array([[3e4 * side]])}
