"""The draws of a pass as a record, and the evidence by bridge sampling from them."""

from __future__ import annotations

import jax
import numpy as np

from sahmc.engine.move import Draw
from sahmc.models.positions import Unpacker
from sahmc.results.records import DrawRecord, RunRecord
from sahmc.tilt.bridge import bridge_to_reference
from sahmc.tilt.importance import log_normalise
from sahmc.warmup.reference import Beside


def draw_record(draws: Draw, unpack: Unpacker | None, normalise: bool) -> DrawRecord:
    """Return draws (draw, chain, ...) as a record (chain, draw, ...); positions on disk stay there.

    ``unpack`` turns positions into variables; it is None if ``keep`` has replaced them. ``normalise`` makes the weights
    sum to 1.
    """
    position = jax.tree.map(lambda x: np.swapaxes(x, 0, 1), draws.position)
    rest = jax.tree.map(lambda x: np.ascontiguousarray(np.swapaxes(x, 0, 1)), draws._replace(position=None))
    leaves, structure = jax.tree.flatten(position if unpack is None else unpack.all(position))
    return DrawRecord(
        leaves=tuple(leaves),
        structure=structure,
        energy=rest.energy,
        log_density=-rest.total_energy,
        region=rest.region,
        log_weight=log_normalise(rest.log_weight) if normalise else rest.log_weight,
        acceptance_rate=rest.acceptance_rate,
        diverging=rest.diverging,
        tree_depth=rest.tree_depth,
    )


def bridge(record: RunRecord, beside: Beside, positions: np.ndarray) -> tuple[float, float]:
    """Return the log integral of the density and its error, by a bridge to the reference ``beside`` the ladder.

    ``positions`` are the draws as vectors, (chain, draw, dim).
    """
    low = -np.asarray(record.draws.log_density, float) - beside.reference.energies(positions)
    found = bridge_to_reference(low, record.weight, beside.high)
    return float(found.mean), float(found.mcse)
