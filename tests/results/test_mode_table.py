"""The table of modes: its rows are the labels of the draws, and its masses sum to 1."""

import dataclasses
import pickle

import numpy as np
import pytest

from sahmc.results.mode_table import SHOWN_REST, mode_table
from sahmc.results.records import ModeAssignment


def relabelled(result, label, num, **more):
    """An assignment of the draws of a result to ``num`` modes."""
    dim = 6
    zero = np.zeros(num)
    return ModeAssignment(np.zeros((num, dim)), zero, zero.astype(bool), zero, label.astype(np.int16), **more)


def test_row_k_is_label_k_and_the_heaviest_come_first(result):
    table, assigned = result.modes(), result.mode_assignment
    assert [mode.label for mode in table] == list(range(len(table)))
    assert (np.diff(assigned.mass(result.weight)) <= 0).all()
    assert np.allclose(
        [mode.mass for mode in table], [result.weight[assigned.label == k].sum() for k in range(len(table))]
    )
    assert list(table.to_dataframe()["label"]) == [0, 1, 2]
    stored = result.to_datatree()["weighted_sample_stats"]["mode"].values
    assert stored.dtype.itemsize > 1 and np.array_equal(stored, assigned.label)


def test_any_number_of_modes_has_a_row(result):
    """More than a byte can number, with moments of their own."""
    draws = np.arange(result.energy.size).reshape(result.energy.shape) % 300
    even = np.full(result.energy.shape, -np.log(result.energy.size))
    record = dataclasses.replace(result.record, draws=dataclasses.replace(result.record.draws, log_weight=even))
    table = mode_table(record, relabelled(result, draws, 300))
    assert "and 260 more" in str(table)
    assert len(table) == 300 and sum(mode.mass for mode in table) == pytest.approx(1)
    mine = draws == 299
    assert np.allclose(table[299].mean["x"], result.draws["x"][mine].mean(axis=0))


def test_draws_of_no_mode_are_the_last_row(result):
    label = np.zeros(result.energy.shape, int)
    label[0] = -1
    table = mode_table(result.record, relabelled(result, label, 1))
    assert [mode.label for mode in table] == [0, -1] and sum(mode.mass for mode in table) == pytest.approx(1)
    assert "rest" in str(table) and "rest" in table._repr_html_() and table[1].chains == 1
    assert table[1].energy == pytest.approx(-result.record.draws.log_density[0].max())
    light = np.where(result.weight < np.sort(result.weight.ravel())[5], -1, 0)
    assert result.weight[light < 0].sum() < SHOWN_REST
    assert [mode.label for mode in mode_table(result.record, relabelled(result, light, 1))] == [0]


def test_doubt_about_the_sorting_is_part_of_the_error(result):
    sure = relabelled(result, np.zeros(result.energy.shape), 1)
    plain = mode_table(result.record, sure)[0].mcse
    unsure = mode_table(result.record, sure._replace(doubt=np.array([0.02])))[0].mcse
    assert unsure == pytest.approx(np.hypot(plain, 0.02))


def test_plots_cope_with_draws_of_no_mode_and_with_many_modes(result):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from sahmc.plots import data, figures

    label = np.arange(result.energy.size).reshape(result.energy.shape) % 41 - 1
    record = dataclasses.replace(result.record, modes=relabelled(result, label, 40))
    found, mass = data.ranked_modes(record)
    assert np.array_equal(found, label) and len(mass) == 40
    assert data.chosen_coordinates(record, 2)[1].shape[2] == 2
    assert figures._colours(np.array([-1, 39])) == ["0.6", "0.6"]


def test_what_modes_differ_in_is_shown_first_and_the_rest_can_be_asked_for(result):
    table = result.assign_coords({"axis": ["east", "north"]}, {"x": ["axis"]}).modes()
    assert {table.names[i] for i in table.shown[:2]} == {"x[east]", "x[north]"}
    text = str(table)
    assert "x[east]" in text and max(map(len, text.splitlines())) <= 80 and "more, in to_dataframe()" in text
    only = result.modes(var_names="y")  # modes are alike in y: which of its numbers come first is chance
    assert {only.names[i][0] for i in only.shown} == {"y"} and "x[" not in str(only)
    assert only.names[only.shown[0]] in str(only) and "more, in to_dataframe()" in str(only)
    with pytest.raises(ValueError, match="'x', 'y'"):
        result.modes(var_names=["z"])


def test_the_lowest_point_is_told_in_the_variables_of_the_user(result):
    """The density there is that of the table, and no draw of the mode has a higher one."""
    table = result.modes()
    for mode in table:
        centre = min((-6.0, 4.0, 0.0), key=lambda x: abs(x - mode.mean["x"][0]))
        assert np.allclose(mode.minimum["x"], centre, atol=0.05) and np.allclose(mode.minimum["y"], 0, atol=0.05)
        assert mode.energy <= -result.log_density[result.mode_assignment.label == mode.label].max() + 1e-3
    frame = table.to_dataframe()
    assert np.allclose(frame["x[0]_minimum"], [mode.minimum["x"][0] for mode in table])
    assert np.allclose(frame["y[1, 1]_sd"], [mode.sd["y"][1, 1] for mode in table])


def test_modes_of_hardly_any_mass_are_left_out_and_counted(result):
    label = np.zeros(result.energy.shape, int)
    label.flat[np.argsort(result.weight.ravel())[:5]] = 1
    table = mode_table(result.record, relabelled(result, label, 3))
    assert [mode.label for mode in table] == [0] and table.left_out == 2
    assert "2 modes of hardly any mass are left out" in str(table) and "left out" in table._repr_html_()
    assert "-0.00" not in str(table)
    copy = pickle.loads(pickle.dumps(table))
    assert str(copy) == str(table) and isinstance(copy, type(table))
