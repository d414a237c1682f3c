"""The arrays behind the plots."""

import dataclasses

import numpy as np
import pytest

from sahmc.plots import data as plot_data

matplotlib = pytest.importorskip("matplotlib")


matplotlib.use("Agg")


def test_modes_are_ranked_by_mass(runs):
    label, mass = plot_data.ranked_modes(runs["tempered"].record)
    assert len(mass) == 3 and (np.diff(mass) <= 0).all() and np.isclose(mass.sum(), 1)
    weight = runs["tempered"].weight
    assert np.allclose([weight[label == k].sum() for k in range(3)], mass)


def test_the_path_of_theta_ends_where_theta_is(runs):
    result = runs["tempered"]
    path = plot_data.theta_lines(result.record)
    end = result.theta + np.log(result.desired)
    assert np.allclose(path.theta[-1], end - end[0], atol=1e-4)
    assert (np.diff(path.moves) >= 0).all() and 0 < path.frozen < path.moves[-1]
    late = path.theta[path.moves > path.frozen]
    assert np.allclose(late, late[-1]) and not np.allclose(path.theta[0], path.theta[-1])
    learning = plot_data.theta_lines(runs["paper"].record)
    assert not np.allclose(learning.theta[-1], learning.theta[-20])


def test_visits_and_marginals_are_shares(runs):
    for result in runs.values():
        share = plot_data.visit_shares(result.record)
        assert np.isclose(share.sum(), 1) and np.isclose(result.desired.sum(), 1, atol=1e-5)
        found = plot_data.marginals(result.record)[0]
        width = np.diff(found.edges)
        assert np.isclose((found.posterior * width).sum(), 1) and np.isclose((found.tilted * width).sum(), 1)


def test_the_coordinates_shown_are_those_that_tell_modes_apart(runs):
    result = runs["tempered"]
    noise = np.random.default_rng(0).normal(scale=30.0, size=(*result.energy.shape, 3))
    draws = dataclasses.replace(result.record.draws, leaves=(np.concatenate([noise, result.draws[..., :1]], axis=2),))
    assert plot_data.chosen_coordinates(dataclasses.replace(result.record, draws=draws), 1)[0] == ["x[3]"]
    assert plot_data.chosen_coordinates(runs["none"].record, 1)[0] == ["x[0]"]


def test_a_plot_of_one_mode_has_draws_of_it_alone(runs):
    record = runs["tempered"].record
    whole, inside = plot_data.posterior_scatter(record, 2), plot_data.posterior_scatter(record, 2, mode=1)
    assert set(inside.mode) == {1} and set(whole.mode) >= {0, 1, 2} and inside.names == whole.names
    assert set(plot_data.energy_trace(record, mode=1).mode) == {1}
    centre = np.median(inside.points[:, 0])
    edges = plot_data.marginals(record, mode=1)[0].edges
    assert edges[0] > centre - 6 and edges[-1] < centre + 6
