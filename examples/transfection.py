"""Which rate is which? Fluorescence of a cell after mRNA transfection, in NumPyro.

mRNA arrives at t0 and decays at a rate delta; the protein made from it decays at a rate beta. The light is
scale (exp(-beta s) - exp(-delta s)) / (delta - beta), s = t - t0, the same if the rates are swapped: the data cannot
tell them apart, and the posterior has two modes of mass 1/2 exactly. A chain of NUTS stays in the mode it fell into, so
that its masses are a count of starts; sahmc gets one half, with an error bar.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from compare import CHAINS, COLOURS, arguments, print_table, returned, run_nuts, run_sahmc, save, two_panels

TIME = np.linspace(0, 24, 49)
TRUE = dict(scale=4.0, beta=0.12, delta=0.9, t0=1.5)
NOISE = 0.2


def light(time, scale, beta, delta, t0):
    """scale s exp(-slow s) (1 - exp(-z)) / z with z = |delta - beta| s: nothing cancels where the rates meet."""
    since = jnp.maximum(time - t0, 0)
    z = jnp.abs(delta - beta) * since
    large = jnp.where(z < 1e-2, 1.0, z)
    ratio = jnp.where(z < 1e-2, 1 - z / 2 + z**2 / 6, -jnp.expm1(-large) / large)
    return scale * since * jnp.exp(-jnp.minimum(beta, delta) * since) * ratio


def make_data():
    rng = np.random.default_rng(1)
    return np.asarray(light(TIME, **TRUE)) + NOISE * rng.standard_normal(len(TIME))


def model(y):
    scale = numpyro.sample("scale", dist.LogNormal(1.0, 1.0))
    beta = numpyro.sample("beta", dist.LogNormal(-1.0, 1.0))
    delta = numpyro.sample("delta", dist.LogNormal(-1.0, 1.0))
    t0 = numpyro.sample("t0", dist.LogNormal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.LogNormal(-1.0, 1.0))
    numpyro.sample("y", dist.Normal(light(TIME, scale, beta, delta, t0), noise), obs=y)


def faster_mrna(draw):
    return jnp.array([draw["delta"] > draw["beta"]], float)


def picture(y, nuts, ours, args):
    figure, panels = two_panels("Two decay rates that may be swapped: each side of the diagonal has mass 1/2")
    for chain, colour in enumerate(CHAINS):
        beta, delta = (nuts.draws[k][chain, ::3] for k in ("beta", "delta"))
        panels[0].scatter(beta, delta, s=9, alpha=0.4, linewidths=0, color=colour, label=f"chain {chain + 1}")
    panels[0].legend(loc="lower left", frameon=False, markerscale=2.5, labelcolor="0.2")
    panels[1].scatter(
        ours.draws["beta"][::3], ours.draws["delta"][::3], s=9, alpha=0.4, linewidths=0, color=COLOURS["sahmc"]
    )
    for panel, run in zip(panels, (nuts, ours), strict=True):
        panel.plot([0.04, 3], [0.04, 3], color="0.6", linestyle="--", linewidth=1)
        for x, y_, mass in ((0.2, 1.9, run.mean[0]), (1.05, 0.25, 1 - run.mean[0])):
            words = f"{mass:.2f} ± {run.mcse[0]:.2f}" if run is nuts else f"{mass:.3f} ± {run.mcse[0]:.3f}"
            panel.text(x, y_, words, fontsize=17, fontweight="bold", ha="center", color="0.15")
        panel.set(xscale="log", yscale="log", xlim=(0.05, 3), ylim=(0.05, 3), xlabel="protein decay β (1/h)")
        panel.set_aspect("equal")
    panels[0].set_ylabel("mRNA decay δ (1/h)")
    inset = panels[1].inset_axes([0.08, 0.07, 0.34, 0.27])
    inset.plot(TIME, y, ".", color="0.2", markersize=3)
    fine = np.linspace(0, 24, 300)
    for i in range(0, len(ours.draws["t0"]), 200):
        one = {k: ours.draws[k][i] for k in TRUE}
        inset.plot(fine, light(fine, **one), color=COLOURS["sahmc"], alpha=0.15, linewidth=0.8)
    inset.set_title("light over 24 h", fontsize=9)
    inset.set(xticks=[], yticks=[])
    save(figure, args)


def main(argv=None):
    args, y, truth = arguments(__doc__, "transfection", argv), make_data(), np.array([0.5])
    nuts = run_nuts(model, (y,), faster_mrna, args.budget, args.seed)
    ours = run_sahmc(model, (y,), faster_mrna, args.budget, args.seed)
    print_table("Probability that mRNA decays faster than protein", ["P(delta > beta)"], truth, (nuts, ours))
    print("NUTS counts how many of its chains started on which side; only its R-hat tells. sahmc: one half.")
    picture(y, nuts, ours, args)
    return returned(truth, nuts, ours)


if __name__ == "__main__":
    main()
