"""What the climb has measured, along the ladder."""

import math

import numpy as np
from climbs import climb

from sahmc.warmup.curve import fit_curve


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
