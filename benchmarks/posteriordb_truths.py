"""Means of three posteriors of ``benchmarks/posteriordb`` without Markov chains, and their evidence.

NUTS is no reference for them: it hardly reaches the tails of two, and is slow on the third. ``sir`` is summed over a
grid. The others have a normal error with scale sigma ~ half-Cauchy(1): sigma is summed over a grid, the other
parameters are drawn from the prior, and weighted. ``TRUTHS`` maps a name to a function that returns, for each quantity,
mean and error of it and of its square, and the log evidence with its error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.util import log_density
from posteriordb_models import load, read_data
from posteriordb_series import concentration

BATCH, BATCHES = 100_000, {"soil": 300, "one_comp": 60}
LOG_SIGMA = np.linspace(math.log(0.05), math.log(1.2), 120)
REACH, POINTS = 6.0, 25


def summed_over_sigma(squares: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return likelihood, mean sigma and mean sigma^2 at given sums of squares of ``size`` errors."""
    sigma = np.exp(LOG_SIGMA)
    prior = np.log(2 / math.pi) - np.log1p(sigma**2) + LOG_SIGMA + math.log(LOG_SIGMA[1] - LOG_SIGMA[0])
    log_height = prior - size * (LOG_SIGMA + 0.5 * math.log(2 * math.pi)) - squares[:, None] / (2 * sigma**2)
    height = np.exp(log_height)
    total = height.sum(axis=1)
    return total, height @ sigma / total, height @ sigma**2 / total


def by_prior_draws(batches: Iterator[tuple[dict[str, np.ndarray], np.ndarray]], size: int) -> tuple[dict, tuple]:
    """Return means and evidence; each batch has quantities of draws from the prior, and their sums of squares."""
    kept: list[np.ndarray] = []
    number = 0
    for named, squares in batches:
        names, number = list(named), number + len(squares)
        near = squares < 100
        weight, first, second = summed_over_sigma(squares[near], size)
        heavy = weight > 0
        kept.append(np.stack([weight, *(named[key][near] for key in names), first, second])[:, heavy])
    weight, *values, first, second = np.concatenate(kept, axis=1)
    found = {name: averaged(weight, value, value**2) for name, value in zip(names, values, strict=True)}
    found["sigma"] = averaged(weight, first, second)
    mean = weight.sum() / number
    error = math.sqrt(((weight**2).sum() / number - mean**2) / number)
    return found, (math.log(mean), float(error / mean))


def averaged(weight: np.ndarray, values: np.ndarray, squares: np.ndarray) -> dict[str, float]:
    """Return the weighted mean of values and of their squares, with errors."""
    share = weight / weight.sum()
    means = [float(share @ one) for one in (values, squares)]
    errors = [math.sqrt(share**2 @ (one - mean) ** 2) for one, mean in zip((values, squares), means, strict=True)]
    return {"mean": means[0], "mcse_mean": errors[0], "mean_sq": means[1], "mcse_sq": errors[1]}


def soil_incubation(name: str) -> tuple[dict, tuple]:
    """Return the truth of two pools of carbon, whose equation has a solution in closed form."""
    data, rng = read_data(name), np.random.default_rng(0)
    total = data["totalC_t0"]

    def batch() -> tuple[dict[str, np.ndarray], np.ndarray]:
        k1, k2, a21, a12 = np.abs(rng.normal(size=(4, BATCH)))
        gamma = rng.beta(10, 1, size=BATCH)
        middle, half = -(k1 + k2) / 2, np.sqrt((k1 - k2) ** 2 / 4 + a12 * a21 * k1 * k2)
        slope = total * (gamma * (a21 * k1 - k1 - middle) + (1 - gamma) * (a12 * k2 - k2 - middle))
        squares = np.zeros(BATCH)
        with np.errstate(over="ignore", invalid="ignore"):
            for time, evolved in zip(data["ts"], data["eCO2mean"], strict=True):
                up, down = np.exp((middle + half) * time), np.exp((middle - half) * time)
                left = (up + down) / 2 * total + (up - down) / (2 * half) * slope
                squares += (evolved - total + left) ** 2
        named = {"k1": k1, "k2": k2, "alpha21": a21, "alpha12": a12, "gamma": gamma}
        return named, np.nan_to_num(squares, nan=np.inf)

    return by_prior_draws((batch() for _ in range(BATCHES["soil"])), len(data["ts"]))


def one_compartment(name: str) -> tuple[dict, tuple]:
    """Return the truth of one compartment; of K_m and V_m that of their logs, which have all moments."""
    times, dose, volume, observed = load(name).args
    rng = np.random.default_rng(0)

    @jax.jit
    def squares_of(rates):
        amount = concentration(times, dose, volume, rates)
        return jnp.sum((jnp.log(amount) - jnp.log(observed)[:, None]) ** 2, axis=0)

    def batch() -> tuple[dict[str, np.ndarray], np.ndarray]:
        rates = np.abs(rng.standard_cauchy(size=(3, BATCH)))
        named = {"k_a": rates[0], "log K_m": np.log(rates[1]), "log V_m": np.log(rates[2])}
        return named, np.asarray(squares_of(jnp.asarray(rates)))

    found, (log_z, error) = by_prior_draws((batch() for _ in range(BATCHES["one_comp"])), len(observed))
    return found, (log_z - float(np.log(observed).sum()), error)


def sir(name: str) -> tuple[dict, tuple]:
    """Return the truth of the epidemic, on a grid along the axes of its curvature at the mode, in logs."""
    posterior, names = load(name), ("beta", "gamma", "xi", "delta")

    def height(logs: Any) -> Any:
        draw = dict(zip(names, jnp.exp(logs), strict=True))
        return log_density(posterior.model, posterior.args, {}, draw)[0] + logs.sum()

    mode = jnp.log(jnp.array([1.0, 0.2, 10.5, 0.36]))
    for _ in range(10):
        mode -= jnp.linalg.solve(jax.hessian(height)(mode), jax.grad(height)(mode))
    root = np.linalg.cholesky(np.linalg.inv(-np.asarray(jax.hessian(height)(mode))))
    line = np.linspace(-REACH, REACH, POINTS)
    grid = np.stack(np.meshgrid(*[line] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    grid = grid[np.linalg.norm(grid, axis=1) < REACH + 0.7]
    points = np.asarray(mode) + grid @ root.T
    many = jax.jit(jax.vmap(height))
    heights = np.concatenate([np.asarray(many(part)) for part in np.array_split(points, 100)])
    weight = np.exp(heights - heights.max())
    cell = (line[1] - line[0]) ** 4 * np.linalg.det(root)
    found = {key: averaged(weight, value, value**2) for key, value in zip(names, np.exp(points).T, strict=True)}
    exact = {"mcse_mean": 0.0, "mcse_sq": 0.0}
    log_z = float(heights.max() + math.log(weight.sum() * cell))
    return {key: {**row, **exact} for key, row in found.items()}, (log_z, 0.0)


TRUTHS: dict[str, Callable[[str], tuple[dict, tuple]]] = {
    "one_comp_mm_elim_abs-one_comp_mm_elim_abs": one_compartment,
    "sir-sir": sir,
    "soil_carbon-soil_incubation": soil_incubation,
}
