"""What kernels that add something to the moves of another share: all that a run asks of them is that kernel's."""

from __future__ import annotations

from typing import Any

from sahmc._support.pytree import updated
from sahmc.hamiltonian.spread import Spread
from sahmc.kernels.base import Kernel


class Around(Kernel):
    """A kernel around another."""

    kernel: Kernel
    """The kernel whose moves it makes."""

    @property
    def step_size(self) -> Any:
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
        """The number of moves of ``kernel`` that make one iteration of ``sample``."""
        return self.kernel.moves

    def describe(self) -> dict[str, Any]:
        """Return what a person would want to know of ``kernel``."""
        return self.kernel.describe()

    def tuned(self, step_size: Any, spread: Spread) -> Kernel:
        """Return this kernel with everything that ``kernel`` left open filled in."""
        return updated(self, kernel=self.kernel.tuned(step_size, spread))


def plain(kernel: Kernel) -> Kernel:
    """Return the kernel in the middle, whatever is around it."""
    while isinstance(kernel, Around):
        kernel = kernel.kernel
    return kernel
