"""What is known of the posteriors of ``ordinary_models`` and ``ordinary_broken``: by quadrature, or by long runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp

FOLDER = Path("out/ordinary_truth")
GRID = np.linspace(-2, 2, 20_001)
"""Logs of the noise over that of least squares, at which the quadrature looks."""
DENSE_UP_TO = 40
"""The largest dimension in which the long runs learn a dense metric."""
RHAT, DIVERGING, SEEDS = 1.01, 0.001, 5
"""The largest R-hat and share of divergences of a long run that counts, and how often one is made that does not."""


@dataclass(frozen=True)
class Moments:
    """What is known of one variable: its mean and standard deviation, and the Monte Carlo errors of that knowledge."""

    mean: np.ndarray
    sd: np.ndarray
    mcse: Any = 0.0
    """The error of ``mean``."""
    square_mcse: Any = 0.0
    """The error of the mean of ((value - mean) / sd)^2, which is 1."""


@dataclass(frozen=True)
class Truth:
    """The right answer: the moments of each variable, and the log evidence where it is known."""

    moments: Mapping[str, Moments]
    log_evidence: float | None = None


@dataclass(frozen=True)
class Problem:
    """A model with its data, and what is known of its posterior."""

    model: Any
    args: tuple[Any, ...]
    near: Mapping[str, Any]
    """Values inside the posterior."""
    powers: Mapping[str, Any]
    """The power of the unit by which each variable grows."""
    unit: float = 1.0
    log_unit: float = 0.0
    """The log evidence minus that at unit 1."""
    exact: Callable[[], Truth] | None = None
    """A function that returns the truth at unit 1; None where that takes a long run."""
    bits: int | None = None
    """The bits that the model needs; None for any."""

    def in_units(self, truth: Truth) -> Truth:
        """Return a truth at unit 1 in the units of this problem."""
        moments = {}
        for name, known in truth.moments.items():
            factor = self.unit ** np.asarray(self.powers[name], float)
            moments[name] = Moments(known.mean * factor, known.sd * factor, known.mcse * factor, known.square_mcse)
        log_z = None if truth.log_evidence is None else truth.log_evidence + self.log_unit
        return Truth(moments, log_z)


def linear_truth(x, y, sd, noise, centre=0.0, learnt=True) -> Truth:
    """Return the truth of y ~ Normal(x b, s), b ~ Normal(centre, sd), s ~ HalfNormal(noise) or s = noise if not learnt.

    b is integrated out by algebra and s by quadrature on its log. The first of b is "intercept", the rest "slope".
    """
    num, size = x.shape
    centre = np.broadcast_to(np.asarray(centre, float), (size,))
    u, d, v = np.linalg.svd(x * sd, full_matrices=False)
    around = y - x @ centre
    along = u.T @ around
    rest = np.sum((around - u @ along) ** 2)
    log_noise = 0.5 * np.log(rest / (num - size)) + GRID if learnt else np.log([noise])
    var = np.exp(2 * log_noise)[:, None]
    log_p = -0.5 * (num * np.log(2 * np.pi) + (num - size) * 2 * log_noise + rest / var[:, 0])
    log_p = log_p - 0.5 * np.sum(np.log(var + d**2) + along**2 / (var + d**2), axis=1)
    if learnt:  # the prior of the log of the noise, and the width of a cell
        log_p += 0.5 * np.log(2 / np.pi) - np.log(noise) - 0.5 * var[:, 0] / noise**2 + log_noise
        log_p += np.log(GRID[1] - GRID[0])
    log_z = logsumexp(log_p)
    weight = np.exp(log_p - log_z)
    means = centre + (d * along / (var + d**2)) @ v * sd
    mean = weight @ means
    spread = np.sqrt(weight @ (var / (var + d**2)) @ v**2 * sd**2 + weight @ (means - mean) ** 2)
    moments = {"intercept": Moments(mean[0], spread[0]), "slope": Moments(mean[1:], spread[1:])}
    if learnt:
        s = np.exp(log_noise)
        moments["noise"] = Moments(weight @ s, np.sqrt(weight @ (s - weight @ s) ** 2))
    return Truth(moments, float(log_z))


def random_walk_truth(y, step_sd, noise_sd) -> Truth:
    """Return the truth of y ~ Normal(level, noise), level a random walk from 0, step and noise half-normal.

    Levels are integrated out by algebra, step and noise by quadrature on their logs.
    """
    from_steps = np.tril(np.ones((len(y), len(y))))
    size, way = np.linalg.eigh(from_steps @ from_steps.T)
    along, log_step, log_noise = way.T @ y, np.linspace(-3, 2, 150), np.linspace(-3, 1.5, 150)
    step, noise = np.exp(log_step)[:, None, None], np.exp(log_noise)[None, :, None]
    var = step**2 * size + noise**2
    log_p = -0.5 * np.sum(np.log(2 * np.pi * var) + along**2 / var, axis=2)
    for log_sd, prior_sd in ((log_step[:, None], step_sd), (log_noise[None], noise_sd)):
        log_p = log_p + 0.5 * np.log(2 / np.pi) - np.log(prior_sd) - 0.5 * np.exp(2 * log_sd) / prior_sd**2 + log_sd
    log_z = logsumexp(log_p)
    weight = np.exp(log_p - log_z)
    means = (step**2 * size / var * along) @ way.T
    mean = np.einsum("ij,ijk->k", weight, means)
    spread = np.einsum("ij,ijk->k", weight, (step**2 * size * noise**2 / var) @ (way**2).T + (means - mean) ** 2)
    moments = {"level": Moments(mean, np.sqrt(spread))}
    for name, value, share in (("step", np.exp(log_step), weight.sum(1)), ("noise", np.exp(log_noise), weight.sum(0))):
        moments[name] = Moments(share @ value, np.sqrt(share @ (value - share @ value) ** 2))
    cell = (log_step[1] - log_step[0]) * (log_noise[1] - log_noise[0])
    return Truth(moments, float(log_z + np.log(cell)))


def is_good(found: Mapping[str, Any]) -> bool:
    """Tell whether the chains of a long run agree; one may be lost in the warm-up where a likelihood explodes."""
    return found["rhat"] < RHAT and found["divergences"] <= DIVERGING * 4 * found["draws"]


def good_run(problem: Problem, draws: int) -> dict[str, Any]:
    """Return the first long run that counts."""
    for seed in range(SEEDS):
        found = long_run(problem, draws, seed)
        if is_good(found):
            return found
    raise RuntimeError(f"no long run of {SEEDS} converged: R-hat {found['rhat']}, divergences {found['divergences']}")


def long_run(problem: Problem, draws: int, seed: int = 0) -> dict[str, Any]:
    """Return the moments that NumPyro's NUTS finds from near the truth, as JSON can hold them; 64 bits must be on."""
    import jax
    from numpyro.infer import MCMC, NUTS, init_to_value

    from sahmc.tilt.importance import split_rhat, weighted_mean

    dim = sum(np.size(value) for value in problem.near.values())
    start = init_to_value(values={name: jax.numpy.asarray(value) for name, value in problem.near.items()})
    kernel = NUTS(problem.model, init_strategy=start, dense_mass=dim <= DENSE_UP_TO, target_accept_prob=0.9)
    mcmc = MCMC(
        kernel, num_warmup=draws, num_samples=draws, num_chains=4, chain_method="vectorized", progress_bar=False
    )
    mcmc.run(jax.random.key(seed), *problem.args, extra_fields=("diverging",))
    drawn = mcmc.get_samples(group_by_chain=True)
    even, found, worst = np.full((4, draws), 0.25 / draws), {}, 1.0
    for name in problem.powers:
        values = np.asarray(drawn[name], float)
        sd = values.std(axis=(0, 1))
        mean, mcse = weighted_mean(values, even)
        square = weighted_mean(((values - mean) / sd) ** 2, even)
        worst = max(worst, float(np.max(split_rhat(values.reshape(4, draws, -1)))))
        found[name] = {k: v.tolist() for k, v in asdict(Moments(mean, sd, mcse, square.mcse)).items()}
    diverging = int(mcmc.get_extra_fields()["diverging"].sum())
    return {"draws": draws, "seed": seed, "rhat": worst, "divergences": diverging, "moments": found}


def known_truth(name: str, width: float, problem: Problem) -> Truth:
    """Return the truth in the units of a problem: computed, or read from what the command ``truth`` has left."""
    if problem.exact is not None:
        return problem.in_units(problem.exact())
    moments = json.loads(path_of(name).read_text())[f"{width:g}"]["moments"]
    arrays = {k: Moments(**{part: np.asarray(v) for part, v in known.items()}) for k, known in moments.items()}
    return problem.in_units(Truth(arrays))


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


def is_known(name: str, width: float, problem: Problem) -> bool:
    """Tell whether there is a truth: one that is computed, or one of a long run that was made."""
    if problem.exact is not None:
        return True
    path = path_of(name)
    found = json.loads(path.read_text()).get(f"{width:g}") if path.exists() else None
    return found is not None and is_good({"draws": 4000, **found})


def keep(name: str, width: float, found: dict[str, Any]) -> None:
    """Write what a long run has found beside that of other widths."""
    path = path_of(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, f"{width:g}": found}, indent=1))
