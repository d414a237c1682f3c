"""The adapter to BridgeStan, on a stand-in with the interface of ``bridgestan.StanModel``.

The stand-in is a program with a positive parameter, a matrix and a generated quantity, computed with NumPy:
``y ~ normal(mu, sigma)``, ``mu ~ normal(0, 2)``, ``sigma ~ exponential(1)``, ``m[2, 3] ~ normal(0, 1)``.
"""

import ctypes
import json
import threading
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.cli.main import main
from sahmc.models import stan

Y = np.array([1.0, 1.4, 0.7, 1.1, 0.9])


class StandIn:
    def __init__(self):
        self.calls, self.threads, self.seconds = 0, set(), 0.0

    def param_unc_num(self):
        return 8

    def param_names(self, *, include_tp=False, include_gq=False):
        names = ["mu", "sigma", *(f"m.{i}.{j}" for j in (1, 2, 3) for i in (1, 2))]
        return names + (["twice"] if include_gq else [])

    def log_density_gradient(self, theta, *, propto=True, jacobian=True):
        self.calls += 1
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds)
        if theta[0] > 50 or abs(theta[1]) > 50:
            raise RuntimeError("reject")
        mu, sigma, rest = theta[0], np.exp(theta[1]), theta[2:]
        z = (Y - mu) / sigma
        value = -0.5 * np.sum(z**2) - len(Y) * theta[1] - mu**2 / 8 - sigma - 0.5 * np.sum(rest**2)
        slope = np.sum(z**2) - len(Y) - sigma
        if jacobian:
            value, slope = value + theta[1], slope + 1
        return value, np.concatenate([[np.sum(z) / sigma - mu / 4, slope], -rest])

    def param_constrain(self, theta, *, include_tp=False, include_gq=False, rng=None):
        return np.concatenate([[theta[0], np.exp(theta[1])], theta[2:], [2 * theta[0]]])

    def param_unconstrain_json(self, text):
        values = json.loads(text)
        return np.concatenate([[values["mu"], np.log(values["sigma"])], np.ravel(values["m"], order="F")])

    def new_rng(self, seed):
        return seed


def by_hand(theta):
    mu, sigma = theta[0], jnp.exp(theta[1])
    prior = -(mu**2) / 8 - sigma - 0.5 * jnp.sum(theta[2:] ** 2)
    return prior - 0.5 * jnp.sum(((jnp.asarray(Y) - mu) / sigma) ** 2) - 5 * theta[1] + theta[1]


def test_values_and_gradients_under_every_transformation():
    with jax.enable_x64(True):
        made = sahmc.from_stan(StandIn())
        thetas = jax.vmap(made.start)(jax.random.split(jax.random.key(0), 6))
        found = jax.jit(jax.vmap(jax.value_and_grad(made.log_density)))(thetas)
        own = jax.vmap(jax.value_and_grad(by_hand))(thetas)
        for mine, theirs in zip(found, own, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-10)
        scaled = jax.grad(lambda t: 3.0 * made.log_density(t))(thetas[0])
        np.testing.assert_allclose(scaled, 3.0 * own[1][0], rtol=1e-10)


def test_a_batch_is_one_call_in_threads(monkeypatch):
    monkeypatch.setattr(stan, "THREADS", 2)
    model = StandIn()
    model.seconds = 1e-3
    made = sahmc.from_stan(model)
    values = jax.jit(jax.vmap(made.log_density))(jnp.zeros((64, 8)))
    assert values.shape == (64,) and model.calls == 64 and len(model.threads) == 2


def test_a_rejection_is_density_zero():
    made = sahmc.from_stan(StandIn())
    value, gradient = jax.value_and_grad(made.log_density)(jnp.zeros(8).at[0].set(60.0))
    assert np.isneginf(value) and not np.any(gradient)


def test_variables_have_their_names_and_shapes():
    made = sahmc.from_stan(StandIn())
    matrix = np.arange(6.0).reshape(2, 3)
    back = made.constrain(made.unconstrain({"mu": 0.5, "sigma": 2.0, "m": matrix}))
    assert list(back) == ["mu", "sigma", "m", "twice"]
    np.testing.assert_allclose(back["m"], matrix)
    np.testing.assert_allclose([back["mu"], back["sigma"], back["twice"]], [0.5, 2.0, 1.0], rtol=1e-6)


def test_a_stan_model_goes_straight_into_sample():
    """Means beside those of the same log density without Stan."""
    result = sahmc.sample(StandIn(), random_seed=0, draws=200, tune=200, chains=8, progressbar=False)
    plain = sahmc.sample(
        by_hand, jnp.zeros(8), random_seed=1, draws=400, tune=200, chains=8, tilt="none", progressbar=False
    )
    mine = result.expectation(lambda draw: jnp.stack([draw["mu"], draw["sigma"]]))
    theirs = plain.expectation(lambda theta: jnp.stack([theta[0], jnp.exp(theta[1])]))
    assert (abs(mine.mean - theirs.mean) < 4 * np.hypot(mine.mcse, theirs.mcse)).all()
    assert result.draws["m"].shape == (8, 200, 2, 3) and (result.draws["sigma"] > 0).all()
    np.testing.assert_allclose(result.draws["twice"], 2 * result.draws["mu"], rtol=1e-6)


class Pointer(StandIn):
    """Cannot be pickled, as a ``bridgestan.StanModel`` cannot."""

    def __init__(self, shift=0.0):
        super().__init__()
        self.pointer, self.shift = ctypes.pointer(ctypes.c_int(1)), shift

    def log_density_gradient(self, theta, *, propto=True, jacobian=True):
        value, gradient = super().log_density_gradient(theta, propto=propto, jacobian=jacobian)
        return value + self.shift * theta[0], gradient + self.shift * np.eye(8)[0]


def test_a_run_is_kept_and_told_from_one_on_other_data(tmp_path):
    settings = {"random_seed": 0, "draws": 30, "tune": 60, "chains": 4, "tilt": "none", "progressbar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        first = sahmc.sample(Pointer(), checkpoint=tmp_path / "run", **settings)
        again = sahmc.sample(Pointer(), checkpoint=tmp_path / "run", **settings)
    np.testing.assert_array_equal(first.draws["mu"], again.draws["mu"])
    with pytest.raises(ValueError, match=r"the run in .* must be this one; got .the values of the log density"):
        sahmc.sample(Pointer(0.5), checkpoint=tmp_path / "run", **settings)
    with pytest.raises(ValueError, match=r"call sahmc\.sample again"):
        sahmc.resume(tmp_path / "run")


def test_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(stan, "_compiled", lambda model, data: StandIn())
    program, data = tmp_path / "model.stan", tmp_path / "data.json"
    program.write_text("parameters { real mu; }")
    short = ["--draws", "400", "--tune", "200", "--chains", "4", "--tilt", "none", "--seed", "0", "--quiet"]
    assert main(["sample", str(program), "--data", str(data), *short]) == 2
    assert "JSON file that exists" in capsys.readouterr().err
    data.write_text("{}")
    assert main(["sample", str(program), "--data", str(data), *short]) in (0, 1)
    assert "sigma" in capsys.readouterr().out
    (tmp_path / "model.py").write_text("")
    assert main(["sample", str(tmp_path / "model.py"), "--data", str(data)]) == 2
    assert "--data is for a Stan program" in capsys.readouterr().err


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="holds its data already"):
        sahmc.from_stan(StandIn(), {"y": [1.0]})
    with pytest.raises(ValueError, match=r"bridgestan must be installed|must exist"):
        sahmc.from_stan("nowhere.stan")
