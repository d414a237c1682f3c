"""The plan of a run: the checked arguments of ``sample``, and the budget that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sahmc._support.validate import MOST, Given, is_number, require, require_count, require_flag, require_known
from sahmc.engine.settings import Settings
from sahmc.kernels import KERNELS
from sahmc.kernels.base import Kernel
from sahmc.models.model import Model
from sahmc.symmetry.known import Symmetries
from sahmc.tilt import TILTS
from sahmc.tilt.gain import Gain
from sahmc.tilt.theta import desired_frequencies
from sahmc.tilt.tilts import NoTilt, TemperedTilt, Tilt

GRADIENTS, BATCH_GRADIENTS, MOST_BATCHES = 10, 6000, 8
"""The number of gradients of an iteration, that of a batch of points in descent, and the maximum number of batches."""
PROBE_PART, MOST_PROBES = 4, 2**20
"""The number of gradients of the tuning per probe for a narrow mode, and the maximum number of probes."""


@dataclass(frozen=True)
class Plan:
    """The checked arguments of ``sample``, and the budget of each stage that follows from them.

    You count in iterations and this library counts in moves; a kernel may make several moves in an iteration.
    """

    draws: int
    """The number of draws kept of each chain."""
    tune: int
    """The number of iterations of the warm-up."""
    chains: int
    """The number of chains."""
    thin: int
    """The number of iterations per kept draw, which is the last of them."""
    target_accept: float
    """The target acceptance probability of step-size tuning."""
    kernel: Kernel
    """The kernel as the user built it, perhaps without step size and metric."""
    tilt: Tilt | type[Tilt]
    """The tilt with its partition, or only its class if the warm-up is to find the partition."""
    gain: Gain | None
    """The gain that the user gave; if None, ``gain_used`` chooses one."""
    desired: Given
    """The desired visiting frequencies, one for each region, as an array or a list; None means equal frequencies."""
    theta: Literal["shared", "per-chain"]
    """Whether all chains share one theta or each has its own."""
    adapt: Literal["tune", "always"]
    """Whether theta learns only during the warm-up and is then frozen, or learns always."""
    jumps: bool
    """Whether chains jump between known modes; False for a kernel without gradients."""
    reference: bool
    """Whether the ladder may end in a learnt reference."""
    has_prior: bool
    """Whether the model keeps its prior separate from the likelihood."""
    moves: int
    """The number of moves in one iteration."""
    prior_normalised: bool = False
    """Whether the prior is known to integrate to 1."""
    spent: int = 0
    """The number of moves spent on a reference that the ladder then did not use."""
    symmetries: Symmetries | None = None
    """The symmetries of the posterior, once known; None if there are none."""
    earlier: Any = None
    """The part of an earlier run that replaces pilot, climb and reference, if any."""

    @property
    def needs_pilot(self) -> bool:
        """Whether the pilot run has anything to find: a step size, a metric or a partition."""
        return self.kernel.tunes_step_size or self.kernel.uses_spread or isinstance(self.tilt, type)

    @property
    def visits_prior(self) -> bool:
        """Whether chains travel to the prior and back: the prior must be separate, and there must be a tilt."""
        return self.has_prior and not isinstance(self.tilt, NoTilt)

    @property
    def moves_per_draw(self) -> int:
        """The number of moves per kept draw."""
        return self.thin * self.moves

    @property
    def finds_ladder(self) -> bool:
        """Whether the warm-up is to find the partition of the tilt."""
        return isinstance(self.tilt, type)

    @property
    def looks_for_modes(self) -> bool:
        """Whether the warm-up searches for modes: only if it finds the ladder and the kernel uses gradients."""
        return self.finds_ladder and self.kernel.uses_gradient

    @property
    def learns_reference(self) -> bool:
        """Whether the ladder may end in a learnt reference: only if the warm-up finds the ladder."""
        return self.reference and self.tilt is TemperedTilt and self.looks_for_modes

    @property
    def search_batches(self) -> int:
        """The maximum number of batches of points drawn far from all modes, about a tenth of the tuning."""
        return min(MOST_BATCHES, max(1, self.tune * self.chains * GRADIENTS // (10 * BATCH_GRADIENTS)))

    @property
    def probes(self) -> int:
        """The number of points far from all modes that are probed by one gradient each, about a quarter of the tuning.

        Like the rest of the warm-up it does not depend on ``draws``, since a run may be extended.
        """
        return min(MOST_PROBES, self.tune * self.chains * GRADIENTS // PROBE_PART)

    @property
    def pilot_moves(self) -> int:
        """The number of moves of the pilot run at beta = 1, a fifth of the tuning; 0 if it has nothing to find.

        If there is a separate prior, half as many more are made at beta = 0.
        """
        return max(4, self.tune * self.moves // 5) if self.needs_pilot and self.earlier is None else 0

    @property
    def climb_moves(self) -> int:
        """The moves of the climb to high temperatures, three tenths of the tuning; 0 if the partition is given."""
        return max(12, self.tune * self.moves * 3 // 10) if self.finds_ladder and self.earlier is None else 0

    @property
    def reference_moves(self) -> int:
        """The number of moves that learn a reference and come down from it, a fifth of the tuning."""
        return max(12, self.tune * self.moves // 5) if self.learns_reference and self.earlier is None else 0

    @property
    def stay_moves(self) -> int:
        """The moves, half of these, in which chains stay in the modes to learn the reference."""
        return max(4, self.reference_moves // 2)

    @property
    def stages(self) -> dict[str, int]:
        """The planned number of moves of each stage, by name."""
        pilot = self.pilot_moves * 3 // (2 if self.visits_prior else 3)
        climb = self.climb_moves + self.reference_moves + self.spent
        adapt = max(0, self.tune * self.moves - pilot - climb)
        return {"pilot": pilot, "climb": climb, "adapt": adapt, "draw": self.draws * self.moves_per_draw}

    @property
    def gain_used(self) -> Gain:
        """The given gain, or one with a t0 of a twentieth of the moves in which theta learns."""
        time = self.stages["adapt"] + (self.stages["draw"] if self.adapt == "always" else 0)
        return self.gain or Gain(max(1.0, time / 20))


def make_plan(model: Model, settings: Settings) -> Plan:
    """Check all settings that can be checked without a position, and return the plan."""
    for name in ("draws", "tune", "chains", "thin"):
        require_count(getattr(settings, name), name)
    accept, desired = settings.target_accept, settings.desired
    gain: Given = settings.gain
    ok = is_number(accept) and 0 < accept < 1
    require(ok, "target_accept must lie in (0, 1)", accept, "use 0.8 for HMC, 0.3 for a random walk")
    require_known(settings.theta, ("shared", "per-chain"), "theta")
    require_known(settings.adapt, ("tune", "always"), "adapt")
    require_flag(settings.jumps, "jumps")
    require_flag(settings.reference, "reference")
    kernel = settings.kernel
    has_prior = model.has_prior
    if not isinstance(kernel, Kernel):
        require_known(kernel, KERNELS, "kernel")
        kernel = KERNELS[kernel]()
    tilt = _tilt(settings.tilt, settings.partition, has_prior)
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
        draws=int(settings.draws),
        tune=int(settings.tune),
        chains=int(settings.chains),
        thin=int(settings.thin),
        kernel=kernel,
        tilt=tilt,
        gain=gain,
        desired=desired,
        theta=settings.theta,
        adapt=settings.adapt,
        target_accept=accept,
        jumps=settings.jumps and kernel.uses_gradient,
        reference=settings.reference,
        has_prior=has_prior,
        prior_normalised=model.prior_normalised,
        moves=kernel.moves,
    )
    longest = max(plan.stages, key=plan.stages.__getitem__)
    must = f"a stage makes fewer than {MOST:,} moves of each chain"
    given = f"{plan.stages[longest]:,} in the stage {longest!r}"
    require(plan.stages[longest] < MOST, must, given, "lower draws, tune or thin")
    return plan


def _tilt(tilt: Given, partition: Given, has_prior: bool) -> Tilt | type[Tilt]:
    """Return the tilt, or its class if the partition is not yet known."""
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
