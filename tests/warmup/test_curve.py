"""What the climb has measured, along the ladder."""

import math

import numpy as np

from sahmc.results.warmup_record import Climb, Rung
from sahmc.warmup.curve import fit_curve


def rung(beta, dim=6, memory=0.0, lag=0.0):
    """A Gaussian well of lowest energy 3: mean 3 + (d/2) T, variance (d/2) T^2."""
    t = 1 / beta
    return Rung(beta, 3 + dim / 2 * t + lag, dim / 2 * t * t, t**0.5, 1.0, memory)


def climb(temperatures, memories, lag=0.0, **flags):
    hot = sorted(temperatures, reverse=True)
    down = tuple(rung(1 / t, memory=m, lag=lag) for t, m in zip(hot, memories, strict=True))
    up = tuple(rung(1 / t, lag=-lag) for t in reversed(hot))
    return Climb(up, down, **{"ran_away": False, "slow": False, **flags})


def test_the_curve_of_a_gaussian_well_is_exact():
    """log Z(beta) = -(d/2) log beta, sd(beta U) constant, though the chains lag behind the temperature."""
    curve = fit_curve(climb(1.5 ** np.arange(12), [0.0] * 12, lag=0.1), 0.0, 3.0, 6.0)
    betas = curve.levels(1 / 40, 2 / 3, 4)
    wanted = math.ceil(math.sqrt(3) * math.log(40) * 1.5) + 1
    assert betas[0] == 1 and betas[-1] == 1 / 40 and wanted == 11 and len(betas) == 12
    log_z, step = curve.at(betas)
    assert np.allclose(log_z, -3 * np.log(betas), atol=1e-6)
    assert np.allclose(np.diff(np.log(betas)), np.log(1 / 40) / (len(betas) - 1))
    assert np.allclose(step, betas**-0.5)
    assert math.isclose(curve.hottest_within(math.sqrt(3) * math.log(5)), 5, rel_tol=1e-6)
