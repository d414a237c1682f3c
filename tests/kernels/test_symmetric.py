"""Moves to copies leave any density as it is, whether or not the copies are true."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import HMC, DiagonalMetric, Involution, NoTilt, Permute, TiltedTarget
from sahmc._support.pytree import updated
from sahmc.kernels.around import plain
from sahmc.kernels.jump import Jump
from sahmc.kernels.symmetric import Symmetric, among_copies
from sahmc.modes.modes import fit_modes
from sahmc.modes.parts import Parts
from sahmc.modes.reference import refer
from sahmc.symmetry.fold import Fold
from sahmc.symmetry.group import make_group
from sahmc.testing import check_invariance, grid_sampler
from sahmc.testing.kernel import FOUR_SIGMA

FOLD = Fold(make_group([Permute("x")], {"x": np.arange(2)}), (np.ones(1),), ())
BY_A_MAP = Involution("swap", (1, 0), (1.0, 1.0), (0.0, 0.0))
SAME_FOLD = Fold(make_group([BY_A_MAP], {"x": np.arange(2)}), (), (), (np.array([-1.0, 1.0]),))


def symmetric(x):
    """Two pairs of bumps, each the mirror image of the other, which overlap where the domain ends."""
    places = jnp.array([[0.3, 1.2], [1.2, 0.3], [-1.5, 2.0], [2.0, -1.5]])
    return jax.nn.logsumexp(-2.0 * jnp.sum((x - places) ** 2, axis=1))


def lopsided(x):
    """The same, but what changes places changes the density."""
    return symmetric(x) + 0.7 * x[0]


def target_of(log_density):
    target = TiltedTarget.build(log_density, jnp.zeros(2), NoTilt())
    return target, grid_sampler(target, (-5, -5), (5, 5))


HMC_UNLIKE = HMC(0.4, (1, 4), metric=DiagonalMetric([2.0, 0.3]))


@pytest.mark.parametrize("fold", [FOLD, SAME_FOLD])
@pytest.mark.parametrize("density", [symmetric, lopsided])
def test_a_density_is_left_as_it_is_even_if_the_symmetry_is_false(density, fold):
    p_value, moved = check_invariance(among_copies(HMC_UNLIKE, fold), *target_of(density))
    assert p_value > FOUR_SIGMA and moved > 0.9


@pytest.mark.parametrize("density", [symmetric, lopsided])
def test_a_copy_taken_on_trust_is_caught_where_it_is_false(density):
    """The twin does not compute the energy of the copy."""

    class Trusting(Symmetric):
        def _copy(self, rng_key, state, target):
            return target.evaluate(self.group.random(rng_key, state.position)(state.position))

    good = Symmetric(HMC_UNLIKE, FOLD.group)
    bad = Trusting.__new__(Trusting)
    for name in ("kernel", "group"):
        object.__setattr__(bad, name, getattr(good, name))
    object.__setattr__(bad, "now", True)
    object.__setattr__(bad, "refresh", lambda uniforms: bad)
    p_value, _ = check_invariance(bad, *target_of(density))
    assert (p_value > FOUR_SIGMA) == (density is symmetric)


@pytest.mark.parametrize("density", [symmetric, lopsided])
@pytest.mark.parametrize("checked", [True, False], ids=["exact", "twin"])
def test_jumps_and_fresh_draws_go_to_random_copies(density, checked):
    """The twin takes jumps and draws of the reference that leave the domain."""
    target, draw = target_of(density)
    centres = np.array([[0.3, 1.2], [-1.5, 2.0]])
    rng = np.random.default_rng(0)
    draws = np.concatenate([c + 0.5 * rng.normal(size=(400, 2)) for c in centres])
    modes = fit_modes(draws, centres, np.ones(2), np.float32)
    reference = Parts.of(modes).weighed(np.ones(2), np.float32).folded(FOLD)
    referred = TiltedTarget(refer(target.energy_fn, reference), NoTilt(), target.theta, target.step_scale)
    kernel = among_copies(Jump(HMC_UNLIKE, modes, reference), FOLD)
    assert isinstance(kernel, Jump) and plain(kernel) is HMC_UNLIKE
    kernel = kernel if checked else updated(kernel, fold=None)
    p_value, _ = check_invariance(kernel, referred, draw, steps=8)
    assert (p_value > FOUR_SIGMA) == checked
