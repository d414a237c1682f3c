"""Multimodal densities whose positions have names, and no symmetry: is one found that is not there?

python benchmarks/named.py --targets 40 --jobs 2   # random numbers of modes, distances, widths, masses, names and units
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import time
import warnings

import numpy as np

MOST_NAMES = 4
WRONG = 4.0
"""The stated errors by which a mass may be off, with a floor of LEAST_ERROR."""
LEAST_ERROR = 0.003


def make(number):
    """Return a log density of a dict, a start in one of its modes, and the means, widths and masses of the modes.

    All numbers are random. Modes are 8 to 60 widths apart, of widths within a factor of three of each other, and the
    chains start in one of them, whatever its mass. Each array has a unit of its own, from 1e-3 to 1e3.
    """
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(1000 + number)
    shapes = [() if rng.random() < 0.5 else (int(rng.integers(2, 4)),) for _ in range(int(rng.integers(2, MOST_NAMES)))]
    names = [str(name) for name in rng.choice(["alpha", "beta", "gamma", "rate", "place", "x1"], len(shapes), False)]
    sizes = [int(np.prod(shape)) for shape in shapes]
    dim, modes = sum(sizes), int(rng.integers(2, 6))
    unit = np.repeat(10.0 ** rng.uniform(-3, 3, len(shapes)), sizes)
    width = np.exp(rng.uniform(-0.5, 0.5, (modes, dim)))
    way = rng.normal(size=(modes, dim))
    mean = np.cumsum(way / np.linalg.norm(way, axis=1, keepdims=True) * rng.uniform(8, 60, (modes, 1)), axis=0)
    mean -= mean[0] * (rng.random() < 0.5)  # the first is at 0, where a Gaussian is even
    mass = rng.dirichlet(np.full(modes, 2.0))
    log_norm = np.log(mass) - np.log(width * unit).sum(axis=1) - 0.5 * dim * np.log(2 * np.pi)

    def log_density(position):
        x = jnp.concatenate([jnp.ravel(position[name]) for name in names])
        return jax.nn.logsumexp(log_norm - 0.5 * jnp.sum(((x / unit - mean) / width) ** 2, axis=1))

    flat = np.split(mean[0] * unit, np.cumsum(sizes)[:-1])
    start = {name: part.reshape(shape) for name, part, shape in zip(names, flat, shapes, strict=True)}
    return log_density, start, names, unit, mean, width, mass


def run(task):
    """Run one target with one seed: a row of figures."""
    number, seed = task
    import sahmc
    from sahmc.tilt.importance import weighted_mean

    warnings.simplefilter("ignore")
    log_density, start, names, unit, mean, width, mass = make(number)
    began = time.perf_counter()
    result = sahmc.sample(log_density, start, random_seed=seed, progressbar=False)
    parts = [np.reshape(result.draws[name], (*result.weight.shape, -1)) for name in names]
    x = np.concatenate(parts, axis=-1) / unit
    away = (((x[..., None, :] - mean) / width) ** 2).sum(axis=-1)
    found = weighted_mean((away.argmin(axis=-1)[..., None] == np.arange(len(mass))).astype(float), result.weight)
    z = np.abs(found.mean - mass) / np.maximum(found.mcse, LEAST_ERROR)
    evidence = result.log_evidence()
    return {
        "target": number,
        "modes": len(mass),
        "dim": len(unit),
        "z": float(z.max()),
        "missed": int((found.mean < 0.1 * mass).sum()),
        "log_z": float(evidence.mean),
        "log_z_error": float(evidence.mcse),
        "symmetries": len(result.symmetries),
        "findings": " ".join(f"{finding.code}:{finding.severity[0]}" for finding in result.findings),
        "seconds": round(time.perf_counter() - began, 1),
    }


def main():
    """Run all targets, and count what is wrong, wrong and silent, right with a finding, and false symmetries."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    tasks = [(number, seed) for number in range(args.targets) for seed in range(args.seeds)]
    rows = []
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=8) as pool:
        for row in pool.imap_unordered(run, tasks):
            rows.append(row)
            print(row, flush=True)
    wrong = [row for row in rows if row["z"] > WRONG]
    silent = [row for row in wrong if not row["findings"]]
    alarmed = [row for row in rows if row["z"] <= WRONG and row["findings"]]
    used = sum(row["symmetries"] > 0 for row in rows)
    print(
        f"\n{len(rows)} runs: wrong {len(wrong)}, of these silent {len(silent)}; right with a finding {len(alarmed)}; "
    )
    print(f"false symmetries used {used}; largest z {max(row['z'] for row in rows):.1f}")
    import jax

    import sahmc

    today = time.strftime("%Y-%m-%d")
    print(f"\nsahmc {sahmc.__version__}, {platform.machine()} CPU, jax {jax.__version__}, {today}.")


if __name__ == "__main__":
    main()
