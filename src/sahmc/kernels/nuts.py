"""The no-U-turn sampler."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt32

from sahmc._support.pytree import converted, static, strategy
from sahmc._support.types import Vector
from sahmc._support.validate import Given, require, require_count
from sahmc.hamiltonian.integrators import Leapfrog, splitting_integrator
from sahmc.hamiltonian.metrics import AUTO, ConstantMetric, constant_metric
from sahmc.kernels.base import TransitionInfo, checked_step_size, draw_noise
from sahmc.kernels.decision import DIVERGENCE
from sahmc.kernels.mechanical import Mechanical
from sahmc.tilt.target import ChainState, TiltedTarget
from sahmc.tilt.tilts import Energy


class End(NamedTuple):
    """A state on a trajectory, and its momentum forwards in time."""

    state: ChainState
    momentum: Vector


class Branch(NamedTuple):
    """Consecutive states of a trajectory, and one of them drawn with probability proportional to weight."""

    proposal: ChainState
    """The state that was drawn."""
    log_weight: Energy
    """The log of the sum of their weights; the first state of the trajectory has weight 1."""
    momentum_sum: Vector
    """The sum of their momenta."""


class Account(NamedTuple):
    """Running statistics of all leaves, including those of a discarded branch."""

    lowest: Energy
    """The minimum mechanical energy H."""
    highest: Energy
    """The maximum H."""
    acceptance: Energy
    """The sum of min(1, exp(-error)), with the error of the tilted energy."""
    mechanical: Energy
    """The same sum, with the error of the mechanical energy."""
    num: Int[Array, ""]
    """The number of leaves."""


class Place(NamedTuple):
    """The place of a leaf on its trajectory; with a leading axis, those of several leaves."""

    velocity: Float[Array, "*slots dim"]
    middle: Float[Array, "*slots dim"]
    """The sum of all momenta before this leaf, plus half of its own.

    The difference between two leaves is the sum of the momenta from one to the other, with both ends counted half.
    """


class Growth(NamedTuple):
    """A branch that grows at one end, leaf by leaf."""

    end: End
    """The last leaf added, or the end of the tree from which the branch grows."""
    branch: Branch
    account: Account
    leaf: Int[Array, ""]
    """The index of the next leaf, from 0."""
    first: Place
    """The first leaf of each subtree that is still open."""
    before: Place
    """The leaf before it."""
    sound: Bool[Array, ""]
    """Whether no subtree has turned back and no leaf has diverged."""


class Tree(NamedTuple):
    """A trajectory that doubles."""

    ends: End
    """The first and the last state, leading axis 2."""
    branch: Branch
    """All of its states."""
    account: Account
    depth: Int[Array, ""]
    """The number of doublings so far."""
    growing: Bool[Array, ""]
    """Whether it will double again."""


@strategy
class NUTS(Mechanical):
    """The no-U-turn sampler: trajectories that grow until they turn back (Hoffman and Gelman 2014).

    The next state is drawn from the trajectory with probability proportional to weight. The U-turn criterion is that
    of Betancourt (2017).

    The tilt affects only the weights. The integrated dynamics alone decides where a trajectory stops: when it turns
    back, or when its energies spread over more than 1000 (a divergence). Both depend on the set of states and not on
    the starting point, so every tilted density is left exactly invariant.

    ``step_size`` and ``metric`` are as for ``HMC``. A trajectory has at most 2^max_tree_depth states.
    """

    step_size: Given = converted(checked_step_size, default=None)
    metric: Given = converted(constant_metric, default=AUTO)
    """A ``ConstantMetric``, or the name of one while it is open."""
    max_tree_depth: int = static(default=10)
    integrator: Given = converted(splitting_integrator, default_factory=Leapfrog)
    """A ``Splitting`` integrator, or its name."""
    name: ClassVar[str] = "nuts"
    rung_moves: ClassVar[int] = 5

    def __post_init__(self) -> None:
        require_count(self.max_tree_depth, "max_tree_depth")
        small = self.max_tree_depth <= 20
        require(small, "max_tree_depth must be at most 20", self.max_tree_depth, "use 10, that is 1024 steps")

    def step(
        self, rng_key: Key[Array, ""], state: ChainState, target: TiltedTarget
    ) -> tuple[ChainState, TransitionInfo]:
        """Draw y ~ N(0, M), double a trajectory until it turns back, and draw one of its states by weight."""
        key_noise, key_tree = jax.random.split(rng_key)
        noise, (u_level,) = draw_noise(key_noise, state.position, 1)
        directions, leaves, branches = jax.random.bits(key_tree, (3,), jnp.uint32)
        level = target.draw_level(u_level, state)
        metric = self.metric.at_level(level)
        momentum = metric.momentum(noise)
        flow = self.flow(target, level, self.step_size_at(target, level))

        def energies(end: End) -> tuple[Energy, Energy]:
            kinetic = metric.kinetic_energy(end.momentum)
            return target.potential(end.state, level) + kinetic, target.decision(end.state, level) + kinetic

        root = End(state, momentum)
        energy, tilted = energies(root)
        zero, none = jnp.zeros_like(energy), jnp.zeros((), jnp.int32)

        def grow(growth: Growth, forwards: Bool[Array, ""]) -> Growth:
            """Add one leaf to the branch."""
            sign = jnp.where(forwards, 1.0, -1.0).astype(momentum.dtype)
            new, y, _ = flow(growth.end.state, sign * growth.end.momentum, 1)
            end = End(new, sign * y)
            h, decision = energies(end)
            uniform = _uniform(leaves, growth.account.num, energy.dtype)
            return _add_leaf(growth, end, h, energy, tilted - decision, uniform, metric)

        def double(tree: Tree) -> Tree:
            """Grow a branch as long as the tree, forwards or backwards, and join it to the tree."""
            forwards = ((directions >> tree.depth) & 1) == 1
            end = jax.tree.map(lambda x: jnp.where(forwards, x[1], x[0]), tree.ends)
            empty = Branch(state, zero - jnp.inf, 0.0 * momentum)
            slots = jnp.zeros((max(1, self.max_tree_depth - 1), *momentum.shape), momentum.dtype)
            growth = Growth(end, empty, tree.account, none, Place(slots, slots), Place(slots, slots), tree.growing)
            growth = jax.lax.while_loop(
                lambda g: g.sound & (g.leaf < 1 << tree.depth), lambda g: grow(g, forwards), growth
            )
            uniform = _uniform(branches, tree.depth, energy.dtype)
            return _join(tree, growth, forwards, uniform, metric, self.max_tree_depth)

        seed = Tree(
            ends=jax.tree.map(lambda x: jnp.stack([x, x]), root),
            branch=Branch(state, zero, momentum),
            account=Account(energy, energy, zero, zero, none),
            depth=none,
            growing=jnp.ones((), bool),
        )
        tree = jax.lax.while_loop(lambda tree: tree.growing, double, seed)
        chosen, account = tree.branch.proposal, tree.account
        return chosen, TransitionInfo(
            acceptance_rate=account.acceptance / account.num,
            mechanical_acceptance=account.mechanical / account.num,
            is_accepted=jnp.any(chosen.position != state.position),
            energy_error=account.highest - energy,
            diverging=~(account.highest - account.lowest < DIVERGENCE) & ~jnp.isposinf(account.highest),
            failed=jnp.zeros((), bool),
            n_steps=account.num * self.integrator.gradients,
            tree_depth=tree.depth,
            level=level,
        )


def _add_leaf(
    growth: Growth,
    end: End,
    energy: Energy,
    first_energy: Energy,
    log_weight: Energy,
    uniform: Energy,
    metric: ConstantMetric,
) -> Growth:
    """Add a new state to the branch; it becomes the draw with probability equal to its share of the weight.

    ``energy`` is the mechanical energy of the new state, ``first_energy`` that of the start of the trajectory.
    ``log_weight`` is the decrease of the tilted energy from there to the new state.
    """
    old, account = growth.branch, growth.account
    total = jnp.logaddexp(old.log_weight, log_weight)
    taken = jnp.log(uniform) < log_weight - total
    account = Account(
        lowest=jnp.minimum(account.lowest, energy),
        highest=jnp.maximum(account.highest, energy),
        acceptance=account.acceptance + jnp.nan_to_num(jnp.exp(jnp.minimum(log_weight, 0.0))),
        mechanical=account.mechanical + jnp.nan_to_num(jnp.exp(jnp.minimum(first_energy - energy, 0.0))),
        num=account.num + 1,
    )
    branch = Branch(_where(taken, end.state, old.proposal), total, old.momentum_sum + end.momentum)
    here = _place(end.momentum, branch.momentum_sum, metric)
    there = _place(growth.end.momentum, old.momentum_sum, metric)
    sound = (account.highest - account.lowest < DIVERGENCE) & ~_completes_a_turn(growth, here)
    slots = jnp.arange(len(growth.first.middle))
    opens = ((growth.leaf % 2 == 0) & (slots == _count_ones(growth.leaf >> 1)))[:, None]
    first, before = _where(opens, here, growth.first), _where(opens, there, growth.before)
    return Growth(end, branch, account, growth.leaf + 1, first, before, sound)


def _place(momentum: Vector, sum_with_it: Vector, metric: ConstantMetric) -> Place:
    """Return the place of a leaf, from its momentum and the sum of the momenta up to and including it."""
    return Place(metric.velocity(momentum), sum_with_it - 0.5 * momentum)


def _completes_a_turn(growth: Growth, here: Place) -> Bool[Array, ""]:
    """Return whether a subtree that the new leaf completes turns back.

    Leaves of a branch are numbered from 0, in binary. An even leaf opens subtrees and is remembered. An odd leaf
    completes one subtree for each trailing one of its number. The number of remembered leaves is the number of ones,
    leaving out the last digit. The second half of a subtree begins at the leaf remembered next.
    """
    leaf = growth.leaf
    last = _count_ones(leaf >> 1)
    first = last - _count_ones((~leaf & (leaf + 1)) - 1) + 1

    def look(carry: tuple[Int[Array, ""], Bool[Array, ""]]) -> tuple[Int[Array, ""], Bool[Array, ""]]:
        slot, _ = carry
        start, half, before = (
            jax.tree.map(lambda x, k=k: x[k], places)
            for places, k in ((growth.first, slot), (growth.first, slot + 1), (growth.before, slot + 1))
        )
        across = (slot < last) & _turns_across(start, before, half, here)
        return slot - 1, _turns(start, here) | across

    begin = jnp.where((leaf % 2 == 1) & growth.sound, last, -1), jnp.zeros((), bool)  # chains that are done must not
    _, turns = jax.lax.while_loop(lambda carry: (carry[0] >= first) & ~carry[1], look, begin)  # keep others
    return turns


def _turns(one: Place, two: Place) -> Bool[Array, ""]:
    """Return whether either end moves against the sum of the momenta between them, with both ends counted half."""
    between = two.middle - one.middle
    return (jnp.sum(one.velocity * between) <= 0) | (jnp.sum(two.velocity * between) <= 0)


def _turns_across(start: Place, before: Place, half: Place, end: Place) -> Bool[Array, ""]:
    """Return whether the first half turns with one leaf of the second, or the second with one leaf of the first.

    Without this test a trajectory that is exactly back at its start does not count as turned, and continues round and
    round. In a round Gaussian this happens if a period takes 2^k - 1 steps.
    """
    return _turns(start, half) | _turns(before, end)


def _count_ones(number: Int[Array, ""]) -> Int[Array, ""]:
    """Count the ones of a number written in binary."""
    return jnp.bitwise_count(number).astype(jnp.int32)


def _uniform(seed: UInt32[Array, ""], index: Int[Array, ""], dtype: DTypeLike) -> Energy:
    """Return the ``index``-th uniform number of the stream ``seed`` (SplitMix, Steele, Lea and Flood 2014, in 32 bits).

    It takes a few operations. A number from ``jax.random`` costs about as much as the rest of a leaf.
    """
    x = seed + index.astype(jnp.uint32) * jnp.uint32(0x9E3779B9)
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return ((x ^ (x >> 16)) >> 8).astype(dtype) * 2.0**-24 + 2.0**-25


def _join(
    tree: Tree, growth: Growth, forwards: Bool[Array, ""], uniform: Energy, metric: ConstantMetric, max_tree_depth: int
) -> Tree:
    """Join a branch to a tree of the same length, if the branch is sound.

    The draw of the branch replaces that of the tree with probability min(1, weight of branch / weight of tree). This
    favours distant states.
    """
    old, new, sound = tree.branch, growth.branch, growth.sound
    taken = sound & (jnp.log(uniform) < new.log_weight - old.log_weight)
    total = old.momentum_sum + new.momentum_sum
    ends = jax.tree.map(
        lambda both, end: jnp.stack([jnp.where(forwards, both[0], end), jnp.where(forwards, end, both[1])]),
        tree.ends,
        growth.end,
    )
    far = jax.tree.map(lambda both: jnp.where(forwards, both[0], both[1]), tree.ends.momentum)
    start = Place(metric.velocity(far), 0.5 * far - old.momentum_sum)  # sums count from where the branch begins
    end = _place(growth.end.momentum, new.momentum_sum, metric)
    half, before = (jax.tree.map(lambda x: x[0], places) for places in (growth.first, growth.before))
    turns = _turns(start, end) | _turns_across(start, before, half, end)
    depth = tree.depth + 1
    branch = Branch(_where(taken, new.proposal, old.proposal), jnp.logaddexp(old.log_weight, new.log_weight), total)
    return Tree(ends, branch, growth.account, depth, sound & ~turns & (depth < max_tree_depth))


def _where(condition: Bool[Array, "*shape"], yes: PyTree, no: PyTree) -> PyTree:
    """Return ``yes`` where the condition holds and ``no`` elsewhere, array by array."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
