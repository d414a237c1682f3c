"""Frozen strategies: checked when a person builds them, and not when JAX does."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from sahmc._support.pytree import converted, static, strategy, updated


def positive(value):
    if not value > 0:
        raise ValueError("must be positive")
    return jnp.asarray(value, float)


@strategy
class Ball:
    radius: float = converted(positive)
    name: str = static(default="ball")
    checks: int = 0

    def __post_init__(self):
        if self.name == "cube":
            raise ValueError("no ball")


@strategy
class Shell(Ball):
    inner: float = converted(positive, default=0.5)


def test_fields_are_converted_and_checked():
    assert isinstance(Ball(2).radius, jax.Array)
    for bad in (lambda: Ball(-1), lambda: Ball(1, "cube"), lambda: dataclasses.replace(Ball(1), radius=-1)):
        with pytest.raises(ValueError, match=r"positive|no ball"):
            bad()


def test_a_subclass_converts_its_own_fields_and_those_of_its_parent():
    made = Shell(3, inner=1)
    assert isinstance(made.radius, jax.Array) and isinstance(made.inner, jax.Array)
    for bad in (lambda: Shell(-3), lambda: Shell(3, inner=0), lambda: Shell(3, "cube")):
        with pytest.raises(ValueError, match=r"positive|no ball"):
            bad()


def test_traced_values_are_not_checked():
    @jax.jit
    def shrink(ball, by):
        return updated(ball, radius=ball.radius - by)

    assert float(shrink(Ball(1.0), 3.0).radius) == -2.0


def test_an_update_keeps_all_other_fields():
    """Also those that are not arguments of the class; a field is never dropped without a word."""
    made = updated(Shell(3, checks=7), radius=4)
    assert (made.radius, float(made.inner), made.checks, made.name) == (4, 0.5, 7, "ball")
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.radius = 1
