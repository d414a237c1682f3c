"""Label switching: four models whose parts have no names of their own, in NumPyro, NUTS beside sahmc.

Six Gaussians for the velocities of 82 galaxies, a hidden Markov model with four states, two factors, and a small
network. Parts change places, and factors and units their signs: 720, 24, 8 and 3840 copies of every mode. Chains of
NUTS keep the labels they fell into, or change them now and then, and their R-hat says that something is wrong. sahmc
finds the symmetries, gives every copy its share, and tells component 1 from component 2 in the tables.

The galaxies are those of Roeder (1990), in 1000 km/s; the other data are made up.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from compare import COLOURS, arguments, run_nuts, run_sahmc, save
from neural_network import make_data as network_data
from neural_network import model as network

from sahmc._support.tables import Table

GALAXIES = """
9.172 9.350 9.483 9.558 9.775 10.227 10.406 16.084 16.170 18.419 18.552 18.600 18.927 19.052 19.070 19.330 19.343 19.349
19.440 19.473 19.529 19.541 19.547 19.663 19.846 19.856 19.863 19.914 19.918 19.973 19.989 20.166 20.175 20.179 20.196
20.215 20.221 20.415 20.629 20.795 20.821 20.846 20.875 20.986 21.137 21.492 21.701 21.814 21.921 21.960 22.185 22.209
22.242 22.249 22.314 22.374 22.495 22.746 22.747 22.888 22.914 23.206 23.241 23.263 23.484 23.538 23.542 23.666 23.706
23.711 24.129 24.285 24.289 24.366 24.717 24.990 25.633 26.960 26.995 32.065 32.789 34.279
"""


def galaxies(velocity):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(6)))
    with numpyro.plate("component", 6):
        mu = numpyro.sample("mu", dist.Normal(20, 10))
        sd = numpyro.sample("sd", dist.LogNormal(0, 0.7))
    numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(mu, sd)), obs=velocity)


def hidden_states(y):
    with numpyro.plate("state", 4):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        rows = numpyro.sample("rows", dist.Dirichlet(jnp.ones(4)))
    sd = numpyro.sample("sd", dist.LogNormal(0, 0.5))
    seen = dist.Normal(mu, sd).log_prob(y[:, None])

    def forward(before, now):
        return jax.nn.logsumexp(before[:, None] + jnp.log(rows), axis=0) + now, None

    numpyro.factor("y", jax.nn.logsumexp(jax.lax.scan(forward, seen[0], seen[1:])[0]))


def factors(scatter_root, count):
    loading = numpyro.sample("loading", dist.Laplace(0, 0.5).expand([8, 2]).to_event(2))
    sd = numpyro.sample("sd", dist.LogNormal(0, 0.5))
    root = jnp.linalg.cholesky(loading @ loading.T + sd**2 * jnp.eye(8))
    half = jax.scipy.linalg.solve_triangular(root, scatter_root, lower=True)
    numpyro.factor("y", -0.5 * jnp.sum(half**2) - count * jnp.sum(jnp.log(jnp.diag(root))))


def make_data():
    rng = np.random.default_rng(5)
    state, y = 0, []
    for _ in range(150):
        state = state if rng.random() < 0.8 else rng.integers(4)
        y.append(rng.normal([-5, -1, 2, 6][state], 0.8))
    loading = np.kron(np.eye(2), [[1.2], [-0.9], [1.0], [0.8]])
    z = rng.normal(size=(100, 2)) @ loading.T + 0.5 * rng.normal(size=(100, 8))
    return np.array(GALAXIES.split(), float), np.array(y), np.linalg.cholesky(z.T @ z)


def cases():
    """Each model with its data, what is shown of its parts, and how many there are."""
    velocity, y, scatter_root = make_data()
    return {
        "Galaxies, six components": (galaxies, (velocity,), lambda draw: draw["mu"], "mean, 1000 km/s"),
        "Hidden Markov model, four states": (hidden_states, (y,), lambda draw: draw["mu"], "mean of a state"),
        "Two factors": (
            factors,
            (scatter_root, 100),
            lambda draw: draw["loading"][..., 0, :],
            "loading of item 1",
        ),
        "Network, five units": (network, network_data(), lambda draw: draw["out"], "weight of a unit"),
    }


def largest(shown):
    """Whether each part has the largest number of all: 1 / K of the mass for each of K."""

    def fn(draw):
        return (shown(draw) == shown(draw).max(-1, keepdims=True)).astype(float)

    return fn


def picture(runs, args):
    from matplotlib import pyplot as plt

    figure, rows = plt.subplots(len(runs), 2, figsize=(10.6, 11), layout="constrained")
    for panels, (name, (shown, axis, nuts, ours)) in zip(rows, runs.items(), strict=True):
        told = ours.result.relabel()
        rng = np.random.default_rng(args.seed)
        kept = rng.choice(ours.result.weight.size, 4000, p=ours.result.weight.ravel())
        relabelled = np.asarray(shown(told)).reshape(ours.result.weight.size, -1)[kept]
        by_chain = np.asarray(shown(nuts.draws))
        low, high = np.quantile(by_chain, [0.002, 0.998]) @ [[1.08, -0.08], [-0.08, 1.08]]
        edges = np.linspace(low, high, 90)
        for part in range(relabelled.shape[1]):
            colour = plt.get_cmap("tab10")(part)
            for values in by_chain:
                panels[0].hist(values[:, part], edges, histtype="step", density=True, color=colour, lw=1.2, alpha=0.8)
            panels[1].hist(relabelled[:, part], edges, histtype="stepfilled", density=True, color=colour, alpha=0.55)
        panels[0].set_ylabel(name.replace(", ", ",\n"), fontsize=11)
        for panel in panels:
            top = max(patch.get_xy()[:, 1].max() for patch in panel.patches)
            panel.set(xlabel=axis, yticks=[], xlim=(low, high), ylim=(0, 1.05 * top))
            panel.spines[["top", "right", "left"]].set_visible(False)
    for panel, title, who in zip(rows[0], ("NUTS: 4 chains, as labelled", "sahmc: relabelled"), COLOURS, strict=False):
        panel.set_title(title, fontsize=15, fontweight="bold", color=COLOURS[who])
    figure.suptitle("One colour for each part: which one is component 1?", fontsize=14)
    save(figure, args)


def main(argv=None):
    args = arguments(__doc__, "label_switching", argv)
    runs, rows = {}, {}
    for name, (model, data, shown, axis) in cases().items():
        nuts = run_nuts(model, data, largest(shown), args.budget, args.seed)
        ours = run_sahmc(model, data, largest(shown), args.budget, args.seed)
        runs[name], exact = (shown, axis, nuts, ours), 1 / len(ours.mean)
        copies = max(mode.copies for mode in ours.result.modes())
        off = [f"{np.abs(run.mean - exact).max():.3f}" for run in (nuts, ours)]
        rhat = [f"{run.rhat:.2f}" for run in (nuts, ours)]
        rows[name] = [f"{copies:,}", *off, *rhat, ", ".join(ours.findings) or "none"]
    heads = ["copies", "off, NUTS", "off, sahmc", "R-hat, NUTS", "R-hat, sahmc", "findings"]
    print('"off": the largest error of the probability that a given part has the largest number, 1 / K exactly\n')
    print(Table("", heads, list(rows), list(rows.values())))
    picture(runs, args)
    return {name: (run[2], run[3]) for name, run in runs.items()}


if __name__ == "__main__":
    main()
