"""Stan's own NUTS on a Gaussian mixture, an optional step that needs the R package rstan.

On Debian: ``apt install r-cran-rstan``. Settings are those of the paper: an identity mass matrix, else Stan's defaults.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np

from sahmc.paper.experiment import Book, Cell

MISSING = "Stan left out: needs R with the package rstan (on Debian: apt install r-cran-rstan)"
"""What is said where rstan is not installed."""

METHOD = "Stan NUTS"
"""The name of the method in tables."""

PROGRAM = """
data { int K; int D; vector[D] mu[K]; matrix[D, D] root[K]; }
parameters { vector[D] x; }
model {
  vector[K] lp;
  for (k in 1:K) lp[k] = multi_normal_cholesky_lpdf(x | mu[k], root[k]);
  target += log_sum_exp(lp);
}
"""

SCRIPT = """
suppressPackageStartupMessages(library(rstan))
if (system.file("include", package = "BH") == "") rstan_options(boost_lib = "/usr/include")  # as Debian has it
given <- jsonlite::fromJSON("data.json", simplifyMatrix = TRUE)
rstan_options(auto_write = TRUE)
model <- stan_model("model.stan")
seconds <- c(); steps <- c(); out <- file("draws.bin", "wb")
for (chain in 1:given$chains) {
  fit <- sampling(model, data = given[c("K", "D", "mu", "root")], chains = 1, iter = given$iterations,
                  warmup = given$burn, seed = chain, init = list(list(x = array(given$start))), refresh = 0,
                  control = list(metric = "unit_e"))
  seconds <- c(seconds, sum(get_elapsed_time(fit)))
  steps <- c(steps, sum(get_sampler_params(fit, inc_warmup = TRUE)[[1]][, "n_leapfrog__"]))
  writeBin(as.vector(t(extract(fit, "x", permuted = FALSE)[, 1, ])), out, size = 4)
}
close(out)
write(jsonlite::toJSON(list(seconds = seconds, steps = steps, version = stan_version())), "told.json")
"""


def has_stan() -> bool:
    """Return whether ``Rscript`` is available and finds rstan."""
    if shutil.which("Rscript") is None:
        return False
    ask = ["Rscript", "-e", "quit(status = !requireNamespace('rstan', quietly = TRUE))"]
    return subprocess.run(ask, check=False, capture_output=True).returncode == 0


def with_stan(book: Book, methods: tuple[str, ...]) -> tuple[str, ...]:
    """Return the methods to run: ``methods``, and Stan if it is here and the version is not the small one."""
    if book.quick:
        book.say("  Stan left out of the quick version")
    elif has_stan():
        return (*methods, METHOD)
    else:
        book.say(f"  {MISSING}")
    return methods


def sample_mixture(
    folder: Path,
    centres: np.ndarray,
    covariances: np.ndarray,
    start: np.ndarray,
    iterations: int,
    burn: int,
    chains: int,
) -> tuple[np.ndarray, Cell]:
    """Run Stan's NUTS on a mixture of Gaussians of equal weight, each chain from ``start``.

    ``centres`` are (mode, dim), ``covariances`` (mode, dim, dim). The first ``burn`` of all ``iterations`` are Stan's
    warm-up. The compiled program stays in ``folder``. Return the draws after the warm-up, (chain, draw, dim), and the
    costs. These are Stan's version and, for a chain with its warm-up, the median of the seconds and the mean of the
    leapfrog steps.
    """
    given = dict(
        K=len(centres),
        D=centres.shape[1],
        mu=centres.tolist(),
        root=np.linalg.cholesky(covariances).tolist(),
        start=np.asarray(start, float).tolist(),
        iterations=iterations,
        burn=burn,
        chains=chains,
    )
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "model.stan"
    if not program.exists() or program.read_text() != PROGRAM:  # rewriting the file would recompile it
        program.write_text(PROGRAM)
    (folder / "data.json").write_text(json.dumps(given))
    (folder / "run.R").write_text(SCRIPT)
    done = subprocess.run(["Rscript", "run.R"], check=False, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"Stan failed:\n{done.stderr[-2000:]}")
    draws = np.fromfile(folder / "draws.bin", np.float32).reshape(chains, -1, centres.shape[1])
    (folder / "draws.bin").unlink()
    told = json.loads((folder / "told.json").read_text())
    costs = {"seconds": float(np.median(told["seconds"])), "gradients": float(np.mean(told["steps"]))}
    return draws, {**costs, "stan": str(told["version"][0])}
