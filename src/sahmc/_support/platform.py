"""The platform on which a program being traced will run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Bool, PyTree


def on_accelerator() -> bool:
    """Tell whether JAX's default device is a GPU or TPU, where loops and branches are slow.

    It is called during tracing; ``jit`` traces again when the default device changes.
    """
    device = getattr(jax.config, "jax_default_device", None)
    platform = jax.default_backend() if device is None else getattr(device, "platform", device)
    return platform != "cpu"


def placed(values: ArrayLike | Sequence[float], dtype: DTypeLike | None = None) -> jax.Array:
    """Return an array on the default device. Unlike ``jnp.asarray``, this compiles no program for each shape."""
    return jax.device_put(np.asarray(values, dtype))


def when(condition: Bool[Array, ""] | bool, make: Callable[[], PyTree], otherwise: PyTree) -> PyTree:
    """Return ``make()`` if the condition holds, otherwise ``otherwise``, without calling ``make``.

    An accelerator computes both, which costs less than waiting for the condition.
    """
    if on_accelerator():
        return jax.tree.map(partial(jnp.where, condition), make(), otherwise)
    return jax.lax.cond(condition, make, lambda: otherwise)
