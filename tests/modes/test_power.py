"""What a run says it would have found is what it finds."""

import numpy as np
import pytest

from sahmc.modes import power, probes
from sahmc.modes.basins import BasinMap
from sahmc.modes.power import measure_power
from sahmc.modes.probes import Pictures

DIM, NEEDLES = 5, 300


class Wide(BasinMap):
    """A unit Gaussian, beside which there may be a needle; points that go downhill are remembered."""

    def __init__(self):
        self.scale, self.dtype, self.energy_fn, self.spent, self.fold = np.ones(DIM), np.float32, self, 0, None
        self.basin, self.chosen, self.needle = np.zeros(1, int), np.zeros((0, DIM)), None

    def look(self, points):
        """Return energies and gradients."""
        points = points.astype(float)
        energy, grad = 0.5 * np.sum(points**2, axis=1), points.copy()
        if self.needle is not None:
            inside, mine, slope = self.dominated(points)
            energy, grad = np.where(inside, mine, energy), np.where(inside[:, None], slope, grad)
        return energy, grad

    def dominated(self, points):
        centre, width, log_odds = self.needle
        mine = 0.5 * np.sum((points - centre) ** 2, axis=1) / width**2 + DIM * np.log(width) - log_odds
        return mine < 0.5 * np.sum(points**2, axis=1), mine, (points - centre) / width**2

    def energies(self, points):
        return self.look(points)[0]

    def settle(self, points, steps):
        self.chosen = np.concatenate([self.chosen, points])


@pytest.fixture
def wide(monkeypatch):
    picture = Pictures(np.ones(DIM), np.zeros((1, DIM)), np.zeros(1), np.eye(DIM)[None], np.zeros(1))
    monkeypatch.setattr(Pictures, "of", classmethod(lambda cls, basins: picture))
    for module in (power, probes):
        monkeypatch.setattr(module, "energies_and_gradients", lambda fn, points: fn.look(points))
    monkeypatch.setattr(probes, "counting", lambda basins: np.zeros(1, int))
    return Wide()


@pytest.mark.parametrize(("place", "width"), [("inside", 0.15), ("near", 0.15), ("near", 0.25), ("far", 0.35)])
def test_the_stated_probability_is_the_share_that_is_found(wide, place, width, monkeypatch):
    mass, rng = 0.3, np.random.default_rng(7)
    looks = probes.look_around(wide, 6000, seed=0)
    stated = measure_power(wide, looks, seed=0).at(mass, width, place)
    found = 0
    for seed in range(NEEDLES):
        centre = Pictures.of(wide).draw(1, place, rng)[0]
        wide.needle, wide.chosen = (centre, width, np.log(mass / (1 - mass))), np.zeros((0, DIM))
        probes.look_around(wide, 6000, seed=seed)
        found += bool(wide.dominated(wide.chosen)[0].any())
    error = np.sqrt(stated * (1 - stated) * (1 / NEEDLES + 1 / power.NEEDLES[place]))
    assert 0.05 < stated < 0.95 and abs(found / NEEDLES - stated) < 4 * error
    wide.needle = None
    monkeypatch.setattr(power, "DOMINATED", -2e4)  # as if a needle were seen from far outside its basin
    boast = measure_power(wide, looks, seed=0).at(mass, width, place)
    assert abs(found / NEEDLES - boast) > 4 * error


def test_wider_and_heavier_needles_are_easier(wide):
    found = measure_power(wide, probes.look_around(wide, 6000, seed=0), seed=0)
    by_width = [found.at(0.3, width, "near") for width in (0.13, 0.2, 0.3, 0.5)]
    by_mass = [found.at(mass, 0.2, "near") for mass in (0.01, 0.1, 0.9)]
    assert by_width == sorted(by_width) and by_mass == sorted(by_mass)
    assert by_width[-1] > 0.95 and found.at(0.3, 0.01) == 0.0


def test_needles_are_drowned_where_much_is_strange(wide, monkeypatch):
    """If points steeper than any needle are everywhere, none is chosen for being in one, and the run says so."""
    look = wide.look
    monkeypatch.setattr(wide, "look", lambda points: (look(points)[0], 1e4 * look(points)[1]))
    assert measure_power(wide, probes.look_around(wide, 6000, seed=0), seed=0).at(0.3, 0.25, "near") < 0.01


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_energies_may_be_larger_than_32_bits_hold(wide):
    (look,) = probes.look_around(wide, 6000, seed=0)
    energy = np.where(np.arange(len(look.energy)) % 2, 1e100, look.energy)
    assert 0 < measure_power(wide, [look._replace(energy=energy)], seed=0).at(0.3, 0.25, "near") <= 1
