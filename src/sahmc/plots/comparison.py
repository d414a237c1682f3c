"""The figure of a comparison of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sahmc._support.validate import require
from sahmc.plots.figures import COLD, WARM, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 30.0
"""The maximum range in nats of a linear axis; a wider one is compressed away from 0."""


def draw_comparison(
    names: Sequence[str],
    evidence: tuple[np.ndarray, np.ndarray],
    loo: tuple[np.ndarray, np.ndarray] | None,
    words: Sequence[str],
    ax: Axes | None = None,
) -> Axes:
    """Draw the difference of each model from the best, one row per model, with ``words`` beside it.

    ``evidence`` holds differences of the log evidence and their standard errors. ``loo`` holds the same for the
    cross-validated log density, or is None. Bars show two standard errors. Return the axes: ``ax``, or new ones if
    None.
    """
    must = "ax must be Matplotlib's axes"
    require(ax is None or hasattr(ax, "errorbar"), must, ax, "pass plt.gca(), or leave it out")
    rows = np.arange(len(names))
    if ax is None:
        ax = pyplot().subplots(figsize=(6.5, 1.6 + 0.5 * len(names)), layout="constrained")[1]
    style: dict[str, Any] = {"capsize": 3, "linewidth": 1.5, "linestyle": "none"}
    shift = 0.0 if loo is None else 0.12
    ax.errorbar(evidence[0], rows - shift, xerr=2 * evidence[1], fmt="o", color=COLD, label="log evidence", **style)
    if loo is not None:
        behind = "leave-one-out (elpd)"
        ax.errorbar(loo[0], rows + shift, xerr=2 * loo[1], fmt="s", color=WARM, mfc="white", label=behind, **style)
        ax.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    if max(-part[0].min() for part in (evidence, loo) if part is not None) > WIDE:
        ax.set_xscale("symlog", linthresh=3)
    ax.axvline(0, color="0.85", linewidth=1, zorder=0)
    ax.set_yticks(rows, names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    for row, text in zip(rows, words, strict=True):
        ax.annotate(text, (1.01, float(row)), xycoords=("axes fraction", "data"), va="center", fontsize=9)
    ax.annotate("probability", (1.01, 1.01), xycoords="axes fraction", va="bottom", fontsize=9, color="0.35")
    ax.set_xlabel("nats behind the best model, ± 2 standard errors", fontsize=10)
    ax.tick_params(labelsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
