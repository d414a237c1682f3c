"""Reference values of the hierarchical logistic regression: long runs of plain HMC. Prints means, variances, errors."""

import jax
import jax.numpy as jnp
import numpy as np

import sahmc
from sahmc.testing.targets import hierarchical_logistic

jax.config.update("jax_enable_x64", True)


def main() -> None:
    target = hierarchical_logistic()
    kernel = sahmc.HMC(num_integration_steps=(1, 8))
    result = sahmc.sample(
        target.log_density,
        jnp.asarray(target.start),
        tilt="none",
        kernel=kernel,
        chains=64,
        draws=40_000,
        tune=2_000,
        random_seed=0,
    )
    first, second = result.expectation(), result.expectation(lambda x: x**2)
    np.set_printoptions(precision=4, suppress=True)
    print("mean    ", np.array2string(first.mean, separator=", "))
    print("variance", np.array2string(second.mean - first.mean**2, separator=", "))
    print("largest standard error of a mean", first.mcse.max())
    print(*result.findings, sep="\n")


if __name__ == "__main__":
    main()
