"""What the comparisons of NUTS with sahmc share: both samplers timed, one table, one look of the pictures."""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import matplotlib
import numpy as np

import sahmc
from sahmc._support.tables import Table
from sahmc.paper.experiment import hardware
from sahmc.tilt.importance import error_of_mean, split_rhat

matplotlib.use("Agg")
COLOURS = {"NUTS": "#c2571a", "sahmc": "#1f6f8b", "truth": "0.15"}
CHAINS = ("#c2571a", "#7b3294", "#d6a21b", "#5b7f3a")
QUICK, FULL = dict(draws=1000, tune=1000), dict(draws=4000, tune=2000)


@dataclass(frozen=True)
class Run:
    """``mean`` and ``mcse`` of the quantities asked for; ``by_chain`` their means in each chain, for NUTS.

    ``draws`` have equal weight: (chain, draw, ...) for NUTS, (draw, ...) for sahmc. Seconds include compilation.
    Gradients are those of the draws for NUTS, which does not count them in the warm-up, and all of them for sahmc.
    """

    name: str
    draws: dict[str, Any]
    mean: np.ndarray
    mcse: np.ndarray
    rhat: float
    seconds: float
    gradients: int
    findings: tuple[str, ...] = ()
    by_chain: np.ndarray | None = None
    result: Any = None


def arguments(doc, name, argv):
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--out", type=Path, default=Path(f"out/{name}.png"), help="the picture")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="fewer draws")
    args = parser.parse_args(argv)
    args.name, args.budget = name, QUICK if args.quick else FULL
    return args


def run_nuts(model, model_args, fn, budget, seed):
    """NumPyro's NUTS as it comes, 4 chains from random starts; ``fn`` of one draw gives the quantities."""
    from numpyro.infer import MCMC, NUTS

    began = time.perf_counter()
    mcmc = MCMC(
        NUTS(model),
        num_warmup=budget["tune"],
        num_samples=budget["draws"],
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(seed), *model_args, extra_fields=("num_steps",))
    draws = jax.device_get(mcmc.get_samples(group_by_chain=True))
    steps = int(mcmc.get_extra_fields()["num_steps"].sum())
    return conclude_nuts(draws, fn, steps, time.perf_counter() - began)


def conclude_nuts(draws, fn, gradients, seconds):
    values = np.asarray(jax.vmap(jax.vmap(fn))(draws), float)
    return Run(
        "NUTS",
        draws,
        values.mean(axis=(0, 1)),
        error_of_mean(values),
        worst_rhat(draws),
        seconds,
        gradients,
        by_chain=values.mean(axis=1),
    )


def run_sahmc(model, model_args, fn, budget, seed, resampled=4000):
    """The model as it is, nothing set but the budget."""
    began = time.perf_counter()
    result = sahmc.sample(model, model_args=model_args, random_seed=seed, progressbar=False, **budget)
    seconds = time.perf_counter() - began
    mean, mcse = result.expectation(fn)
    return Run(
        "sahmc",
        result.resample(resampled),
        np.asarray(mean),
        np.asarray(mcse),
        float(result.summary().columns["r_hat"].max()),
        seconds,
        result.num_gradients,
        tuple(dict.fromkeys(finding.code for finding in result.findings)),
        result=result,
    )


def worst_rhat(draws):
    """The largest split R-hat of all quantities, of draws (chain, draw, ...) by name."""
    leaves = [np.asarray(x, float).reshape(*x.shape[:2], -1) for x in jax.tree.leaves(draws)]
    return float(max(split_rhat(leaf).max() for leaf in leaves))


def print_table(title, quantities, truth, runs, digits=3, more=None):
    """Quantities beside the truth, then what they cost. ``more``: further rows, a cell for each run."""
    rows = {
        name: [f"{truth[i]:.{digits}f}", *(f"{run.mean[i]:.{digits}f} ± {run.mcse[i]:.{digits}f}" for run in runs)]
        for i, name in enumerate(quantities)
    }
    rows |= {name: ["", *cells] for name, cells in (more or {}).items()}
    rows["largest R-hat"] = ["", *(f"{run.rhat:.2f}" for run in runs)]
    rows["seconds"] = ["", *(f"{run.seconds:.0f}" for run in runs)]
    rows["gradients"] = ["", *(f"{run.gradients:,}" for run in runs)]
    rows["findings"] = ["", *(", ".join(run.findings) or ("none" if run.result else "-") for run in runs)]
    print(f"{title}\n")
    print(Table("", ["truth", *(run.name for run in runs)], list(rows), list(rows.values())))
    for run in runs:
        if run.by_chain is not None:
            each = "; ".join(" ".join(f"{x:.2f}" for x in chain) for chain in run.by_chain)
            print(f"\n{run.name} chain by chain: {each}")
    print(f"{hardware()}\n", flush=True)


def returned(truth, nuts, ours):
    """The numbers that a test may check."""
    return {
        "masses": ours.mean,
        "mcse": ours.mcse,
        "truth": np.asarray(truth),
        "nuts_masses": nuts.mean,
        "nuts_rhat": nuts.rhat,
        "sahmc_rhat": ours.rhat,
        "findings": ours.findings,
    }


def two_panels(title, **settings):
    """A figure, and the panels for NUTS and for sahmc."""
    from matplotlib import pyplot as plt

    settings = dict(figsize=(10.6, 5.4), sharex=True, sharey=True) | settings
    figure, panels = plt.subplots(1, 2, layout="constrained", **settings)
    for panel, name in zip(panels, ("NUTS", "sahmc"), strict=True):
        panel.set_title(name, fontsize=16, color=COLOURS[name], fontweight="bold")
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=14)
    return figure, panels


def save(figure, args):
    """With hardware, versions, seed and date beneath."""
    from matplotlib import pyplot as plt

    how = " --quick" if args.quick else ""
    made = f"{hardware()}; seed {args.seed}; {time.strftime('%Y-%m-%d')}; python examples/{args.name}.py{how}"
    figure.supxlabel(made, fontsize=7, color="0.5")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.out, dpi=150)
    plt.close(figure)
    print(f"picture: {args.out}")
