"""Label switching: a mixture of three Gaussians, fitted in NumPyro to the velocities of some 80 galaxies.

Which component is called first is arbitrary: all 3! = 6 labelings have mass 1/6 exactly, and the three means have the
same posterior. A chain of NUTS keeps the labeling it fell into; sahmc visits all six with equal mass. The data are made
up, in the likeness of the galaxies of Roeder (1990).
"""

from itertools import permutations

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from compare import CHAINS, COLOURS, arguments, print_table, returned, run_nuts, run_sahmc, save, two_panels

GROUPS = ((12, 9.7, 0.6), (45, 20.0, 1.6), (25, 27.0, 1.0))
LABELINGS = np.array(list(permutations(range(3))))


def make_data():
    rng = np.random.default_rng(2)
    return np.concatenate([centre + spread * rng.standard_normal(n) for n, centre, spread in GROUPS])


def model(velocity):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("component", 3):
        mu = numpyro.sample("mu", dist.Normal(20, 10))
        sd = numpyro.sample("sd", dist.LogNormal(0.5, 0.7))
    with numpyro.plate("galaxy", len(velocity)):
        mixture = dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(mu, sd))
        numpyro.sample("velocity", mixture, obs=velocity)


def labeling(draw):
    """1 for the order of the means that a draw has, 0 for the five others."""
    return jnp.all(jnp.argsort(draw["mu"]) == LABELINGS, axis=-1).astype(float)


def picture(velocity, nuts, ours, args):
    figure, panels = two_panels("Three galaxy groups, six labelings, mass 1/6 = 0.167 each")
    for chain, colour in enumerate(CHAINS):
        mu = nuts.draws["mu"][chain, ::4]
        panels[0].scatter(*mu[:, :2].T, s=9, alpha=0.4, linewidths=0, color=colour, label=f"chain {chain + 1}")
    panels[0].legend(loc="upper right", frameon=False, markerscale=2.5, labelcolor="0.2")
    panels[1].scatter(*ours.draws["mu"][:, :2].T, s=9, alpha=0.4, linewidths=0, color=COLOURS["sahmc"])
    centres = np.array([group[1] for group in GROUPS])
    for panel, run in zip(panels, (nuts, ours), strict=True):
        for order, mass in zip(LABELINGS, run.mean, strict=True):
            place = centres[np.argsort(order)][:2]
            panel.scatter(*place, s=1500, facecolors="none", edgecolors="0.6", linestyles="--", zorder=0)
            panel.annotate(
                f"{mass:.2f}", place, (0, 26), textcoords="offset points", ha="center", fontsize=15, fontweight="bold"
            )
        panel.plot(velocity, np.full(len(velocity), 3.2), "|", color="0.3", markersize=9, alpha=0.6)
        panel.set(xlim=(2, 34), ylim=(2, 34), xlabel="mean of component 1 (1000 km/s)")
        panel.set_aspect("equal")
    panels[1].text(33, 4.6, "ticks: the galaxies", ha="right", fontsize=9, color="0.3")
    panels[0].set_ylabel("mean of component 2 (1000 km/s)")
    save(figure, args)


def main(argv=None):
    args, velocity, truth = arguments(__doc__, "galaxy_mixture", argv), make_data(), np.full(6, 1 / 6)
    nuts = run_nuts(model, (velocity,), labeling, args.budget, args.seed)
    ours = run_sahmc(model, (velocity,), labeling, args.budget, args.seed)
    names = ["order " + " < ".join(str(k + 1) for k in order) for order in LABELINGS]
    print_table("Mass of each labeling of the three components", names, truth, (nuts, ours))
    print("NUTS: each chain has one labeling and never another. sahmc: all six, a sixth each.")
    picture(velocity, nuts, ours, args)
    return returned(truth, nuts, ours)


if __name__ == "__main__":
    main()
