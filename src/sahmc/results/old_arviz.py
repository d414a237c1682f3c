"""Helpful errors for users who pass ArviZ an object it cannot read: a result, or a tree before ArviZ 1.0."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from types import FrameType
from typing import NoReturn

import numpy as np
import xarray as xr

ARVIZ = ("arviz", "arviz_base", "arviz_stats", "arviz_plots")
"""The packages of ArviZ."""


class RunTree(xr.DataTree):
    """A tree that raises a helpful error when ArviZ before 1.0 tries to read it as an array."""

    __slots__ = ()

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise ValueError(
            f"ArviZ {version('arviz')} reads an InferenceData; got an xarray.DataTree. To fix it, call "
            "to_inferencedata() in place of to_datatree(); or use arviz_stats and arviz_plots, which read both, or "
            "pip install 'arviz>=1'."
        )


def readable(tree: xr.DataTree) -> xr.DataTree:
    """Return the tree; if ArviZ before 1.0 is installed, as a ``RunTree`` with a helpful error."""
    try:
        old = version("arviz").startswith("0.")
    except PackageNotFoundError:
        old = False
    return RunTree(tree.to_dataset(), children=dict(tree.children)) if old else tree


def as_object(result: object) -> np.ndarray:
    """Return a result as an array of one object, for NumPy; raise ``TypeError`` if ArviZ is the caller."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] not in ARVIZ:
        frame = frame.f_back
    if frame is not None:
        raise TypeError(
            "ArviZ reads a tree of draws; got a sahmc.Result. To fix it, pass result.to_datatree(), or "
            "result.to_inferencedata() to ArviZ before 1.0."
        )
    array = np.empty((), object)
    array[()] = result
    return array
