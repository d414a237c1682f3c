"""Rejections between levels are those that the energies there would give."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

import sahmc
from sahmc.results.evidence import PAIRS, rejections


def with_normal_energies(record, sd, gap=None):
    """Return the record with energies of a density for which they are normal at every level."""
    betas = np.asarray(record.partition.betas, float)
    region = np.arange(record.draws.region.size).reshape(record.draws.region.shape) % len(betas)
    noise = np.random.default_rng(0).normal(size=region.shape)
    energy = -(sd**2) * betas[region] + sd * noise
    if gap is not None:
        energy += np.where(region <= gap, -1e4, 0.0)
    draws = dataclasses.replace(record.draws, region=region, energy=energy)
    return dataclasses.replace(record, draws=draws), betas


def test_they_are_those_of_normal_energies(result):
    record, betas = with_normal_energies(result.record, sd=4.0)
    found, truth = rejections(record), 1 - 2 * stats.norm.cdf(np.diff(betas) * 4.0 / np.sqrt(2))
    few = record.draws.energy.size / len(betas)
    assert (np.abs(found - truth) < 4 * 0.5 * np.sqrt(1 / PAIRS + 1 / few)).all()
    assert not (np.abs(2 * found - truth) < 4 * 0.5 * np.sqrt(1 / PAIRS + 1 / few)).all()


def test_a_gap_is_seen_where_it_is(result):
    record, _ = with_normal_energies(result.record, sd=4.0, gap=2)
    found = rejections(record)
    assert found[2] > 0.99 and (np.delete(found, 2) < 0.9).all()
    empty = dataclasses.replace(record, draws=dataclasses.replace(record.draws, region=0 * record.draws.region))
    assert np.isnan(rejections(empty)).all()


def test_other_tilts_have_no_ladder(set2):
    run = sahmc.sample(set2.log_density, np.zeros(2, "f4"), draws=5, tune=5, chains=2, tilt="none", progressbar=False)
    with pytest.raises(ValueError, match='tilt="tempered"'):
        run.rejections()
