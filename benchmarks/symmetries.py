"""Posteriors whose modes have copies: are the symmetries found, and what does it cost to draw from all copies alike?

python benchmarks/symmetries.py models --seeds 3 --jobs 2   # nine models, beside sahmc without them and NUTS
python benchmarks/symmetries.py none                        # models without one, or almost with one: what is found
python benchmarks/symmetries.py cost                        # what looking for symmetries costs where there are none
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import platform
import time
import warnings

import numpy as np


def mixture(parts, ordered=False, almost=0.0):
    """Gaussians with unknown weights, means and widths; clusters six widths apart, of unequal size.

    ``almost`` is by how much the priors of their widths differ from part to part.
    """
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    rng = np.random.default_rng(parts)
    sizes = np.maximum(10, 60 * parts * rng.dirichlet(3 * np.ones(parts))).astype(int)
    centres = 6.0 * (np.arange(parts) - (parts - 1) / 2)
    y = np.concatenate([rng.normal(c, 1.0, n) for c, n in zip(centres, sizes, strict=True)])

    def model():
        weights = numpyro.sample("weights", dist.Dirichlet(2 * jnp.ones(parts)))
        mu = part_means("mu", parts, 0.0, 3.0 * parts, ordered)
        with numpyro.plate("part", parts):
            sigma = numpyro.sample("sigma", dist.LogNormal(almost * jnp.arange(parts), 0.5))
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(mu, sigma)), obs=y)

    def invariants(draw):
        moments = (draw["mu"].sum(-1), (draw["mu"] ** 2).sum(-1), draw["sigma"].sum(-1), (draw["weights"] ** 2).sum(-1))
        return np.stack([*moments, draw["mu"].max(-1)], axis=-1)

    def by_part(draw):
        return np.stack([draw["mu"], draw["sigma"], draw["weights"]], axis=-1)

    truth = {"mu": centres, "sigma": np.ones(parts), "weights": sizes / sizes.sum()}
    return model, invariants, lambda draw: first_is_largest(draw["mu"]), by_part, truth


def part_means(name, parts, centre, spread, ordered):
    """Means of parts with normal priors, in increasing order if they are to be ``ordered``."""
    import numpyro
    import numpyro.distributions as dist

    prior = dist.Normal(centre, spread)
    if ordered:  # the same posterior, cut to one of its copies
        means = numpyro.sample(name, dist.ImproperUniform(dist.constraints.ordered_vector, (), (parts,)))
        numpyro.factor(f"{name}_prior", prior.log_prob(means).sum())
        return means
    with numpyro.plate("part", parts):
        return numpyro.sample(name, prior)


def hidden_states(parts=4, ordered=False):
    """A hidden Markov model: states with means, and a matrix of transitions of which both axes change."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    rng = np.random.default_rng(1)
    matrix, state, y = 0.7 * np.eye(parts) + 0.3 / parts, 0, []
    for _ in range(200):
        state = rng.choice(parts, p=matrix[state] / matrix[state].sum())
        y.append(rng.normal(2.5 * state, 0.7))
    y = np.array(y)

    def model():
        rows = numpyro.sample("matrix", dist.Dirichlet(jnp.ones(parts)).expand([parts]).to_event(1))
        mu = part_means("mu", parts, 4.0, 4.0, ordered)
        sigma = numpyro.sample("sigma", dist.LogNormal(0, 0.5))
        emission = dist.Normal(mu, sigma).log_prob(y[:, None])

        def step(log_alpha, emitted):
            return jax.nn.logsumexp(log_alpha[:, None] + jnp.log(rows), axis=0) + emitted, None

        last, _ = jax.lax.scan(step, emission[0] - math.log(parts), emission[1:])
        numpyro.factor("y", jax.nn.logsumexp(last))

    def invariants(draw):
        stay = np.trace(draw["matrix"], axis1=-2, axis2=-1)
        return np.stack([draw["mu"].sum(-1), (draw["mu"] ** 2).sum(-1), draw["sigma"], stay], axis=-1)

    def by_part(draw):
        return np.stack([draw["mu"], np.diagonal(draw["matrix"], axis1=-2, axis2=-1)], axis=-1)

    truth = {"mu": 2.5 * np.arange(parts), "sigma": 0.7, "matrix": matrix / matrix.sum(axis=1, keepdims=True)}
    return model, invariants, lambda draw: first_is_largest(draw["mu"]), by_part, truth


def latent_classes(parts=3, ordered=False):
    """Classes of answers to ten questions; the order is that of the first question's log odds."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    rng = np.random.default_rng(2)
    chance = np.array([[0.9] * 5 + [0.2] * 5, [0.2] * 3 + [0.8] * 4 + [0.1] * 3, [0.5] * 5 + [0.95] * 5])
    y = (rng.random((150, 10)) < chance[rng.choice(3, 150, p=[0.5, 0.3, 0.2])]).astype(float)

    def model():
        weights = numpyro.sample("weights", dist.Dirichlet(2 * jnp.ones(parts)))
        first = part_means("first", parts, 0.0, 1.5, ordered)
        with numpyro.plate("part", parts):
            others = numpyro.sample("others", dist.Normal(0, 1.5).expand([9]).to_event(1))
        odds = jnp.concatenate([first[:, None], others], axis=1)
        each = y @ jax.nn.log_sigmoid(odds).T + (1 - y) @ jax.nn.log_sigmoid(-odds).T
        numpyro.factor("y", jnp.sum(jax.nn.logsumexp(each + jnp.log(weights), axis=1)))

    def invariants(draw):
        return np.stack(
            [(draw["weights"] ** 2).sum(-1), draw["first"].sum(-1), (draw["others"] ** 2).sum((-1, -2))], axis=-1
        )

    def by_part(draw):
        return np.concatenate([draw["weights"][..., None], draw["first"][..., None], draw["others"]], axis=-1)

    odds, share = np.log(chance / (1 - chance)), np.array([0.5, 0.3, 0.2])
    order = np.argsort(odds[:, 0])
    truth = {"first": odds[order, 0], "others": odds[order, 1:], "weights": share[order]}
    return model, invariants, lambda draw: first_is_largest(draw["weights"]), by_part, truth


def factors(parts, ordered=False):
    """Factors with sparse loadings, which may change places and signs; in order of one loading each for NUTS."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    rng = np.random.default_rng(3)
    loadings = np.zeros((12, parts))
    for k in range(parts):
        mine = slice(k * 12 // parts, (k + 1) * 12 // parts)
        loadings[mine, k] = rng.uniform(0.8, 1.6, 12 // parts) * rng.choice([-1, 1], 12 // parts)
    y = rng.normal(size=(120, parts)) @ loadings.T + 0.6 * rng.normal(size=(120, 12))
    second = y.T @ y

    def model():
        sigma = numpyro.sample("sigma", dist.LogNormal(0, 0.5))
        if ordered:  # one loading of each factor is known to be positive
            free = numpyro.sample("free", dist.Laplace(0, 0.5).expand([12, parts]).to_event(2))
            anchor = numpyro.sample("anchor", dist.Exponential(2.0).expand([parts]).to_event(1))
            places = np.array([k * 12 // parts for k in range(parts)])
            loading = numpyro.deterministic("loading", jnp.asarray(free).at[places, np.arange(parts)].set(anchor))
        else:
            loading = numpyro.sample("loading", dist.Laplace(0, 0.5).expand([12, parts]).to_event(2))
        covariance = loading @ loading.T + sigma**2 * jnp.eye(12)
        root = jnp.linalg.cholesky(covariance)
        solved = jnp.linalg.solve(covariance, second)
        numpyro.factor("y", -0.5 * jnp.trace(solved) - len(y) * jnp.log(jnp.diag(root)).sum())

    def invariants(draw):
        load = draw["loading"]
        return np.stack([draw["sigma"], (load**2).sum((-1, -2)), np.abs(load).sum((-1, -2))], axis=-1)

    def exact(draw):
        load = draw["loading"]
        largest = first_is_largest((load**2).sum(-2))
        return np.concatenate([largest, (load[..., 0, :] > 0) - 0.5 + 1 / parts], axis=-1)

    sign = np.sign([loadings[k * 12 // parts, k] for k in range(parts)])
    anchor = np.array([abs(loadings[k * 12 // parts, k]) for k in range(parts)])
    truth = {"sigma": 0.6, "free": loadings * sign, "anchor": anchor}
    return model, invariants, exact, lambda draw: np.swapaxes(draw["loading"], -1, -2), truth


def network(ordered=False):
    """The network of the examples: five hidden units, which may change places and signs."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    rng = np.random.default_rng(0)
    x = np.sort(np.concatenate([rng.uniform(-2.2, -0.5, 20), rng.uniform(0.5, 2.2, 20)]))
    y = np.sin(2.2 * x) + 0.3 * x + 0.15 * rng.standard_normal(40)

    def predicted(draw, at, numpy):
        hidden = numpy.tanh(at[:, None] * draw["slope"][..., None, :] + draw["bias"][..., None, :])
        return (hidden * draw["out"][..., None, :]).sum(-1) + draw["level"][..., None]

    def model():
        with numpyro.plate("unit", 5):
            names = {"slope": 2.0, "bias": 2.0, "out": 1.0}
            draw = {name: numpyro.sample(name, dist.Normal(0, sd)) for name, sd in names.items()}
        draw["level"] = numpyro.sample("level", dist.Normal(0, 1))
        noise = numpyro.sample("noise", dist.LogNormal(-2, 0.5))
        numpyro.sample("y", dist.Normal(predicted(draw, x, jnp), noise), obs=y)

    def invariants(draw):
        return np.concatenate([predicted(draw, np.array([-1.5, 0.0, 1.5]), np), draw["noise"][..., None]], axis=-1)

    return model, invariants, lambda draw: (draw["out"] > 0) - 0.5 + 1 / 5, None, None


def first_is_largest(values):
    """Whether each part is the one with the largest value: 1 / K of the mass for each."""
    return (values == values.max(-1, keepdims=True)).astype(float)


MIXED = 400
"""The least effective sample size of a fit by NUTS that relabelled means are held against: others are stuck."""
MODELS = {
    "mixture, 3": (mixture, {"parts": 3}, 3),
    "mixture, 5": (mixture, {"parts": 5}, 5),
    "mixture, 10": (mixture, {"parts": 10}, 10),
    "hidden states, 4": (hidden_states, {}, 4),
    "latent classes, 3": (latent_classes, {}, 3),
    "factors, 2": (factors, {"parts": 2}, 2),
    "factors, 3": (factors, {"parts": 3}, 3),
    "network, 5": (network, {}, 5),
}


def one_run(task):
    """One run, or nothing but a word if it fails."""
    try:
        return _one_run(task)
    except Exception as error:
        print(*task, "failed:", error, flush=True)
        return None


def _one_run(task):
    """One model, one way to sample it, one seed: a row of figures."""
    name, how, seed = task
    make, options, parts = MODELS[name]
    nuts = how in ("NUTS", "reference")
    model, invariants, exact, by_part, truth = make(**options, ordered=nuts)
    began = time.perf_counter()
    if nuts:
        draws, weight, gradients, about = run_nuts(model, seed, truth if how == "reference" else None)
    else:
        draws, weight, gradients, about = run_sahmc(model, seed, None if how == "without" else "auto")
    about["seconds"] = round(time.perf_counter() - began, 1)
    relabelled = about.pop("relabelled")
    from sahmc.tilt.importance import weighted_ess, weighted_mean

    ess = weighted_ess(invariants(draws), weight)
    error = math.nan if nuts else np.abs(weighted_mean(exact(draws), weight).mean - 1 / parts).max()
    row = {"error": float(error), "ess": float(ess.min()), "gradients": gradients, **about}
    print(name, how, seed, row, flush=True)
    if by_part is not None and relabelled is not None:
        parts_of = by_part(relabelled)
        mean, mcse = weighted_mean(parts_of.reshape(*weight.shape, -1), weight)
        row["means"] = mean.reshape(parts_of.shape[2:]), mcse.reshape(parts_of.shape[2:])
    return (name, how), row


def run_sahmc(model, seed, symmetries):
    import sahmc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = sahmc.sample(model, random_seed=seed, progressbar=False, symmetries=symmetries)
    draws = {name: np.asarray(value, float) for name, value in run.draws.items()}
    errors = sum(finding.severity == "error" for finding in run.findings)
    about = {
        "found": "; ".join(f"{type(one).__name__} {', '.join(one.names)}" for one in run.symmetries),
        "modes": len(run.modes()),
        "errors": errors,
        "warnings": len(run.findings) - errors,
        "codes": ",".join(finding.code for finding in run.findings),
        "relabelled": {name: np.asarray(value, float) for name, value in run.relabel().items()} if symmetries else None,
    }
    return draws, run.weight, run.num_gradients, about


def run_nuts(model, seed, start=None):
    """NUTS from random starts, or from ``start``, which makes it a reference for the copy that is there."""
    import jax
    from numpyro.infer import MCMC, NUTS, init_to_uniform, init_to_value

    chains, num = 4, 1000
    begin = init_to_uniform if start is None else init_to_value(values=start)
    nuts = MCMC(
        NUTS(model, init_strategy=begin),
        num_warmup=num,
        num_samples=num,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    nuts.warmup(jax.random.key(seed), extra_fields=("num_steps",), collect_warmup=True)
    gradients = int(nuts.get_extra_fields()["num_steps"].sum())
    nuts.run(jax.random.key(seed + 1), extra_fields=("num_steps",))
    gradients += int(nuts.get_extra_fields()["num_steps"].sum())
    draws = {name: np.asarray(value, float) for name, value in nuts.get_samples(group_by_chain=True).items()}
    about = {"found": "", "modes": 0, "errors": 0, "warnings": 0, "codes": "", "relabelled": draws}
    return draws, np.full((chains, num), 1 / (chains * num)), gradients, about


def furthest(one, two):
    """Return by how many standard errors means of parts differ, each pair (parts, numbers) of means and errors.

    Parts are matched, and signs, by what is nearest.
    """
    from scipy.optimize import linear_sum_assignment

    (mean, error), (other, its_error) = one, two
    apart = [np.abs(mean[:, None] - sign * other).sum(-1) for sign in (1, -1)]
    sign = np.where(apart[0] <= apart[1], 1.0, -1.0)
    rows, columns = linear_sum_assignment(np.minimum(*apart))
    z = (mean[rows] - sign[rows, columns][:, None] * other[columns]) / np.hypot(error[rows], its_error[columns])
    return float(np.abs(z).max()), z.size


def models_table(rows):
    """Print a row for each model and way."""
    print(
        "\n| model | symmetries found | way | error of a symmetric probability | least ESS | of 1000 gradients | "
        "modes | errors, warnings | relabelled means, furthest in errors | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in MODELS:
        for how in ("auto", "without", "NUTS", "reference"):
            mine = [row for key, row in rows if key == (name, how)]
            if not mine:
                continue
            error = max(row["error"] for row in mine)
            least = np.median([row["ess"] for row in mine])
            ess = np.median([1000 * row["ess"] / row["gradients"] for row in mine])
            modes = "-".join(str(x) for x in sorted({min(row["modes"] for row in mine), max(r["modes"] for r in mine)}))
            alarms = f"{sum(r['errors'] for r in mine)}, {sum(r['warnings'] for r in mine)}"
            shown = ("-", "-", "-") if how in ("NUTS", "reference") else (f"{error:.4f}", modes, alarms)
            beside = [row for key, row in rows if key == (name, "reference") and row["ess"] > MIXED]
            far = [furthest(r["means"], n["means"]) for r in mine for n in beside if "means" in r and "means" in n]
            z = f"{max(f[0] for f in far):.1f} of {far[0][1]}" if far and how == "auto" else ""
            seconds = np.median([row["seconds"] for row in mine])
            print(
                f"| {name} | {mine[0]['found']} | {how} | {shown[0]} | {least:.0f} | {ess:.2f} | {shown[1]} | "
                f"{shown[2]} | {z} | {seconds:.0f} |"
            )


def plain_models():
    """Models by name that have no symmetry by which parts change places, or almost have one."""
    import sys
    from pathlib import Path

    sys.path += [str(Path(__file__).parents[1] / "tests" / "helpers"), str(Path(__file__).parent)]
    import everyday_models
    import models_numpyro

    import sahmc

    made = {name: (sahmc.from_numpyro(model, *args), None) for name, (model, args) in models_numpyro.MODELS.items()}
    for name in ("logistic", "poisson", "counties", "sinusoid", "decay", "autoregression", "length-scale"):
        model, start, _ = everyday_models.MODELS[name]()
        made[name] = model, start
    for parts in (3, 5, 10):
        made[f"mixture of {parts}, almost"] = sahmc.from_numpyro(mixture(parts, almost=1e-4)[0]), None
    return made


def none_table():
    """Print what is found in models without a symmetry."""
    import sahmc

    for number, (name, (model, start)) in enumerate(plain_models().items(), 1):
        began = time.perf_counter()
        found = sahmc.find_symmetries(model, start)
        print(f"{number:2d} {name}: {found or 'none'}, {time.perf_counter() - began:.2f} s", flush=True)


def cost_table():
    """Print what looking takes of the seconds of a first run, where nothing is found."""
    import sahmc
    from sahmc.engine import symmetries

    look, spent = symmetries._symmetries, []

    def timed(*args):
        began = time.perf_counter()
        found = look(*args)
        spent.append(time.perf_counter() - began)
        return found

    symmetries._symmetries = timed
    for name in ("regression", "schools", "logistic", "autoregression"):
        model, start = plain_models()[name]
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = sahmc.sample(model, start, random_seed=0, progressbar=False)
        whole = time.perf_counter() - began
        print(
            f"{name}: {spent[-1]:.3f} s of {whole:.1f} s, {100 * spent[-1] / whole:.2f} %, {run.symmetries or 'none'}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["models", "none", "cost"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--names", default=";".join(MODELS))
    parser.add_argument("--ways", default="auto,without,NUTS,reference")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    if args.what != "models":
        return none_table() if args.what == "none" else cost_table()
    tasks = [(n, h, s) for s in range(args.seeds) for h in args.ways.split(",") for n in args.names.split(";")]
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        models_table([row for row in pool.imap_unordered(one_run, tasks, chunksize=1) if row is not None])
    import jax

    import sahmc

    print(f"\nsahmc {sahmc.__version__}, {platform.machine()} CPU, jax {jax.__version__}, {time.strftime('%Y-%m-%d')}.")


if __name__ == "__main__":
    main()
