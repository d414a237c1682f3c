"""Reproduction of the paper: one file per experiment, with the settings, the published numbers and ``run``."""

from __future__ import annotations

NAMES = {
    "mixture": "table 1 and figure 1: three Gaussians in the plane",
    "eight-modes": "tables 2 and 3: eight modes in 3 to 11 dimensions",
    "sensor": "figure 2: sensor network localisation",
    "mlp": "table 4 and figure 3: a network on simulated data",
    "pima": "table 5: a network on the Pima data (give the file with --data)",
    "rmhmc": "closing remark: Riemannian HMC",
    "tilts": "the three tilts on all of the above, at equal gradients",
    "two-stage": "closing remark: the partition from a short run of HMC",
}
