"""Frozen strategy objects that JAX can carry."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


def static(**kwargs: Any) -> Any:
    """Declare a field that is part of the compiled program rather than of its data.

    ``kwargs`` are those of ``dataclasses.field``.
    """
    return dataclasses.field(metadata={"static": True}, **kwargs)


def converted(converter: Callable[[Any], Any], **kwargs: Any) -> Any:
    """Declare a field whose value is checked, and turned into what is stored, when a person builds the object.

    ``converter`` takes what was passed, raises ``ValueError`` if it will not do, and returns what the object holds.
    It must take what it returns, since ``dataclasses.replace`` passes that again. ``kwargs`` are those of
    ``dataclasses.field``.
    """
    return dataclasses.field(metadata={"converter": converter}, **kwargs)


@dataclass_transform(frozen_default=True, field_specifiers=(static, converted, dataclasses.field))
def strategy(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass that is registered as a pytree.

    Converters, and after them ``__post_init__``, run when a person builds the object, and not when JAX rebuilds it from
    leaves: they are the place to check arguments.
    """
    if "__post_init__" in vars(cls) or not hasattr(cls, "__post_init__"):  # else its parent's converts its fields too
        cls.__post_init__ = _converting(vars(cls).get("__post_init__"))  # type: ignore[attr-defined]
    cls = dataclasses.dataclass(frozen=True, eq=False)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    data = [f.name for f in fields if not f.metadata.get("static")]
    meta = [f.name for f in fields if f.metadata.get("static")]

    def flatten(obj: T) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(obj, n) for n in data], tuple(getattr(obj, n) for n in meta)

    def unflatten(aux: tuple[Any, ...], leaves: Any) -> T:
        return assembled(cls, dict([*zip(data, leaves, strict=True), *zip(meta, aux, strict=True)]))

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    return cls


def _converting(check: Callable[[Any], None] | None) -> Callable[[Any], None]:
    """Return a ``__post_init__`` that runs the converters of all fields, then ``check``."""

    def post_init(self: Any) -> None:
        for field in dataclasses.fields(self):
            if "converter" in field.metadata:
                object.__setattr__(self, field.name, field.metadata["converter"](getattr(self, field.name)))
        if check is not None:
            check(self)

    return post_init


def updated(obj: T, **changes: Any) -> T:
    """Return a copy of a strategy with some fields changed and nothing checked.

    For values that are traced, which no check can look at; elsewhere use ``dataclasses.replace``.
    """
    fields = {field.name: getattr(obj, field.name) for field in dataclasses.fields(obj)}  # type: ignore[arg-type]
    return assembled(type(obj), {**fields, **changes})


def assembled(cls: type[T], fields: dict[str, Any]) -> T:
    """Return an object with these fields, without a call of its ``__init__``."""
    obj = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(obj, name, value)
    return obj
