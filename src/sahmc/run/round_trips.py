"""Round trips between the bottom and the top: a flat visit histogram proves nothing, these do."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


class RoundTrips(NamedTuple):
    """Trips bottom - top - bottom made by each chain; whether it has been at the bottom, and since then at the top."""

    trips: Int[Array, " chains"]
    from_bottom: Bool[Array, " chains"]
    reached_top: Bool[Array, " chains"]


def init_round_trips(chains: int) -> RoundTrips:
    no = jnp.zeros(chains, bool)
    return RoundTrips(jnp.zeros(chains, jnp.int32), no, no)


def update_round_trips(
    trips: RoundTrips, region: Int[Array, " chains"], bottom: Int[Array, ""] | int, top: Int[Array, ""] | int
) -> RoundTrips:
    at_bottom, at_top = region <= bottom, (region >= top) & (top > bottom)
    home = at_bottom & trips.reached_top
    reached_top = (trips.reached_top | (trips.from_bottom & at_top)) & ~home
    return RoundTrips(trips.trips + home, trips.from_bottom | at_bottom, reached_top)
