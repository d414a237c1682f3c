"""The public address of what users of NumPyro import: ``from sahmc.numpyro import SAHMC, from_numpyro, resample``."""

from sahmc._support.validate import require_library

require_library("numpyro")

from sahmc.interop.numpyro import SAHMC, resample  # noqa: E402
from sahmc.models.numpyro import from_numpyro  # noqa: E402

__all__ = ["SAHMC", "from_numpyro", "resample"]
