"""Pictures. Each computes its arrays in one function and draws them in another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sahmc.barrier import EnergyBarrier

BOLD = {"textcoords": "offset points", "ha": "center", "fontsize": 15, "fontweight": "bold"}
PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}


class Curve(NamedTuple):
    """Energy above that of x1 along a path, and where it is highest."""

    distance: np.ndarray
    energy: np.ndarray
    top: int

    @property
    def peak(self) -> tuple[float, float]:
        return float(self.distance[self.top]), float(self.energy[self.top])


def barrier_curves(barrier: EnergyBarrier) -> list[Curve]:
    """Before the tilt and, if there is one, after it: both begin at 0 and rise to their heights."""
    both = [barrier.energy, barrier.tilted_energy]
    return [Curve(barrier.distance, e - e[0], int(np.argmax(e))) for e in both if e is not None]


def plot_barrier(barrier: EnergyBarrier, ax: Any = None) -> Any:
    """Draw the energy along the path from x1 to x2, before and after the tilt, on matplotlib axes, and return these."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ValueError("the picture needs matplotlib; install it with: pip install 'sahmc[plots]'") from error

    if ax is None:
        ax = plt.subplots(figsize=(8, 4.8), layout="constrained")[1]
    curves = barrier_curves(barrier)
    looks = (("U", "#c2571a"), ("U + Θ(U), after the tilt", "#1f6f8b"))
    for curve, (name, colour) in zip(curves, looks, strict=False):
        x, height = curve.peak
        ax.plot(curve.distance, curve.energy, color=colour, linewidth=2.5, label=name)
        ax.plot(x, height, "o", color=colour, markersize=9)
        ax.vlines(x, 0, height, color=colour, linewidth=1.2, linestyle="dotted", zorder=1)
        ax.annotate(f"{height:.1f}", (x, height), (0, 11), color=colour, bbox=PAPER, **BOLD)
    ax.axhline(0, color="0.75", linewidth=1, zorder=0)
    for name, end in (("x1", 0), ("x2", -1)):
        ax.annotate(name, (curves[0].distance[end], curves[0].energy[end]), (0, -24), color="0.3", **BOLD)
    low, high = (pick([pick(curve.energy) for curve in curves]) for pick in (min, max))
    ax.set_ylim(low - 0.13 * (high - low or 1), high + 0.15 * (high - low or 1))
    ax.set_xlabel("distance along the path" + ("" if barrier.converged else " (not converged)"), fontsize=14)
    ax.set_ylabel("energy above x1, nats", fontsize=14)
    ax.tick_params(labelsize=12)
    ax.spines[["top", "right"]].set_visible(False)
    if len(curves) > 1:
        ax.legend(fontsize=13, frameon=False)
    return ax
