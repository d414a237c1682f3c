"""The base class of kernels that wrap another one: settings and tuning are those of the wrapped kernel."""

from __future__ import annotations

from jax.typing import ArrayLike

from sahmc._support.pytree import updated
from sahmc._support.validate import Given
from sahmc.hamiltonian.spread import Spread
from sahmc.kernels.base import Kernel


class Around(Kernel):
    """A kernel that wraps another."""

    kernel: Kernel
    """The wrapped kernel, which makes the ordinary moves."""

    @property
    def step_size(self) -> Given:
        """The step size of ``kernel``."""
        return self.kernel.step_size

    @property
    def rung_moves(self) -> int:  # type: ignore[override]
        """The moves of ``kernel`` at one temperature of the climb."""
        return self.kernel.rung_moves

    @property
    def max_tree_depth(self) -> int:  # type: ignore[override]
        """The largest tree depth of ``kernel``."""
        return self.kernel.max_tree_depth

    @property
    def moves(self) -> int:
        """The number of moves of ``kernel`` in one iteration of ``sample``."""
        return self.kernel.moves

    def describe(self) -> dict[str, object]:
        """Return the settings of ``kernel`` for display."""
        return self.kernel.describe()

    def tuned(self, step_size: ArrayLike, spread: Spread) -> Kernel:
        """Return this kernel with all open settings of ``kernel`` filled in."""
        return updated(self, kernel=self.kernel.tuned(step_size, spread))

    def with_small_steps(self, share: float) -> Kernel:
        """Return this kernel with this share of moves with smaller steps in ``kernel``."""
        return updated(self, kernel=self.kernel.with_small_steps(share))


def plain(kernel: Kernel) -> Kernel:
    """Return the innermost kernel, without its wrappers."""
    while isinstance(kernel, Around):
        kernel = kernel.kernel
    return kernel
