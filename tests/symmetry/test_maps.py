"""Symmetries are found where they are, and nowhere else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import sahmc
from sahmc import Flip, Permute, find_symmetries
from sahmc.symmetry.group import make_group

RNG = np.random.default_rng(5)
DATA = np.concatenate([RNG.normal(-2, 1, 30), RNG.normal(3, 0.5, 20)])
TABLE, INPUTS = RNG.normal(size=(20, 6)), RNG.normal(size=(40, 3))


def standard(position):
    return sum(norm.logpdf(leaf).sum() for leaf in jax.tree.leaves(position))


def mixture(k, uneven=0.0):
    """K components; the prior of the k-th mean is wider by ``uneven`` times its number."""

    def log_density(p):
        each = norm.logpdf(DATA[:, None], p["mu"], jnp.exp(p["log_sd"])) + jax.nn.log_softmax(p["weight"])
        prior = norm.logpdf(p["mu"], 0, 5 + uneven * jnp.arange(k)).sum()
        return jax.nn.logsumexp(each, axis=1).sum() + prior + standard((p["log_sd"], p["weight"]))

    return log_density, {"mu": jnp.arange(k) * 1.0, "log_sd": jnp.zeros(k), "weight": jnp.zeros(k)}


def hidden_states(k=4):
    """Both axes of the transition matrix change with the means."""

    def log_density(p):
        step, seen = jax.nn.log_softmax(p["move"], axis=1), norm.logpdf(DATA[:, None], p["mu"])

        def body(now, row):
            return jax.nn.logsumexp(now[:, None] + step, axis=0) + row, None

        return jax.nn.logsumexp(jax.lax.scan(body, seen[0], seen[1:])[0]) + standard(p)

    return log_density, {"move": jnp.zeros((k, k)), "mu": jnp.arange(k) * 1.0}


def factors(num):
    def log_density(p):
        return norm.logpdf(TABLE, p["scores"] @ p["loadings"].T).sum() + standard(p)

    return log_density, {"loadings": jnp.ones((6, num)), "scores": jnp.ones((20, num))}


def network(units=4):
    def log_density(p):
        out = jnp.tanh(INPUTS @ p["in"] + p["bias"]) @ p["out"]
        return norm.logpdf(INPUTS[:, 0] ** 2, out).sum() + standard(p)

    return log_density, {"in": jnp.ones((3, units)), "bias": jnp.ones(units), "out": jnp.ones(units)}


def one_factor():
    """The sign of the whole of two arrays."""

    def log_density(p):
        return norm.logpdf(TABLE, jnp.outer(p["score"], p["loading"])).sum() + standard(p)

    return log_density, {"loading": jnp.ones(6), "score": jnp.ones(20)}


CASES = {
    "mixture, 3": (mixture(3), [Permute(["log_sd", "mu", "weight"])]),
    "mixture, 10": (mixture(10), [Permute(["log_sd", "mu", "weight"])]),
    "hidden states": (hidden_states(), [Permute(["move", "mu"], axis=[(0, 1), 0])]),
    "factors, 3": (factors(3), [Permute(["loadings", "scores"], 1), Flip(["loadings", "scores"], 1)]),
    "network": (network(), [Permute(["bias", "in", "out"], [0, 1, 0]), Flip(["bias", "in", "out"], [0, 1, 0])]),
    "one factor": (one_factor(), [Flip(["loading", "score"], [(), ()])]),
}


@pytest.mark.parametrize("name", CASES)
def test_symmetries_are_found(name):
    (log_density, start), wanted = CASES[name]
    assert set(find_symmetries(log_density, start)) == set(wanted)


def regression(p):
    mean = INPUTS @ p["slope"] + p["level"]
    return norm.logpdf(INPUTS[:, 0] + 1, mean, jnp.exp(p["log_sd"])).sum() + standard(p)


def groups(p):
    effect = p["mean"] + jnp.exp(p["log_sd"]) * p["z"]
    return norm.logpdf(TABLE.T, effect[:, None]).sum() + standard(p)


def ordered(p):
    """Means made of steps: their order is fixed."""
    mu = jnp.cumsum(jnp.exp(p["step"]))
    return jax.nn.logsumexp(norm.logpdf(DATA[:, None], mu), axis=1).sum() + standard(p)


WITHOUT = {
    "regression": (regression, {"slope": jnp.zeros(3), "level": jnp.zeros(()), "log_sd": jnp.zeros(())}),
    "groups": (groups, {"mean": jnp.zeros(()), "log_sd": jnp.zeros(()), "z": jnp.zeros(6)}),
    "ordered": (ordered, {"step": jnp.zeros(3)}),
    **{f"almost, {off:g}": mixture(3, off) for off in (1.0, 1e-2, 1e-4)},
}


@pytest.mark.parametrize("name", WITHOUT)
def test_none_is_found_where_there_is_none(name):
    assert find_symmetries(*WITHOUT[name]) == ()


def product(centre, a=1e-6, b=1e-6):
    """A product that is measured, of numbers in units ``a`` and ``b``; the prior of the first is around ``centre``."""

    def log_density(p):
        x, y = p["a"] / a, p["b"] / b
        return -0.5 * (x * y - 6) ** 2 - 0.5 * ((x - centre) / 0.2) ** 2 - 0.5 * (y / 4) ** 2

    return log_density, {"a": 2 * a, "b": 3 * b}


def clusters(unit, uneven):
    """Two components whose means are in units ``unit``; the prior of the second is wider by ``uneven``."""

    def log_density(p):
        each = norm.logpdf(DATA[:, None], p["mu"] / unit) + jax.nn.log_softmax(p["weight"])
        wide = 5 + uneven * jnp.arange(2)
        return jax.nn.logsumexp(each, axis=1).sum() + standard((p["mu"] / (wide * unit), p["weight"]))

    return log_density, {"mu": jnp.zeros(2), "weight": jnp.zeros(2)}


@pytest.mark.parametrize(("a", "b"), [(1e-6, 1e-6), (1e-9, 1e-3), (1e6, 1e-8), (1e7, 1e7)])
def test_the_sign_of_a_product_may_be_known_whatever_the_units(a, b):
    """Two units away from the start is a million widths, where all but the product is lost in rounding."""
    flip = Flip(["a", "b"], [(), ()])
    assert find_symmetries(*product(2.0, a, b)) == ()
    assert find_symmetries(*product(0.0, a, b)) == (flip,)


@pytest.mark.parametrize("unit", [1e-8, 1e6, 1e15])
def test_units_of_parts_that_change_places_do_not_matter(unit):
    assert find_symmetries(*clusters(unit, 0.0)) == (Permute(["mu", "weight"]),)
    assert find_symmetries(*clusters(unit, 1e-3)) == ()


def test_nothing_is_believed_of_starts_where_nothing_can_be_told():
    log_density, _ = product(2.0)
    assert find_symmetries(log_density, {"a": 1.0, "b": 1.0}) == ()


def test_models_of_numpyro_are_searched_by_their_sites():
    numpyro = pytest.importorskip("numpyro")
    from numpyro import distributions as dist

    def model(y):
        with numpyro.plate("component", 3):
            mu = numpyro.sample("mu", dist.Normal(0, 5))
            sd = numpyro.sample("sd", dist.HalfNormal(2))
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(probs=jnp.ones(3) / 3), dist.Normal(mu, sd)), obs=y)

    assert find_symmetries(model, model_args=(DATA,)) == (Permute(["mu", "sd"]),)


def test_prior_and_likelihood_must_both_be_symmetric():
    """Their sum may be so by accident, and levels in between then are not."""
    lift = jnp.array([1.0, 2.0])
    model = sahmc.Model(
        log_likelihood=lambda p: -0.5 * jnp.sum((p["a"] - 3) ** 2) + lift @ p["a"],
        log_prior=lambda p: -0.5 * jnp.sum(p["a"] ** 2) - lift @ p["a"],
    )
    assert find_symmetries(model, {"a": jnp.zeros(2)}) == ()


def test_maps_are_what_they_say():
    ids = {"a": np.arange(6).reshape(3, 2), "b": np.array([6, 7, 8])}
    exchange = Permute(["a", "b"]).generators(ids)[1](np.arange(9.0))
    assert exchange.tolist() == [0, 1, 4, 5, 2, 3, 6, 8, 7]
    flip = Flip("a", axis=1).generators(ids)[1](np.arange(9.0))
    assert flip.tolist() == [0, -1, 2, -3, 4, -5, 6, 7, 8]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda ids: Permute([]), "needs names of arrays"),
        (lambda ids: Permute(["a", "a"]), "each once"),
        (lambda ids: Permute(["a", "b"], [0]), "an axis for each"),
        (lambda ids: Permute("c").length(ids), "arrays that a position has"),
        (lambda ids: Flip("b", axis=1).length(ids), "'b' has 1 axes"),
        (lambda ids: Permute(["a", "b"], [1, 0]).length(ids), "same length along its axis"),
    ],
)
def test_what_is_no_symmetry_is_told(make, words):
    with pytest.raises(ValueError, match=words):
        make({"a": np.arange(6).reshape(3, 2), "b": np.array([6, 7, 8])})


@pytest.fixture
def constants_in_programs():
    """The way newer versions of JAX have of keeping data inside programs."""
    name = "jax_use_simplified_jaxpr_constants"
    before = getattr(jax.config, name, None)
    if before is None:
        pytest.skip("this version of JAX has no such setting")
    jax.config.update(name, True)
    yield
    jax.config.update(name, before)


def test_data_that_a_compiled_function_is_given_are_of_its_type(constants_in_programs):
    """Once traced in 32 bits, data of 64 would be given in 32 to a program that expects 64."""
    second = np.cov(np.random.default_rng(0).normal(size=(4, 50))) * 50

    def log_density(p):
        covariance = p["loading"] @ p["loading"].T + jnp.eye(4)
        return -0.5 * jnp.trace(jnp.linalg.solve(covariance, second)) - 25 * jnp.linalg.slogdet(covariance)[1]

    start = {"loading": jnp.ones((4, 2)), "other": jnp.zeros(())}
    jax.jit(log_density)(start)
    found = sahmc.find_symmetries(sahmc.Model(log_density=log_density), start)
    assert sahmc.Permute("loading", 1) in found and sahmc.Flip("loading", 1) in found


def test_an_element_is_undone_by_its_inverse():
    group = make_group([Permute("a"), Flip("a", 0)], {"a": np.arange(5)})
    point = np.arange(1.0, 6.0)
    for seed in range(20):
        move = group.random(jax.random.key(seed), jnp.asarray(point))
        assert np.array_equal(move.inverse()(move(jnp.asarray(point))), point)
        move = group.random_copies(point, np.random.default_rng(seed))
        assert np.array_equal(move.inverse()(move(point)), point)
