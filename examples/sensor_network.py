"""Where are the sensors? Four places from noisy distances, in NumPyro, with curved and mirrored modes.

Two sensors are known; a distance is measured with probability exp(-d^2 / (2 0.3^2)) and noise 0.02. These are too
few to fix everything: sensors 1 and 3 may lie on either side of the line through the known ones. Data as in Ahn, Chen
and Welling (2013) and Tak, Meng and van Dyk (2018); the truth comes from long runs of parallel tempering (standard
error 0.005). A chain of NUTS sees one or two of the four combinations; sahmc sees all, with their masses.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from compare import COLOURS, arguments, print_table, returned, run_nuts, run_sahmc, save

KNOWN = np.array([[0.5, 0.3], [0.3, 0.7]])
TRUE = np.array([[0.5748, 0.9069], [0.0991, 0.3651], [0.2578, 0.1350], [0.8546, 0.0392]])
SEEN = np.array([[0, 4], [0, 5], [2, 4], [2, 5], [0, 3], [1, 2], [1, 3]])
DISTANCES = np.array([0.6103, 0.3631, 0.2995, 0.5656, 0.9266, 0.2970, 0.8524])
UNSEEN = np.array([[1, 4], [1, 5], [3, 4], [3, 5], [0, 1], [0, 2], [2, 3]])
MASSES, MASSES_ERROR = np.array([0.237, 0.265, 0.263, 0.2345]), 0.005
SIDES = ("1 left, 3 left", "1 left, 3 right", "1 right, 3 left", "1 right, 3 right")
SENSORS = ("#7b3294", "#008837", "#c2571a", "#1f6f8b")


def model(distances):
    with numpyro.plate("sensor", 4), numpyro.plate("axis", 2):
        place = numpyro.sample("place", dist.Normal(0, 10))
    place = jnp.concatenate([place.T, KNOWN])

    def squared(pairs):
        return jnp.sum((place[pairs[:, 0]] - place[pairs[:, 1]]) ** 2, axis=-1)

    seen, unseen = squared(SEEN), squared(UNSEEN)
    numpyro.sample("distance", dist.Normal(jnp.sqrt(seen), 0.02), obs=distances)
    numpyro.factor("seen", -jnp.sum(seen) / (2 * 0.3**2))
    numpyro.factor("unseen", jnp.sum(jnp.log(-jnp.expm1(-unseen / (2 * 0.3**2)))))


def sides(draw):
    """1 for the combination of sides on which sensors 1 and 3 lie, 0 for the others."""
    x, y = draw["place"]
    right = 0.4 * (x - 0.5) + 0.2 * (y - 0.3) > 0
    return (2 * right[0] + right[2] == jnp.arange(4)).astype(float)


def picture(nuts, ours, args):
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(14, 5.6), layout="constrained", width_ratios=(1, 1, 0.8))
    places = {"NUTS": nuts.draws["place"][:, ::4].reshape(-1, 2, 4), "sahmc": ours.draws["place"]}
    line = np.array([KNOWN[0] - 4 * (KNOWN[1] - KNOWN[0]), KNOWN[0] + 4 * (KNOWN[1] - KNOWN[0])])
    for panel, (name, place) in zip(panels, places.items(), strict=False):
        for k, colour in enumerate(SENSORS):
            panel.scatter(*place[:, :, k].T, s=4, alpha=0.25, linewidths=0, color=colour, rasterized=True)
            panel.plot(*TRUE[k], "o", color=colour, markeredgecolor="black", markersize=9, label=f"sensor {k + 1}")
        panel.plot(*KNOWN.T, "k^", markersize=9, label="known sensors")
        panel.plot(*line.T, color="0.6", linestyle="--", linewidth=1, zorder=0)
        panel.set(xlim=(-1.0, 1.9), ylim=(-1.05, 1.6), xlabel="east")
        panel.set_aspect("equal")
        panel.set_title(name, fontsize=16, color=COLOURS[name], fontweight="bold")
    panels[0].set_ylabel("north")
    panels[0].legend(loc="lower left", frameon=False, fontsize=9, ncols=2)
    rows = np.arange(4)[::-1]
    for shift, run in ((0.2, nuts), (-0.2, ours)):
        bars = dict(height=0.36, color=COLOURS[run.name], label=run.name)
        panels[2].barh(rows + shift, run.mean, xerr=run.mcse, error_kw=dict(ecolor="0.3", capsize=3), **bars)
    panels[2].vlines(MASSES, rows - 0.45, rows + 0.45, color="black", linewidth=2.5, label="reference")
    panels[2].set_yticks(rows, [words.replace(", ", "\n") for words in SIDES])
    panels[2].set(xlabel="mass", xlim=(0, None))
    panels[2].set_title("side of the dashed line", fontsize=13)
    panels[2].legend(frameon=False, fontsize=10)
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        "Four sensors located from distances: draws, true places (circles), and masses of the modes", fontsize=14
    )
    save(figure, args)


def main(argv=None):
    args = arguments(__doc__, "sensor_network", argv)
    nuts = run_nuts(model, (DISTANCES,), sides, args.budget, args.seed)
    ours = run_sahmc(model, (DISTANCES,), sides, args.budget, args.seed)
    print_table("Mass of the sides on which sensors 1 and 3 lie", SIDES, MASSES, (nuts, ours))
    print("NUTS: chains that disagree, and masses that are accidents of their starts. sahmc: as the reference.")
    picture(nuts, ours, args)
    return returned(MASSES, nuts, ours) | {"truth_error": MASSES_ERROR}


if __name__ == "__main__":
    main()
