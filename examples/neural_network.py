"""A small Bayesian neural network, in NumPyro: here NUTS is better, and sahmc gains nothing.

Five hidden units may be exchanged, and each may change the sign of what goes in and out: 5! 2^5 = 3840 modes, all
alike, and every outgoing weight is positive with probability 1/2 exactly. But the data leave units to spare, which
wander freely: the modes hang together, NUTS walks from one to the next, and they all predict the same in any case.
sahmc climbs a ladder for nothing: its predictions have wider error bars, and its findings warn.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from compare import COLOURS, arguments, print_table, returned, run_nuts, run_sahmc, save, two_panels, worst_rhat

from sahmc.tilt.importance import error_of_mean

UNITS = 5
PLACES = np.array([-1.5, 0.0, 1.5])


def make_data():
    rng = np.random.default_rng(0)
    x = np.sort(np.concatenate([rng.uniform(-2.2, -0.5, 20), rng.uniform(0.5, 2.2, 20)]))
    return x, wave(x) + 0.15 * rng.standard_normal(40)


def wave(x):
    return np.sin(2.2 * x) + 0.3 * x


def network(draw, x):
    hidden = jnp.tanh(jnp.asarray(x)[:, None] * draw["slope"] + draw["bias"])
    return hidden @ draw["out"] + draw["level"]


def model(x, y):
    with numpyro.plate("unit", UNITS):
        slope = numpyro.sample("slope", dist.Normal(0, 2))
        bias = numpyro.sample("bias", dist.Normal(0, 2))
        out = numpyro.sample("out", dist.Normal(0, 1))
    level = numpyro.sample("level", dist.Normal(0, 1))
    noise = numpyro.sample("noise", dist.LogNormal(-2, 0.5))
    prediction = network(dict(slope=slope, bias=bias, out=out, level=level), x)
    numpyro.sample("y", dist.Normal(prediction, noise), obs=y)


def positive(draw):
    return (draw["out"] > 0).astype(float)


def predictions(draw):
    return network(draw, PLACES)


def nuts_values(nuts):
    return np.asarray(jax.vmap(jax.vmap(predictions))(nuts.draws), float)


def picture(x, y, nuts, ours, rhats, args):
    figure, panels = two_panels(
        "A network with 3840 modes that hang together: the same predictions, and NUTS needs no help"
    )
    fine = np.linspace(-2.5, 2.5, 200)
    for panel, run, draws in zip(panels, (nuts, ours), flat_draws(nuts, ours), strict=True):
        curves = np.stack([network({k: v[i] for k, v in draws.items()}, fine) for i in range(0, 4000, 8)])
        low, middle, high = np.quantile(curves, (0.05, 0.5, 0.95), axis=0)
        panel.fill_between(fine, low, high, color=COLOURS[run.name], alpha=0.25, linewidth=0, label="90 % interval")
        panel.plot(fine, middle, color=COLOURS[run.name], linewidth=2, label="posterior median")
        panel.plot(fine, wave(fine), color=COLOURS["truth"], linestyle="--", linewidth=1.2, label="true function")
        panel.plot(x, y, "o", color="0.15", markersize=4, label="data")
        panel.set(xlabel="x", xlim=(-2.5, 2.5), ylim=(-2.6, 2.6))
        words = f"largest R-hat\nof weights {run.rhat:.2f}\nof predictions {rhats[run.name]:.2f}"
        panel.text(2.4, -2.4, words, ha="right", fontsize=12)
    panels[0].set_ylabel("y")
    panels[0].legend(loc="upper left", frameon=False, fontsize=10)
    save(figure, args)


def flat_draws(nuts, ours):
    """4000 draws of each, of equal weight."""
    pooled = {k: v.reshape(-1, *v.shape[2:]) for k, v in nuts.draws.items()}
    chosen = np.linspace(0, len(pooled["level"]) - 1, 4000).astype(int)
    return {k: v[chosen] for k, v in pooled.items()}, ours.draws


def main(argv=None):
    args, (x, y), truth = arguments(__doc__, "neural_network", argv), make_data(), np.full(UNITS, 0.5)
    shorter = dict(draws=300, tune=300) if args.quick else dict(draws=1000, tune=1000)
    nuts = run_nuts(model, (x, y), positive, shorter, args.seed)
    ours = run_sahmc(model, (x, y), positive, args.budget, args.seed)
    rhats = {"NUTS": worst_rhat(nuts_values(nuts)), "sahmc": ours.result.summary(predictions).columns["r_hat"].max()}
    values = nuts_values(nuts)
    found = [(values.mean(axis=(0, 1)), error_of_mean(values)), ours.result.expectation(predictions)]
    more = {
        f"prediction at {place:.1f}": [f"{mean[i]:.3f} ± {mcse[i]:.3f}" for mean, mcse in found]
        for i, place in enumerate(PLACES)
    }
    more["R-hat of predictions"] = [f"{rhats[run.name]:.2f}" for run in (nuts, ours)]
    names = [f"P(weight {k + 1} > 0)" for k in range(UNITS)]
    print_table("Outgoing weights, and predictions", names, truth, (nuts, ours), more=more)
    print("Both predict the same; NUTS is more precise there, and no worse in the weights. sahmc gains nothing here.")
    picture(x, y, nuts, ours, rhats, args)
    (nuts_mean, nuts_error), (mean, error) = found
    gap = np.abs(nuts_mean - mean) / np.hypot(nuts_error, error)
    return returned(truth, nuts, ours) | {"prediction_rhat": rhats, "prediction_gap": gap}


if __name__ == "__main__":
    main()
