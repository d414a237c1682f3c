"""A bounded sample stands for all: it has its size, its order, and no favourites."""

import numpy as np
import pytest

from sahmc._support.thinning import MOST_CHAINS, some_chains, some_of


@pytest.mark.parametrize(("num", "most"), [(0, 5), (5, 5), (6, 5), (2048, 1024), (16384, 1024), (10**6, 1000)])
def test_it_is_bounded_and_in_order(num, most):
    found = some_of(num, most)
    assert 0.6 * min(num, most) <= len(found) <= most and (np.diff(found) > 0).all()
    assert num > most or np.array_equal(found, np.arange(num))
    assert np.array_equal(found, some_of(num, most)) and (num == 0 or 0 <= found[0] <= found[-1] < num)


@pytest.mark.parametrize("modes", [2, 3, 8, 16])
def test_chains_dealt_over_modes_are_met_evenly(modes):
    """Every second of 2048 chains would be in every second mode."""
    share = np.bincount(some_of(2048, 1024) % modes, minlength=modes) / len(some_of(2048, 1024))
    assert np.abs(share - 1 / modes).max() < 4 * np.sqrt(1 / modes / 1024)
    assert len(set(np.arange(0, 2048, 2) % modes)) < modes or modes % 2


def test_few_chains_are_all_there():
    values = np.arange(3 * (MOST_CHAINS + 1)).reshape(3, -1)
    assert some_chains(values[:, :-1]) is not None and np.shares_memory(some_chains(values[:, :-1]), values)
    assert some_chains(values).shape[1] < values.shape[1] and set(some_chains(values)[0]) <= set(values[0])
