"""Real Stan behind the adapter: a program compiled by the R package rstan, in the shape of ``bridgestan.StanModel``.

Its parameters are those of ten small models side by side, so that Stan need compile but once: a regression, a
hierarchy, a simplex, ordered cut points, a correlation matrix and its Cholesky factor, missing data, an interval, a
covariance matrix, a positive ordered vector, an offset and multiplier.
"""

import json
import subprocess
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.paper.stan import MISSING, has_stan
from sahmc.tilt.importance import weighted_mean

PROGRAM = """
data { int N; vector[N] x; vector[N] y; }
parameters {
  real offset0; real slope; real<lower=0> scale;
  real mean1; real<lower=0> spread; vector[4] effect;
  simplex[4] share;
  ordered[3] cut;
  corr_matrix[3] omega;
  cholesky_factor_corr[3] root;
  vector[3] absent;
  real<lower=-0.5, upper=2> between;
  cov_matrix[2] sigma;
  positive_ordered[2] rates;
  vector<lower=1>[2] above;
}
transformed parameters { matrix[2, 3] grid; for (i in 1:2) for (j in 1:3) grid[i, j] = cut[j] + i * slope; }
model {
  offset0 ~ normal(0, 2); slope ~ normal(0, 1); scale ~ exponential(1); y ~ normal(offset0 + slope * x, scale);
  mean1 ~ normal(0, 2); spread ~ lognormal(0, 0.5); effect ~ normal(0, 1);
  for (i in 1:4) target += normal_lpdf(y[i] | mean1 + spread * effect[i], 0.5);
  share ~ dirichlet([2, 3, 4, 5]');
  cut ~ normal(0, 1);
  omega ~ lkj_corr(2);
  root ~ lkj_corr_cholesky(3);
  absent ~ normal(offset0 + slope * x[1:3], scale);
  between ~ normal(0, 1);
  sigma ~ inv_wishart(5, diag_matrix(rep_vector(1, 2)));
  rates ~ gamma(3, 2);
  above ~ exponential(0.7);
}
generated quantities { real twice = 2 * offset0; }
"""

SERVER = """
suppressPackageStartupMessages(library(rstan))
if (system.file("include", package = "BH") == "") rstan_options(boost_lib = "/usr/include")
given <- jsonlite::fromJSON("data.json")
model <- stan_model("model.stan")
sink(stderr()); fit <- sampling(model, data = given, chains = 0); sink()
tell <- function(x) { cat(jsonlite::toJSON(x, digits = NA), "\\n"); flush(stdout()) }
tell(list(ready = TRUE))
input <- file("stdin", "r")
while (length(line <- readLines(input, 1)) > 0) {
  q <- jsonlite::fromJSON(line)
  tell(tryCatch(switch(q$what,
    size = get_num_upars(fit),
    density = { v <- log_prob(fit, q$x, adjust_transform = q$jacobian, gradient = TRUE); c(v, attr(v, "gradient")) },
    constrain = unlist(constrain_pars(fit, q$x)),
    shapes = lapply(constrain_pars(fit, rep(0.1, get_num_upars(fit))),
                    function(v) if (is.null(dim(v))) length(v) else dim(v)),
    means = {
      sink(stderr()); f <- sampling(model, data = given, chains = 4, iter = 3000, seed = 1, refresh = 0); sink()
      s <- summary(f)$summary; list(names = rownames(s), mean = s[, "mean"], se = s[, "se_mean"])
    }), error = function(e) "rejected"))
}
"""


class RStanModel:
    def __init__(self, folder):
        rng = np.random.default_rng(0)
        x = rng.normal(size=20)
        data = {"N": 20, "x": x.tolist(), "y": (0.5 + x + 0.4 * rng.normal(size=20)).tolist()}
        for name, text in (("model.stan", PROGRAM), ("data.json", json.dumps(data)), ("serve.R", SERVER)):
            (folder / name).write_text(text)
        log = (folder / "log").open("w")
        self.process = subprocess.Popen(
            ["Rscript", "serve.R"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        self.lock = threading.Lock()
        assert json.loads(self.process.stdout.readline()), (folder / "log").read_text()
        self.dim = self.ask(what="size")[0]
        self.shapes = self.ask(what="shapes")

    def ask(self, **question):
        with self.lock:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    def param_unc_num(self):
        return self.dim

    def param_names(self, **which):
        names = []
        for name, shape in self.shapes.items():
            every = [()] if shape == [1] else [index[::-1] for index in np.ndindex(*shape[::-1])]
            names += [".".join([name, *(str(i + 1) for i in index)]) for index in every]
        return names

    def log_density_gradient(self, theta, *, propto=True, jacobian=True):
        found = self.ask(what="density", x=theta.tolist(), jacobian=jacobian)
        if not isinstance(found[0], float):
            raise RuntimeError("rejected")
        return found[0], np.array(found[1:], float)

    def param_constrain(self, theta, **which):
        return np.array(self.ask(what="constrain", x=theta.tolist()), float)

    def new_rng(self, seed):
        return None


@pytest.mark.slow
def test_a_program_of_ten_models(tmp_path):
    if not has_stan():
        pytest.skip(MISSING)
    model = RStanModel(tmp_path)
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)  # not for this thread alone: Stan is called from others
    try:
        check(model)
    finally:
        jax.config.update("jax_enable_x64", before)
        model.process.kill()


def check(model):
    made = sahmc.from_stan(model)
    thetas = jax.vmap(made.start)(jax.random.split(jax.random.key(0), 5))
    found, slope = jax.jit(jax.vmap(jax.value_and_grad(made.log_density)))(thetas)
    for theta, value, gradient in zip(thetas, found, slope, strict=True):
        own, exact = model.log_density_gradient(np.asarray(theta))
        np.testing.assert_allclose(value, own, rtol=0, atol=1e-8)
        np.testing.assert_allclose(gradient, exact, rtol=0, atol=1e-8)
        without, _ = model.log_density_gradient(np.asarray(theta), jacobian=False)
        assert abs(without - own) > 1e-3  # the twin that forgets the Jacobian
    draw = made.constrain(thetas[0])
    np.testing.assert_allclose(draw["omega"], draw["omega"].T)
    np.testing.assert_allclose(draw["grid"], draw["cut"] + jnp.arange(1, 3)[:, None] * draw["slope"])
    # one mode in 37 dimensions, and a third of a millisecond for each gradient: no ladder
    result = sahmc.sample(model, tilt="none", random_seed=0, chains=8, draws=400, tune=400, progressbar=False)
    assert not [f for f in result.findings if f.severity == "error"], result.findings
    told = model.ask(what="means")
    mine = result.expectation()
    for name, mean, error in zip(told["names"], told["mean"], told["se"], strict=True):
        if name == "lp__":
            continue
        variable, _, index = name.partition("[")
        at = tuple(int(i) - 1 for i in index.rstrip("]").split(",")) if index else ()
        # R gives the standard error; of what is constant there is none
        bar = 4 * np.hypot(mine.mcse[variable][at], error if isinstance(error, float) else 0.0) + 1e-6
        assert abs(mine.mean[variable][at] - mean) < bar, (name, mine.mean[variable][at], mean, bar)
    spread = weighted_mean(np.asarray(result.draws["twice"], float), result.weight)
    assert np.isfinite(spread.mcse)
