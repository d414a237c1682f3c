"""What ArviZ before 1.0, which cannot read an ``xarray.DataTree``, has to say when it is given one."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import xarray as xr


class RunTree(xr.DataTree):
    """A tree that says what to do, where ArviZ before 1.0 would take it for an array."""

    __slots__ = ()

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError(
            f"ArviZ {version('arviz')} reads an InferenceData; got an xarray.DataTree. To fix it, call "
            "to_inferencedata() in place of to_datatree(); or use arviz_stats and arviz_plots, which read both, or "
            "pip install 'arviz>=1'."
        )


def readable(tree: xr.DataTree) -> xr.DataTree:
    """Return a tree that has a word for ArviZ before 1.0, where that is installed; elsewhere the tree itself."""
    try:
        old = version("arviz").startswith("0.")
    except PackageNotFoundError:
        old = False
    return RunTree(tree.to_dataset(), children=dict(tree.children)) if old else tree
