"""Plotting methods of a result."""

from __future__ import annotations

from typing import Any

from sahmc._support.registry import public


class PlotMethods:
    """The plotting methods; each calls the function of the same name in ``sahmc``."""

    def plot_overview(self, *, var_names: Any = None, mode: int | None = None) -> Any:
        """Plot six panels of the run in one figure; see ``sahmc.plot_overview``."""
        return public("plot_overview")(self, var_names=var_names, mode=mode)

    def plot_pair(
        self, ax: Any = None, *, num: int | None = None, var_names: Any = None, mode: int | None = None
    ) -> Any:
        """Plot posterior draws of pairs of quantities; see ``sahmc.plot_pair``."""
        return public("plot_pair")(self, ax, num=num, var_names=var_names, mode=mode)

    def plot_marginal(self, ax: Any = None, *, var_names: Any = None, mode: int | None = None) -> Any:
        """Plot the density of single quantities; see ``sahmc.plot_marginal``."""
        return public("plot_marginal")(self, ax, var_names=var_names, mode=mode)

    def plot_energy(self, ax: Any = None, *, chains: int = 4, mode: int | None = None) -> Any:
        """Plot the energies of some chains over time; see ``sahmc.plot_energy``."""
        return public("plot_energy")(self, ax, chains=chains, mode=mode)

    def plot_visits(self, ax: Any = None) -> Any:
        """Plot the visits to each level; see ``sahmc.plot_visits``."""
        return public("plot_visits")(self, ax)

    def plot_theta(self, ax: Any = None) -> Any:
        """Plot the path of theta; see ``sahmc.plot_theta``."""
        return public("plot_theta")(self, ax)

    def plot_round_trips(self, ax: Any = None, *, chains: int = 3) -> Any:
        """Plot the levels of some chains over time; see ``sahmc.plot_round_trips``."""
        return public("plot_round_trips")(self, ax, chains=chains)

    def plot_ladder(self, ax: Any = None) -> Any:
        """Plot the location of the barrier on the ladder; see ``sahmc.plot_ladder``."""
        return public("plot_ladder")(self, ax)
