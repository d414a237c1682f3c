"""Frozen strategy objects that are pytrees."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, dataclass_transform

import jax
from jaxtyping import PyTree

T = TypeVar("T")


def static(**kwargs: Any) -> Any:
    """Declare a field that is part of the compiled program, not of its data.

    ``kwargs`` are those of ``dataclasses.field``.
    """
    return dataclasses.field(metadata={"static": True}, **kwargs)


def converted(converter: Callable[[Any], object], **kwargs: Any) -> Any:
    """Declare a field whose value is checked and converted when the user builds the object.

    ``converter`` takes the user's value, raises ``ValueError`` if it is invalid, and returns the value to store. It
    must accept its own output, since ``dataclasses.replace`` passes that again. ``kwargs`` are those of
    ``dataclasses.field``.
    """
    return dataclasses.field(metadata={"converter": converter}, **kwargs)


@dataclass_transform(frozen_default=True, field_specifiers=(static, converted, dataclasses.field))
def strategy(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass that is registered as a pytree.

    Arguments are checked by converters and then by ``__post_init__``. Both run when the user builds the object, but not
    when JAX rebuilds it from leaves.
    """
    if "__post_init__" in vars(cls) or not hasattr(cls, "__post_init__"):  # else its parent's converts its fields too
        cls.__post_init__ = _converting(vars(cls).get("__post_init__"))  # type: ignore[attr-defined]
    cls = dataclasses.dataclass(frozen=True, eq=False)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    data = [f.name for f in fields if not f.metadata.get("static")]
    meta = [f.name for f in fields if f.metadata.get("static")]

    def flatten(obj: T) -> tuple[list[PyTree], tuple[object, ...]]:
        return [getattr(obj, n) for n in data], tuple(getattr(obj, n) for n in meta)

    def unflatten(aux: tuple[object, ...], leaves: Iterable[PyTree]) -> T:
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


def updated(obj: T, **changes: object) -> T:
    """Return a copy of a strategy with some fields changed, without any check.

    This is for traced values, which cannot be checked; elsewhere use ``dataclasses.replace``.
    """
    fields = {field.name: getattr(obj, field.name) for field in dataclasses.fields(obj)}  # type: ignore[arg-type]
    return assembled(type(obj), {**fields, **changes})


def assembled(cls: type[T], fields: Mapping[str, object]) -> T:
    """Return an object with these fields, without calling its ``__init__``."""
    obj = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(obj, name, value)
    return obj
