"""The models of ``benchmarks/posteriordb`` that run along time: series, hidden Markov models, differential equations.

Differential equations are solved by Runge-Kutta with fixed steps, unless there is a closed form. Steps are short enough
for the posterior, where shorter ones change the log density by 0.003 at most; far away from it they need not be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from posteriordb_models import Posterior, design, flat, flat_positive, ordered

STEPS = {"lotka_volterra": 10, "one_comp": 6, "sir": 20}
"""The number of steps between two times."""
EARLY = (0.005, 0.02, 0.1)
"""Times between 0 and the first observation at which the drug of ``one_compartment`` is computed too: where K_m is
small, elimination sets in at once."""
LEAST = 1e-6
"""The least concentration, or number of cases: rounding may make it zero or less, and its log is taken."""


# Series


def ar(x, y):
    alpha = numpyro.sample("alpha", dist.Normal(0, 10))
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([x.shape[1] - 1]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("y", dist.Normal(alpha + x[:, 1:] @ beta, sigma), obs=y)


def arma(y):
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    phi = numpyro.sample("phi", dist.Normal(0, 2))
    theta = numpyro.sample("theta", dist.Normal(0, 2))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    y = jnp.asarray(y)

    def advance(error, pair):
        before, now = pair
        mean = mu + phi * before + theta * error
        return now - mean, mean

    first = mu + phi * mu
    _, rest = jax.lax.scan(advance, y[0] - first, (y[:-1], y[1:]))
    numpyro.sample("y", dist.Normal(jnp.append(first, rest), sigma), obs=y)


def garch(y, sigma1):
    mu = numpyro.sample("mu", dist.ImproperUniform(constraints.real, (), ()))
    alpha0 = flat_positive("alpha0")
    alpha1 = numpyro.sample("alpha1", dist.Uniform(0, 1))
    beta1 = numpyro.sample("beta1", dist.Uniform(0, 1 - alpha1))
    numpyro.factor("flat_on_the_triangle", jnp.log1p(-alpha1))
    y = jnp.asarray(y)

    def advance(variance, before):
        variance = alpha0 + alpha1 * (before - mu) ** 2 + beta1 * variance
        return variance, variance

    first = jnp.asarray(sigma1**2, y.dtype)
    _, rest = jax.lax.scan(advance, first, y[:-1])
    numpyro.sample("y", dist.Normal(mu, jnp.sqrt(jnp.append(first, rest))), obs=y)


# Hidden Markov models with two states


def forward(log_emission, rows):
    """Return the log likelihood of a hidden Markov model whose first state weighs 1 each.

    ``log_emission`` is (time, state); ``rows`` are the rows of the transition matrix.
    """
    log_transition = jnp.log(jnp.stack(rows))

    def advance(log_weight, emitted):
        moved = jax.nn.logsumexp(log_weight[:, None] + log_transition, axis=0)
        return moved + emitted, None

    last, _ = jax.lax.scan(advance, log_emission[0], log_emission[1:])
    return jax.nn.logsumexp(last)


def transitions(alpha):
    """Return the two rows of the transition matrix, of which ``alpha`` has the priors."""
    return [numpyro.sample(f"theta{k + 1}", dist.Dirichlet(jnp.asarray(alpha[k], float))) for k in range(2)]


def hmm_example(y):
    rows = transitions(np.ones((2, 2)))
    mu = ordered("mu", constraints.positive_ordered_vector, dist.Normal(jnp.array([3.0, 10.0]), 1))
    numpyro.factor("y", forward(dist.Normal(mu, 1.0).log_prob(y[:, None]), rows))


def drive(u, v, alpha, tau, rho):
    """The drives of a basketball player; exponential emissions where ``tau`` is None, else normal ones."""
    rows = transitions(alpha)
    support = constraints.positive_ordered_vector if tau is None else constraints.ordered_vector
    prior = dist.Normal(jnp.array([0.0, 3.0]), 1)
    phi, lamb = ordered("phi", support, prior), ordered("lambda", support, prior)
    ours = dist.Exponential(phi) if tau is None else dist.Normal(phi, tau)
    theirs = dist.Exponential(lamb) if tau is None else dist.Normal(lamb, rho)
    numpyro.factor("uv", forward(ours.log_prob(u[:, None]) + theirs.log_prob(v[:, None]), rows))


# Differential equations


def solve(slope: Callable, start: Any, times: np.ndarray, steps: int, decay: Any = 0.0) -> Any:
    """Return the solution of x' = slope(t, x) - decay x at ``times``, of which the first belongs to ``start``.

    Each interval takes ``steps`` steps of the classical Runge-Kutta method with exp(decay t) as integrating factor:
    fast decay does not make it unstable, and where slopes are positive the solution is.
    """

    def step(state, at):
        time, width = at
        half = jnp.exp(-decay * width / 2)
        one = slope(time, state)
        two = slope(time + width / 2, half * (state + width / 2 * one))
        three = slope(time + width / 2, half * state + width / 2 * two)
        four = slope(time + width, half**2 * state + half * width * three)
        return half**2 * (state + width / 6 * one) + width / 6 * (2 * half * (two + three) + four), None

    def interval(state, at):
        state, _ = jax.lax.scan(step, state, at)
        return state, state

    widths = np.repeat(np.diff(times)[:, None], steps, axis=1) / steps
    begins = times[:-1, None] + widths * np.arange(steps)
    kind = jnp.result_type(start)
    return jax.lax.scan(interval, start, (jnp.asarray(begins, kind), jnp.asarray(widths, kind)))[1]


def lotka_volterra(times, y_init, y):
    prior = dist.TruncatedNormal(jnp.array([1, 0.05, 1, 0.05]), jnp.array([0.5, 0.05, 0.5, 0.05]), low=0.0)
    theta = numpyro.sample("theta", prior.to_event(1))
    z_init = numpyro.sample("z_init", dist.LogNormal(jnp.log(10.0), 1).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.LogNormal(-1, 1).expand([2]).to_event(1))

    def slope(time, logs):
        hare, lynx = jnp.exp(logs)
        return jnp.stack([theta[0] - theta[1] * lynx, -theta[2] + theta[3] * hare])

    logs = solve(slope, jnp.log(z_init), times, STEPS["lotka_volterra"])
    numpyro.sample("y_init", dist.LogNormal(jnp.log(z_init), sigma), obs=y_init)
    numpyro.sample("y", dist.LogNormal(logs, sigma), obs=y)


def concentration(times, dose, volume, rates):
    """Return how much of a drug there is after the times ``EARLY``; ``rates`` are k_a, K_m and V_m."""
    k_a, K_m, V_m = rates

    def slope(time, amount):
        left = jnp.maximum(amount, 0)
        return jnp.exp(-k_a * time) * dose * k_a / volume - V_m / volume * left / (K_m + left)

    amount = solve(slope, jnp.zeros_like(k_a), times, STEPS["one_comp"])[len(EARLY) :]
    return jnp.maximum(amount, LEAST)


def one_compartment(times, dose, volume, observed):
    rates = [numpyro.sample(name, dist.HalfCauchy(1)) for name in ("k_a", "K_m", "V_m")]
    sigma = numpyro.sample("sigma", dist.HalfCauchy(1))
    numpyro.sample("C_hat", dist.LogNormal(jnp.log(concentration(times, dose, volume, rates)), sigma), obs=observed)


def sir(times, y0, cases, bacteria):
    beta = numpyro.sample("beta", dist.HalfCauchy(2.5))
    gamma = numpyro.sample("gamma", dist.HalfCauchy(1))
    xi = numpyro.sample("xi", dist.HalfCauchy(25))
    delta = numpyro.sample("delta", dist.HalfCauchy(1))

    def slope(time, state):
        log_well, ill, germs = state
        force = beta * germs / (germs + 1e6)
        return jnp.stack([-force, force * jnp.exp(log_well), xi * ill])

    start = jnp.stack([jnp.log(y0[0]), y0[1] * jnp.ones_like(beta), y0[3]])
    states = solve(slope, start, times, STEPS["sir"], decay=jnp.stack([jnp.zeros_like(beta), gamma, delta]))
    new = -jnp.diff(jnp.append(y0[0], jnp.exp(states[:, 0])))
    numpyro.sample("stoi_hat", dist.Poisson(jnp.maximum(new, LEAST)), obs=cases)
    numpyro.sample("B_hat", dist.LogNormal(jnp.log(jnp.maximum(states[:, 2], LEAST)), 0.15), obs=bacteria)


def soil_incubation(times, total, evolved):
    gamma = numpyro.sample("gamma", dist.Beta(10, 1))
    k1, k2, a21, a12 = (numpyro.sample(name, dist.HalfNormal(1)) for name in ("k1", "k2", "alpha21", "alpha12"))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(1))

    middle, half = -(k1 + k2) / 2, jnp.sqrt((k1 - k2) ** 2 / 4 + a12 * a21 * k1 * k2)  # of the rates of decay
    slope = gamma * (a21 * k1 - k1 - middle) + (1 - gamma) * (a12 * k2 - k2 - middle)
    fall = -jnp.expm1(-2 * half * times)
    left = total * jnp.exp((middle + half) * times) * (1 - fall / 2 + slope * fall / (2 * half))
    numpyro.sample("eCO2mean", dist.Normal(total - left, sigma), obs=evolved)


def since(start: float, times: Any) -> np.ndarray:
    """Return times with that of the start in front."""
    return np.append(start, times).astype(float)


def drive_of(data: dict) -> Posterior:
    """Return either of the two posteriors of basketball drives."""
    args = (data["u"], data["v"], data["alpha"], data.get("tau"), data.get("rho"))
    return Posterior(drive, args, flat("theta1", "theta2", "phi", "lambda"))


def with_logs(draw: dict) -> dict:
    """Return the numbers of one compartment, and the logs of those with heavy tails."""
    logs = {f"log {name}": jnp.log(draw[name]) for name in ("K_m", "V_m")}
    return {**flat("k_a", "K_m", "V_m", "sigma")(draw), **logs}


POSTERIORS: dict[str, Callable[[dict], Posterior]] = {
    "arK-arK": lambda data: Posterior(ar, design("arK", data), flat("alpha", "beta", "sigma")),
    "arma-arma11": lambda data: Posterior(arma, (data["y"],), flat("mu", "phi", "theta", "sigma")),
    "garch-garch11": lambda data: Posterior(
        garch, (data["y"], data["sigma1"]), flat("mu", "alpha0", "alpha1", "beta1")
    ),
    "hmm_example-hmm_example": lambda data: Posterior(hmm_example, (data["y"],), flat("theta1", "theta2", "mu")),
    "bball_drive_event_0-hmm_drive_0": drive_of,
    "bball_drive_event_1-hmm_drive_1": drive_of,
    "hudson_lynx_hare-lotka_volterra": lambda data: Posterior(
        lotka_volterra,
        (since(0, data["ts"]), data["y_init"].astype(float), data["y"]),
        flat("theta", "z_init", "sigma"),
    ),
    "one_comp_mm_elim_abs-one_comp_mm_elim_abs": lambda data: Posterior(
        one_compartment,
        (since(data["t0"], [*EARLY, *data["times"]]), data["D"], data["V"], data["C_hat"]),
        with_logs,
    ),
    "sir-sir": lambda data: Posterior(
        sir,
        (since(0, data["t"]), data["y0"].astype(float), data["stoi_hat"], data["B_hat"]),
        flat("beta", "gamma", "xi", "delta"),
    ),
    "soil_carbon-soil_incubation": lambda data: Posterior(
        soil_incubation,
        (data["ts"] - data["t0"], data["totalC_t0"], data["eCO2mean"]),
        flat("k1", "k2", "alpha21", "alpha12", "gamma", "sigma"),
    ),
}
