"""Draws from multimodal posteriors: Stochastic Approximation Hamiltonian Monte Carlo on JAX.

The public names are listed in ``__init__.pyi``. Each is imported when it is first used, so that ``sahmc --help`` need
not wait for JAX.
"""

import lazy_loader

from sahmc._support import registry

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
for module in ("numpyro", "testing"):  # a star import need not load them, nor what they import
    __all__.remove(module)
registry.open_with(__getattr__)
