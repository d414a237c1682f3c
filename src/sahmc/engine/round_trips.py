"""Round trips between bottom and top. They show that chains mix, which a flat histogram of visits does not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Int

from sahmc._support.platform import placed


class RoundTrips(NamedTuple):
    """The round trips of each chain, from the bottom to the top and back."""

    trips: Int[Array, " chains"]
    """The number of trips made."""
    from_bottom: Bool[Array, " chains"]
    """Whether the chain has ever been at the bottom."""
    reached_top: Bool[Array, " chains"]
    """Whether it has been at the top since it was last at the bottom."""


def init_round_trips(chains: int) -> RoundTrips:
    """Return the round trips of chains that have not moved yet."""
    no = placed(np.zeros(chains, bool))
    return RoundTrips(placed(np.zeros(chains, np.int32)), no, no)


def update_round_trips(
    trips: RoundTrips, at_bottom: Bool[Array, " chains"], at_top: Bool[Array, " chains"]
) -> RoundTrips:
    """Return the round trips after a move of every chain; a trip goes from the bottom to the top and back.

    ``at_bottom`` and ``at_top`` say which chains are there now.
    """
    home = at_bottom & trips.reached_top
    reached_top = (trips.reached_top | (trips.from_bottom & at_top)) & ~home
    return RoundTrips(trips.trips + home, trips.from_bottom | at_bottom, reached_top)
