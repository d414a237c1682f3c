"""The period of a star from a few nights: one frequency and its aliases explain the data, in NumPyro.

Brightness is a cos(2 pi f t) + b sin(2 pi f t) with known noise, seen about midnight in ten nights of twenty: f, 1 - f,
1 + f and 2 - f look almost alike then. The truth comes from a fine grid over f, with both amplitudes integrated out
exactly. A chain of NUTS ends on the bump of the likelihood that it started near, often one that hardly fits; sahmc gets
the masses right.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from compare import CHAINS, COLOURS, arguments, print_table, returned, run_nuts, run_sahmc, save, two_panels

LOW, HIGH = 0.05, 2.0
NOISE, AMPLITUDE = 0.3, 1.0
GRID = np.linspace(LOW, HIGH, 8001)


def make_data():
    rng = np.random.default_rng(3)
    night = np.sort(rng.choice(20, 10, replace=False) + 0.06 * rng.standard_normal(10))
    return night, np.cos(2 * np.pi * 0.31 * night + 0.5) + NOISE * rng.standard_normal(10)


def model(night, y):
    f = numpyro.sample("f", dist.Uniform(LOW, HIGH))
    a = numpyro.sample("a", dist.Normal(0, AMPLITUDE))
    b = numpyro.sample("b", dist.Normal(0, AMPLITUDE))
    phase = 2 * jnp.pi * f * night
    numpyro.sample("y", dist.Normal(a * jnp.cos(phase) + b * jnp.sin(phase), NOISE), obs=y)


def exact(night, y):
    """The posterior density of f on the grid: given f, the data are Gaussian with mean 0."""
    phase = 2 * np.pi * GRID[:, None] * night
    waves = np.stack([np.cos(phase), np.sin(phase)], axis=-1)
    covariance = NOISE**2 * np.eye(len(night)) + AMPLITUDE**2 * waves @ waves.swapaxes(-1, -2)
    fit = np.linalg.solve(covariance, np.broadcast_to(y[:, None], (len(GRID), len(y), 1)))[..., 0] @ y
    log_density = -0.5 * fit - 0.5 * np.linalg.slogdet(covariance)[1]
    density = np.exp(log_density - log_density.max())
    return density / np.trapezoid(density, GRID)


def bands(density):
    """The four heaviest peaks, as intervals between the valleys beside them."""
    inner = density[1:-1]
    valleys = 1 + np.flatnonzero((inner <= density[:-2]) & (inner < density[2:]))
    edges = GRID[np.concatenate([[0], valleys, [len(GRID) - 1]])]
    inside = (edges[:-1, None] <= GRID) & (edges[1:, None] > GRID)
    mass = np.trapezoid(np.where(inside, density, 0), GRID)
    chosen = np.sort(np.argsort(-mass)[:4])
    return np.stack([edges[chosen], edges[chosen + 1]], axis=1), mass[chosen]


def picture(density, intervals, truth, nuts, ours, args):
    figure, panels = two_panels("Which period? Posterior of a star's frequency, from ten nights")
    bins = np.linspace(LOW, HIGH, 79)
    exact_mass = np.histogram(GRID, bins, weights=density / density.sum())[0]
    share, labels = np.full(nuts.draws["f"].shape, 1 / nuts.draws["f"].size), [f"chain {k + 1}" for k in range(4)]
    panels[0].hist(list(nuts.draws["f"]), bins, weights=list(share), stacked=True, color=CHAINS, label=labels)
    share = np.full(len(ours.draws["f"]), 1 / len(ours.draws["f"]))
    panels[1].hist(ours.draws["f"], bins, weights=share, color=COLOURS["sahmc"], alpha=0.7, label="32 chains")
    for panel, run in zip(panels, (nuts, ours), strict=True):
        panel.stairs(exact_mass, bins, color=COLOURS["truth"], linewidth=1.5, label="exact")
        for (low, high), mass, right in zip(intervals, run.mean, truth, strict=True):
            at = GRID[np.argmax(np.where((low < GRID) & (high > GRID), density, 0))]
            panel.text(at, 0.485, f"{mass:.2f}", ha="center", fontsize=15, fontweight="bold")
            panel.text(at, 0.46, f"exact {right:.2f}", ha="center", fontsize=9.5, color="0.35")
        panel.set(xlabel="frequency (cycles a day)", ylim=(0, 0.6))
        panel.legend(loc="upper left", frameon=False, ncols=5, fontsize=9, columnspacing=1.2, handlelength=1.2)
    panels[0].set_ylabel("probability")
    save(figure, args)


def main(argv=None):
    args, (night, y) = arguments(__doc__, "sinusoid_period", argv), make_data()
    density = exact(night, y)
    intervals, truth = bands(density)

    def peak(draw):
        return jnp.array([(draw["f"] > low) & (draw["f"] < high) for low, high in intervals], float)

    nuts = run_nuts(model, (night, y), peak, args.budget, args.seed)
    ours = run_sahmc(model, (night, y), peak, args.budget, args.seed)
    names = [f"P({low:.2f} < f < {high:.2f})" for low, high in intervals]
    print_table("Mass of the four frequencies that fit", names, truth, (nuts, ours))
    print("NUTS: chains stay on the bump they started near, mostly one without mass. sahmc: as the grid says.")
    picture(density, intervals, truth, nuts, ours, args)
    return returned(truth, nuts, ours)


if __name__ == "__main__":
    main()
