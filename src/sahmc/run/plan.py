"""What a run is to do: the arguments of ``sample``, checked, and the budget that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sahmc._support.validate import is_number, require, require_count, require_flag, require_known
from sahmc.kernels import KERNELS
from sahmc.kernels.base import Kernel
from sahmc.models.model import Model
from sahmc.tilt import TILTS
from sahmc.tilt.gain import Gain
from sahmc.tilt.theta import desired_frequencies
from sahmc.tilt.tilts import NoTilt, TemperedTilt, Tilt


@dataclass(frozen=True)
class Plan:
    """Checked arguments. ``tilt`` is a class while its partition is still to be found by a pilot run.

    Budgets are in moves, of which ``moves`` make one iteration of the user's.
    """

    draws: int
    tune: int
    chains: int
    thin: int
    target_accept: float
    kernel: Kernel
    tilt: Tilt | type[Tilt]
    gain: Gain | None
    desired: Any
    theta: str
    adapt: str
    jumps: bool
    has_prior: bool
    moves: int

    @property
    def needs_pilot(self) -> bool:
        return self.kernel.tunes_step_size or self.kernel.uses_spread or isinstance(self.tilt, type)

    @property
    def moves_per_draw(self) -> int:
        """Moves for each draw that is kept."""
        return self.thin * self.moves

    @property
    def finds_ladder(self) -> bool:
        """Whether the top of the ladder is to be found."""
        return isinstance(self.tilt, type)

    @property
    def looks_for_modes(self) -> bool:
        """Whether modes are looked for."""
        return self.finds_ladder and self.kernel.uses_gradient

    @property
    def pilot_moves(self) -> int:
        """A fifth of the tuning, and half as much again at the prior where there is one."""
        return max(4, self.tune * self.moves // 5) if self.needs_pilot else 0

    @property
    def climb_moves(self) -> int:
        return max(12, self.tune * self.moves * 3 // 10) if self.finds_ladder else 0

    @property
    def stages(self) -> dict[str, int]:
        pilot = self.pilot_moves * 3 // (2 if self.has_prior else 3)
        adapt = max(0, self.tune * self.moves - pilot - self.climb_moves)
        return {"pilot": pilot, "climb": self.climb_moves, "adapt": adapt, "draw": self.draws * self.moves_per_draw}

    @property
    def gain_used(self) -> Gain:
        """t0 a twentieth of the time in which theta learns, unless given."""
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
    **numbers: Any,
) -> Plan:
    """Check everything that can be checked without a position."""
    for name in ("draws", "tune", "chains", "thin"):
        require_count(numbers[name], name)
    accept = numbers["target_accept"]
    ok = is_number(accept) and 0 < accept < 1
    require(ok, "target_accept must lie in (0, 1)", accept, "use 0.8 for HMC, 0.3 for a random walk")
    require_known(theta, ("shared", "per-chain"), "theta")
    require_known(adapt, ("tune", "always"), "adapt")
    require_flag(jumps, "jumps")
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
    given = gain is None or isinstance(gain, Gain)
    require(given, "gain must be a Gain, a number t0 or None", gain, "pass Gain(t0=...)")
    return Plan(
        kernel=kernel,
        tilt=tilt,
        gain=gain,
        desired=desired,
        theta=theta,
        adapt=adapt,
        jumps=jumps and kernel.uses_gradient,
        has_prior=has_prior,
        moves=kernel.moves,
        **numbers,
    )


def _tilt(tilt: Any, partition: Any, has_prior: bool) -> Tilt | type[Tilt]:
    """The tilt, or its class if the partition is still to be found."""
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
