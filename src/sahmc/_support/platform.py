"""Where a program that is being traced is to run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool


def on_accelerator() -> bool:
    """Tell whether programs run on a GPU or TPU, by JAX's default device: loops and branches are slow there.

    It is asked while a program is traced; ``jit`` traces anew where the default device changes.
    """
    device = getattr(jax.config, "jax_default_device", None)
    platform = jax.default_backend() if device is None else getattr(device, "platform", device)
    return platform != "cpu"


def when(condition: Bool[Array, ""] | bool, make: Callable[[], Any], otherwise: Any) -> Any:
    """Return what ``make`` makes if the condition holds, else ``otherwise``: it is then not made at all.

    On an accelerator it is made all the same, which costs less than to wait for the condition.
    """
    if on_accelerator():
        return jax.tree.map(partial(jnp.where, condition), make(), otherwise)
    return jax.lax.cond(condition, make, lambda: otherwise)
