"""Two lines through one cloud, in PyMC: do they cross, or are they parallel?

Each point belongs to one of two lines, nobody knows which; this is summed out by pm.Mixture. Measured near x = -1 and
x = 1 only, two parallel lines fit as well as two that cross, and the lines may be swapped: four modes. The truth comes
from adding up all 2^14 ways to assign the points, each of which is a Gaussian in intercepts and slopes. A chain of
PyMC's NUTS tells one story and never the other; sahmc tells both, with their odds.
"""

import time

import jax.numpy as jnp
import numpy as np
import pymc as pm
from compare import CHAINS, COLOURS, arguments, conclude_nuts, print_table, returned, run_sahmc, save, two_panels
from scipy.special import logsumexp, ndtr

NOISE, PRIOR = 0.3, 2.0
NAMES = ("crossing, line 1 rises", "crossing, line 2 rises", "parallel, line 1 above", "parallel, line 2 above")


def make_data():
    rng = np.random.default_rng(4)
    x = np.repeat([-1.0, 1.0], 7) + rng.uniform(-0.25, 0.25, 14)
    y = np.tile([1.0, -1.0], 7) + NOISE * rng.standard_normal(14)
    return x, y


def make_model(x, y):
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, PRIOR, shape=2)
        slope = pm.Normal("slope", 0, PRIOR, shape=2)
        lines = pm.Normal.dist(intercept + slope * x[:, None], NOISE)
        pm.Mixture("y", w=[0.5, 0.5], comp_dists=lines, observed=y)
    return model


def story(draw):
    """1 for the mode a draw belongs to, 0 for the three others."""
    steeper, higher = draw["slope"][0] - draw["slope"][1], draw["intercept"][0] > draw["intercept"][1]
    parallel = jnp.abs(steeper) < 1
    return jnp.array([steeper >= 1, steeper <= -1, parallel & higher, parallel & ~higher], float)


def exact(x, y):
    """Masses of the four modes, summed over all assignments of points to lines."""
    first = (np.arange(2 ** len(x))[:, None] >> np.arange(len(x))) & 1
    design = np.stack([np.ones_like(x), x], axis=1)
    log_evidence, mean, variance = 0.0, [], []
    for member in (first, 1 - first):
        precision = np.einsum("an,ni,nj->aij", member, design, design) / NOISE**2 + np.eye(2) / PRIOR**2
        pull = (member * y) @ design / NOISE**2
        covariance = np.linalg.inv(precision)
        fit = np.einsum("aij,aj->ai", covariance, pull)
        log_evidence = log_evidence + 0.5 * np.sum(pull * fit, axis=1) - 0.5 * np.linalg.slogdet(precision)[1]
        mean.append(fit[:, 1])
        variance.append(covariance[:, 1, 1])
    weight = np.exp(log_evidence - logsumexp(log_evidence))
    steeper, spread = mean[0] - mean[1], np.sqrt(variance[0] + variance[1])
    crossing = weight @ (ndtr((steeper - 1) / spread) + ndtr((-1 - steeper) / spread))
    return np.array([crossing, crossing, 1 - crossing, 1 - crossing]) / 2


def run_pymc(model, budget, seed):
    began = time.perf_counter()
    with model:
        drawn = pm.sample(chains=4, cores=1, random_seed=seed, progressbar=False, **budget)
    draws = {name: np.asarray(drawn.posterior[name]) for name in ("intercept", "slope")}
    return conclude_nuts(draws, story, int(drawn.sample_stats["n_steps"].sum()), time.perf_counter() - began)


def picture(x, y, truth, nuts, ours, args):
    figure, panels = two_panels("Two lines through one cloud: crossing or parallel? Lines of the posterior")
    ends = np.array([-1.6, 1.6])
    for chain, colour in enumerate(CHAINS):
        for i in range(0, len(nuts.draws["slope"][chain]), len(nuts.draws["slope"][chain]) // 15):
            for a, b in zip(nuts.draws["intercept"][chain, i], nuts.draws["slope"][chain, i], strict=True):
                panels[0].plot(ends, a + b * ends, color=colour, alpha=0.35, linewidth=1)
        panels[0].plot([], [], color=colour, label=f"chain {chain + 1}")
    panels[0].legend(loc="upper center", frameon=False, ncols=4, fontsize=10)
    for i in range(0, len(ours.draws["slope"]), len(ours.draws["slope"]) // 60):
        for a, b in zip(ours.draws["intercept"][i], ours.draws["slope"][i], strict=True):
            panels[1].plot(ends, a + b * ends, color=COLOURS["sahmc"], alpha=0.25, linewidth=1)
    for panel, run in zip(panels, (nuts, ours), strict=True):
        panel.plot(x, y, "o", color="0.15", markersize=6, zorder=3)
        words = f"they cross: {run.mean[:2].sum():.2f}  (exact {truth[:2].sum():.2f})"
        panel.text(0, -2.55, words, ha="center", fontsize=14, fontweight="bold")
        panel.set(xlabel="x", xlim=(-1.6, 1.6), ylim=(-2.8, 2.8))
    panels[0].set_ylabel("y")
    save(figure, args)


def main(argv=None):
    args, (x, y) = arguments(__doc__, "mixture_of_regressions", argv), make_data()
    truth, model = exact(x, y), make_model(x, y)
    nuts = run_pymc(model, args.budget, args.seed)
    ours = run_sahmc(model, (), story, args.budget, args.seed)
    print_table("Mass of each story", NAMES, truth, (nuts, ours))
    print("NUTS: one story for each chain. sahmc: all four, as the sum over assignments says.")
    picture(x, y, truth, nuts, ours, args)
    return returned(truth, nuts, ours)


if __name__ == "__main__":
    main()
