"""Posteriors whose modes have copies: one mode to the run, all copies alike in the draws, one of them in the tables."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import sahmc
from sahmc.models.positions import Unpacker
from sahmc.results.evidence import log_evidence
from sahmc.results.findings.density import check_symmetry
from sahmc.symmetry.fold import Fold
from sahmc.symmetry.group import make_group
from sahmc.symmetry.known import Symmetries, as_data, from_data
from sahmc.tilt.importance import weighted_mean

RNG = np.random.default_rng(0)
DATA = np.concatenate([RNG.normal(-4, 1, 40), RNG.normal(0, 0.6, 30), RNG.normal(5, 1.2, 60)])


def mixture(y=DATA):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("part", 3):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        sigma = numpyro.sample("sigma", dist.LogNormal(0, 0.5))
    numpyro.deterministic("precision", 1 / sigma**2)
    numpyro.deterministic("overall", jnp.sum(weights * mu))
    numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(mu, sigma)), obs=y)


def run(model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sahmc.sample(model, draws=300, tune=500, chains=16, random_seed=0, progressbar=False, **options)


@pytest.fixture(scope="module")
def result():
    return run(mixture)


def test_copies_are_one_mode_and_every_order_has_its_share(result):
    (mode,) = [mode for mode in result.modes() if mode.mass > 0.01]
    assert mode.copies == 6 and "copies" in str(result.modes())
    assert (abs(mode.minimum["mu"] - mode.mean["mu"]) < 3 * mode.sd["mu"]).all()  # of the copy that the draws are in
    (symmetry,) = result.symmetries
    assert set(symmetry.names) == {"mu", "sigma", "weights", "precision"}
    order = (np.argsort(result.draws["mu"], axis=-1) * [9, 3, 1]).sum(-1)
    share = weighted_mean((order[..., None] == np.unique(order)).astype(float), result.weight)
    assert len(share.mean) == 6 and (np.abs(share.mean - 1 / 6) < 4 * share.mcse).all() and share.mcse.max() < 0.02
    assert not [finding for finding in result.findings if finding.severity == "error"]


def test_tables_are_of_relabelled_draws(result):
    table = result.summary().to_dataframe()
    means = sorted(table.loc[[f"mu[{k}]" for k in range(3)], "mean"])
    raw = float(result.expectation().mean["mu"][0])
    assert np.allclose(means, [-4, 0, 5], atol=0.6) and np.abs(raw - np.array(means)).min() > 0.1
    assert "may change places" in result.summary().symmetries and table["sd"].max() < 2.5
    tree = result.to_datatree()
    assert np.ptp(np.asarray(tree["relabelled_posterior"]["mu"])[..., 0]) < np.ptp(np.asarray(tree["posterior"]["mu"]))
    assert np.allclose(np.sort(result.relabel()["mu"], axis=-1), np.sort(result.draws["mu"], axis=-1))


def test_what_is_saved_is_still_known(result, tmp_path):
    result.save(tmp_path / "run.nc")
    loaded = sahmc.Result.load(tmp_path / "run.nc")
    assert loaded.symmetries == result.symmetries and next(m.copies for m in loaded.modes()) == 6
    assert np.array_equal(loaded.relabel()["mu"], result.relabel()["mu"])


def test_without_them_all_copies_are_modes(result):
    plain = run(mixture, symmetries=None)
    assert plain.symmetries == () and len(plain.modes()) >= 6
    one, two = result.log_evidence(), plain.log_evidence()
    assert abs(one.mean - two.mean) < 4 * np.hypot(one.mcse, two.mcse)


def far_apart(p):
    """Two Gaussians, 0.3 and 0.7 of the mass: near the first, where chains start, every sign may change."""
    x = jnp.stack([p["alpha"], p["beta"], p["gamma"]])
    near, far = -0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - jnp.array([25.0, -8.0, 4.0])) ** 2)
    return jnp.logaddexp(jnp.log(0.3) + near, jnp.log(0.7) + far) - 1.5 * jnp.log(2 * jnp.pi)


START = {"alpha": 0.0, "beta": 0.0, "gamma": 0.0}


@pytest.mark.parametrize("given", ["auto", [sahmc.Flip("alpha", ())]])
def test_a_symmetry_that_holds_near_the_start_alone_is_dropped(given):
    result = run(far_apart, initvals=START, symmetries=given)
    far = weighted_mean((result.draws["alpha"] > 12)[..., None].astype(float), result.weight)
    assert result.symmetries == () and abs(far.mean[0] - 0.7) < 4 * far.mcse[0] and far.mcse[0] < 0.03
    evidence = result.log_evidence()
    assert abs(evidence.mean) < 4 * evidence.mcse
    told = [finding for finding in result.findings if finding.code == "symmetry"]
    assert [finding.severity for finding in told] == ([] if given == "auto" else ["warning"])


def test_a_false_symmetry_that_was_used_is_an_error():
    """The energies of copies of draws tell, if the search was wrong to believe in it."""
    result = run(far_apart, initvals=START, symmetries=None)
    ids = {name: np.array(k) for k, name in enumerate(START)}
    fold = Fold(make_group([sahmc.Flip("alpha", ())], ids), (), (np.ones((1, 1)),))
    live = dataclasses.replace(result.live, finder=dataclasses.replace(result.live.finder, fold=fold))
    changed, looked = live.asymmetry(result.log_weight)
    assert 0.1 < changed / looked < 0.6  # half of the copies in the far mode are not the draw itself
    found = tuple(check_symmetry(changed, looked))
    record = dataclasses.replace(result.record, findings=found)
    assert found[0].severity == "error" and np.isnan(log_evidence(record).mean)
    assert np.isfinite(log_evidence(result.record).mean) and not list(check_symmetry(0, looked))


def test_what_is_given_is_checked():
    start = {"a": jnp.zeros(2), "b": jnp.zeros(2)}

    def log_density(p):
        return -0.5 * jnp.sum((p["a"] - jnp.array([1.0, 1.001])) ** 2) - 0.5 * jnp.sum(p["b"] ** 2)

    with pytest.raises(ValueError, match=r"must leave the log density.*Permute"):
        run(log_density, initvals=start, symmetries=[sahmc.Permute("a")])
    with pytest.raises(ValueError, match='"auto", None or a list'):
        run(log_density, initvals=start, symmetries="all")
    for wrong, why in (
        (lambda p: {**p, "b": p["b"][::-1], "a": p["a"] + 1}, "must exchange numbers"),
        (lambda p: {**p, "b": 0 * p["b"]}, "must exchange numbers"),
        (lambda p: p["a"], "same structure"),
        (lambda p: {**p, "a": -p["a"]}, "must leave the log density"),
    ):
        with pytest.raises(ValueError, match=why):
            run(log_density, initvals=start, symmetries=[wrong])
    with pytest.raises(ValueError, match="in whatever order"):
        run(log_density, initvals=start, symmetries=[lambda p: {**p, "b": p["b"][::-1]}, sahmc.Flip("b", 0)])
    given = run(log_density, initvals=start, symmetries=[sahmc.Flip("b")])
    assert given.symmetries == (sahmc.Flip("b"),)
    assert run(log_density, initvals=start).symmetries == ()  # b is symmetric, and has no copies


def two_normals(y=DATA[DATA != 0]):
    p = numpyro.sample("p", dist.Beta(2, 2))
    with numpyro.plate("part", 2):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
    numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(jnp.stack([p, 1 - p])), dist.Normal(mu, 2)), obs=y)


def test_parts_whose_weights_are_p_and_1_minus_p_are_found():
    result = run(two_normals)
    (symmetry,) = result.symmetries
    assert isinstance(symmetry, sahmc.Involution) and symmetry.name.endswith("reversing p")
    (mode,) = [mode for mode in result.modes() if mode.mass > 0.01]
    assert mode.copies == 2
    first = weighted_mean((result.draws["mu"][..., :1] < result.draws["mu"][..., 1:]).astype(float), result.weight)
    assert abs(first.mean[0] - 0.5) < 4 * first.mcse[0] and first.mcse[0] < 0.03
    told = result.relabel()
    same = told["mu"][..., 0] == result.draws["mu"][..., 0]
    assert np.allclose(told["p"], np.where(same, result.draws["p"], 1 - result.draws["p"]), atol=1e-5)
    low = (result.weight * (told["mu"][..., 0] < told["mu"][..., 1])).sum()
    assert min(low, 1 - low) < 1e-3
    assert "reversing p leaves the posterior as it is" in result.summary().symmetries


def test_a_function_may_be_a_symmetry(tmp_path):
    """Two places that may change, each with its own width, beside a number that has no part in it."""
    start = {"a": jnp.zeros(2), "b": jnp.zeros(2), "c": jnp.zeros(())}

    def half(a, b):
        return -0.5 * jnp.sum((a - 4) ** 2) - jnp.sum((b + 4) ** 2)

    def log_density(p):
        return jnp.logaddexp(half(p["a"], p["b"]), half(p["b"], p["a"])) - 0.5 * p["c"] ** 2

    def swap(p):
        return {**p, "a": p["b"], "b": p["a"]}

    result = run(log_density, initvals=start, symmetries=[swap])
    share = (result.weight * (result.draws["a"][..., 0] > 0)).sum()
    assert abs(share - 0.5) < 4 * 0.5 * np.sqrt((result.weight**2).sum())
    assert [mode.copies for mode in result.modes() if mode.mass > 0.01] == [2]
    told = result.relabel()
    assert abs(told["a"].mean()) > 3 and np.ptp(told["a"]) < np.ptp(result.draws["a"])
    result.save(tmp_path / "run.nc")
    assert sahmc.Result.load(tmp_path / "run.nc").symmetries == result.symmetries


def test_what_cannot_be_looked_for_is_said(monkeypatch):
    def fails(self, maps):
        raise RuntimeError("no 64 bits here")

    monkeypatch.setattr("sahmc.symmetry.search.Trial.holds", fails)
    start = {"a": jnp.zeros(2), "b": jnp.zeros(2)}
    with pytest.warns(UserWarning, match=r"symmetries could not be looked for \(no 64 bits here\)"):
        found = sahmc.sample(
            lambda p: -0.5 * jnp.sum(p["a"] ** 2 + p["b"] ** 2),
            start,
            draws=20,
            tune=40,
            chains=4,
            random_seed=0,
            progressbar=False,
        )
    assert found.symmetries == ()


def test_variables_that_follow_a_symmetry_are_found():
    ids = {"a": np.arange(3), "c": np.arange(3, 4)}
    symmetries = Symmetries((sahmc.Permute("a"), sahmc.Flip("c", ())), ids)
    points = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)

    def variables(z):
        a, c = z["a"], z["c"]
        return {"a": jnp.exp(a), "table": a[:, None] * a, "total": a.sum(), "both": c * a, "odd": a[0] * a}

    unravel = lambda flat: {"a": flat[:3], "c": flat[3:]}  # noqa: E731
    unpack = Unpacker.of(sahmc.Model(log_density=lambda z: 0.0, constrain=variables), unravel, jnp.asarray(points[0]))
    found = symmetries.of_variables(unpack, points)
    assert [sorted(one.pairs) for one in found] == [[("a", (0,)), ("both", (0,)), ("table", (0, 1))], [("both", ())]]
    assert from_data(as_data(found)) == list(found)


def test_a_checkpoint_knows_them(tmp_path):
    options = {"checkpoint": tmp_path / "run"}
    first = run(mixture, **options)
    again = sahmc.resume(tmp_path / "run", progressbar=False)
    assert np.array_equal(first.draws["mu"], again.draws["mu"])
    with pytest.raises(ValueError, match="the symmetries changed"):
        run(mixture, symmetries=None, **options)


def test_a_simplex_keeps_its_mass():
    """The evidence of no data is 0 with logits in place of sticks, and shares of a Dirichlet are what they are."""

    def prior():
        numpyro.sample("w", dist.Dirichlet(jnp.array([1.0, 2.0, 4.0])))

    made = sahmc.from_numpyro(prior)
    axis = np.linspace(-12, 12, 121)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3).astype(np.float32)
    log_prior = np.asarray(jax.jit(jax.vmap(lambda z: made.log_prior({"w": z})))(jnp.asarray(grid)), float)
    mass = np.exp(log_prior) * (axis[1] - axis[0]) ** 3
    share = np.asarray(jax.nn.softmax(grid, axis=1))
    assert abs(mass.sum() - 1) < 0.01 and np.allclose(mass @ share, np.array([1, 2, 4]) / 7, atol=0.01)


def test_what_is_given_is_used_without_a_ladder_too():
    """Nothing but a copy leads from one bump to the other."""

    def log_density(p):
        return jax.nn.logsumexp(-0.5 * jnp.sum((p["a"] - jnp.array([[-9.0, 9.0], [9.0, -9.0]])) ** 2, axis=1))

    start = {"a": jnp.array([-9.0, 9.0])}
    for symmetries, share in ((None, 0.0), ([sahmc.Permute("a")], 0.5)):
        result = run(log_density, initvals=start, tilt="none", symmetries=symmetries)
        first = weighted_mean((result.draws["a"][..., :1] > 0).astype(float), result.weight)
        assert abs(first.mean[0] - share) <= 4 * first.mcse[0] and first.mcse[0] < 0.03
