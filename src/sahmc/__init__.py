"""Draws from multimodal posteriors: Stochastic Approximation Hamiltonian Monte Carlo on JAX.

The public names are listed in ``__init__.pyi``. Each is imported when it is first used, so that ``sahmc --help`` need
not wait for JAX.
"""

import lazy_loader

from sahmc._support import front_door

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__.remove("numpyro")  # a library that must be installed; a star import need not have it
front_door.open_with(__getattr__)
