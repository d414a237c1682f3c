"""Two models with exact answers: a normal mean under a narrow and a wide prior. Evidence, cross-validation, groups."""

import dataclasses
import warnings
from types import SimpleNamespace

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

import sahmc
from sahmc.comparison import _evidence_columns
from sahmc.models.stan_predictor import StanPredictor
from sahmc.results.predictions import log_likelihood
from sahmc.results.records import Finding

pytest.importorskip("matplotlib").use("Agg")
Y = 0.4 + np.random.default_rng(1).normal(size=12)
WIDTHS = {"wide": 30.0, "narrow": 1.0}


def model(width, y):
    mean = numpyro.sample("mean", dist.Normal(0, width))
    numpyro.factor("nothing", 0.0 * mean)
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def exact_evidence(width):
    return stats.multivariate_normal.logpdf(Y, cov=np.eye(len(Y)) + width**2)


def exact_posterior(width, y):
    precision = len(y) + width**-2
    return y.sum() / precision, precision**-0.5


def exact_loo(width):
    total = 0.0
    for i in range(len(Y)):
        mean, sd = exact_posterior(width, np.delete(Y, i))
        total += stats.norm.logpdf(Y[i], mean, np.hypot(1, sd))
    return total


@pytest.fixture(scope="module")
def runs():
    options = {"draws": 600, "tune": 200, "chains": 8, "random_seed": 0, "progressbar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return {k: sahmc.sample(model, model_args=(np.asarray(width), Y), **options) for k, width in WIDTHS.items()}


@pytest.fixture(scope="module")
def tree(runs):
    return runs["narrow"].to_datatree(log_likelihood=True, posterior_predictive=True, prior=True)


@pytest.fixture(scope="module")
def compared(runs):
    return sahmc.compare(runs)


def test_bayes_factors_are_exact_within_their_errors(compared):
    table = compared.to_dataframe()
    assert list(table.index) == ["narrow", "wide"]  # the most probable first
    for name, width in WIDTHS.items():
        row = table.loc[name]
        assert abs(row["log_evidence"] - exact_evidence(width)) < 4 * row["log_evidence_error"]
    truth, wide = exact_evidence(30.0) - exact_evidence(1.0), table.loc["wide"]
    assert abs(wide["log_bayes_factor"] - truth) < 4 * wide["log_bayes_factor_error"] < 1
    assert np.isclose(wide["bayes_factor"], np.exp(wide["log_bayes_factor"]))
    assert np.isclose(wide["odds"], wide["bayes_factor"]) and np.isclose(table["probability"].sum(), 1)
    assert np.isclose(wide["probability"] / table.loc["narrow", "probability"], wide["odds"])


def test_prior_odds_change_the_order_and_not_the_evidence(runs, compared):
    table = sahmc.compare(runs, prior={"narrow": 1, "wide": 999}, loo=False).to_dataframe()
    before = compared.to_dataframe().loc["wide"]
    assert list(table.index) == ["wide", "narrow"] and table["prior"].tolist() == [0.999, 0.001]
    assert np.isclose(table.loc["narrow", "log_bayes_factor"], -before["log_bayes_factor"])
    assert np.isclose(table.loc["narrow", "odds"], 1 / (999 * before["odds"]))


def test_errors_are_those_of_log_evidences_that_vary():
    rng = np.random.default_rng(0)
    mean, error, prior = np.array([0.0, -0.7, -2.0]), np.array([0.02, 0.03, 0.05]), np.array([0.2, 0.5, 0.3])
    columns = _evidence_columns(mean, error, prior)
    drawn = mean + error * rng.normal(size=(4000, 3))
    many = [_evidence_columns(one, error, prior) for one in drawn]
    for name in ("probability", "odds", "bayes_factor", "log_bayes_factor"):
        spread = np.std([one[name] for one in many], axis=0)
        close = 4 * spread / np.sqrt(2 * len(many)) + 0.01 * spread  # the second: beyond first order
        assert (np.abs(columns[f"{name}_error"] - spread) <= close).all(), name


def test_cross_validation_is_exact_within_its_error(runs, compared):
    table = compared.to_dataframe()
    for name, width in WIDTHS.items():
        result = runs[name]
        every = result.expectation(lambda p: 1 / jax.scipy.stats.norm.pdf(Y, p["mean"]))
        error = np.sum(every.mcse / every.mean)  # at most: observations go together
        assert abs(table.loc[name, "elpd_loo"] - exact_loo(width)) < 4 * error < 1
    assert table["elpd_diff"].max() == 0 and (table["elpd_diff_error"] >= 0).all()
    assert abs(table["stacking_weight"].sum() - 1) < 1e-3


def test_what_is_printed_fits_a_terminal(runs, compared):
    for one in (compared, sahmc.compare(runs, prior=WIDTHS, loo=False)):
        text = str(one)
        assert max(map(len, text.splitlines())) <= 80 and "narrow" in text and "±" in text
    assert "elpd_loo" in str(compared) and "elpd_loo" not in text and "prior" in text
    assert compared._repr_html_().count("<table>") == 2


def test_the_picture_has_a_row_for_each_model(runs, compared):
    ax = compared.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["narrow", "wide"]
    points = [line.get_xdata() for line in ax.lines if line.get_marker() == "o"]
    assert np.allclose(points[0], compared.columns["log_bayes_factor"])
    assert sahmc.compare(runs, loo=False).plot(ax) is ax


def changed(result, **parts):
    """A result without its model, some parts of its record replaced."""
    return sahmc.Result(dataclasses.replace(result.record, **parts))


def test_what_cannot_be_had_is_left_out_and_said(runs):
    raw = changed(runs["wide"], settings={**runs["wide"].settings, "prior": False, "reference": True})
    other = dataclasses.replace(runs["wide"].record.labels, observed_data={"y": Y + 1})
    notes = sahmc.compare({**runs, "raw": raw, "other": changed(runs["wide"], labels=other)}).notes
    beginnings = (
        "The log evidence of 'raw' is that of exp(log density)",
        "The data of 'other' are not those of 'narrow'",
        "Cross-validation is left out: 'raw' has no log likelihoods (a result that was loaded",
    )
    assert all(note.startswith(words) for note, words in zip(notes, beginnings, strict=True))


def test_models_of_other_numbers_of_observations_are_not_cross_validated(runs, monkeypatch):
    found = iter([12, 11])
    monkeypatch.setattr(
        "sahmc.comparison.leave_one_out", lambda *_: type("Found", (), {"n_data_points": next(found)})()
    )
    assert "different numbers of observations" in sahmc.compare(runs).notes[0]


def test_observations_in_doubt_are_counted(runs, monkeypatch):
    k = iter([np.array([0.1, 0.8, 0.7]), np.array([0.9, 0.8, 0.7])])
    monkeypatch.setattr(
        "sahmc.comparison.leave_one_out",
        lambda *_: SimpleNamespace(n_data_points=12, good_k=0.7, pareto_k=next(k)),
    )
    monkeypatch.setattr("sahmc.comparison.loo_columns", lambda _: {})
    one, two = sahmc.compare(runs).notes
    assert "1 of 12 observations has a Pareto k" in one and "2 of 12 observations have a Pareto k" in two


def test_runs_that_do_not_know_their_evidence_are_refused(runs):
    wrong = Finding("round-trips", "error", "None.", 0.0, "Sample longer.")
    undermined = changed(runs["wide"], findings=(wrong,))
    with pytest.raises(ValueError, match=r"that of 'wide' is nan, for the findings round-trips.* To fix it"):
        sahmc.compare({**runs, "wide": undermined})
    moving = changed(runs["wide"], settings={**runs["wide"].settings, "adapt": "always"})
    with pytest.raises(ValueError, match=r"log evidence of 'wide' is not known: log_evidence needs .* To fix it"):
        sahmc.compare({**runs, "wide": moving})


@pytest.mark.parametrize(
    ("results", "options", "words"),
    [
        ({}, {}, "two results or more, by name"),
        ({"narrow": None}, {}, "two results or more, by name"),
        ({"narrow": 1.0, "wide": None}, {}, r"results of sahmc.sample; got \{'narrow': 'float'\}"),
        (
            None,
            {"prior": {"narrow": 1.0}},
            "prior must be a dict of positive numbers, one for each of 'wide', 'narrow'",
        ),
        (None, {"prior": {"narrow": 1.0, "wide": 0.0}}, "positive numbers"),
        (None, {"loo": "yes"}, "loo must be True or False"),
    ],
)
def test_bad_arguments_are_told(results, options, words, runs):
    given = runs if results is None else {name: runs[name] if x is None else x for name, x in results.items()}
    with pytest.raises(ValueError, match=words):
        sahmc.compare(given, **options)


def test_groups_have_the_dims_of_the_model(tree):
    assert tree["log_likelihood"]["y"].dims == tree["posterior_predictive"]["y"].dims == ("chain", "draw", "row")
    assert tree["log_likelihood"]["y"].shape == (8, 600, 12) and list(tree["log_likelihood"].data_vars) == ["y"]
    assert tree["prior"]["mean"].shape == (1, 1000) and tree["prior_predictive"]["y"].shape == (1, 1000, 12)
    assert list(tree["prior"].data_vars) == ["mean"]


def test_log_likelihoods_and_data_are_those_of_the_draws(runs, tree):
    mean = tree["posterior"]["mean"].values[..., None]
    assert np.allclose(tree["log_likelihood"]["y"], stats.norm.logpdf(Y, mean), atol=1e-4)
    made = tree["posterior_predictive"]["y"].values
    assert abs(np.var(made - mean) - 1) < 4 * np.sqrt(2 / made.size)
    one, two = (runs["narrow"].to_datatree(posterior_predictive=True, seed=seed) for seed in (0, 1))
    assert np.array_equal(one["posterior_predictive"]["y"], made) and not np.array_equal(
        two["posterior_predictive"]["y"], made
    )
    spread = tree["prior"]["mean"].values.std()
    assert abs(spread - 1) < 4 / np.sqrt(2000)


def test_draws_that_repeat_share_a_log_likelihood(runs, monkeypatch):
    predictor, seen = runs["narrow"].live.predictor, []
    whole = type(predictor).log_likelihood
    monkeypatch.setattr(type(predictor), "log_likelihood", lambda self, d: seen.append(d) or whole(self, d))
    index = (np.array([[0, 3, 0], [3, 0, 3]]), np.array([[5, 7, 5], [7, 6, 7]]))
    found = log_likelihood(predictor, runs["narrow"].record, index)
    assert len(seen[0]["mean"]) == 3
    mean = np.asarray(runs["narrow"].record.draws.values["mean"])[index][..., None]
    assert np.allclose(found["y"], stats.norm.logpdf(Y, mean), atol=1e-4)
    moved = runs["narrow"].to_datatree(log_likelihood=True, rejuvenate=2)
    again = moved["posterior"]["mean"].values[..., None]
    assert np.allclose(moved["log_likelihood"]["y"], stats.norm.logpdf(Y, again), atol=1e-4)


def test_arviz_goes_on_from_the_tree(tree):
    arviz_stats, arviz_plots = (pytest.importorskip(name) for name in ("arviz_stats", "arviz_plots"))
    found = arviz_stats.loo(tree)
    assert abs(found.elpd - exact_loo(1.0)) < 1
    arviz_plots.plot_ppc_dist(tree, num_samples=5)
    arviz_plots.plot_ppc_dist(tree, group="prior_predictive", num_samples=5)
    arviz_plots.plot_prior_posterior(tree)


def test_old_arviz_says_what_to_do(runs, tree):
    az = pytest.importorskip("arviz")
    if not az.__version__.startswith("0."):
        assert np.isfinite(az.loo(tree).elpd)
        return
    for read in (az.summary, az.loo):
        with pytest.raises(ValueError, match=r"reads an InferenceData.* call to_inferencedata\(\) in place"):
            read(tree)
    data = runs["narrow"].to_inferencedata(log_likelihood=True, prior=True)
    assert abs(az.loo(data).elpd_loo - exact_loo(1.0)) < 1 and "prior_predictive" in data.groups()


@pytest.mark.parametrize("argument", ["log_likelihood", "posterior_predictive", "prior"])
def test_what_needs_the_model_says_so(runs, argument):
    loaded = sahmc.Result(runs["wide"].record)
    with pytest.raises(ValueError, match=f"{argument}=True needs the run that made the draws; got 'a result that was"):
        loaded.to_datatree(**{argument: True})
    bare = dataclasses.replace(runs["wide"], live=dataclasses.replace(runs["wide"].live, predictor=None))
    with pytest.raises(ValueError, match=f"{argument}=True needs a model of NumPyro, PyMC or Stan"):
        bare.to_datatree(**{argument: True})


def test_generated_quantities_of_stan_make_the_groups(runs):
    result = runs["wide"]
    mean = result.draws["mean"]
    values = {"log_lik": stats.norm.logpdf(Y, mean[..., None]), "mean": mean, "y_rep": mean[..., None] + 0 * Y}
    leaves, structure = jax.tree.flatten(values)
    draws = dataclasses.replace(result.record.draws, leaves=tuple(leaves), structure=structure)
    live = dataclasses.replace(result.live, predictor=StanPredictor())
    stan = sahmc.Result(dataclasses.replace(result.record, draws=draws, modes=None), live)
    tree = stan.to_datatree(log_likelihood=True, posterior_predictive=True)
    assert list(tree["log_likelihood"].data_vars) == list(tree["posterior_predictive"].data_vars) == ["y"]
    again = tree["posterior"]["mean"].values[..., None]
    assert np.allclose(tree["log_likelihood"]["y"], stats.norm.logpdf(Y, again))
    with pytest.raises(ValueError, match="got a Stan program"):
        stan.to_datatree(prior=True)
