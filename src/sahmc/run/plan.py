"""What a run is to do: the arguments of ``sample``, checked, and the budget that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sahmc._support.validate import MOST, is_number, require, require_count, require_flag, require_known
from sahmc.kernels import KERNELS
from sahmc.kernels.base import Kernel
from sahmc.models.model import Model
from sahmc.models.symmetries import Symmetries
from sahmc.tilt import TILTS
from sahmc.tilt.gain import Gain
from sahmc.tilt.theta import desired_frequencies
from sahmc.tilt.tilts import NoTilt, TemperedTilt, Tilt

GRADIENTS, BATCH_GRADIENTS, MOST_BATCHES = 10, 6000, 8
"""The gradients of an iteration, those of a batch of points that go downhill, and the most of these batches."""
PROBE_PART, MOST_PROBES = 4, 2**20
"""The gradients of the tuning for each that looks for a narrow mode, and the most of these."""


@dataclass(frozen=True)
class Plan:
    """The arguments of ``sample``, checked, and the budget of each stage that follows from them.

    The user counts in iterations and this library in moves, of which a kernel may make several in an iteration.
    """

    draws: int
    """The number of draws kept of each chain."""
    tune: int
    """The number of iterations of the warm-up."""
    chains: int
    """The number of chains."""
    thin: int
    """The number of iterations for each draw that is kept, which is the last of them."""
    target_accept: float
    """The acceptance probability to which the step size is tuned."""
    kernel: Kernel
    """The kernel as the user built it, which may leave step size and metric open."""
    tilt: Tilt | type[Tilt]
    """The tilt with its partition, or its class where the partition is still to be found by the warm-up."""
    gain: Gain | None
    """The gain that the user gave; None leaves it to ``gain_used``."""
    desired: Any
    """The desired visiting frequencies, one for each region, as an array or a list; None for equal ones."""
    theta: Literal["shared", "per-chain"]
    """Whether all chains share one theta or each has its own."""
    adapt: Literal["tune", "always"]
    """Whether theta learns during the warm-up only, and is then frozen, or always."""
    jumps: bool
    """Whether chains jump between known modes; False for a kernel that uses no gradient."""
    reference: bool
    """Whether the ladder may end in a reference that is learnt."""
    has_prior: bool
    """Whether the model keeps its prior apart from the likelihood."""
    moves: int
    """The number of moves that make one iteration."""
    prior_normalised: bool = False
    """Whether the prior is known to integrate to 1."""
    spent: int = 0
    """The moves spent on a reference in which the ladder then does not end."""
    symmetries: Symmetries | None = None
    """The symmetries of the posterior, once they are known; None if there are none."""
    earlier: Any = None
    """The part of an earlier run that serves in place of pilot, climb and reference, if any."""

    @property
    def needs_pilot(self) -> bool:
        """Whether a pilot run has anything to find: a step size, a metric or a partition."""
        return self.kernel.tunes_step_size or self.kernel.uses_spread or isinstance(self.tilt, type)

    @property
    def visits_prior(self) -> bool:
        """Whether chains go to the prior and come back: if it is apart, and there is a tilt to take them there."""
        return self.has_prior and not isinstance(self.tilt, NoTilt)

    @property
    def moves_per_draw(self) -> int:
        """The number of moves for each draw that is kept."""
        return self.thin * self.moves

    @property
    def finds_ladder(self) -> bool:
        """Whether the partition of the tilt is to be found by the warm-up."""
        return isinstance(self.tilt, type)

    @property
    def looks_for_modes(self) -> bool:
        """Whether the warm-up looks for modes: only while it finds the ladder, and by gradients."""
        return self.finds_ladder and self.kernel.uses_gradient

    @property
    def learns_reference(self) -> bool:
        """Whether the ladder may end in a reference that is learnt: where it is found by the warm-up."""
        return self.reference and self.tilt is TemperedTilt and self.looks_for_modes

    @property
    def search_batches(self) -> int:
        """The most batches of points that are drawn far from all modes, a tenth of the tuning or so."""
        return min(MOST_BATCHES, max(1, self.tune * self.chains * GRADIENTS // (10 * BATCH_GRADIENTS)))

    @property
    def probes(self) -> int:
        """The number of points far from all modes that are looked at by one gradient, a quarter of the tuning or so.

        It does not depend on ``draws``, nor does anything else of the warm-up: a run may go on to more of them.
        """
        return min(MOST_PROBES, self.tune * self.chains * GRADIENTS // PROBE_PART)

    @property
    def pilot_moves(self) -> int:
        """The moves of the pilot run at beta = 1, a fifth of the tuning; 0 where it has nothing to find.

        Where there is a prior, half as many are made at beta = 0.
        """
        return max(4, self.tune * self.moves // 5) if self.needs_pilot and self.earlier is None else 0

    @property
    def climb_moves(self) -> int:
        """The moves of the climb to high temperatures, three tenths of the tuning; 0 where the partition is given."""
        return max(12, self.tune * self.moves * 3 // 10) if self.finds_ladder and self.earlier is None else 0

    @property
    def reference_moves(self) -> int:
        """The moves by which a reference is learnt, and those down from it, a fifth of the tuning."""
        return max(12, self.tune * self.moves // 5) if self.learns_reference and self.earlier is None else 0

    @property
    def stay_moves(self) -> int:
        """Those of them, half, that chains stay in the modes to learn it; with the others they come down from it."""
        return max(4, self.reference_moves // 2)

    @property
    def stages(self) -> dict[str, int]:
        """The moves that are planned for each stage, by its name."""
        pilot = self.pilot_moves * 3 // (2 if self.visits_prior else 3)
        climb = self.climb_moves + self.reference_moves + self.spent
        adapt = max(0, self.tune * self.moves - pilot - climb)
        return {"pilot": pilot, "climb": climb, "adapt": adapt, "draw": self.draws * self.moves_per_draw}

    @property
    def gain_used(self) -> Gain:
        """The gain that was given, or one whose t0 is a twentieth of the moves in which theta learns."""
        time = self.stages["adapt"] + (self.stages["draw"] if self.adapt == "always" else 0)
        return self.gain or Gain(max(1.0, time / 20))


def make_plan(
    model: Model,
    *,
    kernel: Any,
    tilt: Any,
    partition: Any,
    gain: Any,
    desired: Any,
    theta: Any,
    adapt: Any,
    jumps: Any,
    reference: Any,
    **numbers: Any,
) -> Plan:
    """Check all arguments that can be checked without a position, and return the plan.

    They are those of ``sample``, as the user gave them; ``numbers`` are ``draws``, ``tune``, ``chains``, ``thin`` and
    ``target_accept``.
    """
    for name in ("draws", "tune", "chains", "thin"):
        require_count(numbers[name], name)
    accept = numbers["target_accept"]
    ok = is_number(accept) and 0 < accept < 1
    require(ok, "target_accept must lie in (0, 1)", accept, "use 0.8 for HMC, 0.3 for a random walk")
    require_known(theta, ("shared", "per-chain"), "theta")
    require_known(adapt, ("tune", "always"), "adapt")
    require_flag(jumps, "jumps")
    require_flag(reference, "reference")
    has_prior = model.has_prior
    if not isinstance(kernel, Kernel):
        require_known(kernel, KERNELS, "kernel")
        kernel = KERNELS[kernel]()
    tilt = _tilt(tilt, partition, has_prior)
    if isinstance(tilt, Tilt):
        desired_frequencies(desired, tilt.num_regions)
    else:
        must = "desired needs a partition, or its length cannot be known"
        require(desired is None, must, "desired without partition", "pass partition= too")
    if is_number(gain):
        gain = Gain(gain)
    ok = gain is None or isinstance(gain, Gain)
    require(ok, "gain must be a Gain, a number t0 or None", gain, "pass Gain(t0=...)")
    plan = Plan(
        kernel=kernel,
        tilt=tilt,
        gain=gain,
        desired=desired,
        theta=theta,
        adapt=adapt,
        jumps=jumps and kernel.uses_gradient,
        reference=reference,
        has_prior=has_prior,
        prior_normalised=model.prior_normalised,
        moves=kernel.moves,
        **numbers,
    )
    longest = max(plan.stages, key=plan.stages.__getitem__)
    must = f"a stage makes fewer than {MOST:,} moves of each chain"
    given = f"{plan.stages[longest]:,} in the stage {longest!r}"
    require(plan.stages[longest] < MOST, must, given, "lower draws, tune or thin")
    return plan


def _tilt(tilt: Any, partition: Any, has_prior: bool) -> Tilt | type[Tilt]:
    """Return the tilt, or its class if the partition is still to be found."""
    if isinstance(tilt, Tilt):
        must = "a tilt object carries its own partition"
        require(partition is None, must, "partition= as well", "leave one of them out")
    else:
        require_known(tilt, TILTS, "tilt")
        kind = TILTS[tilt]
        wanted = kind.partition_type
        must = f"tilt {tilt!r} takes " + ("a partition of type " + wanted.__name__ if wanted else "no partition")
        fits = partition is None or (wanted is not None and isinstance(partition, wanted))
        require(fits, must, type(partition).__name__, "change the tilt or the partition")
        if kind is NoTilt:
            return NoTilt()
        if partition is None:
            return kind
        tilt = kind(partition)
    top = float(tilt.partition.betas[-1]) if isinstance(tilt, TemperedTilt) else 1.0
    require(
        top > 0 or has_prior,
        "a ladder may reach beta = 0 only where there is a prior",
        "beta = 0 and a bare log density",
        "pass a sahmc.Model with log_prior and log_likelihood, or end the ladder above 0",
    )
    return tilt
