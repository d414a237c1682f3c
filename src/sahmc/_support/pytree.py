"""Frozen strategy objects that JAX can carry."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


def static(**kwargs: Any) -> Any:
    """A field that is part of the compiled program rather than of its data."""
    return dataclasses.field(metadata={"static": True}, **kwargs)


@dataclass_transform(frozen_default=True, field_specifiers=(static, dataclasses.field))
def strategy(cls: type[T]) -> type[T]:
    """A frozen dataclass registered as a pytree.

    ``__post_init__`` runs when a person builds the object, and not when JAX rebuilds it from leaves, so it is the
    place to check arguments.
    """
    cls = dataclasses.dataclass(frozen=True, eq=False)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    data = [f.name for f in fields if not f.metadata.get("static")]
    meta = [f.name for f in fields if f.metadata.get("static")]

    def flatten(obj: T) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(obj, n) for n in data], tuple(getattr(obj, n) for n in meta)

    def unflatten(aux: tuple[Any, ...], leaves: Any) -> T:
        obj = object.__new__(cls)
        for name, value in [*zip(data, leaves, strict=True), *zip(meta, aux, strict=True)]:
            object.__setattr__(obj, name, value)
        return obj

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    return cls
