"""Moves among copies leave the density of the domain as it is, whatever the metric."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import HMC, DiagonalMetric, Involution, NoTilt, Permute, TiltedTarget
from sahmc._support.pytree import updated
from sahmc.kernels.around import plain
from sahmc.kernels.jump import Jump
from sahmc.kernels.symmetric import Symmetric, among_copies
from sahmc.landscape.fold import Fold
from sahmc.landscape.modes import fit_modes
from sahmc.landscape.parts import Parts
from sahmc.landscape.reference import refer
from sahmc.models.group import make_group
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
    return symmetric(x) + 0.2 * x[0]


def cut_out(target):
    """Exact draws of that part of a density that is in the domain."""
    draw = grid_sampler(target, (-5, -5), (5, 5))

    def inside(size, rng):
        points = draw(4 * size, rng).astype(np.float32)
        return points[FOLD.inside(points)][:size]

    return inside


def target_of(log_density):
    return TiltedTarget.build(log_density, jnp.zeros(2), NoTilt())


HMC_UNLIKE = HMC(0.4, (1, 4), metric=DiagonalMetric([2.0, 0.3]))


@pytest.mark.parametrize("fold", [FOLD, SAME_FOLD])
def test_a_symmetric_density_is_left_as_it_is(fold):
    target = target_of(symmetric)
    p_value, moved = check_invariance(Symmetric(HMC_UNLIKE, fold), target, cut_out(target))
    assert p_value > FOUR_SIGMA and moved > 0.9


def test_a_map_that_is_no_symmetry_is_caught():
    target = target_of(lopsided)
    assert check_invariance(Symmetric(HMC_UNLIKE, FOLD), target, cut_out(target))[0] < FOUR_SIGMA


def test_folding_alone_would_be_wrong():
    """The twin without the random copy: the metric tells copies apart, so the way back is another."""

    class Folded(Symmetric):
        def step(self, rng_key, state, target):
            end, info = self.kernel.step(rng_key, state, target)
            move = self.fold.move(end.position)
            return end._replace(position=move(end.position), grad=move(end.grad)), info

    target = target_of(symmetric)
    unlike = HMC(0.4, (2, 6), metric=DiagonalMetric([9.0, 0.1]))
    good, bad = (updated(Symmetric(unlike, FOLD)), Folded.__new__(Folded))
    for name in ("kernel", "fold"):
        object.__setattr__(bad, name, getattr(good, name))
    object.__setattr__(bad, "refresh", lambda key: bad)
    assert check_invariance(good, target, cut_out(target))[0] > FOUR_SIGMA
    assert check_invariance(bad, target, cut_out(target))[0] < FOUR_SIGMA


@pytest.mark.parametrize("checked", [True, False], ids=["exact", "twin"])
def test_jumps_and_fresh_draws_stay_in_the_domain(checked):
    """The twin takes jumps and draws of the reference that leave the domain."""
    target = target_of(symmetric)
    centres = np.array([[0.3, 1.2], [-1.5, 2.0]])
    rng = np.random.default_rng(0)
    draws = np.concatenate([c + 0.5 * rng.normal(size=(400, 2)) for c in centres])
    modes = fit_modes(draws, centres, np.ones(2), np.float32)
    reference = Parts.of(modes).weighed(np.ones(2), np.float32).folded(FOLD)
    referred = TiltedTarget(refer(target.energy_fn, reference), NoTilt(), target.theta, target.step_scale)
    kernel = among_copies(Jump(HMC_UNLIKE, modes, reference), FOLD)
    assert isinstance(kernel, Jump) and plain(kernel) is HMC_UNLIKE
    kernel = kernel if checked else updated(kernel, fold=None)
    p_value, _ = check_invariance(kernel, referred, cut_out(target), steps=8)
    assert (p_value > FOUR_SIGMA) == checked
