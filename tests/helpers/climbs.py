"""What a climb over a Gaussian well would have shown."""

from sahmc.results.warmup_record import Climb, Rung


def rung(beta, dim=6, memory=0.0, lag=0.0):
    """A Gaussian well of lowest energy 3: mean 3 + (d/2) T, variance (d/2) T^2."""
    t = 1 / beta
    return Rung(beta, 3 + dim / 2 * t + lag, dim / 2 * t * t, t**0.5, 1.0, memory)


def climb(temperatures, memories, lag=0.0, **flags):
    hot = sorted(temperatures, reverse=True)
    down = tuple(rung(1 / t, memory=m, lag=lag) for t, m in zip(hot, memories, strict=True))
    up = tuple(rung(1 / t, lag=-lag) for t in reversed(hot))
    return Climb(up, down, **{"ran_away": False, "slow": False, **flags})
